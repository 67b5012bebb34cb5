//! Carrying out commands within one transaction: read, let the rules decide, write what they decided.

use std::collections::HashMap;
use std::sync::Arc;

use hapax_core::claim::audit::{audit, forgotten};
use hapax_core::claim::is_lapsed_repeat;
use hapax_core::journal::{Append, Erasure, Head, Stream};
use hapax_core::lane::{self, LaneAnswer, LaneCommand, LaneId, Standing, Ticket};
use hapax_core::registry::{Document, DocumentId};
use hapax_core::{
    Answer, Change, Claim, ClaimId, Command, Decision, Epoch, Error, Identity, Lease, Now, OperationId,
    Report, SetAnswer, Sign, State, StateName, SweepReport, Swept, Verb, Verdict, step,
};
use hapax_store::parts::plan::{tells_of_before, written_without};
use rusqlite::Connection;

use super::fault::Fault;
use super::finder;
use super::job::{Done, LaneTold, What};
use super::merge::Merge;
use super::rows::Stored;
use super::schema::Meta;
use super::session::{Moment, Sessions};
use super::shelf::Shelves;
use super::space::Room;
use super::{audit as notes, claims, lanes, shared, streams};
use crate::limits;

/// What became of a claim, for the table and for those who watch it; or of a lane, by its digest, for those who watch that.
#[derive(Debug)]
pub(super) struct Changed {
    pub(super) id: ClaimId,
    /// `None` when it is absent now.
    pub(super) claim: Option<Claim>,
    /// Whether it was written; otherwise it was only read, and may be kept in the table.
    pub(super) written: bool,
    /// Whether it was settled before, so that the table may have it.
    pub(super) was_settled: bool,
}

/// The writer's memory of what is in the database.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) meta: Meta,
    /// The next epoch counter.
    pub(super) next_epoch: u64,
    pub(super) shelves: Shelves,
    pub(super) outcomes: i64,
    /// What finds claims.
    pub(super) merge: Merge,
    /// The session as it was last written.
    pub(super) session: Sign,
    /// Claims that were granted lately and are held: their holders will report soon.
    held: HashMap<ClaimId, Arc<Stored>>,
}

impl Memory {
    /// Reads what the writer must know. None of it takes longer the more claims there are.
    pub(super) fn read(conn: &Connection, meta: Meta, sessions: &Sessions) -> Result<Memory, Fault> {
        Ok(Memory {
            next_epoch: meta.epoch_reserved + 1,
            meta,
            shelves: Shelves::new(claims::held(conn)?),
            outcomes: claims::last_outcome(conn)?,
            merge: Merge::read(conn, &meta.told)?,
            session: sessions.sign(sessions.own()),
            held: HashMap::new(),
        })
    }

    /// Goes back to what is in the database, because a batch was rolled back. Epochs and outcome numbers are
    /// not reused.
    pub(super) fn roll_back(&mut self, meta: Meta, session: Sign, held: u64) {
        (self.meta, self.session) = (meta, session);
        self.shelves.forget(held);
        self.merge.roll_back();
        self.held.clear();
    }

    fn epoch(&self) -> Result<Epoch, Error> {
        Epoch::new(self.meta.incarnation, self.next_epoch)
    }
}

/// One transaction under way.
pub(super) struct Batch<'a> {
    pub(super) conn: &'a Connection,
    pub(super) memory: &'a mut Memory,
    pub(super) sessions: &'a Sessions,
    pub(super) moment: Moment,
    /// How much room there is for new claims.
    pub(super) room: Room,
    /// Something was written, so there is something to commit.
    pub(super) dirty: bool,
    /// The present command has begun to write: its failure cannot be contained any more.
    pub(super) writing: bool,
    /// Kept bytes were destroyed on request, and must not stay in the log either.
    pub(super) wipe: bool,
    pub(super) changed: Vec<Changed>,
}

impl Batch<'_> {
    /// Carries out one command.
    pub(super) fn run(&mut self, what: &What) -> Result<Done, Fault> {
        self.writing = false;
        match what {
            What::Step { claim, command, identity, events } => {
                self.step(claim, command, identity.as_ref(), events).map(Done::Step)
            }
            What::Sweep(due) => self.sweep(due).map(Done::Swept),
            What::Lane(id, told) => self.lane(id, told).map(Done::Lane),
            What::Append(write) => self.append(write).map(Box::new).map(Done::Appended),
            What::Erase { stream, subject, from, limit } => {
                self.erase(stream, subject, *from, *limit).map(Done::Erased)
            }
            What::Put { id, expect, body } => self.put(id, *expect, body).map(Done::Version),
            What::Delete { id, expect } => self.delete(id, *expect).map(|()| Done::Nothing),
            What::Set { id, expect, body, setting } => {
                match body {
                    Some(body) => _ = self.put(id, *expect, body)?,
                    None => self.delete(id, *expect)?,
                }
                notes::write(self.conn, &setting.clone().event(self.moment.time))?;
                Ok(Done::Nothing)
            }
            What::Note(note) => {
                self.dirty = true;
                notes::write(self.conn, &note.clone().event(self.moment.time))?;
                Ok(Done::Nothing)
            }
            What::OpenLease(scope, term) => {
                self.dirty = true;
                self.sessions.open_lease(self.conn, self.moment.time, scope, *term).map(Done::Lease)
            }
            What::RenewLease(scope, lease) => {
                self.sessions.check_lease(*lease, scope, self.moment.time)?;
                let renewed = self.sessions.renew_lease(self.conn, self.moment.time, *lease)?;
                self.dirty |= renewed.is_some();
                Ok(renewed.map(Done::Lease).ok_or_else(Lease::over)?)
            }
            What::EndLease(scope, lease) => {
                if self.sessions.check_lease(*lease, scope, self.moment.time).is_ok() {
                    self.dirty = true;
                    self.sessions.end_lease(self.conn, self.moment.time, *lease)?;
                }
                Ok(Done::Nothing)
            }
            What::Renew => {
                self.sessions.renew(self.moment);
                self.dirty = true;
                Ok(Done::Nothing)
            }
            What::Beat => Ok(Done::Nothing),
            What::End => {
                self.sessions.end(self.moment.time);
                self.dirty = true;
                Ok(Done::Nothing)
            }
        }
    }

    /// Writes what belongs to the batch as a whole; what is left is the commit.
    pub(super) fn finish(&mut self) -> Result<(), Fault> {
        let sign = self.sessions.sign(self.sessions.own());
        if sign != self.memory.session {
            self.dirty = true;
        }
        if !self.dirty {
            return Ok(());
        }
        if sign != self.memory.session {
            self.sessions.write(self.conn, sign)?;
            self.memory.session = sign;
        }
        self.memory.shelves.flush(self.conn)?;
        let meta = &mut self.memory.meta;
        self.memory.merge.write(self.conn, &mut meta.told, self.room.refusing)?;
        meta.batch += 1;
        meta.latest = meta.latest.max(self.moment.time);
        // A block is reserved long before it is used: even a log that lost its end does not lead to an epoch
        // used twice.
        if self.memory.next_epoch + limits::EPOCH_BLOCK / 2 > meta.epoch_reserved {
            meta.epoch_reserved = self.memory.next_epoch + limits::EPOCH_BLOCK;
        }
        meta.write(self.conn)
    }

    /// From here on the command writes.
    fn write(&mut self) {
        self.dirty = true;
        self.writing = true;
    }

    fn now(&self, before: Option<&Stored>) -> Result<Now, Fault> {
        let holder = before.map_or(Sign::UNKNOWN, |stored| self.sessions.sign(stored.claim.session));
        Ok(Now { time: self.moment.time, next_epoch: self.memory.epoch()?, holder })
    }

    fn step(
        &mut self,
        id: &ClaimId,
        command: &Command,
        identity: Option<&Identity>,
        events: &[Append],
    ) -> Result<Answer, Fault> {
        if matches!(command, Command::Hold(_, Report::Renew)) {
            self.sessions.renew(self.moment);
        }
        let before = self.load(id)?;
        self.look_after_lease(command, identity, before.as_deref())?;
        let now = self.now(before.as_deref())?;
        let present = before.as_ref().map(|stored| &stored.claim);
        if let Command::Claim(ask) = command
            && ask.session != self.sessions.own()
            && is_lapsed_repeat(present, ask, &now)
        {
            return Err(Lease::over().into());
        }
        let (change, answer) = step(present, command, &now);
        let note = audit(present, command, &change, &answer, now.time);
        let over = forgotten(present, command, &change, &answer);
        let plan = self.plan(events, &change, &answer)?;
        if grants(&answer) && !matches!(change, Change::None) {
            self.check_room()?;
        }
        if let (Answer::Verdict(Verdict::Replay(_)), Some(stored)) = (&answer, &before) {
            self.changed.push(Changed {
                id: *id,
                claim: Some(stored.claim.clone()),
                written: false,
                was_settled: true,
            });
        }
        if destroys(command) && !matches!(change, Change::None) {
            self.wipe = true;
            self.conn.execute_batch("PRAGMA secure_delete = ON")?;
            let kept = self.keep(id, before.as_deref(), change, identity, now.next_epoch);
            let kept = kept.and_then(|()| self.forget(over));
            self.conn.execute_batch("PRAGMA secure_delete = FAST")?;
            kept?;
        } else {
            self.keep(id, before.as_deref(), change, identity, now.next_epoch)?;
            self.forget(over)?;
        }
        if let Some(note) = note {
            self.write();
            notes::write(self.conn, &note)?;
        }
        if let Some(plan) = plan {
            self.write();
            streams::write(self.conn, plan)?;
        }
        Ok(answer)
    }

    /// What is written to journals with a command that makes this of a claim.
    fn plan(
        &self,
        events: &[Append],
        change: &Change,
        answer: &Answer,
    ) -> Result<Option<streams::Plan>, Fault> {
        if events.is_empty() {
            return Ok(None);
        }
        if *change == Change::None {
            if tells_of_before(answer) && !streams::are_written(self.conn, events)? {
                return Err(written_without().into());
            }
            return Ok(None);
        }
        Ok(Some(self.decide(events)?.0))
    }

    fn decide(&self, events: &[Append]) -> Result<(streams::Plan, Option<Head>), Fault> {
        let (time, sessions) = (self.moment.time, self.sessions);
        streams::decide(self.conn, events, time, |lease| time < sessions.sign(lease).until)
    }

    /// A claim is asked for under a lease of its own scope that is not over, and the renewal of a claim renews the lease that it
    /// hangs on.
    fn look_after_lease(
        &mut self,
        command: &Command,
        identity: Option<&Identity>,
        before: Option<&Stored>,
    ) -> Result<(), Fault> {
        match command {
            Command::Claim(ask) if ask.session != self.sessions.own() => {
                let scope = identity.map(Identity::scope).ok_or_else(Lease::over)?;
                Ok(self.sessions.check_lease(ask.session, scope, self.moment.time)?)
            }
            Command::Hold(epoch, Report::Renew) => {
                let Some(held) = before.filter(|stored| stored.claim.epoch == *epoch) else { return Ok(()) };
                let renewed =
                    self.sessions.renew_lease(self.conn, self.moment.time, held.claim.session)?.is_some();
                self.dirty |= renewed;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Refuses what can be done without while there is no room for the outcome of one more claim. A claim and whatever else asks
    /// get the same answer: who cannot claim must not be told that all is well (M2).
    fn check_room(&self) -> Result<(), Fault> {
        self.room.check(self.memory.shelves.held() + 1).map_err(Fault::from)
    }

    fn lane(&mut self, id: &LaneId, told: &LaneTold) -> Result<LaneAnswer, Fault> {
        let (time, sessions) = (self.moment.time, self.sessions);
        let command = match told {
            LaneTold::Enter(ticket, claim) => {
                LaneCommand::Enter(Ticket::new(*ticket, sessions.own(), *claim, time, sessions.term()))
            }
            LaneTold::Command(command) => command.clone(),
        };
        let before = lanes::read(self.conn, id)?.unwrap_or_default();
        let lives = |session| time < sessions.sign(session).until;
        let asked = lane::asked_about(&before, Some(&command), &lane::Moment { time, lives, standing: () });
        let mut standing = HashMap::new();
        for claim in asked {
            let stored = self.load(&claim)?;
            let now = self.now(stored.as_deref())?;
            standing.insert(claim, Standing::of(stored.as_ref().map(|stored| &stored.claim), &now));
        }
        let standing = |claim: &ClaimId| standing.get(claim).copied().unwrap_or(Standing::InDoubt);
        let (after, answer) = lane::step(&before, &command, &lane::Moment { time, lives, standing });
        if after != before {
            self.write();
            lanes::write(self.conn, id, &after)?;
            self.changed.push(Changed { id: id.digest(), claim: None, written: true, was_settled: false });
        }
        Ok(answer)
    }

    /// A claim as it is stored; what was granted lately is still in memory.
    fn load(&self, id: &ClaimId) -> Result<Option<Arc<Stored>>, Fault> {
        match self.memory.held.get(id) {
            Some(stored) => Ok(Some(stored.clone())),
            None if self.memory.merge.rules_out(id) => Ok(None),
            None => Ok(claims::load(self.conn, id, &self.memory.merge.about(id))?.map(Arc::new)),
        }
    }

    /// Writes what a claim became.
    fn keep(
        &mut self,
        id: &ClaimId,
        before: Option<&Stored>,
        change: Change,
        identity: Option<&Identity>,
        offered: Epoch,
    ) -> Result<(), Fault> {
        let claim = match change {
            Change::None => return Ok(()),
            Change::Put(claim) => Some(claim),
            Change::Remove => None,
        };
        if before.is_none() && claim.is_some() && !self.memory.merge.rules_out(id) {
            finder::check_absent(self.conn, finder::prefix(id.as_bytes()))?;
        }
        self.write();
        self.memory.held.remove(id);
        match (&claim, before) {
            (Some(claim), Some(stored)) if same_opening(&stored.claim, claim) => {
                self.change(id, stored, claim)?
            }
            (Some(claim), Some(stored)) => {
                // An expired claim is opened again: it takes a new place, so that places stay in order of
                // opening.
                self.take_away(id, stored)?;
                self.add(id, claim, identity.cloned().map_or_else(|| stored.identity(), Ok)?)?;
            }
            (Some(claim), None) => {
                let Some(identity) = identity else {
                    return Err(Error::internal("a claim was granted without an identity").into());
                };
                self.add(id, claim, identity.clone())?;
            }
            (None, Some(stored)) => self.take_away(id, stored)?,
            (None, None) => {}
        }
        if claim.as_ref().is_some_and(|claim| claim.epoch == offered) {
            self.memory.next_epoch += 1;
        }
        let settled = before.is_some_and(|stored| stored.claim.state.name() == StateName::Settled);
        self.changed.push(Changed { id: *id, claim, written: true, was_settled: settled });
        Ok(())
    }

    fn change(&mut self, id: &ClaimId, before: &Stored, claim: &Claim) -> Result<(), Fault> {
        claims::update(self.conn, before, id, claim, &mut self.memory.outcomes)?;
        let (from, to) = (before.claim.state.name(), claim.state.name());
        self.memory.shelves.moved(self.conn, before.id, Some(from), Some(to))
    }

    fn add(&mut self, id: &ClaimId, claim: &Claim, identity: Identity) -> Result<(), Fault> {
        let row = self.memory.shelves.place(self.conn, &identity)?;
        let encoded = identity.encode();
        let outcome = claims::insert(self.conn, row, id, claim, &encoded, &mut self.memory.outcomes)?;
        self.memory.merge.note(id, row, true);
        self.memory.shelves.moved(self.conn, row, None, Some(claim.state.name()))?;
        if claim.state.name() == StateName::Held && self.memory.held.len() < limits::HELD_IN_MEMORY {
            let (identity, claim, leaves) = (encoded.into(), claim.clone(), claim.leaves.is_some());
            self.memory.held.insert(*id, Arc::new(Stored { id: row, outcome, leaves, identity, claim }));
        }
        Ok(())
    }

    fn take_away(&mut self, id: &ClaimId, stored: &Stored) -> Result<(), Fault> {
        claims::remove(self.conn, stored)?;
        self.memory.merge.note(id, stored.id, false);
        self.memory.shelves.moved(self.conn, stored.id, Some(stored.claim.state.name()), None)
    }

    fn sweep(&mut self, due: &[(ClaimId, Epoch)]) -> Result<SweepReport, Fault> {
        let mut report = SweepReport::default();
        for (id, epoch) in due {
            let before = match self.load(id) {
                Ok(before) => before,
                // A record that cannot be read is left to the operators; the others go on.
                Err(Fault::Command(_)) => {
                    report.failed += 1;
                    continue;
                }
                Err(fault) => return Err(fault),
            };
            let now = self.now(before.as_deref())?;
            let present = before.as_ref().map(|stored| &stored.claim);
            let command = Command::Sweep(*epoch);
            let (change, answer) = step(present, &command, &now);
            let over = forgotten(present, &command, &change, &answer);
            match answer {
                Answer::Swept(Swept::Forgotten) => report.forgotten += 1,
                Answer::Swept(Swept::Released) => report.released += 1,
                Answer::Swept(Swept::InDoubt) => report.in_doubt += 1,
                _ => {}
            }
            self.keep(id, before.as_deref(), change, None, now.next_epoch)?;
            self.forget(over)?;
        }
        Ok(report)
    }

    /// What was set aside goes with its claim, which was written just now.
    fn forget(&self, over: Option<OperationId>) -> Result<(), Fault> {
        over.map_or(Ok(()), |operation| notes::forget(self.conn, operation))
    }

    fn append(&mut self, write: &Append) -> Result<Head, Fault> {
        self.check_room()?;
        let (plan, head) = self.decide(std::slice::from_ref(write))?;
        self.write();
        streams::write(self.conn, plan)?;
        head.ok_or_else(|| Error::internal("an append has no head").into())
    }

    fn erase(&mut self, stream: &Stream, subject: &str, from: u64, limit: usize) -> Result<Erasure, Fault> {
        let Some(found) = streams::erasing(self.conn, stream, subject, from, limit)? else {
            return Ok(Erasure::default());
        };
        if found.is_empty() {
            return found.write(self.conn);
        }
        self.write();
        self.wipe = true;
        self.conn.execute_batch("PRAGMA secure_delete = ON")?;
        let erased = found.write(self.conn);
        self.conn.execute_batch("PRAGMA secure_delete = FAST")?;
        erased
    }

    fn put(&mut self, id: &DocumentId, expect: u64, body: &bytes::Bytes) -> Result<u64, Fault> {
        self.check_room()?;
        shared::expect(self.conn, id, expect)?;
        let version = expect + 1;
        let document = Document { id: id.clone(), version, body: body.clone(), updated_at: self.moment.time };
        self.write();
        shared::put(self.conn, &document)?;
        Ok(version)
    }

    fn delete(&mut self, id: &DocumentId, expect: u64) -> Result<(), Fault> {
        shared::expect(self.conn, id, expect)?;
        self.write();
        shared::delete(self.conn, id)
    }
}

/// Whether the claim was granted from absent once for both.
fn same_opening(before: &Claim, after: &Claim) -> bool {
    before.operation_id == after.operation_id && before.opened_at == after.opened_at
}

/// Whether an operator wants bytes to be gone from the files, not only from the answers (L8). Those that a reopen moves to
/// the audit as well: a later erase does not reach the place where they were.
fn destroys(command: &Command) -> bool {
    matches!(command, Command::Operate(Decision { verb: Verb::Erase | Verb::Purge | Verb::Reopen, .. }))
}

/// Whether the answer lets new work begin, or keeps an outcome for which no room was set aside.
fn grants(answer: &Answer) -> bool {
    matches!(answer, Answer::Verdict(Verdict::Granted(_)) | Answer::Set(SetAnswer::Stored(_)))
}

/// Whether an outcome that was kept is not kept any more: whoever has read it must not put it in the table.
pub(super) fn sets_aside(changed: &Changed) -> bool {
    use hapax_core::Outcome::Erased;
    changed.written
        && changed
            .claim
            .as_ref()
            .is_some_and(|claim| matches!(claim.state, State::Settled { outcome: Erased, .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use crate::session::Guarded;
    use hapax_core::Timestamp;
    use hapax_store::SystemClock;

    #[test]
    fn epochs_are_reserved_long_before_they_are_used_up() {
        // L4: a log that lost its end must not lead to an epoch that is given out twice.
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::create(place.path().to_owned()).unwrap();
        folder.make_database(Timestamp::ZERO).unwrap();
        let (conn, meta) = crate::open_database(&folder, 0).unwrap();
        let clock = Arc::new(Guarded::new(Arc::new(SystemClock::default()), meta.latest));
        let (mut memory, sessions) =
            crate::begin(&conn, meta, &clock, &hapax_store::Options::default()).unwrap();
        assert!(memory.meta.epoch_reserved >= memory.next_epoch + limits::EPOCH_BLOCK / 2);
        for used in [limits::EPOCH_BLOCK / 2 + 1, limits::EPOCH_BLOCK, 3 * limits::EPOCH_BLOCK] {
            memory.next_epoch += used;
            let mut batch = Batch {
                conn: &conn,
                memory: &mut memory,
                sessions: &sessions,
                moment: clock.moment(),
                room: Room::new(0),
                dirty: true,
                writing: false,
                wipe: false,
                changed: Vec::new(),
            };
            batch.finish().unwrap();
            let kept = Meta::read(&conn).unwrap().epoch_reserved;
            assert_eq!(kept, memory.meta.epoch_reserved);
            assert!(kept >= memory.next_epoch + limits::EPOCH_BLOCK / 2, "{kept} after {used}");
        }
    }
}
