//! Streamable HTTP with the client of this crate: no redirects, no retries, bounded answers, and errors that say whether the server can
//! have run anything.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use hapax_core::Error;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use rmcp::ErrorData;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetMeta as _, ServerJsonRpcMessage};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::FixedInterval;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use super::super::TRACEPARENT;
use super::super::http::{body, without_url};
use super::ends::excerpt;
use crate::limits;

const SESSION: &str = "mcp-session-id";
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";

/// A server at a URL.
#[derive(Clone, Debug)]
pub(super) struct Web {
    client: Client,
    url: Arc<str>,
}

/// What is known of a request that was not answered as it should be.
#[derive(Debug)]
pub(super) enum WebError {
    /// It was not sent.
    NotReached(String),
    /// It was refused: 4xx but 408.
    Refused(String),
    /// It may have been worked on.
    Lost(String),
}

impl std::fmt::Display for WebError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (WebError::NotReached(told) | WebError::Refused(told) | WebError::Lost(told)) = self;
        f.write_str(told)
    }
}

impl std::error::Error for WebError {}

type Failure = StreamableHttpError<WebError>;

impl Web {
    pub(super) fn new<'a>(
        url: &str,
        headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, Error> {
        let parsed = Url::parse(url).map_err(|error| Error::invalid(format!("url: {error}")))?;
        if !matches!(parsed.scheme(), "http" | "https") || parsed.fragment().is_some() {
            return Err(Error::invalid("url: http:// or https://, without fragment"));
        }
        let mut fixed = HeaderMap::new();
        for (name, value) in headers {
            let name =
                HeaderName::from_bytes(name.as_bytes()).map_err(|_| Error::invalid("no header name"))?;
            if name.as_str().starts_with("mcp-") || name == ACCEPT || name == CONTENT_TYPE {
                return Err(Error::invalid(format!("headers: {name} is the protocol's own")));
            }
            let mut value = HeaderValue::from_str(value).map_err(|_| Error::invalid("no header value"))?;
            value.set_sensitive(true);
            fixed.insert(name, value);
        }
        let client = super::super::http::client(fixed)?;
        Ok(Web { client, url: parsed.as_str().into() })
    }

    async fn sent(&self, request: RequestBuilder) -> Result<Response, Failure> {
        request.send().await.map_err(|error| {
            let unsent = error.is_connect() || error.is_builder();
            let told = without_url(error);
            StreamableHttpError::Client(match unsent {
                true => WebError::NotReached(format!("the server was not reached: {told}")),
                false => WebError::Lost(format!("the server has not answered: {told}")),
            })
        })
    }
}

/// A connection to the server. A session that the server has forgotten is not made anew behind the scenes: that would send a call twice.
pub(super) fn transport(web: &Web) -> StreamableHttpClientTransport<Web> {
    let mut config = StreamableHttpClientTransportConfig::with_uri(Arc::clone(&web.url));
    config.reinit_on_expired_session = false;
    config.max_sse_event_size = limits::MAX_ANSWER_BYTES;
    config.max_concurrent_requests = limits::MCP_CALLS;
    let mut again = FixedInterval::default();
    again.max_times = Some(limits::MCP_RESUMES);
    config.retry_config = Arc::new(again);
    StreamableHttpClientTransport::with_client(web.clone(), config)
}

impl StreamableHttpClient for Web {
    type Error = WebError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let mut request = self.client.post(&*uri).header(ACCEPT, format!("{JSON}, {EVENTS}"));
        request = request.headers(headers.into_iter().collect());
        if let Some(traceparent) = traceparent(&message) {
            request = request.header(TRACEPARENT, traceparent);
        }
        if let Some(session) = session_id.as_deref() {
            request = request.header(SESSION, session);
        }
        let sent = serde_json::to_vec(&message)?;
        let response = self.sent(request.header(CONTENT_TYPE, JSON).body(sent)).await?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session_id.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let header = |name| response.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let (kind, session) =
            (header("content-type").unwrap_or_default(), header(SESSION).map(str::to_owned));
        if status.is_success() && kind.starts_with(EVENTS) {
            return Ok(StreamableHttpPostResponse::Sse(events(response), session));
        }
        let body = body(response).await.map_err(|error| lost(format!("half an answer: {error}")))?;
        if !status.is_success() {
            return refused(&message, status, &body);
        }
        match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
            Ok(answer) => Ok(StreamableHttpPostResponse::Json(answer, session)),
            Err(_) if !matches!(message, ClientJsonRpcMessage::Request(_)) => {
                Ok(StreamableHttpPostResponse::Accepted)
            }
            Err(_) => Err(lost(format!("the answer is none: {}", excerpt(&String::from_utf8_lossy(&body))))),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        let request = self.client.delete(&*uri).headers(headers.into_iter().collect());
        self.sent(request.header(SESSION, &*session)).await.map(drop)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let most = limits::MAX_ANSWER_BYTES;
        self.get_stream_with_max_sse_event_size(uri, session, last_event, auth, headers, most).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        most: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        // A read, and bounded for each event there.
        let client = &self.client;
        let opened =
            client.get_stream_with_max_sse_event_size(uri, session, last_event, auth, headers, most).await;
        opened.map_err(|error| match error {
            StreamableHttpError::ServerDoesNotSupportSse => StreamableHttpError::ServerDoesNotSupportSse,
            StreamableHttpError::AuthRequired(error) => StreamableHttpError::AuthRequired(error),
            StreamableHttpError::InsufficientScope(error) => StreamableHttpError::InsufficientScope(error),
            StreamableHttpError::Client(error) => lost(without_url(error)),
            other => lost(other.to_string()),
        })
    }
}

/// The span that a call says it is made for: what is before a server reads headers alone.
fn traceparent(message: &ClientJsonRpcMessage) -> Option<HeaderValue> {
    let ClientJsonRpcMessage::Request(request) = message else { return None };
    let traceparent = request.request.get_meta().get(TRACEPARENT)?.as_str()?;
    HeaderValue::from_str(traceparent).ok()
}

fn lost(told: String) -> Failure {
    StreamableHttpError::Client(WebError::Lost(told))
}

/// An answer that comes as events. All of it together is bounded: it ends with the answer.
fn events(response: Response) -> BoxStream<'static, Result<Sse, SseError>> {
    let mut left = limits::MAX_ANSWER_BYTES;
    let bounded = response.bytes_stream().map(move |chunk| {
        let chunk = chunk.map_err(|error| std::io::Error::other(error.without_url()))?;
        left = left.checked_sub(chunk.len()).ok_or_else(|| std::io::Error::other("it is too large"))?;
        Ok::<_, std::io::Error>(chunk)
    });
    SseStream::from_bytes_stream(bounded).boxed()
}

/// What a status that is no success says. The question whether a server speaks the newer revision is answered by any refusal.
fn refused(
    message: &ClientJsonRpcMessage,
    status: StatusCode,
    body: &[u8],
) -> Result<StreamableHttpPostResponse, Failure> {
    let told = format!("the server answered {status}: {}", excerpt(&String::from_utf8_lossy(body)));
    if status == StatusCode::REQUEST_TIMEOUT || !status.is_client_error() {
        return Err(lost(told));
    }
    if let ClientJsonRpcMessage::Request(request) = message
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
    {
        let error = match serde_json::from_slice(body) {
            Ok(ServerJsonRpcMessage::Error(error)) => error.error,
            _ => ErrorData::invalid_request(told, None),
        };
        let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
        return Ok(StreamableHttpPostResponse::Json(answer, None));
    }
    Err(StreamableHttpError::Client(WebError::Refused(told)))
}
