//! Killing workers, again and again, at every named point and at any time, and looking at what is left.
//!
//! Several tracks (`track`) run side by side and take what is to be done next from one agenda, until every point (`points`)
//! was hit often enough with a claim in the state that belongs to it.

mod points;
mod track;

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Result};

use self::points::{Point, points};
use self::track::Track;
use crate::guard;
use crate::place::{self, Kind, Place};
use crate::report::{Report, Row};
use crate::worker::Flaw;

/// What is done, and how often.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which store.
    pub kind: Kind,
    /// Kills in all.
    pub kills: usize,
    /// How often each point must be hit with a claim in the state that belongs to it.
    pub least_hits: usize,
    /// What chance starts from.
    pub seed: u64,
    /// Stores, or parts of one, that are tortured side by side.
    pub tracks: usize,
    /// The session's term. An embedded store ends former sessions when it is opened, so there it does not matter.
    pub term_ms: u64,
    /// What the workers do.
    pub work: Work,
    /// A mistake in the worker that is killed.
    pub flaw: Option<Flaw>,
    /// A mistake in the worker that comes after it.
    pub flaw_after: Option<Flaw>,
}

/// What the workers do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Work {
    /// A line in a file that no fault reaches.
    #[default]
    Counted,
    /// A row in the ledger's own database, under the transactional guard.
    Guarded,
}

impl Plan {
    /// What the test command does.
    pub fn slice(kind: Kind, kills: usize, seed: u64) -> Plan {
        let (tracks, term_ms) = match kind {
            Kind::Embedded => (2, 30_000),
            // Each worker has some ten connections, and a server has few.
            Kind::Postgres => (4, 500),
        };
        let work = Work::Counted;
        let least_hits = 5.min(kills / points(kind, work).len());
        Plan { kind, kills, least_hits, seed, tracks, term_ms, work, flaw: None, flaw_after: None }
    }

    /// The command that does the same again.
    pub fn command(&self) -> String {
        let what = match self.work {
            Work::Counted => format!("crash --store {}", self.kind.as_str()),
            Work::Guarded => "guard".to_owned(),
        };
        format!("cargo xtask torture {what} --kills {} --seed {}", self.kills, self.seed)
    }
}

/// Carries out a plan.
pub fn run(program: &Path, plan: &Plan) -> Result<Report> {
    let place = Place::new(plan.kind)?;
    if plan.work == Work::Guarded {
        place::execute(&place.store(""), guard::TABLE)?;
    }
    let agenda = Mutex::new(Agenda::new(plan));
    let began = Instant::now();
    let mut tracks: Vec<Track<'_>> =
        (0..plan.tracks).map(|number| Track::new(program, plan, &place, number)).collect();
    std::thread::scope(|scope| {
        let running: Vec<_> = tracks.iter_mut().map(|track| scope.spawn(|| track.run(&agenda))).collect();
        running.into_iter().try_for_each(|track| match track.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
    .with_context(|| format!("repeat it with: {}", plan.command()))?;

    let title = match plan.work {
        Work::Counted => format!("kill -9, {} store", plan.kind.as_str()),
        Work::Guarded => "kill -9 around the transactional guard".to_owned(),
    };
    let mut report = Report::new(title, plan.command());
    for track in tracks {
        report.add(&track.history, &track.effects()?);
    }
    for row in agenda.into_inner().unwrap_or_else(PoisonError::into_inner).rows {
        if row.hits < plan.least_hits {
            report.violations.push(format!(
                "{}: killed {} times, {} of them with a claim in its state; {} are needed",
                row.name, row.kills, row.hits, plan.least_hits
            ));
        }
        report.rows.push(row);
    }
    report.took = began.elapsed();
    Ok(report)
}

/// Which point is next, for all tracks together.
struct Agenda {
    points: Vec<Point>,
    /// One for each point.
    rows: Vec<Row>,
    kills: usize,
    least_hits: usize,
}

impl Agenda {
    fn new(plan: &Plan) -> Agenda {
        let points = points(plan.kind, plan.work);
        let rows = points.iter().map(|point| Row::new(point.name)).collect();
        Agenda { points, rows, kills: plan.kills, least_hits: plan.least_hits }
    }

    /// The point that was tried least; when the plan is done, one that was not hit often enough, for a while.
    fn next(&mut self) -> Option<(usize, Point)> {
        let tried: usize = self.rows.iter().map(|row| row.tries).sum();
        let done = tried >= self.kills;
        let enough = |row: &Row| done && (row.hits >= self.least_hits || row.tries >= self.kills);
        let open = self.rows.iter_mut().enumerate().filter(|(_, row)| !enough(row));
        let (at, row) = open.min_by_key(|(_, row)| row.tries)?;
        row.tries += 1;
        Some((at, self.points[at]))
    }
}
