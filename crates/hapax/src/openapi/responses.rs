//! What an operation of the edge can answer on its own behalf: the problem responses of a document.
//!
//! Which status a code has is said in `hapax_tower::problem` alone; here it is said which codes an operation can meet.

use std::collections::BTreeMap;

use hapax_core::Policy;
use hapax_gateway::settings::Route;
use hapax_tower::Code;
use serde_json::{Value as Json, json};

use super::OURS;

/// The codes that every operation can meet.
const ANY: [Code; 13] = [
    Code::RequestMalformed,
    Code::PathMalformed,
    Code::Unauthenticated,
    Code::Forbidden,
    Code::RequestTimeout,
    Code::BodyTooLarge,
    Code::HeadTooLarge,
    Code::Overloaded,
    Code::Draining,
    Code::UpstreamUnreachable,
    Code::UpstreamTimeout,
    Code::TooMany,
    Code::Internal,
];
/// Those that an operation whose callers send the key can meet as well.
const SENT: [Code; 3] = [Code::KeyMalformed, Code::KeyDuplicated, Code::KeyReserved];
/// Those that an operation under a key can meet as well.
const KEYED: [Code; 6] = [
    Code::InProgress,
    Code::OutcomeUnknown,
    Code::OutcomeNotKept,
    Code::LedgerUnavailable,
    Code::OutcomePending,
    Code::AttemptFailed,
];
/// Those of a recall route.
const RECALL: [Code; 12] = [
    Code::RequestMalformed,
    Code::PathMalformed,
    Code::KeyMalformed,
    Code::Unauthenticated,
    Code::Forbidden,
    Code::NotFound,
    Code::InProgress,
    Code::OutcomeUnknown,
    Code::OutcomeNotKept,
    Code::AttemptFailed,
    Code::LedgerUnavailable,
    Code::Overloaded,
];

/// Those that only an operation can meet whose claims a cluster keeps.
pub(super) const DELEGATED: [Code; 3] =
    [Code::UpstreamSuspended, Code::OperationKilled, Code::OperationCancelled];

/// The media type of a problem (H1).
const MEDIA: &str = "application/problem+json";

/// The problem responses of a route, by status. `problem` is the name of their schema.
pub(super) fn of_route(route: &Route, problem: &str) -> BTreeMap<String, Json> {
    let mut codes: Vec<(u16, Code)> = ANY.map(with_status).to_vec();
    match route.policy {
        Policy::RequiredA => {
            codes.push(with_status(Code::KeyMissing));
            codes.extend(SENT.map(with_status));
        }
        Policy::Accepted => codes.extend(SENT.map(with_status)),
        Policy::RequiredB => codes.push(with_status(Code::TranslationFailed)),
        Policy::Prohibited if !route.lenient => codes.push(with_status(Code::KeyProhibited)),
        _ => {}
    }
    if let Some(rule) = &route.rule {
        codes.extend(KEYED.map(with_status));
        codes.push((rule.mismatch_status, Code::KeyReused));
    }
    if route.handler.is_some() {
        codes.extend(DELEGATED.map(with_status));
    }
    grouped(codes, problem)
}

/// The problem responses of a recall route, by status; and of one that may lead to what a cluster keeps.
pub(super) fn of_recall(problem: &str, delegated: bool) -> BTreeMap<String, Json> {
    let more = DELEGATED.into_iter().filter(|_| delegated);
    grouped(RECALL.into_iter().chain(more).map(with_status).collect(), problem)
}

/// The one form of such a response's content, by its media type.
pub(super) fn form(response: &Json) -> (&'static str, Json) {
    (MEDIA, response["content"][MEDIA].clone())
}

fn with_status(code: Code) -> (u16, Code) {
    (code.status().as_u16(), code)
}

fn grouped(codes: Vec<(u16, Code)>, problem: &str) -> BTreeMap<String, Json> {
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    codes.into_iter().for_each(|(status, code)| by_status.entry(status).or_default().push(code));
    by_status
        .into_iter()
        .map(|(status, codes)| (status.to_string(), response(status, &codes, problem)))
        .collect()
}

fn response(status: u16, codes: &[Code], problem: &str) -> Json {
    let words: Vec<_> = codes.iter().map(|code| code.as_str()).collect();
    let titles: Vec<_> = codes.iter().map(|code| format!("`{}`: {}", code.as_str(), code.title())).collect();
    let schema = format!("#/components/schemas/{problem}");
    let mut response = json!({
        OURS: "problem",
        "description": titles.join(". "),
        "content": {MEDIA: {"schema": {
            "allOf": [{"$ref": schema}, {"properties": {"code": {"enum": words}}}],
        }}},
    });
    if matches!(status, 409 | 429 | 503) {
        response["headers"] = json!({"Retry-After": {
            "description": "Seconds until the same request may be sent again",
            "schema": {"type": "integer", "minimum": 1},
        }});
    }
    response
}

/// The schema of every problem (H1), with those of clusters where there is one.
pub(super) fn schema(delegated: bool) -> Json {
    let used = Code::ALL.iter().filter(|code| delegated || !DELEGATED.contains(code));
    let words: Vec<_> = used.map(|code| code.as_str()).collect();
    json!({
        OURS: "problem",
        "type": "object",
        "required": ["type", "title", "status", "code", "retryable", "error"],
        "properties": {
            "type": {"type": "string", "format": "uri-reference"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "code": {"type": "string", "enum": words.clone()},
            "retryable": {"type": "boolean"},
            "error": {
                "type": "object",
                "required": ["type", "code", "message"],
                "properties": {
                    "type": {"type": "string"},
                    "code": {"type": "string", "enum": words},
                    "message": {"type": "string"},
                },
            },
            "detail": {"type": "string"},
            "operation_id": {"type": "string"},
        },
    })
}
