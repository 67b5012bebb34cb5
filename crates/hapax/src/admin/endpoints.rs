//! Every path of the admin listener, with who may use it, and the way from a request to its answer.
//!
//! A path is served because it is in [`ENDPOINTS`] and for no other reason; who may use it is checked before anything of
//! the request's body is read.

use std::future::Future;
use std::pin::Pin;

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, RawPathParams, Request, State};
use axum::routing::{MethodFilter, MethodRouter, on};
use bytes::Bytes;
use hapax_gateway::pages;
use hapax_tower::{Code, Problem};
use http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use http::{Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::access::{Role, Who};
use super::refusal::{self, Refusal};
use super::{AdminState, audit, claims, decide, erase, keys, retention};
use crate::limits;

/// What every answer of this listener has and no other server's: by it the command line knows whom it has asked.
pub(crate) const LISTENER: (HeaderName, HeaderValue) =
    (HeaderName::from_static("hapax-listener"), HeaderValue::from_static("admin"));

/// The description of the API, for programs.
pub(super) const OPENAPI: &str = include_str!("openapi.json");

/// What answers a request.
pub(super) type Ran = Pin<Box<dyn Future<Output = Result<Response<Bytes>, Refusal>> + Send>>;

/// One path and method.
pub(super) struct Endpoint {
    pub(super) method: MethodFilter,
    pub(super) path: &'static str,
    /// Who may use it; `None`: everybody.
    pub(super) role: Option<Role>,
    run: fn(AdminState, Asked) -> Ran,
}

const fn endpoint(
    method: MethodFilter,
    path: &'static str,
    role: Option<Role>,
    run: fn(AdminState, Asked) -> Ran,
) -> Endpoint {
    Endpoint { method, path, role, run }
}

const GET: MethodFilter = MethodFilter::GET;
const POST: MethodFilter = MethodFilter::POST;
const READ: Option<Role> = Some(Role::Read);
const OPERATE: Option<Role> = Some(Role::Operate);

/// All of them.
pub(super) const ENDPOINTS: &[Endpoint] = &[
    endpoint(GET, "/healthz", None, healthz),
    endpoint(GET, "/readyz", None, readyz),
    endpoint(GET, "/metrics", None, metrics),
    endpoint(GET, "/.well-known/hapax/errors/{code}", None, page),
    endpoint(GET, "/openapi.json", READ, openapi),
    endpoint(GET, "/v1/claims", READ, claims::get_list),
    endpoint(GET, "/v1/claims/count", READ, claims::get_count),
    endpoint(GET, "/v1/claims/{operation_id}", READ, claims::get_one),
    endpoint(POST, "/v1/claims/{operation_id}/resolve", OPERATE, decide::resolve),
    endpoint(POST, "/v1/claims/{operation_id}/reopen", OPERATE, decide::reopen),
    endpoint(POST, "/v1/claims/{operation_id}/purge", OPERATE, decide::purge),
    endpoint(POST, "/v1/claims/{operation_id}/erase", OPERATE, decide::erase),
    endpoint(POST, "/v1/claims/erase", OPERATE, erase::subject),
    endpoint(GET, "/v1/keys", READ, keys::get_list),
    endpoint(POST, "/v1/keys", OPERATE, keys::create),
    endpoint(MethodFilter::DELETE, "/v1/keys/{key_id}", OPERATE, keys::revoke),
    endpoint(GET, "/v1/retention", READ, retention::get_list),
    endpoint(POST, "/v1/retention/{class}", OPERATE, retention::set),
    endpoint(MethodFilter::DELETE, "/v1/retention/{class}", OPERATE, retention::unset),
    endpoint(GET, "/v1/audit", READ, audit::get),
    endpoint(GET, "/v1/routes", READ, routes),
];

/// A request that was let in.
pub(super) struct Asked {
    /// Whose token it came with; nobody's where none is needed.
    pub(super) who: Who,
    /// The variable part of the path; empty where there is none.
    pub(super) id: String,
    uri: Uri,
    body: Bytes,
}

impl Asked {
    /// What the query says.
    pub(super) fn query<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        let read = Query::<T>::try_from_uri(&self.uri);
        read.map(|query| query.0).map_err(|rejection| Refusal::malformed(rejection.body_text()))
    }

    /// What the body says.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Refusal::malformed(format!("the body is not the JSON that is expected: {error}"))
        })
    }

    /// Refuses whoever has less than this role.
    pub(super) fn needs(&self, role: Role) -> Result<(), Refusal> {
        if self.who.role >= role {
            return Ok(());
        }
        let detail = format!(
            "the token {:?} has the role {}; this needs operate",
            self.who.name,
            self.who.role.as_str()
        );
        Err(Problem::new(Code::Forbidden).detail(detail).into())
    }
}

/// The listener's service.
pub(super) fn router(state: AdminState) -> Router {
    let mut router = Router::new();
    for endpoint in ENDPOINTS {
        router = router.route(endpoint.path, method_router(endpoint));
    }
    router
        .fallback(|State(state): State<AdminState>| async move {
            finished(
                Err(Refusal::not_found("this listener has no such path; GET /openapi.json lists them")),
                &state,
            )
        })
        .method_not_allowed_fallback(|State(state): State<AdminState>| async move {
            finished(Err(Problem::new(Code::MethodNotAllowed).into()), &state)
        })
        .with_state(state)
}

fn method_router(endpoint: &'static Endpoint) -> MethodRouter<AdminState> {
    let handle = move |State(state): State<AdminState>, params: RawPathParams, request: Request| async move {
        let id = params.iter().next().map(|(_, value)| value.to_owned()).unwrap_or_default();
        let answer = handle(endpoint, &state, id, request).await;
        finished(answer, &state)
    };
    on(endpoint.method, handle)
}

async fn handle(
    endpoint: &Endpoint,
    state: &AdminState,
    id: String,
    request: Request,
) -> Result<Response<Bytes>, Refusal> {
    let who = match endpoint.role {
        Some(role) => state.tokens.admit(request.headers(), role)?,
        None => Who { name: String::new(), role: Role::Read },
    };
    let (parts, body) = request.into_parts();
    let body = match endpoint.method {
        MethodFilter::POST => read(body).await?,
        _ => Bytes::new(),
    };
    (endpoint.run)(state.clone(), Asked { who, id, uri: parts.uri, body }).await
}

async fn read(body: Body) -> Result<Bytes, Refusal> {
    let limited = Limited::new(body, limits::ADMIN_BODY_BYTES).collect();
    match tokio::time::timeout(limits::ADMIN_BODY_TIMEOUT, limited).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(Problem::new(Code::BodyTooLarge).detail("a body has at most 2 MiB here").into())
        }
        Ok(Err(_)) => Err(Refusal::malformed("the body ended too early")),
        Err(_) => Err(Problem::new(Code::RequestTimeout).into()),
    }
}

/// What every answer of this listener has: nobody on the way keeps or guesses at it, and whose it is.
fn finished(answer: Result<Response<Bytes>, Refusal>, state: &AdminState) -> Response<Body> {
    let mut response = answer.unwrap_or_else(|refusal| refusal.response(&state.docs));
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let (name, value) = LISTENER;
    headers.insert(name, value);
    response.map(Body::from)
}

/// 200 with JSON.
pub(super) fn ok(body: &Value) -> Result<Response<Bytes>, Refusal> {
    answer(StatusCode::OK, body)
}

/// JSON.
pub(super) fn answer(status: StatusCode, body: &Value) -> Result<Response<Bytes>, Refusal> {
    Ok(text(status, "application/json", body.to_string()))
}

fn text(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let length = HeaderValue::from(response.body().len());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(CONTENT_LENGTH, length);
    response
}

/// The process lives.
fn healthz(_: AdminState, _: Asked) -> Ran {
    Box::pin(async { ok(&json!({"status": "ok"})) })
}

/// The process can serve.
fn readyz(state: AdminState, _: Asked) -> Ran {
    Box::pin(async move {
        let reasons = (state.ready)().reasons;
        let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        answer(status, &json!({"ready": reasons.is_empty(), "reasons": reasons}))
    })
}

fn metrics(state: AdminState, _: Asked) -> Ran {
    Box::pin(async move {
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        Ok(text(StatusCode::OK, kind, (state.metrics)()))
    })
}

/// What a problem's `type` leads to, as at the edge.
fn page(_: AdminState, asked: Asked) -> Ran {
    Box::pin(async move {
        let page = refusal::page(&asked.id).map(|page| text(StatusCode::OK, pages::KIND, page));
        page.ok_or_else(|| Refusal::not_found("there is no such code"))
    })
}

fn openapi(_: AdminState, _: Asked) -> Ran {
    Box::pin(async { Ok(text(StatusCode::OK, "application/json", OPENAPI)) })
}

fn routes(state: AdminState, _: Asked) -> Ran {
    Box::pin(async move { ok(&json!({"routes": (state.routes)()})) })
}
