//! One request, read from top to bottom.
//!
//! A head that can be read → a target → what an intake makes of it → the ledger's answer, or the service's → one log line, one
//! counter. Each arm of [`Stack::answer`] is one paragraph; what an arm does is in the file it names.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use bytes::Bytes;
use hapax_core::{Key, Ledger, Registry};
use hapax_http::listener::{self, Peer, Tasks};
use hapax_http::{Refusal, head};
use hapax_tower::answer::IGNORED;
use hapax_tower::{Answered, Body, Problem, Protect, key};
use http::header::HeaderValue;
use http::{Method, Request, Response};

use crate::admit::Admission;
use crate::auth::Authenticator;
use crate::auth::remembered::Remembered;
use crate::auth::scheduled;
use crate::intake::{self, Arrival, Hop, Keyed};
use crate::metrics::Metrics;
use crate::outlet::delegate::Delegation;
use crate::outlet::{self, Outlet, Pools};
use crate::record::{Place, Seen};
use crate::route::{NoMatch, Table, Target};
use crate::sealed::OperationSeal;
use crate::settings::Settings;
use crate::trace::{Step, TRACEPARENT, Tracer};
use crate::upstream::Incoming;
use crate::webhooks::{Refusals, Webhooks};
use crate::{cors, engine, pages, recall};

/// The answer to one request.
pub(crate) type Answer = Answered<Incoming>;

/// What was read from one configuration; replaced whole by a reload.
pub(crate) struct Plan<R> {
    pub(crate) settings: Settings,
    pub(crate) table: Table,
    pub(crate) auth: Arc<Authenticator<R>>,
    pub(crate) webhooks: Option<Webhooks<R>>,
    /// Makes the public ids of delegated calls; where no upstream is a cluster, there are none (D2).
    pub(crate) seal: Option<Arc<OperationSeal>>,
}

/// What all threads share.
pub(crate) struct Shared<L, R> {
    pub(crate) plan: ArcSwap<Plan<R>>,
    pub(crate) protect: Protect<L>,
    /// Where the pages about problem codes are.
    pub(crate) docs: Arc<str>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) metrics: Arc<Metrics>,
    /// Which key signed content came with last (W5).
    pub(crate) contents: Remembered<Key>,
    /// Deliveries that went nowhere, for operators.
    pub(crate) refusals: Refusals,
    /// What is known of clusters that keep claims themselves (D).
    pub(crate) delegation: Delegation,
    /// Which requests are recorded (O3); none, unless it was said.
    pub(crate) tracer: OnceLock<Tracer>,
}

/// The request path of one thread.
pub(crate) struct Stack<L, R> {
    shared: Arc<Shared<L, R>>,
    pools: Arc<Pools>,
    /// What a drain waits for.
    tasks: Tasks,
}

impl<L: Ledger, R: Registry> Stack<L, R> {
    pub(crate) fn new(shared: Arc<Shared<L, R>>, tasks: Tasks) -> Self {
        Stack { shared, pools: Arc::default(), tasks }
    }

    /// Answers one request, whatever it is.
    pub(crate) async fn answer_any(
        self: Arc<Self>,
        request: Request<listener::Incoming>,
        peer: Peer,
    ) -> Response<Body<Incoming>> {
        let plan = self.shared.plan.load_full();
        let cors = plan.settings.edge.cors.as_ref();
        let asked = cors.map(|_| request.headers().clone());
        let mut seen = Seen::new(&request, peer.addr);
        let tracer = self.shared.tracer.get();
        seen.trace = tracer.and_then(|tracer| tracer.request(request.headers(), seen.began));
        let answered = match self.answer(&plan, request, peer.tls, &mut seen).await {
            Ok(answered) => answered,
            Err(problem) => self.shared.protect.problem(problem),
        };
        self.shared.record(&seen, &answered);
        let mut response = answered.response;
        if seen.key_ignored {
            response.headers_mut().insert(IGNORED, HeaderValue::from_static("true"));
        }
        if let (Some(cors), Some(asked)) = (cors, asked) {
            cors.grant(&asked, response.headers_mut());
        }
        response
    }

    /// Answers what the engine refuses. What was refused before there was a request to answer is counted and logged.
    pub(crate) fn refuse(&self, peer: Peer, refusal: Refusal) -> Response<Bytes> {
        let panicked = refusal == Refusal::Panicked;
        let problem = engine::problem(refusal);
        if !panicked {
            self.shared.record_refused(peer.addr, problem.code());
        }
        problem.response(&self.shared.docs)
    }

    async fn answer(
        &self,
        plan: &Plan<R>,
        request: Request<listener::Incoming>,
        tls: bool,
        seen: &mut Seen,
    ) -> Result<Answer, Problem> {
        let (shared, edge) = (&*self.shared, &plan.settings.edge);

        // A head that can be read in exactly one way, and the last hop of its way here.
        let (mut head, body) = request.into_parts();
        let (host, peer) = (head::check(&mut head).map_err(engine::problem)?, seen.peer.ip());
        let trace = seen.trace.clone();
        // Whatever the request goes on to is told of its span here, in place of its caller's.
        if let Some(told) = trace.as_ref().and_then(|trace| trace.header()) {
            head.headers.insert(TRACEPARENT, told);
        }
        let hop = Hop { peer, tls, trusted: plan.auth.is_trusted(peer), host, trace };

        // Exactly one target. What a browser asks before the request itself is answered before the match, a catch-all's included.
        let target = match plan.table.find(&head.method, head.uri.path()) {
            Err(NoMatch::Method(methods)) if head.method == Method::OPTIONS => {
                seen.key_ignored = key::is_sent(&head.headers);
                return cors::preflight(edge.cors.as_ref(), &head.headers, &methods);
            }
            Ok(Target::Route(_)) if head.method == Method::OPTIONS && cors::is_preflight(&head.headers) => {
                let methods = plan.table.methods(head.uri.path());
                return cors::preflight(edge.cors.as_ref(), &head.headers, &methods);
            }
            found => found?,
        };

        // What the target's intake makes of the request, where it is not answered from here.
        let arrival = match target {
            Target::Page(code) => {
                seen.key_ignored = key::is_sent(&head.headers);
                return Ok(pages::page(code));
            }
            Target::Recall(recall) => {
                seen.place = Place::Recall;
                // The key that counts is the one in the path.
                seen.key_ignored = key::is_sent(&head.headers);
                hop.step(Step::Recall);
                return recall::answer(shared, plan, &self.pools, recall, &head, &hop, seen).await;
            }
            // On a public route no credentials are looked at: there the key of a tick is as good as unsigned.
            Target::Route(route) if scheduled::is_shown(&head.headers) && !route.public => {
                seen.place = Place::Route(route.clone());
                Box::pin(intake::schedule::take(shared, plan, route, head, body, hop, seen)).await?
            }
            Target::Route(route) => {
                seen.place = Place::Route(route.clone());
                intake::caller::take(shared, plan, route, head, body, hop, seen).await?
            }
            Target::Webhook(path) => {
                seen.place = Place::Webhook;
                // What the sender calls its delivery is the key, whether there is such a webhook or not.
                seen.key_ignored = key::is_sent(&head.headers);
                Box::pin(intake::webhook::take(shared, plan, path, head, body, hop, seen)).await?
            }
        };

        match arrival {
            Arrival::Answered(answered) => Ok(answered),
            // Without a key: it never meets the ledger.
            Arrival::Plain(plain) => {
                seen.step(Step::Upstream);
                outlet::pass::pass(edge, plain, &self.pools, &shared.delegation, seen).await
            }
            // With one that a cluster keeps: nor does that.
            Arrival::Keyed(Keyed { request, outlet: Outlet::Delegate(delegate), room }) => {
                seen.step(Step::Upstream);
                let answer = outlet::delegate::run(shared, plan, request, delegate, room, &self.pools, seen);
                Box::pin(answer).await
            }
            // With one: replayed, attached, refused, or forwarded under a turn.
            Arrival::Keyed(Keyed { request, outlet: Outlet::Forward(forward), room }) => {
                seen.step(Step::Claim);
                let (silence, work) = (request.rule.timeout, forward.over(&self.pools));
                let mut answered = shared.protect.run(request, work, room, self.tasks.enter()).await;
                outlet::forward::bound_silence(answered.response.body_mut(), silence);
                Ok(answered)
            }
        }
    }
}
