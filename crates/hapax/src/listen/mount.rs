//! Mounting: a table of endpoints, a handler for each, and an authenticator that says who a caller is.
//!
//! A handler is mounted for an operation of the table, whose types it takes and gives, and every endpoint of the table must have
//! one: so nothing is served that the description does not have, and the other way round. Whether a caller may use an endpoint is
//! decided before anything of the request's body is read.

use std::collections::BTreeSet;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, RawPathParams, Request};
use axum::middleware::{Next, from_fn};
use axum::routing::{MethodFilter, MethodRouter, on};
use bytes::Bytes;
use hapax_api::{Content as _, JsonLines, Method, Need, Operation, OperationId, Table};
use hapax_core::{Error, OperationId as CoreId};
use hapax_gateway::trace::{self, Recorded, TRACEPARENT};
use hapax_tower::{Code, Problem};
use http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use super::connections::Caller;
use super::host::Hosts;
use super::refusal::Refusal;
use crate::{clock, limits};

/// What every answer of a listener has and no other server's: by it the command line knows whom it has asked.
pub(crate) const LISTENER: HeaderName = HeaderName::from_static("hapax-listener");

/// Whether a browser sends a request for a page of the same site.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What an answer may do that a browser opens: nothing.
const INERT: &str = "default-src 'none'; frame-ancestors 'none'; sandbox";

/// Says who a caller is. Each kind of caller has one.
pub(crate) trait Authenticator: Send + Sync + 'static {
    /// What endpoints ask of these callers.
    type Need: Need;
    /// Who a caller is.
    type Caller: Clone + Send + Sync + 'static;

    /// The caller of this request, if it has what the endpoint needs.
    fn admit(
        &self,
        request: &Parts,
        needs: Self::Need,
        of: &Of<'_>,
    ) -> impl Future<Output = Result<Self::Caller, Refusal>> + Send;

    /// Hears that a caller who was let in was refused what it asked for.
    fn refused(
        &self,
        _caller: &Self::Caller,
        _of: &Of<'_>,
        _refusal: &Refusal,
    ) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Begins to record a request with these headers, if it is one that is.
    fn record(&self, _: &HeaderMap) -> Option<Recorded> {
        None
    }

    /// Hears of every answer but those of endpoints that anybody may use.
    fn answered(&self, _: &Answered<'_, Self::Caller>) {}
}

/// An answer, as the log and the counters tell of it.
pub(crate) struct Answered<'a, C> {
    /// Who asked, if that was found out.
    pub(crate) caller: Option<&'a C>,
    /// Where the request came from.
    pub(crate) peer: Option<IpAddr>,
    pub(crate) method: &'a http::Method,
    /// The path of the table's endpoint; `_none` where it has none.
    pub(crate) endpoint: &'static str,
    /// What came of it in a word: the endpoint's own, or a problem's code.
    pub(crate) event: &'static str,
    /// The claim it is about, if it is about one.
    pub(crate) operation: Option<&'a OperationId>,
    pub(crate) status: u16,
    pub(crate) took: Duration,
    /// The recording of the request, if it is recorded.
    pub(crate) recorded: Option<&'a Recorded>,
}

/// What a handler notes of its answer, beside it until it leaves.
#[derive(Clone)]
struct Noted<C> {
    caller: Option<C>,
    endpoint: &'static str,
    event: &'static str,
    operation: Option<OperationId>,
}

impl<C> Noted<C> {
    /// Of a request for what is not there, or under a name that is not the listener's.
    fn nowhere(refusal: &Refusal) -> Self {
        Noted { caller: None, endpoint: "_none", event: refusal.code(), operation: None }
    }
}

/// What a caller asks for, as an authenticator must know it.
pub(crate) struct Of<'a> {
    /// The name of the operation.
    pub(crate) operation: &'static str,
    /// The variable part of the path; empty where there is none.
    pub(crate) id: &'a str,
    /// Whether it changes something.
    pub(crate) changes: bool,
}

/// A request that was let in and understood.
pub(crate) struct Asked<O: Operation> {
    /// The variable part of the path; empty where there is none.
    pub(crate) id: String,
    pub(crate) query: O::Query,
    pub(crate) body: O::Body,
    /// What services are told that are called for it: its recording's span, or what its caller said.
    pub(crate) traceparent: Option<String>,
}

/// What all answers of a listener have in common.
#[derive(Clone)]
struct Manner {
    listener: HeaderValue,
    /// Where the pages about problem codes are (H1).
    docs: Arc<str>,
    hosts: Arc<Hosts>,
    /// Whether pages of other sites are refused.
    of_one_site: bool,
    /// The longest body, and how a longer one is refused.
    body: (usize, &'static str),
}

/// A table whose endpoints are being given their handlers.
pub(crate) struct Mount<S, A: Authenticator> {
    table: &'static Table<A::Need>,
    state: S,
    callers: Arc<A>,
    manner: Manner,
    router: Router,
    served: BTreeSet<(&'static str, &'static str)>,
    /// Paths that are answered under whatever name.
    to_any_host: BTreeSet<&'static str>,
    mistakes: Vec<String>,
}

/// How a page that is no part of an API is answered.
#[derive(Clone)]
pub(crate) struct Pages(Manner);

impl Pages {
    /// The answer, with what all answers of the listener have unless the page says otherwise.
    pub(crate) fn finished(&self, answer: Result<Response<Bytes>, Refusal>) -> Response<Body> {
        self.0.finished(answer)
    }
}

impl<S: Clone + Send + Sync + 'static, A: Authenticator> Mount<S, A> {
    /// Handlers get this state.
    pub(crate) fn new(
        table: &'static Table<A::Need>,
        state: S,
        callers: A,
        docs: &str,
        hosts: Hosts,
    ) -> Self {
        let listener = HeaderValue::from_static(table.listener);
        let (docs, hosts, body) = (docs.into(), Arc::new(hosts), table.body);
        let manner = Manner { listener, docs, hosts, of_one_site: false, body };
        let (callers, router) = (Arc::new(callers), Router::new());
        let (served, to_any_host) = (BTreeSet::new(), BTreeSet::new());
        Mount { table, state, callers, manner, router, served, to_any_host, mistakes: Vec::new() }
    }

    /// Refuses what a page of another site has asked for, where a browser says so.
    pub(crate) fn of_one_site(mut self) -> Self {
        self.manner.of_one_site = true;
        self
    }

    /// How pages beside the API are answered.
    pub(crate) fn pages(&self) -> Pages {
        Pages(self.manner.clone())
    }

    /// A page that is no part of the API.
    pub(crate) fn beside(mut self, path: &'static str, page: MethodRouter) -> Self {
        self.router = self.router.route(path, page);
        self
    }

    /// A handler for an endpoint that anybody may use, under whatever name: it tells no more than whether the process serves.
    pub(crate) fn open_to_any_host<O, F, R>(mut self, run: F) -> Self
    where
        O: Operation<Need = A::Need>,
        F: Fn(S, Asked<O>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<O::Answer, Refusal>> + Send,
    {
        self.to_any_host.insert(O::PATH);
        self.open(run)
    }

    /// A handler for an endpoint that anybody may use.
    pub(crate) fn open<O, F, R>(mut self, run: F) -> Self
    where
        O: Operation<Need = A::Need>,
        F: Fn(S, Asked<O>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<O::Answer, Refusal>> + Send,
    {
        if O::NEEDS.is_some() {
            self.mistakes.push(format!("{} needs a caller, and its handler takes none", O::ID));
            return self;
        }
        let (state, manner) = (self.state.clone(), self.manner.clone());
        let handler = move |params: RawPathParams, request: Request| {
            let (state, manner, run, id) = (state.clone(), manner.clone(), run.clone(), variable(&params));
            async move {
                let answer = async {
                    let (head, body) = request.into_parts();
                    answer::<O>(run(state, understood(id, &head, body, manner.body).await?).await?)
                };
                manner.finished(answer.await)
            }
        };
        self.add::<O>(on(filter(O::METHOD), handler))
    }

    /// A handler for an endpoint whose callers are known.
    pub(crate) fn on<O, F, R>(mut self, run: F) -> Self
    where
        O: Operation<Need = A::Need>,
        F: Fn(S, A::Caller, Asked<O>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<O::Answer, Refusal>> + Send,
    {
        let Some(needs) = O::NEEDS else {
            self.mistakes.push(format!("{} has no caller, and its handler takes one", O::ID));
            return self;
        };
        let (state, callers, manner) = (self.state.clone(), self.callers.clone(), self.manner.clone());
        let handler = move |params: RawPathParams, request: Request| {
            let (state, callers, manner) = (state.clone(), callers.clone(), manner.clone());
            let (run, id) = (run.clone(), variable(&params));
            async move {
                // The endpoints of claims have the claim in their path.
                let about = id.parse::<CoreId>().ok().filter(|_| O::PATH.contains("{operation_id}"));
                let about = about.map(OperationId::from);
                let mut noted = Noted { caller: None, endpoint: O::PATH, event: "", operation: about };
                let answer = async {
                    let (head, body) = request.into_parts();
                    let of = Of { operation: O::ID, id: &id, changes: O::METHOD != Method::Get };
                    let caller = callers.admit(&head, needs, &of).await?;
                    noted.caller = Some(caller.clone());
                    let asked = understood(id.clone(), &head, body, manner.body).await;
                    let done = async {
                        let done = run(state, caller.clone(), asked?).await?;
                        let (event, operation) = O::about(&done);
                        noted.event = event;
                        noted.operation = operation.cloned().or(noted.operation.take());
                        answer::<O>(done)
                    };
                    let done = done.await;
                    if let Err(refusal) = &done {
                        callers.refused(&caller, &of, refusal).await;
                    }
                    done
                };
                let answer = answer.await;
                if let Err(refusal) = &answer {
                    noted.event = refusal.code();
                }
                let mut response = manner.finished(answer);
                response.extensions_mut().insert(noted);
                response
            }
        };
        self.add::<O>(on(filter(O::METHOD), handler))
    }

    /// A handler that reads its body itself, as that comes. Its callers are known.
    pub(crate) fn upload<O, F, R>(self, run: F) -> Self
    where
        O: Operation<Need = A::Need, Body = JsonLines>,
        F: Fn(S, A::Caller, Asked<O>, Body) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<O::Answer, Refusal>> + Send,
    {
        let Some(needs) = O::NEEDS else { return self };
        let (state, callers, manner) = (self.state.clone(), self.callers.clone(), self.manner.clone());
        let handler = move |request: Request| {
            let (state, callers, manner, run) = (state.clone(), callers.clone(), manner.clone(), run.clone());
            async move {
                let answer = async {
                    let (head, body) = request.into_parts();
                    let of = Of { operation: O::ID, id: "", changes: true };
                    let caller = callers.admit(&head, needs, &of).await?;
                    let who = caller.clone();
                    let done = async {
                        let (query, traceparent) = (query::<O>(&head)?, traceparent(&head));
                        let asked = Asked { id: String::new(), query, body: JsonLines, traceparent };
                        answer::<O>(run(state, caller, asked, body).await?)
                    }
                    .await;
                    if let Err(refusal) = &done {
                        callers.refused(&who, &of, refusal).await;
                    }
                    done
                };
                manner.finished(answer.await)
            }
        };
        self.add::<O>(on(filter(O::METHOD), handler))
    }

    fn add<O: Operation>(mut self, handler: MethodRouter) -> Self {
        let known =
            |id, path, method: Method| (id, path, method.as_str()) == (O::ID, O::PATH, O::METHOD.as_str());
        if !self.table.endpoints.iter().any(|endpoint| known(endpoint.id, endpoint.path, endpoint.method)) {
            self.mistakes.push(format!("{} is not in the table of the listener", O::ID));
            return self;
        }
        match self.served.insert((O::PATH, O::METHOD.as_str())) {
            true => self.router = self.router.route(O::PATH, handler),
            false => self.mistakes.push(format!("{} has two handlers", O::ID)),
        }
        self
    }

    /// The service, if every endpoint of the table has its handler.
    pub(crate) fn router(mut self) -> Result<Router, Error> {
        let without = self
            .table
            .endpoints
            .iter()
            .filter(|endpoint| !self.served.contains(&(endpoint.path, endpoint.method.as_str())));
        self.mistakes.extend(without.map(|endpoint| format!("{} has no handler", endpoint.id)));
        if !self.mistakes.is_empty() {
            let what = Error::internal("the endpoints of a listener are not those of its table");
            return Err(what.with_detail(self.mistakes.join("; ")));
        }
        let (absent, other, guard) = (self.manner.clone(), self.manner.clone(), self.manner);
        let fallback = move || async move {
            let why = "this listener has no such path; its OpenAPI document lists them";
            absent.nowhere::<A::Caller>(Refusal::not_found(why))
        };
        let not_allowed =
            move || async move { other.nowhere::<A::Caller>(Problem::new(Code::MethodNotAllowed).into()) };
        let router = self.router.fallback(fallback).method_not_allowed_fallback(not_allowed);
        let (guard, to_any_host, callers) = (Arc::new(guard), Arc::new(self.to_any_host), self.callers);
        Ok(router.layer(from_fn(move |mut request: Request, next: Next| {
            let (guard, to_any_host, callers) = (guard.clone(), to_any_host.clone(), callers.clone());
            async move {
                let (began, method) = (clock::now(), request.method().clone());
                let peer = request.extensions().get().map(|Caller(peer)| *peer);
                let recorded = callers.record(request.headers());
                // Whatever the request goes on to is told of its span, in place of its caller's.
                if let Some(told) = recorded.as_ref().and_then(Recorded::header) {
                    request.headers_mut().insert(TRACEPARENT, told);
                }
                let mut response = match guard.lets_in(&request, to_any_host.contains(request.uri().path())) {
                    Ok(()) => next.run(request).await,
                    Err(refusal) => guard.nowhere::<A::Caller>(refusal),
                };
                if let Some(noted) = response.extensions_mut().remove::<Noted<A::Caller>>() {
                    let Noted { caller, endpoint, event, operation } = &noted;
                    callers.answered(&Answered {
                        caller: caller.as_ref(),
                        peer,
                        method: &method,
                        endpoint,
                        event,
                        operation: operation.as_ref(),
                        status: response.status().as_u16(),
                        took: began.elapsed(),
                        recorded: recorded.as_ref(),
                    });
                } else if let Some(recorded) = recorded {
                    recorded.forget();
                }
                response
            }
        })))
    }
}

impl Manner {
    /// Whether a request comes under a name of this listener, and from no page of another site. Looked at before anything else.
    fn lets_in(&self, request: &Request, any_host: bool) -> Result<(), Refusal> {
        if !any_host || self.hosts.everywhere() {
            self.hosts.admit(request.headers(), request.uri())?;
        }
        let path = request.uri().path();
        let told = path.starts_with("/v1/") || path == "/metrics" || path == "/openapi.json";
        let site = request.headers().get(SEC_FETCH_SITE);
        match site.is_some_and(|site| site != "same-origin" && site != "none") {
            true if told && self.of_one_site => {
                let detail = "a page of another site has asked for this, and no other site's page may (Sec-Fetch-Site)";
                Err(Problem::new(Code::Forbidden).detail(detail).into())
            }
            _ => Ok(()),
        }
    }

    /// The answer to a request that has come to no endpoint.
    fn nowhere<C: Clone + Send + Sync + 'static>(&self, refusal: Refusal) -> Response<Body> {
        let noted = Noted::<C>::nowhere(&refusal);
        let mut response = self.finished(Err(refusal));
        response.extensions_mut().insert(noted);
        response
    }

    /// What every answer has unless it says otherwise itself: nobody on the way keeps or guesses at it, a browser that opens it
    /// runs nothing in it, and whose it is.
    fn finished(&self, answer: Result<Response<Bytes>, Refusal>) -> Response<Body> {
        let mut response = answer.unwrap_or_else(|refusal| refusal.response(&self.docs));
        let headers = response.headers_mut();
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(INERT));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(LISTENER, self.listener.clone());
        response.map(Body::from)
    }
}

fn filter(method: Method) -> MethodFilter {
    match method {
        Method::Get => MethodFilter::GET,
        Method::Post => MethodFilter::POST,
        Method::Delete => MethodFilter::DELETE,
    }
}

fn variable(params: &RawPathParams) -> String {
    params.iter().next().map(|(_, value)| value.to_owned()).unwrap_or_default()
}

/// The request in the types of its operation. Only a POST has a body.
async fn understood<O: Operation>(
    id: String,
    head: &Parts,
    body: Body,
    most: (usize, &'static str),
) -> Result<Asked<O>, Refusal> {
    let body = match O::METHOD {
        Method::Post => match read(body, most).await? {
            nothing if nothing.is_empty() => Bytes::from_static(b"{}"),
            body => body,
        },
        Method::Get | Method::Delete => Bytes::from_static(b"{}"),
    };
    let query = query::<O>(head)?;
    let body = serde_json::from_slice(&body)
        .map_err(|error| Refusal::malformed(format!("the body is not the JSON that is expected: {error}")))?;
    Ok(Asked { id, query, body, traceparent: traceparent(head) })
}

fn traceparent(head: &Parts) -> Option<String> {
    trace::told(&head.headers).map(str::to_owned)
}

fn query<O: Operation>(head: &Parts) -> Result<O::Query, Refusal> {
    let query = Query::<O::Query>::try_from_uri(&head.uri);
    Ok(query.map_err(|rejection| Refusal::malformed(rejection.body_text()))?.0)
}

async fn read(body: Body, (most, too_long): (usize, &'static str)) -> Result<Bytes, Refusal> {
    let limited = Limited::new(body, most).collect();
    match tokio::time::timeout(limits::API_BODY_TIMEOUT, limited).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(Problem::new(Code::BodyTooLarge).detail(too_long).into())
        }
        Ok(Err(_)) => Err(Refusal::malformed("the body ended too early")),
        Err(_) => Err(Problem::new(Code::RequestTimeout).into()),
    }
}

fn answer<O: Operation>(answer: O::Answer) -> Result<Response<Bytes>, Refusal> {
    let unwritable = |error: String| Error::internal("an answer cannot be written").with_detail(error);
    let status = O::status(&answer);
    let body = answer.into_bytes().map_err(|error| unwritable(error.to_string()))?;
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = StatusCode::from_u16(status).map_err(|error| unwritable(error.to_string()))?;
    let length = HeaderValue::from(response.body().len());
    let kind = HeaderValue::from_static(<O::Answer as hapax_api::Content>::KIND);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response.headers_mut().insert(CONTENT_LENGTH, length);
    Ok(response)
}

#[cfg(test)]
mod tests;
