//! What a batch came to, and who is told what.
//!
//! The database says which claims were granted or settled and shows those that were there already; `step`
//! says what that means for each asker. Where `step` wants a change that a batch does not make, the command
//! goes on to the desk.

use std::collections::HashMap;
use std::sync::Arc;

use hapax_core::claim::SettledBy;
use hapax_core::{
    Answer, AttemptId, Change, Claim, ClaimId, Command, Ending, Epoch, Error, Kept, Now, OperationId, Sign,
    State, Timestamp, Verdict, step,
};
use tokio::sync::oneshot;
use tokio_postgres::Row;

use super::batch::{Batch, Claiming, Settling};
use super::change::Order;
use super::failure::Failure;
use super::row::{Stored, Uuid, epoch, get, unreadable};
use super::shared::Shared;

/// What the database did.
#[derive(Default)]
pub(super) struct Done {
    time: Timestamp,
    /// The standing of the session that asked.
    own: Option<Sign>,
    granted: HashMap<ClaimId, Epoch>,
    settled: HashMap<ClaimId, Settled>,
    /// Claims that were there already; or why they cannot be read.
    present: HashMap<ClaimId, Result<Stored, Error>>,
}

struct Settled {
    keep_until: Timestamp,
    attempt: AttemptId,
    operation_id: OperationId,
    watched: bool,
}

impl Done {
    /// Reads the grant of a single claim.
    pub(super) fn of_grant(id: ClaimId, row: &Row) -> Result<Done, Failure> {
        let mut done = Done { time: Timestamp::from_micros(get(row, 0)?), ..Done::default() };
        done.granted.insert(id, epoch(get(row, 1)?));
        Ok(done)
    }

    /// Reads a single claim that was there already, if it still is.
    pub(super) fn of_present(id: ClaimId, row: Option<&Row>) -> Result<Done, Failure> {
        let mut done = Done::default();
        let Some(row) = row else { return Ok(done) };
        done.time = Timestamp::from_micros(get(row, 0)?);
        done.present.insert(id, read_present(row, 1));
        Ok(done)
    }

    /// Reads what a single settle gave.
    pub(super) fn of_settle(id: ClaimId, row: Option<&Row>) -> Result<Done, Failure> {
        let mut done = Done::default();
        let Some(row) = row else { return Ok(done) };
        done.time = Timestamp::from_micros(get(row, 0)?);
        let (attempt, operation): (Uuid, Uuid) = (get(row, 2)?, get(row, 3)?);
        let settled = Settled {
            keep_until: Timestamp::from_micros(get(row, 1)?),
            attempt: AttemptId::from_bytes(attempt.0),
            operation_id: OperationId::from_bytes(operation.0),
            watched: get(row, 4)?,
        };
        done.settled.insert(id, settled);
        Ok(done)
    }

    /// Reads what `hapax.batch` gave.
    pub(super) fn of_batch(rows: &[Row]) -> Result<Done, Failure> {
        let (header, present) = rows.split_first().ok_or_else(super::confused)?;
        let mut done = Done { time: Timestamp::from_micros(get(header, 0)?), ..Done::default() };
        if let (Some(last), Some(until)) = (get::<Option<i64>>(header, 1)?, get::<Option<i64>>(header, 2)?) {
            done.own =
                Some(Sign { last: Timestamp::from_micros(last), until: Timestamp::from_micros(until) });
        }
        let granted: Option<Vec<&[u8]>> = get(header, 3)?;
        let epochs: Option<Vec<i64>> = get(header, 4)?;
        for (digest, granted_epoch) in granted.iter().flatten().zip(epochs.iter().flatten()) {
            done.granted.insert(claim_id(digest)?, epoch(*granted_epoch));
        }
        done.read_settled(header)?;
        for row in present {
            let digest: &[u8] = get(row, FIRST_OF_CLAIM)?;
            done.present.insert(claim_id(digest)?, read_present(row, FIRST_OF_CLAIM));
        }
        Ok(done)
    }

    fn read_settled(&mut self, header: &Row) -> Result<(), Error> {
        let settled: Option<Vec<&[u8]>> = get(header, 5)?;
        let Some(settled) = settled else { return Ok(()) };
        let keeps: Vec<i64> = get(header, 6)?;
        let (attempts, operations): (Vec<Uuid>, Vec<Uuid>) = (get(header, 7)?, get(header, 8)?);
        let watched: Option<Vec<&[u8]>> = get(header, 9)?;
        for (((digest, keep_until), attempt), operation) in
            settled.iter().zip(keeps).zip(attempts).zip(operations)
        {
            let settled = Settled {
                keep_until: Timestamp::from_micros(keep_until),
                attempt: AttemptId::from_bytes(attempt.0),
                operation_id: OperationId::from_bytes(operation.0),
                watched: watched.as_ref().is_some_and(|watched| watched.contains(digest)),
            };
            self.settled.insert(claim_id(digest)?, settled);
        }
        Ok(())
    }

    /// The moment of the batch, for deciding about a claim of this holder. It offers no epoch that could be
    /// used.
    fn now(&self, holder: Sign) -> Now {
        Now { time: self.time, next_epoch: Epoch::from_packed(u64::MAX), holder }
    }
}

/// The column of `hapax.batch` where the claim begins.
const FIRST_OF_CLAIM: usize = 10;

fn claim_id(digest: &[u8]) -> Result<ClaimId, Error> {
    Ok(ClaimId::from_bytes(digest.try_into().map_err(|_| unreadable("digest"))?))
}

/// One claim that cannot be read must not fail a whole batch.
fn read_present(row: &Row, first: usize) -> Result<Stored, Error> {
    Stored::read(row, first)?.ok_or_else(super::confused)
}

/// Answers everybody in a batch.
pub(super) fn batch(shared: &Arc<Shared>, batch: Batch, done: Done) {
    let watched_here = !shared.watchers.is_idle();
    let (mut grants, mut replies) = (HashMap::new(), Replies::default());
    let repeated = !batch.more_claims.is_empty();
    for claiming in batch.claims {
        if let Some(granted) = answer_granted(shared, claiming, &done, watched_here, &mut replies)
            && repeated
        {
            grants.insert(granted.0, granted.1);
        }
    }
    for claiming in batch.more_claims {
        match grants.get(&claiming.id) {
            Some(claim) => decide(shared, claiming, Some(claim), done.own.unwrap_or(Sign::UNKNOWN), &done),
            None => answer_present(shared, claiming, &done),
        }
    }
    for settling in batch.settles {
        match done.settled.get(&settling.id) {
            Some(settled) => {
                answer_settled(shared, settling, settled, done.time, watched_here, &mut replies);
            }
            None => Order::settle(shared, settling).hand_in(shared),
        }
    }
    batch.more_settles.into_iter().for_each(|settling| Order::settle(shared, settling).hand_in(shared));
    replies.send();
}

/// Replies that go out together. Each wakes its caller's thread, which would otherwise go back to sleep between any two
/// of them.
#[derive(Default)]
struct Replies {
    verdicts: Vec<(oneshot::Sender<Result<Verdict, Error>>, Verdict)>,
    endings: Vec<(oneshot::Sender<Result<Ending, Error>>, Ending)>,
}

impl Replies {
    fn send(self) {
        // Whoever asked may have gone; whoever gave up asks again under the same attempt and releases it.
        self.verdicts.into_iter().for_each(|(reply, verdict)| drop(reply.send(Ok(verdict))));
        self.endings.into_iter().for_each(|(reply, ending)| drop(reply.send(Ok(ending))));
    }
}

/// Answers whoever was granted a claim, or else finds out what it is. Gives back the claim as it was granted.
fn answer_granted(
    shared: &Arc<Shared>,
    claiming: Claiming,
    done: &Done,
    wake: bool,
    replies: &mut Replies,
) -> Option<(ClaimId, Claim)> {
    let Some(epoch) = done.granted.get(&claiming.id) else {
        answer_present(shared, claiming, done);
        return None;
    };
    let now = Now { time: done.time, next_epoch: *epoch, holder: Sign::UNKNOWN };
    let id = claiming.id;
    match step(None, &Command::Claim(claiming.ask), &now) {
        (Change::Put(claim), Answer::Verdict(verdict)) => {
            shared.remember(id, claim.clone());
            if wake {
                shared.watchers.changed(&id, false);
            }
            replies.verdicts.push((claiming.reply, verdict));
            Some((id, claim))
        }
        _ => {
            let _ = claiming.reply.send(Err(super::confused()));
            None
        }
    }
}

fn answer_present(shared: &Arc<Shared>, claiming: Claiming, done: &Done) {
    match done.present.get(&claiming.id) {
        Some(Ok(stored)) => {
            if stored.may_be_remembered() {
                shared.table.put_read(claiming.mark, claiming.id, &stored.claim);
            }
            decide(shared, claiming, Some(&stored.claim), stored.holder, done);
        }
        Some(Err(error)) => drop(claiming.reply.send(Err(error.clone()))),
        // It was there, and it is gone: somebody must look again.
        None => Order::claim(claiming).hand_in(shared),
    }
}

/// Lets `step` decide; what would change the claim is decided again with its row locked.
fn decide(shared: &Arc<Shared>, claiming: Claiming, claim: Option<&Claim>, holder: Sign, done: &Done) {
    let command = Command::Claim(claiming.ask.clone());
    match step(claim, &command, &done.now(shared.session.judge(done.time, holder))) {
        (Change::None, Answer::Verdict(verdict)) => drop(claiming.reply.send(Ok(verdict))),
        _ => Order::claim(claiming).hand_in(shared),
    }
}

fn answer_settled(
    shared: &Shared,
    settling: Settling,
    settled: &Settled,
    time: Timestamp,
    wake: bool,
    replies: &mut Replies,
) {
    let kept = Kept {
        operation_id: settled.operation_id,
        attempt: settled.attempt,
        epoch: settling.epoch,
        outcome: settling.outcome,
        settled_at: time,
        keep_until: settled.keep_until,
        by: SettledBy::Holder,
        // Nothing else settles in a batch.
        earlier_may_have_run: false,
    };
    if let Some(claim) = shared.recall(&settling.id, settling.epoch) {
        let state = State::Settled {
            outcome: kept.outcome.clone(),
            settled_at: kept.settled_at,
            keep_until: kept.keep_until,
            by: kept.by,
        };
        shared.table.put_read(settling.mark, settling.id, &Claim { state, ..claim });
    }
    if wake || settled.watched {
        shared.watchers.changed(&settling.id, settled.watched);
    }
    replies.endings.push((settling.reply, Ending::Settled(kept)));
}

/// A verdict without the row being locked, for a claim that somebody else keeps locked. `None` if only the
/// lock can tell.
pub(super) fn verdict_of(claim: Option<&Claim>, command: &Command, now: &Now) -> Option<Verdict> {
    match step(claim, command, now) {
        (Change::None, Answer::Verdict(verdict)) => Some(verdict),
        _ => None,
    }
}
