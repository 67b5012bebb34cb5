//! What a service's answer means for its key (H4).

use hapax_core::Rerun;
use http::{HeaderMap, StatusCode};

use crate::answer::OUTCOME;
use crate::rule::{KeptAnswers, On5xx, Rule};

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
    /// The service says something about it that cannot be read, or several things at once: as if nobody could know.
    Unclear,
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
    match said(headers) {
        Some(Said::Keep) => return kept,
        Some(Said::Release) => return Judged::Released,
        Some(Said::Doubt) => return Judged::Doubted,
        Some(Said::Never | Said::Unclear) => return Judged::Unclear,
        None => {}
    }
    let is_delivery = rule.kept_answers != KeptAnswers::Usual;
    match status.as_u16() {
        code if NOT_KEPT.contains(&code) => Judged::Released,
        300..=399 if is_delivery => Judged::Released,
        400..=499 if rule.kept_answers == KeptAnswers::Successes => Judged::Released,
        ..=499 => kept,
        code => match (rule.on_5xx, rule.rerun) {
            (Some(On5xx::Release), _) => Judged::Released,
            (Some(On5xx::Keep), _) => Judged::Refused,
            (Some(On5xx::Doubt), _) => Judged::Doubted,
            (None, Rerun::Safe) => Judged::Released,
            (None, _) => match code {
                // What stands between may have answered in the service's name: that says nothing of the work.
                502 | 504 => Judged::Unknown,
                503 => Judged::Released,
                _ if is_delivery => Judged::Released,
                _ => Judged::Refused,
            },
        },
    }
}

/// What a service says in `Idempotency-Outcome`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// This is the answer.
    Keep,
    /// Nothing happened.
    Release,
    /// Nobody can know.
    Doubt,
    /// Asked about an earlier attempt: it did not happen, and never will (L6).
    Never,
    /// It cannot be read, or contradicts itself.
    Unclear,
}

/// What a service says about its outcome, in whatever case, parameters aside; `None` where it says nothing. It has the first word
/// (H4), so one that cannot be read is not passed over: the status might say that nothing happened.
pub fn said(headers: &HeaderMap) -> Option<Said> {
    let mut words = headers.get_all(OUTCOME).iter().flat_map(|line| {
        // A comma inside a parameter cuts it in two, of which the second is no word: that is read too strictly, never too loosely.
        line.to_str()
            .unwrap_or_default()
            .split(',')
            .map(|word| one(word.split(';').next().unwrap_or_default()))
    });
    let first = words.next()?;
    Some(if words.all(|word| word == first) { first } else { Said::Unclear })
}

fn one(word: &str) -> Said {
    match word.trim().to_ascii_lowercase().as_str() {
        "keep" => Said::Keep,
        "release" => Said::Release,
        "doubt" => Said::Doubt,
        "never" => Said::Never,
        _ => Said::Unclear,
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
    fn of_a_deliverys_answers_only_successes_are_kept_and_4xx_where_it_is_said_w8() {
        for (kept_answers, rerun, status) in [KeptAnswers::Successes, KeptAnswers::SuccessesAnd4xx]
            .into_iter()
            .flat_map(|kept| [Rerun::Safe, Rerun::Unsafe].map(|rerun| (kept, rerun)))
            .flat_map(|(kept, rerun)| (200..600).map(move |status| (kept, rerun, status)))
        {
            let rule = Rule { rerun, kept_answers, ..Rule::new("a").unwrap() };
            let wanted = match status {
                ..=299 => Judged::Succeeded,
                401 | 403 | 408 | 409 | 423 | 425 | 429 => Judged::Released,
                400..=499 if kept_answers == KeptAnswers::SuccessesAnd4xx => Judged::Refused,
                502 | 504 if rerun == Rerun::Unsafe => Judged::Unknown,
                _ => Judged::Released,
            };
            let judged = judge(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), &rule);
            assert_eq!(judged, wanted, "{status} {kept_answers:?} {rerun:?}");
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
    }

    /// What an answer means with these lines of `Idempotency-Outcome`.
    fn said_in(status: u16, lines: &[&'static str]) -> Judged {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(OUTCOME, HeaderValue::from_static(line));
        }
        judge(StatusCode::from_u16(status).unwrap(), &headers, &Rule::new("a").unwrap())
    }

    #[test]
    fn the_services_word_is_read_in_any_case_and_without_its_parameters_h4() {
        for doubt in
            ["Doubt", "DOUBT", " doubt ", "doubt;reason=x", "doubt ; reason=\"x, y\"", "doubt, doubt"]
        {
            assert_ne!(said_in(503, &[doubt]), Judged::Released, "{doubt}");
        }
        assert_eq!(said_in(503, &["Doubt"]), Judged::Doubted);
        assert_eq!(said_in(503, &["doubt;reason=x"]), Judged::Doubted);
        assert_eq!(said_in(503, &["KEEP"]), Judged::Refused);
        assert_eq!(said_in(200, &["Release; why=full"]), Judged::Released);
        assert_eq!(said_in(500, &["release", "Release"]), Judged::Released, "what is said twice is said");
    }

    #[test]
    fn a_word_that_cannot_be_read_or_is_contradicted_is_a_doubt_whatever_the_status_h4() {
        let unread: [&[&str]; 8] = [
            &["whatever"],
            &[""],
            &["never"],
            &["keep release"],
            &["release", "doubt"],
            &["keep, doubt"],
            &["keep,"],
            &["release", "whatever"],
        ];
        for lines in unread {
            for status in [200, 402, 409, 500, 503] {
                assert_eq!(said_in(status, lines), Judged::Unclear, "{status} {lines:?}");
            }
        }
    }
}
