//! A claim as a row, and back.
//!
//! [`Columns`] is the row in plain numbers and bytes: what is bound, what is checked by the checksum, and
//! what is read. The outcome's bytes and the leaves are in tables of their own; a row says whether they are
//! there.
//!
//! A row has the same length in every state, as nearly as possible: a settle then overwrites it where it is,
//! and does not split a page that was full.

use std::time::Duration;

use bytes::Bytes;
use hapax_core::claim::{DoubtEnds, DoubtThen, SettledBy};
use hapax_core::{
    AttemptId, Cause, Claim, ClaimId, Doubt, Doubted, Epoch, Error, Fingerprint, Identity, OperationId,
    Outcome, Ran, RecipeId, Rerun, SessionId, State, StateName, Terms, Timestamp,
};
use rusqlite::Row;

use super::fault::{Fault, damaged};
use super::sum::Sum;

/// The columns of `claims` in the order of [`Columns`].
pub(super) const COLUMNS: &str = "id, digest, state, due, epoch, attempt, operation_id, recipe, fingerprint, session, \
     opened_at, granted_at, rerun, quiet, max_run, give_up, doubt_after, doubt_then, earlier, since, until, why, \
     asked_at, outcome_kind, status, outcome, leaves, identity, cause, crc";

/// A row of `claims`.
#[derive(Debug)]
pub(super) struct Columns<'a> {
    pub(super) id: i64,
    pub(super) digest: &'a [u8],
    pub(super) state: i64,
    pub(super) due: i64,
    pub(super) epoch: i64,
    pub(super) attempt: &'a [u8],
    pub(super) operation_id: &'a [u8],
    pub(super) recipe: i64,
    pub(super) fingerprint: &'a [u8],
    pub(super) session: i64,
    pub(super) opened_at: i64,
    pub(super) granted_at: i64,
    pub(super) rerun: i64,
    pub(super) quiet: i64,
    pub(super) max_run: i64,
    pub(super) give_up: i64,
    pub(super) doubt_after: Option<i64>,
    pub(super) doubt_then: Option<i64>,
    pub(super) earlier: i64,
    pub(super) since: i64,
    pub(super) until: i64,
    pub(super) why: i64,
    pub(super) asked_at: Option<i64>,
    pub(super) outcome_kind: i64,
    pub(super) status: Option<i64>,
    pub(super) outcome: i64,
    pub(super) leaves: i64,
    pub(super) identity: &'a [u8],
    pub(super) cause: Option<&'a str>,
}

/// A claim with the place it is stored at.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    /// The row.
    pub(super) id: i64,
    /// The row of the outcome's bytes; where there are none, a negative number that takes the same room.
    pub(super) outcome: i64,
    /// Whether leaves are stored.
    pub(super) leaves: bool,
    /// [`Identity::encode`].
    pub(super) identity: Box<[u8]>,
    /// The claim. Its outcome has no bytes and its leaves are missing until they are read from their own
    /// tables.
    pub(super) claim: Claim,
}

impl Stored {
    /// The row of the outcome's bytes, where there are any.
    pub(super) fn outcome_row(&self) -> Option<i64> {
        (self.outcome > 0).then_some(self.outcome)
    }

    /// The readable parts.
    pub(super) fn identity(&self) -> Result<Identity, Error> {
        Identity::decode(&self.identity)
    }
}

impl<'a> Columns<'a> {
    /// The row of a claim.
    pub(super) fn new(
        id: i64,
        claim_id: &'a ClaimId,
        claim: &'a Claim,
        outcome: i64,
        identity: &'a [u8],
    ) -> Self {
        let terms = &claim.terms;
        let mut columns = Columns {
            id,
            digest: claim_id.as_bytes(),
            state: state_code(claim.state.name()),
            due: due(claim).as_micros(),
            epoch: claim.epoch.packed().cast_signed(),
            attempt: claim.attempt.as_bytes(),
            operation_id: claim.operation_id.as_bytes(),
            recipe: claim.fingerprint.recipe.0.cast_signed(),
            fingerprint: &claim.fingerprint.digest,
            session: claim.session.0.cast_signed(),
            opened_at: claim.opened_at.as_micros(),
            granted_at: claim.granted_at.as_micros(),
            rerun: rerun_code(terms.rerun),
            quiet: micros(terms.quiet),
            max_run: micros(terms.max_run),
            give_up: micros(terms.give_up),
            doubt_after: terms.doubt.map(|ends| micros(ends.after)),
            doubt_then: terms.doubt.map(|ends| then_code(ends.then)),
            earlier: earlier_code(claim.earlier),
            since: claim.granted_at.as_micros(),
            until: Timestamp::NEVER.as_micros(),
            why: NOTHING,
            asked_at: None,
            outcome_kind: NOTHING,
            status: None,
            outcome,
            leaves: i64::from(claim.leaves.is_some()),
            identity,
            cause: claim.cause.as_ref().map(Cause::as_str),
        };
        columns.put_state(&claim.state);
        if let Some(doubted) = claim.doubted {
            columns.put_doubted(doubted);
        }
        columns
    }

    /// What a held claim is asked about, in columns that it has no other use for.
    fn put_doubted(&mut self, doubted: Doubted) {
        self.since = doubted.since.as_micros();
        self.why = doubt_code(doubted.reason);
        self.asked_at = Some(doubted.granted_at.as_micros());
        self.status = Some(doubted.session.0.cast_signed());
    }

    fn put_state(&mut self, state: &State) {
        match state {
            State::Held { run_until } => self.until = run_until.as_micros(),
            State::Settled { outcome, settled_at, keep_until, by } => {
                self.since = settled_at.as_micros();
                self.until = keep_until.as_micros();
                self.why = by_code(*by);
                self.outcome_kind = outcome_code(outcome);
                if let Outcome::NotKept { status } = outcome {
                    self.status = Some(i64::from(*status));
                }
            }
            State::InDoubt { reason, since, asked_at } => {
                self.since = since.as_micros();
                self.why = doubt_code(*reason);
                self.asked_at = asked_at.map(Timestamp::as_micros);
            }
            State::Released { since, ran } => {
                self.since = since.as_micros();
                self.why = ran_code(*ran);
            }
        }
    }

    /// The row's checksum.
    pub(super) fn sum(&self) -> Sum {
        Sum::of("claims")
            .int(self.id)
            .bytes(self.digest)
            .int(self.state)
            .int(self.due)
            .int(self.epoch)
            .bytes(self.attempt)
            .bytes(self.operation_id)
            .int(self.recipe)
            .bytes(self.fingerprint)
            .int(self.session)
            .int(self.opened_at)
            .int(self.granted_at)
            .int(self.rerun)
            .int(self.quiet)
            .int(self.max_run)
            .int(self.give_up)
            .opt(self.doubt_after)
            .opt(self.doubt_then)
            .int(self.earlier)
            .int(self.since)
            .int(self.until)
            .int(self.why)
            .opt(self.asked_at)
            .int(self.outcome_kind)
            .opt(self.status)
            .int(self.outcome)
            .int(self.leaves)
            .bytes(self.identity)
            .opt_bytes(self.cause.map(str::as_bytes))
    }

    /// Reads a row of [`COLUMNS`] and checks it.
    pub(super) fn read(row: &'a Row<'_>) -> Result<Self, Fault> {
        let blob = |index| row.get_ref(index)?.as_blob().map_err(|error| Fault::Command(damaged(error)));
        let columns = Columns {
            id: row.get(0)?,
            digest: blob(1)?,
            state: row.get(2)?,
            due: row.get(3)?,
            epoch: row.get(4)?,
            attempt: blob(5)?,
            operation_id: blob(6)?,
            recipe: row.get(7)?,
            fingerprint: blob(8)?,
            session: row.get(9)?,
            opened_at: row.get(10)?,
            granted_at: row.get(11)?,
            rerun: row.get(12)?,
            quiet: row.get(13)?,
            max_run: row.get(14)?,
            give_up: row.get(15)?,
            doubt_after: row.get(16)?,
            doubt_then: row.get(17)?,
            earlier: row.get(18)?,
            since: row.get(19)?,
            until: row.get(20)?,
            why: row.get(21)?,
            asked_at: row.get(22)?,
            outcome_kind: row.get(23)?,
            status: row.get(24)?,
            outcome: row.get(25)?,
            leaves: row.get(26)?,
            identity: blob(27)?,
            cause: row.get_ref(28)?.as_str_or_null().map_err(|error| Fault::Command(damaged(error)))?,
        };
        columns.sum().check(row.get(29)?, || format!("claim row {}", columns.id))?;
        Ok(columns)
    }

    /// The claim id.
    pub(super) fn claim_id(&self) -> Result<ClaimId, Error> {
        Ok(ClaimId::from_bytes(fixed(self.digest)?))
    }

    /// The claim, without the bytes that are elsewhere.
    pub(super) fn stored(&self) -> Result<Stored, Error> {
        Ok(Stored {
            id: self.id,
            outcome: self.outcome,
            leaves: self.leaves != 0,
            identity: self.identity.into(),
            claim: self.claim()?,
        })
    }

    fn claim(&self) -> Result<Claim, Error> {
        Ok(Claim {
            epoch: Epoch::from_packed(self.epoch.cast_unsigned()),
            attempt: AttemptId::from_bytes(fixed(self.attempt)?),
            operation_id: OperationId::from_bytes(fixed(self.operation_id)?),
            fingerprint: Fingerprint {
                recipe: RecipeId(self.recipe.cast_unsigned()),
                digest: fixed(self.fingerprint)?,
            },
            leaves: None,
            terms: self.terms()?,
            opened_at: Timestamp::from_micros(self.opened_at),
            granted_at: Timestamp::from_micros(self.granted_at),
            session: SessionId(self.session.cast_unsigned()),
            earlier: earlier_of(self.earlier)?,
            doubted: self.doubted()?,
            cause: self.cause.and_then(Cause::new),
            state: self.state()?,
        })
    }

    fn doubted(&self) -> Result<Option<Doubted>, Error> {
        let (Some(granted_at), Some(session)) = (self.asked_at, self.status) else { return Ok(None) };
        if state_of(self.state)? != StateName::Held {
            return Ok(None);
        }
        Ok(Some(Doubted {
            reason: doubt_of(self.why)?,
            since: Timestamp::from_micros(self.since),
            session: SessionId(session.cast_unsigned()),
            granted_at: Timestamp::from_micros(granted_at),
        }))
    }

    fn terms(&self) -> Result<Terms, Error> {
        let doubt = match (self.doubt_after, self.doubt_then) {
            (Some(after), Some(then)) => Some(DoubtEnds { after: duration(after), then: then_of(then)? }),
            _ => None,
        };
        Ok(Terms {
            rerun: rerun_of(self.rerun)?,
            quiet: duration(self.quiet),
            max_run: duration(self.max_run),
            give_up: duration(self.give_up),
            doubt,
        })
    }

    fn state(&self) -> Result<State, Error> {
        let (since, until) = (Timestamp::from_micros(self.since), Timestamp::from_micros(self.until));
        Ok(match state_of(self.state)? {
            StateName::Held => State::Held { run_until: until },
            StateName::Settled => State::Settled {
                outcome: self.bare_outcome()?,
                settled_at: since,
                keep_until: until,
                by: by_of(self.why)?,
            },
            StateName::InDoubt => State::InDoubt {
                reason: doubt_of(self.why)?,
                since,
                asked_at: self.asked_at.map(Timestamp::from_micros),
            },
            StateName::Released => State::Released { since, ran: ran_of(self.why)? },
        })
    }

    fn bare_outcome(&self) -> Result<Outcome, Error> {
        let status = self.status.and_then(|status| u16::try_from(status).ok());
        outcome_of(self.outcome_kind, status, Bytes::new())
    }
}

/// When the sweeper should look at a claim that time alone can change. A held one is found by its session
/// instead.
fn due(claim: &Claim) -> Timestamp {
    match &claim.state {
        State::Held { .. } => Timestamp::NEVER,
        State::Settled { keep_until, .. } => *keep_until,
        State::InDoubt { since, .. } => {
            claim.terms.doubt.map_or(Timestamp::NEVER, |ends| since.after(ends.after))
        }
        State::Released { since, .. } => since.after(claim.terms.tombstone()),
    }
}

/// Whole microseconds; what does not fit lasts for ever.
fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

fn duration(micros: i64) -> Duration {
    if micros == i64::MAX { Duration::MAX } else { Duration::from_micros(micros.cast_unsigned()) }
}

/// A number without a sign; SQLite has only signed ones.
pub(super) fn unsigned(row: &Row<'_>, index: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(index).map(i64::cast_unsigned)
}

/// Bytes of a fixed length.
pub(super) fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N], Error> {
    bytes.try_into().map_err(|_| damaged(format_args!("{} bytes instead of {N}", bytes.len())))
}

fn unknown(what: &str) -> Error {
    damaged(format_args!("a claim with {what}"))
}

/// The code of what does not apply. Codes start at 2, because SQLite stores 0 and 1 in no bytes at all, and a
/// row should not grow when its state changes.
const NOTHING: i64 = 2;

/// The code of a state; the view `hapax_states` says the same to people.
pub(super) fn state_code(state: StateName) -> i64 {
    match state {
        StateName::Held => 2,
        StateName::Settled => 3,
        StateName::InDoubt => 4,
        StateName::Released => 5,
    }
}

/// The state with this code.
pub(super) fn state_of(code: i64) -> Result<StateName, Error> {
    StateName::ALL
        .into_iter()
        .find(|state| state_code(*state) == code)
        .ok_or_else(|| unknown("an unknown state"))
}

fn rerun_code(rerun: Rerun) -> i64 {
    match rerun {
        Rerun::Safe => 1,
        Rerun::Ask => 2,
        Rerun::Unsafe => 3,
    }
}

fn rerun_of(code: i64) -> Result<Rerun, Error> {
    [Rerun::Safe, Rerun::Ask, Rerun::Unsafe]
        .into_iter()
        .find(|rerun| rerun_code(*rerun) == code)
        .ok_or_else(|| unknown("an unknown rerun"))
}

fn then_code(then: DoubtThen) -> i64 {
    match then {
        DoubtThen::Release => 1,
        DoubtThen::Forget => 2,
    }
}

fn then_of(code: i64) -> Result<DoubtThen, Error> {
    [DoubtThen::Release, DoubtThen::Forget]
        .into_iter()
        .find(|then| then_code(*then) == code)
        .ok_or_else(|| unknown("an unknown end of doubt"))
}

fn by_code(by: SettledBy) -> i64 {
    match by {
        SettledBy::Holder => 2,
        SettledBy::Operator => 3,
    }
}

fn by_of(code: i64) -> Result<SettledBy, Error> {
    [SettledBy::Holder, SettledBy::Operator]
        .into_iter()
        .find(|by| by_code(*by) == code)
        .ok_or_else(|| unknown("an unknown settler"))
}

fn ran_code(ran: Ran) -> i64 {
    match ran {
        Ran::No => 2,
        Ran::Perhaps => 3,
        Ran::Waived => 4,
    }
}

fn ran_of(code: i64) -> Result<Ran, Error> {
    [Ran::No, Ran::Perhaps, Ran::Waived]
        .into_iter()
        .find(|ran| ran_code(*ran) == code)
        .ok_or_else(|| unknown("an unknown release"))
}

/// Nearly always "no", which takes no room as 0.
fn earlier_code(ran: Ran) -> i64 {
    ran_code(ran) - ran_code(Ran::No)
}

fn earlier_of(code: i64) -> Result<Ran, Error> {
    ran_of(code.saturating_add(ran_code(Ran::No)))
}

fn doubt_code(doubt: Doubt) -> i64 {
    match doubt {
        Doubt::Lapsed => 2,
        Doubt::Failed => 3,
        Doubt::Stated => 4,
        Doubt::Paused => 5,
    }
}

fn doubt_of(code: i64) -> Result<Doubt, Error> {
    [Doubt::Lapsed, Doubt::Failed, Doubt::Stated, Doubt::Paused]
        .into_iter()
        .find(|doubt| doubt_code(*doubt) == code)
        .ok_or_else(|| unknown("an unknown doubt"))
}

/// The code of an outcome's kind.
pub(super) fn outcome_code(outcome: &Outcome) -> i64 {
    match outcome {
        Outcome::Succeeded(_) => 3,
        Outcome::Refused(_) => 4,
        Outcome::NotKept { .. } => 5,
        Outcome::Erased => 6,
    }
}

/// The outcome of this kind with these bytes.
pub(super) fn outcome_of(code: i64, status: Option<u16>, bytes: Bytes) -> Result<Outcome, Error> {
    match (code, status) {
        (3, _) => Ok(Outcome::Succeeded(bytes)),
        (4, _) => Ok(Outcome::Refused(bytes)),
        (5, Some(status)) => Ok(Outcome::NotKept { status }),
        (6, _) => Ok(Outcome::Erased),
        _ => Err(unknown("an unknown outcome")),
    }
}

/// The bytes of an outcome that has any.
pub(super) fn outcome_bytes(outcome: &Outcome) -> Option<&Bytes> {
    match outcome {
        Outcome::Succeeded(bytes) | Outcome::Refused(bytes) if !bytes.is_empty() => Some(bytes),
        _ => None,
    }
}
