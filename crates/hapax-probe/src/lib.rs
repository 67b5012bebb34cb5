//! Finds out from outside what an API makes of `Idempotency-Key` (M5).
//!
//! It sends a bounded number of requests and judges the answers, row by row. It knows nothing about the API: what ran is
//! told from what differs in answers, so the first thing it finds out is whether two executions can be told apart at all. `hapax probe` is its command line.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, reason = "only the `clock` module reads the time"))]

mod answer;
pub mod body;
pub mod client;
mod clock;
mod errors;
mod keys;
pub mod limits;
mod others;
mod race;
mod replays;
pub mod report;
pub mod row;

use bytes::Bytes;
use http::HeaderMap;
use reqwest::Url;

use answer::Answer;
use body::Bodies;
use client::{Client, Got, NoAnswer, Sent};
use report::Report;
use row::{Finding, Level, Row};

/// The draft that is asked for.
pub const DRAFT: &str = "draft-ietf-httpapi-idempotency-key-header-07";

/// What a probe is told beside where to send.
#[derive(Debug)]
pub struct Options {
    /// What requests carry.
    pub bodies: Bodies,
    /// Whether keys stand in `Idempotency-Key`, where the draft says how they are written.
    pub as_drafted: bool,
    /// How many requests race.
    pub race: usize,
    /// What another caller sends instead.
    pub other_headers: HeaderMap,
    /// Another operation.
    pub other_url: Option<Url>,
}

/// How keys are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A structured-field string, as the draft has it.
    Quoted,
    /// As most clients send it.
    Bare,
}

impl Form {
    fn write(self, key: &str) -> String {
        match self {
            Form::Quoted => format!("\"{key}\""),
            Form::Bare => key.to_owned(),
        }
    }

    fn other(self) -> Form {
        match self {
            Form::Quoted => Form::Bare,
            Form::Bare => Form::Quoted,
        }
    }
}

/// A probe on its way: what earlier rows found out.
struct Probe {
    client: Client,
    options: Options,
    form: Form,
    /// The key of the first request, and its answer.
    first: Option<(String, Answer)>,
    /// What the retry of it got.
    replay: Option<Answer>,
    /// Whether answers tell one execution from another.
    tells: bool,
    /// Whether the other body is taken, with a key of its own.
    other_body: Result<Answer, String>,
    /// Whether a request without a key is refused.
    requires_key: bool,
    /// Errors that are about keys, and whether their status says "come back later".
    errors: Vec<(Answer, bool)>,
}

/// How many requests a probe sends at most.
pub fn at_most(options: &Options) -> usize {
    Row::ALL.iter().filter(|row| is_asked_for(**row, options)).map(|row| row.requests(options.race)).sum()
}

fn is_asked_for(row: Row, options: &Options) -> bool {
    match row {
        Row::OtherCaller => !options.other_headers.is_empty(),
        Row::OtherPath => options.other_url.is_some(),
        Row::Malformed | Row::Forms => options.as_drafted,
        _ => true,
    }
}

/// Tests every row. `told` hears of each as it begins and ends. An error when the API cannot be reached at all.
pub async fn run(
    client: Client,
    options: Options,
    told: impl Fn(Row, Option<&Finding>),
) -> Result<Report, NoAnswer> {
    let form = if options.as_drafted { Form::Quoted } else { Form::Bare };
    let mut probe = Probe {
        client,
        options,
        form,
        first: None,
        replay: None,
        tells: false,
        other_body: Err("it was not tried".into()),
        requires_key: false,
        errors: Vec::new(),
    };
    let mut rows = Vec::new();
    for row in Row::ALL {
        if probe.first.is_some() == (row != Row::First) && is_asked_for(row, &probe.options) {
            told(row, None);
        }
        let finding = match row {
            Row::First => probe.first().await?,
            _ if probe.first.is_none() => Finding::not_tested("no request was accepted"),
            _ => probe.test(row).await,
        };
        told(row, Some(&finding));
        rows.push((row, finding));
    }
    Ok(Report { sent: probe.client.sent(), tells: probe.tells, rows })
}

impl Probe {
    async fn test(&mut self, row: Row) -> Finding {
        let Some((key, first)) = self.first.clone() else {
            return Finding::not_tested("no request was accepted");
        };
        match row {
            Row::First => Finding::not_tested("it was tested before"),
            Row::Malformed | Row::Forms if !self.options.as_drafted => Finding::not_tested(
                "the draft says how keys are written in Idempotency-Key, and nowhere else",
            ),
            Row::Distinct => self.distinct(&first).await,
            Row::Replay => self.replay(&key, &first).await,
            Row::Marker => self.marker(&first),
            Row::OtherBody => self.other_body(&key, &first).await,
            Row::InFlight => self.in_flight(&first).await,
            Row::Missing => self.missing().await,
            Row::Malformed => self.malformed().await,
            Row::Forms => self.forms(&key, &first).await,
            Row::Duplicated => self.duplicated().await,
            Row::Empty => self.empty().await,
            Row::TooLong => self.too_long().await,
            Row::Race => self.race().await,
            Row::OtherCaller => self.other_caller(&key, &first).await,
            Row::OtherPath => self.other_path(&key, &first).await,
            Row::Refused => self.refused().await,
            Row::RetryAfter => self.retry_after(),
            Row::Problem => self.problem(),
            Row::Docs => self.docs().await,
        }
    }

    /// Sends the usual request with this key.
    async fn ask(&self, key: &str) -> Got {
        self.ask_with(key, self.options.bodies.one.clone()).await
    }

    /// Sends this body with this key.
    async fn ask_with(&self, key: &str, body: Bytes) -> Got {
        self.client.send(&Sent { keys: vec![self.form.write(key)], body, ..Sent::default() }).await
    }

    /// Sends the usual request with these lines, exactly.
    async fn ask_exactly(&self, lines: &[String]) -> Got {
        let body = self.options.bodies.one.clone();
        self.client.send(&Sent { keys: lines.to_vec(), body, ..Sent::default() }).await
    }

    /// Remembers an error that is about a key.
    fn note(&mut self, answer: &Answer) {
        if answer.status >= 400 {
            self.errors.push((answer.clone(), matches!(answer.status, 429 | 503)));
        }
    }

    /// Remembers an error that says "come back later".
    fn note_busy(&mut self, answer: &Answer) {
        if answer.status >= 400 {
            self.errors.push((answer.clone(), matches!(answer.status, 409 | 429 | 503)));
        }
    }

    /// Equal answers prove something only where unequal ones were possible.
    fn weighed(&self, finding: Finding) -> Finding {
        if self.tells || finding.level != Level::Pass {
            return finding;
        }
        let seen = finding.seen;
        Finding::warn(format!("{seen}; but this proves little: answers do not tell executions apart"))
    }
}

/// Sends the usual request with a key of its own.
async fn ask_fresh(probe: &Probe) -> Got {
    probe.ask(&fresh()?).await
}

/// A key that nobody has used.
fn fresh() -> Result<String, NoAnswer> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|_| NoAnswer::Lost("the system gives no random bytes".into()))?;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    // The shape of a UUID, because some APIs take nothing else.
    let parts =
        [&hex[..8], &hex[8..12], &format!("4{}", &hex[13..16]), &format!("a{}", &hex[17..20]), &hex[20..]];
    Ok(parts.join("-"))
}

/// A row that could not be tested because there was no answer.
fn unanswered(why: &NoAnswer) -> Finding {
    Finding::not_tested(why.to_string())
}

/// Takes an answer, or ends the row without one.
macro_rules! answered {
    ($got:expr) => {
        match $got {
            Ok(answer) => answer,
            Err(why) => return $crate::unanswered(&why),
        }
    };
}
use answered;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_keys_look_like_uuids_and_differ_m5() {
        let (one, other) = (fresh().unwrap(), fresh().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
    }
}
