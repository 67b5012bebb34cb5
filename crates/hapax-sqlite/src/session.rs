//! The sessions of an embedded store (L4, B6).
//!
//! One process writes at a time, so what it needs to know of sessions is in memory: its own, which it renews
//! here and writes down with the next batch, and the former ones, which ended when this one opened the store. Leases that are not a
//! process's own are beside them: those are written down with each renewal, and outlive the process.
//!
//! A lease is measured on boot time, and written as a time of day for those who read beside this process. When the time of day
//! is stepped forward, this process is alive as before: its session goes on for what is left of its term (L12).

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hapax_core::{Clock, Error, Lease, Scope, Session, SessionId, Sign, Timestamp};
use hapax_store::Options;
use hapax_store::parts::clock::Onward;
use hapax_store::parts::leased::OpenLeases;
use rusqlite::{Connection, OptionalExtension, params};

use super::fault::Fault;
use super::sum::Sum;
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
    leases: Mutex<Leased>,
}

/// The leases that are not a process's own: those that are open, and those of which a claim may still be held.
struct Leased {
    latest: u64,
    /// Of one tenant, at once.
    most: usize,
    open: OpenLeases,
    known: HashMap<SessionId, Row>,
}

/// A row of `sessions`.
#[derive(Clone, Debug)]
pub(super) struct Row {
    id: SessionId,
    started: Timestamp,
    sign: Sign,
    ended: bool,
    /// Of a lease.
    term: Option<Duration>,
    /// Of a lease: the scope that it was opened for.
    scope: Option<String>,
}

impl Sessions {
    /// Ends all former sessions and starts one. Runs before any command; the caller commits.
    pub(super) fn start(conn: &Connection, clock: Arc<Guarded>, options: &Options) -> Result<Self, Fault> {
        let term = options.term;
        let moment = clock.moment();
        let (former, known) = end_all(conn, moment.time)?;
        let latest = former.keys().chain(known.keys()).map(|id| id.0).max().unwrap_or(0) + 1;
        let own = SessionId(latest);
        let sign = Sign { last: moment.time, until: moment.time.after(term) };
        Row { id: own, started: moment.time, sign, ended: false, term: None, scope: None }.write(conn)?;
        let leases = Mutex::new(Leased::new(latest, known, options.leases_of_tenant, moment.time));
        let renewed = AtomicU64::new(micros(moment.boot));
        let sign = Mutex::new(sign);
        let over = AtomicBool::new(false);
        Ok(Sessions { own, started: moment.time, term, clock, sign, renewed, over, former, leases })
    }

    /// This process's session.
    pub(super) fn own(&self) -> SessionId {
        self.own
    }

    /// How long one renewal of it lasts.
    pub(super) fn term(&self) -> Duration {
        self.term
    }

    /// What the process may count on.
    pub(super) fn session(&self) -> Session {
        // No other process can have opened the store meanwhile (B8).
        Session { id: self.own, term: self.term, left: self.left(self.clock.boot()), lapses: 0 }
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
            let lease = || self.leased().known.get(&id).map(|row| row.sign);
            return self.former.get(&id).copied().or_else(lease).unwrap_or(Sign::UNKNOWN);
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
        let ended = sign.until <= sign.last;
        Row { id: self.own, started: self.started, sign, ended, term: None, scope: None }.write(conn)
    }

    /// Opens a lease. The caller commits.
    pub(super) fn open_lease(
        &self,
        conn: &Connection,
        now: Timestamp,
        scope: &Scope,
        term: Duration,
    ) -> Result<Lease, Fault> {
        let mut leased = self.leased();
        let tenant = scope.tenant().as_str();
        leased.make_room(conn, now, tenant)?;
        leased.latest += 1;
        let (id, until) = (SessionId(leased.latest), now.after(term));
        let (sign, term, scope) = (Sign { last: now, until }, Some(term), Some(scope.to_string()));
        let row = Row { id, started: now, sign, ended: false, term, scope };
        row.write(conn)?;
        leased.open.opened(tenant, id);
        leased.known.insert(id, row);
        Ok(Lease { id, until })
    }

    /// Refuses a lease that is over or of another scope.
    pub(super) fn check_lease(&self, id: SessionId, scope: &Scope, now: Timestamp) -> Result<(), Error> {
        let mut leased = self.leased();
        let owner = leased.open(id, now).and_then(|(row, _)| row.scope.as_deref());
        if owner.is_some_and(|owner| owner == scope.to_string()) { Ok(()) } else { Err(Lease::over()) }
    }

    /// Renews a lease; `None` where it is over. The caller commits, or tells nobody.
    pub(super) fn renew_lease(
        &self,
        conn: &Connection,
        now: Timestamp,
        id: SessionId,
    ) -> Result<Option<Lease>, Fault> {
        let mut leased = self.leased();
        let Some((row, term)) = leased.open(id, now) else { return Ok(None) };
        row.sign = Sign { last: now, until: now.after(term) };
        row.write(conn)?;
        Ok(Some(Lease { id, until: row.sign.until }))
    }

    /// Ends a lease, if it is not over. The caller commits.
    pub(super) fn end_lease(&self, conn: &Connection, now: Timestamp, id: SessionId) -> Result<(), Fault> {
        let mut leased = self.leased();
        let Some((row, _)) = leased.open(id, now) else { return Ok(()) };
        row.sign = Sign { last: now, until: now };
        row.ended = true;
        row.write(conn)
    }

    fn leased(&self) -> MutexGuard<'_, Leased> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Sign> {
        self.sign.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leased {
    fn new(latest: u64, known: HashMap<SessionId, Row>, most: usize, now: Timestamp) -> Self {
        let mut open = OpenLeases::default();
        for row in known.values().filter(|row| now < row.sign.until) {
            // A scope begins with its tenant.
            let tenant = row.scope.as_deref().and_then(|scope| scope.split(':').next());
            open.opened(tenant.unwrap_or_default(), row.id);
        }
        Leased { latest, most, open, known }
    }

    /// A lease that is not over, with its term.
    fn open(&mut self, id: SessionId, now: Timestamp) -> Option<(&mut Row, Duration)> {
        let row = self.known.get_mut(&id).filter(|row| now < row.sign.until)?;
        let term = row.term?;
        Some((row, term))
    }

    /// Makes room for one more of this tenant. A lease that is over has no place; it is remembered until the sweeper has dealt with
    /// what it held.
    fn make_room(&mut self, conn: &Connection, now: Timestamp, tenant: &str) -> Result<(), Fault> {
        let Leased { known, open, .. } = self;
        open.check(tenant, self.most, |id| known.get(&id).is_some_and(|row| now < row.sign.until))?;
        if self.open.is_crowded(self.known.len()) {
            self.forget(conn, now)?;
            self.open.looked(self.known.len());
        }
        Ok(())
    }

    /// Forgets the leases that are over and hold nothing any more.
    fn forget(&mut self, conn: &Connection, now: Timestamp) -> Result<(), Fault> {
        let mut statement = conn.prepare_cached(HOLDING)?;
        let ids = statement.query_map([], |row| row.get::<_, i64>(0))?;
        let holding = ids.map(|id| id.map(|id| SessionId(id.cast_unsigned())));
        let holding = holding.collect::<Result<HashSet<_>, _>>()?;
        let is_needed = |row: &Row| now < row.sign.until || holding.contains(&row.id);
        for row in self.known.values().filter(|row| !is_needed(row)) {
            conn.prepare_cached("DELETE FROM sessions WHERE id = ?1")?.execute([row.id.0.cast_signed()])?;
        }
        self.known.retain(|_, row| is_needed(row));
        Ok(())
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// What is known of former sessions, and the leases that are not a process's own.
type Former = (HashMap<SessionId, Sign>, HashMap<SessionId, Row>);

/// Ends every session of a process that has not ended, and forgets the oldest. They are few: one for each opening. Leases that
/// are not a process's own go on until their term is over.
fn end_all(conn: &Connection, now: Timestamp) -> Result<Former, Fault> {
    let (mut former, mut leases) = (HashMap::new(), HashMap::new());
    let mut statement = conn.prepare(SELECT)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        match read(row) {
            Ok(row) if row.term.is_some() => drop(leases.insert(row.id, row)),
            Ok(mut row) => {
                if !row.ended {
                    (row.sign.until, row.ended) = (now, true);
                    row.write(conn)?;
                }
                former.insert(row.id, row.sign);
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
        let sql = format!("DELETE FROM sessions WHERE id <= ?1 AND term IS NULL AND id NOT IN ({HOLDING})");
        conn.execute(&sql, [oldest])?;
    }
    Ok((former, leases))
}

/// The sessions under which a claim is held.
const HOLDING: &str =
    "SELECT DISTINCT session FROM claims INDEXED BY claims_open WHERE state = 2 AND state <> 3";

/// All sessions, for [`read`].
pub(super) const SELECT: &str =
    "SELECT id, started_at, last_at, until, ended, term, scope, crc FROM sessions";

impl Row {
    fn sum(&self) -> Sum {
        Sum::of("sessions")
            .int(self.id.0.cast_signed())
            .int(self.started.as_micros())
            .int(self.sign.last.as_micros())
            .int(self.sign.until.as_micros())
            .int(i64::from(self.ended))
            .opt(self.stored_term())
            .opt_bytes(self.scope.as_deref().map(str::as_bytes))
    }

    fn stored_term(&self) -> Option<i64> {
        self.term.map(|term| micros(term).cast_signed())
    }

    fn write(&self, conn: &Connection) -> Result<(), Fault> {
        let sql = "INSERT OR REPLACE INTO sessions (id, started_at, last_at, until, ended, term, scope, crc) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        conn.prepare_cached(sql)?.execute(params![
            self.id.0.cast_signed(),
            self.started.as_micros(),
            self.sign.last.as_micros(),
            self.sign.until.as_micros(),
            self.ended,
            self.stored_term(),
            self.scope,
            self.sum().value(),
        ])?;
        Ok(())
    }
}

/// Reads a row of [`SELECT`].
pub(super) fn read(row: &rusqlite::Row<'_>) -> Result<Row, Fault> {
    let term: Option<i64> = row.get(5)?;
    let read = Row {
        id: SessionId(row.get::<_, i64>(0)?.cast_unsigned()),
        started: Timestamp::from_micros(row.get(1)?),
        sign: Sign { last: Timestamp::from_micros(row.get(2)?), until: Timestamp::from_micros(row.get(3)?) },
        ended: row.get::<_, i64>(4)? != 0,
        term: term.map(|term| Duration::from_micros(term.cast_unsigned())),
        scope: row.get(6)?,
    };
    read.sum().check(row.get(7)?, || format!("session {}", read.id.0))?;
    Ok(read)
}

/// What the database says of a session: for a reader beside the process that writes.
pub(super) fn stored_sign(conn: &Connection, id: SessionId) -> Result<Sign, Fault> {
    let sql = format!("{SELECT} WHERE id = ?1");
    let read = conn.prepare_cached(&sql)?.query_row([id.0.cast_signed()], |row| Ok(read(row))).optional()?;
    Ok(match read {
        Some(read) => read?.sign,
        None => Sign::UNKNOWN,
    })
}
