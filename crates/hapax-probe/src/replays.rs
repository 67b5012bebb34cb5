//! Rows about one key used again: the first request, its retry, and the same key for another body.

use std::time::Duration;

use super::{Form, Probe, answered, fresh};
use crate::answer::{Answer, Difference};
use crate::client::NoAnswer;
use crate::limits;
use crate::row::Finding;

impl Probe {
    /// The first request. An error when there is no answer at all: then there is nothing to test.
    pub(super) async fn first(&mut self) -> Result<Finding, NoAnswer> {
        let key = fresh()?;
        let quoted = self.ask(&key).await?;
        if quoted.is_accepted() {
            let seen = format!("{} in {}", quoted.status, shown(took(&quoted)));
            self.first = Some((key, quoted));
            return Ok(Finding::pass(seen));
        }
        if self.form == Form::Bare {
            return Ok(Finding::fail(format!("{}: {}", quoted.status, remedy(quoted.status))));
        }
        // Some APIs take nothing but letters and digits.
        self.form = Form::Bare;
        let key = fresh()?;
        let bare = self.ask(&key).await?;
        let status = quoted.status;
        if !bare.is_accepted() {
            return Ok(Finding::fail(format!("{status}: {}", remedy(status))));
        }
        self.note(&quoted);
        let seen = format!("{} for the bare form only; the draft's quoted form gets {status}", bare.status);
        self.first = Some((key, bare));
        Ok(Finding::warn(seen))
    }

    pub(super) async fn distinct(&mut self, first: &Answer) -> Finding {
        let second = answered!(super::ask_fresh(self).await);
        if !second.is_accepted() {
            return Finding::warn(format!(
                "the same request with another key gets {}: what rows below say about executions is a guess",
                second.status
            ));
        }
        self.tells = !second.is_same(first);
        match self.tells {
            true => Finding::pass("two keys for one request got two answers that differ"),
            false => Finding::warn("two keys got equal answers, so that executions cannot be told apart"),
        }
    }

    pub(super) async fn replay(&mut self, key: &str, first: &Answer) -> Finding {
        let again = answered!(self.ask(key).await);
        self.note_busy(&again);
        let finding = match first.compare(&again) {
            Difference::None => Finding::pass("equal in status, headers and body"),
            Difference::Header(what) => Finding::warn(what),
            Difference::Substance(_) if again.is_accepted() && self.tells && !again.is_same(first) => {
                Finding::fail(format!("{}, with another answer: it ran again", again.status))
            }
            Difference::Substance(what) => Finding::fail(what),
        };
        self.replay = Some(again);
        self.weighed(finding)
    }

    pub(super) fn marker(&self, first: &Answer) -> Finding {
        let Some(replay) = self.replay.as_ref().filter(|replay| replay.is_same(first)) else {
            return Finding::not_tested("there was no replay");
        };
        match replay.marker(first) {
            Some(name) => Finding::pass(name),
            None => Finding::warn("a caller cannot tell a replay from a first answer"),
        }
    }

    pub(super) async fn other_body(&mut self, key: &str, first: &Answer) -> Finding {
        // The control: a refusal means something only if the body itself is not what is refused.
        let other = self.options.bodies.other.clone();
        let control = answered!(self.ask_with(&answered!(fresh()), other.clone()).await);
        if !control.is_accepted() {
            let why = format!("the other body is refused with a fresh key too ({})", control.status);
            self.other_body = Err(why.clone());
            return Finding::not_tested(format!("{why}; give one that is not with --other-body-json"));
        }
        self.other_body = Ok(control);
        let again = answered!(self.ask_with(key, other).await);
        self.note(&again);
        match again.status {
            422 => Finding::pass("422"),
            _ if again.is_accepted() && again.is_same(first) => {
                Finding::fail(format!("{}: the answer to the first body, for another one", again.status))
            }
            status if again.is_accepted() => Finding::fail(format!("{status}: it ran under a used key")),
            status @ 400..=499 => Finding::warn(format!("{status} instead of 422")),
            status => Finding::fail(format!("{status} instead of 422")),
        }
    }

    pub(super) async fn in_flight(&mut self, first: &Answer) -> Finding {
        if let Err(why) = &self.other_body {
            return Finding::not_tested(why.clone());
        }
        let key = answered!(fresh());
        let wait = (took(first) / 4).clamp(limits::HEAD_START, limits::HEAD_START_MOST);
        let other = self.options.bodies.other.clone();
        let (one, two) = tokio::join!(self.ask(&key), async {
            tokio::time::sleep(wait).await;
            self.ask_with(&key, other).await
        });
        let (one, two) = (answered!(one), answered!(two));
        if one.came.saturating_duration_since(two.sent) < limits::OVERLAP {
            return Finding::not_tested(format!("the first was over after {}: too fast", shown(took(&one))));
        }
        // Whichever came first at the other end: one runs and the other must not.
        let (ran, turned_away) = if one.is_accepted() { (one, two) } else { (two, one) };
        self.note_busy(&turned_away);
        match turned_away.status {
            _ if !ran.is_accepted() => {
                Finding::fail(format!("neither was accepted ({} and {})", ran.status, turned_away.status))
            }
            status @ (409 | 422) => Finding::pass(status.to_string()),
            _ if turned_away.is_same(&ran) => Finding::fail(format!(
                "{}: the answer to the first body, for another one",
                turned_away.status
            )),
            status if turned_away.is_accepted() => Finding::fail(format!("{status}: both ran")),
            status @ 400..=499 => Finding::warn(format!("{status} instead of 422 or 409")),
            status => Finding::fail(format!("{status} instead of 422 or 409")),
        }
    }
}

/// How long an answer took.
fn took(answer: &Answer) -> Duration {
    answer.came.saturating_duration_since(answer.sent)
}

fn shown(time: Duration) -> String {
    format!("{} ms", time.as_millis())
}

/// What somebody can do about a first request that is refused.
fn remedy(status: u16) -> &'static str {
    match status {
        401 | 403 => "send credentials with --header 'Authorization: …'",
        404 => "there is nothing at this URL",
        405 => "say which method with --method",
        400..=499 => "send a request that this API takes, with --body or --body-json",
        500..=599 => "the API failed",
        _ => "that is no answer to a write; redirects are not followed",
    }
}
