//! What is spoken with a Restate cluster: how its handlers are addressed, what its answers look like, and its admin API.
//!
//! What a request under a key becomes there is decided in `outlet/delegate`; what operators may do, by `hapax`.

mod admin;
pub(crate) mod circuit;
mod marker;
pub(crate) mod nodes;
mod wire;

pub(crate) use admin::{Accepted, Within};
pub use admin::{Admin, Away, Invocation, Registered, RegisteredHandler, RetryPolicy, Settled};
pub use marker::marks_kept_answers;
pub(crate) use wire::{Address, Answered, ErrorBody, Sent, by_id, expires_at, knows_no_handler};
pub use wire::{is_invocation_id, span};

use http::HeaderName;

/// What makes two requests the same, and where they were sent: written by the edge, kept in the journal, given back by envelopes.
pub const FINGERPRINT: HeaderName = HeaderName::from_static("x-hapax-fingerprint");
/// Which request of an edge it was, so that one that was sent again is known for the same.
pub(crate) const ATTEMPT: HeaderName = HeaderName::from_static("x-hapax-attempt");
/// The oldest server that says where an error comes from.
pub const OLDEST_SERVER: (u64, u64, u64) = (1, 7, 4);
