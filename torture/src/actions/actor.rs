//! The process that acts: what it is told on its command line, and what it says about each action.

use std::cell::Cell;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use hapax::Store;
use hapax_agent::actions::gate::Decision;
use hapax_agent::actions::{
    ActionResult, Actions, Connectors, Gate, Invocation, Invoked, Local, Origin, PlannedAction, Rules, Tool,
};
use hapax_core::{Project, Tenant};
use hapax_exec::Executor;
use hapax_store::{Lifecycle as _, Options};
use hapax_testkit::upstream::CountingFile;
use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// Short enough for a test, long enough for a heartbeat on a busy machine.
const TERM: Duration = Duration::from_millis(3_000);
/// Actions of one process that are under way at once.
const AT_ONCE: usize = 64;
/// The entity and the key of the message of a flood.
pub const MESSAGE: &str = "message";

/// What an actor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Job {
    /// Different actions over all entities.
    Lanes,
    /// One action, again and again at once; its tool is held until it is let go.
    Flood,
}

/// How an actor is set up: its command line.
#[derive(Clone, Debug, clap::Args)]
pub struct Setup {
    /// `embedded:FOLDER` or `postgres://…`
    #[arg(long)]
    pub store: String,
    /// Where effects are counted, and where it is told to go on
    #[arg(long)]
    pub folder: PathBuf,
    /// What it does
    #[arg(long)]
    pub job: Job,
    /// Which of the actors it is
    #[arg(long)]
    pub number: usize,
    /// How many actions
    #[arg(long)]
    pub count: usize,
    /// Over how many entities
    #[arg(long)]
    pub entities: usize,
    /// Gives every action a lane and a key of its own: a mistake that the judge must find
    #[arg(long)]
    pub apart: bool,
}

impl Setup {
    pub(super) fn arguments(&self) -> Vec<String> {
        let job = if self.job == Job::Lanes { "lanes" } else { "flood" };
        let folder = self.folder.display().to_string();
        let apart = self.apart.then(|| "--apart".to_owned());
        let pairs = [
            ("--store", self.store.clone()),
            ("--folder", folder),
            ("--job", job.to_owned()),
            ("--number", self.number.to_string()),
            ("--count", self.count.to_string()),
            ("--entities", self.entities.to_string()),
        ];
        pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).chain(apart).collect()
    }

    /// The file that lets a held tool go.
    pub(super) fn go(&self) -> PathBuf {
        self.folder.join("go")
    }
}

fn say(said: &Value) {
    let mut out = std::io::stdout().lock();
    // A parent that is gone kills this process.
    drop(writeln!(out, "{said}").and_then(|()| out.flush()));
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or_default() * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or_default()
}

pub(super) fn origin() -> Result<Origin> {
    let (tenant, project) = (Tenant::new("acme")?, Project::new("torture")?);
    Ok(Origin { tenant, project, traceparent: None })
}

pub(super) async fn open(url: &str) -> Result<Store> {
    Ok(Store::open(url, Options { term: TERM, ..Options::default() }).await?)
}

pub(super) fn action(tool: &str, entity: &str, key: &str) -> PlannedAction {
    PlannedAction {
        connector: "torture".into(),
        tool: tool.into(),
        args: RawValue::from_string("{}".into()).unwrap_or_default(),
        entity_key: entity.into(),
        idempotency_key: Some(key.into()),
    }
}

pub(super) fn actions(store: &Store, connectors: Connectors) -> Result<Actions<Store>> {
    Ok(Actions::new(Executor::new(store.clone()), Rules::new(connectors, Gate::new(Decision::Allow)), None))
}

/// The times of one action.
#[derive(Default)]
struct Times {
    entered: Cell<u64>,
    tickets: Cell<u64>,
}

tokio::task_local! {
    static TIMES: Times;
}

/// When each key's tool ran.
type Runs = Arc<Mutex<std::collections::BTreeMap<String, (u64, u64)>>>;

static WAITING: AtomicUsize = AtomicUsize::new(0);

pub(super) fn connectors(setup: &Setup) -> Connectors {
    connectors_with(setup, &Runs::default())
}

fn connectors_with(setup: &Setup, runs: &Runs) -> Connectors {
    let (effects, go, runs) = (CountingFile::new(setup.folder.join("effects-")), setup.go(), runs.clone());
    let done = || Invoked::Done(RawValue::from_string("true".into()).unwrap_or_default());
    let local = Local::default()
        .tool("work", Tool::default(), move |call: Invocation| {
            let runs = runs.clone();
            async move {
                let began = now();
                tokio::time::sleep(Duration::from_micros(500)).await;
                let key = call.args.get().to_owned();
                runs.lock().unwrap_or_else(PoisonError::into_inner).insert(key, (began, now()));
                done()
            }
        })
        .tool("send", Tool::default(), move |_| {
            let (effects, go) = (effects.clone(), go.clone());
            async move {
                // The judge, who uses the same tools, has nobody to say it to.
                if !go.exists() {
                    say(&json!({ "sending": true }));
                }
                while !go.exists() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                match effects.record("message", "sent") {
                    Ok(()) => done(),
                    Err(error) => Invoked::Unknown(error.to_string()),
                }
            }
        })
        .tool("read", Tool::reads(), move |_| std::future::ready(done()));
    Connectors::default().local("torture", local)
}

/// The process that acts.
pub fn main(setup: &Setup) -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .context("cannot ask to end with the parent")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let lived = runtime.block_on(live(setup));
    if let Err(error) = &lived {
        say(&json!({ "broken": format!("{error:#}") }));
    }
    lived
}

async fn live(setup: &Setup) -> Result<()> {
    // A place is in its lane when this is passed.
    let share = setup.count;
    let entered = move || {
        let first = |times: &Times| {
            if times.tickets.replace(times.tickets.get() + 1) == 0 {
                times.entered.set(now());
            }
        };
        if TIMES.try_with(first).is_ok() && WAITING.fetch_add(1, Ordering::SeqCst) + 1 == share {
            say(&json!({ "waiting": true }));
        }
    };
    fail::cfg_callback("actions.entered", entered).map_err(anyhow::Error::msg)?;
    let (store, runs) = (open(&setup.store).await?, Runs::default());
    let actions = actions(&store, connectors_with(setup, &runs))?;
    let at_once = if setup.job == Job::Lanes { AT_ONCE } else { setup.count };
    let mut running = JoinSet::new();
    for n in 0..setup.count {
        if running.len() >= at_once {
            running.join_next().await.transpose()?;
        }
        let (actions, runs, planned) = (actions.clone(), runs.clone(), planned(setup, n));
        running.spawn(TIMES.scope(Times::default(), async move { run(&actions, planned, &runs).await }));
    }
    while let Some(done) = running.join_next().await {
        done??;
    }
    anyhow::ensure!(actions.settle(Duration::from_secs(30)).await, "places are still owed");
    store.close().await.context("the store does not close")
}

/// The n-th action of this process. Its arguments tell its tool which one it is.
fn planned(setup: &Setup, n: usize) -> PlannedAction {
    match setup.job {
        Job::Flood if setup.apart => action("send", &format!("{n}"), &format!("{}.{n}", setup.number)),
        Job::Flood => action("send", MESSAGE, MESSAGE),
        Job::Lanes => {
            let key = format!("{}.{n}", setup.number);
            let args = RawValue::from_string(json!({ "key": key }).to_string()).unwrap_or_default();
            // Every process walks over the entities in an order of its own.
            let entity = (n * (7 + 4 * setup.number) + setup.number) % setup.entities;
            let mut planned = PlannedAction { args, ..action("work", &format!("entity:{entity}"), &key) };
            if setup.apart {
                planned.entity_key = format!("{} {key}", planned.entity_key);
            }
            planned
        }
    }
}

async fn run(actions: &Actions<Store>, planned: PlannedAction, runs: &Runs) -> Result<()> {
    let (called, origin) = (now(), origin()?);
    let ActionResult { action, decision, ok, error, code, .. } = actions.act(&origin, planned).await;
    let run = runs.lock().unwrap_or_else(PoisonError::into_inner).remove(action.args.get());
    let (began, ended) = run.unwrap_or_default();
    let (entered, tickets) = TIMES.with(|times| (times.entered.get(), times.tickets.get()));
    say(&json!({
        "decision": decision, "ok": ok, "error": error, "code": code,
        "entity": action.entity_key.split(' ').next(), "key": action.idempotency_key,
        "called": called, "entered": entered, "began": began, "ended": ended, "tickets": tickets
    }));
    Ok(())
}
