//! The `hapax` program as a library: the command line and what it starts.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, reason = "only the `clock` module reads the time"))]

mod actions;
pub mod admin;
mod any;
mod application;
mod backup;
pub mod cli;
mod clock;
pub mod config;
pub mod demo;
mod limits;
mod listen;
mod log;
pub mod node;
pub mod openapi;
pub mod operations;
pub mod schedules;
mod signals;
mod traces;
pub mod when;

pub use any::{STORE_VARIABLE, Store};
