//! The edge, tested part by part and as a whole, on real sockets and real stores.
#![allow(clippy::unwrap_used, reason = "in a test a surprise is a failure")]

mod auth;
mod cors;
mod counting;
mod edge;
mod edge_h2;
mod edge_tls;
mod elsewhere;
mod forged;
mod handler_internal;
mod identifiers;
mod late_ledger;
mod misbehaving;
mod passing;
mod paths;
mod peers;
mod recalls;
mod reconcile;
mod refusals;
mod refusals_load;
mod reload;
mod retrying;
mod schedules;
mod smuggling;
mod tunnels;
mod unprotected;
mod webhook_bad_input;
mod webhook_secrets;
mod webhooks;
mod widths;
mod world;
