//! The engine on real sockets, with peers that behave and peers that do not.
#![allow(clippy::unwrap_used, reason = "in a test a surprise is a failure")]

mod certificates;
mod exchange;
mod http1;
mod listener;
mod listener_h2;
mod tls;
mod upgrade;
mod upstream;
mod upstream_sending;
mod upstream_soak;
mod upstream_tls;
