//! Sends the requests of a probe: bounded in number, in time and in what is read; nothing is sent twice by itself, and no
//! redirect is followed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};

use hapax_core::json::Pointer;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use reqwest::{Certificate, Request, Url, redirect, retry};

use crate::answer::Answer;
use crate::body;
use crate::{clock, limits};

/// Why there is no answer.
#[derive(Clone, Debug)]
pub enum NoAnswer {
    /// Nothing was sent.
    Unreachable(String),
    /// It was sent, and no whole answer came.
    Lost(String),
    /// The probe has sent all that it may, or its time is up.
    Spent,
}

impl std::error::Error for NoAnswer {}

impl std::fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoAnswer::Unreachable(why) => write!(f, "it cannot be reached: {why}"),
            NoAnswer::Lost(why) => write!(f, "no answer: {why}"),
            NoAnswer::Spent => f.write_str("the probe's requests or its time are used up"),
        }
    }
}

/// What came of a request.
pub(crate) type Got = Result<Answer, NoAnswer>;

/// Where a probe puts its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// Into this header.
    Header(HeaderName),
    /// Into a JSON body, at this pointer.
    Json(Pointer),
}

/// Where and how requests are sent.
#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
    url: Url,
    method: Method,
    media_type: &'static str,
    key: KeyPlace,
    headers: HeaderMap,
    timeout: Duration,
    ends: Instant,
    at_most: usize,
    sent: AtomicUsize,
}

/// What one request differs in from the others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent {
    /// One header line for each, or one member of the body.
    pub(crate) keys: Vec<String>,
    pub(crate) body: Bytes,
    /// Instead of those of the same name.
    pub(crate) headers: HeaderMap,
    pub(crate) url: Option<Url>,
}

/// Everything a client is made of.
#[derive(Debug)]
pub struct Options {
    /// Where requests go.
    pub url: Url,
    /// Their method.
    pub method: Method,
    /// Headers that all of them have.
    pub headers: HeaderMap,
    /// What their bodies are, unless a header says otherwise.
    pub media_type: &'static str,
    /// Where keys stand.
    pub key: KeyPlace,
    /// The certificates that are trusted instead of the system's.
    pub trusted: Option<Vec<Certificate>>,
    /// How long one answer is waited for.
    pub timeout: Duration,
    /// How many requests are sent at most.
    pub at_most: usize,
}

impl Client {
    /// Nothing is sent yet.
    pub fn new(options: Options) -> Result<Client, String> {
        let Options { url, method, headers, media_type, key, trusted, timeout, at_most } = options;
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("hapax-probe/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            // One connection for each request, and no attempt of its own: what is sent is what is counted.
            .retry(retry::never())
            .pool_max_idle_per_host(0)
            .http1_only()
            .connect_timeout(timeout);
        if is_loopback(&url) {
            // This machine means this machine, whatever a proxy or a name service says.
            let port = url.port_or_known_default().unwrap_or(80);
            let here = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
            let here = here.map(|address| SocketAddr::new(address, port));
            builder = builder.no_proxy().resolve_to_addrs("localhost", &here);
        }
        if let Some(trusted) = trusted {
            builder = builder.tls_certs_only(trusted);
        }
        let http = builder.build().map_err(|error| why(&error))?;
        let ends = clock::now() + limits::TIME;
        Ok(Client {
            http,
            url,
            method,
            media_type,
            key,
            headers,
            timeout,
            ends,
            at_most,
            sent: AtomicUsize::new(0),
        })
    }

    /// Where requests go.
    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// How many requests were sent.
    pub(crate) fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }

    /// Sends one write.
    pub(crate) async fn send(&self, what: &Sent) -> Got {
        let url = what.url.clone().unwrap_or_else(|| self.url.clone());
        let mut request = Request::new(self.method.clone(), url);
        let headers = request.headers_mut();
        headers.extend(self.headers.clone());
        for name in what.headers.keys() {
            headers.remove(name);
        }
        for (name, value) in &what.headers {
            headers.append(name, value.clone());
        }
        headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(self.media_type));
        let mut sent = what.body.clone();
        match &self.key {
            KeyPlace::Header(name) => {
                headers.remove(name);
                for key in &what.keys {
                    let value = HeaderValue::from_bytes(key.as_bytes());
                    headers.append(name, value.map_err(|error| lost(&error.to_string()))?);
                }
            }
            KeyPlace::Json(pointer) => sent = body::with_keys(&sent, pointer, &what.keys).unwrap_or(sent),
        }
        *request.body_mut() = Some(sent.into());
        self.exchange(request).await
    }

    /// Reads a page, with no credentials: documentation is for everybody.
    pub(crate) async fn get(&self, url: Url) -> Got {
        self.exchange(Request::new(Method::GET, url)).await
    }

    async fn exchange(&self, request: Request) -> Got {
        let left = self.ends.saturating_duration_since(clock::now());
        let taken = self.sent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |sent| {
            (sent < self.at_most && !left.is_zero()).then_some(sent + 1)
        });
        if taken.is_err() {
            return Err(NoAnswer::Spent);
        }
        let sent = clock::now();
        match tokio::time::timeout(self.timeout.min(left), self.read(request, sent)).await {
            Ok(got) => got,
            Err(_) => Err(lost("it took too long; --timeout waits longer")),
        }
    }

    async fn read(&self, request: Request, sent: Instant) -> Got {
        let mut response = self.http.execute(request).await.map_err(|error| match error.is_connect() {
            true => NoAnswer::Unreachable(why(&error)),
            false => lost(&why(&error)),
        })?;
        let mut body = BytesMut::new();
        while let Some(part) = response.chunk().await.map_err(|error| lost(&why(&error)))? {
            if body.len() + part.len() > limits::ANSWER_BYTES {
                return Err(lost("the answer is too long to be compared"));
            }
            body.extend_from_slice(&part);
        }
        Ok(Answer {
            status: response.status().as_u16(),
            headers: std::mem::take(response.headers_mut()),
            body: body.freeze(),
            sent,
            came: clock::now(),
        })
    }
}

/// Whether requests stay on this machine.
pub fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        None => false,
    }
}

fn lost(why: &str) -> NoAnswer {
    NoAnswer::Lost(why.to_owned())
}

/// The innermost reason: the outer ones repeat the URL.
fn why(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_loopback_m5() {
        for (url, wanted) in [
            ("http://127.0.0.1:80/", true),
            ("http://127.9.9.9/", true),
            ("http://[::1]:8080/", true),
            ("http://localhost/", true),
            ("http://LOCALHOST/", true),
            ("http://localhost.example/", false),
            ("http://127.0.0.1.example/", false),
            ("http://192.0.2.1/", false),
            ("http://0.0.0.0/", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), wanted, "{url}");
        }
    }
}
