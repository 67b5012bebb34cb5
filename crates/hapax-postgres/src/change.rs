//! The slow path: lock one claim, let `step` decide, write what it decided (L1).
//!
//! A row that somebody else keeps locked is *busy*, which is never a lost lease. What can be told without changing it is told;
//! everybody else looks again soon. Nobody is told that a claim is held which could be granted: whoever has it
//! locked is perhaps about to get it, and perhaps about to leave it as it is.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hapax_core::claim::audit::{AuditEvent, audit, forgotten};
use hapax_core::claim::{current, is_lapsed_repeat};
use hapax_core::journal::Append;
use hapax_core::{
    Answer, Ask, Cause, Change, Claim, ClaimId, Command, Ending, Error, Identity, Lease, Now, Operated,
    SessionId, Sign, Swept, Timestamp, Verdict, step,
};
use hapax_store::parts::plan::{tells_of_before, written_without};
use hapax_store::parts::setting::{self, ClaimColumns};
use tokio::sync::oneshot;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::answer::verdict_of;
use super::batch::{Claiming, Settling};
use super::confused;
use super::desk::Resend;
use super::failure::Failure;
use super::journal;
use super::leases;
use super::link::Link;
use super::row::{
    Letter, OutcomeColumns, StateColumns, Stored, Uuid, epoch, get, letter, pack_doubted, pack_fingerprint,
    pack_terms, packed, ran_letter, state_letter,
};
use super::shared::Shared;
use super::shelf::ShelfName;

/// A command for one claim.
pub(super) struct Order {
    pub(super) id: ClaimId,
    pub(super) command: Command,
    /// Whose claim it is, for commands that can make one.
    pub(super) identity: Option<Identity>,
    /// What is written to journals with it (L18).
    pub(super) events: Vec<Append>,
    /// For a claim: the lease that it is asked for under, unless that is the process's own session.
    pub(super) lease: Option<SessionId>,
}

/// An order with whoever waits for its answer.
pub(super) struct Awaited<T> {
    order: Order,
    reply: oneshot::Sender<Result<T, Error>>,
    pick: fn(Answer) -> Result<T, Error>,
}

impl Order {
    /// A claim that a batch could not decide.
    pub(super) fn claim(claiming: Claiming) -> Awaited<Verdict> {
        let Claiming { id, ask, identity, reply, .. } = claiming;
        let order = Order {
            id,
            command: Command::Claim(ask),
            identity: Some(identity),
            events: Vec::new(),
            lease: None,
        };
        Awaited { order, reply, pick: verdict }
    }

    /// A settle that a batch could not carry out. What was granted is over, or not what it was.
    pub(super) fn settle(shared: &Shared, settling: Settling) -> Awaited<Ending> {
        shared.recall(&settling.id, settling.epoch);
        let command = settling.command();
        let order = Order { id: settling.id, command, identity: None, events: Vec::new(), lease: None };
        Awaited { order, reply: settling.reply, pick: ending }
    }
}

impl<T: Send + 'static> Awaited<T> {
    /// Has the order carried out at the desk.
    pub(super) fn hand_in(self, shared: &Arc<Shared>) {
        let Awaited { order, reply, pick } = self;
        let (shared_there, unsure) = (shared.clone(), AtomicBool::new(false));
        shared.hand_in(Resend::Always, reply, async move |link: &mut Link| {
            Ok(pick(carry_out(&shared_there, link, &order, &unsure).await?)?)
        });
    }
}

impl Shared {
    /// Has an order carried out at the desk.
    pub(super) async fn order(self: &Arc<Self>, resend: Resend, order: Order) -> Result<Answer, Error> {
        let (shared, unsure) = (self.clone(), AtomicBool::new(false));
        self.ask(resend, async move |link: &mut Link| carry_out(&shared, link, &order, &unsure).await).await
    }
}

pub(super) fn verdict(answer: Answer) -> Result<Verdict, Error> {
    match answer {
        Answer::Verdict(verdict) => Ok(verdict),
        _ => Err(confused()),
    }
}

pub(super) fn ending(answer: Answer) -> Result<Ending, Error> {
    match answer {
        Answer::Ending(ending) => Ok(ending),
        _ => Err(confused()),
    }
}

/// Carries an order out. `unsure` tells, from one attempt to the next, that an earlier one may have been
/// committed.
pub(super) async fn carry_out(
    shared: &Shared,
    link: &mut Link,
    order: &Order,
    unsure: &AtomicBool,
) -> Result<Answer, Failure> {
    let shelf = number_shelf(shared, link, order).await?;
    let command = match order.lease {
        Some(_) => Cow::Borrowed(&order.command),
        None => present(shared, &order.command).await?,
    };
    let command = command.as_ref();
    let locked = lock(shared, link, order).await?;
    let before = locked.stored.as_ref();
    if locked.busy {
        link.rollback().await?;
        return busy(order, before, &locked.now);
    }
    let claim = before.map(|stored| &stored.claim);
    if let (Some(lease), Command::Claim(ask)) = (order.lease, command) {
        leases::check(link, lease, order.identity.as_ref(), locked.now.time, &shared.session).await?;
        if is_lapsed_repeat(claim, ask, &locked.now) {
            return Err(Lease::over().into());
        }
    }
    let (change, answer) = step(claim, command, &locked.now);
    if let (Command::Operate(decision), Some(stored)) = (command, before)
        && change != Change::None
        && must_leave_first(stored)
    {
        // A memory table may have taken the claim in again. That the epoch has changed to the one that was seen is no answer of the
        // rules: whoever ordered this sends the claim away again.
        link.rollback().await?;
        return Ok(Answer::Operated(Operated::Changed { epoch: decision.seen }));
    }
    let note = audit(claim, command, &change, &answer, locked.now.time);
    let repeated = unsure.load(Ordering::SeqCst) && change == Change::None;
    if repeated && let Some(stored) = before {
        // The first attempt was committed and nobody was told.
        shared.watchers.changed(&order.id, stored.watched);
    }
    let events = if change == Change::None { &[] } else { &order.events[..] };
    if change == Change::None
        && !order.events.is_empty()
        && tells_of_before(&answer)
        && !journal::are_written(link, &order.events).await?
    {
        return Err(written_without().into());
    }
    if change == Change::None && note.is_none() && events.is_empty() {
        link.rollback().await?;
        return Ok(answer);
    }
    journal::append_all(link, events, locked.now.time, Some(&shared.session)).await?;
    let written = write(link, order, &locked, &change, shelf).await?;
    if let Some(operation) = forgotten(claim, command, &change, &answer) {
        link.query("SELECT hapax.forget_set_aside($1)", &[&Uuid::from(operation)]).await?;
    }
    if let Some(event) = &note {
        write_audit(link, event).await?;
    }
    link.commit().await.inspect_err(|_| unsure.store(true, Ordering::SeqCst))?;
    if let Some(watched) = written {
        shared.table.remove(&order.id);
        shared.watchers.changed(&order.id, watched);
    }
    Ok(answer)
}

/// The command as it is sent now: the session that asks may have lapsed, or be another one, since it was handed in.
async fn present<'a>(shared: &Shared, command: &'a Command) -> Result<Cow<'a, Command>, Error> {
    let Command::Claim(ask) = command else { return Ok(Cow::Borrowed(command)) };
    let session = shared.standing().await?;
    Ok(match ask.session == session {
        true => Cow::Borrowed(command),
        false => Cow::Owned(Command::Claim(Ask { session, ..ask.clone() })),
    })
}

/// Whether memory tables may still answer for a claim that an operator changes.
fn must_leave_first(stored: &Stored) -> bool {
    stored.claim.kept().is_some() && !stored.leaving
}

/// A grant needs the number of its shelf, and giving one out is a transaction of its own.
async fn number_shelf(shared: &Shared, link: &mut Link, order: &Order) -> Result<Option<i32>, Failure> {
    let Some(identity) = &order.identity else { return Ok(None) };
    let name = ShelfName::of(identity);
    shared.database.shelves.number(link, &[&name]).await?;
    Ok(shared.database.shelves.get(&name))
}

/// A claim with its row locked, unless somebody else has it.
pub(super) struct Locked {
    busy: bool,
    pub(super) now: Now,
    pub(super) stored: Option<Stored>,
}

impl Locked {
    /// Reads what `hapax.lock_claim` gave.
    pub(super) fn read(row: &Row) -> Result<Locked, Error> {
        let stored = Stored::read(row, 3)?;
        let holder = stored.as_ref().map_or(Sign::UNKNOWN, |stored| stored.holder);
        let now = Now { time: Timestamp::from_micros(get(row, 0)?), next_epoch: epoch(get(row, 1)?), holder };
        Ok(Locked { busy: get(row, 2)?, now, stored })
    }
}

async fn lock(shared: &Shared, link: &mut Link, order: &Order) -> Result<Locked, Failure> {
    let rows = link.begin(LOCK, &[&digest(order), &shared.session.given_time(), &false]).await?;
    let mut locked = Locked::read(rows.first().ok_or_else(confused)?)?;
    locked.now.holder = shared.session.judge(locked.now.time, locked.now.holder);
    Ok(locked)
}

pub(super) const LOCK: &str = "SELECT * FROM hapax.lock_claim($1, $2, $3)";

/// Nothing can be changed while somebody else keeps the row locked, but much can be told.
fn busy(order: &Order, stored: Option<&Stored>, now: &Now) -> Result<Answer, Failure> {
    if matches!(order.command, Command::Sweep(_)) {
        // The sweeper passes by, and comes again.
        return Ok(Answer::Swept(Swept::Kept));
    }
    // What is told under a lease depends on how that stands, too: whoever asks looks again.
    let (Command::Claim(_), Some(stored), None) = (&order.command, stored, order.lease) else {
        return Err(Failure::Busy);
    };
    verdict_of(Some(&stored.claim), &order.command, now).map(Answer::Verdict).ok_or(Failure::Busy)
}

/// Writes a change; `Some` tells whether another process waits for it.
async fn write(
    link: &mut Link,
    order: &Order,
    locked: &Locked,
    change: &Change,
    shelf: Option<i32>,
) -> Result<Option<bool>, Failure> {
    let before = locked.stored.as_ref().map(|stored| &stored.claim);
    let rows = match change {
        Change::None => return Ok(None),
        Change::Put(after) => {
            // A grant from absent is whoever asks for it; a takeover stays what it was.
            let anew = before.is_none() || current(before, &locked.now).is_none();
            let identity = order.identity.as_ref().filter(|_| anew).map(Identity::encode);
            if before.is_none() && (identity.is_none() || shelf.is_none()) {
                return Err(Error::internal("a claim was granted without an identity").into());
            }
            let put = Put::new(locked.now.time, order.id, before, after, identity, shelf);
            link.query(PUT, &put.params()).await?
        }
        Change::Remove => {
            let Some(before) = before else { return Err(confused().into()) };
            let state = state_letter(before.state.name());
            let params: [&(dyn ToSql + Sync); 4] =
                [&locked.now.time.as_micros(), &digest(order), &packed(before.epoch), &state];
            link.query("SELECT * FROM hapax.remove_claim($1, $2, $3, $4)", &params).await?
        }
    };
    match rows.first() {
        Some(row) => Ok(Some(get(row, 0)?)),
        None => Err(Failure::Busy),
    }
}

/// What `hapax.put_claim` is told.
pub(super) struct Put<'a> {
    now: i64,
    old_epoch: Option<i64>,
    old_state: Option<Letter>,
    digest: Vec<u8>,
    epoch: i64,
    opened_at: i64,
    granted_at: i64,
    columns: StateColumns<'a>,
    session: i64,
    shelf: i32,
    earlier: Letter,
    attempt: Uuid,
    operation_id: Uuid,
    fingerprint: Vec<u8>,
    terms: Vec<u8>,
    identity: Option<Vec<u8>>,
    leaves: Option<Vec<u8>>,
    doubted: Option<Vec<u8>>,
    cause: Option<&'a str>,
    kind: Option<Letter>,
    status: Option<i32>,
    checksum: Option<i32>,
    bytes: Option<&'a [u8]>,
}

impl<'a> Put<'a> {
    /// `after` in the place of `before`.
    pub(super) fn new(
        now: Timestamp,
        id: ClaimId,
        before: Option<&Claim>,
        after: &'a Claim,
        identity: Option<Vec<u8>>,
        shelf: Option<i32>,
    ) -> Put<'a> {
        let columns = StateColumns::from(after);
        let outcome = columns.outcome;
        Put {
            now: now.as_micros(),
            old_epoch: before.map(|before| packed(before.epoch)),
            old_state: before.map(|before| state_letter(before.state.name())),
            digest: id.as_bytes().to_vec(),
            epoch: packed(after.epoch),
            opened_at: after.opened_at.as_micros(),
            granted_at: after.granted_at.as_micros(),
            columns,
            session: after.session.0.cast_signed(),
            shelf: shelf.unwrap_or_default(),
            earlier: letter(ran_letter(after.earlier)),
            attempt: after.attempt.into(),
            operation_id: after.operation_id.into(),
            fingerprint: pack_fingerprint(&after.fingerprint).to_vec(),
            terms: pack_terms(&after.terms),
            identity,
            leaves: after.leaves.as_ref().map(|leaves| leaves.as_bytes().to_vec()),
            doubted: after.doubted.as_ref().map(pack_doubted),
            cause: after.cause.as_ref().map(Cause::as_str),
            kind: outcome.map(|outcome| outcome.kind),
            status: outcome.and_then(|outcome| outcome.status),
            checksum: outcome.map(|outcome| outcome.checksum),
            bytes: outcome.and_then(|outcome| outcome.bytes),
        }
    }

    /// The parameters of [`PUT`].
    pub(super) fn params(&self) -> [&(dyn ToSql + Sync); 27] {
        [
            &self.now,
            &self.old_epoch,
            &self.old_state,
            &self.digest,
            &self.epoch,
            &self.opened_at,
            &self.granted_at,
            &self.columns.since,
            &self.columns.until,
            &self.session,
            &self.shelf,
            &self.columns.state,
            &self.columns.note,
            &self.earlier,
            &self.attempt,
            &self.operation_id,
            &self.fingerprint,
            &self.terms,
            &self.identity,
            &self.leaves,
            &self.doubted,
            &self.cause,
            &self.columns.due,
            &self.kind,
            &self.status,
            &self.checksum,
            &self.bytes,
        ]
    }
}

pub(super) const PUT: &str = "\
    SELECT * FROM hapax.put_claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, \
        $20, $21, $22, $23, $24, $25, $26, $27)";

pub(super) async fn write_audit(link: &mut Link, event: &AuditEvent) -> Result<(), Failure> {
    let outcome = event.outcome.as_ref().map(OutcomeColumns::from);
    let (claim, set) = (ClaimColumns::from(&event.about), setting::bytes(&event.about));
    // PostgreSQL's text has no NUL, and a person's reason has no use for one.
    let text = |text: &str| text.replace('\0', "\u{fffd}");
    link.query(
        "INSERT INTO hapax.audit (at, verb, actor, reason, operation_id, epoch, before, after, kind, status, bytes) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        &[
            &event.at.as_micros(),
            &text(&event.verb),
            &text(&event.actor),
            &text(&event.reason),
            &Uuid::from(claim.operation_id),
            &packed(claim.epoch),
            &state_letter(claim.before),
            &claim.after.map(state_letter),
            &outcome.map(|outcome| outcome.kind),
            &outcome.and_then(|outcome| outcome.status),
            &outcome.map_or(set.as_deref(), |outcome| outcome.bytes),
        ],
    )
    .await?;
    Ok(())
}

fn digest(order: &Order) -> &[u8] {
    order.id.as_bytes()
}
