//! The tower layer: protects the service it wraps. It is one more intake: what it hands to [`Protect`] is what the edge does.
//!
//! ```
//! # use std::sync::Arc;
//! use axum::{Router, routing::post};
//! use hapax_core::{LeafKey, Scope};
//! use hapax_exec::Executor;
//! use hapax_store::{Options, memory::Memory};
//! use hapax_tower::{IdempotencyLayer, Protect, Rule};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let protect = Protect::new(Executor::new(Memory::open(Options::default())), LeafKey::new([7; 32]));
//! let layer = IdempotencyLayer::new(protect, Rule::new("charges.create")?, |_| Some(Scope::local()));
//! let app: Router = Router::new().route("/charges", post(|| async { "charged" })).layer(layer);
//! # Ok(())
//! # }
//! ```

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hapax_core::{Executed, Ledger, Policy, Scope, Width};
use hapax_exec::Attempt;
use http::header::ACCEPT_ENCODING;
use http::{HeaderMap, HeaderValue, Request, Response, Uri, request};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tower_layer::Layer;
use tower_service::Service;

use crate::answer::{EPOCH, HANDLER_HIT, IDEMPOTENCY_KEY, IGNORED, remove_ours, says_handler_hit};
use crate::body::Body;
use crate::key::{self, Found};
use crate::problem::{Code, OPERATION_ID, Problem};
use crate::protect::{Protect, operation_header};
use crate::request::{Claimant, KeyedRequest, Message, Wait};
use crate::rule::Rule;
use crate::work::{SendError, Work};

/// Says whose a request is, from its head; `None` refuses it. Whoever authenticates has run before.
pub type WhoseFn = Arc<dyn Fn(&request::Parts) -> Option<Scope> + Send + Sync>;

/// Says for which target a request came: the path and query that make it the same request as another one.
pub type TargetFn = Arc<dyn Fn(&request::Parts) -> Uri + Send + Sync>;

/// Protects the service it wraps under one rule.
pub struct IdempotencyLayer<L> {
    protect: Protect<L>,
    rule: Arc<Rule>,
    whose: WhoseFn,
    target: TargetFn,
    behind_an_edge: bool,
}

impl<L: Ledger> IdempotencyLayer<L> {
    /// A layer that protects every request under this rule. `whose` says whose a request is.
    pub fn new(
        protect: Protect<L>,
        rule: Rule,
        whose: impl Fn(&request::Parts) -> Option<Scope> + Send + Sync + 'static,
    ) -> Self {
        IdempotencyLayer {
            protect,
            rule: Arc::new(rule),
            whose: Arc::new(whose),
            target: Arc::new(target_of),
            behind_an_edge: false,
        }
    }

    /// For which target a request came, where something before this layer has changed its URI. Unsaid it is the URI as it comes here,
    /// and below an axum router the one that came there, too (feature `axum`, which is on by default). Whatever is left out here can differ between two
    /// requests that get the same answer (K7).
    #[must_use]
    pub fn target(mut self, target: impl Fn(&request::Parts) -> Uri + Send + Sync + 'static) -> Self {
        self.target = Arc::new(target);
        self
    }

    /// Every request comes from a hapax edge: a namespaced key is believed, with the scope in it (K3). Only for a service
    /// that nobody else can reach.
    #[must_use]
    pub fn behind_an_edge(mut self) -> Self {
        self.behind_an_edge = true;
        self
    }
}

/// Below a router that is nested in another one the URI begins behind the prefix, and what the prefix says would count for
/// nothing: another account's request would get this one's answer.
fn target_of(head: &request::Parts) -> Uri {
    #[cfg(feature = "axum")]
    if let Some(axum::extract::OriginalUri(whole)) = head.extensions.get() {
        return with_prefix(whole, &head.uri);
    }
    head.uri.clone()
}

/// The whole URI where it differs only by what was taken away. Where something has rewritten it besides, both count: neither says all
/// that the application goes by.
#[cfg(feature = "axum")]
fn with_prefix(whole: &Uri, uri: &Uri) -> Uri {
    let taken_away = uri.path() == "/" || whole.path().ends_with(uri.path());
    if taken_away && whole.query() == uri.query() {
        return whole.clone();
    }
    let queries = [whole.query().filter(|_| whole.query() != uri.query()), uri.query()];
    let queries: Vec<&str> = queries.into_iter().flatten().collect();
    let both = format!("{}/{}?{}", whole.path(), uri.path(), queries.join("&"));
    both.parse().unwrap_or_else(|_| whole.clone())
}

/// Whether a body was longer than a bound: this layer's, or that of a layer outside, whose error may be wrapped.
fn is_too_long(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source()).any(|error| error.is::<LengthLimitError>())
}

impl<L: Clone> Clone for IdempotencyLayer<L> {
    fn clone(&self) -> Self {
        IdempotencyLayer {
            protect: self.protect.clone(),
            rule: self.rule.clone(),
            whose: self.whose.clone(),
            target: self.target.clone(),
            behind_an_edge: self.behind_an_edge,
        }
    }
}

impl<L> std::fmt::Debug for IdempotencyLayer<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdempotencyLayer").field("rule", &self.rule).finish_non_exhaustive()
    }
}

impl<L: Ledger, S> Layer<S> for IdempotencyLayer<L> {
    type Service = Idempotent<L, S>;

    fn layer(&self, inner: S) -> Idempotent<L, S> {
        Idempotent { inner, layer: self.clone() }
    }
}

/// A service whose requests are safe to retry.
#[derive(Debug)]
pub struct Idempotent<L, S> {
    inner: S,
    layer: IdempotencyLayer<L>,
}

impl<L: Clone, S: Clone> Clone for Idempotent<L, S> {
    fn clone(&self) -> Self {
        Idempotent { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<L, S, ReqBody, ResBody> Service<Request<ReqBody>> for Idempotent<L, S>
where
    L: Ledger,
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: std::fmt::Display + Send + 'static,
    ReqBody: http_body::Body<Data = Bytes> + From<Bytes> + Send + 'static,
    ReqBody::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    ResBody: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    ResBody::Error: std::fmt::Display + Send,
{
    type Response = Response<Body<ResBody>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        // The service that was polled ready is the one to call.
        let next = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, next);
        let layer = self.layer.clone();
        Box::pin(async move { layer.handle(ready, request).await })
    }
}

/// What came to the layer, as far as it is known what becomes of it.
enum Arrival<B> {
    /// Under a key.
    Keyed(Arc<KeyedRequest>, request::Parts),
    /// Without one.
    Plain(Request<B>),
}

impl<L: Ledger> IdempotencyLayer<L> {
    async fn handle<S, ReqBody, ResBody>(
        self,
        mut service: S,
        request: Request<ReqBody>,
    ) -> Result<Response<Body<ResBody>>, S::Error>
    where
        S: Service<Request<ReqBody>, Response = Response<ResBody>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: std::fmt::Display + Send + 'static,
        ReqBody: http_body::Body<Data = Bytes> + From<Bytes> + Send + 'static,
        ReqBody::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        ResBody: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        ResBody::Error: std::fmt::Display + Send,
    {
        // A key was sent where it has no effect, which the caller is told (P1).
        let key_ignored =
            key::ignores(self.rule.policy, self.rule.lenient) && key::is_sent(request.headers());
        let mut response = match self.arrive(request).await {
            Ok(Arrival::Keyed(request, head)) => {
                let work = Calling { service, head, body: PhantomData };
                self.protect.run(request, work, (), ()).await.response
            }
            Ok(Arrival::Plain(request)) => {
                let mut response = service.call(request).await?.map(Body::stream);
                self.clean(response.headers_mut());
                response
            }
            Err(problem) => self.protect.problem(problem).response,
        };
        if key_ignored {
            response.headers_mut().insert(IGNORED, HeaderValue::from_static("true"));
        }
        Ok(response)
    }

    /// Removes what only hapax may say. A handler's word about its own token is for the edge, which counts it (P1, case C).
    fn clean(&self, headers: &mut HeaderMap) {
        let is_for_the_edge = self.behind_an_edge && self.rule.policy == Policy::HandlerInternalC;
        let is_hit = is_for_the_edge && says_handler_hit(headers);
        remove_ours(headers);
        if is_hit {
            headers.insert(HANDLER_HIT, HeaderValue::from_static("true"));
        }
    }

    /// The layer's intake: the place of the key, whose it is, the whole body, the key, the identity.
    async fn arrive<B>(&self, request: Request<B>) -> Result<Arrival<B>, Problem>
    where
        B: http_body::Body<Data = Bytes> + From<Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let rule = &self.rule;
        let (mut head, body) = request.into_parts();
        let found = key::find(&head.headers, rule.policy, rule.lenient, &rule.keys, self.behind_an_edge)?;
        head.headers.remove(IDEMPOTENCY_KEY);
        rule.keys.remove_from(&mut head.headers);
        if !self.behind_an_edge {
            remove_ours(&mut head.headers);
        }
        let (told, width, mut wire_key) = match found {
            Found::Key(key) => (None, Width::Subject, Some(key)),
            Found::Namespaced(scope, width, key) => (Some(scope), width, Some(key)),
            Found::None | Found::Ignored => (None, Width::Subject, None),
        };
        let reads_body = rule.policy.is_keyed() && rule.keys.reads_body();
        if wire_key.is_none() && !reads_body && (!rule.policy.is_keyed() || rule.derived.is_none()) {
            return Ok(Arrival::Plain(Request::from_parts(head, body)));
        }
        let body = Limited::new(body, rule.max_request_body).collect().await.map_err(|error| {
            let code = if is_too_long(&*error) { Code::BodyTooLarge } else { Code::RequestMalformed };
            Problem::new(code)
        })?;
        let (method, uri, headers) = (head.method.clone(), (self.target)(&head), head.headers.clone());
        let message = Message::new(method, uri, headers, body.to_bytes());
        if reads_body {
            wire_key = rule.keys.in_body(rule.policy, wire_key, &message, rule.max_request_body)?;
            if wire_key.is_none() && rule.derived.is_none() {
                return Ok(Arrival::Plain(Request::from_parts(head, B::from(message.body))));
            }
        }
        let scope = told.or_else(|| (self.whose)(&head)).ok_or(Problem::new(Code::Unauthenticated))?;
        let fingerprint = message.fingerprint(&rule.recipe, rule.max_request_body);
        let claimant = Claimant::new(scope, width, rule.source(), wire_key.as_ref(), &fingerprint);
        let identity = claimant.under(rule);
        // Nobody fetches outcomes here.
        let wait = Wait::preferred(&head.headers, None);
        let request = KeyedRequest { identity, wire_key, fingerprint, rule: rule.clone(), message, wait };
        Ok(Arrival::Keyed(Arc::new(request), head))
    }
}

/// The work of a keyed request: a call of the service within. Its head is what came, with all that layers outside have put into it.
struct Calling<S, ReqBody> {
    service: S,
    head: request::Parts,
    body: PhantomData<fn() -> ReqBody>,
}

impl<S, ReqBody, ResBody> Work for Calling<S, ReqBody>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: std::fmt::Display + Send + 'static,
    ReqBody: From<Bytes> + Send + 'static,
    ResBody: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    ResBody::Error: std::fmt::Display + Send,
{
    type Body = ResBody;

    fn send(
        mut self,
        request: Arc<KeyedRequest>,
        attempt: Attempt,
    ) -> impl Future<Output = Result<Response<ResBody>, SendError>> + Send {
        let headers = &mut self.head.headers;
        if let Some(id) = attempt.operation_id.and_then(operation_header) {
            headers.insert(OPERATION_ID, id);
        }
        if let Some(epoch) = attempt.epoch.map(|epoch| HeaderValue::from(epoch.packed())) {
            headers.insert(EPOCH, epoch);
        }
        // Every caller who asks again gets this answer, whatever the first one can decode (H3).
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        // The handler may use the transactional guard of this attempt.
        self.head.extensions.insert(attempt);
        let body = ReqBody::from(request.message.body.clone());
        let answer = self.service.call(Request::from_parts(self.head, body));
        async move {
            answer.await.map_err(|error| SendError { executed: Executed::Unknown, cause: error.to_string() })
        }
    }
}
