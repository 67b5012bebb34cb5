//! Every "no" of a listener that serves an API, as `application/problem+json`.
//!
//! What the edge refuses as well is a [`Problem`] with its code. Only an operator meets the three kinds of conflict that
//! are told here, with the claim as it is now.

use std::time::Duration;

use bytes::Bytes;
use hapax_api::{Claim, ConflictCode, ExecutionConflict, Standing};
use hapax_core::{Error, Kind, OperationId};
use hapax_gateway::pages;
use hapax_tower::problem::{OPERATION_ID, error_member};
use hapax_tower::{Code, Problem};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, LINK, RETRY_AFTER};
use http::{Response, StatusCode};
use serde::Serialize;
use serde_json::{Map, Value};

/// Why an operator gets no answer.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// One that callers of the edge can meet, too.
    Problem(Box<Problem>),
    /// A decision that was not carried out.
    Conflict(Box<Conflict>),
    /// An order or a decision about an execution that was not carried out, and why.
    Execution(ExecutionConflict, String),
    /// How a lease, a claim or an execution stands does not fit what an application wants; with what is told about it.
    Standing(Standing, String, Map<String, Value>),
    /// One that only a listener of an API makes, why, and when to ask again.
    Listener(ListenerCode, String, Option<Duration>),
}

/// Why a listener of an API refuses what no other server of hapax would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerCode {
    /// The request names a host that the listener does not answer to.
    Misdirected,
    /// Too many wrong tokens came from this address.
    TooManyGuesses,
    /// A call that was to be killed has come to its end by itself.
    CallEnded,
    /// The newest claims of more shelves are asked for than are merged.
    TooManyShelves,
}

impl ListenerCode {
    const ALL: [ListenerCode; 4] = [
        ListenerCode::Misdirected,
        ListenerCode::TooManyGuesses,
        ListenerCode::CallEnded,
        ListenerCode::TooManyShelves,
    ];

    /// Its status, word, title and page.
    fn row(self) -> (u16, &'static str, &'static str, &'static str) {
        match self {
            ListenerCode::Misdirected => (
                421,
                "misdirected",
                "This listener does not answer to that host",
                include_str!("../../../../docs/errors/misdirected.md"),
            ),
            ListenerCode::TooManyGuesses => (
                429,
                "too-many-guesses",
                "Too many wrong tokens came from this address",
                include_str!("../../../../docs/errors/too-many-guesses.md"),
            ),
            ListenerCode::CallEnded => (
                409,
                "call-ended",
                "The call has come to its end",
                include_str!("../../../../docs/errors/call-ended.md"),
            ),
            ListenerCode::TooManyShelves => (
                400,
                "too-many-shelves",
                "The newest claims of so many shelves are not listed",
                include_str!("../../../../docs/errors/too-many-shelves.md"),
            ),
        }
    }
}

/// A decision that was not carried out, with what the claim is now.
#[derive(Debug)]
pub(crate) struct Conflict {
    pub(crate) code: ConflictCode,
    pub(crate) detail: String,
    pub(crate) operation_id: OperationId,
    /// The claim as it is now; `None` where it is absent.
    pub(crate) claim: Option<Claim>,
    pub(crate) retry_after: Option<Duration>,
}

fn text(code: ConflictCode) -> &'static str {
    match code {
        ConflictCode::Changed => include_str!("../../../../docs/errors/claim-changed.md"),
        ConflictCode::NotApplicable => include_str!("../../../../docs/errors/claim-not-applicable.md"),
        ConflictCode::MayStillRun => include_str!("../../../../docs/errors/claim-may-still-run.md"),
    }
}

fn title(code: ConflictCode) -> &'static str {
    match code {
        ConflictCode::Changed => "The claim is not what was seen any more",
        ConflictCode::NotApplicable => "The claim is in a state that this does not fit",
        ConflictCode::MayStillRun => "The former run may still be going on",
    }
}

/// The title and the page of a code that is about an execution.
fn about_execution(code: ExecutionConflict) -> (&'static str, &'static str) {
    match code {
        ExecutionConflict::Changed => (
            "The execution is not what was seen any more",
            include_str!("../../../../docs/errors/execution-changed.md"),
        ),
        ExecutionConflict::NotApplicable => (
            "The execution is in a state that this does not fit",
            include_str!("../../../../docs/errors/execution-not-applicable.md"),
        ),
    }
}

macro_rules! standings {
    ($($standing:ident = $file:literal $title:literal)*) => {
        /// The title and the page of a code that only applications meet.
        fn standing(standing: Standing) -> (&'static str, &'static str) {
            match standing {
                $(Standing::$standing => ($title, include_str!(concat!("../../../../docs/errors/", $file, ".md"))),)*
            }
        }
    };
}

standings! {
    LeaseOver = "lease-over" "The lease is over"
    EpochStale = "epoch-stale" "The claim has another epoch by now"
    GrantOver = "grant-over" "The grant is over and cannot be renewed"
    AlreadySettled = "already-settled" "The claim keeps another outcome already"
    AlreadyExists = "already-exists" "The execution's id is used up"
    VersionConflict = "version-conflict" "The execution has another version"
    Fenced = "fenced" "The execution has another runner"
    Ended = "ended" "The execution has come to its end"
    ExecutionCorrupted = "execution-corrupted" "The execution's chain of events is broken"
    UnsupportedSchemaVersion = "unsupported-schema-version" "The execution's schema version is not known here"
    PlanDiverged = "plan-diverged" "Other work was recorded there"
    EffectKeyTaken = "effect-key-taken" "Other work has the key of the effect"
    WrongIteration = "wrong-iteration" "The execution is in another iteration"
    Erased = "erased" "What is needed was erased"
}

/// The page about a code, of those that this listener answers with (H1).
pub(crate) fn page(code: &str) -> Option<&'static str> {
    let own = code.parse::<ConflictCode>().ok().map(text);
    let own = own.or_else(|| code.parse::<ExecutionConflict>().ok().map(|code| about_execution(code).1));
    let own = own.or_else(|| code.parse::<Standing>().ok().map(|code| standing(code).1));
    let listener =
        || ListenerCode::ALL.map(ListenerCode::row).into_iter().find(|row| row.1 == code).map(|row| row.3);
    own.or_else(listener).or_else(|| pages::code(code).map(pages::text))
}

impl Refusal {
    /// The question cannot be understood.
    pub(crate) fn malformed(detail: impl Into<String>) -> Self {
        Problem::new(Code::RequestMalformed).detail(detail).into()
    }

    /// There is nothing of that name.
    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Problem::new(Code::NotFound).detail(detail).into()
    }

    /// What only a listener refuses.
    pub(crate) fn listener(code: ListenerCode, detail: impl Into<String>, after: Option<Duration>) -> Self {
        Refusal::Listener(code, detail.into(), after)
    }

    /// Its stable word.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Refusal::Problem(problem) => problem.code().as_str(),
            Refusal::Conflict(conflict) => conflict.code.as_str(),
            Refusal::Execution(code, _) => code.as_str(),
            Refusal::Standing(code, ..) => code.as_str(),
            Refusal::Listener(code, ..) => code.row().1,
        }
    }

    /// What it was here, for people.
    pub(crate) fn detail(&self) -> String {
        match self {
            Refusal::Problem(problem) => problem.told().unwrap_or_default().to_owned(),
            Refusal::Conflict(conflict) => conflict.detail.clone(),
            Refusal::Execution(_, detail)
            | Refusal::Standing(_, detail, _)
            | Refusal::Listener(_, detail, _) => detail.clone(),
        }
    }

    /// The answer.
    pub(crate) fn response(self, docs: &str) -> Response<Bytes> {
        match self {
            Refusal::Problem(problem) => problem.response(docs),
            Refusal::Conflict(conflict) => conflict.response(docs),
            Refusal::Execution(code, detail) => {
                let row = (StatusCode::CONFLICT.as_u16(), code.as_str(), about_execution(code).0);
                plain(row, detail, None, Map::new(), docs)
            }
            Refusal::Standing(code, detail, more) => {
                let row = (StatusCode::CONFLICT.as_u16(), code.as_str(), standing(code).0);
                plain(row, detail, None, more, docs)
            }
            Refusal::Listener(code, detail, after) => {
                let (status, word, title, _) = code.row();
                plain((status, word, title), detail, after, Map::new(), docs)
            }
        }
    }
}

/// A problem with members of its own.
#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    problem: hapax_api::Problem,
    #[serde(flatten)]
    more: Map<String, Value>,
}

/// A problem with this status, word and title.
fn plain(
    (status, code, title): (u16, &str, &str),
    detail: String,
    after: Option<Duration>,
    more: Map<String, Value>,
    docs: &str,
) -> Response<Bytes> {
    let page = format!("{docs}{code}");
    let told = hapax_api::Problem {
        page: page.clone(),
        title: title.into(),
        status,
        code: code.to_owned(),
        retryable: after.is_some(),
        detail: Some(detail),
        operation_id: None,
    };
    let mut response = written(status, &Told { problem: told, more }, &page, docs);
    if let Some(after) = after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
    }
    response
}

/// An answer of this status, in the shape that [`Problem`] gives to all the others.
fn written(status: u16, told: &impl Serialize, page: &str, docs: &str) -> Response<Bytes> {
    let (Ok(Value::Object(mut told)), Ok(status)) =
        (serde_json::to_value(told), StatusCode::from_u16(status))
    else {
        return Problem::new(Code::Internal).response(docs);
    };
    let text = |name: &str| told.get(name).and_then(Value::as_str);
    let message = text("detail").or_else(|| text("title")).unwrap_or_default();
    let error = error_member(status.as_u16(), text("code").unwrap_or_default(), message);
    told.insert("error".into(), error);
    let mut response = Response::new(Bytes::from(Value::Object(told).to_string()));
    *response.status_mut() = status;
    let length = HeaderValue::from(response.body().len());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(CONTENT_LENGTH, length);
    if let Ok(link) = HeaderValue::try_from(format!("<{page}>; rel=\"describedby\"")) {
        headers.insert(LINK, link);
    }
    response
}

impl Conflict {
    /// In the shape that [`Problem`] gives to all the others.
    fn response(self, docs: &str) -> Response<Bytes> {
        let page = format!("{docs}{}", self.code);
        let told = hapax_api::Conflict {
            page: page.clone(),
            title: title(self.code).into(),
            status: StatusCode::CONFLICT.as_u16(),
            code: self.code,
            retryable: self.retry_after.is_some(),
            detail: self.detail,
            operation_id: self.operation_id.into(),
            claim: self.claim,
        };
        let mut response = written(told.status, &told, &page, docs);
        let headers = response.headers_mut();
        if let Ok(id) = HeaderValue::try_from(self.operation_id.to_string()) {
            headers.insert(OPERATION_ID, id);
        }
        if let Some(after) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
        }
        response
    }
}

impl From<Conflict> for Refusal {
    fn from(conflict: Conflict) -> Self {
        Refusal::Conflict(Box::new(conflict))
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Refusal::Problem(Box::new(problem))
    }
}

/// Operators are told the detail, too: they are who can do something about it.
impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            Kind::Invalid => Code::RequestMalformed,
            Kind::Unavailable | Kind::Conflict => Code::LedgerUnavailable,
            _ => Code::Internal,
        };
        Problem::new(code).detail(format!("{error:#}")).into()
    }
}
