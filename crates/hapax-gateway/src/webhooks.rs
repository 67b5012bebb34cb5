//! Webhooks: deliveries of senders that do not speak `Idempotency-Key` (W).
//!
//! A webhook is a document of the registry, found by the opaque id in its path. It says whose deliveries come there, from which
//! provider, and with which secrets they are signed. What a request becomes is decided by `intake/webhook.rs`; making, rotating and
//! revoking webhooks is in [`record`].

mod kv;
mod lookup;
pub mod provider;
pub mod record;
mod refusals;
mod secrets;

pub(crate) use lookup::{Known, Unready, Webhook, Webhooks};
pub(crate) use refusals::Refusals;
pub use refusals::{Refusal, Tally};
