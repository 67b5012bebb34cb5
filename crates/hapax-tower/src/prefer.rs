//! What a caller prefers (RFC 7240): how long it waits, or not at all (H6).

use std::time::Duration;

use http::HeaderMap;
use http::header::HeaderName;

use crate::limits;

const PREFER: HeaderName = HeaderName::from_static("prefer");

/// What a caller prefers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefer {
    /// `wait=N`: the longest wait for somebody else's outcome.
    pub wait: Option<Duration>,
    /// `respond-async`: an answer at once, and the outcome to be fetched later.
    pub respond_async: bool,
}

impl Prefer {
    /// Reads the preferences of a request. What cannot be read is no preference.
    pub fn of(headers: &HeaderMap) -> Self {
        let mut prefer = Prefer::default();
        let lines = headers.get_all(PREFER).iter().filter_map(|line| line.to_str().ok());
        for preference in lines.flat_map(|line| line.split(',')) {
            // Behind a semicolon are parameters, none of which means anything here.
            let preference = preference.split(';').next().unwrap_or_default();
            let (name, value) = preference.split_once('=').unzip();
            let name = name.unwrap_or(preference).trim();
            if name.eq_ignore_ascii_case("respond-async") {
                prefer.respond_async = true;
            } else if name.eq_ignore_ascii_case("wait") && prefer.wait.is_none() {
                let seconds = value.and_then(|value| value.trim().trim_matches('"').parse().ok());
                prefer.wait = seconds.map(|seconds| Duration::from_secs(seconds).min(limits::PREFERRED_WAIT));
            }
        }
        prefer
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn preferences_are_read_as_rfc_7240_writes_them_h6() {
        let of = |lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(PREFER, HeaderValue::from_static(line));
            }
            let Prefer { wait, respond_async } = Prefer::of(&headers);
            (wait.map(|wait| wait.as_secs()), respond_async)
        };
        assert_eq!(of(&[]), (None, false));
        assert_eq!(of(&["respond-async, wait=10"]), (Some(10), true));
        assert_eq!(of(&["Wait = 3", "RESPOND-ASYNC"]), (Some(3), true));
        assert_eq!(of(&["wait=5, wait=50"]), (Some(5), false));
        assert_eq!(of(&["wait=0; x=1"]), (Some(0), false));
        assert_eq!(of(&["respond-async; foo=1, wait=2;foo"]), (Some(2), true));
        assert_eq!(of(&["respond-async ;foo", "other; respond-async"]), (None, true));
        assert_eq!(of(&["other; respond-async", "other; wait=3"]), (None, false));
        assert_eq!(of(&["wait=-1", "handling=strict"]), (None, false));
        assert_eq!(of(&["wait=99999999"]), (Some(600), false));
    }
}
