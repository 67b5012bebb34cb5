//! The pages about problem codes, so that the `type` of every problem leads somewhere (H1). The edge serves them itself, and
//! so does whoever else answers with problems.

use bytes::Bytes;
use hapax_exec::How;
use hapax_tower::{Answered, Body, Code, Event};
use http::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};

use crate::stack::Answer;

macro_rules! pages {
    ($($code:ident = $file:literal)*) => {
        /// What there is to say about a code.
        pub fn text(code: Code) -> &'static str {
            match code {
                $(Code::$code => include_str!(concat!("../../../docs/errors/", $file, ".md")),)*
            }
        }
    };
}

pages! {
    KeyMissing = "key-missing"
    KeyMalformed = "key-malformed"
    KeyDuplicated = "key-duplicated"
    KeyReserved = "key-reserved"
    KeyProhibited = "key-prohibited"
    TranslationFailed = "translation-failed"
    RequestMalformed = "request-malformed"
    PathMalformed = "path-malformed"
    Unauthenticated = "unauthenticated"
    SignatureInvalid = "signature-invalid"
    Forbidden = "forbidden"
    NotFound = "not-found"
    MethodNotAllowed = "method-not-allowed"
    RequestTimeout = "request-timeout"
    InProgress = "in-progress"
    OutcomeUnknown = "outcome-unknown"
    OutcomeNotKept = "outcome-not-kept"
    OperationKilled = "operation-killed"
    OperationCancelled = "operation-cancelled"
    BodyTooLarge = "body-too-large"
    KeyReused = "key-reused"
    TooMany = "too-many"
    HeadTooLarge = "head-too-large"
    UpstreamUnreachable = "upstream-unreachable"
    LedgerUnavailable = "ledger-unavailable"
    OutcomePending = "outcome-pending"
    AttemptFailed = "attempt-failed"
    Overloaded = "overloaded"
    Draining = "draining"
    UpstreamSuspended = "upstream-suspended"
    UpstreamTimeout = "upstream-timeout"
    Internal = "internal"
}

/// What a page is written in.
pub const KIND: &str = "text/markdown; charset=utf-8";

/// The code with this name.
pub fn code(name: &str) -> Option<Code> {
    Code::ALL.into_iter().find(|code| code.as_str() == name)
}

/// The page about a code.
pub(crate) fn page(code: Code) -> Answer {
    let mut response = Response::new(Body::whole(Bytes::from_static(text(code).as_bytes())));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(KIND));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    Answered { response, event: Event::Outcome(How::PassedThrough), operation_id: None, cause: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_about_its_code_and_says_whether_to_retry_h1() {
        for code in Code::ALL {
            let text = text(code);
            let heading = format!("# {} {}", code.status().as_u16(), code.as_str());
            assert!(text.starts_with(&heading), "{heading}");
            let advice = if code.is_retryable() { "**Retry:** yes" } else { "**Retry:** no" };
            assert!(text.contains(advice), "{heading}");
        }
    }
}
