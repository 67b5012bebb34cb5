//! Durable executions under torture: the example's process is killed at every named step, again and again, and stopped for longer than
//! its session while another one goes on (J4, J5).
//!
//! What runs is the source of the example itself. The judge looks at the effects, which are in a file that no store touches: a tool that
//! must not be called twice has one, and every execution comes to the same end, with a chain that holds.

#[path = "../../crates/hapax-agent/examples/agent.rs"]
#[allow(unreachable_pub, reason = "it is the example's source")]
mod agent;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use hapax::Store;
use hapax_agent::durable::{Choice, Decision, DurableLoop, ExecutionId, Executions, Resume, Stop, verify};
use hapax_core::Scope;
use hapax_exec::Executor;
use hapax_store::{Lifecycle as _, Options};
use hapax_testkit::upstream::CountingFile;
use rustix::process::Signal;
use serde_json::{Value, json};

use self::agent::{Clerk, decide, finish, tools};
use crate::child::{PATIENCE, Worker};
use crate::dice::Dice;
use crate::place::{self, Kind, Place};
use crate::report::{Report, Row};
use crate::words::Said;
use crate::worker::{Deed, Fault, fault, say};

/// Orders of one execution: half of them in order, half of them at the same time.
const ORDERS: u64 = 4;
/// Tools of one order. The first may be called again.
const TOOLS: [&str; 3] = ["stock.reserve", "card.charge", "mail.send"];
/// Short enough for a test, long enough for a heartbeat on a busy machine.
const TERM_MS: u64 = 1_500;

/// Named points of an execution's life, in their order.
const POINTS: [&str; 15] = [
    "agent.created",
    "agent.planned",
    "agent.intended",
    "once.asking",
    "once.granted",
    "once.dispatching",
    "once.worked",
    "agent.worked",
    "once.settling",
    "once.settled",
    "agent.resulted",
    "agent.completing",
    "agent.checkpointed",
    "agent.ending",
    "agent.recovering",
];
/// Passed once in each life after the first.
const RESUMED: &str = "agent.resumed";
/// Where a process is stopped for longer than its session.
pub const STOPS: [&str; 4] = ["agent.intended", "once.granted", "agent.worked", "agent.completing"];

fn points(kind: Option<Kind>) -> Vec<&'static str> {
    let own: &[&str] = match kind {
        None => &[],
        Some(Kind::Embedded) => &["embedded.before_commit", "embedded.after_commit"],
        Some(Kind::Postgres) => &["postgres.before_commit", "postgres.after_commit"],
    };
    POINTS.iter().chain([&RESUMED]).chain(own).copied().collect()
}

/// How the process that is killed is set up: its command line.
#[derive(Clone, Debug, clap::Args)]
pub struct Setup {
    /// `embedded:FOLDER` or `postgres://…`
    #[arg(long)]
    pub store: String,
    /// Where effects are counted
    #[arg(long)]
    pub effects: PathBuf,
    /// The execution's id
    #[arg(long)]
    pub execution: String,
    /// What it does to itself
    #[arg(long)]
    pub fault: Option<Fault>,
    /// Allows every step in doubt to run again without a look at the books: a mistake that the judge must find
    #[arg(long)]
    pub blind: bool,
}

impl Setup {
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.args(["agent", "--store", &self.store, "--execution", &self.execution]);
        command.arg("--effects").arg(&self.effects);
        if let Some(fault) = &self.fault {
            command.arg("--fault").arg(fault.to_string());
        }
        if self.blind {
            command.arg("--blind");
        }
        command
    }
}

/// The process that is killed: runs one execution to its end.
pub fn main(setup: &Setup) -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .context("cannot ask to end with the parent")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let lived = runtime.block_on(live(setup));
    if let Err(error) = &lived {
        say(&Said::Broken(format!("{error:#}").replace('\n', " ")));
    }
    lived
}

async fn live(setup: &Setup) -> Result<()> {
    if let Some(fault) = &setup.fault {
        fault::arm(fault.clone(), Duration::ZERO)?;
    }
    let store = open(&setup.store).await?;
    let effects = CountingFile::new(&setup.effects);
    let executions = executions(&store);
    let id = ExecutionId::new(&setup.execution)?;
    let clerk = DurableLoop::new(Clerk { orders: ORDERS }, tools(&effects));
    fault::begin();
    let stop = match setup.blind {
        false => finish(&executions, &id, &clerk, &effects).await.map_err(|error| anyhow!("{error}"))?,
        true => finish_blindly(&executions, &id, &clerk).await?,
    };
    ensure!(matches!(stop, Stop::Completed(_)), "it came to another end: {stop:?}");
    store.close().await.context("the store does not close")
}

/// What nobody should do: every step in doubt may run again.
async fn finish_blindly(
    executions: &Executions<Store>,
    id: &ExecutionId,
    clerk: &DurableLoop<Clerk>,
) -> Result<Stop> {
    loop {
        let run = match agent::begin(executions, id).await {
            Err(hapax_agent::durable::Error::Ended) => return Ok(Stop::Completed(json!("before"))),
            run => run?,
        };
        let stop = clerk.run(&run).await?;
        let waiting = executions.waiting(id).await?;
        if !matches!(stop, Stop::Paused(_)) || waiting.is_empty() {
            return Ok(stop);
        }
        for step in waiting {
            let decision = Decision {
                at: step.at,
                digest: step.intent.digest,
                epoch: step.epoch,
                choice: Choice::Rerun { force: true },
                by: "blind".into(),
                reason: "none".into(),
            };
            executions.decide(id, decision).await?;
        }
    }
}

async fn open(url: &str) -> Result<Store> {
    let options = Options { term: Duration::from_millis(TERM_MS), ..Options::default() };
    Ok(Store::open(url, options).await?)
}

fn executions(store: &Store) -> Executions<Store> {
    Executions::new(Executor::new(store.clone()), Scope::local())
}

/// What is done to how many.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The store.
    pub kind: Kind,
    /// Kills at each point.
    pub kills: usize,
    /// Executions that are tortured side by side.
    pub tracks: usize,
    /// What chance starts from.
    pub seed: u64,
    /// Whether the processes decide blindly: the judge must find it.
    pub blind: bool,
}

/// Kills at every point, so often on each.
pub fn run(program: &Path, plan: &Plan) -> Result<Report> {
    let began = Instant::now();
    let place = Place::new(plan.kind)?;
    let again = format!(
        "cargo xtask torture executions --store {} --kills {} --seed {}",
        plan.kind.as_str(),
        plan.kills,
        plan.seed
    );
    let mut report = Report::new(format!("executions, kill -9, {} store", plan.kind.as_str()), again);
    let names = points(Some(plan.kind));
    let rows: Mutex<Vec<Row>> = Mutex::new(names.iter().map(|name| Row::new(name)).collect());
    let tracks: Vec<Track<'_>> =
        (0..plan.tracks).map(|number| Track::new(program, plan, &place, number)).collect();
    let judged: Vec<Result<Vec<String>>> = std::thread::scope(|scope| {
        let running: Vec<_> = tracks.into_iter().map(|track| scope.spawn(|| track.run(&rows))).collect();
        let joined = running.into_iter().map(|track| match track.join() {
            Ok(judged) => judged,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    });
    for judged in judged {
        report.violations.extend(judged?);
    }
    report.rows = rows.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    enough(&mut report, plan.kills);
    report.took = began.elapsed();
    Ok(report)
}

/// A point that was not reached often enough shows nothing.
fn enough(report: &mut Report, kills: usize) {
    for row in &report.rows {
        if row.hits < kills {
            let told = format!("{}: hit {} times, {kills} are needed", row.name, row.hits);
            report.violations.push(told);
        }
    }
}

/// One execution after the other, on a store of its own or on a shared database.
struct Track<'a> {
    program: &'a Path,
    plan: &'a Plan,
    number: usize,
    store: String,
    place: &'a Place,
    dice: Dice,
    made: usize,
}

impl<'a> Track<'a> {
    fn new(program: &'a Path, plan: &'a Plan, place: &'a Place, number: usize) -> Self {
        Track {
            program,
            plan,
            number,
            store: place.store(&number.to_string()),
            place,
            dice: Dice::nth(plan.seed, number),
            made: 0,
        }
    }

    /// The point that was tried least and is not hit often enough.
    fn next(&self, rows: &Mutex<Vec<Row>>) -> Option<(usize, String)> {
        let mut rows = rows.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let most = 6 * self.plan.kills + 6;
        let open =
            rows.iter_mut().enumerate().filter(|(_, row)| row.hits < self.plan.kills && row.tries < most);
        let (at, row) = open.min_by_key(|(_, row)| row.tries)?;
        row.tries += 1;
        Some((at, row.name.clone()))
    }

    fn run(mut self, rows: &Mutex<Vec<Row>>) -> Result<Vec<String>> {
        let mut ids = Vec::new();
        let mut open: Option<String> = None;
        while let Some((at, point)) = self.next(rows) {
            // The first steps are in the first life of an execution alone, the last ones in its last.
            if point == "agent.created" || open.is_none() {
                if let Some(id) = open.take() {
                    self.start(&id, None)?;
                }
                self.made += 1;
                let id = format!("t{}-e{}", self.number, self.made);
                ids.push(id.clone());
                open = Some(id);
            }
            let Some(id) = open.clone() else { continue };
            let once = ["agent.created", "agent.ending", "agent.recovering", RESUMED];
            if [RESUMED, "agent.recovering"].contains(&&point[..]) {
                // There must be something to go on with.
                let nth = 1 + self.dice.below(3);
                if !self.start(&id, Some(("agent.intended", nth)))? {
                    open = None;
                    continue;
                }
            }
            let nth = if once.contains(&&point[..]) { 1 } else { 1 + self.dice.below(4) };
            let hit = self.start(&id, Some((&point, nth)))?;
            let mut rows = rows.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if let Some(row) = rows.get_mut(at) {
                row.kills += usize::from(hit);
                row.hits += usize::from(hit);
                row.missed += usize::from(!hit);
            }
            if !hit {
                open = None;
            }
        }
        if let Some(id) = open {
            self.start(&id, None)?;
        }
        place::runtime()?.block_on(judge(&self.store, self.place, &ids))
    }

    /// Runs a process until it is killed (`true`) or has come to its end.
    fn start(&self, id: &str, strike: Option<(&str, usize)>) -> Result<bool> {
        let fault = strike.map(|(point, nth)| Fault { deed: Deed::Die, point: point.to_owned(), nth });
        let setup = Setup {
            store: self.store.clone(),
            effects: self.place.effects(id).path().to_owned(),
            execution: id.to_owned(),
            fault,
            blind: self.plan.blind,
        };
        let mut worker = Worker::spawn(&mut setup.command(self.program))?;
        let mut struck = false;
        while let Some(said) = worker.next(PATIENCE)? {
            match said {
                Said::Struck { .. } => struck = true,
                other => ensure!(!matches!(other, Said::Broken(_)), "{id}: {other}"),
            }
        }
        let killed = worker.was_killed()?;
        ensure!(killed == struck, "{id}: it was killed by somebody else, or survived");
        Ok(killed)
    }
}

/// What must not be, of executions that have all come to their end.
async fn judge(url: &str, place: &Place, ids: &[String]) -> Result<Vec<String>> {
    let store = open(url).await?;
    let (executions, mut violations) = (executions(&store), Vec::new());
    for id in ids {
        let mut found = judge_one(&store, &executions, &ExecutionId::new(id)?).await?;
        found.extend(judge_effects(&place.effects(id))?);
        violations.extend(found.into_iter().map(|what| format!("{id}: {what}")));
    }
    store.close().await?;
    Ok(violations)
}

/// Each tool of each order has its effect, and those that must not be called twice have one.
fn judge_effects(effects: &CountingFile) -> Result<Vec<String>> {
    let mut violations = Vec::new();
    for tool in TOOLS {
        for order in 0..ORDERS {
            let count = effects.count(&format!("{tool} order-{order}"))?;
            if count != 1 && !(tool == TOOLS[0] && count > 1) {
                violations.push(format!("{tool} order-{order}: {count} effects where one is allowed"));
            }
        }
    }
    Ok(violations)
}

async fn judge_one(store: &Store, executions: &Executions<Store>, id: &ExecutionId) -> Result<Vec<String>> {
    let mut violations = Vec::new();
    let report = verify(store, &executions.stream(id)?).await?;
    if !report.is_sound() || report.status.as_deref() != Some("COMPLETED") {
        violations.push(format!("it has not come to its end soundly: {report:?}"));
    }
    let state = executions.checkpoint(id).await?.flatten().unwrap_or_default();
    let state: Value = serde_json::from_slice(&state).unwrap_or_default();
    if state != json!({ "handled": vec![TOOLS; usize::try_from(ORDERS)?] }) {
        violations.push(format!("its state is {state}"));
    }
    let mut seen = BTreeMap::<String, usize>::new();
    let mut from = 0;
    loop {
        let events = executions.read(id, from, 256).await?;
        let Some(last) = events.last() else { break };
        from = last.seq + 1;
        for event in events {
            *seen.entry(event.event_type).or_default() += 1;
        }
    }
    let orders = usize::try_from(ORDERS)?;
    let steps = orders * TOOLS.len();
    for (kind, expected) in [
        ("EXECUTION_CREATED", 1),
        ("PLAN_RECORDED", orders),
        ("TOOL_CALL_INTENT", steps),
        ("TOOL_CALL_RESULT", steps),
        ("ITERATION_COMPLETE", orders),
        ("EXECUTION_COMPLETED", 1),
    ] {
        let count = seen.get(kind).copied().unwrap_or(0);
        if count != expected {
            violations.push(format!("{count} events {kind}, {expected} belong there"));
        }
    }
    Ok(violations)
}

/// In memory nothing survives a process: here the run is dropped, by a panic, at each of the points.
pub fn in_memory(kills: usize, seed: u64) -> Result<Report> {
    let began = Instant::now();
    let again = format!("cargo xtask torture executions --kills {kills} --seed {seed}");
    let mut report = Report::new("executions, dropped in the process, memory store", again);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (place, mut dice) = (Place::embedded()?, Dice::new(seed));
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    for name in points(None) {
        let mut row = Row::new(name);
        for round in 0..kills {
            let counted = place.effects(&format!("{name}-{round}"));
            let nth = 1 + dice.below(3);
            row.tries += 1;
            let (dropped, found) = runtime.block_on(drop_at(name, nth, &counted))?;
            row.kills += usize::from(dropped);
            row.hits += usize::from(dropped);
            report.violations.extend(found.into_iter().map(|what| format!("{name}: {what}")));
        }
        report.rows.push(row);
    }
    std::panic::set_hook(hook);
    enough(&mut report, kills);
    report.took = began.elapsed();
    Ok(report)
}

async fn drop_at(point: &str, nth: usize, effects: &CountingFile) -> Result<(bool, Vec<String>)> {
    let store = open("memory:").await?;
    let executions = executions(&store);
    let id = ExecutionId::new("e")?;
    let clerk = DurableLoop::new(Clerk { orders: ORDERS }, tools(effects));
    let life = || {
        let (executions, id, clerk) = (executions.clone(), id.clone(), clerk.clone());
        tokio::spawn(async move {
            let new = hapax_agent::durable::Creation::new(
                id.clone(),
                hapax_agent::durable::AgentId::new("clerk")?,
                json!({ "handled": [] }),
            );
            let run = match executions.create(new).await {
                Err(hapax_agent::durable::Error::AlreadyExists) => {
                    executions.resume(&id, Resume { force: true, ..Resume::default() }).await
                }
                made => made,
            };
            match run {
                Ok(run) => clerk.run(&run).await,
                Err(hapax_agent::durable::Error::Ended) => Ok(Stop::Completed(json!("before"))),
                Err(error) => Err(error),
            }
        })
    };
    let arm = |point: &str, nth: usize| {
        let passed = std::sync::atomic::AtomicUsize::new(0);
        let strike = move || {
            if passed.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1 == nth {
                std::panic::resume_unwind(Box::new("dropped"));
            }
        };
        fail::cfg_callback(point, strike).map_err(anyhow::Error::msg)
    };
    if point == RESUMED || point == "agent.recovering" {
        arm("agent.intended", nth)?;
        ensure!(life().await.is_err(), "the first life is dropped");
        fail::remove("agent.intended");
    }
    let nth =
        if ["agent.created", "agent.ending", "agent.recovering", RESUMED].contains(&point) { 1 } else { nth };
    arm(point, nth)?;
    let dropped = life().await.is_err();
    fail::remove(point);
    for _ in 0..100 {
        match life().await.context("it was dropped again")?? {
            Stop::Completed(_) => {
                let mut found = judge_one(&store, &executions, &id).await?;
                found.extend(judge_effects(effects)?);
                return Ok((dropped, found));
            }
            _ => {
                for step in executions.waiting(&id).await? {
                    let decided = decide(&executions, &id, step, effects).await;
                    decided.map_err(|error| anyhow!("{error}"))?;
                }
            }
        }
    }
    Ok((dropped, vec!["it does not come to its end".into()]))
}

/// A process is stopped for longer than its session while another one goes on to the end, and then wakes up.
pub fn stopped(program: &Path, point: &str) -> Result<Report> {
    let began = Instant::now();
    let mut report =
        Report::new(format!("executions, stopped at {point}"), "cargo xtask torture executions".to_owned());
    let place = Place::postgres()?;
    let calm = Setup {
        store: place.store(""),
        effects: place.effects("stopped").path().to_owned(),
        execution: "stopped".into(),
        fault: None,
        blind: false,
    };
    let fault = Fault { deed: Deed::Stop, point: point.to_owned(), nth: 2 };
    let mut zombie = Worker::spawn(&mut Setup { fault: Some(fault), ..calm.clone() }.command(program))?;
    zombie.wait_struck()?;
    let mut other = Worker::spawn(&mut calm.command(program))?;
    while let Some(said) = other.next(PATIENCE)? {
        ensure!(!matches!(said, Said::Broken(_)), "{said}");
    }
    ensure!(other.wait()?.success(), "the other one did not come to its end");
    zombie.signal(Signal::CONT)?;
    // It finds that it is not the runner any more, or that the execution has ended.
    while let Some(said) = zombie.next(PATIENCE)? {
        report.notes.push(said.to_string());
    }
    zombie.wait()?;
    report.violations = place::runtime()?.block_on(judge(&calm.store, &place, &["stopped".to_owned()]))?;
    report.took = began.elapsed();
    Ok(report)
}
