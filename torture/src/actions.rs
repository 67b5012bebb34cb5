//! Actions under torture: three processes on the lanes of the same entities, and processes that are killed while their tools run (X2, X3,
//! X8).
//!
//! Every actor says when its actions came, were in their lane, began and ended, by the one clock of the machine. The judge compares:
//! nothing on one entity overlaps, and what was in the lane first begins first.

pub mod actor;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use hapax_agent::actions::{PlannedAction, receipts};
use hapax_core::claim::Verb;
use hapax_core::{Decision, Filter, Inspect as _, Journal as _};
use hapax_store::Lifecycle as _;
use serde_json::Value;

use self::actor::{Job, Setup, action, actions, connectors, open, origin};
use crate::child::PATIENCE;
use crate::place::{self, Kind, Place};
use crate::report::Report;

/// Processes that act at once on PostgreSQL; the embedded store has one.
const PROCESSES: usize = 3;
/// Callers of one message (the source's flood).
pub const FLOOD: usize = 657;

fn processes(kind: Kind) -> usize {
    match kind {
        Kind::Embedded => 1,
        Kind::Postgres => PROCESSES,
    }
}

/// A process that acts, and what it says; killed when dropped.
struct Actor {
    child: Child,
    lines: Receiver<Value>,
}

impl Drop for Actor {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Actor {
    fn start(program: &Path, setup: &Setup) -> Result<Self> {
        let mut command = Command::new(program);
        command.arg("actor").args(setup.arguments()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start an actor")?;
        let output = child.stdout.take().context("an actor has an output")?;
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(serde_json::from_str(&line).unwrap_or_default()).is_err() {
                    return;
                }
            }
        });
        Ok(Actor { child, lines })
    }

    /// The next thing it says; none when it has ended.
    fn next(&self) -> Result<Option<Value>> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(said) if said.get("broken").is_some() => bail!("an actor could not do its part: {said}"),
            Ok(said) => Ok(Some(said)),
            Err(mpsc::RecvTimeoutError::Disconnected) => Ok(None),
            Err(mpsc::RecvTimeoutError::Timeout) => bail!("an actor said nothing for {PATIENCE:?}"),
        }
    }

    /// Waits until it says a word.
    fn wait_for(&self, word: &str) -> Result<()> {
        while let Some(said) = self.next()? {
            if said.get(word).is_some() {
                return Ok(());
            }
        }
        bail!("an actor ended before it said {word:?}")
    }

    /// What it has done, once it has come to its end.
    fn finish(mut self) -> Result<Vec<Value>> {
        let mut done = Vec::new();
        while let Some(said) = self.next()? {
            if said.get("decision").is_some() {
                done.push(said);
            }
        }
        let status = self.child.wait()?;
        ensure!(status.success(), "an actor ended with {status}");
        Ok(done)
    }

    fn kill(mut self) -> Result<()> {
        self.child.kill().context("cannot kill an actor")?;
        self.child.wait().map(drop).context("cannot wait for an actor")
    }
}

/// So many actions over so many entities (`apart`: each in a lane of its own, a mistake that is found), from every process at once: none overlaps another one on its entity, and they begin in the order
/// in which they came.
pub fn lanes(program: &Path, kind: Kind, count: usize, entities: usize, apart: bool) -> Result<Report> {
    let (began, place) = (Instant::now(), Place::new(kind)?);
    let title = format!(
        "{count} actions on {entities} entities, {} processes, {} store",
        processes(kind),
        kind.as_str()
    );
    let again = format!("cargo xtask torture actions --store {} --actions {count}", kind.as_str());
    let mut report = Report::new(title, again);
    let setup = Setup { entities, apart, ..setup(&place, Job::Lanes) };
    let each = count / processes(kind);
    let actors = (0..processes(kind))
        .map(|number| Actor::start(program, &Setup { number, count: each, ..setup.clone() }));
    let actors: Vec<_> = actors.collect::<Result<_>>()?;
    let mut done = Vec::new();
    for actor in actors {
        done.extend(actor.finish()?);
    }
    if done.len() != each * processes(kind) {
        report.violations.push(format!("{} of {count} actions were answered", done.len()));
    }
    judge_intervals(&done, &mut report)?;
    report.took = began.elapsed();
    Ok(report)
}

fn setup(place: &Place, job: Job) -> Setup {
    Setup {
        store: place.store(""),
        folder: place.folder().to_owned(),
        job,
        number: 0,
        count: 1,
        entities: 1,
        apart: false,
    }
}

/// One action as its process saw it, in nanoseconds of the machine's clock.
#[derive(Debug)]
struct Interval {
    key: String,
    called: u64,
    entered: u64,
    began: u64,
    ended: u64,
    tickets: u64,
}

/// What must not be: an overlap, a later one that begins first, an action that was not done.
fn judge_intervals(done: &[Value], report: &mut Report) -> Result<()> {
    let mut lanes: BTreeMap<String, Vec<Interval>> = BTreeMap::new();
    for said in done {
        let number = |name: &str| said[name].as_u64().with_context(|| format!("{name} is missing in {said}"));
        if said["ok"] != true {
            report.violations.push(format!("an action was not done: {said}"));
            continue;
        }
        let interval = Interval {
            key: said["key"].as_str().unwrap_or_default().to_owned(),
            called: number("called")?,
            entered: number("entered")?,
            began: number("began")?,
            ended: number("ended")?,
            tickets: number("tickets")?,
        };
        lanes.entry(said["entity"].as_str().unwrap_or_default().to_owned()).or_default().push(interval);
    }
    let (mut ordered, mut again) = (0_u64, 0_u64);
    for (entity, mut lane) in lanes {
        lane.sort_by_key(|interval| interval.began);
        for pair in lane.windows(2) {
            if let [one, next] = pair
                && next.began < one.ended
            {
                report.violations.push(format!("{entity}: {} began before {} had ended", next.key, one.key));
            }
        }
        for (at, later) in lane.iter().enumerate() {
            // A place that was taken a second time is a later one.
            again += u64::from(later.tickets > 1);
            for earlier in lane.iter().skip(at + 1).filter(|other| other.tickets == 1) {
                if earlier.entered < later.called {
                    report
                        .violations
                        .push(format!("{entity}: {} was overtaken by {}", earlier.key, later.key));
                }
            }
            ordered += lane.iter().take(at).filter(|earlier| earlier.entered < later.called).count() as u64;
        }
    }
    report.notes.push(format!(
        "{ordered} pairs had an order that both processes saw; {again} actions took a second place"
    ));
    if ordered == 0 {
        report
            .violations
            .push("no two actions came one after the other: nothing was shown about their order".into());
    }
    Ok(())
}

/// One message, proposed by 657 callers in all processes at once, one of which is killed while they wait: it is sent once, and there is a
/// receipt for each caller. `apart`: each caller has a key of its own, a mistake that is found.
pub fn flood(program: &Path, kind: Kind, apart: bool) -> Result<Report> {
    let (began, place) = (Instant::now(), Place::new(kind)?);
    let again = format!("cargo xtask torture actions --store {}", kind.as_str());
    let mut report = Report::new(format!("{FLOOD} equal messages, {} store", kind.as_str()), again);
    let share = FLOOD / processes(kind);
    let setup = Setup { count: share, apart, ..setup(&place, Job::Flood) };
    let start = |number| Actor::start(program, &Setup { number, ..setup.clone() });
    let mut actors = vec![start(0)?];
    // This one sends. Its tool is held until the file is there.
    actors[0].wait_for("sending")?;
    for number in 1..processes(kind) {
        actors.push(start(number)?);
    }
    if kind == Kind::Postgres {
        let victim = actors.pop().context("there are three")?;
        // All of its callers wait for the one that sends.
        victim.wait_for("waiting")?;
        victim.kill()?;
        // Whoever started it starts it again.
        actors.push(start(PROCESSES)?);
    }
    std::fs::write(setup.go(), "")?;
    let mut counts = BTreeMap::new();
    for actor in actors {
        for said in actor.finish()? {
            let decision = said["decision"].as_str().unwrap_or_default().to_owned();
            *counts.entry((decision, said["ok"] == true)).or_insert(0_usize) += 1;
        }
    }
    let expected = BTreeMap::from([(("ALLOW".to_owned(), true), 1), (("DEDUP".to_owned(), true), FLOOD - 1)]);
    if counts != expected {
        report.violations.push(format!("the callers were told {counts:?}"));
    }
    let sent = place.effects("").count("message")?;
    if sent != 1 {
        report.violations.push(format!("{sent} messages were sent"));
    }
    let receipts = place::runtime()?.block_on(async {
        let store = open(&setup.store).await?;
        let head = store.head(&receipts::stream(&origin()?.tenant)?).await?;
        store.close().await?;
        anyhow::Ok(head.map_or(0, |head| head.length))
    })?;
    if receipts != FLOOD as u64 {
        report.violations.push(format!("{receipts} receipts"));
    }
    report.took = began.elapsed();
    Ok(report)
}

/// A process is killed while its tool runs: its lane is closed to writes and open to reads until a person has decided, in whatever process.
pub fn doubt(program: &Path, kind: Kind) -> Result<Report> {
    let (began, place) = (Instant::now(), Place::new(kind)?);
    let again = format!("cargo xtask torture actions --store {}", kind.as_str());
    let mut report = Report::new(format!("killed while its tool runs, {} store", kind.as_str()), again);
    let setup = setup(&place, Job::Flood);
    let actor = Actor::start(program, &setup)?;
    actor.wait_for("sending")?;
    actor.kill()?;
    std::fs::write(setup.go(), "")?;
    let found = place::runtime()?.block_on(look_at_doubt(&setup))?;
    report.violations.extend(found);
    let sent = place.effects("").count("message")?;
    if sent != 1 {
        // One of the process that was killed is not among them: it was killed before it was written down.
        report.violations.push(format!("{sent} messages were sent after it was released"));
    }
    report.took = began.elapsed();
    Ok(report)
}

async fn look_at_doubt(setup: &Setup) -> Result<Vec<String>> {
    let store = open(&setup.store).await?;
    let (actions, origin) = (actions(&store, connectors(setup))?, origin()?);
    let lost = action("send", actor::MESSAGE, actor::MESSAGE);
    let other = |key| action("send", actor::MESSAGE, key);
    let read = PlannedAction { idempotency_key: None, ..action("read", actor::MESSAGE, "") };
    let mut found = Vec::new();
    let mut told = async |what: &str, planned: PlannedAction, ok: bool, code: Option<&str>| {
        let told = actions.act(&origin, planned).await;
        if (told.ok, told.code) != (ok, code) {
            found.push(format!("{what}: told {:?} {:?} {:?}", told.ok, told.code, told.error));
        }
    };
    // It waits for the session to lapse, and finds the doubt.
    told("another message to the same entity", other("second"), false, Some("lane-in-doubt")).await;
    told("the same message", lost.clone(), false, Some("outcome-unknown")).await;
    told("a read of the entity", read, true, None).await;
    told("a message to another entity", action("read", "another", "x"), true, None).await;
    let filter = Filter { key: Some(actor::MESSAGE.into()), ..Filter::default() };
    let record = store.list(&filter, None, 10).await?.items.pop().context("the claim is there")?;
    let release = Decision {
        seen: record.claim.epoch,
        verb: Verb::Release { force: true },
        actor: "ann".into(),
        reason: "it was not sent".into(),
    };
    store.decide(record.identity.claim_id(), release).await?;
    told("the message, once it was released", lost, true, None).await;
    ensure!(actions.settle(Duration::from_secs(30)).await, "places are still owed");
    store.close().await?;
    Ok(found)
}
