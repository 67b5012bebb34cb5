//! What browsers of other origins may do (P7).

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderValue, ORIGIN, VARY,
};

use crate::settings::Cors;

/// Request headers that every allowed origin may send.
const ALLOWED: &str = "authorization, content-type, idempotency-key, prefer";
/// Answer headers that scripts may read.
const EXPOSED: &str = "idempotent-replayed, idempotency-body-not-kept, idempotency-expires, idempotency-key-derived, \
                       idempotency-key-ignored, location, retry-after, x-operation-id";

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
    pub(crate) fn preflight(&self, asked: &HeaderMap, methods: &str) -> Option<HeaderMap> {
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
