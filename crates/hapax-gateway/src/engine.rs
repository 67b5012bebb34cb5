//! What the HTTP engine says, in the words of the edge: a refusal becomes a problem, a fault in setting up becomes an error.
//!
//! The only place that does so. What is refused, and why, is decided in `hapax-http`.

use hapax_core::Error;
use hapax_http::{Refusal, SetupError, SetupFault};
use hapax_tower::{Code, Problem};
use http::header::{ALLOW, CONNECTION, HeaderValue};

/// A refusal as callers are told.
pub(crate) fn problem(refusal: Refusal) -> Problem {
    let code = match refusal {
        Refusal::HeadTooLarge => Code::HeadTooLarge,
        Refusal::Malformed(_) | Refusal::Framing(_) => Code::RequestMalformed,
        Refusal::Path(_) => Code::PathMalformed,
        Refusal::Method => Code::MethodNotAllowed,
        Refusal::Panicked => Code::Internal,
    };
    let mut problem = Problem::new(code);
    if let Some(detail) = refusal.detail() {
        problem = problem.detail(detail);
    }
    if let Some(methods) = refusal.allow() {
        problem = problem.header(ALLOW, methods);
    }
    if refusal.closes() {
        problem = problem.header(CONNECTION, HeaderValue::from_static("close"));
    }
    problem
}

/// A fault in setting up the engine as operators are told.
pub(crate) fn error(error: SetupError) -> Error {
    let message = error.message().to_owned();
    let told = match error.fault() {
        SetupFault::Invalid => Error::invalid(message),
        SetupFault::Unavailable => Error::unavailable(message),
        SetupFault::Internal => Error::internal(message),
    };
    match error.detail() {
        Some(detail) => told.with_detail(detail),
        None => told,
    }
}

#[cfg(test)]
mod tests {
    use http::header::HeaderName;

    use super::*;

    #[test]
    fn every_refusal_is_a_problem_with_the_same_status_h1() {
        for (refusal, code) in [
            (Refusal::HeadTooLarge, Code::HeadTooLarge),
            (Refusal::Malformed("two Hosts".into()), Code::RequestMalformed),
            (Refusal::Framing("two lengths"), Code::RequestMalformed),
            (Refusal::Path("a dot segment"), Code::PathMalformed),
            (Refusal::Method, Code::MethodNotAllowed),
            (Refusal::Panicked, Code::Internal),
        ] {
            let (plain, told) = (refusal.response(), problem(refusal.clone()));
            assert_eq!(told.code(), code, "{refusal:?}");
            let told = told.response("/docs/");
            assert_eq!(told.status(), plain.status(), "{refusal:?}");
            assert_eq!(told.headers()["content-type"], "application/problem+json", "{refusal:?}");
            for name in [ALLOW, CONNECTION] {
                assert_eq!(told.headers().get(&name), plain.headers().get(&name), "{refusal:?}");
            }
            let detail = refusal.detail().map(|detail| format!("\"detail\":\"{detail}\""));
            let body = String::from_utf8(told.body().to_vec()).unwrap();
            assert!(detail.is_none_or(|detail| body.contains(&detail)), "{body}");
        }
    }

    #[test]
    fn both_halves_of_the_edge_know_the_same_fields_of_one_connection() {
        for name in [
            "connection",
            "keep-alive",
            "proxy-authenticate",
            "proxy-authorization",
            "proxy-connection",
            "te",
            "trailer",
            "transfer-encoding",
            "upgrade",
            "host",
            "content-length",
            "idempotency-key",
            "trailers",
        ] {
            let name = HeaderName::from_static(name);
            let (http, tower) = (hapax_http::is_hop_by_hop(&name), hapax_tower::answer::is_hop_by_hop(&name));
            assert_eq!(http, tower, "{name}");
        }
    }
}
