//! The edge, tested part by part and as a whole, on real sockets and real stores.
#![allow(clippy::unwrap_used, reason = "in a test a surprise is a failure")]

mod accept;
mod accept_h2;
mod auth;
mod certificates;
mod cors;
mod counting;
mod edge;
mod edge_h2;
mod edge_tls;
mod exchange;
mod forged;
mod http1;
mod late_ledger;
mod misbehaving;
mod passing;
mod paths;
mod peers;
mod raw;
mod recalls;
mod reconcile;
mod refusals;
mod refusals_load;
mod reload;
mod retrying;
mod smuggling;
mod tls;
mod unprotected;
mod upgrade;
mod upstream;
mod upstream_sending;
mod upstream_soak;
mod upstream_tls;
mod widths;
mod world;
