//! The row about many requests at once with one new key: one may run.

use super::{Probe, answered, fresh};
use crate::answer::Answer;
use crate::client::{Got, NoAnswer};
use crate::row::Finding;

impl Probe {
    pub(super) async fn race(&mut self) -> Finding {
        let key = answered!(fresh());
        let got = self.all_at_once(&key).await;
        for answer in got.iter().filter_map(|got| got.as_ref().ok()) {
            self.note_busy(answer);
        }
        let after = self.ask(&key).await;
        let finding = judge(&got, &after, self.tells);
        self.weighed(finding)
    }

    async fn all_at_once(&self, key: &str) -> Vec<Got> {
        let requests = (0..self.options.race).map(|_| self.ask(key));
        join_all(requests).await
    }
}

/// Drives all of them on this task: they share nothing but the connection to the API, which each has of its own.
async fn join_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.map(Box::pin).collect();
    let mut done: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, done) in running.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
            if let std::task::Poll::Ready(output) = future.as_mut().poll(context) {
                *done = Some(output);
            }
        }
        match done.iter().all(Option::is_some) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    done.into_iter().flatten().collect()
}

/// Judges what came of the race, and what the key stands for afterwards.
fn judge(got: &[Got], after: &Got, tells: bool) -> Finding {
    let answers: Vec<&Answer> = got.iter().filter_map(|got| got.as_ref().ok()).collect();
    let accepted: Vec<&Answer> = answers.iter().copied().filter(|answer| answer.is_accepted()).collect();
    let Some(winner) = accepted.iter().max_by_key(|answer| answer.body.len()) else {
        return Finding::fail(format!("nobody was answered: {}", counted(got)));
    };
    let seen = counted(got);
    if !winner.body.is_empty() && accepted.iter().any(|answer| answer.body.is_empty()) {
        return Finding::fail(format!("some got an empty success instead of the answer: {seen}"));
    }
    let mut different: Vec<&Answer> = Vec::new();
    for answer in &accepted {
        if !different.iter().any(|known| known.is_same(answer)) {
            different.push(answer);
        }
    }
    if different.len() > 1 {
        return Finding::fail(format!("{} different answers for one key: {seen}", different.len()));
    }
    match after {
        Ok(after) if tells && after.is_accepted() && !after.is_same(winner) => {
            return Finding::fail(format!("a retry afterwards got another answer than the race: {seen}"));
        }
        _ => {}
    }
    if answers.iter().any(|answer| answer.status >= 500 && answer.status != 503) {
        return Finding::fail(format!("a server error instead of 409: {seen}"));
    }
    let clean = |got: &Got| got.as_ref().is_ok_and(|answer| answer.is_accepted() || answer.status == 409);
    match got.iter().all(clean) {
        true => Finding::pass(seen),
        false => Finding::warn(format!("others than 409 for those that came second: {seen}")),
    }
}

/// "1 × 201, 19 × 409"
fn counted(got: &[Got]) -> String {
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    for got in got {
        let name = match got {
            Ok(answer) => answer.status.to_string(),
            Err(NoAnswer::Unreachable(_)) => "not reached".into(),
            Err(_) => "no answer".into(),
        };
        *counts.entry(name).or_default() += 1;
    }
    counts.iter().map(|(name, count)| format!("{count} × {name}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use bytes::Bytes;
    use http::HeaderMap;

    use super::*;
    use crate::row::Level;

    fn got(status: u16, body: &'static str) -> Got {
        let (headers, now) = (HeaderMap::new(), Instant::now());
        Ok(Answer { status, headers, body: Bytes::from_static(body.as_bytes()), sent: now, came: now })
    }

    #[test]
    fn one_answer_for_all_or_409_is_what_passes_m5() {
        let level = |race: &[(u16, &'static str)], after: (u16, &'static str)| {
            let race: Vec<_> = race.iter().map(|(status, body)| got(*status, body)).collect();
            judge(&race, &got(after.0, after.1), true).level
        };
        assert_eq!(level(&[(201, "a"), (201, "a")], (201, "a")), Level::Pass);
        assert_eq!(level(&[(201, "a"), (409, "")], (201, "a")), Level::Pass);
        assert_eq!(level(&[(201, "a"), (425, "")], (201, "a")), Level::Warn);
        assert_eq!(level(&[(201, "a"), (503, "")], (201, "a")), Level::Warn);
        assert_eq!(level(&[(201, "a"), (201, "b")], (201, "a")), Level::Fail);
        assert_eq!(level(&[(201, "a"), (201, "")], (201, "a")), Level::Fail);
        assert_eq!(level(&[(201, "a"), (500, "")], (201, "a")), Level::Fail);
        assert_eq!(level(&[(201, "a"), (409, "")], (201, "b")), Level::Fail);
        assert_eq!(level(&[(409, ""), (409, "")], (409, "")), Level::Fail);
    }
}
