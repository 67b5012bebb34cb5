//! One request, read from top to bottom.
//!
//! accept → route → authenticate → admit → read and identify → claim → run under the lease → answer. Each step is one
//! paragraph of [`Stack::answer`]; what a step does is in the file it names.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwap;
use bytes::Bytes;
use hapax_core::{Identity, Key, Ledger, Registry, Scope, View, Width};
use hapax_exec::How;
use hapax_http::listener::{self, Peer, Tasks};
use hapax_http::{Refusal, head};
use hapax_tower::answer::IGNORED;
use hapax_tower::judge::{Said, said};
use hapax_tower::key::{self, Found};
use hapax_tower::protect::{Reconcile, Told};
use hapax_tower::{Answered, Asked, Body, Code, Event, Problem, Protect};
use http::header::{ALLOW, HeaderValue};
use http::{Method, Request, Response, StatusCode, request};
use http_body_util::BodyExt as _;

use crate::admit::{Admission, Admitted};
use crate::auth::Authenticator;
use crate::forward::{self, Came, Inbound};
use crate::metrics::{Counters, Metrics};
use crate::route::{NoMatch, Table, Target};
use crate::settings::{OnExhausted, Route, Settings, TenantLimits, Upstream};
use crate::upstream::{Incoming, Outgoing, Pool};
use crate::{engine, limits, pages, pass, read, recall};

/// The answer to one request.
pub(crate) type Answer = Answered<Incoming>;

/// What was read from one configuration; replaced whole by a reload.
pub(crate) struct Plan<R> {
    pub(crate) settings: Settings,
    pub(crate) table: Table,
    pub(crate) auth: Arc<Authenticator<R>>,
}

/// What all threads share.
pub(crate) struct Shared<L, R> {
    pub(crate) plan: ArcSwap<Plan<R>>,
    pub(crate) protect: Protect<L>,
    /// Where the pages about problem codes are.
    pub(crate) docs: Arc<str>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) metrics: Arc<Metrics>,
}

/// The request path of one thread.
pub(crate) struct Stack<L, R> {
    shared: Arc<Shared<L, R>>,
    pools: Pools,
    /// What a drain waits for.
    tasks: Tasks,
}

/// Where a request goes.
pub(crate) enum Place {
    /// Nowhere, as far as is known.
    Nowhere,
    /// To an outcome that is kept.
    Recall,
    /// To a service.
    Route(Arc<Route>),
}

/// What is known about a request so far, for the log line and the counters.
pub(crate) struct Seen {
    pub(crate) began: Instant,
    pub(crate) method: Method,
    pub(crate) place: Place,
    pub(crate) scope: Option<Scope>,
    pub(crate) key: Option<Key>,
    /// A key was sent where it has no effect, which the caller is told whatever the answer is (P1).
    pub(crate) ignored: bool,
    /// What is counted about it, once that has been looked up.
    pub(crate) counters: Option<Arc<Counters>>,
    pub(crate) peer: SocketAddr,
}

impl<L: Ledger, R: Registry> Stack<L, R> {
    pub(crate) fn new(shared: Arc<Shared<L, R>>, tasks: Tasks) -> Self {
        Stack { shared, pools: Pools::default(), tasks }
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
        let answered = match self.answer(&plan, request, peer.tls, &mut seen).await {
            Ok(answered) => answered,
            Err(problem) => self.shared.protect.problem(problem),
        };
        self.shared.record(&seen, &answered);
        let mut response = answered.response;
        if seen.ignored {
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
        plan: &Arc<Plan<R>>,
        request: Request<listener::Incoming>,
        tls: bool,
        seen: &mut Seen,
    ) -> Result<Answer, Problem> {
        let shared = &*self.shared;
        let edge = &plan.settings.edge;
        let peer = seen.peer.ip();

        // 1. Accept: a head that can be read in exactly one way.
        let (mut head, body) = request.into_parts();
        let host = head::check(&mut head).map_err(engine::problem)?;

        // 2. Route: exactly one, or none.
        let target = match plan.table.find(&head.method, head.uri.path()) {
            Ok(target) => target,
            Err(NoMatch::Path) => return Err(Problem::new(Code::NotFound)),
            Err(NoMatch::Unclear) => {
                let detail = "encoded, a character of the path makes it another route to some services";
                return Err(Problem::new(Code::PathMalformed).detail(detail));
            }
            Err(NoMatch::Method(methods)) => return self.other_method(plan, &head, methods),
        };
        seen.place = match &target {
            Target::Page(code) => return Ok(pages::page(*code)),
            Target::Route(route) => Place::Route(route.clone()),
            Target::RecallKey { .. } | Target::RecallOperation { .. } => Place::Recall,
        };

        // 3. Authenticate: whose request it is, on replays too (A6).
        let trusted = plan.auth.is_trusted(peer);
        let caller = recall::Caller::identify(plan, &head, peer, trusted).await?;
        let route = match target {
            Target::Route(route) => route,
            recalled => return recall::answer(shared, plan, &caller, recalled, &head.headers, seen).await,
        };
        let own = caller.scope(route.level);
        seen.scope = own.as_ref().ok().cloned();
        let found = key::find(&head.headers, route.policy, route.lenient, trusted)
            .inspect_err(|problem| shared.count_key_problem(seen, problem.code()))?;
        seen.ignored = found == Found::Ignored;
        let (scope, width, key) = match found {
            Found::Namespaced(scope, width, key) => {
                let scope = caller.speaks_for(scope, width, &route)?;
                seen.scope = Some(scope.clone());
                (scope, width, Some(key))
            }
            Found::Key(key) => (own?, Width::Subject, Some(key)),
            Found::None | Found::Ignored => (own?, Width::Subject, None),
        };
        seen.key = key.clone();
        let came = Came { peer, tls, trusted, host };
        let pool = self.pools.of(&route.upstream)?;
        let protected = route.rule.as_ref().filter(|rule| key.is_some() || rule.derived.is_some());
        let Some(rule) = protected.cloned() else {
            shared.count_unkeyed(seen);
            if shared.admission.is_draining() {
                return Err(Problem::new(Code::Draining));
            }
            return pass::pass(edge, &route, head, body, &came, &scope, pool).await;
        };
        shared.count_protected(seen);

        // 4. Admit: is there room?
        let mut room = shared.admission.enter(edge, shared.protect.calls())?;

        // 5. Read and identify: the whole body, and what makes this request the same as another one.
        let body = read::whole(body, rule.max_request_body, edge, &mut room).await?;
        let operations = Some(edge.operations_prefix.clone());
        let (method, uri, headers) = (head.method, head.uri, head.headers);
        let pauses = route.upstream.retry.on_exhausted == OnExhausted::Pause;
        let mut asked =
            Asked { rule, scope, width, key, method, uri, headers, body, operations, pauses }.identified();
        if !asked.asked().rule.formerly.is_empty() {
            // For a while after its operation was renamed.
            asked = Box::pin(shared.protect.named(asked)).await?;
        }
        let inbound = Inbound { asked: asked.asked().clone(), identity: asked.identity().clone(), came };
        // Only now is it known what would be a new claim of this tenant.
        self.admit_claim(&mut room, asked.identity(), &plan.settings.tenants).await?;

        // 6 and 7. Claim; run under the lease; settle, release or doubt. 8. Answer with what the ledger has.
        let reconcile = route.reconcile.as_ref().map(|path| reconcile(path, &inbound, pool.clone()));
        let send = move |attempt| async move {
            let outbound = inbound.outbound(pool.settings())?;
            outbound.send(pool, attempt).await
        };
        let mut answered = shared.protect.run(asked, reconcile, room, self.tasks.enter(), send).await;
        // What is not kept is passed on as it comes, and is waited for no longer at a time than for an answer (H5).
        if let Body::Stream { rest, .. } = answered.response.body_mut() {
            rest.end_after_silence(route.timeout());
        }
        Ok(answered)
    }

    /// Is there room for a new claim of this tenant (H12)? A retry of what is there already is none, nor of what another request
    /// of this process is about to claim: it is answered from the ledger, however many others there are.
    async fn admit_claim(
        &self,
        room: &mut Admitted,
        identity: &Identity,
        limits: &TenantLimits,
    ) -> Result<(), Problem> {
        let Err(refused) = room.count(identity, limits) else { return Ok(()) };
        match self.shared.protect.executor().ledger().peek(identity.claim_id()).await {
            Ok(Some(View::Held { .. } | View::Settled(_) | View::InDoubt { .. })) => Ok(()),
            Ok(Some(View::Released { .. }) | None) | Err(_) => Err(refused),
        }
    }

    /// A known path with a method that no route has: what browsers ask before a request, or a mistake.
    fn other_method(
        &self,
        plan: &Plan<R>,
        head: &request::Parts,
        methods: String,
    ) -> Result<Answer, Problem> {
        let allow = HeaderValue::try_from(methods.as_str())
            .map_err(|error| Problem::new(Code::Internal).owing_to(error.to_string()))?;
        if head.method != Method::OPTIONS {
            return Err(Problem::new(Code::MethodNotAllowed).header(ALLOW, allow));
        }
        let mut response = Response::new(Body::whole(Bytes::new()));
        *response.status_mut() = StatusCode::NO_CONTENT;
        let cors = plan.settings.edge.cors.as_ref();
        if let Some(headers) = cors.and_then(|cors| cors.preflight(&head.headers, &methods)) {
            *response.headers_mut() = headers;
        }
        response.headers_mut().insert(ALLOW, allow);
        Ok(Answered { response, event: Event::Outcome(How::PassedThrough), operation_id: None, cause: None })
    }
}

/// Asks the service whether an earlier attempt happened (L6).
fn reconcile(path: &str, inbound: &Inbound, pool: Pool) -> Reconcile {
    let (path, headers) = (path.to_owned(), inbound.headers());
    let key = forward::upstream_key(pool.settings(), &inbound.identity).unwrap_or_default();
    Box::new(move |attempt| {
        let request = forward::reconcile_request(&path, pool.settings(), &headers, key.as_ref(), attempt);
        let pool = pool.clone();
        Box::pin(async move {
            // The callers of this key wait for it, whatever part of the answer does not come.
            let told = tokio::time::timeout(limits::RECONCILE, told(pool, request)).await;
            told.unwrap_or(Told::Unknown)
        })
    })
}

/// What the service says about an earlier attempt.
async fn told(pool: Pool, request: Request<Outgoing>) -> Told {
    let Ok(response) = pool.send(request).await else { return Told::Unknown };
    let (head, body) = response.into_parts();
    match head.status.as_u16() {
        404 if said(&head.headers) == Some(Said::Never) => Told::Never,
        200..300 => match http_body_util::Limited::new(body, limits::RECONCILED).collect().await {
            Ok(body) => Told::Happened(Response::from_parts(head, body.to_bytes())),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                Told::HappenedAtLength(Response::from_parts(head, ()))
            }
            Err(_) => Told::Unknown,
        },
        _ => Told::Unknown,
    }
}

/// The connections of this thread, by service: a few, which are found sooner than a name is hashed. A reload that changes a
/// service starts anew with it.
#[derive(Default)]
struct Pools(Mutex<Vec<(Arc<Upstream>, Pool)>>);

impl Pools {
    fn of(&self, upstream: &Arc<Upstream>) -> Result<Pool, Problem> {
        let mut pools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, pool)) = pools.iter().find(|(known, _)| Arc::ptr_eq(known, upstream)) {
            return Ok(pool.clone());
        }
        let pool = Pool::new(upstream.clone()).map_err(|error| {
            Problem::new(Code::UpstreamUnreachable).with("executed", "no").because(format!("{error:#}"))
        })?;
        pools.retain(|(known, _)| known.name != upstream.name);
        pools.push((upstream.clone(), pool.clone()));
        Ok(pool)
    }
}
