//! Durable executions on real stores.
#![allow(clippy::unwrap_used, reason = "in a test a surprise is a failure")]

mod http_ends;
mod killed;
mod lanes;
mod looks;
mod mcp;
mod recoverers;
mod resumed;
mod sealed;
mod steps;
mod tampered;
mod transfers;
mod twice;
mod walkthrough;
mod watched;
mod world;
