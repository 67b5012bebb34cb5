//! The sessions of an embedded store (L4, B6).
//!
//! One process writes at a time, so what it needs to know of sessions is in memory: its own, which it renews
//! here and writes down with the next batch, and the former ones, which ended when this one opened the store.
//!
//! A lease is measured on boot time, and written as a time of day for those who read beside this process. When the time of day
//! is stepped forward, this process is alive as before: its session goes on for what is left of its term (L12).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hapax_core::{Clock, Session, SessionId, Sign, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::fault::Fault;
use super::sum::Sum;
use crate::clock::Onward;
use crate::limits;

/// A clock that never shows a time before the latest one that was shown or written, and goes on from there where it was set back
/// (L12).
pub(super) struct Guarded {
    inner: Arc<dyn Clock>,
    onward: Onward,
}

impl Guarded {
    pub(super) fn new(inner: Arc<dyn Clock>, floor: Timestamp) -> Self {
        let onward = Onward::from(floor, inner.elapsed());
        Guarded { inner, onward }
    }

    /// The time of day.
    pub(super) fn now(&self) -> Timestamp {
        let read = self.inner.now();
        self.onward.show(read, self.inner.elapsed())
    }

    /// Both clocks: first the one that counts suspend, so that a lease is never believed longer than it is.
    pub(super) fn moment(&self) -> Moment {
        let boot = self.inner.elapsed();
        Moment { boot, time: self.now() }
    }

    fn boot(&self) -> Duration {
        self.inner.elapsed()
    }
}

/// One reading of the clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    boot: Duration,
    pub(super) time: Timestamp,
}

/// What is known of sessions.
pub(super) struct Sessions {
    own: SessionId,
    started: Timestamp,
    term: Duration,
    clock: Arc<Guarded>,
    sign: Mutex<Sign>,
    /// Microseconds of boot time before the latest renewal.
    renewed: AtomicU64,
    /// Set when no lease may be counted on any more.
    over: AtomicBool,
    former: HashMap<SessionId, Sign>,
}

impl Sessions {
    /// Ends all former sessions and starts one. Runs before any command; the caller commits.
    pub(super) fn start(conn: &Connection, clock: Arc<Guarded>, term: Duration) -> Result<Self, Fault> {
        let moment = clock.moment();
        let former = end_all(conn, moment.time)?;
        let own = SessionId(former.keys().map(|id| id.0).max().unwrap_or(0) + 1);
        let sign = Sign { last: moment.time, until: moment.time.after(term) };
        write(conn, own, moment.time, sign, false)?;
        let renewed = AtomicU64::new(micros(moment.boot));
        let sign = Mutex::new(sign);
        let over = AtomicBool::new(false);
        Ok(Sessions { own, started: moment.time, term, clock, sign, renewed, over, former })
    }

    /// This process's session.
    pub(super) fn own(&self) -> SessionId {
        self.own
    }

    /// What the process may count on.
    pub(super) fn session(&self) -> Session {
        Session { id: self.own, term: self.term, left: self.left(self.clock.boot()) }
    }

    /// How much of the term is left.
    fn left(&self, boot: Duration) -> Duration {
        let since = micros(boot).saturating_sub(self.renewed.load(Ordering::Acquire));
        let left = self.term.saturating_sub(Duration::from_micros(since));
        if self.over.load(Ordering::Acquire) { Duration::ZERO } else { left }
    }

    /// What is known of a session, for judging by a time that was read before.
    pub(super) fn sign(&self, id: SessionId) -> Sign {
        if id != self.own {
            return self.former.get(&id).copied().unwrap_or(Sign::UNKNOWN);
        }
        let mut sign = self.lock();
        if sign.until <= self.clock.now() {
            let now = self.clock.moment();
            let left = self.left(now.boot);
            if left > Duration::ZERO {
                *sign = Sign { last: now.time, until: now.time.after(left) };
            }
        }
        *sign
    }

    /// Renews this process's session.
    pub(super) fn renew(&self, moment: Moment) {
        if self.over.load(Ordering::Acquire) {
            return;
        }
        let mut sign = self.lock();
        let until = moment.time.after(self.term);
        if until >= sign.until {
            *sign = Sign { last: moment.time, until };
            self.renewed.fetch_max(micros(moment.boot), Ordering::AcqRel);
        }
    }

    /// Ends this process's session.
    pub(super) fn end(&self, time: Timestamp) {
        self.give_up();
        *self.lock() = Sign { last: time, until: time };
    }

    /// Nobody may count on this process's leases any more: the store has stopped.
    pub(super) fn give_up(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// Writes this process's session down.
    pub(super) fn write(&self, conn: &Connection, sign: Sign) -> Result<(), Fault> {
        write(conn, self.own, self.started, sign, sign.until <= sign.last)
    }

    fn lock(&self) -> MutexGuard<'_, Sign> {
        self.sign.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Ends every session that has not ended, and forgets the oldest. They are few: one for each opening.
fn end_all(conn: &Connection, now: Timestamp) -> Result<HashMap<SessionId, Sign>, Fault> {
    let mut former = HashMap::new();
    let mut statement = conn.prepare("SELECT id, started_at, last_at, until, ended, crc FROM sessions")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        match read(row) {
            Ok((id, started, mut sign, ended)) => {
                if !ended {
                    sign.until = now;
                    write(conn, id, started, sign, true)?;
                }
                former.insert(id, sign);
            }
            // One damaged row is no reason to stay closed. It counts as heard of until now, which is never
            // too early, and is left for the verification to find.
            Err(Fault::Command(_)) => {
                former
                    .insert(SessionId(row.get::<_, i64>(0)?.cast_unsigned()), Sign { last: now, until: now });
            }
            Err(fault) => return Err(fault),
        }
    }
    drop(rows);
    let latest = former.keys().map(|id| id.0.cast_signed()).max().unwrap_or(0);
    let oldest = latest - limits::FORMER_SESSIONS;
    if former.keys().any(|id| id.0.cast_signed() <= oldest) {
        let sql = "DELETE FROM sessions WHERE id <= ?1 AND id NOT IN \
                   (SELECT session FROM claims INDEXED BY claims_open WHERE state = 2 AND state <> 3)";
        conn.execute(sql, [oldest])?;
    }
    Ok(former)
}

fn sum(id: SessionId, started: Timestamp, sign: Sign, ended: bool) -> Sum {
    Sum::of("sessions")
        .int(id.0.cast_signed())
        .int(started.as_micros())
        .int(sign.last.as_micros())
        .int(sign.until.as_micros())
        .int(i64::from(ended))
}

fn write(conn: &Connection, id: SessionId, started: Timestamp, sign: Sign, ended: bool) -> Result<(), Fault> {
    let sql = "INSERT OR REPLACE INTO sessions (id, started_at, last_at, until, ended, crc) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    conn.prepare_cached(sql)?.execute(params![
        id.0.cast_signed(),
        started.as_micros(),
        sign.last.as_micros(),
        sign.until.as_micros(),
        ended,
        sum(id, started, sign, ended).value(),
    ])?;
    Ok(())
}

/// Reads a row `id, started_at, last_at, until, ended, crc`.
pub(super) fn read(row: &Row<'_>) -> Result<(SessionId, Timestamp, Sign, bool), Fault> {
    let id = SessionId(row.get::<_, i64>(0)?.cast_unsigned());
    let started = Timestamp::from_micros(row.get(1)?);
    let sign = Sign { last: Timestamp::from_micros(row.get(2)?), until: Timestamp::from_micros(row.get(3)?) };
    let ended = row.get::<_, i64>(4)? != 0;
    sum(id, started, sign, ended).check(row.get(5)?, || format!("session {}", id.0))?;
    Ok((id, started, sign, ended))
}

/// What the database says of a session: for a reader beside the process that writes.
pub(super) fn stored_sign(conn: &Connection, id: SessionId) -> Result<Sign, Fault> {
    let sql = "SELECT id, started_at, last_at, until, ended, crc FROM sessions WHERE id = ?1";
    let read = conn.prepare_cached(sql)?.query_row([id.0.cast_signed()], |row| Ok(read(row))).optional()?;
    Ok(match read {
        Some(read) => read?.2,
        None => Sign::UNKNOWN,
    })
}
