//! Rows about the same key elsewhere: in another caller's hands, and on another path.

use super::{Probe, answered, fresh};
use crate::answer::Answer;
use crate::client::Sent;
use crate::row::Finding;

impl Probe {
    pub(super) async fn other_caller(&mut self, key: &str, first: &Answer) -> Finding {
        if self.options.other_headers.is_empty() {
            return Finding::not_tested(
                "--other-header 'Authorization: …' gives another caller's credentials",
            );
        }
        let sent = |key: &str| Sent {
            keys: vec![self.form.write(key)],
            body: self.options.bodies.one.clone(),
            headers: self.options.other_headers.clone(),
            ..Sent::default()
        };
        // The control: a refusal means something only if this caller is not refused anyway.
        let control = answered!(self.client.send(&sent(&answered!(fresh()))).await);
        if !control.is_accepted() {
            return Finding::not_tested(format!("the other caller is refused anyway ({})", control.status));
        }
        let answer = answered!(self.client.send(&sent(key)).await);
        let told_apart = self.tells || !control.is_same(first);
        let finding = match answer.status {
            _ if answer.is_same(first) && told_apart => {
                Finding::fail("the first caller's answer was handed out")
            }
            _ if answer.is_same(first) => {
                Finding::warn("equal answers for both callers; they do not tell executions apart")
            }
            status if answer.is_accepted() => Finding::pass(format!("{status}: a key of its own")),
            status @ 400..=499 => Finding::warn(format!(
                "{status}: callers share their keys, and can find or block each other's"
            )),
            status => Finding::fail(format!("{status}")),
        };
        self.note(&answer);
        finding
    }

    pub(super) async fn other_path(&mut self, key: &str, first: &Answer) -> Finding {
        let Some(url) = self.options.other_url.clone() else {
            return Finding::not_tested("--other-path names another operation that takes the same body");
        };
        let sent = |key: &str| Sent {
            keys: vec![self.form.write(key)],
            body: self.options.bodies.one.clone(),
            url: Some(url.clone()),
            ..Sent::default()
        };
        let control = answered!(self.client.send(&sent(&answered!(fresh()))).await);
        if !control.is_accepted() {
            return Finding::not_tested(format!(
                "the other path refuses a fresh key too ({})",
                control.status
            ));
        }
        let answer = answered!(self.client.send(&sent(key)).await);
        let told_apart = self.tells || !control.is_same(first);
        let finding = match answer.status {
            _ if answer.is_same(first) && told_apart => Finding::fail("the answer of the first path"),
            _ if answer.is_same(first) => {
                Finding::warn("equal answers on both paths; they do not tell executions apart")
            }
            status if answer.is_accepted() => Finding::pass(format!("{status}: a key of its own")),
            status @ (409 | 422) => Finding::pass(format!("{status}: the key is taken")),
            status @ 400..=499 => Finding::warn(format!("{status}")),
            status => Finding::fail(format!("{status}")),
        };
        self.note(&answer);
        finding
    }
}
