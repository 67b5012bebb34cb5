//! The embedded store: one SQLite database in a folder, for a single instance (B1).
//!
//! One thread writes (`writer`), others read beside it (`reader`), renew the session and sweep
//! (`keeper`), and copy the log into the database (`log`). Handles reach them by bounded channels only
//! (B2). The tables are described in `schema.sql`; people can look into them with any SQLite shell through
//! the view `hapax_claims`.
//!
//! What is kept safe against what:
//! - Nothing is answered before its commit was synced; concurrent commands share one sync (B3).
//! - A failed write stops the store, a full disk refuses new claims (B4, B5).
//! - Every record carries a checksum that is looked at whenever it is read. The log is looked at before it is
//!   replayed.
//! - One process writes; opening the store ends what former processes held (B6).

#![cfg_attr(
    not(test),
    warn(clippy::disallowed_methods, reason = "only `hapax_store::parts::clock` reads the time")
)]

mod audit;
mod batch;
mod claims;
mod copy;
mod events;
mod fault;
mod finder;
mod folder;
mod job;
mod keeper;
mod lanes;
pub mod limits;
mod list;
mod log;
mod merge;
mod ports;
mod reader;
mod readonly;
mod recent;
mod reply;
mod restoring;
mod rows;
mod schema;
mod session;
mod shared;
mod shelf;
mod sieve;
mod space;
mod state;
mod streams;
mod sum;
mod verify;
mod wal;
mod writer;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc as std_mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use hapax_core::{Clock as _, Error, Timestamp};
use hapax_store::table::Table;
use hapax_store::{Lifecycle, Options, Overview, SystemClock, Tally};
use rusqlite::Connection;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use batch::Memory;
use fault::Fault;
use folder::Folder;
use job::{Done, Job, What};
use keeper::{Keeper, Rounds};
use log::{Copier, Log};
use reader::{Desk, Reader, Signs};
use schema::Meta;
use session::{Guarded, Sessions};
use space::Space;
use state::State;
use writer::Writer;

pub use copy::{Progress, StoreCopy};
pub use readonly::EmbeddedReader;
pub use restoring::{Restored, Restoring};
pub use space::{Quota, room_needed};
pub use verify::Verification;

/// A handle on an open embedded store. Clones share it; the last one closes it.
#[derive(Clone)]
pub struct Embedded {
    core: Arc<Core>,
}

struct Core {
    state: Arc<State>,
    jobs: mpsc::Sender<Job>,
    /// For reads that answer a request.
    desk: Desk,
    /// For reads that may take a while.
    archive: Desk,
    running: Mutex<Running>,
    folder: PathBuf,
}

/// The threads, and what tells them to stop.
#[derive(Default)]
struct Running {
    threads: Vec<JoinHandle<()>>,
    /// Dropped to stop those threads that nobody asks for anything.
    stops: Vec<std_mpsc::Sender<()>>,
    /// Heard when a thread ends.
    ends: Vec<oneshot::Receiver<()>>,
}

impl Embedded {
    /// What it notes of its own work.
    pub fn tally(&self) -> &Arc<Tally> {
        &self.core.state.tally
    }

    /// Opens the store in a folder for writing; makes both where there are none, unless the options say otherwise. Blocks for as long as the
    /// disk takes.
    ///
    /// All former sessions end: what they held has lapsed (B6). Refused while another process has the store
    /// open.
    pub fn open(path: impl Into<PathBuf>, options: Options) -> Result<Embedded, Error> {
        Self::open_within(path, options, Quota::default())
    }

    /// Like [`Embedded::open`], with a bound on the room it may take (B5).
    pub fn open_within(path: impl Into<PathBuf>, options: Options, quota: Quota) -> Result<Embedded, Error> {
        let folder = match options.create {
            true => Folder::create(path.into())?,
            false => Folder::with_store(path.into())?,
        };
        let lock = folder.lock()?;
        folder.keep_private();
        let mark = folder.mark()?;
        let clock = options.clock.clone().unwrap_or_else(|| Arc::new(SystemClock::default()));
        folder.make_database(clock.now())?;
        let (conn, meta) = open_database(&folder, mark.read())?;
        let at = folder.database();
        let prepare = || -> Result<_, Fault> {
            warn_if_behind(clock.now(), meta.latest);
            let clock = Arc::new(Guarded::new(clock, meta.latest));
            let (memory, sessions) = begin(&conn, meta, &clock, &options)?;
            let state = State::new(clock, sessions, Table::new(&options, false), &options);
            Ok((memory, Arc::new(state), Space::new(&conn, &folder, quota, options.largest_outcome)?))
        };
        let (mut memory, state, space) = prepare().map_err(|fault| schema::opening_fault(&at, fault))?;
        folder.sync()?;
        mark.write(memory.meta.batch);
        memory.merge.sift(&conn, &at);
        let (log, copier) = Log::new(&conn, &at)?;
        let files = folder.files(&lock)?;
        start(&folder, &options, Writer { conn, memory, state, space, log, mark, lock, files }, copier)
    }

    /// Opens a store for reading, beside the process that writes it or without one (B8). Changes nothing.
    pub fn open_read_only(path: impl Into<PathBuf>) -> Result<EmbeddedReader, Error> {
        EmbeddedReader::open(path.into())
    }

    /// Gives a store that nobody has open a new incarnation, so that every epoch of its new life is greater
    /// than any of the old one (L4). Returns it. A restored store needs this before it is used.
    pub fn renew_incarnation(path: impl Into<PathBuf>) -> Result<u16, Error> {
        let folder = Folder::new(path.into());
        let _lock = folder.lock()?;
        folder.refuse_half_restored()?;
        let mark = folder.mark()?;
        // What was restored is older than what was there: the mark of the former life says nothing about it.
        let (conn, mut meta) = open_database(&folder, 0)?;
        meta.begin_life(SystemClock::default().now())?;
        meta.write(&conn).map_err(|fault| schema::opening_fault(&folder.database(), fault))?;
        mark.write(meta.batch);
        Ok(meta.incarnation)
    }

    /// From now on outcomes of so many bytes may come: a claim that is asked for after this is granted only while there is room
    /// for them on disk (B5). What was reckoned with before is not taken away.
    pub fn reckon_with(&self, largest_outcome: usize) {
        self.core.state.reckon_with(largest_outcome);
    }

    /// Reads everything and checks it: checksums, chains, indexes and counts.
    pub async fn verify(&self) -> Result<Verification, Error> {
        self.core.archive.read(verify::verify).await
    }

    /// Sends a command to the writer and waits for its durable answer.
    async fn send(&self, what: What) -> Result<Done, Error> {
        self.core.state.check()?;
        let (reply, answer) = reply::pair();
        self.core.jobs.try_send(Job { what, reply: Some(reply) }).map_err(|error| match error {
            TrySendError::Full(_) => Error::unavailable("too many commands wait for the store"),
            TrySendError::Closed(_) => self.core.state.stopped().unwrap_or_else(state::closed),
        })?;
        // A writer that went away without an answer may or may not have carried the command out.
        answer.await.unwrap_or_else(|| Err(state::closed()))
    }
}

/// Looks at the files, opens the database and looks at what it is. Only for whoever has the lock.
fn open_database(folder: &Folder, marked: u64) -> Result<(Connection, Meta), Error> {
    space::make_way(folder);
    let length = folder::check_database(&folder.database())?;
    let log = std::fs::metadata(folder.wal()).map_or(0, |file| file.len());
    wal::check(&folder.wal())?;
    // Where a log is there, it may have the pages that the file lacks.
    let whole = (log == 0).then_some(length);
    let (conn, meta) = schema::open_writer(&folder.database(), whole)?;
    if meta.batch < marked {
        return Err(fault::damaged(format_args!(
            "{}: batch {marked} was committed and batch {} is the last one there; restore a backup, or remove the file \
             hapax.mark to accept the loss",
            folder.path().display(),
            meta.batch
        )));
    }
    Ok((conn, meta))
}

/// Whoever had it open saw a later time than it is now: either the clock was ahead then, or it is behind now.
fn warn_if_behind(now: Timestamp, latest: Timestamp) {
    let behind = latest.since(now);
    if behind > limits::CLOCK_BEHIND {
        tracing::warn!(
            seconds = behind.as_secs(),
            "the clock is behind the latest time that the store has written: the store's time goes on from there, somewhat \
             slower, until the clock has come up to it"
        );
    }
}

/// The first transaction: former sessions end, a new one starts, and epochs are set aside for it.
fn begin(
    conn: &Connection,
    mut meta: Meta,
    clock: &Arc<Guarded>,
    options: &Options,
) -> Result<(Memory, Sessions), Fault> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let sessions = Sessions::start(conn, clock.clone(), options)?;
    let mut memory = Memory::read(conn, meta, &sessions)?;
    meta.epoch_reserved += limits::EPOCH_BLOCK;
    meta.batch += 1;
    meta.latest = meta.latest.max(clock.now());
    meta.write(conn)?;
    conn.execute_batch("COMMIT")?;
    memory.meta = meta;
    Ok((memory, sessions))
}

/// Starts the threads.
fn start(folder: &Folder, options: &Options, writer: Writer, copier: Copier) -> Result<Embedded, Error> {
    let state = writer.state.clone();
    let recent = Arc::default();
    let open = || {
        Reader::open(&folder.database(), state.clock.clone(), Signs::Own(state.clone()), Arc::clone(&recent))
    };
    let (jobs, queue) = mpsc::channel(limits::QUEUE);
    let mut running = Running::default();
    let (desk, work) = Desk::new(open()?);
    running.spawn("hapax-read", work)?;
    let (archive, work) = Desk::new(open()?);
    running.spawn("hapax-archive", work)?;
    let rounds = Rounds { sweep: options.sweeper, poll: options.poll };
    if rounds.sweep || rounds.poll {
        let keeper = Keeper {
            state: state.clone(),
            jobs: jobs.clone(),
            reader: open()?,
            rounds,
            seen: HashMap::new(),
        };
        running.spawn_until("hapax-keeper", move |stop| keeper.run(&stop))?;
    }
    if options.heartbeat {
        let (state, jobs, every) = (state.clone(), jobs.clone(), options.term / limits::RENEWALS_PER_TERM);
        running.spawn_until("hapax-beat", move |stop| keeper::beat(&state, &jobs, every, &stop))?;
    }
    let copied = state.clone();
    running.spawn("hapax-copy", move || copier.run(&copied))?;
    running.spawn("hapax-write", move || writer.run(queue))?;
    let (folder, running) = (folder.path().to_owned(), Mutex::new(running));
    Ok(Embedded { core: Arc::new(Core { state, jobs, desk, archive, running, folder }) })
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(work);
    thread.map_err(|error| Error::unavailable("the store's threads cannot be started").with_detail(error))
}

impl Running {
    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let (ended, end) = oneshot::channel();
        let thread = spawn(name, move || {
            work();
            // Only someone who closes the store waits for this.
            let _ = ended.send(());
        })?;
        self.threads.push(thread);
        self.ends.push(end);
        Ok(())
    }

    fn spawn_until(
        &mut self,
        name: &str,
        work: impl FnOnce(std_mpsc::Receiver<()>) + Send + 'static,
    ) -> Result<(), Error> {
        let (stop, stopped) = std_mpsc::channel();
        self.stops.push(stop);
        self.spawn(name, move || work(stopped))
    }
}

impl Lifecycle for Embedded {
    async fn renew_session(&self) -> Result<(), Error> {
        self.send(What::Renew).await.map(|_| ())
    }

    /// A second opener is refused (B8).
    async fn is_shared(&self) -> Result<bool, Error> {
        Ok(false)
    }

    async fn time(&self) -> Result<Timestamp, Error> {
        Ok(self.core.state.clock.now())
    }

    async fn overview(&self) -> Result<Overview, Error> {
        let (folder, now) = (self.core.folder.clone(), self.core.state.clock.now());
        let looked = tokio::task::spawn_blocking(move || (space::taken(&folder), space::free(&folder))).await;
        let (bytes, free) = looked.unwrap_or_default();
        Ok(Overview { now, openers: Vec::new(), bytes, free })
    }

    async fn close(&self) -> Result<(), Error> {
        let ends = self.core.stop();
        let ended = self.send_end().await;
        self.core.state.close();
        self.core.desk.close().await;
        self.core.archive.close().await;
        for end in ends {
            // A thread that panicked has ended too.
            let _ = end.await;
        }
        ended
    }
}

impl Embedded {
    /// The end is taken even by a store that has stopped, so that its files are free again.
    async fn send_end(&self) -> Result<(), Error> {
        let (reply, answer) = reply::pair();
        match self.core.jobs.send(Job { what: What::End, reply: Some(reply) }).await {
            Ok(()) => answer.await.unwrap_or(Ok(Done::Nothing)).map(|_| ()),
            // Closed already.
            Err(_) => Ok(()),
        }
    }
}

impl Core {
    /// Tells the threads to stop that nobody asks for anything, and returns what is heard when threads end.
    fn stop(&self) -> Vec<oneshot::Receiver<()>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.stops.clear();
        std::mem::take(&mut running.ends)
    }
}

impl Drop for Core {
    /// The last handle is gone: ends the session, lets the threads finish, and frees the files.
    fn drop(&mut self) {
        let running = self.running.get_mut().unwrap_or_else(PoisonError::into_inner);
        running.stops.clear();
        while let Err(TrySendError::Full(_)) = self.jobs.try_send(Job { what: What::End, reply: None }) {
            std::thread::sleep(Duration::from_millis(1));
        }
        // The reading threads end when nobody can ask them any more.
        let nobody = mpsc::channel(1).0;
        self.desk = Desk::none();
        self.archive = Desk::none();
        self.jobs = nobody;
        for thread in running.threads.drain(..) {
            // A thread that panicked has said so; here it has ended either way.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded").field("session", &self.core.state.sessions.own()).finish_non_exhaustive()
    }
}
