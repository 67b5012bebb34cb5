//! The `hapax` program as a library: the command line and what it starts.

pub mod cli;
pub mod demo;
