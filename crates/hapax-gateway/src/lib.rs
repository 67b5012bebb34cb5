//! The edge: a proxy that makes any HTTP service safe to retry.
//!
//! `stack.rs` is the path of one request, read from top to bottom. Everything it needs is in [`settings`], as meant: whoever
//! starts a gateway has read and checked a configuration. What happens under a key is `hapax-tower`'s affair.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, reason = "only the `clock` module reads the time"))]

pub mod admit;
pub mod auth;
mod clock;
mod cors;
mod engine;
pub mod gateway;
mod intake;
mod limits;
pub mod metrics;
mod outlet;
pub mod pages;
pub mod pattern;
mod read;
mod recall;
mod record;
pub mod restate;
mod route;
mod sealed;
pub mod secrets;
pub mod settings;
mod stack;
pub mod trace;
mod upstream;
pub mod webhooks;

pub use gateway::Gateway;
pub use hapax_http::tls;
