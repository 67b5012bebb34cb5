//! The memory store, tested through its ports.
#![allow(clippy::unwrap_used, reason = "in a test a surprise is a failure")]

mod harness;
mod memory;
