//! A worker's calls: how they are made, what their work does, and what is said of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use hapax_core::{Decision, Inspect, Ledger, Operated, Outcome, Rerun, Retention, State, Verb};
use hapax_exec::{Attach, Attempt, Call, Done, Ended, Error, Executor, How, Reconciled};
use hapax_testkit::upstream::CountingFile;

use super::fault::KEY;
use super::{Flaw, OPERATION, Setup, claim_id, say};
use crate::guard::Books;
use crate::words::{Ask, Run, Said, Seen, outcome};

/// Who decides when the parent plays the operator.
const OPERATOR: &str = "torture";

/// Everything that a call needs.
pub(super) struct Desk<S> {
    pub(super) executor: Executor<S>,
    pub(super) store: S,
    pub(super) effects: CountingFile,
    pub(super) books: Option<Books>,
    pub(super) setup: Setup,
}

impl<S: Ledger + Inspect> Desk<S> {
    pub(super) async fn answer(self: Arc<Self>, ask: Ask) {
        let said = match ask {
            Ask::Run(run) => {
                let key = run.key.clone();
                Ok(KEY.scope(key, self.run(run)).await)
            }
            Ask::Look(key) => self.look(key).await.map(Some),
            Ask::Settle { key, token, size } => {
                let outcome = Outcome::Succeeded(outcome(&token, size));
                self.decide(key, Verb::Settle(outcome, Retention::Forever)).await.map(Some)
            }
            Ask::Release(key) => self.decide(key, Verb::Release { force: false }).await.map(Some),
        };
        match said {
            Ok(Some(said)) => say(&said),
            Ok(None) => {}
            Err(error) => say(&Said::Broken(format!("{error:#}"))),
        }
    }

    /// Makes a call; the answer is said when `once` has returned.
    async fn run(&self, run: Run) -> Option<Said> {
        let flaw = self.setup.flaw;
        if flaw == Some(Flaw::NoClaim) {
            return Some(done(&run, "executed", &self.have_effect(&run, None)));
        }
        let mut own = None;
        let mut answer = self.once(&run, &mut own).await;
        if flaw == Some(Flaw::RerunBlindly) && code(&answer) == Some("outcome-unknown") {
            let _ = self.decide(run.key.clone(), Verb::Release { force: true }).await;
            answer = self.once(&run, &mut own).await;
        }
        match (flaw, own) {
            (Some(Flaw::AnswerBeforeStore), Some(_)) => None,
            (Some(Flaw::AnswerOwnResult), Some(token)) => Some(done(&run, "executed", &token)),
            _ => Some(said(&run, answer)),
        }
    }

    async fn once(&self, run: &Run, own: &mut Option<String>) -> Result<Done, Error> {
        let call = Call::local(OPERATION, &run.key).map_err(Error::from)?;
        let call = call.body(b"10 EUR").rerun(run.rerun).retention(Retention::Forever);
        let mut call = call.attach(Attach::Wait(Duration::from_millis(self.setup.wait_ms)));
        if run.rerun == Rerun::Ask {
            let (effects, key, size) = (self.effects.clone(), run.key.clone(), run.size);
            call = call.reconcile(move |_| std::future::ready(reconcile(&effects, &key, size)));
        }
        self.executor.once(call, |attempt| self.work(run, attempt, own)).await
    }

    async fn work(&self, run: &Run, attempt: Attempt, own: &mut Option<String>) -> Ended {
        if let Some(books) = &self.books {
            return books.enter(run, attempt, &token(Some(attempt))).await;
        }
        fail::fail_point!("work.began");
        let token = self.have_effect(run, Some(attempt));
        *own = Some(token.clone());
        fail::fail_point!("work.done");
        if self.setup.flaw == Some(Flaw::AnswerBeforeStore) {
            say(&done(run, "executed", &token));
        }
        if run.linger_ms > 0 {
            tokio::time::sleep(Duration::from_millis(run.linger_ms)).await;
        }
        if self.setup.flaw == Some(Flaw::ReleaseOnError) {
            return Ended::NotRun("an error after the effect, taken for one before it".to_owned());
        }
        Ended::succeeded(outcome(&token, run.size))
    }

    fn have_effect(&self, run: &Run, attempt: Option<Attempt>) -> String {
        let token = token(attempt);
        let counted = self.effects.record(&run.key, &token);
        assert!(counted.is_ok(), "effects must be counted: {counted:?}");
        token
    }

    async fn look(&self, key: String) -> Result<Said> {
        let record = self.store.record(claim_id(&key)?).await?;
        let Some(record) = record else {
            return Ok(Said::State { key, state: "absent".to_owned(), seen: None });
        };
        let state = record.claim.state.name().as_str().to_owned();
        let seen = match &record.claim.state {
            State::Settled { outcome, .. } => Some(see(outcome)),
            _ => None,
        };
        Ok(Said::State { key, state, seen })
    }

    async fn decide(&self, key: String, verb: Verb) -> Result<Said> {
        let id = claim_id(&key)?;
        let Some(record) = self.store.record(id).await? else {
            return Ok(Said::Operated { key, word: "absent".to_owned() });
        };
        let reason = "the effects were counted".to_owned();
        let decision = Decision { seen: record.claim.epoch, verb, actor: OPERATOR.to_owned(), reason };
        let word = match self.store.decide(id, decision).await? {
            Operated::Done(_) => "done",
            Operated::Changed { .. } => "changed",
            Operated::NotApplicable(_) => "not-applicable",
            Operated::MayStillRun { .. } => "may-still-run",
            Operated::Absent => "absent",
        };
        Ok(Said::Operated { key, word: word.to_owned() })
    }
}

/// Whoever counts the effects can say whether an earlier attempt had one (L6).
fn reconcile(effects: &CountingFile, key: &str, size: usize) -> Reconciled {
    match effects.effects() {
        Ok(effects) => match effects.iter().find(|effect| effect.key == key) {
            Some(effect) => Reconciled::Happened(Outcome::Succeeded(outcome(&effect.attempt, size))),
            None => Reconciled::Never,
        },
        Err(_) => Reconciled::Unknown,
    }
}

/// Names one effect, whoever has it.
fn token(attempt: Option<Attempt>) -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let epoch = attempt.and_then(|attempt| attempt.epoch).map_or(0, |epoch| epoch.packed());
    format!("{epoch}.{}.{}", std::process::id(), NUMBER.fetch_add(1, Ordering::SeqCst))
}

fn see(outcome: &Outcome) -> Seen {
    match outcome {
        Outcome::Succeeded(bytes) | Outcome::Refused(bytes) => Seen::of(bytes),
        Outcome::NotKept { .. } => Seen::of(b"not-kept"),
        Outcome::Erased => Seen::of(b"erased"),
    }
}

fn code(answer: &Result<Done, Error>) -> Option<&'static str> {
    answer.as_ref().err().map(Error::code)
}

fn said(run: &Run, answer: Result<Done, Error>) -> Said {
    let (caller, key) = (run.caller.clone(), run.key.clone());
    match answer {
        Ok(answer) => {
            let how = match answer.how {
                How::Executed => "executed",
                How::Replayed => "replayed",
                How::Attached => "attached",
                How::PassedThrough => "passed-through",
            };
            Said::Done { caller, key, how: how.to_owned(), seen: see(&answer.value) }
        }
        Err(error) => {
            let cause = error.cause().unwrap_or_default().to_owned();
            Said::Failed { caller, key, code: error.code().to_owned(), cause }
        }
    }
}

/// The answer with the outcome of an effect of its own.
fn done(run: &Run, how: &str, token: &str) -> Said {
    let (caller, key) = (run.caller.clone(), run.key.clone());
    Said::Done { caller, key, how: how.to_owned(), seen: Seen::of_effect(token, run.size) }
}
