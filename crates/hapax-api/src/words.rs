//! The closed sets of words in the API, each as an enum that is written and read as its word.
//!
//! A word that is not in its set is refused with the rule, which names the member and what it can be.

use std::fmt;
use std::str::FromStr;

use hapax_core::{Error, StateName};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! words {
    ($($(#[doc = $doc:literal])+ $name:ident ($rule:literal) {
        $($(#[doc = $about:literal])+ $variant:ident = $word:literal,)+
    })+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[doc = $about])+ $variant,)+
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// As it is written.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                let known = Self::ALL.iter().copied().find(|word| word.as_str() == text);
                known.ok_or_else(|| Error::invalid($rule))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(|_| serde::de::Error::custom($rule))
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string",
                    "enum": [$($word),+],
                    "description": concat!($($doc),+).trim(),
                })
            }
        }
    )+};
}

words! {
    /// What a token allows; operating includes reading.
    Role ("a role is read or operate") {
        /// To look.
        Read = "read",
        /// To look and to decide.
        Operate = "operate",
    }
    /// What was decided about an action.
    Disposition ("a disposition is ALLOW, ALERT, BLOCK or DEDUP") {
        /// It was allowed.
        Allow = "ALLOW",
        /// It was allowed, and raised for people.
        Alert = "ALERT",
        /// It was refused before it reached anything.
        Block = "BLOCK",
        /// It had been done before.
        Dedup = "DEDUP",
    }
    /// What was decided about an action: by the gate, by the ledger, or by a person.
    ActionDecision ("a decision is ALLOW, ALERT, BLOCK, DEDUP, confirm, release, reopen or purge") {
        /// It was allowed.
        Allow = "ALLOW",
        /// It was allowed, and raised for people.
        Alert = "ALERT",
        /// It was refused before it reached anything.
        Block = "BLOCK",
        /// It had been done before.
        Dedup = "DEDUP",
        /// A person says that it happened.
        Confirm = "confirm",
        /// A person lets it be proposed again.
        Release = "release",
        /// A person lets an action that happened be proposed again.
        Reopen = "reopen",
        /// A person took its claim away, as if it had never been proposed.
        Purge = "purge",
    }
    /// Where claims are kept.
    StoreKind ("a store is memory, embedded or postgres") {
        /// In the memory of one process.
        Memory = "memory",
        /// In a folder of one process.
        Embedded = "embedded",
        /// In a PostgreSQL database, for any number of processes.
        Postgres = "postgres",
    }
    /// In which order claims are listed.
    ClaimOrder ("an order is oldest or newest") {
        /// Shelf by shelf, and of each the oldest first.
        Oldest = "oldest",
        /// The newest first.
        Newest = "newest",
    }
    /// Who knows of an event.
    TimelineSource ("a source is ledger, audit or seen") {
        /// The ledger keeps it.
        Ledger = "ledger",
        /// An operator did it.
        Audit = "audit",
        /// This process has seen it.
        Seen = "seen",
    }
    /// What waits for a person.
    AttentionKind ("a kind is claim-in-doubt, settle-refused, record-damaged, execution-paused or action-alert") {
        /// It is not known whether the work of a claim happened.
        ClaimInDoubt = "claim-in-doubt",
        /// A true outcome came after an operator had stated another.
        SettleRefused = "settle-refused",
        /// A record cannot be read.
        RecordDamaged = "record-damaged",
        /// An execution waits until it is resumed, perhaps for a decision about a step.
        ExecutionPaused = "execution-paused",
        /// An action was let through, and is raised for people.
        ActionAlert = "action-alert",
    }
    /// The state of a claim.
    State ("a state is held, settled, in_doubt or released") {
        /// The work runs, or may run.
        Held = "held",
        /// An outcome is kept.
        Settled = "settled",
        /// It is not known whether the work happened.
        InDoubt = "in_doubt",
        /// The next request with the key runs.
        Released = "released",
    }
    /// How the key was found.
    Source ("a source is header, transport or derived") {
        /// In a header.
        Header = "header",
        /// In what the transport carries.
        Transport = "transport",
        /// It was made from the request.
        Derived = "derived",
    }
    /// Who shares the answer; a part that does not count is `_any`.
    Sharing ("a scope is subject, project or tenant") {
        /// One subject.
        Subject = "subject",
        /// All subjects of a project.
        Project = "project",
        /// All projects of a tenant.
        Tenant = "tenant",
    }
    /// May the work run again when it is not known whether it ran?
    Rerun ("rerun is safe, ask or unsafe") {
        /// It may.
        Safe = "safe",
        /// The service is asked first.
        Ask = "ask",
        /// It may not.
        Unsafe = "unsafe",
    }
    /// Who settled a claim.
    SettledBy ("a claim is settled by its holder or by an operator") {
        /// The process that ran the work.
        Holder = "holder",
        /// An operator.
        Operator = "operator",
    }
    /// Why it is not known whether the work happened.
    DoubtReason ("the reason of a doubt is lapsed, failed, stated or paused") {
        /// The process went silent while the work may have been running.
        Lapsed = "lapsed",
        /// The call failed after the work may have been reached.
        Failed = "failed",
        /// The work itself said that it cannot be known.
        Stated = "stated",
        /// No attempt worked, none may follow, and the upstream pauses then.
        Paused = "paused",
    }
    /// Whether the work of a released claim may have run all the same.
    Ran ("ran is no, waived or perhaps") {
        /// It did not.
        No = "no",
        /// It may have, and an operator or the terms have let it run again.
        Waived = "waived",
        /// It may have.
        Perhaps = "perhaps",
    }
    /// How a call stands in the cluster that keeps its claim.
    CallStatus ("a status is pending, ready, running, backing-off, suspended, paused or completed") {
        /// It waits for its turn.
        Pending = "pending",
        /// It is about to run.
        Ready = "ready",
        /// It runs.
        Running = "running",
        /// It has failed, and is tried again later.
        BackingOff = "backing-off",
        /// It waits for something.
        Suspended = "suspended",
        /// It was tried for the last time, until an operator decides.
        Paused = "paused",
        /// It has come to its end.
        Completed = "completed",
    }
    /// What is kept of an outcome.
    OutcomeKind ("an outcome is succeeded, refused, not_kept or erased") {
        /// A success with its bytes.
        Succeeded = "succeeded",
        /// A refusal with its bytes.
        Refused = "refused",
        /// The fact alone.
        NotKept = "not_kept",
        /// An operator destroyed it.
        Erased = "erased",
    }
    /// What an operator did to a claim.
    Done ("what was done is resolve-release, resolve-settle, reopen, purge or erase") {
        /// The doubt ended: the claim is free.
        Release = "resolve-release",
        /// The doubt ended: the claim has an answer.
        Settle = "resolve-settle",
        /// The answer was set aside.
        Reopen = "reopen",
        /// The claim was forgotten.
        Purge = "purge",
        /// The answer was destroyed.
        Erase = "erase",
    }
    /// How far an API key reaches.
    Level ("a key's level is project, tenant or platform") {
        /// To the routes of its project.
        Project = "project",
        /// To the routes of its tenant, too.
        Tenant = "tenant",
        /// To the routes of the platform, too.
        Platform = "platform",
    }
    /// Why a decision was not carried out.
    ConflictCode ("a conflict is claim-changed, claim-not-applicable or claim-may-still-run") {
        /// The claim has another epoch than the operator saw.
        Changed = "claim-changed",
        /// The claim is in a state that the decision does not fit.
        NotApplicable = "claim-not-applicable",
        /// The former run may still be going on.
        MayStillRun = "claim-may-still-run",
    }
    /// How an execution stands.
    ExecutionStatus ("a status is RUNNING, PAUSED, RECOVERING, COMPLETED or FAILED") {
        /// A runner is at work, or has gone.
        Running = "RUNNING",
        /// It waits until it is resumed.
        Paused = "PAUSED",
        /// A runner takes it, or any may.
        Recovering = "RECOVERING",
        /// It has come to its end.
        Completed = "COMPLETED",
        /// It has failed, or was cancelled.
        Failed = "FAILED",
    }
    /// What a tool says about being called twice.
    Repeatable ("a declaration is IDEMPOTENT, NON_IDEMPOTENT or UNKNOWN") {
        /// It may be: it has its effect once for one key.
        Idempotent = "IDEMPOTENT",
        /// It must not be.
        NonIdempotent = "NON_IDEMPOTENT",
        /// It says nothing, and is treated as if it must not be.
        Unknown = "UNKNOWN",
    }
    /// What a person decides about a step.
    StepDecision ("a decision is confirm, rerun or fail") {
        /// It happened, and this was its result.
        Confirm = "confirm",
        /// It may run again.
        Rerun = "rerun",
        /// It failed: the agent sees this as its result.
        Fail = "fail",
    }
    /// Why an order or a decision about an execution was not carried out.
    ExecutionConflict ("a conflict is execution-changed or execution-not-applicable") {
        /// The execution has another version than the operator saw.
        Changed = "execution-changed",
        /// The execution, or its step, is in a state that this does not fit.
        NotApplicable = "execution-not-applicable",
    }
    /// Why an application was refused because of how a lease, a claim or an execution stands.
    Standing ("the code is one of those that the pages about problems list") {
        /// The lease has lapsed, was ended, or is of other credentials.
        LeaseOver = "lease-over",
        /// The claim has another epoch by now.
        EpochStale = "epoch-stale",
        /// The claim keeps another outcome already.
        AlreadySettled = "already-settled",
        /// There is or was an execution of this id.
        AlreadyExists = "already-exists",
        /// The execution has another version than its writer expected.
        VersionConflict = "version-conflict",
        /// The execution has another runner, or one whose lease lasts.
        Fenced = "fenced",
        /// The execution has come to its end.
        Ended = "ended",
        /// The chain of events is broken.
        ExecutionCorrupted = "execution-corrupted",
        /// The chain has a version that is not known here.
        UnsupportedSchemaVersion = "unsupported-schema-version",
        /// Other work than was recorded is asked for.
        PlanDiverged = "plan-diverged",
        /// The execution is in another iteration.
        WrongIteration = "wrong-iteration",
        /// What is needed was erased.
        Erased = "erased",
    }
    /// Whether the work was done under a key, by any attempt.
    Executed ("executed is no, yes or unknown") {
        /// It certainly was not.
        No = "no",
        /// It was.
        Yes = "yes",
        /// It is not known.
        Unknown = "unknown",
    }
    /// Whether work that came to no end may have run.
    MayHaveRun ("ran is no or perhaps") {
        /// It did not.
        No = "no",
        /// It may have.
        Perhaps = "perhaps",
    }
    /// That the process lives.
    HealthStatus ("a health status is ok") {
        /// It does.
        Ok = "ok",
    }
}

impl From<StateName> for State {
    fn from(state: StateName) -> Self {
        match state {
            StateName::Held => State::Held,
            StateName::Settled => State::Settled,
            StateName::InDoubt => State::InDoubt,
            StateName::Released => State::Released,
        }
    }
}

impl From<State> for StateName {
    fn from(state: State) -> Self {
        match state {
            State::Held => StateName::Held,
            State::Settled => StateName::Settled,
            State::InDoubt => StateName::InDoubt,
            State::Released => StateName::Released,
        }
    }
}

impl From<hapax_core::Rerun> for Rerun {
    fn from(rerun: hapax_core::Rerun) -> Self {
        match rerun {
            hapax_core::Rerun::Safe => Rerun::Safe,
            hapax_core::Rerun::Ask => Rerun::Ask,
            hapax_core::Rerun::Unsafe => Rerun::Unsafe,
        }
    }
}

impl From<hapax_core::Source> for Source {
    fn from(source: hapax_core::Source) -> Self {
        match source {
            hapax_core::Source::Header => Source::Header,
            hapax_core::Source::Transport => Source::Transport,
            hapax_core::Source::Derived => Source::Derived,
        }
    }
}

impl From<hapax_core::Width> for Sharing {
    fn from(width: hapax_core::Width) -> Self {
        match width {
            hapax_core::Width::Subject => Sharing::Subject,
            hapax_core::Width::Project => Sharing::Project,
            hapax_core::Width::Tenant => Sharing::Tenant,
        }
    }
}

impl From<hapax_core::Ran> for Ran {
    fn from(ran: hapax_core::Ran) -> Self {
        match ran {
            hapax_core::Ran::No => Ran::No,
            hapax_core::Ran::Waived => Ran::Waived,
            hapax_core::Ran::Perhaps => Ran::Perhaps,
        }
    }
}

impl From<hapax_core::Executed> for Executed {
    fn from(executed: hapax_core::Executed) -> Self {
        match executed {
            hapax_core::Executed::No => Executed::No,
            hapax_core::Executed::Yes => Executed::Yes,
            hapax_core::Executed::Unknown => Executed::Unknown,
        }
    }
}

impl From<Sharing> for hapax_core::Width {
    fn from(sharing: Sharing) -> Self {
        match sharing {
            Sharing::Subject => hapax_core::Width::Subject,
            Sharing::Project => hapax_core::Width::Project,
            Sharing::Tenant => hapax_core::Width::Tenant,
        }
    }
}

impl From<Rerun> for hapax_core::Rerun {
    fn from(rerun: Rerun) -> Self {
        match rerun {
            Rerun::Safe => hapax_core::Rerun::Safe,
            Rerun::Ask => hapax_core::Rerun::Ask,
            Rerun::Unsafe => hapax_core::Rerun::Unsafe,
        }
    }
}

impl From<hapax_core::claim::SettledBy> for SettledBy {
    fn from(by: hapax_core::claim::SettledBy) -> Self {
        match by {
            hapax_core::claim::SettledBy::Holder => SettledBy::Holder,
            hapax_core::claim::SettledBy::Operator => SettledBy::Operator,
        }
    }
}

impl From<hapax_core::claim::Doubt> for DoubtReason {
    fn from(doubt: hapax_core::claim::Doubt) -> Self {
        match doubt {
            hapax_core::claim::Doubt::Lapsed => DoubtReason::Lapsed,
            hapax_core::claim::Doubt::Failed => DoubtReason::Failed,
            hapax_core::claim::Doubt::Stated => DoubtReason::Stated,
            hapax_core::claim::Doubt::Paused => DoubtReason::Paused,
        }
    }
}

impl From<&hapax_core::Verb> for Done {
    fn from(verb: &hapax_core::Verb) -> Self {
        match verb {
            hapax_core::Verb::Release { .. } => Done::Release,
            hapax_core::Verb::Settle(..) => Done::Settle,
            hapax_core::Verb::Reopen => Done::Reopen,
            hapax_core::Verb::Purge => Done::Purge,
            hapax_core::Verb::Erase => Done::Erase,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_as_it_is_written_and_any_other_is_refused_with_the_rule() {
        for state in State::ALL {
            let written = serde_json::to_string(state).expect("a word is JSON");
            assert_eq!(written, format!("\"{}\"", state.as_str()));
            assert_eq!(serde_json::from_str::<State>(&written).expect("the same word"), *state);
        }
        let refused = serde_json::from_str::<State>("\"lost\"").expect_err("no state");
        assert!(
            refused.to_string().starts_with("a state is held, settled, in_doubt or released"),
            "{refused}"
        );
        assert!("lost".parse::<State>().is_err());
    }

    #[test]
    fn the_words_of_the_rules_are_the_words_of_the_api() {
        for state in StateName::ALL {
            assert_eq!(State::from(state).as_str(), state.as_str());
        }
        assert_eq!(Done::from(&hapax_core::Verb::Reopen).as_str(), hapax_core::Verb::Reopen.as_str());
        let release = hapax_core::Verb::Release { force: true };
        assert_eq!(Done::from(&release).as_str(), release.as_str());
    }
}
