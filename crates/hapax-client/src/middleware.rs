//! The same for an existing reqwest client: a middleware that gives keys and makes attempts again.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use hapax_client::middleware::SafeRetries;
//!
//! let client = reqwest_middleware::ClientBuilder::new(reqwest::Client::new()).with(SafeRetries::default()).build();
//! let answer = client.post("http://127.0.0.1:8080/charges").body("{}").send().await?;
//! # let _ = answer;
//! # Ok(())
//! # }
//! ```

use std::time::Duration;

use hapax_core::Executed;
use http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode};
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next, Result};

use crate::call::KEY;
use crate::client::Plain409;
use crate::clock;
use crate::decide;
use crate::error::{Error, Kind, Sent};
use crate::key::IdempotencyKey;
use crate::limits;
use crate::policy::RetryPolicy;

/// Gives every `POST` and `PATCH` a key, unless the request has one, and makes attempts again where that is safe and can help.
///
/// A request whose body is a stream can be sent once only. Answers are handed on as they are; only a 409 is read, to see
/// whether it says that the first request is still running.
#[derive(Clone, Debug)]
pub struct SafeRetries {
    policy: RetryPolicy,
    deadline: Duration,
    plain_409: Plain409,
}

impl Default for SafeRetries {
    fn default() -> Self {
        SafeRetries::new(RetryPolicy::default())
    }
}

impl SafeRetries {
    /// With this policy.
    pub fn new(policy: RetryPolicy) -> Self {
        SafeRetries { policy, deadline: limits::DEADLINE, plain_409: Plain409::default() }
    }

    /// The longest time until there is an answer, with all attempts; its body is the caller's to read. A time-out of one attempt is the reqwest client's to set.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// What a 409 without a problem code means.
    #[must_use]
    pub fn plain_409(mut self, meaning: Plain409) -> Self {
        self.plain_409 = meaning;
        self
    }
}

/// In a request's extensions: no key is added, and a `POST` or `PATCH` is one attempt (C1).
#[derive(Clone, Copy, Debug)]
pub struct NoKey;

#[async_trait::async_trait]
impl Middleware for SafeRetries {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        check(request.headers())?;
        let changes = matches!(*request.method(), Method::POST | Method::PATCH);
        let wants_none = extensions.get::<NoKey>().is_some();
        if changes
            && !wants_none
            && !request.headers().contains_key(KEY)
            && let Ok(key) = HeaderValue::try_from(IdempotencyKey::fresh().into_string())
        {
            request.headers_mut().insert(KEY, key);
        }
        let may_repeat = decide::may_repeat(request.method(), request.headers().contains_key(KEY));
        let key = request.headers().get(KEY).map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned());
        let ends = decide::ends(self.deadline);
        let mut attempt = 1;
        loop {
            let again =
                if may_repeat && attempt < self.policy.max_attempts() { request.try_clone() } else { None };
            let is_last = again.is_none();
            let attempted = async {
                let response = next.clone().run(request, extensions).await?;
                if is_last { Ok((response, false)) } else { self.look_at(response).await }
            };
            let answered = tokio::time::timeout_at(ends, attempted).await.unwrap_or_else(|_| {
                let (key, showed) = (key.clone(), Executed::Unknown);
                Err(too_late(Sent { key, given: true, repeatable: may_repeat, attempts: attempt, showed }))
            });
            let Some(again) = again else { return answered.map(|(response, _)| response) };
            let left = ends.saturating_duration_since(clock::now());
            let (pause, answered) = match answered {
                Ok((response, retryable)) => {
                    let told = Some((response.status(), response.headers()));
                    let pause = retryable.then(|| decide::pause(&self.policy, attempt, told, left)).flatten();
                    (pause, Ok(response))
                }
                Err(error) => (decide::pause(&self.policy, attempt, None, left), Err(error)),
            };
            let Some(pause) = pause else { return answered };
            let what = match answered {
                Ok(response) => format!("status {}", response.status().as_u16()),
                Err(_) => "no answer".to_owned(),
            };
            decide::tell(&what, attempt, pause);
            tokio::time::sleep(pause).await;
            request = again;
            attempt += 1;
        }
    }
}

/// A key of the caller's own, in whatever form its server takes: one line, and not empty. A server that took it for no key would
/// do the work at every attempt (C1).
fn check(headers: &HeaderMap) -> Result<()> {
    let mut lines = headers.get_all(KEY).iter().map(HeaderValue::as_bytes);
    let is_empty = |line: &[u8]| line.iter().all(|byte| *byte == b'"' || byte.is_ascii_whitespace());
    match (lines.next(), lines.next()) {
        (None, _) => Ok(()),
        (Some(line), None) if !is_empty(line) => Ok(()),
        (Some(_), None) => Err(wrong("the Idempotency-Key is empty: give one, or none")),
        (Some(_), Some(_)) => Err(wrong("there is more than one Idempotency-Key")),
    }
}

fn wrong(what: &str) -> reqwest_middleware::Error {
    reqwest_middleware::Error::middleware(Error::invalid(what))
}

fn too_late(sent: Sent) -> reqwest_middleware::Error {
    let error = Error::new(Kind::Network, "no answer within the deadline");
    reqwest_middleware::Error::middleware(error.of_call(sent))
}

impl SafeRetries {
    /// Whether another attempt can help. Of a 409 the body says so, and is put back.
    async fn look_at(&self, response: Response) -> Result<(Response, bool)> {
        if response.status() != StatusCode::CONFLICT {
            let retryable = decide::is_retryable(response.status(), None, self.plain_409);
            return Ok((response, retryable));
        }
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.bytes().await?;
        let code = decide::said(&headers, &body).code;
        let retryable = decide::is_retryable(status, code.as_deref(), self.plain_409);
        let mut rebuilt = http::Response::new(body);
        *rebuilt.status_mut() = status;
        *rebuilt.headers_mut() = headers;
        Ok((Response::from(rebuilt), retryable))
    }
}
