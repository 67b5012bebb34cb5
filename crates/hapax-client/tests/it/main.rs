//! The client against servers that behave, and servers that do not.
#![allow(clippy::unwrap_used, reason = "in a test a surprise is a failure")]

mod at_start;
mod calls;
mod executed;
#[cfg(feature = "middleware")]
mod middleware;
mod server;
