//! Rows about errors: whether a refusal is kept, and what errors tell those who get them.

use super::{Probe, answered, fresh};
use crate::answer::Answer;
use crate::client::is_loopback;
use crate::row::Finding;

impl Probe {
    pub(super) async fn refused(&mut self) -> Finding {
        let key = answered!(fresh());
        let broken = self.options.bodies.broken.clone();
        let one = answered!(self.ask_with(&key, broken.clone()).await);
        if one.is_accepted() {
            return Finding::not_tested("a broken body is taken too, so that nothing was refused");
        }
        if !one.is_refusal() {
            return Finding::warn(format!("{} for a broken body instead of 4xx", one.status));
        }
        let again = answered!(self.ask_with(&key, broken).await);
        let mended = answered!(self.ask(&key).await);
        let kept = match again.marker(&one) {
            Some(name) => format!("replayed ({name})"),
            None if again.is_same(&one) => "the same refusal".to_owned(),
            None => format!("then {}", again.status),
        };
        let then = match mended.is_accepted() {
            true => "the key is free for a mended request",
            false => "a mended request needs a new key",
        };
        Finding::info(format!("{} for a broken body, {kept}; {then} ({})", one.status, mended.status))
    }

    pub(super) fn retry_after(&self) -> Finding {
        let busy: Vec<&Answer> =
            self.errors.iter().filter(|(_, busy)| *busy).map(|(answer, _)| answer).collect();
        let silent: Vec<_> =
            busy.iter().filter(|answer| !answer.tells_when()).map(|answer| answer.status).collect();
        match (busy.len(), silent.first()) {
            (0, _) => Finding::not_tested("nothing was answered with 409, 429 or 503"),
            (all, None) => Finding::pass(format!("on all {all} such answers")),
            (all, Some(status)) => {
                Finding::warn(format!("not on {} of {all} such answers (such as {status})", silent.len()))
            }
        }
    }

    pub(super) fn problem(&self) -> Finding {
        let others: Vec<_> = self.errors.iter().filter(|(answer, _)| !answer.is_problem()).collect();
        match (self.errors.len(), others.first()) {
            (0, _) => Finding::not_tested("there was no error about a key"),
            (all, None) => Finding::pass(format!("all {all} errors about keys")),
            (all, Some((answer, _))) => Finding::warn(format!(
                "not {} of {all} errors about keys (such as {})",
                others.len(),
                answer.status
            )),
        }
    }

    pub(super) async fn docs(&mut self) -> Finding {
        if self.errors.is_empty() {
            return Finding::not_tested("there was no error about a key");
        }
        let Some(link) = self.errors.iter().find_map(|(answer, _)| answer.documentation()) else {
            return Finding::warn("no error has a link");
        };
        let here = self.client.url();
        let Ok(page) = here.join(&link) else {
            return Finding::warn(format!("{link} is no link"));
        };
        let same_place = page.origin() == here.origin() || (is_loopback(here) && page.host() == here.host());
        if !same_place {
            return Finding::pass(format!("{page} (on another host, and not followed)"));
        }
        let answer = answered!(self.client.get(page.clone()).await);
        match answer.status {
            200..=299 => Finding::pass(page.path().to_owned()),
            status => Finding::warn(format!("{} gets {status}", page.path())),
        }
    }
}
