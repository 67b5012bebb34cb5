//! Enough about a JSON body to say later where another one differs, and too little to read it (H10).
//!
//! For each leaf (a scalar, or an empty array or object) two short keyed hashes are kept: of its pointer, and
//! of its pointer with its value. Names and values are never stored. Every new claim pays for this and hardly any needs
//! it, so the hash is SipHash, which is made for short texts under a secret key. Who may be told the result is decided
//! elsewhere.

use std::collections::HashSet;
use std::fmt;
use std::hash::Hasher as _;
use std::sync::Arc;

use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use siphasher::sip::SipHasher24;

use super::walk::{Leaf, Visit, walk};
use crate::Error;
use crate::id::write_hex;
use crate::json::Pointer;
use crate::limits::{MAX_LEAVES, MAX_LEAVES_COMPARED, MAX_POINTERS_TOLD};

/// The first byte of stored leaves.
const VERSION: u8 = 1;
/// The second byte: whether all leaves of the body are there.
const WHOLE: u8 = 0;
const TRUNCATED: u8 = 1;
const HEADER_BYTES: usize = 2;
const ENTRY_BYTES: usize = 16;
/// Leaves that there is room for from the beginning.
const COMMON_LEAVES: usize = 32;
/// The longest value that is copied to be hashed in one piece with its place, in bytes.
const SHORT_VALUE: usize = 119;

/// The secret of the keyed hashes: without it, stored leaves cannot be tested against guesses.
#[derive(Clone)]
pub struct LeafKey {
    mac: Hmac<Sha256>,
    pointers: SipHasher24,
    values: SipHasher24,
}

impl LeafKey {
    /// A key of 32 random bytes.
    pub fn new(bytes: [u8; 32]) -> LeafKey {
        let mac = Hmac::new_from_slice(&bytes).expect("HMAC takes a key of any length");
        let derived = |what| {
            let mut key = [0; 16];
            key.copy_from_slice(&digest(&mac, &[what])[..16]);
            SipHasher24::new_with_key(&key)
        };
        LeafKey { pointers: derived("pointer"), values: derived("value"), mac }
    }

    /// A short keyed digest of a caller's key, for logs: the same key of the same tenant is recognised, and cannot be
    /// guessed from it (O2).
    pub fn log_digest(&self, tenant: &str, key: &str) -> String {
        let digest = digest(&self.mac, &["log", tenant, key]);
        let mut text = String::with_capacity(12);
        // Writing into a string does not fail.
        let _ = write_hex(&mut text, &digest[..6]);
        text
    }

    fn pointer_hash(&self, pointer: &str) -> u64 {
        self.pointers.hash(pointer.as_bytes())
    }

    /// Of a value at its place, so that equal values in two places do not look equal.
    fn value_hash(&self, place: u64, lists: u128, leaf: Leaf<'_>) -> u64 {
        let place = if lists == 0 { place } else { place ^ self.pointers.hash(&lists.to_be_bytes()) };
        let number;
        let (kind, value): (u8, &[u8]) = match leaf {
            Leaf::Null => (0, &[]),
            Leaf::Bool(value) => (1, if value { &[1] } else { &[0] }),
            Leaf::Number(value) => {
                number = value.to_bits().to_be_bytes();
                (2, &number)
            }
            Leaf::Text(text) => (3, text.as_bytes()),
            Leaf::EmptyArray => (4, &[]),
            Leaf::EmptyObject => (5, &[]),
        };
        // Hashed in one piece, a short text costs half of what it does in three.
        let mut short = [0; SHORT_VALUE + 9];
        if let Some(room) = short[9..].get_mut(..value.len()) {
            room.copy_from_slice(value);
            short[..8].copy_from_slice(&place.to_be_bytes());
            short[8] = kind;
            return self.values.hash(&short[..9 + value.len()]);
        }
        let mut hasher = self.values;
        hasher.write(&place.to_be_bytes());
        hasher.write(&[kind]);
        hasher.write(value);
        hasher.finish()
    }
}

fn digest(mac: &Hmac<Sha256>, parts: &[&str]) -> [u8; 32] {
    let mut mac = mac.clone();
    for part in parts {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part.as_bytes());
    }
    mac.finalize().into_bytes().into()
}

impl fmt::Debug for LeafKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeafKey(…)")
    }
}

/// The keyed hashes of the leaves of one JSON body: at most [`MAX_LEAVES`] of them, 16 bytes each.
#[derive(Clone, PartialEq, Eq)]
pub struct Leaves(Bytes);

impl Leaves {
    /// Hashes the leaves of a body; `None` if it is not JSON that can be compared.
    pub fn of_json(body: &[u8], key: &LeafKey, ignored: &[Pointer]) -> Option<Leaves> {
        let mut kept = Kept { key, entries: Vec::with_capacity(COMMON_LEAVES) };
        let whole = walk(body, ignored, MAX_LEAVES, &mut kept)?;
        let mut entries = kept.entries;
        entries.sort_unstable();
        let mut bytes = Vec::with_capacity(HEADER_BYTES + entries.len() * ENTRY_BYTES);
        bytes.extend([VERSION, if whole { WHOLE } else { TRUNCATED }]);
        for (pointer, value) in entries {
            bytes.extend_from_slice(&pointer.to_be_bytes());
            bytes.extend_from_slice(&value.to_be_bytes());
        }
        Some(Leaves(bytes.into()))
    }

    /// The stored form.
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// Reads back the stored form. Anything that [`Leaves::of_json`] could not have made is corrupt.
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Result<Leaves, Error> {
        let leaves = Leaves(bytes.into());
        let well_formed = match &leaves.0[..] {
            [VERSION, WHOLE | TRUNCATED, entries @ ..] => {
                entries.len().is_multiple_of(ENTRY_BYTES)
                    && entries.len() / ENTRY_BYTES <= MAX_LEAVES
                    && leaves.entries().is_sorted_by(|a, b| a < b)
            }
            _ => false,
        };
        if well_formed { Ok(leaves) } else { Err(Error::corrupt("stored leaf hashes cannot be read")) }
    }

    /// Whether the body had more leaves than are kept.
    pub fn is_truncated(&self) -> bool {
        self.0.get(1) == Some(&TRUNCATED)
    }

    /// How many leaves are kept.
    pub fn len(&self) -> usize {
        self.entries().count()
    }

    /// Whether no leaf is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Says where another body differs from the one these leaves were taken from.
    pub fn explain(&self, new_body: &[u8], key: &LeafKey, ignored: &[Pointer]) -> Explanation {
        let mut comparison = Comparison::with(self, key);
        match walk(new_body, ignored, MAX_LEAVES_COMPARED, &mut comparison) {
            Some(whole) => comparison.concluded(whole),
            None => Explanation::default(),
        }
    }

    fn entries(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let entries = self.0.get(HEADER_BYTES..).unwrap_or_default();
        entries.as_chunks::<ENTRY_BYTES>().0.iter().map(|entry| {
            let both = u128::from_be_bytes(*entry);
            ((both >> 64) as u64, both as u64)
        })
    }
}

/// Leaves of a body that is new.
struct Kept<'a> {
    key: &'a LeafKey,
    entries: Vec<(u64, u64)>,
}

impl Visit for Kept<'_> {
    fn place(&self, pointer: &str) -> u64 {
        self.key.pointer_hash(pointer)
    }

    fn leaf(&mut self, _: &str, place: u64, lists: u128, leaf: Leaf<'_>) {
        self.entries.push((place, self.key.value_hash(place, lists, leaf)));
    }
}

/// Leaves that are hashed when somebody needs them: only a claim that is new keeps them, and hashing them costs more than
/// answering a retry.
#[derive(Clone)]
pub struct LazyLeaves(Lazy);

#[derive(Clone)]
enum Lazy {
    Made(Leaves),
    Json { body: Bytes, key: Arc<LeafKey>, ignored: Vec<Pointer> },
}

impl LazyLeaves {
    /// The leaves of this body, as [`Leaves::of_json`] makes them.
    pub fn of_json(body: Bytes, key: Arc<LeafKey>, ignored: &[Pointer]) -> LazyLeaves {
        LazyLeaves(Lazy::Json { body, key, ignored: ignored.to_vec() })
    }

    /// The leaves; `None` if the body is not JSON that can be compared.
    pub fn get(&self) -> Option<Leaves> {
        match &self.0 {
            Lazy::Made(leaves) => Some(leaves.clone()),
            Lazy::Json { body, key, ignored } => Leaves::of_json(body, key, ignored),
        }
    }
}

impl From<Leaves> for LazyLeaves {
    fn from(leaves: Leaves) -> Self {
        LazyLeaves(Lazy::Made(leaves))
    }
}

impl fmt::Debug for LazyLeaves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Lazy::Made(leaves) => f.debug_tuple("LazyLeaves").field(leaves).finish(),
            Lazy::Json { .. } => f.write_str("LazyLeaves(…)"),
        }
    }
}

impl fmt::Debug for Leaves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Leaves({}{})", self.len(), if self.is_truncated() { ", truncated" } else { "" })
    }
}

/// Where a new body differs from the first one. Pointers are those of the new body; the old one's are not
/// known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// Leaves that both bodies have, with other values.
    pub changed: Vec<String>,
    /// Leaves that only the new body has.
    pub added: Vec<String>,
    /// How many leaves only the first body had.
    pub missing: usize,
    /// Whether this is all: false if either body is not JSON or too large to be compared whole.
    pub complete: bool,
}

/// The leaves of the first body, while those of the new one are held against them.
struct Comparison<'a> {
    first: &'a Leaves,
    key: &'a LeafKey,
    known: Vec<(u64, u64)>,
    seen: HashSet<u64>,
    told: Explanation,
    overflowed: bool,
}

impl Visit for Comparison<'_> {
    fn place(&self, pointer: &str) -> u64 {
        self.key.pointer_hash(pointer)
    }

    fn leaf(&mut self, pointer: &str, place: u64, lists: u128, leaf: Leaf<'_>) {
        let start = self.known.partition_point(|(known, _)| *known < place);
        let Some((_, kept)) = self.known.get(start).filter(|(known, _)| *known == place) else {
            return self.tell(Heading::Added, pointer);
        };
        if *kept != self.key.value_hash(place, lists, leaf) {
            self.tell(Heading::Changed, pointer);
        }
        self.seen.insert(place);
    }
}

impl<'a> Comparison<'a> {
    fn with(first: &'a Leaves, key: &'a LeafKey) -> Self {
        let (known, told) = (first.entries().collect(), Explanation::default());
        Comparison { first, key, known, seen: HashSet::new(), told, overflowed: false }
    }

    fn tell(&mut self, heading: Heading, pointer: &str) {
        let list = match heading {
            Heading::Changed => &mut self.told.changed,
            Heading::Added => &mut self.told.added,
        };
        if list.len() < MAX_POINTERS_TOLD {
            list.push(pointer.to_owned());
        } else {
            self.overflowed = true;
        }
    }

    /// Drops what cannot be known: of a truncated first body, what is new; of a new body not seen whole, what
    /// is gone.
    fn concluded(mut self, new_is_whole: bool) -> Explanation {
        if self.first.is_truncated() {
            self.told.added.clear();
        }
        if new_is_whole {
            self.told.missing = self.known.iter().filter(|(pointer, _)| !self.seen.contains(pointer)).count();
        }
        self.told.complete = new_is_whole && !self.first.is_truncated() && !self.overflowed;
        self.told
    }
}

enum Heading {
    Changed,
    Added,
}
