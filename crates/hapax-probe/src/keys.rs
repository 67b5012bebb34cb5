//! Rows about what is no proper key: missing, malformed, doubled, empty, too long; and about its two forms.

use super::{Form, Probe, answered, fresh};
use crate::answer::Answer;
use crate::client::{NoAnswer, Sent};
use crate::limits;
use crate::row::Finding;

impl Probe {
    pub(super) async fn missing(&mut self) -> Finding {
        let answer = answered!(self.ask_exactly(&[]).await);
        self.note(&answer);
        self.requires_key = answer.is_refusal();
        match answer.status {
            400 => Finding::pass("400"),
            status @ 401..=499 => Finding::warn(format!("{status} instead of 400")),
            status if answer.is_accepted() => {
                Finding::warn(format!("{status}: no key is required, and what has none runs at every retry"))
            }
            status => Finding::fail(format!("{status} instead of 400")),
        }
    }

    pub(super) async fn malformed(&mut self) -> Finding {
        // A quoted string that does not end.
        let line = [format!("\"{}", answered!(fresh()))];
        let answer = answered!(self.ask_exactly(&line).await);
        self.note(&answer);
        if !answer.is_accepted() {
            return refusal(&answer);
        }
        let again = answered!(self.ask_exactly(&line).await);
        self.note(&again);
        match again.is_same(&answer) {
            true if self.tells => Finding::warn(format!("{}: taken as a key like any other", answer.status)),
            true => Finding::warn(format!("{}: it ran, and nobody can tell how often", answer.status)),
            false => Finding::fail(format!("{}: it ran as if there were no key", answer.status)),
        }
    }

    pub(super) async fn forms(&mut self, key: &str, first: &Answer) -> Finding {
        let other = self.form.other();
        let answer = answered!(self.ask_exactly(&[other.write(key)]).await);
        self.note(&answer);
        let name = if other == Form::Bare { "bare" } else { "quoted" };
        match answer.status {
            _ if answer.is_same(first) => self.weighed(Finding::pass("the first answer for both")),
            status if answer.is_accepted() => {
                Finding::fail(format!("{status}: the {name} form is another key"))
            }
            status @ 400..=499 if other == Form::Bare => {
                Finding::pass(format!("{status}: only the quoted form is taken"))
            }
            status @ 400..=499 => Finding::warn(format!("{status}: only the bare form is taken")),
            status => Finding::fail(format!("{status} for the {name} form")),
        }
    }

    pub(super) async fn duplicated(&mut self) -> Finding {
        let lines = [self.form.write(&answered!(fresh())), self.form.write(&answered!(fresh()))];
        let answer = answered!(self.ask_exactly(&lines).await);
        self.note(&answer);
        match answer.is_accepted() {
            true => Finding::fail(format!("{}: it ran; a proxy may choose another line", answer.status)),
            false => refusal(&answer),
        }
    }

    pub(super) async fn empty(&mut self) -> Finding {
        let one = answered!(self.ask_exactly(&[String::new()]).await);
        self.note(&one);
        if !one.is_accepted() {
            return refusal(&one);
        }
        let body = self.options.bodies.other.clone();
        let sent = Sent { keys: vec![String::new()], body, ..Sent::default() };
        let two = answered!(self.client.send(&sent).await);
        self.note(&two);
        let told_apart = self.tells || self.other_body.as_ref().is_ok_and(|other| !other.is_same(&one));
        match two.status {
            _ if two.is_same(&one) && told_apart => {
                Finding::fail("two bodies got one answer: empty is a key that everybody shares")
            }
            status @ (409 | 422) if self.other_body.is_ok() => {
                Finding::fail(format!("another body gets {status}: empty is a key that everybody shares"))
            }
            _ if self.requires_key => {
                Finding::fail(format!("{}: it ran unprotected, where a key is required", one.status))
            }
            _ => Finding::warn(format!("{}: it ran as if there were no key", one.status)),
        }
    }

    pub(super) async fn too_long(&mut self) -> Finding {
        let key = self.form.write(&"k".repeat(limits::LONG_KEY));
        match self.ask_exactly(&[key]).await {
            Ok(answer) => {
                self.note(&answer);
                match answer.status {
                    status if answer.is_accepted() => Finding::fail(format!("{status}: it ran")),
                    status @ 400..=499 => Finding::pass(status.to_string()),
                    status => Finding::fail(format!("{status} instead of 4xx")),
                }
            }
            Err(NoAnswer::Lost(why)) => {
                Finding::warn(format!("the connection ended without an answer: {why}"))
            }
            Err(why) => super::unanswered(&why),
        }
    }
}

/// What should be 400.
fn refusal(answer: &Answer) -> Finding {
    match answer.status {
        400 => Finding::pass("400"),
        status if answer.is_refusal() => Finding::warn(format!("{status} instead of 400")),
        status => Finding::fail(format!("{status} instead of 400")),
    }
}
