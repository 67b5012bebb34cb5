//! The rules and the words of hapax.
//!
//! This crate does no I/O, asks no clock and knows no runtime: whatever it needs to know is an argument. Start with
//! [`claim`], where [`step`] decides every transition of a claim.

#![cfg_attr(
    not(test),
    warn(clippy::disallowed_methods, reason = "the rules never ask the time: `now` is an argument")
)]

pub mod advice;
mod backoff;
pub mod claim;
pub mod error;
pub mod fingerprint;
pub mod id;
pub mod identity;
pub mod journal;
pub mod json;
pub mod key;
pub mod lane;
pub mod limits;
pub mod outcome;
pub mod policy;
pub mod port;
pub mod registry;
pub mod scope;
pub mod time;
pub mod turn;

pub use advice::{Advice, Effect};
pub use backoff::Backoff;
pub use claim::{
    Answer, Ask, Cause, Change, Claim, Command, Decision, Doubt, Doubted, Ending, Grant, Now, Operated, Ran,
    Report, Rerun, SetAnswer, Sign, State, StateName, Swept, Terms, Verb, Verdict, View, step,
};
pub use error::{Error, Executed, Kind, Particular, Retry};
pub use fingerprint::{
    Asked, Explanation, Fingerprint, LazyLeaves, LeafKey, Leaves, RawHasher, Recipe, RecipeId, RequestParts,
};
pub use id::{AppendId, AttemptId, Epoch, OperationId, RunnerId, SessionId};
pub use identity::{ClaimId, Identity, Operation, Source};
pub use key::{Grammar, HeaderKeyError, Key};
pub use outcome::{Kept, Outcome, Retention};
pub use policy::Policy;
pub use port::{
    ClaimRequest, Counts, Damaged, Filter, Inspect, Journal, Lanes, Lease, Leases, Ledger, ListOrder, Page,
    Record, Registry, Session, Shelf, SweepReport, Watch,
};
pub use scope::{Project, Scope, Subject, SubjectKind, Tenant, Width};
pub use time::{Clock, Timestamp};
