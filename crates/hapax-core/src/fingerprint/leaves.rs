//! Enough about a request to say later where another one differs, and too little to read it (H10).
//!
//! Of method, path and query a short keyed hash each is kept, whatever the recipe compares; a recall by key is held against
//! them, too (H7). For each leaf of a JSON body (a scalar, or an empty array or object) there are two: of its pointer, and
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

use super::RequestParts;
use super::walk::{Leaf, Visit, walk};
use crate::Error;
use crate::id::write_hex;
use crate::json::Pointer;
use crate::limits::{MAX_LEAVES, MAX_LEAVES_COMPARED, MAX_POINTERS_TOLD};

/// The first byte of stored leaves: of a JSON body alone, or of a request, whose target comes before the leaves of its body.
const OF_BODY: u8 = 1;
const OF_REQUEST: u8 = 2;
/// The second byte: whether all leaves of the body are there, or it has none because it is not JSON that can be compared.
const WHOLE: u8 = 0;
const TRUNCATED: u8 = 1;
const NO_JSON: u8 = 2;
const HEADER_BYTES: usize = 2;
/// The hashes of method, path and query.
const TARGET_BYTES: usize = 24;
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
    targets: SipHasher24,
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
        LeafKey { pointers: derived("pointer"), values: derived("value"), targets: derived("target"), mac }
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

    /// Of method, path and query.
    fn target_hashes(&self, request: &RequestParts<'_>) -> [u64; 3] {
        [request.method, request.path, request.query].map(|part| self.targets.hash(part.as_bytes()))
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

/// The keyed hashes of one request: of its method, path and query, and of the leaves of its JSON body, at most [`MAX_LEAVES`]
/// of them, 16 bytes each.
#[derive(Clone, PartialEq, Eq)]
pub struct Leaves(Bytes);

impl Leaves {
    /// Hashes a request: its target, and the leaves of its body where that is JSON that can be compared.
    pub fn of_request(request: &RequestParts<'_>, key: &LeafKey, ignored: &[Pointer]) -> Leaves {
        let content = request.content();
        let body = content.as_deref().unwrap_or(request.body);
        let json = if body.is_empty() { None } else { json_entries(body, key, ignored) };
        let (flag, entries) = json.unwrap_or((NO_JSON, Vec::new()));
        let mut bytes = Vec::with_capacity(HEADER_BYTES + TARGET_BYTES + entries.len() * ENTRY_BYTES);
        bytes.extend([OF_REQUEST, flag]);
        key.target_hashes(request).iter().for_each(|hash| bytes.extend_from_slice(&hash.to_be_bytes()));
        push_entries(&mut bytes, &entries);
        Leaves(bytes.into())
    }

    /// Hashes the leaves of a body alone; `None` if it is not JSON that can be compared.
    pub fn of_json(body: &[u8], key: &LeafKey, ignored: &[Pointer]) -> Option<Leaves> {
        let (flag, entries) = json_entries(body, key, ignored)?;
        let mut bytes = Vec::with_capacity(HEADER_BYTES + entries.len() * ENTRY_BYTES);
        bytes.extend([OF_BODY, flag]);
        push_entries(&mut bytes, &entries);
        Some(Leaves(bytes.into()))
    }

    /// The stored form.
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// Reads back the stored form. Anything that [`Leaves::of_request`] and [`Leaves::of_json`] could not have made is corrupt.
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Result<Leaves, Error> {
        let leaves = Leaves(bytes.into());
        let entries = leaves.entry_bytes();
        let well_formed = match (&leaves.0[..], entries) {
            ([OF_BODY | OF_REQUEST, WHOLE | TRUNCATED, ..], Some(entries)) => {
                entries.len().is_multiple_of(ENTRY_BYTES)
                    && entries.len() / ENTRY_BYTES <= MAX_LEAVES
                    && leaves.entries().is_sorted_by(|a, b| a < b)
            }
            ([OF_REQUEST, NO_JSON, ..], Some(entries)) => entries.is_empty(),
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

    /// Says where another request differs from the one these leaves were taken from.
    pub fn explain_request(&self, new: &RequestParts<'_>, key: &LeafKey, ignored: &[Pointer]) -> Explanation {
        let content = new.content();
        let mut told = match self.0.get(1) {
            Some(&NO_JSON) => Explanation::default(),
            _ => self.explain(content.as_deref().unwrap_or(new.body), key, ignored),
        };
        if let Some(target) = self.target() {
            let parts =
                ["method", "path", "query"].into_iter().zip(target.into_iter().zip(key.target_hashes(new)));
            told.request = parts.filter(|(_, (first, new))| first != new).map(|(part, _)| part).collect();
        }
        told
    }

    /// Whether these leaves are of a request with this method, path and query, as far as they say.
    pub fn is_to(&self, request: &RequestParts<'_>, key: &LeafKey) -> bool {
        self.target().is_none_or(|target| target == key.target_hashes(request))
    }

    /// The hashes of method, path and query, where they are kept.
    fn target(&self) -> Option<[u64; 3]> {
        let bytes = self.0.strip_prefix(&[OF_REQUEST])?.get(1..1 + TARGET_BYTES)?;
        let [method, path, query] = bytes.as_chunks::<8>().0 else { return None };
        Some([*method, *path, *query].map(u64::from_be_bytes))
    }

    /// Says where another body differs from the one these leaves were taken from.
    pub fn explain(&self, new_body: &[u8], key: &LeafKey, ignored: &[Pointer]) -> Explanation {
        let mut comparison = Comparison::with(self, key);
        match walk(new_body, ignored, MAX_LEAVES_COMPARED, &mut comparison) {
            Some(whole) => comparison.concluded(whole),
            None => Explanation::default(),
        }
    }

    fn entry_bytes(&self) -> Option<&[u8]> {
        let target = if self.0.first() == Some(&OF_REQUEST) { TARGET_BYTES } else { 0 };
        self.0.get(HEADER_BYTES + target..)
    }

    fn entries(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let entries = self.entry_bytes().unwrap_or_default();
        entries.as_chunks::<ENTRY_BYTES>().0.iter().map(|entry| {
            let both = u128::from_be_bytes(*entry);
            ((both >> 64) as u64, both as u64)
        })
    }
}

/// The leaves of a body, sorted, and whether they are all; `None` if it is not JSON that can be compared.
fn json_entries(body: &[u8], key: &LeafKey, ignored: &[Pointer]) -> Option<(u8, Vec<(u64, u64)>)> {
    let mut kept = Kept { key, entries: Vec::with_capacity(COMMON_LEAVES) };
    let whole = walk(body, ignored, MAX_LEAVES, &mut kept)?;
    kept.entries.sort_unstable();
    Some((if whole { WHOLE } else { TRUNCATED }, kept.entries))
}

fn push_entries(bytes: &mut Vec<u8>, entries: &[(u64, u64)]) {
    for (pointer, value) in entries {
        bytes.extend_from_slice(&pointer.to_be_bytes());
        bytes.extend_from_slice(&value.to_be_bytes());
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

/// A request whose leaves can be hashed when they are needed.
pub trait Asked: Send + Sync {
    /// Its leaves under this key.
    fn leaves(&self, key: &LeafKey) -> Leaves;
}

/// Leaves that are hashed when somebody needs them: only a claim that is new keeps them, and hashing them costs more than
/// answering a retry.
#[derive(Clone)]
pub struct LazyLeaves(Lazy);

#[derive(Clone)]
enum Lazy {
    Made(Leaves),
    Later { request: Arc<dyn Asked>, key: Arc<LeafKey> },
}

impl LazyLeaves {
    /// The leaves of this request under this key.
    pub fn of(request: Arc<dyn Asked>, key: Arc<LeafKey>) -> LazyLeaves {
        LazyLeaves(Lazy::Later { request, key })
    }

    /// The leaves.
    pub fn get(&self) -> Leaves {
        match &self.0 {
            Lazy::Made(leaves) => leaves.clone(),
            Lazy::Later { request, key } => request.leaves(key),
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
            Lazy::Later { .. } => f.write_str("LazyLeaves(…)"),
        }
    }
}

impl fmt::Debug for Leaves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Leaves({}{})", self.len(), if self.is_truncated() { ", truncated" } else { "" })
    }
}

/// Where a new request differs from the first one. Pointers are those of the new body; the old one's are not
/// known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// Which of `method`, `path` and `query` differ.
    pub request: Vec<&'static str>,
    /// Leaves that both bodies have, with other values.
    pub changed: Vec<String>,
    /// Leaves that only the new body has.
    pub added: Vec<String>,
    /// How many leaves only the first body had.
    pub missing: usize,
    /// Whether this is all about the bodies: false if either body is not JSON or too large to be compared whole.
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
