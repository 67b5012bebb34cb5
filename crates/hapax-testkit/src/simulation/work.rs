//! What is done between the grant and the report: the work itself, here or elsewhere, and the question whether it was done before.

use hapax_core::advice::Work;
use hapax_core::turn::{Due, Event as Heard};
use hapax_core::{Doubt, Effect, Epoch, Outcome, Report, Rerun, Timestamp};

use super::network::epoch;
use super::{Event, Simulation, millis};

/// What the work remembers of a key.
#[derive(Clone, Default)]
pub(super) struct Upstream {
    done: Option<Outcome>,
    refuses_below: Option<Epoch>,
}

/// How the work ended, as its caller sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ended {
    Succeeded,
    Refused,
    NotRun,
    Unknown,
}

impl Simulation {
    pub(super) fn begin_work(&mut self, task: usize) {
        let (key, epoch) = (self.tasks[task].key, self.epoch_of(task));
        let stands = self.ledger.stands(key, epoch, self.now);
        self.history.begun(key, epoch, stands);
        let how = *self.rng.pick(&[
            Ended::Succeeded,
            Ended::Succeeded,
            Ended::Refused,
            Ended::NotRun,
            Ended::Unknown,
        ]);
        match self.tasks[task].give_up_at() {
            Some(until) => self.call(task, how, until),
            None => self.run_here(task, how),
        }
    }

    /// Work in the process itself: its effect comes at once or never.
    fn run_here(&mut self, task: usize, how: Ended) {
        let (key, epoch) = (self.tasks[task].key, self.epoch_of(task));
        if how == Ended::Succeeded || (how == Ended::Unknown && self.rng.one_in(2)) {
            self.have_effect(key, epoch);
        }
        self.end_after(task, how, 1, 50_000);
    }

    /// Work elsewhere: the call may arrive at any time until the give-up, whatever its caller hears.
    fn call(&mut self, task: usize, how: Ended, until: Timestamp) {
        let (key, epoch) = (self.tasks[task].key, self.epoch_of(task));
        // What a flawed driver begins too late reaches the work all the same.
        let until = until.max(self.now.after(millis(2)));
        let left = u64::try_from(until.since(self.now).as_millis()).unwrap_or(u64::MAX).max(1);
        if matches!(how, Ended::Succeeded | Ended::Unknown) {
            let travel = self.rng.below(left.min(20_000));
            self.after(millis(travel), Event::Effect { key, epoch: epoch.counter(), until });
            let hears = if how == Ended::Succeeded { travel + 1 } else { self.rng.below(left) };
            return self.end_after(task, how, hears, hears + 1);
        }
        self.end_after(task, how, 1, left.max(2));
    }

    fn end_after(&mut self, task: usize, how: Ended, from: u64, to: u64) {
        let (wait, life) = (self.rng.millis(from, to), self.life_of(task));
        self.after(wait, Event::Ended { task, life, how });
    }

    pub(super) fn effect(&mut self, key: usize, counter: u64, until: Timestamp) {
        if self.now < until {
            self.have_effect(key, epoch(counter));
        }
    }

    fn have_effect(&mut self, key: usize, epoch: Epoch) {
        if self.upstream[key].refuses_below.is_some_and(|below| epoch < below) {
            return self.history.count("refused by the work");
        }
        let outcome = success(epoch);
        self.history.effect(key, epoch);
        self.history.brought(key, outcome.clone());
        self.upstream[key].done.get_or_insert(outcome);
    }

    pub(super) fn work_ended(&mut self, task: usize, life: u32, how: Ended) {
        if !self.is_running(task) || self.alive(self.tasks[task].process, life).is_none() {
            return;
        }
        let (key, epoch) = (self.tasks[task].key, self.epoch_of(task));
        // A call that the work refused because somebody asked did not run.
        let refused = self.upstream[key].refuses_below.is_some_and(|below| epoch < below);
        let retention = self.setting.retention;
        let settle = |outcome| Some(Report::Settle(outcome, retention));
        let (due, work, report) = match how {
            Ended::Succeeded if !refused => (Due::Settle, Work::Ended(Effect::Done), settle(success(epoch))),
            Ended::Refused if !refused => {
                let outcome = Outcome::Refused(epoch.to_string().into());
                let report = settle(outcome.clone());
                self.history.brought(key, outcome);
                (Due::Settle, Work::Ended(Effect::Nothing), report)
            }
            Ended::NotRun if !refused => (Due::NotRun, Work::NotRun, None),
            _ => (Due::MayHaveRun, Work::MayHaveRun, None),
        };
        self.ended(task, Heard::Ended(due, work), report);
    }

    /// Asks the work whether an earlier attempt ran; it says the truth (L6).
    pub(super) fn ask_work(&mut self, task: usize) {
        let (key, epoch) = (self.tasks[task].key, self.epoch_of(task));
        debug_assert_eq!(self.setting.rerun, Rerun::Ask, "nobody else must ask");
        match (self.upstream[key].done.clone(), self.rng.below(3)) {
            (_, 0) => {
                self.history.count("asked: unknown");
                self.ended(task, Heard::Unknown, Some(Report::Doubt(Doubt::Stated)));
            }
            (Some(done), _) => {
                self.history.count("asked: yes");
                let report = Report::Settle(done, self.setting.retention);
                self.ended(task, Heard::Happened(Effect::Done), Some(report));
            }
            (None, _) => {
                self.history.count("asked: no");
                let below = &mut self.upstream[key].refuses_below;
                *below = (*below).max(Some(epoch));
                self.on(task, Heard::Never);
            }
        }
    }
}

/// The outcome of the run under this epoch.
fn success(epoch: Epoch) -> Outcome {
    Outcome::Succeeded(epoch.to_string().into())
}
