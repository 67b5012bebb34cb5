//! Durable executions on real stores.
#![allow(clippy::unwrap_used, reason = "in a test a surprise is a failure")]

mod killed;
mod resumed;
mod steps;
mod world;
