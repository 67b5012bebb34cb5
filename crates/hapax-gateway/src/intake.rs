//! What an intake makes of a request: its parts under a key, or the request as it stands.
//!
//! Each kind of target has an intake of its own, which says in its file in which order it looks. Whichever it is, from here on
//! a request is one of two things, and what becomes of it does not depend on where it came from.

pub(crate) mod caller;
pub(crate) mod schedule;
pub(crate) mod webhook;

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{Ledger, Registry, Scope, Width};
use hapax_http::listener;
use hapax_tower::{Claimant, KeyedRequest, Message, Problem, Rule, Wait, WireKey};
use http::{HeaderValue, request};

use crate::admit::Admitted;
use crate::outlet::Outlet;
use crate::outlet::delegate::Delegate;
use crate::outlet::forward::Forward;
use crate::settings::Route;
use crate::stack::{Answer, Plan, Shared};
use crate::trace::{Recording, Step};

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
    /// It goes nowhere: this is the answer.
    Answered(Answer),
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

/// A request without a key.
pub(crate) struct PlainRequest {
    pub(crate) head: request::Parts,
    pub(crate) body: PlainBody,
    pub(crate) scope: Scope,
    pub(crate) route: Arc<Route>,
    pub(crate) hop: Hop,
}

/// The body of a request without a key.
pub(crate) enum PlainBody {
    /// It passes as it comes.
    Unread(listener::Incoming),
    /// It was read to see that there is no key in it (K1), and takes this room.
    Read(Bytes, Admitted),
}

/// A request with its body and whose it is; what is left is what it is claimed under.
pub(crate) struct WholeRequest {
    pub(crate) route: Arc<Route>,
    pub(crate) rule: Arc<Rule>,
    pub(crate) scope: Scope,
    pub(crate) width: Width,
    pub(crate) wire_key: Option<WireKey>,
    pub(crate) message: Message,
    pub(crate) room: Admitted,
    pub(crate) hop: Hop,
}

impl WholeRequest {
    /// What makes this request the same as another one.
    pub(crate) async fn keyed<L: Ledger, R: Registry>(
        self,
        shared: &Shared<L, R>,
        plan: &Plan<R>,
    ) -> Result<Arrival, Problem> {
        let WholeRequest { route, rule, scope, width, wire_key, message, mut room, hop } = self;
        // An outcome is fetched by its own caller, and a public route knows none.
        let fetched_at = Some(&plan.settings.edge.operations_prefix).filter(|_| !route.public);
        let wait = Wait::preferred(&message.headers, fetched_at);
        let fingerprint = message.fingerprint(&rule.recipe, rule.max_request_body);
        // What an encoded body stands for takes room, too.
        room.reserve(message.decoded_bytes())?;
        let claimant = Claimant::new(scope, width, rule.source(), wire_key.as_ref(), &fingerprint);
        let identity = claimant.under(&rule);
        let outlet = match &route.handler {
            Some(handler) => {
                let Message { uri, body, .. } = &message;
                Outlet::Delegate(Delegate::of(&route, handler, &identity, uri, body)?)
            }
            None => {
                // Only now is it known what would be a new claim of this tenant.
                room.count_new(&identity, &plan.settings.tenants, shared.protect.executor().ledger()).await?;
                Outlet::Forward(Forward { route, hop })
            }
        };
        let request = Arc::new(KeyedRequest { identity, wire_key, fingerprint, rule, message, wait });
        Ok(Arrival::Keyed(Keyed { request, outlet, room }))
    }
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
    /// Where the request is recorded, if it is.
    pub(crate) trace: Option<Arc<Recording>>,
}

impl Hop {
    /// The next step of the request begins.
    pub(crate) fn step(&self, step: Step) {
        if let Some(trace) = &self.trace {
            trace.step(step);
        }
    }
}
