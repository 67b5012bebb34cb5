//! The points in the source at which a worker is killed, and how a claim stands when that has happened.

use super::Work;
use crate::place::Kind;

/// A named point.
#[derive(Clone, Copy)]
pub(super) struct Point {
    pub(super) name: &'static str,
    /// Whether it is passed by a task that knows for which key.
    pub(super) knows_key: bool,
    /// Whether a claim stands as it must if its process was killed here.
    pub(super) belongs: fn(&Stand) -> bool,
}

/// Where a claim stands after the kill.
#[derive(Clone, Debug)]
pub(super) struct Stand {
    pub(super) state: String,
    pub(super) effects: usize,
    pub(super) answered: bool,
}

impl Stand {
    /// Granted, and not settled: held as long as the session lives, then in doubt or free to be taken over.
    fn is_open(&self) -> bool {
        ["held", "in_doubt", "released"].contains(&self.state.as_str())
    }

    fn is(&self, state: &str) -> bool {
        self.state == state
    }
}

/// Kills at any time instead of at a point.
pub(super) const TIMER: Point = Point { name: "timer", knows_key: false, belongs: |_| true };

const fn passed(name: &'static str, belongs: fn(&Stand) -> bool) -> Point {
    Point { name, knows_key: true, belongs }
}

/// The points of a call, in their order.
const CALL: [Point; 8] = [
    passed("once.asking", unknown),
    passed("once.granted", granted),
    passed("once.dispatching", granted),
    passed("work.began", granted),
    passed("work.done", worked),
    passed("once.worked", worked),
    passed("once.settling", worked),
    passed("once.settled", settled),
];

/// The points of a call whose work is a guarded transaction: nothing of it is there before the commit, all of it after.
const GUARDED: [Point; 8] = [
    passed("once.dispatching", granted),
    passed("guard.begun", granted),
    passed("guard.inserted", granted),
    passed("guard.guarded", granted),
    passed("guard.committed", settled),
    passed("once.worked", settled),
    passed("once.settling", settled),
    passed("once.settled", settled),
];

fn unknown(claim: &Stand) -> bool {
    claim.is("absent") && claim.effects == 0
}

fn granted(claim: &Stand) -> bool {
    claim.is_open() && claim.effects == 0
}

fn worked(claim: &Stand) -> bool {
    claim.is_open() && claim.effects > 0
}

fn settled(claim: &Stand) -> bool {
    claim.is("settled") && claim.effects > 0
}

/// A claim that was asked for is not there, or one that was worked for is not settled.
fn before_commit(claim: &Stand) -> bool {
    !claim.answered && (unknown(claim) || worked(claim))
}

/// A claim is granted and nobody has begun, or it is settled and nobody has been answered.
fn after_commit(claim: &Stand) -> bool {
    !claim.answered && (granted(claim) || settled(claim))
}

/// The points that are passed in such a store with such work.
pub(super) fn points(kind: Kind, work: Work) -> Vec<Point> {
    let in_store = |name, belongs| Point { name, knows_key: false, belongs };
    let store = match kind {
        Kind::Embedded => vec![
            // Claims are going into the index that finds them, and into the same commit as new ones.
            in_store("embedded.entering", before_commit),
            in_store("embedded.before_commit", before_commit),
            in_store("embedded.after_commit", after_commit),
        ],
        Kind::Postgres => vec![
            in_store("postgres.before_commit", before_commit),
            in_store("postgres.after_commit", after_commit),
        ],
    };
    match work {
        Work::Guarded => GUARDED.into_iter().chain([TIMER]).collect(),
        Work::Counted => CALL.into_iter().chain(store).chain([TIMER]).collect(),
    }
}
