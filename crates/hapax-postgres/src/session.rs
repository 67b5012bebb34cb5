//! This process's session: opening it, renewing it ahead of everything else, and what the process knows of it
//! (L4).
//!
//! The same beat carries the memory table: it extends how long the table may answer and brings what it must
//! forget (B7).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use hapax_core::{AttemptId, ClaimId, Clock, Error, Session, SessionId, Sign, Timestamp};
use hapax_store::parts::clock;
use hapax_store::parts::clock::boot_time;
use tokio::sync::{mpsc, oneshot};

use super::clock::Reading;
use super::failure::Failure;
use super::link::{Line, Link};
use super::queue::closed_error;
use super::row::{Uuid, get, micros, unreadable};
use super::shared::Shared;
use crate::limits;
use hapax_store::{Opener, Overview};

/// A request to the heart.
pub(super) enum Beat {
    /// Renew at once.
    Renew(oneshot::Sender<Result<(), Error>>),
    /// The memory table has something to forget.
    Follow,
}

/// What the process knows of its session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) id: SessionId,
    token: Uuid,
    /// Boot time, read before the latest renewal was sent, and the database's time when it was carried out.
    renewed: Duration,
    renewed_at: Timestamp,
    /// How often it was renewed, or replaced, after it may have lapsed.
    lapses: u64,
    /// How far the memory table has followed the invalidations.
    acked: i64,
    /// Real boot time until which the table may answer.
    table_until: Duration,
}

/// What the process knows of its session, for everybody to read.
pub(super) struct Standing {
    known: RwLock<Known>,
    server: Mutex<Reading>,
    term: Duration,
    clock: Option<Arc<dyn Clock>>,
    /// Whether it was ended: then it is not renewed, and no other one takes its place.
    ended: AtomicBool,
}

impl Standing {
    pub(super) fn new(known: Known, term: Duration, clock: Option<Arc<dyn Clock>>) -> Standing {
        let server = Mutex::new(Reading::new(known.renewed_at, known.renewed));
        Standing { known: RwLock::new(known), server, term, clock, ended: AtomicBool::new(false) }
    }

    pub(super) fn known(&self) -> Known {
        *self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session as the port tells it.
    pub(super) fn session(&self) -> Session {
        let known = self.known();
        let left = (known.renewed + self.term).saturating_sub(self.boot());
        Session { id: known.id, term: self.term, left, lapses: known.lapses }
    }

    /// The database's time or later, for asking the memory table: the time of the latest renewal, what has
    /// passed since it was sent, and as long as the table may go on without hearing of a clock that was set
    /// forward. An outcome that is about to expire is then asked of the database.
    pub(super) fn time(&self) -> Timestamp {
        match &self.clock {
            Some(clock) => clock.now(),
            None => {
                let known = self.known();
                known.renewed_at.after(boot_time().saturating_sub(known.renewed) + limits::TABLE_VALIDITY)
            }
        }
    }

    /// The given clock's time, to be used instead of the database's.
    pub(super) fn given_time(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| clock.now().as_micros())
    }

    /// The standing of a session as it is read at this time of the server's. Only what seems to have lapsed needs a second look:
    /// the server's clock may have been set forward (L12).
    pub(super) fn judge(&self, time: Timestamp, sign: Sign) -> Sign {
        if sign.until > time {
            return sign;
        }
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        server.see(time, self.boot(), self.term);
        server.judge(sign)
    }

    /// Time since the machine started, or on the given clock.
    pub(super) fn boot(&self) -> Duration {
        self.clock.as_ref().map_or_else(boot_time, |clock| clock.elapsed())
    }

    /// Refuses what is about a session that was ended.
    fn check(&self) -> Result<(), Error> {
        match self.ended.load(Ordering::SeqCst) {
            true => Err(closed_error()),
            false => Ok(()),
        }
    }

    fn set(&self, known: Known) {
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        server.follow(known.renewed_at, known.renewed, self.boot(), self.term);
        drop(server);
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
    }
}

impl Known {
    /// Whether the session may have been over before it was renewed now: by the own clock, or by the server's.
    fn has_lapsed(&self, boot: Duration, now: Timestamp, term: Duration) -> bool {
        boot >= self.renewed + term || now >= self.renewed_at.after(term)
    }

    /// Who only reads has no session: there is none with this number. Nor does it know what the server's clock should show, which
    /// is never ahead of this.
    pub(super) fn nobody() -> Known {
        Known {
            id: SessionId(0),
            token: Uuid([0; 16]),
            renewed: Duration::ZERO,
            renewed_at: Timestamp::NEVER,
            lapses: 0,
            acked: 0,
            table_until: Duration::ZERO,
        }
    }
}

/// Opens a session.
pub(super) async fn open(
    link: &mut Link,
    term: Duration,
    clock: Option<&Arc<dyn Clock>>,
) -> Result<Known, Failure> {
    // Sixteen random bytes are what an attempt id is.
    let token = Uuid::from(AttemptId::random());
    let renewed = clock.map_or_else(boot_time, |clock| clock.elapsed());
    let given = clock.map(|clock| clock.now().as_micros());
    let sql = "SELECT id, now, acked FROM hapax.open_session($1, $2, $3)";
    let row = link.query_one(sql, &[&token, &given, &micros(term)]).await?;
    let id: i64 = get(&row, 0)?;
    Ok(Known {
        id: SessionId(id.cast_unsigned()),
        token,
        renewed,
        renewed_at: Timestamp::from_micros(get(&row, 1)?),
        lapses: 0,
        acked: get(&row, 2)?,
        table_until: Duration::ZERO,
    })
}

/// Renews the session as often as its term and the memory table need it, and whenever somebody asks. It goes on over the connection
/// on which the session began: where there are too few, others must not have taken the last, because without a session nothing is
/// granted.
pub(super) async fn beat(shared: Arc<Shared>, mut requests: mpsc::Receiver<Beat>, link: Link) {
    let mut line = Line::over(shared.database.clone(), link);
    let every = interval(&shared);
    loop {
        let due = tokio::time::sleep(every);
        let mut asked: Vec<Beat> = Vec::new();
        tokio::select! {
            biased;
            request = requests.recv() => match request {
                Some(request) => asked.push(request),
                None => return,
            },
            () = due, if shared.options.heartbeat => {}
        }
        while let Ok(more) = requests.try_recv() {
            asked.push(more);
        }
        let follow_only = !asked.is_empty() && asked.iter().all(|beat| matches!(beat, Beat::Follow));
        let renew = shared.options.heartbeat || !follow_only;
        let renewed = beat_until(&shared, &mut line, renew, every).await;
        for request in asked {
            if let Beat::Renew(reply) = request {
                // Whoever asked may have gone.
                let _ = reply.send(renewed.clone());
            }
        }
    }
}

fn interval(shared: &Shared) -> Duration {
    let renewal = shared.options.term / limits::RENEWALS_PER_TERM;
    if shared.options.table_entries > 0 { renewal.min(limits::TABLE_BEAT) } else { renewal }
}

/// Tries until it works or the next beat is due.
async fn beat_until(shared: &Shared, line: &mut Line, renew: bool, within: Duration) -> Result<(), Error> {
    let bound = within.max(shared.options.patience);
    let began = clock::timer_now();
    loop {
        let tried = match line.link().await {
            Ok(link) => {
                let tried = beat_on(shared, link, renew).await;
                if tried.is_ok() {
                    line.serves();
                } else {
                    line.give_up();
                }
                tried
            }
            Err(failure) => Err(failure),
        };
        let Err(failure) = tried else { return Ok(()) };
        if matches!(failure, Failure::Refused(_)) || began.elapsed() >= bound {
            return Err(failure.into_error());
        }
    }
}

/// One beat. What the table must forget is confirmed at once, because somebody waits for it.
async fn beat_on(shared: &Shared, link: &mut Link, renew: bool) -> Result<(), Failure> {
    while beat_once(shared, link, renew).await? {}
    Ok(())
}

/// Whether there was something to forget.
async fn beat_once(shared: &Shared, link: &mut Link, renew: bool) -> Result<bool, Failure> {
    shared.session.check()?;
    let known = shared.session.known();
    let (boot, sent) = (shared.session.boot(), boot_time());
    let validity = shared.options.table_validity.min(limits::TABLE_VALIDITY);
    let validity = if shared.options.table_entries > 0 { validity } else { Duration::ZERO };
    let sql = "SELECT now, acked, forget FROM hapax.renew_session($1, $2, $3, $4, $5, $6)";
    let id = known.id.0.cast_signed();
    let (given, term) = (shared.session.given_time(), renew.then(|| micros(shared.options.term)));
    let found =
        link.query_opt(sql, &[&id, &known.token, &given, &term, &known.acked, &micros(validity)]).await?;
    let Some(row) = found else {
        shared.session.check()?;
        // The row is gone: whatever it held has lapsed. A new session starts with nothing.
        let fresh = open(link, shared.options.term, shared.options.clock.as_ref()).await?;
        shared.table.clear();
        shared.session.set(Known { lapses: known.lapses + 1, ..fresh });
        return Ok(true);
    };
    let acked: i64 = get(&row, 1)?;
    let forget: Option<Vec<&[u8]>> = get(&row, 2)?;
    let told = forget.as_ref().map_or(0, Vec::len);
    let missed = acked - known.acked > i64::try_from(told).unwrap_or(i64::MAX);
    if (renew && sent >= known.table_until) || missed {
        // Invalidations may have come and gone while nobody listened, or have gone early because the server's clock was set
        // forward: then their numbers are missing.
        shared.table.clear();
    }
    for digest in forget.iter().flatten() {
        let digest = (*digest).try_into().map_err(|_| unreadable("digest"))?;
        shared.table.remove(&ClaimId::from_bytes(digest));
    }
    if renew {
        let renewed_at = Timestamp::from_micros(get(&row, 0)?);
        let lapses = known.lapses + u64::from(known.has_lapsed(boot, renewed_at, shared.options.term));
        let table_until = sent + validity;
        shared.session.set(Known { renewed: boot, renewed_at, lapses, acked, table_until, ..known });
        shared.table.valid_for(sent, validity);
    } else {
        shared.session.set(Known { acked, ..known });
    }
    Ok(acked > known.acked)
}

/// Whether another session has its term running.
pub(super) async fn is_one_of_several(shared: &Shared, link: &mut Link) -> Result<bool, Failure> {
    let own = shared.session.known().id.0.cast_signed();
    let sql = "SELECT EXISTS (SELECT FROM hapax.sessions WHERE id <> $1 AND term IS NULL AND until > coalesce($2::bigint, hapax.clock()))";
    Ok(get(&link.query_one(sql, &[&own, &shared.session.given_time()]).await?, 0)?)
}

/// What the server's clock shows.
pub(super) async fn time(shared: &Shared, link: &mut Link) -> Result<Timestamp, Failure> {
    let sql = "SELECT coalesce($1::bigint, hapax.clock())";
    let micros: i64 = get(&link.query_one(sql, &[&shared.session.given_time()]).await?, 0)?;
    Ok(Timestamp::from_micros(micros))
}

/// The sessions of processes, and how much room the tables take.
pub(super) async fn overview(shared: &Shared, link: &mut Link) -> Result<Overview, Failure> {
    let mut told = Overview { now: time(shared, link).await?, ..Overview::default() };
    let size = link.query_one(SIZE, &[]).await?;
    told.bytes = u64::try_from(get::<i64>(&size, 0)?).ok();
    for row in link.query(OPENERS, &[]).await? {
        let at = |column| get(&row, column).map(Timestamp::from_micros);
        let session = SessionId(get::<i64>(&row, 0)?.cast_unsigned());
        told.openers.push(Opener { session, opened_at: at(1)?, last_at: at(2)?, until: at(3)? });
    }
    told.openers.reverse();
    Ok(told)
}

const SIZE: &str = "\
    SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c \
    WHERE c.relnamespace = 'hapax'::regnamespace AND c.relkind = 'r'";

/// The latest ones: sessions that are over are kept for a while.
const OPENERS: &str = "\
    SELECT id, opened_at, last, until FROM hapax.sessions WHERE term IS NULL ORDER BY id DESC LIMIT 1000";

/// Ends the session: what it held has lapsed, and where it holds nothing, nobody will ask for it again.
pub(super) async fn end(shared: &Shared, link: &mut Link) -> Result<(), Failure> {
    shared.session.ended.store(true, Ordering::SeqCst);
    let known = shared.session.known();
    let (id, given) = (known.id.0.cast_signed(), shared.session.given_time());
    link.query(END, &[&id, &known.token, &given]).await?;
    link.query(FORGET, &[&id, &known.token]).await?;
    Ok(())
}

const END: &str = "\
    UPDATE hapax.sessions SET last = t.now, until = t.now, table_until = 0 \
    FROM (SELECT coalesce($3::bigint, hapax.clock()) AS now) t WHERE id = $1 AND token = $2";

/// Claims that are held are among those that the sweeper has met, or between the epochs that the tally names.
const FORGET: &str = "\
    DELETE FROM hapax.sessions s WHERE s.id = $1 AND s.token = $2 \
        AND NOT EXISTS (SELECT FROM hapax.unsettled u JOIN hapax.claims c ON c.digest = u.digest \
            WHERE u.state = 'H' AND c.state = 'H' AND c.session = s.id) \
        AND NOT EXISTS (SELECT FROM hapax.tally t \
            JOIN hapax.claims c ON c.shelf = t.shelf AND c.epoch BETWEEN t.first AND t.last \
            WHERE c.state = 'H' AND c.session = s.id)";
