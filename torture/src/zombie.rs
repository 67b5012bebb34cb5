//! Zombies: a process is stopped for longer than its lease, others go on, and then it comes back.
//!
//! What it reports counts only under the current epoch (L5). Before it begins, it makes sure of its lease (L4); in the
//! `drowsy` variants the thread that was stopped sleeps on a little, so that the heartbeat has renewed the session by the
//! time it looks: a lease that lapsed meanwhile must not count as never interrupted.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use hapax_core::Rerun;
use hapax_testkit::upstream::CountingFile;
use rustix::process::Signal;

use crate::check::{Allowed, History};
use crate::child::{PATIENCE, Worker};
use crate::guard;
use crate::place::{self, Place};
use crate::report::Report;
use crate::words::{Ask, Run, Said, Seen};
use crate::worker::{Deed, Fault, Flaw, Setup};

/// Short enough for a test, long enough for a heartbeat on a busy machine that stalls.
const TERM: Duration = Duration::from_millis(1_500);
/// How long a drowsy thread sleeps on: the heartbeat comes first.
const DROWSY: Duration = Duration::from_millis(1_200);

const ALLOWED: Allowed = Allowed(&["outcome-unknown", "attempt-failed", "in-progress"]);

/// A story about a process that was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Story {
    /// Stopped after its effect; nobody could take over; its late settle is accepted.
    LateSettle,
    /// Stopped after it was told to begin and before its effect; nobody could take over; it goes on.
    LateEffect,
    /// Stopped after its effect; somebody took over and settled; its caller gets the winner's outcome.
    TakenOver,
    /// Stopped before it began; somebody took over and settled; it must not begin.
    TakenOverBeforeItBegan,
    /// Stopped before it began; an operator released the claim and somebody else ran it; it must not begin.
    ReleasedBeforeItBegan,
    /// Stopped before it began; somebody saw the doubt; it comes back, and the work is done once.
    DoubtedBeforeItBegan,
}

impl Story {
    /// All of them.
    pub const ALL: [Story; 6] = [
        Story::LateSettle,
        Story::LateEffect,
        Story::TakenOver,
        Story::TakenOverBeforeItBegan,
        Story::ReleasedBeforeItBegan,
        Story::DoubtedBeforeItBegan,
    ];

    fn point(self) -> &'static str {
        match self {
            Story::LateSettle | Story::TakenOver => "work.done",
            Story::LateEffect => "work.began",
            _ => "once.granted",
        }
    }

    fn rerun(self) -> Rerun {
        match self {
            Story::TakenOver | Story::TakenOverBeforeItBegan => Rerun::Safe,
            _ => Rerun::Unsafe,
        }
    }
}

/// Plays one story on the test command's server.
pub fn play(program: &Path, story: Story, drowsy: bool, flaw: Option<Flaw>) -> Result<Report> {
    let place = Place::postgres()?;
    let began = Instant::now();
    let mut stage = Stage::open(program, &place, story, drowsy, flaw)?;
    stage.play(story).with_context(|| format!("{story:?}, drowsy: {drowsy}"))?;
    let mut report =
        Report::new(format!("zombie: {story:?}, drowsy: {drowsy}"), "cargo xtask torture zombie");
    report.add(&stage.history, &stage.effects.effects()?);
    report.took = began.elapsed();
    Ok(report)
}

/// The stopped worker, the other one, and what they said.
struct Stage {
    zombie: Worker,
    other: Worker,
    effects: CountingFile,
    history: History,
    run: Run,
}

impl Stage {
    fn open(program: &Path, place: &Place, story: Story, drowsy: bool, flaw: Option<Flaw>) -> Result<Stage> {
        let effects = place.effects("");
        let calm = setup(place)?;
        let fault = Fault { deed: Deed::Stop, point: story.point().to_owned(), nth: 1 };
        let drowsy_ms = if drowsy { u64::try_from(DROWSY.as_millis())? } else { 0 };
        let setup = Setup { fault: Some(fault), drowsy_ms, flaw, ..calm.clone() };
        let run =
            Run { caller: "zombie".into(), key: "z".into(), rerun: story.rerun(), size: 500, linger_ms: 0 };
        let mut stage = Stage {
            zombie: Worker::start(program, &setup)?,
            other: Worker::start(program, &calm)?,
            effects,
            history: History::default(),
            run,
        };
        stage.history.asked(&stage.run);
        stage.zombie.ask(&Ask::Run(stage.run.clone()));
        ensure!(stage.zombie.wait_struck()? == stage.run.key, "it was to be stopped at its only call");
        Ok(stage)
    }

    fn play(&mut self, story: Story) -> Result<()> {
        match story {
            Story::LateSettle | Story::LateEffect => {
                self.other_is_told("outcome-unknown")?;
                let own = self.zombie_is_answered()?;
                ensure!(own.0 == "executed", "the zombie ran it, and was told {own:?}");
                ensure!(self.other_is_answered()?.1 == own.1, "the other one gets the zombie's outcome");
            }
            Story::TakenOver | Story::TakenOverBeforeItBegan => {
                self.other_takes_over()?;
                self.zombie_gets_the_winners()?;
            }
            Story::ReleasedBeforeItBegan => {
                self.other_is_told("outcome-unknown")?;
                let word = self.other.operate(&Ask::Release(self.run.key.clone()))?;
                ensure!(word == "done", "the operator's release was answered with {word:?}");
                self.other_takes_over()?;
                self.zombie_gets_the_winners()?;
            }
            Story::DoubtedBeforeItBegan => {
                self.other_is_told("outcome-unknown")?;
                self.wake()?;
                self.hear_zombie()?;
                self.other_takes_over()?;
            }
        }
        let expected = if story == Story::TakenOver { 2 } else { 1 };
        let effects = self.effects.count(&self.run.key)?;
        if effects != expected {
            self.history.violation(format!("{story:?}: {effects} effects instead of {expected}"));
        }
        Ok(())
    }

    fn wake(&mut self) -> Result<()> {
        self.zombie.signal(Signal::CONT)
    }

    fn hear_zombie(&mut self) -> Result<Said> {
        let said = self.zombie.next(PATIENCE)?.context("the zombie ended")?;
        self.history.heard(&said, ALLOWED);
        Ok(said)
    }

    fn zombie_is_answered(&mut self) -> Result<(String, Seen)> {
        self.wake()?;
        match self.hear_zombie()? {
            Said::Done { how, seen, .. } => Ok((how, seen)),
            other => bail!("the zombie's caller is to be answered with an outcome, and was told: {other}"),
        }
    }

    fn zombie_gets_the_winners(&mut self) -> Result<()> {
        // That it is the winner's outcome is for the judge to see: everybody's must be the same.
        self.zombie_is_answered().map(|_| ())
    }

    fn other_calls(&mut self) -> Result<Said> {
        let run = Run { caller: "other".into(), ..self.run.clone() };
        self.other.ask(&Ask::Run(run));
        let said = self.other.next(PATIENCE)?.context("the other worker ended")?;
        self.history.heard(&said, ALLOWED);
        Ok(said)
    }

    fn other_is_told(&mut self, expected: &str) -> Result<()> {
        match self.other_calls()? {
            Said::Failed { code, .. } if code == expected => Ok(()),
            other => bail!("the other caller is to be told `{expected}`, and was told: {other}"),
        }
    }

    fn other_is_answered(&mut self) -> Result<(String, Seen)> {
        match self.other_calls()? {
            Said::Done { how, seen, .. } => Ok((how, seen)),
            other => bail!("the other caller is to be answered with an outcome, and was told: {other}"),
        }
    }

    /// Calls until it is answered: the zombie's lease must lapse first.
    fn other_takes_over(&mut self) -> Result<()> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Said::Done { .. } = self.other_calls()? {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("nobody can take over")
    }
}

/// A process is stopped inside of its own transaction, with the claim locked by the guard (L16): callers of that key are
/// answered in time all the same, callers of others do not notice, and in the end there is one row.
pub fn in_transaction(program: &Path) -> Result<Report> {
    let (place, began, mut history) = (Place::postgres()?, Instant::now(), History::default());
    let store = place.store("");
    place::execute(&store, guard::TABLE)?;
    let calm = Setup { guard: true, wait_ms: 1_000, ..setup(&place)? };
    let fault = Fault { deed: Deed::Stop, point: "guard.guarded".to_owned(), nth: 1 };
    let mut zombie = Worker::start(program, &Setup { fault: Some(fault), ..calm.clone() })?;
    let mut other = Worker::start(program, &calm)?;
    let run = Run { caller: "zombie".into(), key: "z".into(), rerun: Rerun::Unsafe, size: 500, linger_ms: 0 };
    history.asked(&run);
    zombie.ask(&Ask::Run(run.clone()));
    zombie.wait_struck()?;
    let mut call = |key: &str, history: &mut History| {
        let run = Run { caller: "other".into(), key: key.to_owned(), ..run.clone() };
        history.asked(&run);
        other.ask(&Ask::Run(run));
        let said = other.next(PATIENCE)?.context("the other worker ended")?;
        history.heard(&said, ALLOWED);
        Ok::<Said, anyhow::Error>(said)
    };
    let told = call("z", &mut history)?;
    ensure!(matches!(told, Said::Failed { .. }), "nobody can have its outcome yet: {told}");
    let free = call("free", &mut history)?;
    ensure!(matches!(free, Said::Done { .. }), "another key is not in the way: {free}");
    zombie.signal(Signal::CONT)?;
    history.heard(&zombie.next(PATIENCE)?.context("the zombie ended")?, ALLOWED);
    let again = call("z", &mut history)?;
    ensure!(matches!(again, Said::Done { .. }), "the row was committed: {again}");
    let mut report = Report::new("zombie: stopped in its own transaction", "cargo xtask torture zombie");
    report.add(&history, &guard::rows(&store)?);
    report.took = began.elapsed();
    Ok(report)
}

/// A worker without faults.
fn setup(place: &Place) -> Result<Setup> {
    Ok(Setup {
        store: place.store(""),
        effects: place.effects("").path().to_owned(),
        term_ms: u64::try_from(TERM.as_millis())?,
        wait_ms: 20_000,
        patience_ms: 5_000,
        ..Setup::default()
    })
}

/// The embedded store has one process: it is stopped for longer than its term, and goes on.
pub fn embedded(program: &Path, point: &str, drowsy: bool) -> Result<Report> {
    let place = Place::embedded()?;
    let (began, effects, mut history) = (Instant::now(), place.effects(""), History::default());
    let calm = setup(&place)?;
    let fault = Fault { deed: Deed::Stop, point: point.to_owned(), nth: 1 };
    let drowsy_ms = if drowsy { u64::try_from(DROWSY.as_millis())? } else { 0 };
    let mut zombie = Worker::start(program, &Setup { fault: Some(fault), drowsy_ms, ..calm.clone() })?;
    let run = Run { caller: "zombie".into(), key: "z".into(), rerun: Rerun::Unsafe, size: 500, linger_ms: 0 };
    history.asked(&run);
    zombie.ask(&Ask::Run(run.clone()));
    zombie.wait_struck()?;
    if let Ok(second) = Worker::start(program, &calm) {
        drop(second);
        history.violation("a second process opened the store while a stopped one has it");
    }
    std::thread::sleep(TERM * 2);
    zombie.signal(Signal::CONT)?;
    call_until_answered(&mut zombie, &mut history, &run)?;
    zombie.finish()?;
    let mut after = Worker::start(program, &calm)?;
    after.ask(&Ask::Run(Run { caller: "after".into(), ..run }));
    history.heard(&after.next(PATIENCE)?.context("the next worker ended")?, ALLOWED);
    after.finish()?;
    let mut report =
        Report::new(format!("zombie: embedded, stopped at {point}"), "cargo xtask torture zombie");
    report.add(&history, &effects.effects()?);
    if effects.count("z")? != 1 {
        report.violations.push(format!("{} effects instead of 1", effects.count("z")?));
    }
    report.took = began.elapsed();
    Ok(report)
}

/// The first answer is to the call that is under way; a caller that got none calls again.
fn call_until_answered(worker: &mut Worker, history: &mut History, run: &Run) -> Result<()> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let said = worker.next(PATIENCE)?.context("the zombie ended")?;
        history.heard(&said, ALLOWED);
        if matches!(said, Said::Done { .. }) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
        worker.ask(&Ask::Run(Run { caller: "again".into(), ..run.clone() }));
    }
    bail!("the zombie's caller was never answered")
}
