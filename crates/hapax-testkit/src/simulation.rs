//! Long random runs of the protocol: one seed is one run, and the same seed is always the same run.
//!
//! The [`model`](crate::model) tries everything in a small world. Here the world is larger and its time is
//! real: latencies, heartbeats, terms, suspended processes, commands that arrive minutes late, operators who
//! decide on an old picture. Nothing waits: a virtual clock jumps from event to event. Every transition is
//! the product's own [`hapax_core::step`], every call is driven by the product's own [`hapax_core::turn`], and a history is
//! checked as it grows (`history`).
//!
//! `network` is what lies between a process and the ledger, `task` is one caller's way through it, `work` is what is done in
//! between, `faults` is what befalls processes, `rng` the dice.

mod faults;
mod history;
mod network;
mod rng;
mod task;
mod told;
mod work;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fmt;
use std::time::Duration;

use hapax_core::{Rerun, Retention, Terms, Timestamp};

use crate::clock::START;
use crate::model::Flaw;
use history::History;
pub use history::Violation;
use network::Ledger;
use rng::Rng;
use task::{Process, Task};
use work::Upstream;

/// The environment variable that names the one seed to run.
pub const SEED: &str = "HAPAX_SEED";
/// The environment variable that says how many seeds to run.
pub const SEEDS: &str = "HAPAX_SEEDS";

/// Events of one run at most; a run that needs more has lost its way.
const MAX_EVENTS: usize = 20_000;
/// Lines of the trace that a failure shows.
const TRACE_LINES: usize = 120;

/// What happened in a run, counted.
pub type Counts = BTreeMap<&'static str, u64>;

/// A run that broke a rule.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed that repeats it.
    pub seed: u64,
    /// What was broken.
    pub violation: Violation,
    /// The last events before it.
    pub trace: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.trace {
            writeln!(f, "  {line}")?;
        }
        writeln!(f, "seed {}: {}", self.seed, self.violation)?;
        write!(
            f,
            "repeat it: {SEED}={} cargo test -p hapax-testkit --test it simulation -- --nocapture",
            self.seed
        )
    }
}

/// Runs one seed, with a planted flaw or without.
pub fn run(seed: u64, flaw: Option<Flaw>) -> Result<Counts, Box<Failure>> {
    let mut simulation = Simulation::new(seed, flaw);
    simulation.begin();
    simulation.play();
    match simulation.history.violation.take() {
        None => Ok(simulation.history.counts),
        Some(violation) => {
            Err(Box::new(Failure { seed, violation, trace: simulation.trace.into_iter().collect() }))
        }
    }
}

/// What a seed decides before anything happens.
#[derive(Clone, Debug)]
struct Setting {
    rerun: Rerun,
    quiet: Duration,
    /// Zero for work in the process itself.
    give_up: Duration,
    max_run: Duration,
    retention: Retention,
    processes: usize,
    tasks: usize,
    keys: usize,
    /// In a thousand.
    loss: u64,
    late: u64,
    trouble: u64,
    operators: bool,
    /// Whether callers do not wait for another holder.
    rejects: bool,
    /// How often a waiter may claim for itself.
    retries: u8,
    flaw: Option<Flaw>,
}

impl Setting {
    fn throw(rng: &mut Rng, flaw: Option<Flaw>) -> Setting {
        let rerun = *rng.pick(&[Rerun::Unsafe, Rerun::Unsafe, Rerun::Safe, Rerun::Ask]);
        // Whoever is asked knows of one life only, so nothing may end it but an operator's release.
        let retention = if rerun == Rerun::Ask {
            Retention::Forever
        } else {
            *rng.pick(&[Retention::Forever, Retention::For(secs(40)), Retention::For(secs(600))])
        };
        Setting {
            rerun,
            quiet: *rng.pick(&[Duration::ZERO, secs(20), secs(90)]),
            give_up: *rng.pick(&[Duration::ZERO, secs(60), secs(300)]),
            max_run: *rng.pick(&[secs(45), secs(600), secs(3600)]),
            retention,
            processes: 1 + rng.below(4) as usize,
            tasks: 2 + rng.below(7) as usize,
            keys: 1 + rng.below(2) as usize,
            loss: *rng.pick(&[0, 50, 200]),
            late: *rng.pick(&[0, 30, 150]),
            trouble: *rng.pick(&[0, 300, 900]),
            operators: rng.one_in(2),
            rejects: rng.one_in(6),
            retries: rng.below(2) as u8,
            flaw,
        }
    }

    fn terms(&self) -> Terms {
        let rerun = if self.flaw == Some(Flaw::TakeoverWhenUnsafe) { Rerun::Safe } else { self.rerun };
        Terms { rerun, quiet: self.quiet, max_run: self.max_run, give_up: self.give_up, doubt: None }
    }
}

/// The next things to happen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A caller comes to a process.
    Start { task: usize },
    /// A command reaches the ledger.
    Arrive { message: usize },
    /// An answer reaches its task.
    Answer { task: usize, life: u32, message: usize },
    /// No answer came in time.
    TimedOut { task: usize, life: u32, message: usize },
    /// A task goes on.
    GoOn { task: usize, life: u32 },
    /// A call takes effect.
    Effect { key: usize, epoch: u64, until: Timestamp },
    /// The work tells how it ended.
    Ended { task: usize, life: u32, how: work::Ended },
    /// A process renews its session.
    Heartbeat { process: usize, life: u32 },
    /// A renewal reaches the ledger.
    Renew { process: usize, life: u32, session: u64, sent: Timestamp },
    /// The answer to a renewal.
    Renewed { process: usize, life: u32, sent: Timestamp },
    /// A process dies.
    Crash { process: usize },
    /// It is started again.
    Restart { process: usize },
    /// A process is not given any time.
    Suspend { process: usize, until: Timestamp },
    /// An operator looks at a key, and decides later.
    Look { key: usize },
    /// An operator decides on the epoch that was seen.
    Decide { key: usize, seen: u64 },
    /// The sweeper comes by.
    Sweep,
}

struct Simulation {
    setting: Setting,
    rng: Rng,
    now: Timestamp,
    queue: BinaryHeap<Reverse<(Timestamp, u64, Event)>>,
    numbered: u64,
    ledger: Ledger,
    messages: Vec<network::Message>,
    processes: Vec<Process>,
    tasks: Vec<Task>,
    upstream: Vec<Upstream>,
    history: History,
    trace: VecDeque<String>,
}

impl Simulation {
    fn new(seed: u64, flaw: Option<Flaw>) -> Self {
        let mut rng = Rng::new(seed);
        let setting = Setting::throw(&mut rng, flaw);
        let tasks = (0..setting.tasks).map(|_| {
            let process = rng.below(setting.processes as u64) as usize;
            Task::new(process, rng.below(setting.keys as u64) as usize)
        });
        let tasks = tasks.collect();
        Simulation {
            now: START,
            queue: BinaryHeap::new(),
            numbered: 0,
            ledger: Ledger::new(setting.keys),
            messages: Vec::new(),
            processes: Vec::new(),
            tasks,
            upstream: vec![Upstream::default(); setting.keys],
            history: History::new(setting.keys, setting.rerun),
            trace: VecDeque::new(),
            rng,
            setting,
        }
    }

    fn begin(&mut self) {
        self.tell(|simulation| format!("{:?}", simulation.setting));
        for _ in 0..self.setting.processes {
            let session = self.ledger.start_session(self.now);
            self.processes.push(Process::new(session, self.now));
        }
        for process in 0..self.setting.processes {
            self.after(millis(1), Event::Heartbeat { process, life: 0 });
        }
        for task in 0..self.setting.tasks {
            let at = self.rng.millis(0, 90_000);
            self.after(at, Event::Start { task });
        }
        self.plan_faults();
    }

    fn play(&mut self) {
        for _ in 0..MAX_EVENTS {
            let Some(Reverse((at, _, event))) = self.queue.pop() else { return };
            if self.history.violation.is_some() {
                return;
            }
            self.now = self.now.max(at);
            if let Some(resumed) = self.suspended_until(&event) {
                self.at(resumed, event);
                continue;
            }
            self.tell(|_| format!("{event:?}"));
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Start { task } => self.start(task),
            Event::Arrive { message } => self.arrive(message),
            Event::Answer { task, life, message } => self.hear(task, life, message),
            Event::TimedOut { task, life, message } => self.time_out(task, life, message),
            Event::GoOn { task, life } => self.go_on(task, life),
            Event::Effect { key, epoch, until } => self.effect(key, epoch, until),
            Event::Ended { task, life, how } => self.work_ended(task, life, how),
            Event::Heartbeat { process, life } => self.heartbeat(process, life),
            Event::Renew { process, life, session, sent } => self.renew_session(process, life, session, sent),
            Event::Renewed { process, life, sent } => self.session_renewed(process, life, sent),
            Event::Crash { process } => self.crash(process),
            Event::Restart { process } => self.restart(process),
            Event::Suspend { process, until } => self.suspend(process, until),
            Event::Look { key } => self.look(key),
            Event::Decide { key, seen } => self.decide(key, seen),
            Event::Sweep => self.sweep(),
        }
    }

    fn after(&mut self, wait: Duration, event: Event) {
        self.at(self.now.after(wait), event);
    }

    fn at(&mut self, at: Timestamp, event: Event) {
        self.numbered += 1;
        self.queue.push(Reverse((at, self.numbered, event)));
    }

    /// Keeps a line for the case that the run fails.
    fn tell(&mut self, line: impl FnOnce(&Simulation) -> String) {
        let line = format!("{:9.3} {}", self.now.since(START).as_secs_f64(), line(self));
        if self.trace.len() == TRACE_LINES {
            self.trace.pop_front();
        }
        self.trace.push_back(line);
    }
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
