//! The `hapax` program, started as a user would start it; and its admin listener, asked over real sockets.
#![allow(clippy::unwrap_used, reason = "in a test a surprise is a failure")]

mod admin;
mod admin_decisions;
mod claims_cli;
mod client;
mod config;
mod crowd;
mod demo;
mod described;
mod doctor;
mod ending;
mod fire;
mod foreign;
mod guide;
mod init_cli;
mod keys_cli;
mod log;
mod office;
mod operators;
mod postgres;
mod postgres_away;
mod postgres_peers;
mod postgres_renames;
mod postgres_server;
mod probe;
mod real_documents;
mod reloads;
mod renames;
mod retention_cli;
mod rig;
mod room;
mod serve;
mod strangers;
mod webhooks_cli;
mod whole_api;
mod why;
