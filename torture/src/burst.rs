//! Many callers with one key at once, in several processes: one runs it, all have its outcome (L9).

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result};
use hapax_core::Rerun;

use crate::check::{Allowed, History};
use crate::child::{PATIENCE, Worker};
use crate::place::{Kind, Place};
use crate::report::Report;
use crate::words::{Ask, Run, Said};
use crate::worker::{Flaw, Setup};

/// How many callers there are.
pub const CALLERS: usize = 200;
/// How long the work takes.
const LINGER_MS: u64 = 200;

/// What is different between two bursts.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Which store.
    pub kind: Kind,
    /// In how many processes the callers are.
    pub processes: usize,
    /// Whether waiters are notified.
    pub notify: bool,
    /// Whether watched claims are polled.
    pub poll: bool,
    /// A mistake in the workers.
    pub flaw: Option<Flaw>,
}

/// Several bursts, each under a key of its own.
pub fn run(program: &Path, manner: Manner, rounds: usize) -> Result<Report> {
    let place = Place::new(manner.kind)?;
    let began = Instant::now();
    let effects = place.effects("");
    let setup = Setup {
        store: place.store(""),
        effects: effects.path().to_owned(),
        term_ms: 10_000,
        wait_ms: 30_000,
        patience_ms: 5_000,
        no_notify: !manner.notify,
        no_poll: !manner.poll,
        flaw: manner.flaw,
        ..Setup::default()
    };
    let mut workers =
        (0..manner.processes).map(|_| Worker::start(program, &setup)).collect::<Result<Vec<_>>>()?;
    let mut history = History::default();
    for round in 0..rounds {
        burst(&mut workers, &format!("burst{round}"), &mut history)?;
    }
    workers.into_iter().try_for_each(Worker::finish)?;
    let title = format!(
        "{CALLERS} callers in {} processes on the {} store, notify: {}, poll: {}",
        manner.processes,
        manner.kind.as_str(),
        manner.notify,
        manner.poll
    );
    let mut report = Report::new(title, "cargo xtask torture burst");
    report.add(&history, &effects.effects()?);
    for round in 0..rounds {
        let (key, count) = (format!("burst{round}"), effects.count(&format!("burst{round}"))?);
        if count != 1 {
            report.violations.push(format!("{key}: {count} effects instead of 1"));
        }
    }
    if history.answers() != CALLERS * rounds {
        report.violations.push(format!("{} answers instead of {}", history.answers(), CALLERS * rounds));
    }
    report.took = began.elapsed();
    Ok(report)
}

fn burst(workers: &mut [Worker], key: &str, history: &mut History) -> Result<()> {
    let processes = workers.len();
    for caller in 0..CALLERS {
        let run = Run {
            caller: format!("c{caller}"),
            key: key.to_owned(),
            rerun: Rerun::Unsafe,
            size: 1_000,
            linger_ms: LINGER_MS,
        };
        history.asked(&run);
        workers[caller % processes].ask(&Ask::Run(run));
    }
    for (number, worker) in workers.iter_mut().enumerate() {
        let own = (0..CALLERS).filter(|caller| caller % processes == number).count();
        for _ in 0..own {
            let said: Said = worker.next(PATIENCE)?.context("a worker ended in a burst")?;
            history.heard(&said, Allowed(&[]));
        }
    }
    Ok(())
}
