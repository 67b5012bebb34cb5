//! What befalls the processes, and what operators do.

use hapax_core::{Command, Decision, Outcome, Rerun, Timestamp, Verb};

use super::network::epoch;
use super::{Event, Simulation};

impl Simulation {
    pub(super) fn plan_faults(&mut self) {
        for process in 0..self.setting.processes {
            if self.rng.permille(self.setting.trouble) {
                let at = self.rng.millis(0, 120_000);
                self.after(at, Event::Crash { process });
            }
            if self.rng.permille(self.setting.trouble) {
                let at = self.rng.millis(0, 120_000);
                let until = self.now.after(at + self.rng.millis(1_000, 200_000));
                self.after(at, Event::Suspend { process, until });
            }
        }
        let wait = self.rng.millis(0, 60_000);
        self.after(wait, Event::Sweep);
        if self.setting.operators {
            for _ in 0..1 + self.rng.below(6) {
                let key = self.rng.below(self.setting.keys as u64) as usize;
                let at = self.rng.millis(0, 600_000);
                self.after(at, Event::Look { key });
            }
        }
    }

    /// When a process that this event is for gets time again.
    pub(super) fn suspended_until(&self, event: &Event) -> Option<Timestamp> {
        let process = match event {
            Event::Start { task }
            | Event::Answer { task, .. }
            | Event::TimedOut { task, .. }
            | Event::GoOn { task, .. }
            | Event::Ended { task, .. } => self.tasks[*task].process,
            Event::Heartbeat { process, .. } | Event::Renewed { process, .. } => *process,
            _ => return None,
        };
        let until = self.processes[process].suspended_until;
        (self.now < until).then_some(until)
    }

    pub(super) fn suspend(&mut self, process: usize, until: Timestamp) {
        self.history.count("suspended");
        self.processes[process].suspended_until = until;
    }

    pub(super) fn crash(&mut self, process: usize) {
        if !self.processes[process].up {
            return;
        }
        self.history.count("crash");
        self.processes[process].up = false;
        self.processes[process].life += 1;
        for task in self.tasks.iter_mut().filter(|task| task.process == process) {
            task.crash();
        }
        let wait = self.rng.millis(100, 90_000);
        self.after(wait, Event::Restart { process });
    }

    pub(super) fn restart(&mut self, process: usize) {
        let session = self.ledger.start_session(self.now);
        self.processes[process].restarted(session, self.now);
        let life = self.processes[process].life;
        self.after(super::millis(1), Event::Heartbeat { process, life });
    }

    pub(super) fn look(&mut self, key: usize) {
        let Some(claim) = &self.ledger.claims[key] else { return };
        let seen = claim.epoch.counter();
        let wait = self.rng.millis(1, 60_000);
        self.after(wait, Event::Decide { key, seen });
    }

    pub(super) fn decide(&mut self, key: usize, seen: u64) {
        let stated = Outcome::Succeeded("stated".into());
        let mut verbs = vec![
            Verb::Release { force: false },
            Verb::Release { force: false },
            Verb::Release { force: true },
            Verb::Settle(stated.clone(), self.setting.retention),
        ];
        if self.setting.rerun != Rerun::Ask {
            verbs.extend([Verb::Reopen, Verb::Purge, Verb::Erase]);
        }
        let verb = self.rng.pick(&verbs).clone();
        self.history.brought(key, stated);
        let decision =
            Decision { seen: epoch(seen), verb, actor: "olga".to_owned(), reason: "by chance".to_owned() };
        self.apply(key, &Command::Operate(decision));
    }
}
