//! Power cuts of an embedded store, simulated from the system calls that it really made.
//!
//! A worker runs under `strace`, which writes down what it wrote, what it synced, and when it answered its callers, in one
//! order. From that, disks are reconstructed as a power cut at some moment may leave them ([`disk`]); the store is opened on
//! each of them. Every outcome that was acknowledged before the cut must be there, and a claim for every effect that had
//! begun: else a retry would have it again (L3).
//!
//! The control: when syncs are not carried out, or a disk is not believed to have carried them out, the same check must find
//! lost outcomes. Otherwise it proves nothing.

pub mod disk;
pub mod trace;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use hapax_core::{Ledger as _, Outcome, Rerun, View};
use hapax_sqlite::Embedded;
use hapax_store::{Lifecycle as _, Options};

use self::disk::{Believes, Disk, Harshness};
use self::trace::What;
use crate::check::{Allowed, History};
use crate::child::{PATIENCE, Worker};
use crate::dice::Dice;
use crate::place::{self, Place};
use crate::report::{Report, Row};
use crate::words::{Ask, Run, Said, Seen};
use crate::worker::{Setup, claim_id};

/// What is done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Outcomes that are settled, half of them before the store is closed and opened again.
    pub keys: usize,
    /// Power cuts at any time. Those while a store is opened come on top: every step of that is tried.
    pub cuts: usize,
    /// What chance starts from.
    pub seed: u64,
    /// Whether syncs are carried out, and believed.
    pub syncs: Syncs,
}

/// Whether syncs are carried out, and believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syncs {
    /// They are.
    Honest,
    /// The worker's syncs return at once and do nothing.
    StubbedOut,
    /// The disk confirms syncs of the write-ahead log and does not carry them out.
    LogNotBelieved,
}

impl Syncs {
    fn believes(self) -> Believes {
        match self {
            Syncs::LogNotBelieved => |name| !name.ends_with("-wal"),
            _ => |_| true,
        }
    }
}

/// An answer, and where in the trace it was given.
#[derive(Clone, Debug)]
struct Acknowledged {
    line: usize,
    key: String,
    seen: Seen,
}

/// An effect, and where in the trace it began.
#[derive(Clone, Debug)]
struct Effected {
    line: usize,
    key: String,
}

/// What the world outside of the store saw before a cut.
struct Witnessed {
    answers: Vec<Acknowledged>,
    effects: Vec<Effected>,
}

/// Runs, reconstructs and checks.
pub fn run(program: &Path, plan: &Plan) -> Result<Report> {
    ensure_strace()?;
    let place = Place::embedded()?;
    let began = Instant::now();
    let mut history = History::default();
    let mut recording = Recording::new(&place.store_folder(""), place.effects("").path());
    for half in 0..2 {
        let trace = place.folder().join(format!("trace-{half}"));
        work_under_strace(program, plan, &place, half, &trace, &mut history)?;
        recording.add(&fs::read_to_string(&trace)?)?;
        fs::remove_file(&trace)?;
    }
    ensure!(
        recording.acknowledged.len() == plan.keys,
        "{} answers in the trace",
        recording.acknowledged.len()
    );

    let again = format!(
        "cargo xtask torture powercut --keys {} --cuts {} --seed {}",
        plan.keys, plan.cuts, plan.seed
    );
    let mut report = Report::new(format!("power cuts, {:?} syncs", plan.syncs), again);
    report.add(&history, &place.effects("").effects()?);
    report.notes.push(recording.summary());
    cut(plan, &recording, &mut report)?;
    report.took = began.elapsed();
    Ok(report)
}

/// Cuts the power at many moments, in many ways.
fn cut(plan: &Plan, recording: &Recording, report: &mut Report) -> Result<()> {
    let mut dice = Dice::new(plan.seed);
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    let images = image_folder()?;
    let mut cuts = if plan.syncs == Syncs::Honest { recording.openings() } else { Vec::new() };
    for harshness in Harshness::ALL.into_iter().cycle().take(plan.cuts) {
        cuts.push((dice.below(recording.lines) + 1, harshness));
    }
    for (number, (line, harshness)) in cuts.into_iter().enumerate() {
        let image = recording.disk.after_cut(line, &mut dice, harshness, plan.syncs.believes());
        let witnessed = recording.before(line);
        let answered = witnessed.answers.len();
        let folder = images.path().join(number.to_string());
        write_image(&folder, &image)?;
        let found = examine(&folder, witnessed)?;
        fs::remove_dir_all(&folder)?;
        let name = format!("survives: {harshness:?}").to_lowercase();
        let row = rows.entry(name.clone()).or_insert_with(|| Row::new(&name));
        row.kills += 1;
        row.hits += usize::from(answered > 0);
        row.found(if found.is_empty() { "sound" } else { "damaged" }, answered.min(1));
        let about =
            |what: String| format!("cut {number}, line {line} of {}, {harshness:?}: {what}", recording.lines);
        report.violations.extend(found.into_iter().map(about));
    }
    report.rows.extend(rows.into_values());
    Ok(())
}

/// In memory where that is possible: what a cut leaves is looked at once.
fn image_folder() -> Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix("hapax-torture-disk-");
    let folder = if memory.is_dir() { builder.tempdir_in(memory) } else { builder.tempdir() };
    folder.or_else(|_| tempfile::tempdir()).context("cannot create a folder for disks")
}

fn write_image(folder: &Path, image: &BTreeMap<String, Vec<u8>>) -> Result<()> {
    fs::create_dir(folder)?;
    for (name, content) in image {
        fs::write(folder.join(name), content)?;
    }
    Ok(())
}

/// Opens the store on a disk and looks for everything that was acknowledged.
fn examine(folder: &Path, witnessed: Witnessed) -> Result<Vec<String>> {
    let folder = folder.to_owned();
    place::runtime()?.block_on(async {
        match tokio::spawn(look_into(folder, witnessed)).await {
            Ok(found) => found,
            Err(panic) => Ok(vec![format!("a panic: {panic}")]),
        }
    })
}

async fn look_into(folder: PathBuf, witnessed: Witnessed) -> Result<Vec<String>> {
    let store = match Embedded::open(folder, Options { table_entries: 0, ..Options::default() }) {
        Ok(store) => store,
        Err(error) => return Ok(vec![format!("the store does not open: {error:#}")]),
    };
    let mut found = Vec::new();
    for answer in &witnessed.answers {
        found.extend(lost_outcome(&store, answer).await?);
    }
    for effect in &witnessed.effects {
        match store.peek(claim_id(&effect.key)?).await {
            Ok(Some(_)) => {}
            Ok(None) => found.push(format!("{}: the claim of an effect that happened is lost", effect.key)),
            Err(error) => found.push(format!("{}: {error:#}", effect.key)),
        }
    }
    match store.verify().await {
        Ok(verified) if verified.is_sound() => {}
        Ok(verified) => found.push(format!("{} bad records: {:?}", verified.bad, verified.first_bad)),
        Err(error) => found.push(format!("it cannot be verified: {error:#}")),
    }
    if let Err(error) = store.close().await {
        found.push(format!("the store does not close: {error:#}"));
    }
    Ok(found)
}

async fn lost_outcome(store: &Embedded, answer: &Acknowledged) -> Result<Option<String>> {
    let kept = match store.peek(claim_id(&answer.key)?).await {
        Ok(Some(View::Settled(kept))) => match kept.outcome {
            Outcome::Succeeded(bytes) => Ok(Seen::of(&bytes)),
            other => Err(format!("{other:?}")),
        },
        Ok(other) => Err(other.map_or_else(|| "absent".to_owned(), |view| format!("{view:?}"))),
        Err(error) => Err(format!("{error:#}")),
    };
    if kept.as_ref() == Ok(&answer.seen) {
        return Ok(None);
    }
    Ok(Some(format!("{}: an acknowledged outcome is lost: {kept:?}", answer.key)))
}

/// The traces of all workers, one after the other.
struct Recording {
    disk: Disk,
    effects_path: String,
    acknowledged: Vec<Acknowledged>,
    effects: Vec<Effected>,
    /// Where each worker began, and where it had opened its store.
    starts: Vec<usize>,
    opened: Vec<usize>,
    lines: usize,
}

impl Recording {
    fn new(folder: &Path, effects: &Path) -> Recording {
        Recording {
            disk: Disk::new(&folder.display().to_string()),
            effects_path: effects.display().to_string(),
            acknowledged: Vec::new(),
            effects: Vec::new(),
            starts: Vec::new(),
            opened: Vec::new(),
            lines: 0,
        }
    }

    fn add(&mut self, text: &str) -> Result<()> {
        self.starts.push(self.lines);
        for event in trace::read(text, self.lines)? {
            if let What::Wrote { path, bytes, .. } = &event.what {
                self.witness(path, &String::from_utf8_lossy(bytes), event.began);
            }
            self.disk.add(&event)?;
        }
        self.lines += text.lines().count();
        Ok(())
    }

    /// An answer goes through a pipe, an effect into the file that counts them.
    fn witness(&mut self, path: &str, text: &str, line: usize) {
        if path.starts_with("pipe:") {
            match text.trim_end().parse() {
                Ok(Said::Ready) => self.opened.push(line),
                Ok(Said::Done { key, seen, .. }) => self.acknowledged.push(Acknowledged { line, key, seen }),
                _ => {}
            }
        } else if path == self.effects_path {
            let key = text.split('\t').next().unwrap_or_default().to_owned();
            self.effects.push(Effected { line, key });
        }
    }

    /// The line after every single step of opening the store, new and old: once with everything that was written, which is
    /// what `kill -9` leaves, and once with less.
    fn openings(&self) -> Vec<(usize, Harshness)> {
        let opened = self.starts.iter().zip(&self.opened);
        let lines = opened.flat_map(|(start, opened)| self.disk.lines(*start..*opened));
        let less = [Harshness::Nothing, Harshness::Some, Harshness::Torn].into_iter().cycle();
        lines.zip(less).flat_map(|(line, less)| [(line, Harshness::Everything), (line, less)]).collect()
    }

    /// What was seen outside of the store before this line.
    fn before(&self, line: usize) -> Witnessed {
        Witnessed {
            answers: self.acknowledged.iter().filter(|answer| answer.line < line).cloned().collect(),
            effects: self.effects.iter().filter(|effect| effect.line < line).cloned().collect(),
        }
    }

    fn summary(&self) -> String {
        format!(
            "{} lines of trace: {} steps, {} syncs, {} writes to the log, {} to the database, {} answers",
            self.lines,
            self.disk.steps(),
            self.disk.syncs(),
            self.disk.writes_to("hapax.db-wal"),
            self.disk.writes_to("hapax.db"),
            self.acknowledged.len()
        )
    }
}

/// Settles half of the outcomes, then closes the store.
fn work_under_strace(
    program: &Path,
    plan: &Plan,
    place: &Place,
    half: usize,
    trace: &Path,
    history: &mut History,
) -> Result<()> {
    let mut dice = Dice::nth(plan.seed, half + 1);
    let setup = Setup {
        store: place.store(""),
        effects: place.effects("").path().to_owned(),
        term_ms: 30_000,
        wait_ms: 20_000,
        patience_ms: 5_000,
        ..Setup::default()
    };
    let mut worker = Worker::spawn(&mut strace(program, &setup, trace, plan.syncs))?;
    worker.wait_ready().context("under strace")?;
    let (first, last) = (plan.keys * half / 2, plan.keys * (half + 1) / 2);
    let mut number = first;
    while number < last {
        // A few at once, so that some share a commit and some do not.
        let together = (dice.below(6) + 1).min(last - number);
        for number in number..number + together {
            let size = dice.of(&[30, 200, 200, 1_000, 9_000]);
            let (caller, key) = ("caller".to_owned(), format!("p{number}"));
            let run = Run { caller, key, rerun: Rerun::Unsafe, size, linger_ms: 0 };
            history.asked(&run);
            worker.ask(&Ask::Run(run));
        }
        for _ in 0..together {
            let said = worker.next(PATIENCE)?.context("the worker ended")?;
            history.heard(&said, Allowed(&[]));
        }
        number += together;
    }
    worker.finish()
}

fn strace(program: &Path, setup: &Setup, trace: &Path, syncs: Syncs) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-xx", "-s", "100000000", "--seccomp-bpf", "-o"]).arg(trace);
    command.arg("-e").arg(format!("trace={}", trace::CALLS));
    if syncs == Syncs::StubbedOut {
        command.args(["-e", "inject=fsync,fdatasync:retval=0"]);
    }
    command.arg(program).args(setup.arguments());
    command
}

/// Installs `strace` where it is missing.
fn ensure_strace() -> Result<()> {
    let here = || succeeds(Command::new("strace").arg("--version"));
    if here() {
        return Ok(());
    }
    let by_hand = "install strace (Debian: apt-get install strace)";
    let root = rustix::process::geteuid().is_root();
    ensure!(
        root || succeeds(Command::new("sudo").args(["-n", "true"])),
        "strace is missing, and installing it takes root or a `sudo` that asks for no password: {by_hand}"
    );
    for arguments in [&["update"][..], &["install", "--yes", "--no-install-recommends", "strace"]] {
        let mut apt = if root { Command::new("env") } else { Command::new("sudo") };
        if !root {
            apt.args(["-n", "env"]);
        }
        apt.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "DPkg::Lock::Timeout=300"])
            .args(arguments);
        ensure!(succeeds(&mut apt), "`apt-get {}` failed: {by_hand}", arguments.join(" "));
    }
    ensure!(here(), "strace is installed and cannot be run: {by_hand}");
    Ok(())
}

fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}
