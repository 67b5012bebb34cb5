//! Calls over HTTP that are safe to retry.
//!
//! Every `POST` and `PATCH` gets a fresh `Idempotency-Key`, all attempts of one call share it, and a server that keeps keys
//! (hapax, or any other that implements draft-ietf-httpapi-idempotency-key-header) does the work once. [`Client`] makes
//! calls; [`RetryPolicy`] says when an attempt is made again; [`Error`] says what a failure means for the caller;
//! [`Journal`] keeps keys over the end of the process. With the feature `middleware` the same is a middleware for an
//! existing reqwest client.
//!
//! ```no_run
//! # async fn example() -> Result<(), hapax_client::Error> {
//! let client = hapax_client::Client::builder("http://127.0.0.1:8080").bearer("hpx_…").build()?;
//! let answer = client.post("/charges").json(&serde_json::json!({"amount": 10})).send().await?;
//! println!("{} {}", answer.status(), answer.text());
//! # Ok(())
//! # }
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods, reason = "only the `clock` module reads the time"))]

mod answer;
mod call;
mod client;
mod clock;
mod decide;
mod error;
mod intent;
mod key;
mod limits;
#[cfg(feature = "middleware")]
pub mod middleware;
mod policy;
mod retry_after;

pub use answer::Answer;
pub use call::CallBuilder;
pub use client::{Client, ClientBuilder, Plain409};
pub use error::{Error, Kind};
pub use hapax_core::{Executed, Retry};
pub use intent::{Intent, Journal};
pub use key::IdempotencyKey;
pub use policy::{InvalidPolicy, RetryPolicy};
