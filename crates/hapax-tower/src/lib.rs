//! Makes HTTP requests safe to retry: the idempotency layer for any tower or axum service. The hapax gateway is built on
//! the same code.
//!
//! [`Protect`] takes one request whose caller is known and answers it: from what is kept, from the attempt that is under
//! way, or by letting the service behind it do the work once. [`IdempotencyLayer`] is that as a tower layer. How work is
//! claimed and settled is `hapax-exec`'s affair, and which status an answer has is said in [`problem`] alone.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, reason = "only the `clock` module reads the time"))]

pub mod answer;
pub mod body;
mod clock;
mod detach;
pub mod identifier;
pub mod judge;
pub mod key;
pub mod layer;
pub mod limits;
pub mod prefer;
pub mod problem;
pub mod protect;
mod public_id;
pub mod request;
pub mod rule;
mod take;
pub mod work;

pub use answer::Answer;
pub use body::Body;
pub use detach::Calls;
pub use identifier::IdentifierPlace;
pub use key::{KeyPlace, Keys, WireKey};
pub use layer::{IdempotencyLayer, Idempotent};
pub use problem::{Cause, Code, Problem};
pub use protect::{Answered, Event, Protect};
pub use public_id::{OpaqueId, PublicId};
pub use request::{Claimant, KeyedRequest, Message, Wait};
pub use rule::{Keep, KeptAnswers, On5xx, Rule};
pub use take::Room;
pub use work::{EarlierAttempt, Question, SendError, TriedBefore, Work};
