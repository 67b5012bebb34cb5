//! The demo's service: `POST /charges` under a key, `GET /charges` to count.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::{BufMut as _, Bytes, BytesMut};
use hapax_core::key::from_header_lines;
use hapax_core::{Identity, Operation, OperationId, Outcome, Retry, Scope, Source, Width};
use hapax_exec::{Call, Done, Ended, Error, Executor, How, Reason};
use hapax_store::embedded::Embedded;
use serde::Deserialize;
use serde_json::json;

/// How long a charge takes.
const CHARGE_TAKES: Duration = Duration::from_millis(500);

/// The service.
pub(super) struct Service {
    executor: Executor<Embedded>,
    /// Every charge that happened, one line each.
    charges: PathBuf,
}

#[derive(Debug, Default, Deserialize)]
struct Fault {
    fault: Option<String>,
}

impl Service {
    pub(super) fn new(executor: Executor<Embedded>, charges: PathBuf) -> Self {
        Service { executor, charges }
    }

    pub(super) fn router(self: Arc<Self>) -> Router {
        Router::new().route("/charges", get(list).post(charge)).with_state(self)
    }

    /// The work: what must not happen twice.
    async fn charge(&self, key: &str, body: &Bytes, fault: Option<&str>) -> Ended {
        tokio::time::sleep(CHARGE_TAKES).await;
        if fault == Some("declined") {
            return Ended::refused(kept(StatusCode::PAYMENT_REQUIRED, &json!({"error": "card declined"})));
        }
        let body = String::from_utf8_lossy(body);
        let line = json!({"key": key, "charge": body}).to_string();
        if let Err(error) = self.write(&line) {
            return Ended::NotRun(error.to_string());
        }
        if fault == Some("lost-answer") {
            return Ended::Unknown("the connection to the bank was reset after the request was sent".into());
        }
        Ended::succeeded(kept(StatusCode::CREATED, &json!({"charged": body, "for": key})))
    }

    fn write(&self, line: &str) -> std::io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.charges)?;
        writeln!(file, "{line}")?;
        file.sync_data()
    }
}

async fn list(State(service): State<Arc<Service>>) -> Response {
    let charges = std::fs::read_to_string(&service.charges).unwrap_or_default();
    let summary = format!("{} charges\n{charges}", charges.lines().count());
    (StatusCode::OK, summary).into_response()
}

async fn charge(
    State(service): State<Arc<Service>>,
    Query(fault): Query<Fault>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let lines = headers.get_all("idempotency-key").iter().map(HeaderValue::as_bytes);
    let key = match from_header_lines(lines) {
        Ok(Some(key)) => key,
        Ok(None) => {
            return problem(StatusCode::BAD_REQUEST, "key-missing", "send an Idempotency-Key header", None);
        }
        Err(error) => return problem(StatusCode::BAD_REQUEST, "key-malformed", &error.to_string(), None),
    };
    let operation = match Operation::new("demo.charge") {
        Ok(operation) => operation,
        Err(error) => return problem(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.message(), None),
    };
    let identity = Identity::new(Source::Header, Scope::local(), Width::Subject, operation, key.clone());
    let call = Call::of(identity).body(&body);
    let work = |_| async { service.charge(key.as_str(), &body, fault.fault.as_deref()).await };
    match service.executor.once(call, work).await {
        Ok(done) => answer(done),
        Err(error) => refuse(&error),
    }
}

/// Status and body in one piece, as they are kept.
fn kept(status: StatusCode, body: &serde_json::Value) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u16(status.as_u16());
    bytes.put_slice(body.to_string().as_bytes());
    bytes.put_u8(b'\n');
    bytes.freeze()
}

fn answer(done: Done) -> Response {
    let (Outcome::Succeeded(mut bytes) | Outcome::Refused(mut bytes)) = done.value else {
        return problem(
            StatusCode::CONFLICT,
            "outcome-not-kept",
            "it was done; its answer was not kept",
            done.operation_id,
        );
    };
    if bytes.len() < 2 {
        return problem(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the kept answer is empty",
            done.operation_id,
        );
    }
    let head = bytes.split_to(2);
    let status = StatusCode::from_u16(u16::from_be_bytes([head[0], head[1]])).unwrap_or(StatusCode::OK);
    let mut response = (status, [(header::CONTENT_TYPE, "application/json")], bytes).into_response();
    identify(&mut response, done.operation_id);
    if matches!(done.how, How::Replayed | How::Attached) {
        response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
    }
    response
}

fn refuse(error: &Error) -> Response {
    let status = match error.reason() {
        Reason::Mismatch { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        Reason::InProgress | Reason::OutcomeUnknown { .. } => StatusCode::CONFLICT,
        Reason::AttemptFailed { .. } | Reason::OutcomePending | Reason::Unavailable => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut response = problem(status, error.code(), &error.to_string(), error.operation_id());
    if let Retry::SameKey(after) = error.retry() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
    }
    response
}

fn problem(status: StatusCode, code: &str, detail: &str, operation: Option<OperationId>) -> Response {
    let body = json!({"status": status.as_u16(), "code": code, "detail": detail}).to_string() + "\n";
    let mut response = (status, [(header::CONTENT_TYPE, "application/problem+json")], body).into_response();
    identify(&mut response, operation);
    response
}

fn identify(response: &mut Response, operation: Option<OperationId>) {
    if let Some(value) = operation.and_then(|id| HeaderValue::from_str(&id.to_string()).ok()) {
        response.headers_mut().insert("x-operation-id", value);
    }
}
