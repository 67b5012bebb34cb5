//! One store under torture, from its first worker to its last.
//!
//! One cycle: a worker runs a few calls and is killed; another one is started, or was there already; the claims must stand
//! where the point says; everything that was answered must be in the ledger; the same calls are made again, and whatever is
//! in doubt is resolved as an operator would, by looking at the effects. In the end everybody has one answer, and every key
//! that must not run again has one effect.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use hapax_core::Rerun;
use hapax_testkit::upstream::{CountingFile, Effect};

use super::points::{Point, Stand, TIMER};
use super::{Agenda, Plan, Work};
use crate::check::{Allowed, History};
use crate::child::{PATIENCE, Worker};
use crate::dice::Dice;
use crate::guard;
use crate::place::{Kind, Place};
use crate::report::Row;
use crate::words::{Ask, Run, Said, Seen};
use crate::worker::{Deed, Fault, Flaw, Setup};

/// What callers may be told when workers are killed.
const ALLOWED: Allowed = Allowed(&["outcome-unknown", "attempt-failed", "in-progress"]);

/// One store that is tortured, from its first worker to its last.
pub(super) struct Track<'a> {
    program: &'a Path,
    plan: &'a Plan,
    number: usize,
    store: String,
    spool: PathBuf,
    counted: CountingFile,
    dice: Dice,
    pub(super) history: History,
    minted: usize,
}

/// What a worker that was killed leaves to be looked at.
struct Kill {
    runs: Vec<Run>,
    /// The key at whose call it was killed, where that is known.
    victim: Option<String>,
    struck: bool,
}

impl<'a> Track<'a> {
    pub(super) fn new(program: &'a Path, plan: &'a Plan, place: &Place, number: usize) -> Track<'a> {
        let name = number.to_string();
        Track {
            program,
            plan,
            number,
            store: place.store(&name),
            spool: place.folder().join(format!("spool-{name}")),
            counted: place.effects(&name),
            dice: Dice::nth(plan.seed, number),
            history: History::default(),
            minted: 0,
        }
    }

    pub(super) fn run(&mut self, agenda: &Mutex<Agenda>) -> Result<()> {
        let lock = || agenda.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let Some((at, point)) = lock().next() else { break };
            let mut beside = self.start_beside(&point)?;
            let kill = match point.name {
                name if name == TIMER.name => self.kill_at_any_time()?,
                _ => self.kill_at(&point, beside.as_mut())?,
            };
            let mut next = match beside {
                Some(worker) => worker,
                None => self.start(None, self.plan.flaw_after)?,
            };
            let stands = self.look_at(&kill.runs, &mut next)?;
            self.enter(&mut lock().rows[at], &point, &kill, &stands);
            self.complete(&mut next, &kill.runs)?;
            self.repeat_old_calls(&mut next, 3)?;
            next.finish()?;
        }
        let mut last = self.start(None, None)?;
        self.repeat_old_calls(&mut last, usize::MAX)?;
        last.finish()
    }

    /// The effects that this track's keys had.
    pub(super) fn effects(&self) -> Result<Vec<Effect>> {
        match self.plan.work {
            Work::Counted => Ok(self.counted.effects()?),
            Work::Guarded => {
                let own = format!("t{}k", self.number);
                let rows = guard::rows(&self.store)?;
                Ok(rows.into_iter().filter(|effect| effect.key.starts_with(&own)).collect())
            }
        }
    }

    fn setup(&self, fault: Option<Fault>, flaw: Option<Flaw>) -> Setup {
        Setup {
            store: self.store.clone(),
            effects: self.counted.path().to_owned(),
            guard: self.plan.work == Work::Guarded,
            term_ms: self.plan.term_ms,
            wait_ms: 20_000,
            patience_ms: 5_000,
            spool: Some(self.spool.clone()),
            fault,
            flaw,
            ..Setup::default()
        }
    }

    fn start(&self, fault: Option<Fault>, flaw: Option<Flaw>) -> Result<Worker> {
        Worker::start(self.program, &self.setup(fault, flaw))
    }

    /// Where several processes may share a store: sometimes one that calls the same and sees the other one die.
    fn start_beside(&mut self, point: &Point) -> Result<Option<Worker>> {
        if self.plan.kind == Kind::Embedded || !point.knows_key || self.dice.once_in(2) {
            return Ok(None);
        }
        self.start(None, self.plan.flaw_after).map(Some)
    }

    /// Two callers each of six new keys.
    fn fresh_calls(&mut self) -> Vec<Run> {
        let mut runs = Vec::new();
        for _ in 0..6 {
            self.minted += 1;
            let key = format!("t{}k{}", self.number, self.minted);
            // Guarded work is not in the file that a worker could ask.
            let asks = if self.plan.work == Work::Guarded { Rerun::Unsafe } else { Rerun::Ask };
            let rerun = self.dice.of(&[Rerun::Unsafe, Rerun::Unsafe, Rerun::Safe, asks]);
            let size = self.dice.of(&[30, 100, 100, 500, 4_000, 70_000]);
            for caller in ["first", "second"] {
                runs.push(Run { caller: caller.into(), key: key.clone(), rerun, size, linger_ms: 0 });
            }
        }
        runs
    }

    fn call(&mut self, worker: &mut Worker, runs: &[Run]) {
        for run in runs {
            self.history.asked(run);
            worker.ask(&Ask::Run(run.clone()));
        }
    }

    fn kill_at(&mut self, point: &Point, beside: Option<&mut Worker>) -> Result<Kill> {
        // Six keys pass a point of `once` six times at least, unless somebody else has them; a store commits several calls
        // at once.
        let often = if point.knows_key && beside.is_none() { 6 } else { 3 };
        let nth = self.dice.below(often) + 1;
        let fault = Fault { deed: Deed::Die, point: point.name.to_owned(), nth };
        let mut worker = self.start(Some(fault), self.plan.flaw)?;
        let runs = self.fresh_calls();
        self.call(&mut worker, &runs);
        let Some(beside) = beside else { return self.listen(worker, runs) };
        let mut same: Vec<Run> = runs.iter().filter(|run| run.caller == "first").cloned().collect();
        same.iter_mut().for_each(|run| run.caller = "beside".to_owned());
        self.call(beside, &same);
        let kill = self.listen(worker, runs)?;
        self.hear_answers(beside, &mut same)?;
        Ok(kill)
    }

    /// Before it is ready, while it works, or when it is done.
    fn kill_at_any_time(&mut self) -> Result<Kill> {
        let mut command = Command::new(self.program);
        let mut worker = Worker::spawn(command.args(self.setup(None, self.plan.flaw).arguments()))?;
        let runs = self.fresh_calls();
        self.call(&mut worker, &runs);
        if !self.dice.once_in(4) {
            worker.wait_ready()?;
        }
        // Each magnitude is as likely as the other.
        let magnitude = match self.plan.kind {
            Kind::Embedded => 100 << self.dice.below(10),
            Kind::Postgres => 1_000 << self.dice.below(8),
        };
        let pause = Duration::from_micros(magnitude + self.dice.throw() % magnitude);
        std::thread::sleep(pause);
        worker.kill()?;
        let mut kill = self.listen(worker, runs)?;
        kill.struck = true;
        Ok(kill)
    }

    /// Hears a worker to its end. One that has answered everybody and lives is killed all the same.
    fn listen(&mut self, mut worker: Worker, runs: Vec<Run>) -> Result<Kill> {
        let mut kill = Kill { runs, victim: None, struck: false };
        let mut answered = 0;
        while let Some(said) = worker.next(PATIENCE)? {
            match &said {
                Said::Struck { key, .. } => {
                    kill.struck = true;
                    kill.victim = Some(key.clone()).filter(|key| key != "-");
                }
                Said::Done { .. } | Said::Failed { .. } => answered += 1,
                _ => {}
            }
            self.history.heard(&said, ALLOWED);
            if answered == kill.runs.len() && !kill.struck {
                worker.kill()?;
            }
        }
        ensure!(worker.was_killed()?, "a worker that was to be killed ended by itself");
        Ok(kill)
    }

    /// How the claims stand after the kill, through the store; and whether everything that was answered is there.
    fn look_at(&mut self, runs: &[Run], worker: &mut Worker) -> Result<BTreeMap<String, Stand>> {
        let mut stands = BTreeMap::new();
        for run in runs {
            if !stands.contains_key(&run.key) {
                let stand = self.look_at_one(&run.key, worker)?;
                stands.insert(run.key.clone(), stand);
            }
        }
        Ok(stands)
    }

    fn look_at_one(&mut self, key: &str, worker: &mut Worker) -> Result<Stand> {
        let answered = self.history.answer(key).is_some();
        // A database may be committing what the process sent with its last breath: then it is looked at again.
        for last in [false, true] {
            let (state, kept) = worker.look(key)?;
            let effects = self.effects()?.iter().filter(|effect| effect.key == key).count();
            let split = self.plan.work == Work::Guarded && (state == "settled") != (effects > 0);
            if (split || state == "settled" && effects == 0) && !last {
                std::thread::sleep(Duration::from_millis(200));
                continue;
            }
            self.history.check_kept(key, &state, kept.as_ref());
            if split {
                self.history
                    .violation(format!("{key}: {state} with {effects} rows: neither both nor neither"));
            } else if state == "absent" && effects > 0 {
                self.history.violation(format!("{key}: an effect without a claim"));
            } else if state == "settled" && effects == 0 {
                self.history.violation(format!("{key}: settled without an effect"));
            }
            return Ok(Stand { state, effects, answered });
        }
        unreachable!("the second look is the last")
    }

    /// Enters a kill in its point's row, and complains if the claim stands where it cannot.
    fn enter(&mut self, row: &mut Row, point: &Point, kill: &Kill, stands: &BTreeMap<String, Stand>) {
        if !kill.struck {
            // Somebody else had the calls, or nobody passes here any more: tried again, but not for ever.
            row.missed += 1;
            if row.missed < self.plan.kills {
                row.tries -= 1;
            }
            return;
        }
        row.kills += 1;
        if point.name == TIMER.name {
            row.hits += 1;
            stands.values().for_each(|stand| row.found(&stand.state, stand.effects));
            return;
        }
        let fitting = |(_, stand): &(&String, &Stand)| (point.belongs)(stand);
        let fits = match &kill.victim {
            Some(victim) => stands.get_key_value(victim).filter(fitting),
            None => stands.iter().find(fitting),
        };
        if let Some((_, stand)) = fits {
            row.hits += 1;
            row.found(&stand.state, stand.effects);
            return;
        }
        // The second caller of a key may be asking while the first one is far ahead; and what is safe to run again may
        // have been taken over.
        let Some((victim, stand)) = kill.victim.as_ref().and_then(|victim| stands.get_key_value(victim))
        else {
            return;
        };
        if point.name != "once.asking" && self.history.rerun(victim) == Some(Rerun::Unsafe) {
            self.history
                .violation(format!("{victim}: killed at {}, and then found as {stand:?}", point.name));
        }
    }

    /// Makes the calls again until everybody is answered, and resolves what is in doubt.
    fn complete(&mut self, worker: &mut Worker, runs: &[Run]) -> Result<()> {
        let began = Instant::now();
        let mut open = runs.to_vec();
        while !open.is_empty() {
            ensure!(began.elapsed() < PATIENCE, "these calls are not answered in {PATIENCE:?}: {open:?}");
            let doubtful = self.make_calls(worker, &mut open)?;
            for key in doubtful {
                self.resolve(worker, &key)?;
            }
        }
        Ok(())
    }

    /// Makes the calls; those that are answered are taken out. Returns the keys in doubt.
    fn make_calls(&mut self, worker: &mut Worker, open: &mut Vec<Run>) -> Result<Vec<String>> {
        self.call(worker, open);
        self.hear_answers(worker, open)
    }

    /// Hears the answers to calls that were made.
    fn hear_answers(&mut self, worker: &mut Worker, open: &mut Vec<Run>) -> Result<Vec<String>> {
        let mut doubtful: Vec<String> = Vec::new();
        for _ in 0..open.len() {
            let said = worker.next(PATIENCE)?.context("a worker that nobody killed has ended")?;
            self.history.heard(&said, ALLOWED);
            match said {
                Said::Done { caller, key, .. } => {
                    open.retain(|run| (&run.caller, &run.key) != (&caller, &key))
                }
                Said::Failed { key, code, .. } if code == "outcome-unknown" && !doubtful.contains(&key) => {
                    doubtful.push(key);
                }
                _ => {}
            }
        }
        Ok(doubtful)
    }

    /// Decides as an operator would: what has happened is settled, what has not is released.
    fn resolve(&mut self, worker: &mut Worker, key: &str) -> Result<()> {
        if worker.look(key)?.0 != "in_doubt" {
            return Ok(());
        }
        let size = self.history.run(key).map_or(0, |run| run.size);
        let effects = self.effects()?;
        let decision = match effects.iter().find(|effect| effect.key == key) {
            Some(effect) => Ask::Settle { key: key.to_owned(), token: effect.attempt.clone(), size },
            None => Ask::Release(key.to_owned()),
        };
        // Refused while the former run may still be going on: then the next round sees more.
        worker.operate(&decision).map(|_| ())
    }

    /// Some of the calls that were ever answered: their outcomes must come back, and nothing runs.
    fn repeat_old_calls(&mut self, worker: &mut Worker, most: usize) -> Result<()> {
        let answered = self.history.answered();
        let mut keys: Vec<&String> = answered.iter().collect();
        while keys.len() > most {
            keys.swap_remove(self.dice.below(keys.len()));
        }
        let mut runs: Vec<Run> = keys.iter().filter_map(|key| self.history.run(key).cloned()).collect();
        runs.iter_mut().for_each(|run| run.caller = "later".to_owned());
        let before: BTreeMap<String, Option<Seen>> =
            runs.iter().map(|run| (run.key.clone(), self.history.answer(&run.key).cloned())).collect();
        self.make_calls(worker, &mut runs)?;
        for run in runs {
            self.history.violation(format!(
                "{}: answered before with {:?}, and not again",
                run.key, before[&run.key]
            ));
        }
        Ok(())
    }
}
