//! Enough about a JSON body to say later where another one differs, and too little to read it (H10).
//!
//! For each leaf (a scalar, or an empty array or object) two short keyed hashes are kept: of its pointer, and
//! of its pointer with its value. Names and values are never stored. Who may be told the result is decided
//! elsewhere.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;

use crate::Error;
use crate::json::{self, Pointer};
use crate::limits::{MAX_LEAVES, MAX_LEAVES_COMPARED, MAX_POINTERS_TOLD};

/// The first byte of stored leaves.
const VERSION: u8 = 1;
/// The second byte: whether all leaves of the body are there.
const WHOLE: u8 = 0;
const TRUNCATED: u8 = 1;
const HEADER_BYTES: usize = 2;
const HASH_BYTES: usize = 8;
const ENTRY_BYTES: usize = 2 * HASH_BYTES;

type Hash = [u8; HASH_BYTES];

/// The secret of the keyed hashes: without it, stored leaves cannot be tested against guesses.
#[derive(Clone)]
pub struct LeafKey(Hmac<Sha256>);

impl LeafKey {
    /// A key of 32 random bytes.
    pub fn new(bytes: [u8; 32]) -> LeafKey {
        LeafKey(Hmac::new_from_slice(&bytes).expect("HMAC takes a key of any length"))
    }

    /// A short keyed digest of a caller's key, for logs: the same key of the same tenant is recognised, and cannot be
    /// guessed from it (O2).
    pub fn log_digest(&self, tenant: &str, key: &str) -> String {
        let digest = self.hash(b"log", tenant, key.as_bytes());
        digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
    }

    fn pointer_hash(&self, pointer: &str) -> Hash {
        self.hash(b"pointer", pointer, b"")
    }

    fn value_hash(&self, pointer: &str, value: &[u8]) -> Hash {
        self.hash(b"value", pointer, value)
    }

    fn hash(&self, what: &[u8], pointer: &str, value: &[u8]) -> Hash {
        let mut mac = self.0.clone();
        for part in [what, pointer.as_bytes(), value] {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        let mut hash = Hash::default();
        hash.copy_from_slice(&mac.finalize().into_bytes()[..HASH_BYTES]);
        hash
    }
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
        let document = document(body, ignored)?;
        let mut entries = Vec::new();
        let whole = walk(&document, MAX_LEAVES, &mut |pointer, value| {
            entries.push((key.pointer_hash(pointer), key.value_hash(pointer, value)));
        });
        entries.sort_unstable();
        entries.dedup();
        let mut bytes = vec![VERSION, if whole { WHOLE } else { TRUNCATED }];
        for (pointer, value) in entries {
            bytes.extend(pointer);
            bytes.extend(value);
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
        let Some(document) = document(new_body, ignored) else { return Explanation::default() };
        let mut comparison = Comparison::with(self);
        let whole = walk(&document, MAX_LEAVES_COMPARED, &mut |pointer, value| {
            comparison.see(pointer, key.pointer_hash(pointer), || key.value_hash(pointer, value));
        });
        comparison.concluded(whole)
    }

    fn entries(&self) -> impl Iterator<Item = (Hash, Hash)> + '_ {
        let entries = self.0.get(HEADER_BYTES..).unwrap_or_default();
        entries.as_chunks::<ENTRY_BYTES>().0.iter().map(|entry| {
            let (mut pointer, mut value) = (Hash::default(), Hash::default());
            pointer.copy_from_slice(&entry[..HASH_BYTES]);
            value.copy_from_slice(&entry[HASH_BYTES..]);
            (pointer, value)
        })
    }
}

/// Leaves that are hashed when somebody needs them, and then once: only a claim that is new keeps them, and hashing them
/// costs more than answering a retry.
#[derive(Clone)]
pub struct LazyLeaves(Arc<Lazy>);

struct Lazy {
    body: Bytes,
    key: Arc<LeafKey>,
    ignored: Vec<Pointer>,
    made: OnceLock<Option<Leaves>>,
}

impl LazyLeaves {
    /// The leaves of this body, as [`Leaves::of_json`] makes them.
    pub fn of_json(body: Bytes, key: Arc<LeafKey>, ignored: &[Pointer]) -> LazyLeaves {
        LazyLeaves(Arc::new(Lazy { body, key, ignored: ignored.to_vec(), made: OnceLock::new() }))
    }

    /// The leaves; `None` if the body is not JSON that can be compared.
    pub fn get(&self) -> Option<Leaves> {
        let Lazy { body, key, ignored, made } = &*self.0;
        made.get_or_init(|| Leaves::of_json(body, key, ignored)).clone()
    }
}

impl From<Leaves> for LazyLeaves {
    fn from(leaves: Leaves) -> Self {
        let key = Arc::new(LeafKey::new([0; 32]));
        let made = OnceLock::from(Some(leaves));
        LazyLeaves(Arc::new(Lazy { body: Bytes::new(), key, ignored: Vec::new(), made }))
    }
}

impl fmt::Debug for LazyLeaves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LazyLeaves").field(&self.0.made.get()).finish()
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
    known: Vec<(Hash, Hash)>,
    seen: HashSet<Hash>,
    told: Explanation,
    overflowed: bool,
}

impl<'a> Comparison<'a> {
    fn with(first: &'a Leaves) -> Self {
        let known = first.entries().collect();
        Comparison { first, known, seen: HashSet::new(), told: Explanation::default(), overflowed: false }
    }

    fn see(&mut self, pointer: &str, hash: Hash, value_hash: impl FnOnce() -> Hash) {
        let start = self.known.partition_point(|(known, _)| *known < hash);
        let Some((_, kept)) = self.known.get(start).filter(|(known, _)| *known == hash) else {
            return self.tell(Heading::Added, pointer);
        };
        if *kept != value_hash() {
            self.tell(Heading::Changed, pointer);
        }
        self.seen.insert(hash);
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

fn document(body: &[u8], ignored: &[Pointer]) -> Option<Value> {
    let mut document = json::read_lossless(body).ok()?;
    ignored.iter().for_each(|pointer| pointer.remove_from(&mut document));
    Some(document)
}

/// Visits at most `limit` leaves with their pointers and canonical values; says whether those were all.
fn walk(document: &Value, limit: usize, visit: &mut impl FnMut(&str, &[u8])) -> bool {
    let mut left = limit;
    let mut pointer = String::new();
    walk_from(document, &mut pointer, &mut left, visit)
}

fn walk_from(
    value: &Value,
    pointer: &mut String,
    left: &mut usize,
    visit: &mut impl FnMut(&str, &[u8]),
) -> bool {
    let parent = pointer.len();
    let mut child = |name: &str, value: &Value| {
        json::push_token(pointer, name);
        let whole = walk_from(value, pointer, left, visit);
        pointer.truncate(parent);
        whole
    };
    match value {
        Value::Object(members) if !members.is_empty() => {
            members.iter().all(|(name, value)| child(name, value))
        }
        Value::Array(items) if !items.is_empty() => {
            items.iter().enumerate().all(|(index, item)| child(&index.to_string(), item))
        }
        leaf => {
            // A document that was read without loss has a canonical form for each of its values.
            let Some((fewer, canonical)) = left.checked_sub(1).zip(json::canonical_value(leaf).ok()) else {
                return false;
            };
            *left = fewer;
            visit(pointer, &canonical);
            true
        }
    }
}
