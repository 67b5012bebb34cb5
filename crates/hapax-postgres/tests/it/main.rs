//! The PostgreSQL store, tested through its ports. Every test here needs a server, and says so in its path.
#![allow(clippy::unwrap_used, reason = "in a test a surprise is a failure")]

mod harness;
mod postgres;
mod postgres_busy;
mod postgres_clock;
mod postgres_conformance;
mod postgres_few;
mod postgres_guard;
mod postgres_opening;
mod postgres_operators;
mod postgres_outage;
mod postgres_streams;
mod postgres_sweeping;
mod postgres_waking;
mod server;
