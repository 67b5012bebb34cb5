//! The numbers that name things: epochs, attempts, sessions and operations.

use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;

use crate::identity::ClaimId;
use crate::{Error, limits};

/// How many random bytes a thread fetches at a time.
const RANDOM_BYTES: usize = 512;

/// The fencing number of one grant: (store incarnation, counter), ordered, strictly increasing, never reused (L4).
///
/// Both parts are packed into 63 bits so that every database can compare them as one signed integer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u64);

impl Epoch {
    /// Packs an incarnation and a counter; refuses what would not fit, because a wrapped epoch would be a reused one.
    pub fn new(incarnation: u16, counter: u64) -> Result<Self, Error> {
        if u64::from(incarnation) > limits::MAX_INCARNATION || counter > limits::MAX_EPOCH_COUNTER {
            return Err(Error::internal("the store has used up its epochs"));
        }
        Ok(Epoch((u64::from(incarnation) << limits::EPOCH_COUNTER_BITS) | counter))
    }

    /// Reads a packed epoch back.
    pub fn from_packed(packed: u64) -> Self {
        Epoch(packed)
    }

    /// The packed number.
    pub fn packed(self) -> u64 {
        self.0
    }

    /// Which life of the store granted it.
    pub fn incarnation(self) -> u16 {
        u16::try_from(self.0 >> limits::EPOCH_COUNTER_BITS).unwrap_or(u16::MAX)
    }

    /// Its number within that life.
    pub fn counter(self) -> u64 {
        self.0 & limits::MAX_EPOCH_COUNTER
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.incarnation(), self.counter())
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Epoch({self})")
    }
}

impl FromStr for Epoch {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad =
            || Error::invalid("an epoch is written as two numbers with a dot between them, such as 1.42");
        let (incarnation, counter) = text.split_once('.').ok_or_else(bad)?;
        Epoch::new(incarnation.parse().map_err(|_| bad())?, counter.parse().map_err(|_| bad())?)
    }
}

/// One process's registration with a store; its leases live and lapse with it (L4).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionId(pub u64);

/// The random id of one attempt. Commands are idempotent in it (L13).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId([u8; 16]);

impl AttemptId {
    /// A new random id.
    pub fn random() -> Self {
        AttemptId(random_bytes())
    }

    /// Reads stored bytes back.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        AttemptId(bytes)
    }

    /// The bytes to store.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("at_")?;
        write_hex(f, &self.0)
    }
}

/// The id of one write to a stream: sent again under it, the write happens once (J2, L13).
///
/// That of a step's result is the step's own. Ids of one stream that grow with time are cheaper to keep than scattered ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppendId([u8; 16]);

/// The random id of one runner of a stream: whoever does not have it is fenced off (J2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunnerId([u8; 16]);

/// What the two ids of journals have in common.
macro_rules! sixteen_bytes {
    ($name:ident, $prefix:literal) => {
        impl $name {
            /// A new random id.
            pub fn random() -> Self {
                $name(random_bytes())
            }

            /// Reads stored bytes back.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                $name(bytes)
            }

            /// The bytes to store.
            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($prefix)?;
                write_hex(f, &self.0)
            }
        }
    };
}

sixteen_bytes!(AppendId, "ap_");
sixteen_bytes!(RunnerId, "ru_");

/// The opaque public id (`op_…`) of one grant from absent; a takeover keeps it.
///
/// Its first bytes are those of the claim's identity, so that a store finds the claim through the index it has anyway.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId([u8; 16]);

impl OperationId {
    /// How many bytes of the claim's identity it starts with.
    pub const CLAIM_PREFIX: usize = 10;

    /// A new id for a grant of this claim.
    pub fn mint(claim: &ClaimId) -> Self {
        Self::for_claim(claim, random_bytes())
    }

    /// The id of a grant of this claim with the given distinguishing bytes.
    pub fn for_claim(claim: &ClaimId, tail: [u8; 16 - Self::CLAIM_PREFIX]) -> Self {
        let mut bytes = [0; 16];
        bytes[..Self::CLAIM_PREFIX].copy_from_slice(&claim.as_bytes()[..Self::CLAIM_PREFIX]);
        bytes[Self::CLAIM_PREFIX..].copy_from_slice(&tail);
        OperationId(bytes)
    }

    /// Reads stored bytes back.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        OperationId(bytes)
    }

    /// The bytes to store.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The bytes that the claim's identity starts with.
    pub fn claim_prefix(&self) -> &[u8] {
        &self.0[..Self::CLAIM_PREFIX]
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("op_")?;
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for OperationId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::invalid("an operation id is `op_` followed by 32 hexadecimal digits");
        let hex = text.strip_prefix("op_").filter(|hex| hex.len() == 32 && hex.is_ascii()).ok_or_else(bad)?;
        let mut bytes = [0; 16];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).map_err(|_| bad())?;
        }
        Ok(OperationId(bytes))
    }
}

/// Lower-case hexadecimal, the one way ids are written.
pub(crate) fn write_hex(f: &mut impl fmt::Write, bytes: &[u8]) -> fmt::Result {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    // Piece by piece: the formatter costs more for a byte than all the rest.
    for piece in bytes.chunks(16) {
        let mut text = [0; 32];
        for (pair, byte) in text.chunks_exact_mut(2).zip(piece) {
            pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        f.write_str(std::str::from_utf8(&text[..2 * piece.len()]).unwrap_or_default())?;
    }
    Ok(())
}

/// Bytes from the operating system, of which each thread fetches many at a time: a call for each id is dear.
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    thread_local! {
        static FETCHED: RefCell<(usize, [u8; RANDOM_BYTES])> = const { RefCell::new((RANDOM_BYTES, [0; RANDOM_BYTES])) };
    }
    FETCHED.with_borrow_mut(|(used, fetched)| {
        if *used + N > RANDOM_BYTES {
            // Without randomness attempts of two processes could share an id, and one would be granted the other's claim.
            getrandom::fill(fetched).expect("the operating system gives random bytes");
            *used = 0;
        }
        let mut bytes = [0; N];
        bytes.copy_from_slice(&fetched[*used..*used + N]);
        *used += N;
        bytes
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_order_by_incarnation_first() {
        let old = Epoch::new(1, limits::MAX_EPOCH_COUNTER).unwrap();
        let new = Epoch::new(2, 0).unwrap();
        assert!(old < new);
        assert!(i64::try_from(Epoch::new(0x7fff, limits::MAX_EPOCH_COUNTER).unwrap().packed()).is_ok());
    }

    #[test]
    fn an_epoch_that_would_wrap_is_refused() {
        assert!(Epoch::new(1, limits::MAX_EPOCH_COUNTER + 1).is_err());
        assert!(Epoch::new(0x8000, 1).is_err());
    }

    #[test]
    fn ids_read_back_as_they_were_written() {
        let claim = ClaimId::from_bytes([7; 32]);
        let id = OperationId::mint(&claim);
        assert_eq!(id.to_string().parse::<OperationId>().unwrap(), id);
        assert_eq!(id.claim_prefix(), &[7; OperationId::CLAIM_PREFIX]);
        let epoch = Epoch::new(3, 99).unwrap();
        assert_eq!(epoch.to_string().parse::<Epoch>().unwrap(), epoch);
    }

    #[test]
    fn malformed_ids_are_refused() {
        for text in [
            "",
            "op_",
            "op_zz",
            "0123",
            "op_0123456789abcdef0123456789abcdeg",
            "op_é123456789abcdef0123456789abcde",
        ] {
            assert!(text.parse::<OperationId>().is_err(), "{text}");
        }
        for text in ["", "1", "1.", ".1", "a.b", "1.281474976710656"] {
            assert!(text.parse::<Epoch>().is_err(), "{text}");
        }
    }
}
