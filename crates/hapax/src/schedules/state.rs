//! The document of a schedule, and everything that may become of it (S1), as pure functions: each is given the store's time.
//!
//! Definition and state are one document of the registry, so that one compare-and-set fences an instance whose configuration is not
//! the one in force. Times are milliseconds since the Unix epoch.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::definition::{Definition, Overlap};
use super::when::When;
use crate::limits;

/// A schedule as the registry keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    /// The definition in force, by its digest.
    pub(crate) current: String,
    /// By their digests, all that the rest of the document names.
    pub(crate) definitions: BTreeMap<String, Definition>,
    /// The present definition has ticks after this time.
    pub(crate) after: i64,
    /// Definitions that were in force before, the oldest first, with ticks that are yet to be walked.
    #[serde(default)]
    pub(crate) former: Vec<Former>,
    /// The latest tick that was walked.
    pub(crate) cursor: i64,
    #[serde(default)]
    pub(crate) paused: Option<Paused>,
    /// Ticks that were dispatched and have not ended, as far as is known.
    #[serde(default)]
    pub(crate) open: Vec<Open>,
    /// The tick that was dispatched last, whether it has ended or not.
    #[serde(default)]
    pub(crate) last: Option<Open>,
    #[serde(default)]
    pub(crate) counts: Counts,
    /// The latest ticks that were missed, the newest first.
    #[serde(default)]
    pub(crate) missed: Vec<Missed>,
}

/// A definition that was in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Former {
    /// By its digest.
    pub(crate) definition: String,
    /// It had ticks after this time …
    pub(crate) after: i64,
    /// … and up to this one.
    pub(crate) until: i64,
}

/// Who paused a schedule, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Paused {
    pub(crate) by: String,
    pub(crate) reason: String,
    pub(crate) at: i64,
}

/// A tick that was dispatched and has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Open {
    /// Its key.
    pub(crate) key: String,
    /// When it was planned, or asked for.
    pub(crate) at: i64,
    /// What it sends, by the digest of its definition.
    pub(crate) definition: String,
    /// Its claim, in hexadecimal.
    pub(crate) claim: String,
    /// When it was sent last.
    pub(crate) sent_at: i64,
    /// How often it was sent.
    pub(crate) sends: u32,
}

impl Open {
    /// Whether an operator asked for it: its key is `sched.{id}.now.{run}`, that of a planned tick `sched.{id}.{time}`. No id has a dot.
    fn is_asked_for(&self) -> bool {
        self.key.matches('.').count() == 3
    }
}

/// What became of ticks so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// Dispatched, those that were late among them.
    pub(crate) dispatched: u64,
    pub(crate) late: u64,
    pub(crate) missed: u64,
    pub(crate) skipped: u64,
}

/// A tick that was missed, or several that follow one another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Missed {
    /// The first of them.
    pub(crate) at: i64,
    /// The last of them.
    pub(crate) until: i64,
    pub(crate) count: u64,
    pub(crate) why: Why,
}

/// Why a tick was missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Why {
    /// It was not dispatched in its time, and is more than are caught up.
    Late,
    /// Half of the retention is over: its outcome could have been forgotten.
    Old,
    /// More ticks were open than are kept.
    Crowded,
    /// No route takes it any more, or under another claim.
    Unroutable,
    /// The definition was changed more often than is kept.
    Changed,
}

impl Why {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Why::Late => "late",
            Why::Old => "old",
            Why::Crowded => "crowded",
            Why::Unroutable => "unroutable",
            Why::Changed => "changed",
        }
    }
}

/// What a change of the document means for the counters of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Increase(pub(crate) Counts);

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing before this time; never, where there is none.
    Wait(Option<i64>),
    /// Nothing until an open tick ends.
    Hold,
    /// These ticks are missed.
    Miss(Missed),
    /// This tick is left out.
    Skip(i64),
    /// This tick is to be sent.
    Send { at: i64, definition: String, late: bool },
    /// The ticks of the oldest former definition have been walked.
    Forget,
}

impl State {
    /// A new schedule: it has ticks from now on.
    pub(crate) fn new(definition: &Definition, now: i64) -> Self {
        let digest = definition.digest();
        State {
            current: digest.clone(),
            definitions: [(digest, definition.clone())].into(),
            after: now,
            former: Vec::new(),
            cursor: now,
            paused: None,
            open: Vec::new(),
            last: None,
            counts: Counts::default(),
            missed: Vec::new(),
        }
    }

    /// The definition in force.
    pub(crate) fn definition(&self) -> Option<&Definition> {
        self.definitions.get(&self.current)
    }

    /// The definition whose ticks are walked now: the oldest former one, until its ticks have been walked.
    pub(crate) fn walked(&self) -> (&str, Option<&Definition>) {
        let digest = self.former.first().map_or(&self.current, |era| &era.definition);
        (digest, self.definitions.get(digest))
    }

    /// Puts another definition in force: after the later of cursor and now. What was due before stays the former one's.
    pub(crate) fn adopt(&mut self, definition: &Definition, now: i64) {
        let digest = definition.digest();
        if digest == self.current {
            return;
        }
        let from = self.cursor.max(now);
        let former = Former {
            definition: std::mem::replace(&mut self.current, digest.clone()),
            after: self.after,
            until: from,
        };
        self.former.push(former);
        if self.former.len() > limits::FORMER_DEFINITIONS {
            let lost = self.former.remove(0);
            self.cursor = self.cursor.max(lost.until);
            self.note(Missed { at: lost.after, until: lost.until, count: 0, why: Why::Changed });
        }
        self.after = from;
        self.definitions.insert(digest, definition.clone());
        self.prune();
    }

    /// What to do next, at this time of the store's; ticks before `oldest` are not dispatched any more.
    pub(crate) fn step(&self, when: impl Fn(&str) -> Option<When>, now: i64, oldest: i64) -> Step {
        let current = Former { definition: self.current.clone(), after: self.after, until: i64::MAX };
        let era = self.former.first().unwrap_or(&current);
        let (Some(definition), Some(when)) = (self.definitions.get(&era.definition), when(&era.definition))
        else {
            return if self.former.is_empty() { Step::Wait(None) } else { Step::Forget };
        };
        let (after, until) = (self.cursor.max(era.after), now.min(era.until));
        let caught_up = definition.catch_up as usize;
        let window = when.window(after, until, caught_up + 1);
        if let Some((first, last)) = window.passed_ends {
            return Step::Miss(Missed { at: first, until: last, count: window.passed, why: Why::Late });
        }
        let Some((&first, &last)) = window.latest.first().zip(window.latest.last()) else {
            return if self.former.is_empty() { Step::Wait(when.next(after)) } else { Step::Forget };
        };
        let old = window.latest.iter().take_while(|at| **at < oldest).count();
        if old > 0 {
            return Step::Miss(Missed {
                at: first,
                until: window.latest[old - 1],
                count: old as u64,
                why: Why::Old,
            });
        }
        // The latest one that is due is not late for a while; all before it are.
        let in_time = now.saturating_sub(last) <= millis(limits::TICK_GRACE);
        let late = window.latest.len() - usize::from(in_time);
        if late > caught_up {
            return Step::Miss(Missed { at: first, until: first, count: 1, why: Why::Late });
        }
        if definition.overlap == Overlap::Skip && !self.open.is_empty() {
            return if late == 0 { Step::Skip(first) } else { Step::Hold };
        }
        // A tick that is sent takes a place among the open ones. One that may be caught up waits for it.
        if caught_up > 0 && self.open.len() >= limits::OPEN_TICKS {
            return Step::Hold;
        }
        let late = late > 0 || now.saturating_sub(first) > millis(limits::TICK_LATE);
        Step::Send { at: first, definition: era.definition.clone(), late }
    }

    /// A tick was dispatched: its claim is there.
    pub(crate) fn dispatched(&mut self, tick: Open, late: bool) -> Increase {
        let before = self.counts;
        self.cursor = self.cursor.max(tick.at);
        self.counts.dispatched += 1;
        self.counts.late += u64::from(late);
        self.keep_open(tick);
        self.gained(before)
    }

    /// A tick was asked for by an operator. Asked for again under the same key, it is the same one.
    pub(crate) fn asked_for(&mut self, tick: Open) -> Increase {
        let before = self.counts;
        if !self.open.iter().any(|open| open.key == tick.key) {
            self.keep_open(tick);
        }
        self.gained(before)
    }

    fn keep_open(&mut self, tick: Open) {
        self.last = Some(tick.clone());
        self.open.push(tick);
        while self.open.len() > limits::OPEN_TICKS {
            let lost = self.open.remove(0);
            self.note(Missed { at: lost.at, until: lost.at, count: 1, why: Why::Crowded });
        }
        self.prune();
    }

    /// Ticks were missed.
    pub(crate) fn missed(&mut self, missed: Missed) -> Increase {
        let before = self.counts;
        self.cursor = self.cursor.max(missed.until);
        self.note(missed);
        self.gained(before)
    }

    /// A tick was left out because an earlier one had not ended.
    pub(crate) fn skipped(&mut self, at: i64) -> Increase {
        let before = self.counts;
        self.cursor = self.cursor.max(at);
        self.counts.skipped += 1;
        self.gained(before)
    }

    /// All ticks of the oldest former definition were walked.
    pub(crate) fn forget(&mut self) {
        if !self.former.is_empty() {
            let era = self.former.remove(0);
            self.cursor = self.cursor.max(era.until);
            self.prune();
        }
    }

    /// An open tick has ended.
    pub(crate) fn ended(&mut self, key: &str) {
        self.open.retain(|open| open.key != key);
        self.prune();
    }

    /// An open tick has not ended and is not sent any more.
    pub(crate) fn given_up(&mut self, key: &str, why: Why) -> Increase {
        let before = self.counts;
        if let Some(index) = self.open.iter().position(|open| open.key == key) {
            let lost = self.open.remove(index);
            self.note(Missed { at: lost.at, until: lost.at, count: 1, why });
            self.prune();
        }
        self.gained(before)
    }

    /// An open tick is sent again.
    pub(crate) fn sent_again(&mut self, key: &str, now: i64) {
        if let Some(open) = self.open.iter_mut().find(|open| open.key == key) {
            open.sent_at = now;
            open.sends = open.sends.saturating_add(1);
        }
    }

    /// Whether an open tick is neither sent nor sent again at present: while a schedule is paused, only runs that were asked for are.
    pub(crate) fn rests(&self, open: &Open) -> bool {
        self.paused.is_some() && !open.is_asked_for()
    }

    /// Ticks are planned and not dispatched from now on.
    pub(crate) fn pause(&mut self, by: String, reason: String, now: i64) {
        self.paused = Some(Paused { by, reason, at: now });
    }

    /// Ticks are dispatched again, from now on: those of the pause, and those that had not been dispatched before it, are left out.
    pub(crate) fn resume(&mut self, now: i64) {
        if self.paused.take().is_some() {
            self.cursor = self.cursor.max(now);
            self.former.clear();
            self.prune();
        }
    }

    fn note(&mut self, missed: Missed) {
        self.counts.missed += missed.count;
        match self.missed.first_mut() {
            // Ticks that are missed one by one are told as one span.
            Some(newest)
                if newest.why == missed.why && missed.at >= newest.until && missed.why == Why::Late =>
            {
                newest.until = missed.until;
                newest.count += missed.count;
            }
            _ => self.missed.insert(0, missed),
        }
        self.missed.truncate(limits::MISSED_SHOWN);
    }

    fn gained(&self, before: Counts) -> Increase {
        let now = self.counts;
        Increase(Counts {
            dispatched: now.dispatched - before.dispatched,
            late: now.late - before.late,
            missed: now.missed - before.missed,
            skipped: now.skipped - before.skipped,
        })
    }

    /// Definitions that nothing names any more go.
    fn prune(&mut self) {
        let State { current, definitions, former, open, .. } = self;
        definitions.retain(|digest, _| {
            digest == current
                || former.iter().any(|era| era.definition == *digest)
                || open.iter().any(|tick| tick.definition == *digest)
        });
    }
}

/// Whether an open tick may be sent again at this time: the longer it is open, the more rarely.
pub(crate) fn may_be_sent(open: &Open, now: i64) -> bool {
    now >= next_send(open)
}

/// When an open tick may be sent again.
pub(crate) fn next_send(open: &Open) -> i64 {
    if open.sends == 0 {
        return open.sent_at;
    }
    let doublings = (open.sends - 1).min(16);
    let pause =
        millis(limits::TICK_AGAIN).saturating_mul(1 << doublings).min(millis(limits::TICK_AGAIN_MOST));
    open.sent_at.saturating_add(pause)
}

/// A span as milliseconds.
pub(crate) fn millis(span: std::time::Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[path = "state/tests.rs"]
mod tests;
