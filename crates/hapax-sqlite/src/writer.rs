//! The thread that writes: it takes what is queued, carries it out in one transaction, syncs once, then
//! answers everybody.
//!
//! There is no timer: while one batch is being synced the next one gathers. Nothing is answered before its
//! commit has returned. A failed write stops the store (B4); a full disk sends the batch round again without
//! its new claims, and if there is still no room for all of it, one by one: what fits is kept (B5).

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use hapax_core::{Error, StateName};
use rusqlite::Connection;
use tokio::sync::mpsc;

use super::batch::{Batch, Changed, Memory, sets_aside};
use super::fault::{Fault, full};
use super::folder::{Files, Lock, Mark};
use super::job::{Job, Told, What};
use super::log::Log;
use super::reply::{Reply, Wakes, own_waker, pair};
use super::space::Space;
use super::state::State;
use crate::limits;

/// Everything the writing thread owns.
pub(super) struct Writer {
    pub(super) conn: Connection,
    pub(super) memory: Memory,
    pub(super) state: Arc<State>,
    pub(super) space: Space,
    pub(super) log: Log,
    pub(super) mark: Mark,
    pub(super) lock: Lock,
    pub(super) files: Files,
}

type Results = Vec<Option<Told>>;

/// Why one attempt at a batch failed.
enum Setback {
    /// This command failed after it had begun to write: the others go on without it.
    Poisoned(usize, Error),
    /// The batch failed.
    Fault(Fault),
}

impl From<Fault> for Setback {
    fn from(fault: Fault) -> Self {
        Setback::Fault(fault)
    }
}

impl Writer {
    /// Works until the store is closed.
    pub(super) fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut batch = Vec::with_capacity(limits::BATCH);
        let mut replies = Replies { wakes: Wakes::default(), farewell: Vec::new() };
        let waker = own_waker();
        while replies.farewell.is_empty() && receive(&mut jobs, &mut batch, &waker, &mut replies.wakes) {
            gather(&mut jobs, &mut batch);
            replies.wakes.wake_all();
            let ends = batch.iter().position(|job| matches!(job.what, What::End));
            let late = ends.map_or_else(Vec::new, |end| batch.split_off(end + 1));
            self.take(&mut batch, &mut replies);
            self.memory.merge.tend(&self.conn);
            late.into_iter().for_each(|job| replies.refuse(job));
        }
        self.state.close();
        jobs.close();
        while let Ok(job) = jobs.try_recv() {
            replies.refuse(job);
        }
        replies.wakes.wake_all();
        let Writer { conn, log, lock, state, memory, files, .. } = self;
        drop(memory);
        if files.missing().is_some() {
            // The last connection to close removes the log, by its name: it would be another store's.
            std::mem::forget(conn);
        } else {
            if state.stopped().is_none() {
                // Nothing is lost if this fails: the log is replayed when the store is opened again.
                let _ = log.finish(&conn);
            }
            drop(conn);
        }
        drop(lock);
        replies.say_farewell();
    }

    /// Carries out one batch and answers it.
    fn take(&mut self, batch: &mut Vec<Job>, replies: &mut Replies) {
        let idle = batch.iter().all(|job| matches!(job.what, What::Beat));
        let mut results: Results = batch.iter().map(|_| None).collect();
        if let Some(error) = self.state.stopped() {
            results.iter_mut().for_each(|result| *result = Some(Err(error.clone())));
        } else {
            match self.carry_out(batch, &mut results) {
                Ok(changed) => self.settle_table(&changed, batch, results, replies),
                Err(error) => {
                    results.iter_mut().for_each(|result| *result = Some(Err(error.clone())));
                    replies.answer(batch, results);
                }
            }
            if let Err(Fault::Io(detail)) = self.log.look(&self.conn, idle) {
                self.state.stop(&detail);
            }
            return;
        }
        replies.answer(batch, results);
    }

    /// After the commit: first the table, then the answers, then those who watch.
    fn settle_table(
        &self,
        changed: &[Changed],
        batch: &mut Vec<Job>,
        results: Results,
        replies: &mut Replies,
    ) {
        let table = &self.state.table;
        for change in changed {
            match &change.claim {
                Some(claim) if claim.state.name() == StateName::Settled => {
                    if sets_aside(change) {
                        table.remove(&change.id);
                    }
                    table.put(change.id, claim);
                }
                // What was not settled is not there.
                _ if change.was_settled => table.remove(&change.id),
                _ => {}
            }
        }
        replies.answer(batch, results);
        if self.state.notify && !self.state.hub.is_idle() {
            let written = changed.iter().filter(|change| change.written);
            written.for_each(|change| self.state.hub.wake(&change.id));
        }
    }

    /// Tries until the batch is committed or nobody can say what became of it.
    fn carry_out(&mut self, jobs: &[Job], results: &mut Results) -> Result<Vec<Changed>, Error> {
        // Read after the commands have come: whoever expected more before it asked has said so.
        self.space.reckon_with(self.state.largest_outcome());
        jobs.iter().filter_map(|job| job.what.outcome()).for_each(|outcome| self.space.saw(outcome.len()));
        if let Err(Fault::Io(detail)) = self.space.look(&self.conn, self.memory.shelves.held()) {
            return Err(self.state.stop(&detail));
        }
        let mut barred: Vec<Option<Error>> = jobs.iter().map(|_| None).collect();
        // Each round bars a command or gives up room, so the rounds are bounded.
        loop {
            let saved = (self.memory.meta, self.memory.session, self.memory.shelves.held());
            let setback = match self.attempt(jobs, &barred, results) {
                Ok(changed) => return Ok(changed),
                Err(setback) => setback,
            };
            if !self.conn.is_autocommit() && self.conn.execute_batch("ROLLBACK").is_err() {
                return Err(self.state.stop("a transaction could not be rolled back"));
            }
            self.memory.roll_back(saved.0, saved.1, saved.2);
            match setback {
                Setback::Poisoned(index, error) => barred[index] = Some(error),
                Setback::Fault(Fault::Full) => match self.space.give_way(&self.conn) {
                    Ok(true) => {}
                    // There is not room for all of it: whatever has room is kept.
                    Ok(false) if jobs.len() > 1 => return self.one_by_one(jobs, results),
                    Ok(false) => return Err(full()),
                    Err(fault) => return Err(fault.for_reader()),
                },
                Setback::Fault(Fault::Io(detail)) => return Err(self.state.stop(&detail)),
                Setback::Fault(Fault::Gone(file)) => return Err(self.state.stop_without(&file)),
                Setback::Fault(Fault::Batch(error)) => return Err(error),
                // Something that they share is damaged: whoever does not need it goes on.
                Setback::Fault(Fault::Command(_)) if jobs.len() > 1 => return self.one_by_one(jobs, results),
                Setback::Fault(Fault::Command(error)) => return Err(error),
            }
        }
    }

    /// Each command in a transaction of its own.
    fn one_by_one(&mut self, jobs: &[Job], results: &mut Results) -> Result<Vec<Changed>, Error> {
        let mut changed = Vec::new();
        for (job, result) in jobs.iter().zip(results.iter_mut()) {
            if let Some(error) = self.state.stopped() {
                *result = Some(Err(error));
                continue;
            }
            let mut own = vec![None];
            match self.carry_out(std::slice::from_ref(job), &mut own) {
                Ok(more) => {
                    changed.extend(more);
                    *result = own.pop().flatten();
                }
                Err(error) => *result = Some(Err(error)),
            }
        }
        Ok(changed)
    }

    /// One transaction.
    fn attempt(
        &mut self,
        jobs: &[Job],
        barred: &[Option<Error>],
        results: &mut Results,
    ) -> Result<Vec<Changed>, Setback> {
        execute(&self.conn, "BEGIN IMMEDIATE")?;
        // Within the transaction: whoever opens the store without the lock does so before it, and is seen, or after its commit.
        if let Some(file) = self.files.missing() {
            return Err(Fault::Gone(file.display().to_string()).into());
        }
        let mut batch = Batch {
            conn: &self.conn,
            memory: &mut self.memory,
            sessions: &self.state.sessions,
            moment: self.state.clock.moment(),
            room: self.space.room(),
            dirty: false,
            writing: false,
            wipe: false,
            changed: Vec::with_capacity(jobs.len()),
        };
        for (index, job) in jobs.iter().enumerate() {
            if let Some(error) = &barred[index] {
                results[index] = Some(Err(error.clone()));
                continue;
            }
            results[index] = Some(match batch.run(&job.what) {
                Ok(done) => Ok(done),
                Err(Fault::Command(error)) if batch.writing || self.conn.is_autocommit() => {
                    return Err(Setback::Poisoned(index, error));
                }
                Err(Fault::Command(error)) => Err(error),
                Err(fault) => return Err(fault.into()),
            });
        }
        batch.finish()?;
        let (dirty, wipe, changed) = (batch.dirty, batch.wipe, batch.changed);
        fail::fail_point!("embedded.before_commit");
        self.commit()?;
        self.memory.merge.committed();
        fail::fail_point!("embedded.after_commit");
        if dirty {
            self.mark.write(self.memory.meta.batch);
            self.log.grew(jobs.len());
        }
        if wipe {
            self.log.wipe();
        }
        self.memory.shelves.trim();
        Ok(changed)
    }

    fn commit(&self) -> Result<(), Fault> {
        fail::fail_point!("embedded.commit", |_| Err(Fault::Io("a failed sync, made by a test".into())));
        execute(&self.conn, "COMMIT")
    }
}

/// Waits for commands; `false` when there will be none any more.
///
/// While others are still to be woken by those whom the last batch has woken, that is waited for first: a while,
/// then they are woken from here.
fn receive(jobs: &mut mpsc::Receiver<Job>, batch: &mut Vec<Job>, waker: &Waker, wakes: &mut Wakes) -> bool {
    let mut patient = true;
    loop {
        match jobs.poll_recv_many(&mut Context::from_waker(waker), batch, limits::BATCH) {
            Poll::Ready(taken) => return taken > 0,
            Poll::Pending if patient && wakes.owed() => {
                std::thread::park_timeout(limits::WAKE_GRACE);
                patient = false;
            }
            Poll::Pending => {
                wakes.wake_all();
                std::thread::park();
            }
        }
    }
}

/// Lets those come along who are just about to ask.
///
/// Everybody who was answered by the last batch asks again at about the same time, and the first to do so
/// must not sail alone. There is no timer in this: as soon as nobody else has come while the others had a
/// chance to run, it goes on.
fn gather(jobs: &mut mpsc::Receiver<Job>, batch: &mut Vec<Job>) {
    let mut calm = 0;
    while calm < CALM && batch.len() < limits::BATCH {
        calm += 1;
        std::thread::yield_now();
        while let Ok(job) = jobs.try_recv() {
            batch.push(job);
            calm = 0;
            if batch.len() == limits::BATCH {
                return;
            }
        }
    }
}

/// How often nobody must have come.
const CALM: usize = 4;

/// A statement without parameters or rows.
fn execute(conn: &Connection, sql: &str) -> Result<(), Fault> {
    conn.prepare_cached(sql)?.execute([])?;
    Ok(())
}

/// What those are told who asked.
struct Replies {
    wakes: Wakes,
    /// Who is told when everything is closed.
    farewell: Vec<(Reply<Told>, Told)>,
}

impl Replies {
    /// Answers a batch. Whoever closes the store is told last, when its files are free again.
    fn answer(&mut self, batch: &mut Vec<Job>, results: Results) {
        for (job, result) in batch.drain(..).zip(results) {
            let result = result.unwrap_or_else(|| Err(Error::internal("a command was not carried out")));
            match (job.reply, job.what) {
                (reply, What::End) => self.farewell.push((reply.unwrap_or_else(|| pair().0), result)),
                (Some(reply), _) => self.wakes.put(reply, result),
                (None, _) => {}
            }
        }
        self.wakes.wake_firsts();
    }

    /// Tells one who came too late.
    fn refuse(&mut self, job: Job) {
        if let Some(reply) = job.reply {
            self.wakes.put(reply, Err(super::state::closed()));
        }
    }

    fn say_farewell(mut self) {
        for (reply, result) in self.farewell {
            self.wakes.put(reply, result);
        }
    }
}
