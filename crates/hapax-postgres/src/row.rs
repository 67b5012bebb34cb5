//! How claims, terms and outcomes are laid out in PostgreSQL's columns, both ways.

use std::error::Error as StdError;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use hapax_core::claim::{DoubtEnds, DoubtThen, SettledBy};
use hapax_core::{
    AttemptId, Cause, Claim, Doubt, Doubted, Epoch, Error, Fingerprint, Identity, Leaves, OperationId,
    Outcome, Ran, RecipeId, Rerun, Retention, SessionId, Sign, State, StateName, Terms, Timestamp,
};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use super::checksum::crc32;

/// Sixteen bytes in a column of type `uuid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Uuid(pub(super) [u8; 16]);

impl ToSql for Uuid {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        out.put_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::UUID
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Uuid {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Uuid(raw.try_into()?))
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::UUID
    }
}

impl From<AttemptId> for Uuid {
    fn from(id: AttemptId) -> Self {
        Uuid(*id.as_bytes())
    }
}

impl From<OperationId> for Uuid {
    fn from(id: OperationId) -> Self {
        Uuid(*id.as_bytes())
    }
}

/// One letter in a column of type `"char"`.
pub(super) type Letter = i8;

/// A letter's number.
pub(super) const fn letter(ascii: u8) -> Letter {
    ascii.cast_signed()
}

pub(super) fn state_letter(state: StateName) -> Letter {
    letter(match state {
        StateName::Held => b'H',
        StateName::Settled => b'S',
        StateName::InDoubt => b'D',
        StateName::Released => b'R',
    })
}

pub(super) fn state_name(state: Letter) -> Result<StateName, Error> {
    StateName::ALL.into_iter().find(|name| state_letter(*name) == state).ok_or_else(|| unreadable("state"))
}

/// What a column holds is not what this hapax writes there.
pub(super) fn unreadable(what: &str) -> Error {
    Error::corrupt("a stored record cannot be read").with_detail(format_args!("column {what}"))
}

/// Reads a column; a wrong type is as bad as wrong bytes.
pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T, Error> {
    row.try_get(column).map_err(|error| Error::corrupt("a stored record cannot be read").with_detail(error))
}

/// An epoch as PostgreSQL keeps it.
pub(super) fn packed(epoch: Epoch) -> i64 {
    epoch.packed().cast_signed()
}

/// An epoch as PostgreSQL kept it.
pub(super) fn epoch(packed: i64) -> Epoch {
    Epoch::from_packed(packed.cast_unsigned())
}

/// A duration in microseconds; one too long to count lasts for ever.
pub(super) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// How long an outcome is kept, in the terms of `hapax.batch`: whether from the grant, and for how long.
pub(super) fn keep(retention: Retention) -> (bool, i64) {
    match retention {
        Retention::For(duration) => (false, micros(duration)),
        Retention::SinceGrant(duration) => (true, micros(duration)),
        Retention::Forever => (false, i64::MAX),
    }
}

pub(super) fn pack_fingerprint(fingerprint: &Fingerprint) -> [u8; 40] {
    let mut bytes = [0; 40];
    bytes[..8].copy_from_slice(&fingerprint.recipe.0.to_be_bytes());
    bytes[8..].copy_from_slice(&fingerprint.digest);
    bytes
}

fn unpack_fingerprint(bytes: &[u8]) -> Option<Fingerprint> {
    let (recipe, digest) = bytes.split_first_chunk()?;
    Some(Fingerprint { recipe: RecipeId(u64::from_be_bytes(*recipe)), digest: digest.try_into().ok()? })
}

/// Terms are compared whole by those who ask, so they are kept to the nanosecond.
pub(super) fn pack_terms(terms: &Terms) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(24);
    bytes.push(match terms.rerun {
        Rerun::Safe => 1,
        Rerun::Ask => 2,
        Rerun::Unsafe => 3,
    });
    for duration in [terms.quiet, terms.max_run, terms.give_up] {
        pack_duration(&mut bytes, duration);
    }
    if let Some(ends) = terms.doubt {
        bytes.push(match ends.then {
            DoubtThen::Release => 1,
            DoubtThen::Forget => 2,
        });
        pack_duration(&mut bytes, ends.after);
    }
    bytes
}

fn unpack_terms(bytes: &[u8]) -> Option<Terms> {
    let (rerun, mut rest) = bytes.split_first()?;
    let rerun = match rerun {
        1 => Rerun::Safe,
        2 => Rerun::Ask,
        3 => Rerun::Unsafe,
        _ => return None,
    };
    let [quiet, max_run, give_up] =
        [unpack_duration(&mut rest)?, unpack_duration(&mut rest)?, unpack_duration(&mut rest)?];
    let doubt = match rest.split_first() {
        None => None,
        Some((then, mut after)) => {
            let then = match then {
                1 => DoubtThen::Release,
                2 => DoubtThen::Forget,
                _ => return None,
            };
            let ends = DoubtEnds { after: unpack_duration(&mut after)?, then };
            after.is_empty().then_some(Some(ends))?
        }
    };
    Some(Terms { rerun, quiet, max_run, give_up, doubt })
}

/// What a held claim is asked about.
pub(super) fn pack_doubted(doubted: &Doubted) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(25);
    bytes.push(doubt_letter(doubted.reason));
    bytes.extend(doubted.since.as_micros().to_be_bytes());
    bytes.extend(doubted.session.0.to_be_bytes());
    bytes.extend(doubted.granted_at.as_micros().to_be_bytes());
    bytes
}

fn unpack_doubted(bytes: &[u8]) -> Option<Doubted> {
    let (&reason, rest) = bytes.split_first()?;
    let (since, rest) = rest.split_first_chunk()?;
    let (session, rest) = rest.split_first_chunk()?;
    let granted_at = rest.try_into().ok()?;
    Some(Doubted {
        reason: doubt_of(reason)?,
        since: Timestamp::from_micros(i64::from_be_bytes(*since)),
        session: SessionId(u64::from_be_bytes(*session)),
        granted_at: Timestamp::from_micros(i64::from_be_bytes(granted_at)),
    })
}

/// Seven bits a byte, the lowest first.
fn pack_duration(bytes: &mut Vec<u8>, duration: Duration) {
    let mut rest = duration.as_nanos();
    while rest >= 0x80 {
        bytes.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

fn unpack_duration(bytes: &mut &[u8]) -> Option<Duration> {
    let (mut nanos, mut shift) = (0_u128, 0);
    loop {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        nanos |= u128::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            let seconds = u64::try_from(nanos / 1_000_000_000).ok()?;
            return Some(Duration::new(seconds, (nanos % 1_000_000_000) as u32));
        }
        shift += 7;
        if shift > 98 {
            return None;
        }
    }
}

/// An outcome as its four columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutcomeColumns<'a> {
    pub(super) kind: Letter,
    pub(super) status: Option<i32>,
    pub(super) checksum: i32,
    pub(super) bytes: Option<&'a [u8]>,
}

impl<'a> From<&'a Outcome> for OutcomeColumns<'a> {
    fn from(outcome: &'a Outcome) -> Self {
        let (kind, status, bytes) = match outcome {
            Outcome::Succeeded(bytes) => (b'S', None, Some(&bytes[..])),
            Outcome::Refused(bytes) => (b'R', None, Some(&bytes[..])),
            Outcome::NotKept { status } => (b'N', Some(i32::from(*status)), None),
            Outcome::Erased => (b'E', None, None),
        };
        OutcomeColumns { kind: letter(kind), status, checksum: bytes.map_or(0, crc32), bytes }
    }
}

/// Reads an outcome back. `checksum` is empty where none is kept.
pub(super) fn read_outcome(
    kind: Letter,
    status: Option<i32>,
    checksum: Option<i32>,
    bytes: Option<&[u8]>,
) -> Result<Outcome, Error> {
    if checksum.is_some_and(|kept| kept != bytes.map_or(0, crc32)) {
        return Err(Error::corrupt("a kept outcome is not what was written"));
    }
    let body = || bytes.map(Bytes::copy_from_slice).ok_or_else(|| unreadable("bytes"));
    match kind.cast_unsigned() {
        b'S' => Ok(Outcome::Succeeded(body()?)),
        b'R' => Ok(Outcome::Refused(body()?)),
        b'N' => {
            let status =
                status.and_then(|status| u16::try_from(status).ok()).ok_or_else(|| unreadable("status"))?;
            Ok(Outcome::NotKept { status })
        }
        b'E' => Ok(Outcome::Erased),
        _ => Err(unreadable("kind")),
    }
}

/// What a state comes to in columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct StateColumns<'a> {
    pub(super) state: Letter,
    pub(super) note: Letter,
    pub(super) since: i64,
    pub(super) until: Option<i64>,
    pub(super) outcome: Option<OutcomeColumns<'a>>,
    /// When time alone changes it.
    pub(super) due: i64,
}

impl<'a> From<&'a Claim> for StateColumns<'a> {
    fn from(claim: &'a Claim) -> Self {
        let state = state_letter(claim.state.name());
        let columns = |note, since: Timestamp, until: Option<Timestamp>, due: Timestamp| StateColumns {
            state,
            note: letter(note),
            since: since.as_micros(),
            until: until.map(Timestamp::as_micros),
            outcome: None,
            due: due.as_micros(),
        };
        match &claim.state {
            State::Held { run_until } => columns(b'-', claim.granted_at, Some(*run_until), *run_until),
            State::Settled { outcome, settled_at, keep_until, by } => {
                let by = match by {
                    SettledBy::Holder => b'h',
                    SettledBy::Operator => b'o',
                };
                let outcome = Some(OutcomeColumns::from(outcome));
                StateColumns { outcome, ..columns(by, *settled_at, Some(*keep_until), *keep_until) }
            }
            State::InDoubt { reason, since, asked_at } => {
                let due = claim.terms.doubt.map_or(Timestamp::NEVER, |ends| since.after(ends.after));
                columns(doubt_letter(*reason), *since, *asked_at, due)
            }
            State::Released { since, ran } => {
                columns(ran_letter(*ran), *since, None, since.after(claim.terms.tombstone()))
            }
        }
    }
}

pub(super) fn ran_letter(ran: Ran) -> u8 {
    match ran {
        Ran::No => b'n',
        Ran::Waived => b'w',
        Ran::Perhaps => b'p',
    }
}

fn ran_of(letter: u8) -> Option<Ran> {
    [Ran::No, Ran::Waived, Ran::Perhaps].into_iter().find(|ran| ran_letter(*ran) == letter)
}

fn doubt_letter(reason: Doubt) -> u8 {
    match reason {
        Doubt::Lapsed => b'l',
        Doubt::Failed => b'f',
        Doubt::Stated => b's',
        Doubt::Paused => b'p',
    }
}

fn doubt_of(letter: u8) -> Option<Doubt> {
    let reasons = [Doubt::Lapsed, Doubt::Failed, Doubt::Stated, Doubt::Paused];
    reasons.into_iter().find(|reason| doubt_letter(*reason) == letter)
}

/// A claim as it was read, with what deciding about it takes.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) claim: Claim,
    /// The standing of the session that the claim names.
    pub(super) holder: Sign,
    /// Whether another process waits for a change.
    pub(super) watched: bool,
    /// Whether an operator is about to change it.
    pub(super) leaving: bool,
    identity: Vec<u8>,
}

impl Stored {
    /// Reads the columns of `hapax.standing` that begin at `first`; `None` if there is no claim in the row.
    pub(super) fn read(row: &Row, first: usize) -> Result<Option<Stored>, Error> {
        if get::<Option<&[u8]>>(row, first)?.is_none() {
            return Ok(None);
        }
        let at = |column| first + column;
        let attempt: Uuid = get(row, at(13))?;
        let operation_id: Uuid = get(row, at(14))?;
        let leaves =
            get::<Option<&[u8]>>(row, at(18))?.map(|bytes| Leaves::from_bytes(bytes.to_vec())).transpose()?;
        let session: i64 = get(row, at(6))?;
        let doubted = get::<Option<&[u8]>>(row, at(25))?
            .map(|bytes| unpack_doubted(bytes).ok_or_else(|| unreadable("doubted")))
            .transpose()?;
        let state = read_state(row, first)?;
        let claim = Claim {
            epoch: epoch(get(row, at(1))?),
            attempt: AttemptId::from_bytes(attempt.0),
            operation_id: OperationId::from_bytes(operation_id.0),
            fingerprint: unpack_fingerprint(get(row, at(15))?).ok_or_else(|| unreadable("fingerprint"))?,
            leaves,
            terms: unpack_terms(get(row, at(16))?).ok_or_else(|| unreadable("terms"))?,
            opened_at: Timestamp::from_micros(get(row, at(2))?),
            granted_at: Timestamp::from_micros(get(row, at(3))?),
            session: SessionId(session.cast_unsigned()),
            earlier: ran_of(get::<Letter>(row, at(10))?.cast_unsigned())
                .ok_or_else(|| unreadable("earlier"))?,
            // The fast settle leaves it there.
            doubted: doubted.filter(|_| state.name() == StateName::Held),
            cause: get::<Option<&str>>(row, at(26))?.and_then(Cause::new),
            state,
        };
        let holder = match (get::<Option<i64>>(row, at(19))?, get::<Option<i64>>(row, at(20))?) {
            (Some(last), Some(until)) => {
                Sign { last: Timestamp::from_micros(last), until: Timestamp::from_micros(until) }
            }
            _ => Sign::UNKNOWN,
        };
        Ok(Some(Stored {
            claim,
            holder,
            watched: get(row, at(11))?,
            leaving: get(row, at(12))?,
            identity: get::<&[u8]>(row, at(17))?.to_vec(),
        }))
    }

    /// Whether a memory table may take it in.
    pub(super) fn may_be_remembered(&self) -> bool {
        !self.leaving && matches!(self.claim.state, State::Settled { .. })
    }

    /// Whose claim it is, on what.
    pub(super) fn identity(&self) -> Result<Identity, Error> {
        Identity::decode(&self.identity)
    }
}

fn read_state(row: &Row, first: usize) -> Result<State, Error> {
    let note = get::<Letter>(row, first + 9)?.cast_unsigned();
    let since = Timestamp::from_micros(get(row, first + 4)?);
    let until = get::<Option<i64>>(row, first + 5)?.map(Timestamp::from_micros);
    let bad_note = || unreadable("note");
    Ok(match state_name(get(row, first + 8)?)? {
        StateName::Held => State::Held { run_until: until.ok_or_else(|| unreadable("until"))? },
        StateName::Settled => {
            let kind = get::<Option<Letter>>(row, first + 21)?
                .ok_or_else(|| Error::corrupt("a settled claim has lost its outcome"))?;
            let bytes = get::<Option<&[u8]>>(row, first + 24)?;
            State::Settled {
                outcome: read_outcome(kind, get(row, first + 22)?, get(row, first + 23)?, bytes)?,
                settled_at: since,
                keep_until: until.ok_or_else(|| unreadable("until"))?,
                by: match note {
                    b'h' => SettledBy::Holder,
                    b'o' => SettledBy::Operator,
                    _ => return Err(bad_note()),
                },
            }
        }
        StateName::InDoubt => {
            State::InDoubt { reason: doubt_of(note).ok_or_else(bad_note)?, since, asked_at: until }
        }
        StateName::Released => State::Released { since, ran: ran_of(note).ok_or_else(bad_note)? },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_come_back_to_the_nanosecond() {
        let plain = Terms::default();
        let odd = Terms {
            rerun: Rerun::Ask,
            quiet: Duration::from_nanos(1),
            max_run: Duration::MAX,
            give_up: Duration::new(7, 999_999_999),
            doubt: Some(DoubtEnds { after: Duration::from_secs(3), then: DoubtThen::Forget }),
        };
        for terms in [plain, odd] {
            assert_eq!(unpack_terms(&pack_terms(&terms)), Some(terms));
        }
    }

    #[test]
    fn mangled_terms_are_not_read() {
        let good = pack_terms(&Terms::default());
        for bytes in [&[][..], &[1], &[4, 0, 0, 0], &good[..good.len() - 1], &[1, 0, 0, 0, 9], &[0xff; 40]] {
            assert_eq!(unpack_terms(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn what_is_asked_about_comes_back_and_nothing_mangled_does() {
        let doubted = Doubted {
            reason: Doubt::Stated,
            since: Timestamp::from_micros(7),
            session: SessionId(u64::MAX),
            granted_at: Timestamp::NEVER,
        };
        let good = pack_doubted(&doubted);
        assert_eq!(unpack_doubted(&good), Some(doubted));
        for bytes in [&[][..], b"s", &good[..good.len() - 1], &[good.as_slice(), &[0]].concat(), &[0; 25]] {
            assert_eq!(unpack_doubted(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn an_outcome_with_a_flipped_bit_is_refused() {
        let outcome = Outcome::Succeeded(Bytes::from_static(b"paid"));
        let columns = OutcomeColumns::from(&outcome);
        let read = |bytes| read_outcome(columns.kind, columns.status, Some(columns.checksum), Some(bytes));
        assert_eq!(read(b"paid").unwrap(), outcome);
        assert_eq!(read(b"pain").unwrap_err().kind(), hapax_core::Kind::Corrupt);
    }
}
