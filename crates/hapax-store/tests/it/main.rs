//! The stores, tested through their ports.
#![allow(clippy::unwrap_used, reason = "in a test a surprise is a failure")]

mod embedded;
mod embedded_answering;
mod embedded_backup;
mod embedded_clock;
mod embedded_conformance;
mod embedded_damage;
mod embedded_finding;
mod embedded_history;
mod embedded_reading;
mod embedded_reopening;
mod embedded_space;
mod embedded_trouble;
mod harness;
mod memory;
mod opening;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres")]
mod postgres_clock;
#[cfg(feature = "postgres")]
mod postgres_conformance;
#[cfg(feature = "postgres")]
mod postgres_few;
#[cfg(feature = "postgres")]
mod postgres_guard;
#[cfg(feature = "postgres")]
mod postgres_opening;
#[cfg(feature = "postgres")]
mod postgres_operators;
#[cfg(feature = "postgres")]
mod postgres_outage;
#[cfg(feature = "postgres")]
mod postgres_streams;
#[cfg(feature = "postgres")]
mod postgres_sweeping;
#[cfg(feature = "postgres")]
mod postgres_waking;
mod scenarios;
#[cfg(feature = "postgres")]
mod server;
mod sessions;
mod streams;
