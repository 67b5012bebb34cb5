//! The work of a keyed request: what is done once the ledger has granted it.
//!
//! [`Protect`](crate::Protect) calls it under the lease. What the answer comes to is judged elsewhere.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use hapax_core::Executed;
use hapax_exec::Attempt;
use http::Response;

use crate::request::KeyedRequest;

/// What is done with a request that the ledger has granted. Whatever only that takes (a connection, the request that goes out)
/// is made by [`send`](Self::send), so that a replay makes none of it.
pub trait Work: Send + 'static {
    /// The body of the service's answer.
    type Body: http_body::Body<Data = Bytes, Error: std::fmt::Display + Send> + Send + Unpin + 'static;

    /// Where the service gives no whole answer, the claim waits for an operator's decision, whatever the rule says (P6).
    fn pauses(&self) -> bool {
        false
    }

    /// The question whether an earlier attempt happened, if the service can be asked (L6).
    fn question(&self, _request: &Arc<KeyedRequest>) -> Option<Question> {
        None
    }

    /// Hands the request to the service behind, under the lease of this attempt, and returns its answer.
    fn send(
        self,
        request: Arc<KeyedRequest>,
        attempt: Attempt,
    ) -> impl Future<Output = Result<Response<Self::Body>, SendError>> + Send;
}

/// Why a service's answer did not come.
#[derive(Clone, Debug)]
pub struct SendError {
    /// Whether the service may have been reached: `No`, or `Unknown`.
    pub executed: Executed,
    /// What happened, for the log.
    pub cause: String,
}

/// An extension of a service's answer: an earlier try within the same attempt may have reached the service. What the answer says of
/// itself, such as that nothing was done, does not speak for that try (E6).
#[derive(Clone, Copy, Debug)]
pub struct TriedBefore;

/// What a service says about an earlier attempt (L6).
#[derive(Clone, Debug)]
pub enum EarlierAttempt {
    /// It was done, and this was its answer.
    Happened(Response<Bytes>),
    /// It was done, and this was the head of its answer; the body is longer than is read.
    HappenedAtLength(Response<()>),
    /// It was not done, and never will be under this key.
    Never,
    /// The service cannot say.
    Unknown,
}

/// Asks a service whether an earlier attempt happened (L6).
pub type Question =
    Box<dyn Fn(Attempt) -> Pin<Box<dyn Future<Output = EarlierAttempt> + Send>> + Send + Sync>;
