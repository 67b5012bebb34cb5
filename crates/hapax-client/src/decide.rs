//! What an attempt's end means: is it the answer, is there another attempt, or is it an error (C2, C3, C4)? The client and the
//! middleware ask the same questions here.

use std::time::Duration;

use bytes::Bytes;
use hapax_core::Executed;
use http::{HeaderMap, Method, StatusCode};
use tokio::time::Instant;

use crate::client::Plain409;
use crate::clock;
use crate::error::{Error, Kind, Sent};
use crate::limits;
use crate::policy::RetryPolicy;
use crate::retry_after;

/// The log target of everything this crate tells (C5).
pub(crate) const TARGET: &str = "hapax_client::retry";

/// Statuses after which another attempt can help. Fixed on purpose: a server whose 500 is transient should say 503.
pub(crate) fn is_retryable_status(status: u16) -> bool {
    matches!(status, 429 | 502 | 503 | 504)
}

/// Whether a call may have more than one attempt: it changes nothing, can be repeated by its nature, or has a key.
pub(crate) fn may_repeat(method: &Method, has_key: bool) -> bool {
    has_key || matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::PUT | Method::DELETE)
}

/// What a problem says for programs to act on, where the body is one.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) code: Option<String>,
    /// Whether the work was done. It goes before what the code alone would mean.
    pub(crate) executed: Option<Executed>,
    /// Whether it says that the same request may be sent again.
    pub(crate) retryable: bool,
}

/// Reads a problem.
pub(crate) fn said(headers: &HeaderMap, body: &Bytes) -> Said {
    let kind =
        headers.get(http::header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.to_ascii_lowercase().starts_with("application/problem+json") {
        return Said::default();
    }
    let problem: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |member: &str| problem.get(member).and_then(serde_json::Value::as_str);
    let executed = match text("executed") {
        Some("yes") => Some(Executed::Yes),
        Some("no") => Some(Executed::No),
        Some("unknown") => Some(Executed::Unknown),
        _ => None,
    };
    let retryable = problem.get("retryable") == Some(&serde_json::Value::Bool(true));
    Said { code: text("code").map(str::to_owned), executed, retryable }
}

/// Whether another attempt of this answer can help.
pub(crate) fn is_retryable(status: StatusCode, code: Option<&str>, plain: Plain409) -> bool {
    match (status.as_u16(), code) {
        (409, Some(code)) => code == "in-progress",
        (409, None) => plain == Plain409::InProgress,
        (status, _) => is_retryable_status(status),
    }
}

/// When a call that begins now is over, whatever was tried until then.
pub(crate) fn ends(deadline: Duration) -> Instant {
    clock::now() + deadline.min(limits::LONGEST_DEADLINE)
}

/// How long to wait before the next attempt; `None` if there is none. What a server asks for goes before what was planned,
/// and neither goes beyond the end of the call.
pub(crate) fn pause(
    policy: &RetryPolicy,
    attempt: u32,
    answered: Option<(StatusCode, &HeaderMap)>,
    left: Duration,
) -> Option<Duration> {
    if attempt >= policy.max_attempts() {
        return None;
    }
    let wish = answered
        .filter(|(status, _)| matches!(status.as_u16(), 409 | 429 | 503))
        .and_then(|(_, headers)| retry_after::read(headers, clock::time_of_day()));
    let pause = wish.unwrap_or_else(|| policy.delay(attempt, fastrand::f64()));
    (pause < left).then_some(pause)
}

/// Says that there will be another attempt (C5).
pub(crate) fn tell(what: &str, attempt: u32, pause: Duration) {
    tracing::info!(target: TARGET, attempt, "{what} on attempt {attempt}; sleeping {:.2}s", pause.as_secs_f64());
}

/// What an answer that is no error shows about the work. One that was only accepted goes on, and where a redirection leads
/// nobody has looked.
pub(crate) fn shows(status: StatusCode) -> Executed {
    match status.is_success() && status != StatusCode::ACCEPTED {
        true => Executed::Yes,
        false => Executed::Unknown,
    }
}

/// The error that an answer stands for; `None` for one that is none.
pub(crate) fn error_of(
    status: StatusCode,
    headers: &HeaderMap,
    body: &Bytes,
    plain: Plain409,
    sent: &Sent,
) -> Option<Error> {
    if !status.is_client_error() && !status.is_server_error() {
        return None;
    }
    let said = said(headers, body);
    let kind = kind_of(status.as_u16(), said.code.as_deref(), plain, sent.key.is_some());
    let message = match kind {
        Kind::Mismatch => "the key was used before for a different request",
        Kind::Conflict => "the state of what the request is about does not allow it",
        Kind::InProgress => "the first request with this key is still running",
        Kind::OutcomeUnknown => "nobody knows whether the work was done",
        Kind::RateLimited => "too many requests",
        Kind::Server => "the server failed",
        _ => "the server refused the request",
    };
    let wish = retry_after::read(headers, clock::time_of_day());
    let request_id = request_id(headers);
    let error = Error::new(kind, message).answered(
        status.as_u16(),
        said.code,
        request_id,
        body.clone(),
        wish,
        sent.given,
    );
    Some(error.said(said.executed, said.retryable))
}

/// What the server calls the request.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<String> {
    let named = headers.get("x-operation-id").or_else(|| headers.get("x-request-id"));
    named.and_then(|value| value.to_str().ok()).map(str::to_owned)
}

fn kind_of(status: u16, code: Option<&str>, plain: Plain409, keyed: bool) -> Kind {
    match (status, code) {
        (_, Some("key-reused")) => Kind::Mismatch,
        (_, Some("in-progress")) => Kind::InProgress,
        (_, Some("outcome-unknown")) => Kind::OutcomeUnknown,
        (409, None) if keyed => match plain {
            Plain409::Mismatch => Kind::Mismatch,
            Plain409::InProgress => Kind::InProgress,
            Plain409::Conflict => Kind::Conflict,
        },
        (409, _) => Kind::Conflict,
        (429, _) => Kind::RateLimited,
        (500.., _) => Kind::Server,
        _ => Kind::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_what_can_help_is_tried_again_c2() {
        for status in 100..600 {
            let wanted = [429, 502, 503, 504].contains(&status);
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(is_retryable(status, None, Plain409::Conflict), wanted, "{status}");
        }
        let conflict = StatusCode::CONFLICT;
        assert!(is_retryable(conflict, Some("in-progress"), Plain409::Conflict));
        assert!(is_retryable(conflict, None, Plain409::InProgress));
        for code in ["outcome-unknown", "outcome-not-kept", "key-reused", "else"] {
            assert!(!is_retryable(conflict, Some(code), Plain409::InProgress), "{code}");
        }
    }

    #[test]
    fn methods_that_change_something_need_a_key_c2() {
        for method in [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE] {
            assert!(may_repeat(&method, false), "{method}");
        }
        for method in [Method::POST, Method::PATCH] {
            assert!(!may_repeat(&method, false) && may_repeat(&method, true), "{method}");
        }
    }

    #[test]
    fn a_servers_wish_goes_before_the_plan_and_never_beyond_the_deadline_c3() {
        let policy = RetryPolicy::default();
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", HeaderValue::from_static("7"));
        let long = Duration::from_secs(60);
        for status in [409, 429, 503] {
            let answered = Some((StatusCode::from_u16(status).unwrap(), &headers));
            assert_eq!(pause(&policy, 1, answered, long), Some(Duration::from_secs(7)));
            assert_eq!(pause(&policy, 1, answered, Duration::from_secs(7)), None, "the call would be over");
            assert_eq!(pause(&policy, 3, answered, long), None, "the attempts are used up");
        }
        let other = Some((StatusCode::BAD_GATEWAY, &headers));
        assert!(pause(&policy, 1, other, long).unwrap() < Duration::from_secs(1));
        assert!(pause(&policy, 1, None, long).unwrap() < Duration::from_secs(1));
    }

    #[test]
    fn errors_are_told_apart_by_code_and_plain_409s_by_configuration_c4() {
        let kind = |status: u16, code: Option<&str>, plain| kind_of(status, code, plain, true);
        assert_eq!(kind(422, Some("key-reused"), Plain409::Conflict), Kind::Mismatch);
        assert_eq!(kind(409, Some("key-reused"), Plain409::Conflict), Kind::Mismatch);
        assert_eq!(kind(409, Some("in-progress"), Plain409::Mismatch), Kind::InProgress);
        assert_eq!(kind(409, Some("outcome-unknown"), Plain409::Mismatch), Kind::OutcomeUnknown);
        assert_eq!(kind(409, None, Plain409::Mismatch), Kind::Mismatch);
        assert_eq!(kind(409, None, Plain409::Conflict), Kind::Conflict);
        assert_eq!(kind_of(409, None, Plain409::Mismatch, false), Kind::Conflict, "without a key it is none");
        assert_eq!(kind(429, None, Plain409::Conflict), Kind::RateLimited);
        assert_eq!(
            (kind(500, None, Plain409::Conflict), kind(503, None, Plain409::Conflict)),
            (Kind::Server, Kind::Server)
        );
        assert_eq!(kind(404, None, Plain409::Conflict), Kind::Invalid);
    }
}
