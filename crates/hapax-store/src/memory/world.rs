//! What a memory store keeps, and how the rules are applied to it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use foldhash::{HashMap, HashSet};
use hapax_core::claim::audit::{AuditEvent, audit, forgotten};
use hapax_core::claim::current;
use hapax_core::journal::{Append, Head, Stream};
use hapax_core::lane::{self, Lane, LaneAnswer, LaneCommand, LaneId, LaneView, Standing};
use hapax_core::registry::{Document, DocumentId};
use hapax_core::{
    Answer, Change, Claim, ClaimId, Command, Counts, Epoch, Error, Filter, Identity, Lease, Now, OperationId,
    Outcome, Page, Record, Scope, SessionId, Shelf, Sign, State, SweepReport, Swept, Timestamp, step,
};

use super::journals::Journaled;
use crate::limits;
use crate::options::Options;
use crate::parts::leased::OpenLeases;
use crate::parts::plan::{Plan, Planned, tells_of_before, written_without};
use crate::parts::{confused, filter, lane_mark};

#[derive(Debug)]
struct Entry {
    serial: u64,
    identity: Identity,
    claim: Claim,
}

#[derive(Debug)]
pub(super) struct Life {
    sign: Sign,
    /// Renews itself as long as it has not ended.
    beating: bool,
    /// Of a lease that is not a process's own: whose it is, and how long one renewal lasts.
    lease: Option<(Scope, Duration)>,
}

/// Whether a command changed the claim: only then is anybody woken.
pub(super) type Changed = bool;

/// Everything a memory store keeps.
#[derive(Debug, Default)]
pub(super) struct World {
    /// Boxed, or a table that grows would move everything it holds.
    claims: HashMap<ClaimId, Box<Entry>>,
    /// Claims in the order in which they were first granted.
    by_serial: BTreeMap<u64, ClaimId>,
    serials: u64,
    epochs: u64,
    sessions: HashMap<SessionId, Life>,
    latest_session: u64,
    open_leases: OpenLeases,
    events: Vec<AuditEvent>,
    /// Where in `events` the outcomes of an operation are kept.
    set_aside: HashMap<OperationId, Vec<usize>>,
    pub(super) journals: BTreeMap<Stream, Journaled>,
    pub(super) documents: BTreeMap<DocumentId, Document>,
    lanes: HashMap<LaneId, Lane>,
}

impl World {
    pub(super) fn start_session(&mut self, now: Timestamp, options: &Options) -> SessionId {
        let sign = Sign { last: now, until: now.after(options.term) };
        self.add_session(Life { sign, beating: options.heartbeat, lease: None })
    }

    fn add_session(&mut self, life: Life) -> SessionId {
        self.latest_session += 1;
        let id = SessionId(self.latest_session);
        self.sessions.insert(id, life);
        id
    }

    pub(super) fn open_lease(
        &mut self,
        scope: &Scope,
        term: Duration,
        most: usize,
        now: Timestamp,
    ) -> Result<Lease, Error> {
        let tenant = scope.tenant().as_str();
        let World { open_leases, sessions, .. } = self;
        open_leases.check(tenant, most, |id| sessions.get(&id).is_some_and(|life| now < life.sign.until))?;
        if self.open_leases.is_crowded(self.sessions.len()) {
            self.forget_leases(now);
            self.open_leases.looked(self.sessions.len());
        }
        let until = now.after(term);
        let life =
            Life { sign: Sign { last: now, until }, beating: false, lease: Some((scope.clone(), term)) };
        let id = self.add_session(life);
        self.open_leases.opened(tenant, id);
        Ok(Lease { id, until })
    }

    /// Forgets the leases that are over and hold nothing any more.
    fn forget_leases(&mut self, now: Timestamp) {
        let held = self.claims.values().filter(|entry| matches!(entry.claim.state, State::Held { .. }));
        let holding: HashSet<SessionId> = held.map(|entry| entry.claim.session).collect();
        self.sessions
            .retain(|id, life| life.lease.is_none() || now < life.sign.until || holding.contains(id));
    }

    /// A lease that is not over.
    fn lease(&mut self, id: SessionId, now: Timestamp) -> Option<&mut Life> {
        self.sessions.get_mut(&id).filter(|life| life.lease.is_some() && now < life.sign.until)
    }

    pub(super) fn renew_lease(&mut self, id: SessionId, now: Timestamp) -> Option<Lease> {
        let life = self.lease(id, now)?;
        let until = now.after(life.lease.as_ref()?.1);
        life.sign = Sign { last: now, until };
        Some(Lease { id, until })
    }

    /// Renews the lease that a claim hangs on, if it is one, for the holder of this epoch.
    pub(super) fn renew_lease_of(&mut self, claim: &ClaimId, epoch: Epoch, now: Timestamp) {
        if let Some(session) =
            self.claim(claim).filter(|claim| claim.epoch == epoch).map(|claim| claim.session)
        {
            self.renew_lease(session, now);
        }
    }

    pub(super) fn end_lease(&mut self, id: SessionId, now: Timestamp) {
        if let Some(life) = self.lease(id, now) {
            life.sign = Sign { last: now, until: now };
        }
    }

    /// Refuses a lease that is over or of another scope.
    pub(super) fn check_lease(&mut self, id: SessionId, scope: &Scope, now: Timestamp) -> Result<(), Error> {
        match self.lease(id, now) {
            Some(Life { lease: Some((owner, _)), .. }) if owner == scope => Ok(()),
            _ => Err(Lease::over()),
        }
    }

    pub(super) fn renew_session(&mut self, id: SessionId, now: Timestamp, options: &Options) {
        if let Some(life) = self.sessions.get_mut(&id) {
            life.sign = Sign { last: now, until: now.after(options.term) };
        }
    }

    pub(super) fn end_session(&mut self, id: SessionId, now: Timestamp) {
        if let Some(life) = self.sessions.get_mut(&id) {
            *life = Life { sign: Sign { last: now, until: now }, beating: false, lease: None };
        }
    }

    /// A session that renews itself is heard of whenever it is looked at.
    pub(super) fn sign(&self, id: SessionId, now: Timestamp) -> Sign {
        match self.sessions.get(&id) {
            Some(Life { sign, beating: true, .. }) => {
                let term = sign.until.since(sign.last);
                Sign { last: now, until: now.after(term) }
            }
            Some(life) => life.sign,
            None => Sign::UNKNOWN,
        }
    }

    pub(super) fn claim(&self, id: &ClaimId) -> Option<&Claim> {
        self.claims.get(id).map(|entry| &entry.claim)
    }

    /// The moment for deciding about a claim. An epoch that is not used up is offered again.
    pub(super) fn moment(&self, claim: Option<&Claim>, time: Timestamp) -> Now {
        let holder = claim.map_or(Sign::UNKNOWN, |claim| self.sign(claim.session, time));
        Now { time, next_epoch: Epoch::from_packed((1 << 48) | (self.epochs + 1)), holder }
    }

    /// Applies one command, as every store does: read, decide, keep, write the audit.
    pub(super) fn apply(
        &mut self,
        id: ClaimId,
        command: &Command,
        identity: Option<&Identity>,
        time: Timestamp,
    ) -> Result<(Answer, Changed), Error> {
        let before = self.claim(&id);
        let now = self.moment(before, time);
        let (change, answer) = step(before, command, &now);
        let note = audit(before, command, &change, &answer, time);
        let over = forgotten(before, command, &change, &answer);
        over.into_iter().for_each(|operation| self.forget(operation));
        note.into_iter().for_each(|event| self.write_down(event));
        let changed = change != Change::None;
        match change {
            Change::None => {}
            Change::Put(claim) => self.put(id, claim, identity, &now)?,
            Change::Remove => self.remove(&id),
        }
        Ok((answer, changed))
    }

    pub(super) fn write_down(&mut self, event: AuditEvent) {
        let keeps = event.outcome.as_ref().is_some_and(|outcome| *outcome != Outcome::Erased);
        if let Some(operation) = event.operation_id().filter(|_| keeps) {
            self.set_aside.entry(operation).or_default().push(self.events.len());
        }
        self.events.push(event);
    }

    fn forget(&mut self, operation: OperationId) {
        for place in self.set_aside.remove(&operation).unwrap_or_default() {
            self.events[place].outcome = Some(Outcome::Erased);
        }
    }

    /// A report with its journal events: all or nothing (L18).
    pub(super) fn apply_with(
        &mut self,
        id: ClaimId,
        command: &Command,
        events: &[Append],
        time: Timestamp,
    ) -> Result<(Answer, Changed), Error> {
        if events.is_empty() {
            return self.apply(id, command, None, time);
        }
        let before = self.claim(&id);
        let (change, answer) = step(before, command, &self.moment(before, time));
        if change == Change::None {
            if tells_of_before(&answer) && !events.iter().all(|write| self.has_written(write)) {
                return Err(written_without());
            }
            return self.apply(id, command, None, time);
        }
        let mut plan = self.plan(events, time);
        for write in events {
            plan.append(write, time)?;
        }
        let applied = self.apply(id, command, None, time)?;
        self.keep_events(plan);
        Ok(applied)
    }

    pub(super) fn append(&mut self, write: &Append, time: Timestamp) -> Result<Head, Error> {
        let mut plan = self.plan(std::slice::from_ref(write), time);
        let head = plan.append(write, time)?;
        self.keep_events(plan);
        Ok(head)
    }

    /// Applies one command to a lane.
    pub(super) fn lane(
        &mut self,
        id: &LaneId,
        command: &LaneCommand,
        time: Timestamp,
    ) -> (LaneAnswer, Changed) {
        let before = self.lanes.get(id).cloned().unwrap_or_default();
        let (after, answer) = lane::step(&before, command, &self.lane_moment(time));
        let changed = after != before;
        match after == Lane::default() {
            true => _ = self.lanes.remove(id),
            false => _ = self.lanes.insert(id.clone(), after),
        }
        (answer, changed)
    }

    /// A page of lanes, in the order of their names.
    pub(super) fn lanes_page(&self, after: Option<&str>, limit: usize) -> Result<Page<LaneId>, Error> {
        let after = after.map(lane_mark::read_mark).transpose()?;
        let mut lanes: Vec<LaneId> =
            self.lanes.keys().filter(|lane| Some(*lane) > after.as_ref()).cloned().collect();
        lanes.sort_unstable();
        lanes.truncate(limit);
        let next = lanes.last().filter(|_| lanes.len() == limit).map(lane_mark::mark);
        Ok(Page::new(lanes, next))
    }

    pub(super) fn look_at_lane(&self, id: &LaneId, time: Timestamp) -> LaneView {
        let empty = Lane::default();
        lane::view(self.lanes.get(id).unwrap_or(&empty), &self.lane_moment(time))
    }

    fn lane_moment(
        &self,
        time: Timestamp,
    ) -> lane::Moment<impl Fn(SessionId) -> bool, impl Fn(&ClaimId) -> Standing> {
        let standing = move |id: &ClaimId| {
            let claim = self.claim(id);
            Standing::of(claim, &self.moment(claim, time))
        };
        lane::Moment { time, lives: move |session| time < self.sign(session, time).until, standing }
    }

    fn has_written(&self, write: &Append) -> bool {
        self.journals.get(&write.stream).is_some_and(|journal| journal.made.contains_key(&write.id))
    }

    fn plan(&self, writes: &[Append], time: Timestamp) -> Plan<()> {
        let mut plan = Plan::default();
        for write in writes {
            let kept = self.journals.get(&write.stream);
            if plan.get_mut(&write.stream).is_none() {
                let lives = kept.is_some_and(|kept| self.lives(&kept.head, time));
                let found = Planned::found(kept.map(|kept| ((), kept.head.clone())), lives);
                plan.insert(write.stream.clone(), found);
            }
            let made = kept.and_then(|kept| kept.made.get(&write.id));
            if let (Some(made), Some(planned)) = (made, plan.get_mut(&write.stream)) {
                planned.known.push((write.id, made.clone()));
            }
        }
        plan
    }

    /// Whether the lease of a stream's runner runs.
    pub(super) fn lives(&self, head: &Head, time: Timestamp) -> bool {
        head.runner.is_some_and(|runner| time < self.sign(runner.lease, time).until)
    }

    fn keep_events(&mut self, plan: Plan<()>) {
        for (stream, planned) in plan.into_written() {
            let Some(head) = planned.head.clone() else { continue };
            self.journals.entry(stream).or_insert_with(|| Journaled::new(head)).keep(planned);
        }
    }

    fn put(
        &mut self,
        id: ClaimId,
        claim: Claim,
        identity: Option<&Identity>,
        now: &Now,
    ) -> Result<(), Error> {
        if claim.epoch == now.next_epoch {
            self.epochs += 1;
        }
        if let Some(entry) = self.claims.get_mut(&id) {
            // What is over and is granted anew is whoever asks for it; a takeover stays what it was.
            if let (None, Some(asks)) = (current(Some(&entry.claim), now), identity) {
                entry.identity = asks.clone();
            }
            entry.claim = claim;
            return Ok(());
        }
        let identity =
            identity.cloned().ok_or_else(|| Error::internal("a claim was granted without an identity"))?;
        self.serials += 1;
        self.by_serial.insert(self.serials, id);
        self.claims.insert(id, Box::new(Entry { serial: self.serials, identity, claim }));
        Ok(())
    }

    fn remove(&mut self, id: &ClaimId) {
        if let Some(entry) = self.claims.remove(id) {
            self.by_serial.remove(&entry.serial);
        }
    }

    pub(super) fn put_document(
        &mut self,
        id: &DocumentId,
        expect: u64,
        body: Bytes,
        now: Timestamp,
    ) -> Result<u64, Error> {
        self.expect_document(id, expect)?;
        let version = expect + 1;
        let document = Document { id: id.clone(), version, body, updated_at: now };
        self.documents.insert(id.clone(), document);
        Ok(version)
    }

    pub(super) fn delete_document(&mut self, id: &DocumentId, expect: u64) -> Result<(), Error> {
        self.expect_document(id, expect)?;
        self.documents.remove(id);
        Ok(())
    }

    pub(super) fn expect_document(&self, id: &DocumentId, expect: u64) -> Result<(), Error> {
        let found = self.documents.get(id).map_or(0, |document| document.version);
        if found == expect {
            return Ok(());
        }
        Err(Error::conflict("the document was written meanwhile")
            .with_detail(format!("expected version {expect}, found {found}")))
    }

    pub(super) fn record(&self, id: &ClaimId, time: Timestamp) -> Option<Record> {
        let entry = self.claims.get(id)?;
        let now = self.moment(Some(&entry.claim), time);
        let claim = current(Some(&entry.claim), &now)?.into_owned();
        Some(Record { identity: entry.identity.clone(), claim })
    }

    pub(super) fn find(&self, operation: OperationId, time: Timestamp) -> Option<Record> {
        let (id, _) = self.claims.iter().find(|(_, entry)| entry.claim.operation_id == operation)?;
        self.record(id, time)
    }

    pub(super) fn list(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
        time: Timestamp,
    ) -> Result<Page<Record>, Error> {
        let (mut items, mut next, mark) = (Vec::new(), None, filter::page_mark(after)?);
        let mut looked_at = 0;
        let newest = filter::newest_first(filter)?;
        // A mark lies beside the first one that was not looked at.
        let before = if mark == 0 { u64::MAX } else { mark };
        let (mut forwards, mut backwards) =
            (self.by_serial.range(mark.saturating_add(1)..), self.by_serial.range(..before).rev());
        let walk = std::iter::from_fn(|| if newest { backwards.next() } else { forwards.next() });
        for (scanned, (serial, id)) in walk.enumerate() {
            if items.len() == limit || scanned == limits::PAGE_SCAN {
                next = Some(if newest { serial + 1 } else { serial - 1 }.to_string());
                break;
            }
            looked_at = scanned + 1;
            items.extend(self.record(id, time).filter(|record| filter::matches(filter, record)));
        }
        Ok(Page { looked_at, ..Page::new(items, next) })
    }

    pub(super) fn count(&self, wanted: &Filter) -> Result<Counts, Error> {
        filter::countable(wanted)?;
        let mut counts = Counts::default();
        for entry in self.claims.values() {
            if filter::is_meant(wanted, &entry.identity, &entry.claim) {
                filter::add(&mut counts, entry.claim.state.name(), 1);
            }
        }
        Ok(counts)
    }

    pub(super) fn shelves(
        &self,
        wanted: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Shelf>, Error> {
        filter::countable(wanted)?;
        let after = after.map(Shelf::read_mark).transpose()?.map(|names| names.map(str::to_owned));
        let mut shelves: BTreeMap<[String; 3], Counts> = BTreeMap::new();
        for entry in
            self.claims.values().filter(|entry| filter::is_meant(wanted, &entry.identity, &entry.claim))
        {
            let parts = entry.identity.scope().narrowed(entry.identity.width());
            let names =
                [parts.tenant(), parts.project(), entry.identity.operation().as_str()].map(str::to_owned);
            if after.as_ref().is_none_or(|after| names > *after) {
                filter::add(shelves.entry(names).or_default(), entry.claim.state.name(), 1);
            }
        }
        let more = shelves.len() > limit;
        let shelf = |([tenant, project, operation], counts): ([String; 3], Counts)| Shelf {
            tenant,
            project,
            operation,
            counts,
        };
        let items: Vec<Shelf> = shelves.into_iter().take(limit).map(shelf).collect();
        let next = items.last().filter(|_| more).map(Shelf::mark);
        Ok(Page::new(items, next))
    }

    pub(super) fn sweep(
        &mut self,
        limit: usize,
        time: Timestamp,
    ) -> Result<(SweepReport, Vec<ClaimId>), Error> {
        let due: Vec<(ClaimId, Epoch)> = self
            .claims
            .iter()
            .filter(|(_, entry)| self.may_be_due(&entry.claim, time))
            .map(|(id, entry)| (*id, entry.claim.epoch))
            .collect();
        let (mut report, mut changed) = (SweepReport::default(), Vec::new());
        for (id, epoch) in due {
            if changed.len() == limit {
                report.more = true;
                break;
            }
            match self.apply(id, &Command::Sweep(epoch), None, time)?.0 {
                Answer::Swept(Swept::Kept) => continue,
                Answer::Swept(Swept::Forgotten) => report.forgotten += 1,
                Answer::Swept(Swept::Released) => report.released += 1,
                Answer::Swept(Swept::InDoubt) => report.in_doubt += 1,
                _ => return Err(confused()),
            }
            changed.push(id);
        }
        Ok((report, changed))
    }

    /// Sweeps those of the next claims behind this serial that are due; gives what changed, and where to go on.
    pub(super) fn sweep_behind(&mut self, serial: u64, time: Timestamp) -> (Vec<ClaimId>, Option<u64>) {
        let visits: Vec<(u64, ClaimId)> =
            self.by_serial.range(serial + 1..).take(limits::SWEEP_CHUNK).map(|(at, id)| (*at, *id)).collect();
        let next = visits.last().filter(|_| visits.len() == limits::SWEEP_CHUNK).map(|(at, _)| *at);
        let mut changed = Vec::new();
        for (_, id) in visits {
            let Some(claim) = self.claim(&id).filter(|claim| self.may_be_due(claim, time)) else { continue };
            let visit = Command::Sweep(claim.epoch);
            // A claim that cannot be swept is left as it is: it is judged anew whenever it is asked for.
            changed
                .extend(self.apply(id, &visit, None, time).is_ok_and(|(_, changed)| changed).then_some(id));
        }
        (changed, next)
    }

    /// Cheap and generous: the rules decide.
    fn may_be_due(&self, claim: &Claim, time: Timestamp) -> bool {
        match claim.state {
            State::Held { run_until } => time >= run_until || time >= self.sign(claim.session, time).until,
            State::Settled { keep_until, .. } => time >= keep_until,
            State::InDoubt { .. } | State::Released { .. } => true,
        }
    }

    pub(super) fn has_set_aside(&self, operation: OperationId) -> bool {
        self.set_aside.contains_key(&operation)
    }

    pub(super) fn audit_page(&self, after: Option<&str>, limit: usize) -> Result<Page<AuditEvent>, Error> {
        let skip = usize::try_from(filter::page_mark(after)?).unwrap_or(usize::MAX);
        let items: Vec<_> = self.events.iter().rev().skip(skip).take(limit).cloned().collect();
        let seen = skip.saturating_add(items.len());
        Ok(Page::new(items, (seen < self.events.len()).then(|| seen.to_string())))
    }
}
