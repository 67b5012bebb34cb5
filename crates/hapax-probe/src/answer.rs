//! An answer of the API that is probed, and when two of them are the same.

use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER};

/// An answer, read to its end.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// When its request was sent.
    pub(crate) sent: Instant,
    /// When its last byte was here.
    pub(crate) came: Instant,
}

/// What differs between an answer and its replay.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    /// Nothing that should not.
    None,
    /// What the caller acts on.
    Substance(String),
    /// A header that may or may not matter.
    Header(String),
}

/// Headers that belong to an exchange, not to the answer: a replay has its own.
const OF_THE_EXCHANGE: &[&str] = &[
    "age",
    "alt-svc",
    "cf-ray",
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "nel",
    "report-to",
    "request-id",
    "server-timing",
    "set-cookie",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-amz-cf-id",
    "x-amzn-requestid",
    "x-amzn-trace-id",
    "x-correlation-id",
    "x-envoy-upstream-service-time",
    "x-request-id",
    "x-response-time",
    "x-runtime",
    "x-trace-id",
];
/// Headers that say what an answer is: a replay without them is another answer.
const OF_THE_ANSWER: &[&str] = &[
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-location",
    "content-type",
    "etag",
    "last-modified",
    "link",
    "location",
];

impl Answer {
    /// Whether the API did what was asked, as far as its status says.
    pub(crate) fn is_accepted(&self) -> bool {
        matches!(self.status, 200..=299 | 303)
    }

    /// Whether the API says that the request was wrong.
    pub(crate) fn is_refusal(&self) -> bool {
        (400..500).contains(&self.status)
    }

    /// Whether this could be told from the other by whoever acts on it.
    pub(crate) fn is_same(&self, other: &Answer) -> bool {
        let place = |answer: &Answer| answer.headers.get(LOCATION).cloned();
        self.status == other.status && self.body == other.body && place(self) == place(other)
    }

    /// What differs between this answer and its replay.
    pub(crate) fn compare(&self, replay: &Answer) -> Difference {
        if self.status != replay.status {
            return Difference::Substance(format!("the status was {} and is {}", self.status, replay.status));
        }
        if self.body != replay.body {
            let (was, is) = (self.body.len(), replay.body.len());
            return Difference::Substance(format!("the body differs ({was} and {is} bytes)"));
        }
        let differing = self.differing(replay);
        let all = differing.join(", ");
        match differing.iter().any(|name| OF_THE_ANSWER.contains(&name.as_str())) {
            true => Difference::Substance(format!("headers differ: {all}")),
            false if differing.is_empty() => Difference::None,
            false => Difference::Header(format!("headers differ: {all}")),
        }
    }

    /// The headers of the answer, not of the exchange, that differ.
    fn differing(&self, replay: &Answer) -> Vec<String> {
        let mut names: Vec<_> = self.headers.keys().chain(replay.headers.keys()).collect();
        names.sort_unstable_by_key(|name| name.as_str());
        names.dedup();
        let values = |answer: &Answer, name| -> Vec<_> {
            answer.headers.get_all(name).iter().map(|value| value.as_bytes().to_vec()).collect()
        };
        let counts = |name: &str| {
            let of_the_exchange = OF_THE_EXCHANGE.contains(&name) || name.contains("ratelimit");
            !of_the_exchange && !is_about_replays(name)
        };
        names
            .into_iter()
            .filter(|name| counts(name.as_str()) && values(self, *name) != values(replay, *name))
            .map(|name| name.as_str().to_owned())
            .collect()
    }

    /// The header that says of this answer that it is a replay of `first`.
    pub(crate) fn marker(&self, first: &Answer) -> Option<String> {
        let new = |name: &&http::HeaderName| self.headers.get(*name) != first.headers.get(*name);
        self.headers
            .keys()
            .filter(|name| is_about_replays(name.as_str()))
            .find(new)
            .map(|name| name.as_str().to_owned())
    }

    /// Whether it says when to come back.
    pub(crate) fn tells_when(&self) -> bool {
        self.headers.contains_key(RETRY_AFTER)
    }

    /// Whether its body is a problem as RFC 9457 has it.
    pub(crate) fn is_problem(&self) -> bool {
        let kind = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        kind.split(';').next().is_some_and(|kind| kind.trim() == "application/problem+json")
    }

    /// Where its documentation is, as it says itself.
    pub(crate) fn documentation(&self) -> Option<String> {
        let links = self.headers.get_all(http::header::LINK).iter().filter_map(|value| value.to_str().ok());
        let linked = links.flat_map(|value| value.split(',')).find_map(described_by);
        linked.or_else(|| {
            let body: serde_json::Value = serde_json::from_slice(&self.body).ok()?;
            let kind = body.get("type")?.as_str()?;
            let is_link =
                kind.starts_with("http://") || kind.starts_with("https://") || kind.starts_with('/');
            (self.is_problem() && is_link).then(|| kind.to_owned())
        })
    }
}

/// The target of one link, where it describes.
fn described_by(link: &str) -> Option<String> {
    let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
    let describes = parameters.split(';').filter_map(|parameter| parameter.trim().split_once('=')).any(
        |(name, value)| {
            let mut kinds = value.trim_matches('"').split_whitespace();
            name.eq_ignore_ascii_case("rel") && kinds.any(|kind| kind.eq_ignore_ascii_case("describedby"))
        },
    );
    describes.then(|| target.to_owned())
}

/// Whether a header of this name may differ because one answer is a replay.
fn is_about_replays(name: &str) -> bool {
    name.contains("idempoten") || name.contains("replay")
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn answer(status: u16, headers: &[(&'static str, &'static str)], body: &'static str) -> Answer {
        let now = Instant::now();
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let headers = headers.iter().map(pair).collect();
        Answer { status, headers, body: Bytes::from_static(body.as_bytes()), sent: now, came: now }
    }

    #[test]
    fn a_replay_has_the_answer_and_an_exchange_of_its_own_m5() {
        let first = answer(201, &[("date", "a"), ("location", "/1"), ("x-request-id", "1")], "x");
        let again = answer(
            201,
            &[("date", "b"), ("location", "/1"), ("x-request-id", "2"), ("idempotent-replayed", "true")],
            "x",
        );
        assert_eq!(first.compare(&again), Difference::None);
        assert_eq!(again.marker(&first).as_deref(), Some("idempotent-replayed"));
        assert_eq!(again.marker(&again), None, "what every answer has marks nothing");
        for (other, wanted) in [
            (answer(200, &[("location", "/1")], "x"), "status"),
            (answer(201, &[("location", "/1")], "y"), "body"),
            (answer(201, &[("location", "/2")], "x"), "location"),
            (answer(201, &[], "x"), "location"),
        ] {
            let Difference::Substance(told) = first.compare(&other) else { panic!("{wanted}") };
            assert!(told.contains(wanted), "{told}");
        }
        let custom = answer(201, &[("location", "/1"), ("x-shard", "7")], "x");
        assert_eq!(first.compare(&custom), Difference::Header("headers differ: x-shard".into()));
    }

    #[test]
    fn documentation_is_found_in_the_link_and_in_the_problem_m5() {
        let linked = answer(400, &[("link", r#"</a>; rel="next", </b>; rel="help describedby""#)], "");
        assert_eq!(linked.documentation().as_deref(), Some("/b"));
        let kind = [("content-type", "application/problem+json; charset=utf-8")];
        assert_eq!(
            answer(400, &kind, r#"{"type": "/errors/x"}"#).documentation().as_deref(),
            Some("/errors/x")
        );
        assert_eq!(answer(400, &kind, r#"{"type": "about:blank"}"#).documentation(), None);
        assert_eq!(answer(400, &[], r#"{"type": "/errors/x"}"#).documentation(), None);
    }
}
