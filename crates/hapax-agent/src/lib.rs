//! What agents do, and that it happens once.
//!
//! [`durable`] keeps executions: plans, tool calls and results in a journal that survives the process, each tool call under one claim.
//! Nothing in here speaks HTTP; who may do what is for those who mount it.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, reason = "only a `clock` module reads the time"))]

pub mod durable;
pub mod limits;
