//! What browsers of other origins may do (P7).

use bytes::Bytes;
use hapax_exec::How;
use hapax_tower::{Answered, Body, Code, Event, Problem};
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_METHOD, ALLOW, HeaderMap, HeaderValue, ORIGIN, VARY,
};
use http::{Response, StatusCode};

use crate::settings::Cors;
use crate::stack::Answer;

/// Request headers that every allowed origin may send.
const ALLOWED: &str = "authorization, content-type, idempotency-key, prefer";
/// Answer headers that scripts may read.
const EXPOSED: &str = "idempotent-replayed, idempotency-body-not-kept, idempotency-expires, idempotency-key-derived, \
                       idempotency-key-ignored, location, retry-after, x-operation-id";

/// The answer to `OPTIONS` on a path that takes these methods: what a browser asks before the request itself, or a caller that only
/// wants to know.
pub(crate) fn preflight(cors: Option<&Cors>, asked: &HeaderMap, methods: &str) -> Result<Answer, Problem> {
    let allow = HeaderValue::try_from(methods)
        .map_err(|error| Problem::new(Code::Internal).owing_to(error.to_string()))?;
    let mut response = Response::new(Body::whole(Bytes::new()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    if let Some(headers) = cors.and_then(|cors| cors.preflight(asked, methods)) {
        *response.headers_mut() = headers;
    }
    response.headers_mut().insert(ALLOW, allow);
    Ok(Answered { response, event: Event::Outcome(How::PassedThrough), operation_id: None, cause: None })
}

/// Whether a request with `OPTIONS` is a browser's question about another one.
pub(crate) fn is_preflight(asked: &HeaderMap) -> bool {
    asked.contains_key(ACCESS_CONTROL_REQUEST_METHOD) && asked.contains_key(ORIGIN)
}

impl Cors {
    /// The origin of a request, if it is allowed.
    fn allows(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(ORIGIN)?;
        if self.origins.iter().any(|allowed| allowed == "*") {
            return Some(HeaderValue::from_static("*"));
        }
        self.origins.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes()).then(|| origin.clone())
    }

    /// The answer to a preflight request, if this is one and its origin is allowed.
    fn preflight(&self, asked: &HeaderMap, methods: &str) -> Option<HeaderMap> {
        asked.get(ACCESS_CONTROL_REQUEST_METHOD)?;
        self.allows(asked)?;
        let mut headers = HeaderMap::new();
        let listed: Vec<&str> =
            std::iter::once(ALLOWED).chain(self.headers.iter().map(String::as_str)).collect();
        let fields = [
            (ACCESS_CONTROL_ALLOW_METHODS, methods.to_owned()),
            (ACCESS_CONTROL_ALLOW_HEADERS, listed.join(", ")),
            (ACCESS_CONTROL_MAX_AGE, self.max_age.as_secs().to_string()),
        ];
        for (name, value) in fields {
            headers.insert(name, HeaderValue::try_from(value).ok()?);
        }
        Some(headers)
    }

    /// Adds to an answer what lets a script of an allowed origin read it. What the service says about that does not count: it
    /// may have been said, and kept, for another origin.
    pub(crate) fn grant(&self, asked: &HeaderMap, headers: &mut HeaderMap) {
        headers.remove(ACCESS_CONTROL_ALLOW_ORIGIN);
        headers.remove(ACCESS_CONTROL_ALLOW_CREDENTIALS);
        headers.append(VARY, HeaderValue::from_static("origin"));
        let Some(origin) = self.allows(asked) else { return };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        // Beside what the service lets scripts read.
        headers.append(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        if self.credentials {
            headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
    }
}

#[cfg(test)]
mod tests {
    use hapax_tower::answer::{EPOCH, OURS};

    use super::*;

    /// Who cannot read that a body was not kept takes the empty one for the answer.
    #[test]
    fn scripts_can_read_and_the_guide_names_every_field_that_hapax_sets_for_callers_p7() {
        let guide = include_str!("../../../docs/guides/edge.md").to_ascii_lowercase();
        for name in OURS.iter().filter(|name| **name != EPOCH) {
            assert!(EXPOSED.split(", ").any(|exposed| exposed == name.as_str()), "{name} is not exposed");
            assert!(guide.contains(&format!("| `{name}")), "{name} is not in the guide");
        }
    }
}
