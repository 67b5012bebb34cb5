//! What would be decided about an action, without doing anything: which rule fires, and what is suspicious about its key.

use std::sync::Arc;

use super::executor::{Origin, Rules};
use super::gate::{Decision, Lately};
use super::plan::{BLOCKED, Disposition, PlannedAction, Refusal};

/// What would be decided about an action.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The decision.
    pub decision: Disposition,
    /// Whether it changes nothing, so that no rule is asked.
    pub reads: bool,
    /// The rule that decides; `None` where it is the default, or where the action is refused before.
    pub rule: Option<Arc<str>>,
    /// Why it would be refused.
    pub error: Option<String>,
    /// The stable word for that.
    pub code: Option<&'static str>,
    /// What makes its key another one each time.
    pub warnings: Vec<String>,
}

impl Rules {
    /// Checks an action. Nothing has begun lately, as far as rules are told.
    pub async fn check(&self, origin: &Origin, action: &PlannedAction) -> Checked {
        let warnings = action.idempotency_key.as_deref().map(suspicious).unwrap_or_default();
        let checked = Checked {
            decision: Disposition::Allow,
            reads: false,
            rule: None,
            error: None,
            code: None,
            warnings,
        };
        match self.judged(origin, action).await {
            Ok(None) => Checked { reads: true, ..checked },
            Ok(Some(judged)) => {
                let error = (judged.decision == Decision::Block).then(|| match judged.failed {
                    Some(why) => format!("{BLOCKED}: the rule cannot be answered: {why}"),
                    None => BLOCKED.to_owned(),
                });
                Checked { decision: judged.decision.disposition(), rule: judged.rule, error, ..checked }
            }
            Err(Refusal { code, error }) => {
                Checked { decision: Disposition::Block, error: Some(error), code: Some(code), ..checked }
            }
        }
    }

    async fn judged(
        &self,
        origin: &Origin,
        action: &PlannedAction,
    ) -> Result<Option<super::gate::Judged>, Refusal> {
        action.check()?;
        let (_, tool) = self.connectors.find(&action.connector, &action.tool, &action.args).await?;
        if tool.read_only {
            return Ok(None);
        }
        action.key()?;
        action.fingerprint()?;
        Ok(Some(self.gate.judge(origin, action, &tool, Lately::default()).await))
    }
}

/// What in a key looks as if it were another one for every proposal: then a repeated action is not recognised.
pub fn suspicious(key: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut warn = |what: &str| {
        found.push(format!(
            "the key has {what}: proposed again, the action would have another key and run again"
        ));
    };
    if has_uuid(key) {
        warn("a UUID");
    }
    let parts: Vec<&str> = key.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    if parts.iter().any(|part| is_ulid(part)) {
        warn("a ULID");
    }
    if has_date(&parts) || parts.iter().any(|part| is_unix_time(part)) {
        warn("a time");
    }
    let lower = key.to_ascii_lowercase();
    let numbered = |word: &str| {
        lower.match_indices(word).any(|(at, _)| {
            let begins = at == 0 || !lower.as_bytes()[at - 1].is_ascii_alphanumeric();
            begins
                && lower[at + word.len()..].starts_with([
                    '-', '_', ':', '.', '=', '/', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9',
                ])
        })
    };
    let requests = lower.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
    let is_request = |word: &str| {
        let rest = word.strip_prefix("request").or_else(|| word.strip_prefix("req")).unwrap_or_default();
        rest.trim_start_matches(['-', '_']).starts_with(|c: char| c.is_ascii_digit())
    };
    let words = ["run", "runid", "run_id", "attempt", "session", "trace"];
    if words.iter().any(|word| numbered(word)) || requests.into_iter().any(is_request) {
        warn("the id of a run");
    }
    found
}

/// 8, 4, 4, 4 and 12 hexadecimal digits with `-` between them, or 32 without.
fn has_uuid(key: &str) -> bool {
    let is_hex = |part: &&str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let words: Vec<&str> = key.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').collect();
    let dashed = |word: &&str| {
        let parts: Vec<&str> = word.split('-').collect();
        parts
            .windows(5)
            .any(|five| five.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && five.iter().all(&is_hex))
    };
    let plain = |word: &&str| word.len() == 32 && is_hex(word);
    words.iter().any(|word| dashed(word) || plain(word))
}

/// 26 digits and letters of Crockford's alphabet, of which the first is at most 7.
fn is_ulid(part: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() && !b"ILOU".contains(&byte.to_ascii_uppercase());
    part.len() == 26 && matches!(part.as_bytes()[0], b'0'..=b'7') && part.bytes().all(known)
}

/// A year, a month and a day, or a day, a month and a year, in either order of these two; also in one piece.
fn has_date(parts: &[&str]) -> bool {
    let number = |part: &str, digits: usize, from: u32, to: u32| {
        let fits = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        fits && part.parse::<u32>().is_ok_and(|number| (from..=to).contains(&number))
    };
    let is_day = |part: &str| {
        part.get(..2).is_some_and(|day| number(day, 2, 1, 31))
            && !part[2..].starts_with(|c: char| c.is_ascii_digit())
    };
    let spread = parts
        .windows(3)
        .any(|three| number(three[0], 4, 1990, 2100) && number(three[1], 2, 1, 12) && is_day(three[2]));
    let short = |part: &str, to: u32| part.len() <= 2 && number(part, part.len(), 1, to);
    let backwards = parts.windows(3).any(|three| {
        let either = short(three[0], 12) || short(three[1], 12);
        short(three[0], 31) && short(three[1], 31) && either && number(three[2], 4, 1990, 2100)
    });
    let compact = |part: &&str| {
        let Some((date, rest)) = part.split_at_checked(8) else { return false };
        let is_date = number(&date[..4], 4, 1990, 2100)
            && number(&date[4..6], 2, 1, 12)
            && number(&date[6..], 2, 1, 31);
        is_date && date.is_ascii() && (rest.is_empty() || rest.starts_with('T'))
    };
    spread || backwards || parts.iter().filter(|part| part.is_ascii()).any(compact)
}

/// Seconds, milliseconds or microseconds since the Unix epoch, in this half of the century.
fn is_unix_time(part: &str) -> bool {
    let digits = part.bytes().all(|byte| byte.is_ascii_digit());
    digits && matches!(part.len(), 10 | 13 | 16) && matches!(part.as_bytes()[0], b'1' | b'2')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_another_one_each_time_are_warned_of() {
        for (key, what) in [
            ("hold:018f4e1c-7d8a-7cc2-a4f5-0a3c9f7b1e2d", "a UUID"),
            ("hold:018f4e1c7d8a7cc2a4f50a3c9f7b1e2d", "a UUID"),
            ("op:SO-1:hold:2026-11-19T04:00:00Z", "a time"),
            ("op:SO-1:hold:20261119", "a time"),
            ("op:SO-1:hold:19-11-2026", "a time"),
            ("op:SO-1:hold:11/19/2026", "a time"),
            ("hold:01ARZ3NDEKTSV4RRFFQ69G5FAV", "a ULID"),
            ("req-8817:SO-1:hold", "the id of a run"),
            ("op:SO-1:hold:request_17", "the id of a run"),
            ("op:SO-1:1763500000", "a time"),
            ("op:SO-1:1763500000123", "a time"),
            ("run-17:SO-1:hold", "the id of a run"),
            ("op:SO-1:hold:run_id=abc", "the id of a run"),
            ("op:SO-1:attempt2", "the id of a run"),
        ] {
            let told = suspicious(key);
            assert!(told.len() == 1 && told[0].contains(what), "{key}: {told:?}");
        }
        for key in [
            "ship-risk:SO-10884:hold",
            "ship-risk:order 12345:refund",
            "prune:branch:delete",
            "rungs:1",
            "request:SO-1:refund",
            "requisition-17:approve",
            "part:3-4-7000",
            "größe:2026:x",
            "",
        ] {
            assert_eq!(suspicious(key), Vec::<String>::new(), "{key}");
        }
    }
}
