//! What a caller is told when there is no answer to hand out, and the only place that says which HTTP status that has
//! (H1, H2).
//!
//! Every refusal of the layer and of the edge is a [`Problem`] with one of the [`Code`]s of this table. Each code has a page
//! in `docs/errors/`.

use std::time::Duration;

use bytes::Bytes;
use hapax_core::advice::Why;
use hapax_core::key::Malformation;
use hapax_core::{Advice, Executed, Explanation, HeaderKeyError, OperationId, Retry};
use hapax_exec::Reason;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, LINK, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::limits;
use crate::public_id::PublicId;

/// The header of the public id of an operation (H8).
pub const OPERATION_ID: HeaderName = HeaderName::from_static("x-operation-id");

/// Where the pages about the codes are, unless said otherwise.
pub const DOCS: &str = "/.well-known/hapax/errors/";

/// Why there is no answer. The word is stable, for programs to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// The route demands a key.
    KeyMissing,
    /// The key cannot be read.
    KeyMalformed,
    /// More than one key.
    KeyDuplicated,
    /// The key starts with what only hapax may write.
    KeyReserved,
    /// The route forbids keys.
    KeyProhibited,
    /// No key could be found in the transport.
    TranslationFailed,
    /// The request is not one that can be read in exactly one way.
    RequestMalformed,
    /// The path is not one that can be read in exactly one way.
    PathMalformed,
    /// No credentials, or none that are valid.
    Unauthenticated,
    /// A signature that does not match.
    SignatureInvalid,
    /// Valid credentials that do not reach this far.
    Forbidden,
    /// Nothing is here, for this caller.
    NotFound,
    /// The path is known, the method is not.
    MethodNotAllowed,
    /// The request came too slowly.
    RequestTimeout,
    /// The first request with this key is still running.
    InProgress,
    /// Nobody knows whether the work was done.
    OutcomeUnknown,
    /// The key is used up, and the answer was not kept.
    OutcomeNotKept,
    /// An operator has killed the operation.
    OperationKilled,
    /// The operation was cancelled.
    OperationCancelled,
    /// The body is longer than the route takes.
    BodyTooLarge,
    /// The key was used for a different request.
    KeyReused,
    /// A limit of the caller's tenant.
    TooMany,
    /// The head of the request is longer than the edge takes.
    HeadTooLarge,
    /// The service behind could not be reached, and nothing was done; or, without a key, it broke off.
    UpstreamUnreachable,
    /// The ledger cannot be asked; nothing was run for this request.
    LedgerUnavailable,
    /// The work came to its end; its outcome waits to be recorded.
    OutcomePending,
    /// The attempt failed and was given back.
    AttemptFailed,
    /// More than this process can take at the moment.
    Overloaded,
    /// This process is about to end.
    Draining,
    /// The service behind has failed too often just now.
    UpstreamSuspended,
    /// The service behind has not answered in time; the call goes on.
    UpstreamTimeout,
    /// A fault in hapax, or what is kept cannot be read.
    Internal,
}

impl Code {
    /// All codes.
    pub const ALL: [Code; 32] = [
        Self::KeyMissing,
        Self::KeyMalformed,
        Self::KeyDuplicated,
        Self::KeyReserved,
        Self::KeyProhibited,
        Self::TranslationFailed,
        Self::RequestMalformed,
        Self::PathMalformed,
        Self::Unauthenticated,
        Self::SignatureInvalid,
        Self::Forbidden,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::RequestTimeout,
        Self::InProgress,
        Self::OutcomeUnknown,
        Self::OutcomeNotKept,
        Self::OperationKilled,
        Self::OperationCancelled,
        Self::BodyTooLarge,
        Self::KeyReused,
        Self::TooMany,
        Self::HeadTooLarge,
        Self::UpstreamUnreachable,
        Self::LedgerUnavailable,
        Self::OutcomePending,
        Self::AttemptFailed,
        Self::Overloaded,
        Self::Draining,
        Self::UpstreamSuspended,
        Self::UpstreamTimeout,
        Self::Internal,
    ];

    /// The whole table: status, word, title, and whether the same request may be sent again.
    fn row(self) -> (u16, &'static str, &'static str, bool) {
        match self {
            Self::KeyMissing => (400, "key-missing", "This route requires an Idempotency-Key", false),
            Self::KeyMalformed => (400, "key-malformed", "The Idempotency-Key cannot be read", false),
            Self::KeyDuplicated => (400, "key-duplicated", "There is more than one Idempotency-Key", false),
            Self::KeyReserved => {
                (400, "key-reserved", "The Idempotency-Key starts with a reserved prefix", false)
            }
            Self::KeyProhibited => (400, "key-prohibited", "This route takes no Idempotency-Key", false),
            Self::TranslationFailed => {
                (400, "translation-failed", "No key could be found in the request", false)
            }
            Self::RequestMalformed => (400, "request-malformed", "The request cannot be read", false),
            Self::PathMalformed => {
                (400, "path-malformed", "The path can be read in more than one way", false)
            }
            Self::Unauthenticated => (401, "unauthenticated", "Valid credentials are required", false),
            Self::SignatureInvalid => (401, "signature-invalid", "The signature does not match", false),
            Self::Forbidden => (403, "forbidden", "These credentials do not reach this far", false),
            Self::NotFound => (404, "not-found", "There is nothing here", false),
            Self::MethodNotAllowed => (405, "method-not-allowed", "This path takes other methods", false),
            Self::RequestTimeout => (408, "request-timeout", "The request came too slowly", true),
            Self::InProgress => {
                (409, "in-progress", "The first request with this key is still running", true)
            }
            Self::OutcomeUnknown => (409, "outcome-unknown", "Nobody knows whether the work was done", true),
            Self::OutcomeNotKept => (409, "outcome-not-kept", "The answer to this key was not kept", false),
            Self::OperationKilled => (409, "operation-killed", "The operation was killed", false),
            Self::OperationCancelled => (409, "operation-cancelled", "The operation was cancelled", false),
            Self::BodyTooLarge => (413, "body-too-large", "The body is too long", false),
            Self::KeyReused => (422, "key-reused", "The key was used before for a different request", false),
            Self::TooMany => (429, "too-many", "A limit of this tenant is reached", true),
            Self::HeadTooLarge => (431, "head-too-large", "The head of the request is too long", false),
            Self::UpstreamUnreachable => {
                (502, "upstream-unreachable", "There is no answer from the service", true)
            }
            Self::LedgerUnavailable => (503, "ledger-unavailable", "The ledger cannot be asked", true),
            Self::OutcomePending => (503, "outcome-pending", "The outcome waits to be recorded", true),
            Self::AttemptFailed => (503, "attempt-failed", "The attempt failed and was given back", true),
            Self::Overloaded => (503, "overloaded", "Too much is going on at the moment", true),
            Self::Draining => (503, "draining", "This instance is about to end", true),
            Self::UpstreamSuspended => {
                (503, "upstream-suspended", "The service has failed too often just now", true)
            }
            Self::UpstreamTimeout => (504, "upstream-timeout", "The service has not answered in time", true),
            Self::Internal => (500, "internal", "Internal error", false),
        }
    }

    /// The HTTP status.
    pub fn status(self) -> StatusCode {
        StatusCode::from_u16(self.row().0).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The stable word.
    pub fn as_str(self) -> &'static str {
        self.row().1
    }

    /// One line for people.
    pub fn title(self) -> &'static str {
        self.row().2
    }

    /// Whether the same request with the same key may be sent again. A problem of a request without one can say otherwise.
    pub fn is_retryable(self) -> bool {
        self.row().3
    }

    /// What clients of other APIs call problems of this kind, in their `error.type`.
    fn kind(self) -> &'static str {
        match self {
            Self::KeyMissing
            | Self::KeyMalformed
            | Self::KeyDuplicated
            | Self::KeyReserved
            | Self::KeyProhibited
            | Self::KeyReused => IDEMPOTENCY_ERROR,
            _ => kind_of(self.row().0),
        }
    }

    /// Whether every such answer says when to come back (H2).
    fn tells_when(self) -> bool {
        matches!(self.row().0, 409 | 429 | 503) && self.is_retryable()
    }
}

const IDEMPOTENCY_ERROR: &str = "idempotency_error";

/// What clients of other APIs call problems of this status, unless their code says more.
fn kind_of(status: u16) -> &'static str {
    match status {
        409 => IDEMPOTENCY_ERROR,
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

/// The member `error` of a problem whose code is none of [`Code`]'s. Clients of many APIs look for this member and for nothing else:
/// without it, one of them takes any JSON for success (ADR 16).
pub fn error_member(status: u16, code: &str, message: &str) -> Value {
    json!({"type": kind_of(status), "code": code, "message": message})
}

/// What a caller is told.
#[derive(Clone, Debug)]
pub struct Problem {
    code: Code,
    status: StatusCode,
    retryable: bool,
    detail: Option<Box<str>>,
    /// In a box: a problem is passed on by value.
    operation_id: Option<Box<PublicId>>,
    retry_after: Option<Duration>,
    more: Map<String, Value>,
    headers: Vec<(HeaderName, HeaderValue)>,
    cause: Option<Box<str>>,
    /// Whether that is why the service behind is to blame. Apart from the cause, because a problem is passed on by value.
    blames_service: bool,
    /// Whether the key was refused for its length.
    about_length: bool,
}

/// Why there is no answer of the service: for the log, and not for callers, who could learn from it what stands behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The service is to blame.
    Service(Box<str>),
    /// The ledger is, or hapax itself, or somebody else who was asked.
    Other(Box<str>),
}

impl Problem {
    /// A problem with nothing but its code.
    pub fn new(code: Code) -> Self {
        let retry_after = code.tells_when().then_some(limits::RETRY_AFTER);
        Problem {
            code,
            status: code.status(),
            retryable: code.is_retryable(),
            detail: None,
            operation_id: None,
            retry_after,
            more: Map::new(),
            headers: Vec::new(),
            cause: None,
            blames_service: false,
            about_length: false,
        }
    }

    /// What is wrong with the key, for counters.
    #[must_use]
    pub fn of_key(mut self, error: HeaderKeyError) -> Self {
        self.about_length =
            matches!(error, HeaderKeyError::Empty | HeaderKeyError::Malformed(Malformation::TooLong));
        self
    }

    /// Whether the key was refused because it is empty or too long.
    pub fn is_about_length(&self) -> bool {
        self.about_length
    }

    /// What exactly, for people. Never anything that the caller may not know.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into().into_boxed_str());
        self
    }

    /// Which operation.
    #[must_use]
    pub fn about(mut self, operation_id: Option<impl Into<PublicId>>) -> Self {
        self.operation_id = operation_id.map(|id| Box::new(id.into()));
        self
    }

    /// When to come back.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// The same request must not simply be sent again, although it usually may after this code: nothing protects it.
    #[must_use]
    pub fn not_retryable(mut self) -> Self {
        (self.retryable, self.retry_after) = (false, None);
        self
    }

    /// A member beyond the usual ones.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.into(), value.into());
        self
    }

    /// A header beyond the usual ones.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Why the service behind is to blame, for the log: callers could learn from it what stands behind.
    #[must_use]
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        (self.cause, self.blames_service) = (Some(cause.into().into_boxed_str()), true);
        self
    }

    /// Why there is no answer where the service behind is not to blame, for the log.
    #[must_use]
    pub fn owing_to(mut self, cause: impl Into<String>) -> Self {
        (self.cause, self.blames_service) = (Some(cause.into().into_boxed_str()), false);
        self
    }

    /// What led to it, for operators; a caller is never told.
    pub fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    /// Takes out what the log is to know.
    pub(crate) fn take_cause(&mut self) -> Option<Cause> {
        let cause = self.cause.take()?;
        Some(if self.blames_service { Cause::Service(cause) } else { Cause::Other(cause) })
    }

    /// The code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// What exactly, as the caller is told.
    pub fn told(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// The operation, where there is one.
    pub fn operation_id(&self) -> Option<&PublicId> {
        self.operation_id.as_deref()
    }

    /// The answer. `docs` is where the pages about the codes are.
    pub fn response(self, docs: &str) -> Response<Bytes> {
        let page = format!("{docs}{}", self.code.as_str());
        let mut body = Map::new();
        body.insert("type".into(), page.as_str().into());
        body.insert("title".into(), self.code.title().into());
        body.insert("status".into(), self.status.as_u16().into());
        body.insert("code".into(), self.code.as_str().into());
        body.insert("retryable".into(), self.retryable.into());
        // As in `error_member`.
        let message = self.detail.as_deref().unwrap_or(self.code.title());
        let error = json!({"type": self.code.kind(), "code": self.code.as_str(), "message": message});
        body.insert("error".into(), error);
        if let Some(detail) = self.detail {
            body.insert("detail".into(), detail.into_string().into());
        }
        if let Some(id) = &self.operation_id {
            body.insert("operation_id".into(), id.to_string().into());
        }
        body.extend(self.more);
        let body = Bytes::from(Value::Object(body).to_string());
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Ok(link) = HeaderValue::try_from(format!("<{page}>; rel=\"describedby\"")) {
            headers.insert(LINK, link);
        }
        if let Some(after) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
        }
        if let Some(id) = self.operation_id.as_deref().and_then(PublicId::header) {
            headers.insert(OPERATION_ID, id);
        }
        for (name, value) in self.headers {
            // Of challenges there can be several, one a line.
            match name == WWW_AUTHENTICATE {
                true => drop(headers.append(name, value)),
                false => drop(headers.insert(name, value)),
            }
        }
        let length = HeaderValue::from(response.body().len());
        response.headers_mut().insert(CONTENT_LENGTH, length);
        response
    }
}

impl Problem {
    /// What a caller is told, as one table in core decides it (E6). `executed` is always said: the code alone leaves it open.
    pub fn advised(advice: Advice) -> Self {
        let code = match advice.why {
            Why::KeyReused => Code::KeyReused,
            Why::Malformed => Code::RequestMalformed,
            Why::NotKept => Code::OutcomeNotKept,
            Why::InProgress => Code::InProgress,
            Why::OutcomeUnknown => Code::OutcomeUnknown,
            Why::OutcomePending => Code::OutcomePending,
            Why::UpstreamTimeout => Code::UpstreamTimeout,
            Why::LedgerAway | Why::LedgerLate => Code::LedgerUnavailable,
            Why::NotReached => Code::UpstreamUnreachable,
            Why::AttemptFailed => Code::AttemptFailed,
            Why::Outcome | Why::Damaged | Why::Broken => Code::Internal,
        };
        let mut problem = Problem::new(code).with("executed", executed(advice.executed));
        if let (Retry::SameKey(after), true) = (advice.retry, code.tells_when()) {
            problem = problem.retry_after(after);
        }
        problem
    }

    /// What a caller is told whose work has ended, and the ledger is so late that it is not known yet what that comes to. The call goes
    /// on, and the service is not to blame for that (H5).
    pub(crate) fn not_recorded_yet(advice: Advice, operation_id: Option<OperationId>) -> Self {
        let problem = Problem::advised(advice)
            .about(operation_id)
            .retry_after(limits::RETRY_AFTER)
            .owing_to("the work has ended, and the ledger has not recorded it yet");
        match advice.why {
            Why::InProgress => problem.detail("the service has answered, and its answer is not recorded yet"),
            _ => problem.detail("the service broke off, and what becomes of that is not recorded yet"),
        }
    }
}

/// As it is written in a problem.
pub fn executed(executed: Executed) -> &'static str {
    match executed {
        Executed::Yes => "yes",
        Executed::No => "no",
        Executed::Unknown => "unknown",
    }
}

/// What a caller is told when `once` has no outcome for it.
impl From<&hapax_exec::Error> for Problem {
    fn from(error: &hapax_exec::Error) -> Self {
        let advice = error.advice();
        let mut problem = Problem::advised(advice).about(error.operation_id());
        problem.cause = error.cause().map(Box::from);
        // Any other cause is the ledger's.
        problem.blames_service = match advice.why {
            Why::AttemptFailed | Why::NotReached => true,
            Why::OutcomeUnknown => matches!(error.reason(), Reason::OutcomeUnknown { doubt: Some(_) }),
            _ => false,
        };
        // What an attempt was seen to run, and is not kept any more.
        if let Reason::NotKept { status: 0 } = error.reason() {
            problem =
                problem.detail("its outcome has expired or was removed; sent again, it would run again");
        }
        problem
    }
}

impl Problem {
    /// The key was used for something else; to its owner, what differs (H10).
    pub fn mismatch(
        status: u16,
        operation_id: Option<OperationId>,
        explanation: Option<&Explanation>,
    ) -> Self {
        let mut problem = Problem::new(Code::KeyReused).about(operation_id).with("executed", "no");
        problem.status = StatusCode::from_u16(status).unwrap_or(problem.status);
        let Some(explanation) = explanation else { return problem };
        let list = |pointers: &[String]| -> Value {
            pointers.iter().take(limits::POINTERS).cloned().collect::<Vec<_>>().into()
        };
        problem.with(
            "differences",
            json!({
                "request": explanation.request,
                "changed": list(&explanation.changed),
                "added": list(&explanation.added),
                "missing": explanation.missing,
                "complete": explanation.complete
                    && explanation.changed.len() <= limits::POINTERS
                    && explanation.added.len() <= limits::POINTERS,
            }),
        )
    }
}
