//! Reading beside the writer: connections of their own, in threads of their own.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use hapax_core::claim::{current, view};
use hapax_core::journal::{Listed, StreamFilter};
use hapax_core::{
    Claim, ClaimId, Epoch, Error, Now, OperationId, Page, Record, SessionId, Sign, State as ClaimState,
    Timestamp, View,
};
use rusqlite::{Connection, params};
use tokio::sync::{mpsc, oneshot};

use super::claims;
use super::fault::Fault;
use super::finder::{self, Said};
use super::recent::Recent;
use super::rows::Stored;
use super::schema::{self, Meta};
use super::session::{Guarded, stored_sign};
use super::state::{State, closed};
use super::streams;
use crate::limits;

/// Where a reader learns of sessions.
#[derive(Clone)]
pub(super) enum Signs {
    /// From the process that writes: this one.
    Own(Arc<State>),
    /// From what the process that writes has written down.
    Stored,
}

/// A connection for reading.
pub(super) struct Reader {
    pub(super) conn: Connection,
    pub(super) clock: Arc<Guarded>,
    signs: Signs,
    /// What the index that finds claims may not know, for all readers of one store together.
    recent: Arc<Mutex<Recent>>,
}

impl Reader {
    /// Opens a connection.
    pub(super) fn open(
        path: &Path,
        clock: Arc<Guarded>,
        signs: Signs,
        recent: Arc<Mutex<Recent>>,
    ) -> Result<Self, Error> {
        Ok(Reader { conn: schema::open_reader(path)?, clock, signs, recent })
    }

    /// One view of the store for several reads. What is learned from the notes comes first.
    fn view<S, T>(
        &self,
        learn: impl FnOnce(Meta) -> Result<S, Fault>,
        read: impl FnOnce(S) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.conn.prepare_cached("BEGIN")?.execute([])?;
        let done = Meta::read(&self.conn).and_then(learn).and_then(read);
        self.conn.prepare_cached("COMMIT")?.execute([])?;
        done
    }

    /// One view of the store, with what was noted about digests that begin like this.
    fn view_of<T>(&self, prefix: i64, read: impl FnOnce(Said) -> Result<T, Fault>) -> Result<T, Fault> {
        // Before the view begins: so the notes are never ahead of it, and need not be read again.
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let learn = move |meta: Meta| {
            recent.catch_up(&self.conn, &meta.told)?;
            Ok(recent.about(prefix))
        };
        self.view(learn, read)
    }

    /// One view of the store for whoever reads for long, and so with notes of their own.
    pub(super) fn view_with<T>(
        &self,
        recent: &mut Recent,
        read: impl FnOnce(&Recent) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.view(move |meta| recent.catch_up(&self.conn, &meta.told).map(move |()| &*recent), read)
    }

    /// Reads a claim with everything that belongs to it.
    pub(super) fn load(&self, id: &ClaimId) -> Result<Option<Stored>, Fault> {
        let prefix = finder::prefix(id.as_bytes());
        self.view_of(prefix, |said| claims::load(&self.conn, id, &said))
    }

    /// What is known of a session.
    pub(super) fn sign(&self, session: SessionId) -> Result<Sign, Fault> {
        match &self.signs {
            Signs::Own(state) => Ok(state.sessions.sign(session)),
            Signs::Stored => stored_sign(&self.conn, session),
        }
    }

    /// The moment at which a reader looks at a claim.
    pub(super) fn now(&self, claim: &Claim, time: Timestamp) -> Result<Now, Fault> {
        Ok(Now { time, next_epoch: Epoch::from_packed(u64::MAX), holder: self.sign(claim.session)? })
    }

    /// What a reader sees of a claim.
    pub(super) fn peek(&self, id: &ClaimId) -> Result<Option<View>, Fault> {
        let mark = self.table_mark();
        let Some(stored) = self.load(id)? else { return Ok(None) };
        fail::fail_point!("embedded.has_read");
        if let (Signs::Own(state), Some(mark)) = (&self.signs, mark)
            && matches!(stored.claim.state, ClaimState::Settled { .. })
        {
            state.table.put_read(mark, *id, &stored.claim);
        }
        let now = self.now(&stored.claim, self.clock.now())?;
        Ok(view(Some(&stored.claim), &now))
    }

    fn table_mark(&self) -> Option<hapax_store::table::Mark> {
        match &self.signs {
            Signs::Own(state) => Some(state.table.mark()),
            Signs::Stored => None,
        }
    }

    /// A claim with what it is about.
    pub(super) fn record(&self, id: &ClaimId) -> Result<Option<Record>, Fault> {
        match self.load(id)? {
            Some(stored) => self.standing(stored, self.clock.now()),
            None => Ok(None),
        }
    }

    /// A claim by its public id, whose first bytes are those of the digest.
    pub(super) fn find(&self, operation: OperationId) -> Result<Option<Record>, Fault> {
        let prefix = finder::prefix(operation.claim_prefix());
        let found = self.view_of(prefix, |said| {
            for row in finder::rows(&self.conn, prefix, &said)? {
                let (_, mut stored) = claims::load_row(&self.conn, row, prefix)?;
                if stored.claim.operation_id == operation {
                    claims::complete(&self.conn, &mut stored)?;
                    return Ok(Some(stored));
                }
            }
            Ok(None)
        })?;
        found.map_or(Ok(None), |stored| self.standing(stored, self.clock.now()))
    }

    /// Streams in the order of their names, with whether their runners live.
    pub(super) fn list_streams(
        &self,
        filter: &StreamFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Listed>, Fault> {
        let now = self.clock.now();
        streams::list(&self.conn, filter, after, limit, |lease| Ok(now < self.sign(lease)?.until))
    }

    /// The record as it stands; `None` when time has made it absent.
    pub(super) fn standing(&self, stored: Stored, time: Timestamp) -> Result<Option<Record>, Fault> {
        let identity = stored.identity()?;
        let now = self.now(&stored.claim, time)?;
        Ok(current(Some(&stored.claim), &now).map(|claim| Record { identity, claim: claim.into_owned() }))
    }

    /// Claims that time has changed, as the sweeper looks for them: a few more than `limit` at most.
    pub(super) fn due(&self, limit: usize) -> Result<Vec<(ClaimId, Epoch)>, Fault> {
        let time = self.clock.now();
        let mut due = self.lapsed(time, limit)?;
        let sql = "SELECT digest, epoch FROM claims INDEXED BY claims_due \
                   WHERE due <= ?1 AND due < 9223372036854775807 ORDER BY due LIMIT ?2";
        let mut statement = self.conn.prepare_cached(sql)?;
        let room = i64::try_from(limit.saturating_sub(due.len())).unwrap_or(i64::MAX);
        let mut rows = statement.query(params![time.as_micros(), room])?;
        while let Some(row) = rows.next()? {
            due.push((ClaimId::from_bytes(row.get(0)?), epoch(row.get(1)?)));
        }
        Ok(due)
    }

    /// Held claims whose session or whose time to run is over. Reads what is held, and nothing else.
    fn lapsed(&self, time: Timestamp, limit: usize) -> Result<Vec<(ClaimId, Epoch)>, Fault> {
        let sql = "SELECT digest, epoch, session, until FROM claims INDEXED BY claims_open \
                   WHERE state = 2 AND state <> 3";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        let (mut lapsed, mut last) = (Vec::new(), None);
        while let Some(row) = rows.next()? {
            let session = SessionId(row.get::<_, i64>(2)?.cast_unsigned());
            let until = match last {
                Some((known, until)) if known == session => until,
                _ => self.sign(session)?.until,
            };
            last = Some((session, until));
            if time >= until || time.as_micros() >= row.get::<_, i64>(3)? {
                lapsed.push((ClaimId::from_bytes(row.get(0)?), epoch(row.get(1)?)));
                if lapsed.len() >= limit {
                    break;
                }
            }
        }
        Ok(lapsed)
    }
}

fn epoch(packed: i64) -> Epoch {
    Epoch::from_packed(packed.cast_unsigned())
}

type Read = Box<dyn FnOnce(&Reader) + Send>;

/// What a reading thread is told.
enum Order {
    Read(Read),
    Close,
}

/// A reading thread.
#[derive(Clone)]
pub(super) struct Desk(mpsc::Sender<Order>);

impl Desk {
    /// A desk, and the work of the thread that sits at it.
    pub(super) fn new(reader: Reader) -> (Desk, impl FnOnce() + Send + 'static) {
        let (sender, mut orders) = mpsc::channel(limits::READ_QUEUE);
        let work = move || {
            while let Some(Order::Read(read)) = orders.blocking_recv() {
                read(&reader);
            }
        };
        (Desk(sender), work)
    }

    /// Ends the thread once it has read what it was asked for before.
    pub(super) async fn close(&self) {
        // It may have ended already.
        let _ = self.0.send(Order::Close).await;
    }

    /// A desk at which nobody sits.
    pub(super) fn none() -> Desk {
        Desk(mpsc::channel(1).0)
    }

    /// Reads something.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Reader) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let read: Read = Box::new(move |reader| {
            // Whoever asked may have gone.
            let _ = reply.send(read(reader).map_err(Fault::for_reader));
        });
        self.0.try_send(Order::Read(read)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Error::unavailable("too many reads wait for the store"),
            mpsc::error::TrySendError::Closed(_) => closed(),
        })?;
        answer.await.map_err(|_| closed())?
    }
}
