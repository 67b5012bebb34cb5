//! The embedded store, tested through its ports.
#![allow(clippy::unwrap_used, reason = "in a test a surprise is a failure")]

mod answering;
mod backup;
mod busy;
mod clock;
mod conformance;
mod damage;
mod finding;
mod harness;
mod history;
mod reading;
mod reopening;
mod shared;
mod space;
mod streams;
mod trouble;
