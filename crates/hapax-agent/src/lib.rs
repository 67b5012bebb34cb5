//! What agents do, and that it happens once.
//!
//! [`durable`] keeps executions: plans, tool calls and results in a journal that survives the process, each tool call under one claim.
//! [`actions`] does what agents plan: one at a time for each entity, at most once for each key, through a trust gate.
//! Only the connectors of actions speak HTTP; who may do what is for those who mount it.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, reason = "only a `clock` module reads the time"))]

pub mod actions;
mod clock;
pub mod durable;
pub mod limits;
