//! What a service's answer means for its key (H4).

use hapax_core::Rerun;
use http::{HeaderMap, StatusCode};

use crate::answer::OUTCOME;
use crate::rule::{On5xx, Rule};

/// What an answer means for its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// The work was done, and this is its answer.
    Succeeded,
    /// The work ended with a terminal error, and this is its answer.
    Refused,
    /// The work was not done: the key is free again.
    Released,
    /// The work may have been done.
    Unknown,
    /// The service itself says that nobody can know.
    Doubted,
}

/// Answers of status 4xx that say "not now" or "not you" rather than "no": they are not kept.
const NOT_KEPT: [u16; 7] = [401, 403, 408, 409, 423, 425, 429];

/// Judges an answer by its head.
pub fn judge(status: StatusCode, headers: &HeaderMap, rule: &Rule) -> Judged {
    let kept = if status.is_client_error() || status.is_server_error() {
        Judged::Refused
    } else {
        Judged::Succeeded
    };
    match headers.get(OUTCOME).map(|value| value.as_bytes()) {
        Some(b"keep") => return kept,
        Some(b"release") => return Judged::Released,
        Some(b"doubt") => return Judged::Doubted,
        _ => {}
    }
    match status.as_u16() {
        code if NOT_KEPT.contains(&code) => Judged::Released,
        ..=499 => kept,
        code => match (rule.on_5xx, rule.rerun) {
            (Some(On5xx::Release), _) => Judged::Released,
            (Some(On5xx::Keep), _) => Judged::Refused,
            (Some(On5xx::Doubt), _) => Judged::Doubted,
            (None, Rerun::Safe) => Judged::Released,
            (None, _) => match code {
                502 | 504 => Judged::Unknown,
                503 => Judged::Released,
                _ => Judged::Refused,
            },
        },
    }
}

/// Whether the work was done, as far as the status of its answer tells: what was refused was not.
pub(crate) fn executed(status: u16) -> &'static str {
    match status {
        ..400 => "yes",
        400..500 => "no",
        500.. => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn judged(status: u16, rerun: Rerun, on_5xx: Option<On5xx>, outcome: Option<&'static str>) -> Judged {
        let rule = Rule { rerun, on_5xx, ..Rule::new("a").unwrap() };
        let mut headers = HeaderMap::new();
        if let Some(outcome) = outcome {
            headers.insert(OUTCOME, HeaderValue::from_static(outcome));
        }
        judge(StatusCode::from_u16(status).unwrap(), &headers, &rule)
    }

    #[test]
    fn every_status_is_kept_released_or_doubted_as_the_contract_says_h4() {
        for status in 200..600 {
            let wanted = match status {
                401 | 403 | 408 | 409 | 423 | 425 | 429 | 503 => Judged::Released,
                502 | 504 => Judged::Unknown,
                ..=399 => Judged::Succeeded,
                _ => Judged::Refused,
            };
            assert_eq!(judged(status, Rerun::Unsafe, None, None), wanted, "{status}, unsafe");
            assert_eq!(judged(status, Rerun::Ask, None, None), wanted, "{status}, ask");
            let wanted = if status >= 500 { Judged::Released } else { wanted };
            assert_eq!(judged(status, Rerun::Safe, None, None), wanted, "{status}, safe");
        }
    }

    #[test]
    fn what_is_configured_goes_before_what_follows_from_rerun_h4() {
        for status in [500, 502, 503, 504, 599] {
            for rerun in [Rerun::Safe, Rerun::Unsafe] {
                assert_eq!(judged(status, rerun, Some(On5xx::Release), None), Judged::Released);
                assert_eq!(judged(status, rerun, Some(On5xx::Keep), None), Judged::Refused);
                assert_eq!(judged(status, rerun, Some(On5xx::Doubt), None), Judged::Doubted);
            }
        }
        assert_eq!(judged(404, Rerun::Unsafe, Some(On5xx::Release), None), Judged::Refused);
    }

    #[test]
    fn the_service_has_the_first_word_h4() {
        for status in [200, 409, 500, 502, 503] {
            let kept = if status == 200 { Judged::Succeeded } else { Judged::Refused };
            assert_eq!(judged(status, Rerun::Safe, Some(On5xx::Doubt), Some("keep")), kept);
            assert_eq!(judged(status, Rerun::Unsafe, Some(On5xx::Keep), Some("release")), Judged::Released);
            assert_eq!(judged(status, Rerun::Safe, None, Some("doubt")), Judged::Doubted);
        }
        assert_eq!(judged(200, Rerun::Unsafe, None, Some("whatever")), Judged::Succeeded);
    }
}
