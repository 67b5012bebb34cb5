//! Claims as operators look at them: listed, counted, shown.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::limits::{CLAIMS_PROJECT, CLAIMS_SUBJECT, OPERATION, PAGE_RECORDS, SLUG, SPAN, UTC};
use crate::text::{Epoch, OperationId, Time};
use crate::words::{
    ClaimOrder, DoubtReason, OutcomeKind, Ran, Rerun, SettledBy, Sharing, Source, State, TimelineSource,
};

/// Which claims are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClaimsQuery {
    /// Of this tenant.
    #[schemars(regex(pattern = SLUG))]
    pub tenant: Option<String>,
    /// Of this project.
    #[schemars(regex(pattern = CLAIMS_PROJECT))]
    pub project: Option<String>,
    /// Of this subject, such as `service:ci`.
    #[schemars(regex(pattern = CLAIMS_SUBJECT))]
    pub subject: Option<String>,
    /// On this operation, by any name that it had.
    #[schemars(regex(pattern = OPERATION))]
    pub operation: Option<String>,
    /// With this key.
    pub key: Option<String>,
    /// In this state.
    pub state: Option<State>,
    /// First granted before this time (UTC).
    #[schemars(extend("pattern" = UTC))]
    pub opened_before: Option<Time>,
    /// First granted at least this long ago: `15m`, `24h`, `7d`.
    #[schemars(regex(pattern = SPAN))]
    pub age: Option<String>,
    /// First granted at or after this time (UTC).
    #[schemars(extend("pattern" = UTC))]
    pub opened_after: Option<Time>,
    /// In doubt for this reason.
    pub doubt: Option<DoubtReason>,
    /// With an outcome of this kind.
    pub outcome: Option<OutcomeKind>,
    /// In which order: shelf by shelf and of each the oldest first, or the newest of all shelves first.
    pub order: Option<ClaimOrder>,
    /// At most so many records (1 to 1000, default 50). A page may hold fewer and still have a next one.
    #[schemars(range(min = 1, max = PAGE_RECORDS))]
    pub limit: Option<usize>,
    /// Where the page starts: `next` of the page before.
    pub after: Option<String>,
}

/// Which claims are looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LookupQuery {
    /// Of this tenant.
    #[schemars(regex(pattern = SLUG))]
    pub tenant: String,
    /// Of this project.
    #[schemars(regex(pattern = SLUG))]
    pub project: String,
    /// Of this subject, such as `service:ci`.
    #[schemars(regex(pattern = CLAIMS_SUBJECT))]
    pub subject: String,
    /// With this key.
    pub key: String,
    /// On this operation, by any name that it had; without it, on all that the project has claims on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", regex(pattern = OPERATION))]
    pub operation: Option<String>,
}

/// The claims that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Found {
    /// The claims.
    pub claims: Vec<Claim>,
    /// How many records were looked at.
    pub looked_at: usize,
}

/// Claims that may be of the same deed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Related {
    /// With the same key of the same caller, on other operations.
    pub same_key: Vec<Claim>,
    /// With the same request under another key, at most an hour before or after.
    pub same_request: Vec<Claim>,
    /// How many records were looked at.
    pub looked_at: usize,
}

/// What happened to a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Timeline {
    /// What is known, the oldest first.
    pub events: Vec<TimelineEvent>,
    /// Since when this process remembers requests; null where it remembers none.
    pub seen_since: Option<Time>,
}

/// Something that happened to a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimelineEvent {
    /// When.
    pub at: Time,
    /// Who knows of it.
    pub source: TimelineSource,
    /// What it is: a state, or the verb of a decision.
    pub kind: String,
    /// The same in a sentence.
    pub text: String,
    /// More about it.
    pub more: Option<String>,
    /// Who did it.
    pub actor: Option<String>,
}

/// Which shelves are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ShelvesQuery {
    /// Of this tenant.
    #[schemars(regex(pattern = SLUG))]
    pub tenant: Option<String>,
    /// Of this project.
    #[schemars(regex(pattern = CLAIMS_PROJECT))]
    pub project: Option<String>,
    /// At most so many (1 to 1000, default 50).
    #[schemars(range(min = 1, max = PAGE_RECORDS))]
    pub limit: Option<usize>,
    /// Where the page starts: `next` of the page before.
    pub after: Option<String>,
}

/// One page of shelves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Shelves {
    /// The shelves, by name.
    pub shelves: Vec<Shelf>,
    /// Where the next page starts; null at the end.
    pub next: Option<String>,
}

/// The claims of one tenant, project and operation, by state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Shelf {
    /// The tenant.
    pub tenant: String,
    /// The project.
    pub project: String,
    /// The operation, by its first name.
    pub operation: String,
    /// Those that run, or may run.
    pub held: u64,
    /// Those with an outcome.
    pub settled: u64,
    /// Those of which it is not known whether the work happened.
    pub in_doubt: u64,
    /// Those whose next request runs.
    pub released: u64,
}

/// Which claims are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CountsQuery {
    /// Of this tenant.
    #[schemars(regex(pattern = SLUG))]
    pub tenant: Option<String>,
    /// Of this project.
    #[schemars(regex(pattern = CLAIMS_PROJECT))]
    pub project: Option<String>,
    /// On this operation, by any name that it had.
    #[schemars(regex(pattern = OPERATION))]
    pub operation: Option<String>,
}

/// Every other condition of a list is known by its name, and refused with what can be counted.
impl<'de> Deserialize<'de> for CountsQuery {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut asked = ClaimsQuery::deserialize(deserializer)?;
        let (tenant, project, operation) =
            (asked.tenant.take(), asked.project.take(), asked.operation.take());
        match asked == ClaimsQuery::default() {
            true => Ok(CountsQuery { tenant, project, operation }),
            false => Err(serde::de::Error::custom(
                "claims are counted by tenant, project and operation; every state is told",
            )),
        }
    }
}

/// How a claim is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClaimQuery {
    /// Tell the kept answer, too. Needs the role operate.
    pub outcome: bool,
}

/// One page of claims.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Claims {
    /// The claims, in the order that was asked for.
    pub claims: Vec<Claim>,
    /// Where the next page starts; null at the end.
    pub next: Option<String>,
    /// Claims that cannot be read, perhaps among those that were asked for. They are passed by.
    #[serde(default)]
    pub damaged: Vec<Damaged>,
    /// How many records were looked at for this page.
    #[serde(default)]
    pub looked_at: usize,
}

/// A claim that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Damaged {
    /// The operation id, or where the record lies.
    pub id: String,
    /// What is wrong with it.
    pub error: String,
}

/// The ledger's record of an operation, with what depends on its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    /// The public id of the operation, which its callers see in `x-operation-id`.
    pub operation_id: OperationId,
    /// Whose it is.
    pub tenant: String,
    /// In which project.
    pub project: String,
    /// Who asked.
    pub subject: String,
    /// What was called.
    pub operation: String,
    /// The caller's key.
    pub key: String,
    /// How the key was found.
    pub source: Source,
    /// Who shares the answer.
    pub scope: Sharing,
    /// The epoch that the claim has.
    pub epoch: Epoch,
    /// The same as one number, which the service gets as `x-operation-epoch`: the first number times 2^48, plus the second.
    #[schemars(regex(pattern = "^[0-9]+$"))]
    pub operation_epoch: String,
    /// What was asked, as a digest, and how it is made.
    pub fingerprint: Fingerprint,
    /// May the work run again when it is not known whether it ran?
    pub rerun: Rerun,
    /// First granted.
    pub opened_at: Time,
    /// The present epoch was granted.
    pub granted_at: Time,
    /// The service that the work is done by, as the routes are now. Told where one claim is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub upstream: Option<String>,
    /// The key that this service gets; not told where none is sent, nor where the claim does not keep it (a webhook's).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub upstream_key: Option<String>,
    /// Whose the present epoch is or was: of a claim that is held or in doubt, where one claim is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ClaimHolder")]
    pub holder: Option<ClaimHolder>,
    /// The state, and what is known in it.
    #[serde(flatten)]
    pub state: ClaimState,
}

/// The process that the present epoch of a claim was granted to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimHolder {
    /// Its session with the store.
    #[schemars(regex(pattern = "^[0-9]+$"))]
    pub session: String,
    /// What it is called; null where it has not told.
    pub instance: Option<String>,
    /// Whether its session lasts.
    pub alive: bool,
    /// Until when it lasts, or lasted; null where nothing is known of it any more.
    pub until: Option<Time>,
}

/// What depends on the state of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ClaimState {
    /// The work runs, or may run.
    Held {
        /// No renewal reaches beyond this; null: there is no bound.
        run_until: Option<Time>,
    },
    /// An outcome is kept.
    Settled {
        /// When it was settled.
        settled_at: Time,
        /// By whom.
        settled_by: SettledBy,
        /// Forgotten then; null: never.
        keep_until: Option<Time>,
        /// What is kept.
        outcome: Outcome,
    },
    /// It is not known whether the work happened.
    InDoubt {
        /// Why, and since when.
        doubt: Doubt,
        /// Until then the former run may still reach the work; a release waits for it. While the session that ran it lives, it
        /// may be later.
        may_run_until: Option<Time>,
    },
    /// The next request with the key runs.
    Released {
        /// When it was released.
        released_at: Time,
        /// Whether the work may have run all the same.
        ran: Ran,
    },
}

impl ClaimState {
    /// Its name.
    pub fn name(&self) -> State {
        match self {
            ClaimState::Held { .. } => State::Held,
            ClaimState::Settled { .. } => State::Settled,
            ClaimState::InDoubt { .. } => State::InDoubt,
            ClaimState::Released { .. } => State::Released,
        }
    }
}

/// What was asked, as a digest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fingerprint {
    /// How the digest is made.
    pub recipe: String,
    /// The digest.
    pub digest: String,
}

/// Why it is not known whether the work happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Doubt {
    /// Why.
    pub reason: DoubtReason,
    /// Since when.
    pub since: Time,
    /// When the service was last asked; null: never.
    pub asked_at: Option<Time>,
    /// What the process that ran the work saw, in its own words; null where it went silent.
    pub cause: Option<String>,
}

/// What is kept. Without `outcome=true` only its kind, its size and the status of the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// What it is.
    pub kind: OutcomeKind,
    /// How many bytes are kept.
    pub bytes: u64,
    /// The status of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u16")]
    pub status: Option<u16>,
    /// The header fields of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Headers")]
    pub headers: Option<Headers>,
    /// The body of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub body_base64: Option<String>,
    /// What is kept, where it is no answer of HTTP; with `unreadable`, the sealed bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub kept_base64: Option<String>,
    /// Why what is kept does not open: it is sealed with a key that is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub unreadable: Option<String>,
}

/// Names and values; a list where there are several.
pub type Headers = BTreeMap<String, HeaderValues>;

/// The values of a header field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum HeaderValues {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

/// How many claims there are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Those that run, or may run.
    pub held: u64,
    /// Those with an outcome.
    pub settled: u64,
    /// Those of which it is not known whether the work happened.
    pub in_doubt: u64,
    /// Those whose next request runs.
    pub released: u64,
}
