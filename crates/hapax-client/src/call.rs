//! One call: its request, its key, and its attempts from first to last.

use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method};
use serde::Serialize;

use crate::answer::Answer;
use crate::client::Client;
use crate::clock;
use crate::decide;
use crate::error::{Error, Kind, Sent};
use crate::intent::Intent;
use crate::key::IdempotencyKey;
use crate::limits;
use crate::policy::RetryPolicy;

pub(crate) const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A call that is being put together. Mistakes are told by [`CallBuilder::send`], before anything is sent.
#[must_use = "nothing is sent before `send`"]
pub struct CallBuilder {
    client: Client,
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
    key: KeyChoice,
    policy: RetryPolicy,
    deadline: Duration,
    mistake: Option<Error>,
}

#[derive(Debug)]
enum KeyChoice {
    /// A fresh one for methods that change something.
    Automatic,
    Given(IdempotencyKey),
    None,
}

impl CallBuilder {
    pub(crate) fn new(client: Client, method: Method, path: &str) -> Self {
        let (policy, deadline) = (client.shared.policy, client.shared.deadline);
        CallBuilder {
            client,
            method,
            path: path.to_owned(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            key: KeyChoice::Automatic,
            policy,
            deadline,
            mistake: None,
        }
    }

    /// Sends this body.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Sends this as JSON.
    pub fn json(mut self, body: &impl Serialize) -> Self {
        match serde_json::to_vec(body) {
            Ok(bytes) => self.body = bytes.into(),
            Err(error) => {
                self.mistake = Some(Error::invalid(format!("the body cannot be written as JSON: {error}")))
            }
        }
        self.header("content-type", "application/json")
    }

    /// Sends this header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        match (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            (Ok(name), Ok(_)) if name == KEY => {
                self.mistake = Some(Error::invalid(
                    "give the key with CallBuilder::key, so that it is checked and shared",
                ));
            }
            (Ok(name), Ok(value)) => drop(self.headers.insert(name, value)),
            _ => self.mistake = Some(Error::invalid(format!("the header {name:?} cannot be sent"))),
        }
        self
    }

    /// Uses this key. All attempts share it, and so does a later call with the same key: the same request gets the same
    /// answer (C1).
    pub fn key(mut self, key: impl AsRef<str>) -> Self {
        match IdempotencyKey::new(key) {
            Ok(key) => self.key = KeyChoice::Given(key),
            Err(error) => self.mistake = Some(error),
        }
        self
    }

    /// Uses the key of an intent (C7).
    pub fn intent(mut self, intent: &Intent) -> Self {
        self.key = KeyChoice::Given(intent.key().clone());
        self
    }

    /// Sends no key. Then a `POST` or `PATCH` is one attempt: a second one could do it twice (C1).
    pub fn no_key(mut self) -> Self {
        self.key = KeyChoice::None;
        self
    }

    /// Another policy for this call.
    pub fn policy(mut self, policy: RetryPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// The longest time for this call with all its attempts.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Makes the call. An answer of status 4xx or 5xx is an error, when all attempts are made that can help.
    pub async fn send(self) -> Result<Answer, Error> {
        let plain = self.client.shared.plain_409;
        let answer = self.last_answer(None).await?;
        answer.error(plain).map_or(Ok(answer), Err)
    }

    /// Makes the call, and gives the answer that no further attempt can help, whatever its status; one with the code `enough` is
    /// such an answer, too.
    pub(crate) async fn last_answer(mut self, enough: Option<&str>) -> Result<Answer, Error> {
        if let Some(mistake) = self.mistake.take() {
            return Err(mistake);
        }
        if !self.path.starts_with('/') {
            return Err(Error::invalid("the path must start with a slash"));
        }
        let given = matches!(self.key, KeyChoice::Given(_));
        let key = match std::mem::replace(&mut self.key, KeyChoice::None) {
            KeyChoice::Given(key) => Some(key),
            KeyChoice::Automatic if matches!(self.method, Method::POST | Method::PATCH) => {
                Some(IdempotencyKey::fresh())
            }
            KeyChoice::Automatic | KeyChoice::None => None,
        };
        let repeatable = decide::may_repeat(&self.method, key.is_some());
        let policy = if repeatable { self.policy } else { RetryPolicy::none() };
        let plain = self.client.shared.plain_409;
        let ends = decide::ends(self.deadline);
        let mut sent = Sent { key: key.map(|key| key.to_string()), given, repeatable, ..Sent::nothing() };
        loop {
            let left = ends.saturating_duration_since(clock::now());
            sent.attempts += 1;
            let ended = self.attempt(&sent, left).await;
            let (again, told, what) = match &ended {
                Ok(answer) => {
                    sent.showed(answer.shows(plain));
                    let code = answer.code();
                    let is_enough = enough.is_some() && code.as_deref() == enough;
                    let again = !is_enough && decide::is_retryable(answer.status, code.as_deref(), plain);
                    let told = Some((answer.status, &answer.headers));
                    (again, told, format!("status {}", answer.status()))
                }
                Err(error) => {
                    sent.showed(error.shows());
                    (error.kind() == Kind::Network, None, "no answer".to_owned())
                }
            };
            let left = ends.saturating_duration_since(clock::now());
            let pause = again.then(|| decide::pause(&policy, sent.attempts, told, left)).flatten();
            let Some(pause) = pause else {
                return match ended {
                    Ok(answer) => Ok(Answer { sent, ..answer }),
                    Err(error) => Err(error.of_call(sent)),
                };
            };
            decide::tell(&what, sent.attempts, pause);
            tokio::time::sleep(pause).await;
        }
    }

    /// One attempt, read whole: an answer that breaks off is none.
    async fn attempt(&self, sent: &Sent, left: Duration) -> Result<Answer, Error> {
        let shared = &self.client.shared;
        let url = format!("{}{}", shared.base, self.path);
        let mut request =
            shared.http.request(self.method.clone(), &url).timeout(shared.attempt_timeout.min(left));
        let mut headers = shared.headers.clone();
        headers.extend(self.headers.clone());
        if let Some(key) = sent.key.as_deref().and_then(|key| HeaderValue::try_from(key).ok()) {
            headers.insert(KEY, key);
        }
        if self.body.is_empty() {
            headers.remove(CONTENT_TYPE);
        } else {
            request = request.body(self.body.clone());
        }
        let mut response = request.headers(headers).send().await.map_err(failed)?;
        let (status, headers) = (response.status(), response.headers().clone());
        let moved = !reqwest::Url::parse(&url).is_ok_and(|url| place(&url) == place(response.url()));
        let mut answer = Answer { status, headers, body: Bytes::new(), moved, sent: sent.clone() };
        let mut body = BytesMut::new();
        // An answer that breaks off is none, but what its status has said stays said.
        let broke_off = |error| failed(error).showing(decide::shows(status));
        while let Some(chunk) = response.chunk().await.map_err(broke_off)? {
            if body.len() + chunk.len() > limits::ANSWER {
                let shows = answer.shows(shared.plain_409);
                return Err(Error::unreadable("the answer is longer than this client takes", &answer, shows));
            }
            body.extend_from_slice(&chunk);
        }
        answer.body = body.freeze();
        Ok(answer)
    }
}

/// Without what is sent: path, headers and body may be secret.
impl fmt::Debug for CallBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("CallBuilder");
        shown.field("method", &self.method).field("key", &self.key).field("mistake", &self.mistake);
        shown.field("policy", &self.policy).field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

/// Where a request goes, without the credentials that a URL may carry.
fn place(url: &reqwest::Url) -> (&str, Option<&str>, Option<u16>, &str, Option<&str>) {
    (url.scheme(), url.host_str(), url.port_or_known_default(), url.path(), url.query())
}

/// What went wrong on the way, told apart from what was wrong with the call.
fn failed(error: reqwest::Error) -> Error {
    match error.is_builder() {
        true => Error::invalid(error.to_string()),
        false => Error::network(error),
    }
}
