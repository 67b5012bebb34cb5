//! The HTTP engine: a listener for HTTP/1.1 and HTTP/2, a client to services, TLS and tunnels.
//!
//! It knows nothing of keys, claims or problems. What it refuses is a [`Refusal`], and what cannot be set up is a
//! [`SetupError`]; how callers and operators are told is decided by the program that uses it. Nothing else of this project is
//! used here, so that the engine can be read, tested and fuzzed alone.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, reason = "only the `clock` module reads the time"))]

mod clock;
pub mod head;
pub mod http1;
mod limits;
pub mod listener;
mod refusal;
pub mod settings;
mod setup;
mod socket;
pub mod tls;
pub mod tunnel;
pub mod upload;
pub mod upstream;

pub use http1::fields::is_hop_by_hop;
pub use refusal::Refusal;
pub use setup::{SetupError, SetupFault};
