//! The demo's service: `POST /charges` charges, `GET /charges` counts. It knows nothing about retries: that is the edge's
//! affair.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use http_body::Frame;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// How long a charge takes.
const CHARGE_TAKES: Duration = Duration::from_millis(500);

/// The service.
pub(super) struct Service {
    /// Every charge that happened, one line each.
    charges: PathBuf,
}

#[derive(Debug, Default, Deserialize)]
struct Fault {
    fault: Option<String>,
}

impl Service {
    pub(super) fn new(charges: PathBuf) -> Self {
        Service { charges }
    }

    /// Serves until the process ends.
    pub(super) async fn serve(self: Arc<Self>, listener: TcpListener) {
        let router = Router::new()
            .route("/charges", get(list).post(charge))
            .route("/refunds", post(refund))
            .with_state(self);
        // It ends with the process.
        let _ = axum::serve(listener, router).await;
    }

    /// The effect: what must not happen twice. Returns its number.
    fn charge(&self, line: &str) -> std::io::Result<usize> {
        let before = std::fs::read_to_string(&self.charges).unwrap_or_default().lines().count();
        let mut file = OpenOptions::new().create(true).append(true).open(&self.charges)?;
        writeln!(file, "{line}")?;
        file.sync_data()?;
        Ok(before + 1)
    }
}

async fn list(State(service): State<Arc<Service>>) -> Response {
    let charges = std::fs::read_to_string(&service.charges).unwrap_or_default();
    (StatusCode::OK, format!("{} charges\n{charges}", charges.lines().count())).into_response()
}

async fn charge(
    State(service): State<Arc<Service>>,
    Query(fault): Query<Fault>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    tokio::time::sleep(CHARGE_TAKES).await;
    let Ok(asked) = serde_json::from_slice::<Value>(&body) else {
        return answer(StatusCode::BAD_REQUEST, &json!({"error": "send JSON, such as {\"amount\": 10}"}));
    };
    if fault.fault.as_deref() == Some("declined") {
        return answer(StatusCode::PAYMENT_REQUIRED, &json!({"error": "card declined"}));
    }
    let told =
        |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("nobody").to_owned();
    let (tenant, subject) = (told("x-tenant-id"), told("x-subject"));
    let line = json!({"charge": asked, "tenant": tenant, "subject": subject, "key": told("idempotency-key")});
    let Ok(number) = service.charge(&line.to_string()) else {
        return answer(
            StatusCode::SERVICE_UNAVAILABLE,
            &json!({"error": "the ledger of charges cannot be written"}),
        );
    };
    if fault.fault.as_deref() == Some("crash") {
        // As if the process had died right after the charge: the connection breaks off within the answer.
        return (StatusCode::CREATED, Body::new(Broken)).into_response();
    }
    let mut response = answer(StatusCode::CREATED, &json!({"charged": asked, "number": number}));
    if let Ok(location) = format!("/charges/{number}").parse() {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// Gives money back, which the demo does by itself: nothing is written down, so that charges can be counted.
async fn refund(Query(fault): Query<Fault>, body: Bytes) -> Response {
    if fault.fault.as_deref() == Some("crash") {
        return (StatusCode::CREATED, Body::new(Broken)).into_response();
    }
    let asked = serde_json::from_slice::<Value>(&body).unwrap_or_default();
    answer(StatusCode::CREATED, &json!({"refunded": asked}))
}

/// A body that breaks off before its first byte.
struct Broken;

impl http_body::Body for Broken {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        Poll::Ready(Some(Err(std::io::Error::other("the service crashed as it was told to"))))
    }
}

fn answer(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response()
}
