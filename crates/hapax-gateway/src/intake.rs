//! What an intake makes of a request: its parts under a key, or the request as it stands.
//!
//! Each kind of target has an intake of its own, which says in its file in which order it looks. Whichever it is, from here on
//! a request is one of two things, and what becomes of it does not depend on where it came from.

pub(crate) mod caller;

use std::net::IpAddr;
use std::sync::Arc;

use hapax_core::Scope;
use hapax_http::listener;
use hapax_tower::KeyedRequest;
use http::{HeaderValue, request};

use crate::admit::Admitted;
use crate::outlet::Outlet;
use crate::settings::Route;

/// A request that was taken in.
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart at once, and a box would cost every plain request"
)]
pub(crate) enum Arrival {
    /// The ledger decides what becomes of it.
    Keyed(Keyed),
    /// It goes on as it comes, and never meets the ledger.
    Plain(PlainRequest),
}

/// A request under a key.
pub(crate) struct Keyed {
    /// What is claimed, and what came.
    pub(crate) request: Arc<KeyedRequest>,
    /// Where it goes if the ledger grants it.
    pub(crate) outlet: Outlet,
    /// The room that it takes.
    pub(crate) room: Admitted,
}

/// A request without a key: its body is not read.
pub(crate) struct PlainRequest {
    pub(crate) head: request::Parts,
    pub(crate) body: listener::Incoming,
    pub(crate) scope: Scope,
    pub(crate) route: Arc<Route>,
    pub(crate) hop: Hop,
}

/// The last hop of a request on its way here.
#[derive(Clone, Debug)]
pub(crate) struct Hop {
    /// Whom it came from.
    pub(crate) peer: IpAddr,
    /// Whether over TLS.
    pub(crate) tls: bool,
    /// Whether that peer is believed when it says where a request came from.
    pub(crate) trusted: bool,
    /// For which host; HTTP/1.0 need not say.
    pub(crate) host: Option<HeaderValue>,
}
