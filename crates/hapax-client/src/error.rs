//! What a failure means for the caller (C4).

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use hapax_core::{Executed, Retry};

use crate::answer::Answer;

/// Why a call has no answer that it asked for.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: Kind,
    message: String,
    status: Option<u16>,
    code: Option<String>,
    request_id: Option<String>,
    body: Bytes,
    retry_after: Option<Duration>,
    /// Whether the problem says that the same request may be sent again, where its status does not (408 `request-timeout`).
    retryable: bool,
    source: Option<reqwest::Error>,
    /// What the attempt that ended with it showed about the work.
    shows: Executed,
    sent: Sent,
}

/// What is known about the attempts of a call.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// The key that all of them had.
    pub(crate) key: Option<String>,
    /// Whether that key was made before this call: an earlier call may have used it.
    pub(crate) given: bool,
    /// Whether the same request may be sent again: it has a key, or its method can be repeated by its nature.
    pub(crate) repeatable: bool,
    /// How many there were.
    pub(crate) attempts: u32,
    /// The strongest of what they showed about the work, whichever of them was the last.
    pub(crate) showed: Executed,
}

impl Sent {
    /// Nothing was sent yet.
    pub(crate) fn nothing() -> Self {
        Sent { key: None, given: false, repeatable: false, attempts: 0, showed: Executed::No }
    }

    /// Adds what one more attempt showed: that the work was done stands whatever others say, and that it may have been
    /// stands until one shows that it was.
    pub(crate) fn showed(&mut self, executed: Executed) {
        self.showed = stronger(self.showed, executed);
    }
}

fn stronger(one: Executed, other: Executed) -> Executed {
    match (one, other) {
        (Executed::Yes, _) | (_, Executed::Yes) => Executed::Yes,
        (Executed::Unknown, _) | (_, Executed::Unknown) => Executed::Unknown,
        (Executed::No, Executed::No) => Executed::No,
    }
}

/// An example that runs: a server that answers with this status and this code, and what a caller does about it. The examples
/// make one attempt each; what surfaces after several is the same.
macro_rules! example {
    ($status:literal, $code:literal, $lines:literal) => {
        concat!(
            "\n```\n# use hapax_client::{Client, Executed, Kind, Retry, RetryPolicy};\n",
            "# let server = std::net::TcpListener::bind(\"127.0.0.1:0\").unwrap();\n",
            "# let url = format!(\"http://{}\", server.local_addr().unwrap());\n",
            "# let (status, code) = (\"", $status, "\", \"", $code, "\");\n",
            "# std::thread::spawn(move || for socket in server.incoming() {\n",
            "#     let (mut socket, body) = (socket.unwrap(), format!(r#\"{{\"code\": \"{code}\"}}\"#));\n",
            "#     std::io::Read::read(&mut socket, &mut [0; 4096]).unwrap();\n",
            "#     let kind = \"content-type: application/problem+json\\r\\nretry-after: 7\";\n",
            "#     let head = format!(\"HTTP/1.1 {status}\\r\\n{kind}\\r\\ncontent-length: {}\", body.len());\n",
            "#     let answer = format!(\"{head}\\r\\n\\r\\n{body}\");\n",
            "#     std::io::Write::write_all(&mut socket, answer.as_bytes()).unwrap();\n",
            "# });\n",
            "# let one = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();\n",
            "# let client = Client::builder(&url).policy(RetryPolicy::none()).build().unwrap();\n",
            "# one.block_on(async {\n",
            $lines,
            "\n# });\n```"
        )
    };
}

/// What kind of failure, named by what the caller must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The key was used before for a different request: use a new key, or send what was sent before.
    #[doc = example!("422 Unprocessable Entity", "key-reused", r#"
let charge = client.post("/charges").key("order-42").body("99");
let error = charge.send().await.unwrap_err();
assert_eq!((error.kind(), error.status()), (Kind::Mismatch, Some(422)));
// Nothing was done for this request, and sending it again cannot help: `order-42` stands for another one.
assert_eq!((error.executed(), error.retry()), (Executed::No, Retry::Never));"#)]
    Mismatch,
    /// The state of what the request is about does not allow it.
    #[doc = example!("409 Conflict", "order-closed", r#"
let error = client.post("/orders/7/items").body("1").send().await.unwrap_err();
assert_eq!((error.kind(), error.retry()), (Kind::Conflict, Retry::Never));
// What the server itself calls it, if it says so.
assert_eq!(error.code(), Some("order-closed"));"#)]
    Conflict,
    /// The first request with this key is still running: try again later with the same key.
    #[doc = example!("409 Conflict", "in-progress", r#"
let error = client.post("/charges").key("order-42").body("10").send().await.unwrap_err();
assert_eq!(error.kind(), Kind::InProgress);
// The server says when; the key must be the same.
let Retry::SameKey(after) = error.retry() else { panic!("it may be sent again") };
assert_eq!((after.as_secs(), error.key()), (7, Some("order-42")));"#)]
    InProgress,
    /// Nobody knows whether the work was done: ask again later with the same key, never with a new one.
    #[doc = example!("409 Conflict", "outcome-unknown", r#"
let error = client.post("/charges").key("order-42").body("10").send().await.unwrap_err();
assert_eq!((error.kind(), error.executed()), (Kind::OutcomeUnknown, Executed::Unknown));
// With a new key the customer might be charged twice. Keep this one, and recall the outcome when somebody has resolved it.
assert_eq!(error.key(), Some("order-42"));"#)]
    OutcomeUnknown,
    /// Too many requests.
    #[doc = example!("429 Too Many Requests", "too-many", r#"
let error = client.post("/charges").key("order-42").body("10").send().await.unwrap_err();
// It was turned away before anybody looked what an earlier call with this key did.
assert_eq!((error.kind(), error.executed()), (Kind::RateLimited, Executed::Unknown));
assert_eq!(error.retry_after().map(|after| after.as_secs()), Some(7));"#)]
    RateLimited,
    /// The server failed.
    #[doc = example!("503 Service Unavailable", "ledger-unavailable", r#"
let error = client.post("/charges").key("order-42").body("10").send().await.unwrap_err();
assert_eq!((error.kind(), error.status()), (Kind::Server, Some(503)));
// With a key it is safe to send it again, whatever was done.
assert!(matches!(error.retry(), Retry::SameKey(_)));"#)]
    Server,
    /// The server could not be reached, or broke off.
    #[doc = example!("", "", r#"
# let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
# let url = format!("http://{}", free.local_addr().unwrap());
# drop(free);
# let client = Client::builder(&url).policy(RetryPolicy::none()).build().unwrap();
let error = client.post("/charges").key("order-42").body("10").send().await.unwrap_err();
assert_eq!((error.kind(), error.status()), (Kind::Network, None));
// Perhaps it arrived and only the answer was lost: the same key makes another attempt safe.
assert_eq!(error.executed(), Executed::Unknown);
assert!(matches!(error.retry(), Retry::SameKey(_)));"#)]
    Network,
    /// The call itself cannot be made or cannot be accepted.
    #[doc = example!("400 Bad Request", "request-malformed", r#"
let error = client.post("/charges").key("not a key").body("10").send().await.unwrap_err();
assert_eq!((error.kind(), error.attempts()), (Kind::Invalid, 0));
// Nothing was sent. A server that refuses a request is of this kind, too.
let error = client.post("/charges").body("nonsense").send().await.unwrap_err();
assert_eq!((error.kind(), error.status()), (Kind::Invalid, Some(400)));
assert_eq!((error.executed(), error.retry()), (Executed::No, Retry::Never));"#)]
    Invalid,
    /// There is an answer, but it is not what was expected, or longer than this client takes. Look at it; do not send it anew.
    #[doc = example!("201 Created", "", r#"
let answer = client.post("/charges").key("order-42").body("10").send().await.unwrap();
let error = answer.json::<Vec<u64>>().unwrap_err();
assert_eq!((error.kind(), error.status()), (Kind::Unreadable, Some(201)));
// The charge was made; only its receipt is not what this program takes it for.
assert_eq!((error.executed(), error.retry()), (Executed::Yes, Retry::Never));
assert_eq!(error.body(), answer.body());"#)]
    Unreadable,
}

impl Error {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner {
            kind,
            message: message.into(),
            status: None,
            code: None,
            request_id: None,
            body: Bytes::new(),
            retry_after: None,
            retryable: false,
            source: None,
            shows: shown_by(kind, None, None, false),
            sent: Sent::nothing(),
        }))
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, message)
    }

    /// There is an answer, which is no use to the caller. What it showed about the work stands.
    pub(crate) fn unreadable(message: impl Into<String>, answer: &Answer, shows: Executed) -> Self {
        let error = Self::new(Kind::Unreadable, message);
        let request_id = crate::decide::request_id(&answer.headers);
        let error =
            error.answered(answer.status.as_u16(), None, request_id, answer.body.clone(), None, false);
        error.showing(shows).of_call(answer.sent.clone())
    }

    /// Takes over what the problem itself says; it goes before what its code alone would mean.
    pub(crate) fn said(mut self, executed: Option<Executed>, retryable: bool) -> Self {
        self.0.shows = executed.unwrap_or(self.0.shows);
        self.0.retryable = retryable;
        self
    }

    /// Says what the attempt showed, where that is more than the kind tells.
    pub(crate) fn showing(mut self, shows: Executed) -> Self {
        self.0.shows = shows;
        self
    }

    pub(crate) fn network(source: reqwest::Error) -> Self {
        let mut error = Self::new(Kind::Network, "the server could not be reached, or broke off");
        error.0.source = Some(source);
        error
    }

    pub(crate) fn answered(
        mut self,
        status: u16,
        code: Option<String>,
        request_id: Option<String>,
        body: Bytes,
        retry_after: Option<Duration>,
        given: bool,
    ) -> Self {
        let inner = &mut *self.0;
        inner.status = Some(status);
        inner.shows = shown_by(inner.kind, inner.status, code.as_deref(), given);
        inner.code = code;
        inner.request_id = request_id;
        inner.body = body;
        inner.retry_after = retry_after;
        self
    }

    pub(crate) fn of_call(mut self, sent: Sent) -> Self {
        self.0.sent = sent;
        self
    }

    pub(crate) fn sent(&self) -> &Sent {
        &self.0.sent
    }

    /// What kind of failure.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The status of the last answer; `None` where there was none.
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// The problem's stable code, where the server sends one.
    pub fn code(&self) -> Option<&str> {
        self.0.code.as_deref()
    }

    /// The key as it was sent.
    pub fn key(&self) -> Option<&str> {
        self.0.sent.key.as_deref()
    }

    /// What the server calls the request: `x-operation-id`, or `x-request-id`.
    pub fn request_id(&self) -> Option<&str> {
        self.0.request_id.as_deref()
    }

    /// The body of the last answer.
    pub fn body(&self) -> &Bytes {
        &self.0.body
    }

    /// When the server wants to be asked again.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// How many attempts were made.
    pub fn attempts(&self) -> u32 {
        self.0.sent.attempts
    }

    /// Whether the request collides with another one: a mismatch is a conflict, too.
    pub fn is_conflict(&self) -> bool {
        matches!(self.kind(), Kind::Mismatch | Kind::Conflict | Kind::InProgress | Kind::OutcomeUnknown)
    }

    /// Was the work done? Every attempt of the call counts: what an earlier one showed is not undone by a last one that was
    /// turned away.
    pub fn executed(&self) -> Executed {
        stronger(self.0.sent.showed, self.shows())
    }

    /// What this error alone shows.
    pub(crate) fn shows(&self) -> Executed {
        self.0.shows
    }

    /// May the caller try again? The last attempt decides: whatever was done, the same request is answered like that again, or
    /// may be answered better. Where it may, it is sent as it was, with its key if it had one. A `POST` or `PATCH` without a key
    /// never is: it could do it twice.
    pub fn retry(&self) -> Retry {
        let inner = &*self.0;
        let can_help = match inner.kind {
            Kind::InProgress | Kind::OutcomeUnknown | Kind::RateLimited | Kind::Network => true,
            Kind::Server => inner.status.is_some_and(crate::decide::is_retryable_status),
            Kind::Mismatch | Kind::Conflict | Kind::Invalid | Kind::Unreadable => false,
        };
        match inner.sent.repeatable && (can_help || inner.retryable) {
            true => Retry::SameKey(self.retry_after().unwrap_or(Duration::from_secs(1))),
            false => Retry::Never,
        }
    }
}

/// Statuses of a server that has turned a request away before anything looked what was done with its key.
const TURNED_AWAY: [u16; 11] = [401, 403, 404, 405, 408, 413, 414, 423, 425, 429, 431];

/// What an error of this kind, with this status and problem code, shows about the work where the problem does not say it itself. Of a key
/// that was given to the call, an earlier call may have made anything: only a mismatch and a request that was never sent are a "no", and
/// what the service itself has refused (E6).
fn shown_by(kind: Kind, status: Option<u16>, code: Option<&str>, given: bool) -> Executed {
    let turned_away = code.is_some() || status.is_some_and(|status| TURNED_AWAY.contains(&status));
    match (kind, code) {
        (Kind::Mismatch, _) => Executed::No,
        _ if given && turned_away => Executed::Unknown,
        (Kind::Invalid | Kind::RateLimited, _) => Executed::No,
        (_, Some("upstream-unreachable" | "ledger-unavailable" | "overloaded" | "draining")) => Executed::No,
        _ => Executed::Unknown,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if let Some(status) = self.0.status {
            write!(f, " (status {status}")?;
            if let Some(code) = &self.0.code {
                write!(f, ", {code}")?;
            }
            f.write_str(")")?;
        }
        if let Some(source) = &self.0.source {
            write!(f, ": {source}")?;
        }
        if self.0.sent.attempts > 1 {
            write!(f, " after {} attempts", self.0.sent.attempts)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| source as _)
    }
}
