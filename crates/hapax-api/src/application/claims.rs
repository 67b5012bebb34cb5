//! Claims of applications: work of other languages that is to happen once (M1, L6, L9, E6).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::{ATTEMPT, DIGEST, KEY, OPERATION, RETENTION, SPAN};
use crate::raw::{Raw, present};
use crate::text::{Epoch, LeaseId, OperationId, Time};
use crate::words::{DoubtReason, Executed, MayHaveRun, Rerun, Sharing, State};

/// Work that is asked for.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskClaim {
    /// The caller's lease, which a grant hangs on.
    pub lease: LeaseId,
    /// What tells this attempt from others at the same work. Sent again with the same lease, it gets the same grant.
    #[schemars(regex(pattern = ATTEMPT))]
    pub attempt: String,
    /// What is called. Names that start with `step.` and the name `action` belong to hapax itself.
    #[schemars(regex(pattern = OPERATION))]
    pub operation: String,
    /// The caller's key.
    #[schemars(regex(pattern = KEY), length(max = 1024))]
    pub key: String,
    /// Who shares the claim: the caller's subject (default), all of its project, or all of its tenant.
    pub scope: Option<Sharing>,
    /// What is asked, as any JSON: the same key with something else is a mismatch. Member order and white space do not count.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Raw")]
    pub body: Option<Raw>,
    /// What is asked, as a SHA-256 that the caller has computed, in hexadecimal; instead of `body`.
    #[schemars(regex(pattern = DIGEST))]
    pub fingerprint: Option<String>,
    /// May the work run again when it is not known whether it ran? Default `unsafe`: it may not.
    pub rerun: Option<Rerun>,
    /// With rerun `safe`: how long a former run must have been silent.
    #[schemars(regex(pattern = SPAN))]
    pub quiet: Option<String>,
    /// How long one attempt may be renewed: `1s` to `30d`, default `1h`.
    #[schemars(regex(pattern = SPAN))]
    pub max_run: Option<String>,
    /// How long to wait for another holder's outcome: at most `30s`. By default the answer comes at once.
    #[schemars(regex(pattern = SPAN))]
    pub wait: Option<String>,
}

/// What the ledger says to work that is asked for.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum ClaimVerdict {
    /// Do it, renew the lease meanwhile, and settle or release with the epoch.
    Granted {
        /// The public id of the operation.
        operation_id: OperationId,
        /// The fencing number: hand it downstream, and settle with it.
        epoch: Epoch,
        /// No renewal reaches beyond this; null: there is no bound.
        run_until: Option<Time>,
        /// Whether an earlier attempt may have run.
        earlier_may_have_run: bool,
        /// With rerun `ask`: find out first whether an earlier attempt ran, and settle with its outcome if it did.
        must_ask: bool,
    },
    /// It was done; this is what was kept. Do nothing.
    Replay {
        /// The public id of the operation.
        operation_id: OperationId,
        /// What is kept.
        outcome: KeptOutcome,
        /// Whether the work was done under this key, as far as the outcome tells.
        executed: Executed,
        /// Forgotten then; null: never.
        keep_until: Option<Time>,
    },
    /// Another attempt is doing it, or must be given time to be silent.
    Held {
        /// The public id of the operation, where it is known.
        operation_id: Option<OperationId>,
    },
    /// The key was used for something else.
    Mismatch {
        /// The public id of what it was used for.
        operation_id: Option<OperationId>,
    },
    /// It is not known whether the work was done. Nothing runs until an operator has decided.
    InDoubt {
        /// The public id of the operation, where it is known.
        operation_id: Option<OperationId>,
        /// Why, where the ledger says.
        reason: Option<DoubtReason>,
    },
    /// Nothing was granted: the attempt was given back before, or the holder that was waited for gave the claim back. Ask with another
    /// attempt.
    Released {
        /// Whether the work may have been done all the same.
        executed: Executed,
    },
}

impl ClaimVerdict {
    /// Its word, and the claim it is about.
    pub fn about(&self) -> (&'static str, Option<&OperationId>) {
        match self {
            ClaimVerdict::Granted { operation_id, .. } => ("granted", Some(operation_id)),
            ClaimVerdict::Replay { operation_id, .. } => ("replay", Some(operation_id)),
            ClaimVerdict::Held { operation_id } => ("held", operation_id.as_ref()),
            ClaimVerdict::Mismatch { operation_id } => ("mismatch", operation_id.as_ref()),
            ClaimVerdict::InDoubt { operation_id, .. } => ("in_doubt", operation_id.as_ref()),
            ClaimVerdict::Released { .. } => ("released", None),
        }
    }
}

/// What a claim keeps of work that was done.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum KeptOutcome {
    /// It was done.
    Succeeded {
        /// What came of it.
        result: Raw,
    },
    /// It ended with an error that is kept like a success.
    Refused {
        /// What the error was.
        error: Raw,
    },
    /// It is kept that it was done, and nothing else.
    NotKept {},
    /// What was kept is destroyed.
    Erased {},
    /// What was kept is no JSON: another program has kept it.
    Other {
        /// The bytes, in base64.
        kept_base64: String,
    },
}

/// A sign of life for one claim and its lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewClaim {
    /// The lease that the claim hangs on.
    pub lease: LeaseId,
    /// The epoch that was granted.
    pub epoch: Epoch,
}

/// A claim that was renewed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimRenewed {
    /// The public id of the operation.
    pub operation_id: OperationId,
    /// When the lease lapses unless it is renewed.
    pub until: Option<Time>,
}

/// How work came to its end: exactly one of `result`, `error` and `not_kept`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SettleClaim {
    /// The epoch that was granted.
    pub epoch: Epoch,
    /// It was done, and this came of it: any JSON, at most 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Raw")]
    pub result: Option<Raw>,
    /// It ended with this error, which every later attempt gets as well: any JSON, at most 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Raw")]
    pub error: Option<Raw>,
    /// It was done, and nothing is kept but that.
    #[serde(default)]
    pub not_kept: bool,
    /// How long the outcome is kept: default `24h`.
    #[schemars(regex(pattern = RETENTION))]
    pub retention: Option<String>,
}

/// A claim that is settled.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ClaimSettled {
    /// The public id of the operation.
    pub operation_id: OperationId,
    /// Whether it was settled before, with the same outcome.
    pub replayed: bool,
    /// What is kept.
    pub outcome: KeptOutcome,
    /// Forgotten then; null: never.
    pub keep_until: Option<Time>,
}

/// Work that came to no end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseClaim {
    /// The epoch that was granted.
    pub epoch: Epoch,
    /// Whether the work may have run: `no` gives the claim back; `perhaps` does so where rerun is safe, and leaves it in doubt elsewhere.
    pub ran: MayHaveRun,
    /// What was seen, for operators.
    #[serde(default)]
    pub cause: Option<String>,
}

/// A claim that was given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimReleased {
    /// The public id of the operation.
    pub operation_id: OperationId,
    /// `released`: another attempt may run. `in_doubt`: an operator decides.
    pub state: State,
}

/// Which claim is looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FindClaimQuery {
    /// What was called. It must be said.
    #[schemars(regex(pattern = OPERATION))]
    pub operation: Option<String>,
    /// The caller's key. It must be said.
    #[schemars(regex(pattern = KEY), length(max = 1024))]
    pub key: Option<String>,
    /// Who shares the claim, as it was asked for.
    pub scope: Option<Sharing>,
}

/// A claim as its callers see it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ClaimSeen {
    /// The public id of the operation.
    pub operation_id: OperationId,
    /// What was called.
    pub operation: String,
    /// The caller's key.
    pub key: String,
    /// Who shares the claim.
    pub scope: Sharing,
    /// The epoch that the claim has.
    pub epoch: Epoch,
    /// How it stands.
    pub state: State,
    /// What is kept, where it is settled.
    pub outcome: Option<KeptOutcome>,
    /// Why it is in doubt, where it is.
    pub doubt: Option<DoubtReason>,
    /// Forgotten then, where it is settled; null: never.
    pub keep_until: Option<Time>,
}
