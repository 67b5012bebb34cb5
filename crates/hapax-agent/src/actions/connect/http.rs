//! Tools that are endpoints of a service: a method, a path with parameters out of the arguments, and the rest of them as a JSON body,
//! or as a query where the method has no body.

use std::collections::BTreeMap;

use hapax_core::Error;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, StatusCode, Url};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{BoxFuture, Connect, Invocation, Invoked, Refusal, TRACEPARENT, Tool};
use crate::limits;

/// How many characters of the action's key a service takes in `Idempotency-Key`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyDialect {
    /// 32.
    Chars32,
    /// 40.
    Chars40,
    /// 64.
    #[default]
    Chars64,
    /// The service is not told.
    None,
}

impl KeyDialect {
    fn of(self, key: &str) -> Option<&str> {
        match self {
            KeyDialect::Chars32 => key.get(..32),
            KeyDialect::Chars40 => key.get(..40),
            KeyDialect::Chars64 => key.get(..64),
            KeyDialect::None => None,
        }
    }
}

/// One endpoint.
#[derive(Clone, Debug)]
pub struct HttpTool {
    tool: Tool,
    method: Method,
    path: Vec<Part>,
    headers: HeaderMap,
    key: KeyDialect,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Parameter(String),
}

impl HttpTool {
    /// An endpoint by its method and path, such as `POST` and `/orders/{order}/hold`.
    pub fn new(tool: Tool, method: &str, path: &str) -> Result<Self, Error> {
        let method = Method::from_bytes(method.as_bytes());
        let method = method.map_err(|_| Error::invalid("method: no HTTP method"))?;
        if !path.starts_with('/') || path.contains(['?', '#']) {
            return Err(Error::invalid("path: begins with / and has neither ? nor #"));
        }
        Ok(HttpTool {
            tool,
            method,
            path: parts(path)?,
            headers: HeaderMap::new(),
            key: KeyDialect::default(),
        })
    }

    /// With a header on every call.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, Error> {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| Error::invalid("no header name"))?;
        let mut value = HeaderValue::from_str(value).map_err(|_| Error::invalid("no header value"))?;
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(self)
    }

    /// With a key as this service takes it.
    #[must_use]
    pub fn key(self, key: KeyDialect) -> Self {
        HttpTool { key, ..self }
    }

    /// The path with its parameters, and the arguments that are not in it.
    fn parameters(&self, args: &RawValue) -> Result<(String, Map<String, Value>), String> {
        let mut args: Map<String, Value> =
            serde_json::from_str(args.get()).map_err(|error| format!("args: {error}"))?;
        let mut path = String::new();
        for part in &self.path {
            match part {
                Part::Text(text) => path.push_str(text),
                Part::Parameter(name) => {
                    let value = args.remove(name).ok_or_else(|| format!("args.{name}: missing"))?;
                    path.push_str(&segment(&value).ok_or_else(|| {
                        format!("args.{name}: a text or a number that can be a segment of a path")
                    })?);
                }
            }
        }
        Ok((path, args))
    }
}

fn parts(path: &str) -> Result<Vec<Part>, Error> {
    let mut parts = Vec::new();
    let mut rest = path;
    while let Some((text, more)) = rest.split_once('{') {
        let closed = more.split_once('}').filter(|(name, _)| !name.is_empty() && !name.contains('{'));
        let Some((name, after)) = closed else {
            return Err(Error::invalid("path: a parameter is written as {name}"));
        };
        parts.extend([Part::Text(text.to_owned()), Part::Parameter(name.to_owned())]);
        rest = after;
    }
    parts.push(Part::Text(rest.to_owned()));
    Ok(parts)
}

/// A service with its tools.
#[derive(Clone, Debug)]
pub struct Http {
    client: Client,
    base: Url,
    tools: BTreeMap<String, HttpTool>,
}

impl Http {
    /// A service at this URL.
    pub fn new(url: &str) -> Result<Self, Error> {
        let base = Url::parse(url).map_err(|error| Error::invalid(format!("url: {error}")))?;
        if !matches!(base.scheme(), "http" | "https") || base.query().is_some() || base.fragment().is_some() {
            return Err(Error::invalid("url: http:// or https://, without query and fragment"));
        }
        Ok(Http { client: client(HeaderMap::new())?, base, tools: BTreeMap::new() })
    }

    /// With a tool.
    #[must_use]
    pub fn tool(mut self, name: impl Into<String>, tool: HttpTool) -> Self {
        self.tools.insert(name.into(), tool);
        self
    }

    async fn call(&self, call: Invocation) -> Invoked {
        let Some(tool) = self.tools.get(&call.tool) else {
            return Invoked::NotRun(format!("no tool {:?}", call.tool));
        };
        let request = match self.request(tool, &call) {
            Ok(request) => request,
            Err(error) => return Invoked::NotRun(error),
        };
        match self.client.execute(request).await {
            Ok(response) => answered(response).await,
            Err(error) if error.is_connect() || error.is_builder() => {
                Invoked::NotRun(format!("the service was not reached: {}", without_url(error)))
            }
            Err(error) => Invoked::Unknown(format!("the service has not answered: {}", without_url(error))),
        }
    }

    fn request(&self, tool: &HttpTool, call: &Invocation) -> Result<reqwest::Request, String> {
        let (path, args) = tool.parameters(&call.args)?;
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        let has_body = !matches!(tool.method, Method::GET | Method::HEAD | Method::DELETE | Method::OPTIONS);
        if !has_body && !args.is_empty() {
            let texts = args.iter().map(|(name, value)| (name.as_str(), text(value)));
            url.query_pairs_mut().extend_pairs(texts);
        }
        let mut request = self.client.request(tool.method.clone(), url).headers(tool.headers.clone());
        if let Some(key) = call.key.as_deref().and_then(|key| tool.key.of(key)) {
            request = request.header("idempotency-key", key);
        }
        if let Some(epoch) = call.epoch {
            request = request.header("x-operation-epoch", epoch.packed());
        }
        if let Some(operation_id) = call.operation_id {
            request = request.header("x-operation-id", operation_id.to_string());
        }
        if has_body {
            request =
                request.header("content-type", "application/json").body(Value::Object(args).to_string());
        }
        let mut request = request.build().map_err(without_url)?;
        let traceparent = call.traceparent.as_deref().map(HeaderValue::from_str);
        if let Some(Ok(traceparent)) = traceparent {
            request.headers_mut().insert(TRACEPARENT, traceparent);
        }
        Ok(request)
    }
}

/// A client with headers on every request. A redirect would be a second call that nothing has decided about.
pub(super) fn client(headers: HeaderMap) -> Result<Client, Error> {
    Client::builder()
        .default_headers(headers)
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(limits::CONNECT_TIMEOUT)
        .retry(reqwest::retry::never())
        .build()
        .map_err(|error| Error::internal(format!("no HTTP client: {error}")))
}

/// One segment of a path; nothing that would be another path.
fn segment(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    if text.is_empty() || text == "." || text == ".." {
        return None;
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encode = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    Some(text.bytes().map(encode).collect())
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What an answer says about the call (L7).
async fn answered(response: reqwest::Response) -> Invoked {
    let status = response.status();
    let body = match body(response).await {
        Ok(body) => Some(body),
        // Its status has told how the call ended; only what else it says is not kept.
        Err(NoBody::TooLarge) => None,
        // It has answered, so it was reached; what is missing is the rest.
        Err(error @ NoBody::Lost(_)) => return Invoked::Unknown(format!("half an answer: {error}")),
    };
    if status.is_success() {
        return Invoked::Done(body.map_or_else(|| not_kept(status), |body| as_json(status, &body)));
    }
    let said = body.map_or_else(|| NoBody::TooLarge.to_string(), |body| excerpt(&body));
    let told = format!("the service answered {status}: {said}");
    match status {
        StatusCode::REQUEST_TIMEOUT => Invoked::Unknown(told),
        _ if status.is_client_error() => Invoked::NotRun(told),
        _ => Invoked::Unknown(told),
    }
}

/// Why there is no body.
pub(super) enum NoBody {
    /// It is larger than what is read.
    TooLarge,
    /// It ended too early.
    Lost(String),
}

impl std::fmt::Display for NoBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoBody::TooLarge => {
                write!(f, "the answer has more than {} MiB", limits::MAX_ANSWER_BYTES / (1024 * 1024))
            }
            NoBody::Lost(why) => f.write_str(why),
        }
    }
}

pub(super) async fn body(mut response: reqwest::Response) -> Result<Vec<u8>, NoBody> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| NoBody::Lost(without_url(error)))? {
        if body.len() + chunk.len() > limits::MAX_ANSWER_BYTES {
            return Err(NoBody::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The answer as JSON: as it came, or as text, or its status where it is empty.
fn as_json(status: StatusCode, body: &[u8]) -> Box<RawValue> {
    let came = serde_json::from_slice::<Box<RawValue>>(body).ok();
    let text = || match body.is_empty() {
        true => serde_json::json!({ "status": status.as_u16() }).to_string(),
        false => Value::String(String::from_utf8_lossy(body).into_owned()).to_string(),
    };
    came.or_else(|| RawValue::from_string(text()).ok()).unwrap_or_default()
}

/// The result of a call that succeeded with an answer that is too large.
fn not_kept(status: StatusCode) -> Box<RawValue> {
    let told = serde_json::json!({ "status": status.as_u16(), "not_kept": NoBody::TooLarge.to_string() });
    RawValue::from_string(told.to_string()).unwrap_or_default()
}

fn excerpt(body: &[u8]) -> String {
    String::from_utf8_lossy(body).chars().filter(|c| !c.is_control()).take(limits::EXCERPT_CHARS).collect()
}

/// An error of the client. Its URL has arguments of the action, or secrets of the configuration, which no receipt may tell.
pub(super) fn without_url(error: reqwest::Error) -> String {
    chain(&error.without_url())
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

impl Connect for Http {
    fn look_up<'a>(
        &'a self,
        name: &'a str,
        args: &'a RawValue,
    ) -> BoxFuture<'a, Result<Option<Tool>, Refusal>> {
        let fits = |tool: &HttpTool| tool.parameters(args).map(|_| tool.tool.clone());
        let found = self.tools.get(name).map(fits).transpose();
        let found = found.map_err(|error| Refusal::new("args-malformed", error));
        Box::pin(std::future::ready(found))
    }

    fn invoke(&self, call: Invocation) -> BoxFuture<'_, Invoked> {
        Box::pin(self.call(call))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(tool: HttpTool, args: &str) -> Result<reqwest::Request, String> {
        let args = RawValue::from_string(args.into()).unwrap();
        let key = Some("0123456789abcdef".repeat(4));
        let (epoch, operation_id, traceparent) = (None, None, None);
        let call = Invocation { tool: "t".into(), args, key, epoch, operation_id, traceparent };
        Http::new("http://127.0.0.1:9/base/").unwrap().request(&tool, &call)
    }

    fn tool(method: &str, path: &str) -> HttpTool {
        HttpTool::new(Tool::default(), method, path).unwrap()
    }

    #[test]
    fn parameters_go_into_the_path_and_the_rest_into_the_body() {
        let made = request(tool("POST", "/orders/{order}/hold"), r#"{"order":"SO 1/2","why":"x"}"#).unwrap();
        assert_eq!(made.url().as_str(), "http://127.0.0.1:9/base/orders/SO%201%2F2/hold");
        assert_eq!(made.body().unwrap().as_bytes().unwrap(), br#"{"why":"x"}"#);
        assert_eq!(made.headers()["idempotency-key"].len(), 64);
        let made = request(tool("GET", "/orders/{order}"), r#"{"order":7,"full":true}"#).unwrap();
        assert_eq!(
            (made.url().as_str(), made.body().is_none()),
            ("http://127.0.0.1:9/base/orders/7?full=true", true)
        );
    }

    #[test]
    fn a_key_is_as_long_as_the_service_takes_it() {
        for (dialect, length) in
            [(KeyDialect::Chars32, Some(32)), (KeyDialect::Chars40, Some(40)), (KeyDialect::None, None)]
        {
            let made = request(tool("POST", "/t").key(dialect), "{}").unwrap();
            assert_eq!(made.headers().get("idempotency-key").map(HeaderValue::len), length);
        }
    }

    #[test]
    fn what_would_be_another_path_is_refused() {
        for args in [r#"{"order":".."}"#, r#"{"order":""}"#, r#"{"order":["a"]}"#, "{}"] {
            assert!(
                request(tool("POST", "/orders/{order}"), args).unwrap_err().contains("args.order"),
                "{args}"
            );
        }
        for path in ["orders", "/a?b", "/a/{", "/a/{}", "/a/{b{c}}"] {
            assert!(HttpTool::new(Tool::default(), "POST", path).is_err(), "{path}");
        }
    }
}
