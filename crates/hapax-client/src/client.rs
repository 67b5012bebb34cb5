//! The client.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hapax_core::Executed;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::answer::Answer;
use crate::call::{CallBuilder, KEY};
use crate::error::{Error, Kind, Sent};
use crate::intent::{Intent, Journal};
use crate::key::IdempotencyKey;
use crate::limits;
use crate::policy::RetryPolicy;

/// The code of an attempt that ended without an outcome.
const ATTEMPT_FAILED: &str = "attempt-failed";

/// What a 409 without a problem code means, when a key was sent: older servers say it for different things (C4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plain409 {
    /// A conflict like any other.
    #[default]
    Conflict,
    /// The key was used before for a different request.
    Mismatch,
    /// The first request with this key is still running.
    InProgress,
}

/// Makes calls. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) http: reqwest::Client,
    pub(crate) base: String,
    pub(crate) headers: HeaderMap,
    pub(crate) policy: RetryPolicy,
    pub(crate) attempt_timeout: Duration,
    pub(crate) deadline: Duration,
    pub(crate) plain_409: Plain409,
    recall_segment: String,
    journal: Option<Journal>,
}

/// Without the URL and the headers, which may be secret.
impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Shared");
        shown.field("policy", &self.policy).field("attempt_timeout", &self.attempt_timeout);
        shown.field("deadline", &self.deadline).field("plain_409", &self.plain_409);
        shown.field("journal", &self.journal).finish_non_exhaustive()
    }
}

/// Sets up a [`Client`].
pub struct ClientBuilder {
    base: String,
    http: Option<reqwest::Client>,
    headers: Vec<(String, String)>,
    policy: RetryPolicy,
    attempt_timeout: Duration,
    deadline: Duration,
    plain_409: Plain409,
    recall_segment: String,
    journal: Option<PathBuf>,
}

impl Client {
    /// A client of the server with this base URL.
    pub fn builder(base: impl Into<String>) -> ClientBuilder {
        ClientBuilder {
            base: base.into(),
            http: None,
            headers: Vec::new(),
            policy: RetryPolicy::default(),
            attempt_timeout: limits::ATTEMPT,
            deadline: limits::DEADLINE,
            plain_409: Plain409::default(),
            recall_segment: limits::RECALL_SEGMENT.into(),
            journal: None,
        }
    }

    /// A call with any method.
    pub fn call(&self, method: Method, path: &str) -> CallBuilder {
        CallBuilder::new(self.clone(), method, path)
    }

    /// A `GET`.
    pub fn get(&self, path: &str) -> CallBuilder {
        self.call(Method::GET, path)
    }

    /// A `POST`, with a fresh key unless the call gets one of its own.
    pub fn post(&self, path: &str) -> CallBuilder {
        self.call(Method::POST, path)
    }

    /// A `PUT`.
    pub fn put(&self, path: &str) -> CallBuilder {
        self.call(Method::PUT, path)
    }

    /// A `PATCH`, with a fresh key unless the call gets one of its own.
    pub fn patch(&self, path: &str) -> CallBuilder {
        self.call(Method::PATCH, path)
    }

    /// A `DELETE`.
    pub fn delete(&self, path: &str) -> CallBuilder {
        self.call(Method::DELETE, path)
    }

    /// Fetches the answer that is kept for a key of a route, if there is one (C6). Nothing is run. `path` is the one that the request
    /// was sent to, with its query: under another one the key is absent.
    ///
    /// It is handed out whatever its status: a refusal is kept, too, and a 402 that is recalled is no charge. Where
    /// [`CallBuilder::send`] would make an error of it, look at [`Answer::status`].
    ///
    /// `None` does not say that nothing was done: what has expired looks the same (H7), and so does an attempt that failed; the key
    /// is free again. It is safe to send the request with its key only while the server's retention has not passed since it was
    /// first sent, which [`Intent::age`] tells.
    pub async fn recall(&self, path: &str, key: &IdempotencyKey) -> Result<Option<Answer>, Error> {
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        let segment = &self.shared.recall_segment;
        let place = format!("{}/{segment}/{key}{query}", path.trim_end_matches('/'));
        // That this was asked says nothing about the work, and whoever cannot be asked does not say that nothing was done.
        let recalled =
            |sent: &Sent| Sent { key: Some(key.to_string()), showed: Executed::Unknown, ..sent.clone() };
        // The key of an attempt that failed is free: to ask again would only say so again.
        let mut answer = self.get(&place).last_answer(Some(ATTEMPT_FAILED)).await.map_err(|error| {
            let sent = recalled(error.sent());
            error.of_call(sent)
        })?;
        // Only an answer that says so is the kept one: a 404 may be the route's own.
        if answer.is_replayed() {
            return Ok(Some(answer));
        }
        if answer.status() == 404 || answer.code().as_deref() == Some(ATTEMPT_FAILED) {
            return Ok(None);
        }
        answer.sent = recalled(&answer.sent);
        Err(answer.error(self.shared.plain_409).unwrap_or_else(|| {
            Error::invalid("the server does not say that this is a kept answer").of_call(answer.sent)
        }))
    }

    /// Says what is about to be done, under a name of the caller's: its key is on disk when this returns (C1, C7). The same
    /// name has the same key until [`Intent::finish`], also in another process.
    pub fn intent(&self, name: &str) -> Result<Intent, Error> {
        match &self.shared.journal {
            Some(journal) => journal.intent(name),
            None => Err(Error::invalid(
                "this client has no key journal: name a folder with ClientBuilder::journal",
            )),
        }
    }

    /// What was about to be done when an earlier process ended (C7).
    pub fn pending(&self) -> Result<Vec<Intent>, Error> {
        self.shared.journal.as_ref().map_or(Ok(Vec::new()), Journal::pending)
    }
}

/// Without the URL and the headers, which may be secret.
impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ClientBuilder");
        shown.field("policy", &self.policy).field("attempt_timeout", &self.attempt_timeout);
        shown.field("deadline", &self.deadline).field("plain_409", &self.plain_409);
        shown.field("journal", &self.journal).finish_non_exhaustive()
    }
}

impl ClientBuilder {
    /// Sends this `Authorization: Bearer` with every call.
    #[must_use]
    pub fn bearer(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    /// Sends this header with every call.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Makes calls with this reqwest client: its certificates, its proxy, its pool.
    #[must_use]
    pub fn http(mut self, http: reqwest::Client) -> Self {
        self.http = Some(http);
        self
    }

    /// When attempts are made again.
    #[must_use]
    pub fn policy(mut self, policy: RetryPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// The longest time for one attempt.
    #[must_use]
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt_timeout = timeout;
        self
    }

    /// The longest time for one call with all its attempts.
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

    /// Where below a path the server hands out kept answers by key, if it calls that otherwise than `by-idempotency-key`: the
    /// `recall_segment` of its `[edge]` (C6).
    #[must_use]
    pub fn recall_segment(mut self, segment: impl Into<String>) -> Self {
        self.recall_segment = segment.into();
        self
    }

    /// Keeps the keys of intents in this folder (C7).
    #[must_use]
    pub fn journal(mut self, folder: impl Into<PathBuf>) -> Self {
        self.journal = Some(folder.into());
        self
    }

    /// The client.
    pub fn build(self) -> Result<Client, Error> {
        let base = reqwest::Url::parse(&self.base)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| {
                Error::invalid("the base URL must start with http:// or https:// and name a host")
            })?;
        if base.query().is_some() || base.fragment().is_some() {
            return Err(Error::invalid("the base URL has no query and no fragment: paths come behind it"));
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let name = HeaderName::try_from(name.as_str())
                .map_err(|_| Error::invalid(format!("{name:?} is no header name")))?;
            if name == KEY {
                return Err(Error::invalid(
                    "a key belongs to one call: give it with CallBuilder::key, so that no other call has it",
                ));
            }
            let mut value = HeaderValue::try_from(value.as_str())
                .map_err(|_| Error::invalid(format!("the value of {name} cannot be sent in a header")))?;
            value.set_sensitive(name == http::header::AUTHORIZATION);
            headers.insert(name, value);
        }
        let is_of_paths = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte);
        let segment = &self.recall_segment;
        if !segment.bytes().all(is_of_paths) || segment.bytes().all(|byte| byte == b'.') {
            return Err(Error::invalid(
                "recall_segment must be one segment of a path, without escapes, such as \"by-idempotency-key\"",
            ));
        }
        let http = match self.http {
            Some(http) => http,
            None => reqwest::Client::builder()
                .build()
                .map_err(|error| Error::new(Kind::Invalid, error.to_string()))?,
        };
        let shared = Shared {
            http,
            base: base.as_str().trim_end_matches('/').to_owned(),
            headers,
            policy: self.policy,
            attempt_timeout: self.attempt_timeout,
            deadline: self.deadline,
            plain_409: self.plain_409,
            recall_segment: self.recall_segment,
            journal: self.journal.map(Journal::open).transpose()?,
        };
        Ok(Client { shared: Arc::new(shared) })
    }
}
