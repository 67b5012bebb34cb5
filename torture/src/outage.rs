//! The database server is killed, with every process it has, while workers run, and comes back.
//!
//! Callers try again whatever they are told, as clients do. Some workers are killed as well while the server is away: what
//! they have in their spool is settled by those who come after them (L15), and nobody else may have to decide it. In the end no acknowledged outcome is lost and
//! nothing that must not ran twice.

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use hapax_core::Rerun;
use hapax_testkit::upstream::CountingFile;

use crate::check::{Allowed, History};
use crate::child::{PATIENCE, Worker};
use crate::dice::Dice;
use crate::place::Place;
use crate::report::{Report, Row};
use crate::server::Server;
use crate::words::{Ask, Run, Said};
use crate::worker::Setup;

/// What callers may be told while the server is away.
const ALLOWED: Allowed =
    Allowed(&["outcome-unknown", "attempt-failed", "in-progress", "ledger-unavailable", "outcome-pending"]);

const WORKERS: usize = 2;
/// Calls under way in each worker: many, so that some have been carried out and not answered when the server falls.
const AT_ONCE: usize = 24;
/// How long a session lives without being renewed.
const TERM_MS: u64 = 1_000;
/// How often those who were answered ask again before they count as not answered again.
const ROUNDS: usize = 10;

/// Kills the server this often.
pub fn run(program: &Path, falls: usize, seed: u64) -> Result<Report> {
    let mut server = Server::start()?;
    let place = Place::on(&server.url())?;
    let again = format!("cargo xtask torture outage --falls {falls} --seed {seed}");
    let began = Instant::now();
    let mut crew = Crew::new(program, &place, seed)?;
    let mut servers = Row::new("server");
    let mut workers = Row::new("worker while it was away");
    for _ in 0..falls {
        crew.run_for_a_while(300)?;
        server.fall()?;
        servers.kills += 1;
        // Now and then for longer than the term: sessions lapse, and live again.
        let most_ms = crew.dice.of(&[400, 400, 2 * TERM_MS]);
        crew.run_for_a_while(most_ms)?;
        let victim = crew.dice.once_in(2).then(|| crew.dice.below(WORKERS));
        if let Some(victim) = victim {
            crew.lose(victim)?;
            workers.kills += 1;
        }
        server.rise()?;
        if let Some(victim) = victim {
            crew.replace(victim)?;
        }
    }
    crew.run_for(Duration::from_millis(300))?;
    crew.complete().with_context(|| format!("repeat it with: {again}"))?;
    let mut report = Report::new("the database server is killed and comes back", again);
    report.add(&crew.history, &crew.effects.effects()?);
    report.rows = vec![servers, workers];
    report.took = began.elapsed();
    Ok(report)
}

/// The workers, and the calls that are to be made.
struct Crew<'a> {
    program: &'a Path,
    setups: Vec<Setup>,
    workers: Vec<Hand>,
    waiting: VecDeque<Run>,
    effects: CountingFile,
    history: History,
    dice: Dice,
    minted: usize,
}

/// A worker and the calls that it has not answered.
struct Hand {
    worker: Option<Worker>,
    calls: Vec<Run>,
}

impl<'a> Crew<'a> {
    fn new(program: &'a Path, place: &Place, seed: u64) -> Result<Crew<'a>> {
        let effects = place.effects("");
        let setup = |number: usize| Setup {
            store: place.store(""),
            effects: effects.path().to_owned(),
            term_ms: TERM_MS,
            wait_ms: 1_000,
            patience_ms: 500,
            spool: Some(place.folder().join(format!("spool-{number}"))),
            ..Setup::default()
        };
        let setups: Vec<Setup> = (0..WORKERS).map(setup).collect();
        let start = |setup| Ok(Hand { worker: Some(Worker::start(program, setup)?), calls: Vec::new() });
        let workers = setups.iter().map(start).collect::<Result<Vec<Hand>>>()?;
        let (history, dice) = (History::default(), Dice::new(seed));
        Ok(Crew { program, setups, workers, waiting: VecDeque::new(), effects, history, dice, minted: 0 })
    }

    fn run_for_a_while(&mut self, most_ms: u64) -> Result<()> {
        let time = Duration::from_millis(50 + self.dice.throw() % most_ms);
        self.run_for(time)
    }

    /// Keeps the workers busy for this long: new calls, and again those that were not answered.
    fn run_for(&mut self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            for number in 0..self.workers.len() {
                while self.workers[number].worker.is_some() && self.workers[number].calls.len() < AT_ONCE {
                    let run = self.next_call();
                    self.call(number, run);
                }
            }
            self.hear(Duration::from_millis(2))?;
        }
        Ok(())
    }

    fn next_call(&mut self) -> Run {
        let again = self.waiting.len() > AT_ONCE || self.dice.once_in(2);
        if let Some(run) = self.waiting.pop_front_if(|_| again) {
            return run;
        }
        self.minted += 1;
        let rerun = self.dice.of(&[Rerun::Unsafe, Rerun::Unsafe, Rerun::Safe]);
        let linger_ms = self.dice.of(&[0, 5, 30]);
        Run { caller: "caller".into(), key: format!("o{}", self.minted), rerun, size: 300, linger_ms }
    }

    fn call(&mut self, number: usize, run: Run) {
        self.history.asked(&run);
        let hand = &mut self.workers[number];
        if let Some(worker) = &mut hand.worker {
            worker.ask(&Ask::Run(run.clone()));
            hand.calls.push(run);
        }
    }

    /// Hears what there is to hear; whoever was not answered calls again later.
    fn hear(&mut self, within: Duration) -> Result<()> {
        for hand in &mut self.workers {
            let Some(worker) = &mut hand.worker else { continue };
            let mut within = within;
            while let Some(said) = worker.heard_within(within)? {
                within = Duration::ZERO;
                self.history.heard(&said, ALLOWED);
                let (Said::Done { key, .. } | Said::Failed { key, .. }) = &said else { continue };
                let Some(at) = hand.calls.iter().position(|run| run.key == *key) else { continue };
                let run = hand.calls.swap_remove(at);
                if matches!(said, Said::Failed { .. }) {
                    self.waiting.push_back(run);
                }
            }
        }
        Ok(())
    }

    /// Kills a worker. Its callers call again.
    fn lose(&mut self, number: usize) -> Result<()> {
        let Some(mut worker) = self.workers[number].worker.take() else { return Ok(()) };
        worker.kill()?;
        while let Some(said) = worker.next(PATIENCE)? {
            self.history.heard(&said, ALLOWED);
            if let Said::Done { key, .. } = said {
                self.workers[number].calls.retain(|run| run.key != key);
            }
        }
        ensure!(worker.was_killed()?, "a worker ended by itself while the server was away");
        let unanswered = std::mem::take(&mut self.workers[number].calls);
        self.waiting.extend(unanswered);
        Ok(())
    }

    /// Starts another one in its place, with its spool.
    fn replace(&mut self, number: usize) -> Result<()> {
        self.workers[number].worker = Some(Worker::start(self.program, &self.setups[number])?);
        Ok(())
    }

    /// The server stays: in the end every call is answered, and what nobody else can know an operator decides.
    fn complete(&mut self) -> Result<()> {
        let began = Instant::now();
        loop {
            self.hear_everybody()?;
            if self.waiting.is_empty() {
                break;
            }
            if began.elapsed() > PATIENCE {
                bail!("these are not answered: {}", self.unanswered()?.join("; "));
            }
            let waiting: Vec<Run> = self.waiting.drain(..).collect();
            for run in &waiting {
                self.resolve(run)?;
            }
            for run in waiting {
                let number = self.dice.below(WORKERS);
                self.call(number, run);
            }
        }
        self.call_everything_again()?;
        for hand in &mut self.workers {
            if let Some(worker) = hand.worker.take() {
                worker.finish()?;
            }
        }
        Ok(())
    }

    /// How each of those stands who wait, and what they were told last.
    fn unanswered(&mut self) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        for run in &self.waiting {
            let Some(worker) = &mut self.workers[0].worker else { continue };
            let state = worker.look(&run.key)?.0;
            let promised = if self.history.is_promised(&run.key) { ", and was promised" } else { "" };
            let told = self.history.last_failure(&run.key).unwrap_or("nothing");
            lines.push(format!(
                "{} ({:?}) is {state}{promised}; its caller was told {told}",
                run.key, run.rerun
            ));
        }
        Ok(lines)
    }

    /// Whatever was ever answered comes back as it was; the judge compares.
    fn call_everything_again(&mut self) -> Result<()> {
        let answered = self.history.answered();
        let runs = answered.iter().filter_map(|key| self.history.run(key).cloned());
        self.waiting = runs.map(|run| Run { caller: "later".into(), ..run }).collect();
        // So many at once may be more than a busy database answers within a worker's patience.
        for _ in 0..ROUNDS {
            self.call_those_who_wait()?;
        }
        for run in self.waiting.drain(..).collect::<Vec<_>>() {
            self.history.violation(format!("{}: it was answered before, and is not again", run.key));
        }
        Ok(())
    }

    /// Makes their calls, and hears what becomes of them.
    fn call_those_who_wait(&mut self) -> Result<()> {
        for run in std::mem::take(&mut self.waiting) {
            let number = self.dice.below(WORKERS);
            self.call(number, run);
        }
        self.hear_everybody()
    }

    /// Hears until every call under way has been answered, one way or the other.
    fn hear_everybody(&mut self) -> Result<()> {
        let began = Instant::now();
        while self.workers.iter().any(|hand| !hand.calls.is_empty()) {
            ensure!(began.elapsed() < PATIENCE, "a worker does not answer");
            self.hear(Duration::from_millis(5))?;
        }
        Ok(())
    }

    /// As an operator would; refused as long as a living holder may still report. What was promised must come by itself.
    fn resolve(&mut self, run: &Run) -> Result<()> {
        if self.history.is_promised(&run.key) {
            return Ok(());
        }
        let Some(worker) = &mut self.workers[0].worker else { return Ok(()) };
        if worker.look(&run.key)?.0 != "in_doubt" {
            return Ok(());
        }
        let effects = self.effects.effects()?;
        let decision = match effects.iter().find(|effect| effect.key == run.key) {
            Some(effect) => {
                Ask::Settle { key: run.key.clone(), token: effect.attempt.clone(), size: run.size }
            }
            None => Ask::Release(run.key.clone()),
        };
        worker.operate(&decision).map(|_| ())
    }
}
