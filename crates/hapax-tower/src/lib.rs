//! Makes HTTP requests safe to retry: the idempotency layer for any tower or axum service. The hapax gateway is built on
//! the same code.
//!
//! How work is claimed and settled is `hapax-exec`'s affair, and which status an answer has is said in [`problem`] alone.

mod limits;
pub mod problem;
pub mod rule;

pub use problem::{Code, Problem};
pub use rule::{Keep, On5xx, Rule};
