//! What a claim is identified by (K5): where the key came from, whose it is, what is called, and the key
//! itself.
//!
//! The ledger knows a claim by its [`ClaimId`], a digest of those parts, each with its length in front, so
//! that no two tuples can run into each other as joined strings do. The readable parts are kept beside it as
//! [`Identity::encode`] writes them. How stores lay that out is their business.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::limits::MAX_OPERATION_CHARS;
use crate::{Error, Key, Scope, Width};

/// Keeps this digest apart from every other digest that hapax makes; a change of the tuple needs a new one.
const CLAIM_DOMAIN: &[u8] = b"hapax.claim.v1";
/// The first byte of an encoded identity.
const ENCODING_VERSION: u8 = 1;

/// How the key was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The caller sent it in `Idempotency-Key`.
    Header,
    /// It was taken from what the transport carries: a webhook's delivery id, a schedule's tick.
    Transport,
    /// It was derived from the work: an action's key, a step's coordinates, a fingerprint.
    Derived,
}

impl Source {
    /// All sources.
    pub const ALL: [Source; 3] = [Self::Header, Self::Transport, Self::Derived];

    /// The word used in digests, logs and lists.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::Transport => "transport",
            Self::Derived => "derived",
        }
    }
}

/// What is called: `^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$` (K6).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Operation(Arc<str>);

impl Operation {
    /// Checks an operation's name.
    pub fn new(name: impl AsRef<str>) -> Result<Operation, Error> {
        let name = name.as_ref();
        let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        let goes_on_well =
            name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'/' | b'-'));
        if starts_well && goes_on_well && name.len() <= MAX_OPERATION_CHARS {
            return Ok(Operation(name.into()));
        }
        Err(Error::invalid(format!(
            "the operation's name is not usable: use 1 to {MAX_OPERATION_CHARS} letters, digits and \
             . _ : / -, starting with a letter or digit"
        ))
        .with_detail(format_args!("{name:?}")))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The identity of a claim inside the ledger (K5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId([u8; 32]);

impl ClaimId {
    /// The digest's bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// A claim id that a store has kept.
    pub fn from_bytes(bytes: [u8; 32]) -> ClaimId {
        ClaimId(bytes)
    }
}

/// The readable parts that a [`ClaimId`] is the digest of.
///
/// Cheap to clone. Two identities can have the same claim id and not be equal: with a width wider than
/// subject, the subject that asks is remembered but does not take part in the digest.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity(Arc<Parts>);

#[derive(PartialEq, Eq)]
struct Parts {
    claim_id: ClaimId,
    source: Source,
    scope: Scope,
    width: Width,
    operation: Operation,
    key: Key,
}

impl Identity {
    /// Brings the parts together and computes the claim id.
    ///
    /// Where a peer has dropped parts of the scope, the width is at least what is left of it
    /// ([`Scope::least_width`]).
    pub fn new(source: Source, scope: Scope, width: Width, operation: Operation, key: Key) -> Identity {
        let width = width.max(scope.least_width());
        let claim_id = digest(source, &scope, width, &operation, &key);
        Identity(Arc::new(Parts { claim_id, source, scope, width, operation, key }))
    }

    /// The digest that the ledger knows the claim by.
    pub fn claim_id(&self) -> ClaimId {
        self.0.claim_id
    }

    /// How the key was found.
    pub fn source(&self) -> Source {
        self.0.source
    }

    /// Who asks.
    pub fn scope(&self) -> &Scope {
        &self.0.scope
    }

    /// How much of the scope takes part in the claim id.
    pub fn width(&self) -> Width {
        self.0.width
    }

    /// What is called.
    pub fn operation(&self) -> &Operation {
        &self.0.operation
    }

    /// The caller's key.
    pub fn key(&self) -> &Key {
        &self.0.key
    }

    /// Whether an outcome under this identity is this caller's to read: the scopes agree in all that the width keeps (K8).
    pub fn is_visible_to(&self, caller: &Scope) -> bool {
        self.width() >= caller.least_width()
            && self.scope().narrowed(self.width()) == caller.narrowed(self.width())
    }

    /// The readable parts as bytes for a store: a version, source and width, then five length-prefixed texts.
    ///
    /// The scope is kept whole, whatever the width, so that a list can say who asked first.
    pub fn encode(&self) -> Vec<u8> {
        let scope = self.0.scope.narrowed(Width::Subject);
        let texts = [
            scope.tenant(),
            scope.project(),
            scope.subject(),
            self.operation().as_str(),
            self.key().as_str(),
        ];
        let mut bytes = Vec::with_capacity(3 + texts.iter().map(|text| 2 + text.len()).sum::<usize>());
        bytes.extend([ENCODING_VERSION, source_code(self.source()), width_code(self.width())]);
        for text in texts {
            // Every part is bounded far below this (limits.rs).
            let length =
                u16::try_from(text.len()).expect("the parts of an identity are shorter than 65,536 bytes");
            bytes.extend(length.to_be_bytes());
            bytes.extend(text.as_bytes());
        }
        bytes
    }

    /// Reads back what [`Identity::encode`] wrote. Anything else is corrupt.
    pub fn decode(bytes: &[u8]) -> Result<Identity, Error> {
        decode(bytes).ok_or_else(|| Error::corrupt("a stored identity cannot be read"))
    }
}

fn decode(bytes: &[u8]) -> Option<Identity> {
    let (&[version, source, width], mut rest) = bytes.split_first_chunk()?;
    if version != ENCODING_VERSION {
        return None;
    }
    let source = Source::ALL.into_iter().find(|known| source_code(*known) == source)?;
    let width =
        [Width::Subject, Width::Project, Width::Tenant].into_iter().find(|w| width_code(*w) == width)?;
    let mut texts = [""; 5];
    for text in &mut texts {
        *text = take_text(&mut rest)?;
    }
    let [tenant, project, subject, operation, key] = texts;
    let scope = Scope::from_rendered(tenant, project, subject).ok()?;
    if !rest.is_empty() || width < scope.least_width() {
        return None;
    }
    Some(Identity::new(source, scope, width, Operation::new(operation).ok()?, Key::new(key).ok()?))
}

fn take_text<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let (length, tail) = rest.split_first_chunk()?;
    let (text, tail) = tail.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    *rest = tail;
    std::str::from_utf8(text).ok()
}

fn source_code(source: Source) -> u8 {
    match source {
        Source::Header => 1,
        Source::Transport => 2,
        Source::Derived => 3,
    }
}

fn width_code(width: Width) -> u8 {
    match width {
        Width::Subject => 1,
        Width::Project => 2,
        Width::Tenant => 3,
    }
}

fn digest(source: Source, scope: &Scope, width: Width, operation: &Operation, key: &Key) -> ClaimId {
    let mut hasher = Sha256::new();
    preimage(source, scope, width, operation, key, |bytes| hasher.update(bytes));
    ClaimId(hasher.finalize().into())
}

/// Feeds the tuple of K5 to `sink`, each part with its length in front. Separate from the hashing so that a
/// test can show that no two tuples give the same bytes.
fn preimage(
    source: Source,
    scope: &Scope,
    width: Width,
    operation: &Operation,
    key: &Key,
    mut sink: impl FnMut(&[u8]),
) {
    let scope = scope.narrowed(width);
    let parts =
        [source.as_str(), scope.tenant(), scope.project(), scope.subject(), operation.as_str(), key.as_str()];
    sink(CLAIM_DOMAIN);
    for part in parts {
        sink(&(part.len() as u64).to_be_bytes());
        sink(part.as_bytes());
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Operation({:?})", &*self.0)
    }
}

impl fmt::Display for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::id::write_hex(f, &self.0)
    }
}

impl fmt::Debug for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClaimId({self})")
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("claim_id", &self.claim_id())
            .field("source", &self.source())
            .field("scope", self.scope())
            .field("width", &self.width())
            .field("operation", self.operation())
            .field("key", self.key())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::scope::tests::{any_key, any_scope, any_width, confusable_scope};
    use crate::{Kind, Project, Subject, Tenant};

    fn any_source() -> impl Strategy<Value = Source> {
        (0..3_usize).prop_map(|index| Source::ALL[index])
    }

    fn any_identity() -> impl Strategy<Value = Identity> {
        let operation = "[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}";
        (any_source(), any_scope(), any_width(), operation, any_key()).prop_map(
            |(source, scope, width, operation, key)| {
                Identity::new(source, scope, width, Operation::new(operation).unwrap(), key)
            },
        )
    }

    /// Identities of few characters, so that joined strings of two of them would often be equal.
    fn confusable_identity() -> impl Strategy<Value = Identity> {
        (any_source(), confusable_scope(), any_width(), "[ab][ab:]{0,2}", "[ab:]{1,3}").prop_map(
            |(source, scope, width, operation, key)| {
                Identity::new(
                    source,
                    scope,
                    width,
                    Operation::new(operation).unwrap(),
                    Key::new(key).unwrap(),
                )
            },
        )
    }

    fn preimage_of(identity: &Identity) -> Vec<u8> {
        let mut bytes = Vec::new();
        let Parts { source, scope, width, operation, key, .. } = &*identity.0;
        preimage(*source, scope, *width, operation, key, |part| bytes.extend(part));
        bytes
    }

    /// What takes part in the identity.
    fn tuple(identity: &Identity) -> (Source, [String; 5]) {
        let scope = identity.scope().narrowed(identity.width());
        let texts = [
            scope.tenant(),
            scope.project(),
            scope.subject(),
            identity.operation().as_str(),
            identity.key().as_str(),
        ];
        (identity.source(), texts.map(str::to_owned))
    }

    fn identity(subject: &str, width: Width) -> Identity {
        let scope = Scope::new(
            Tenant::new("acme").unwrap(),
            Project::new("web").unwrap(),
            Subject::from_credential_text(subject).unwrap(),
        );
        Identity::new(Source::Header, scope, width, Operation::new("pay").unwrap(), Key::new("k").unwrap())
    }

    #[test]
    fn operations_are_checked_to_the_letter() {
        // K6
        for good in ["a", "payments.create", "svc/handler", "mcp:tool", &"a".repeat(128)] {
            assert_eq!(Operation::new(good).unwrap().as_str(), good);
        }
        for bad in ["", ".a", "-a", "a b", "ä", "a\n", "a{b}", &"a".repeat(129)] {
            assert!(Operation::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_claim_id_is_the_documented_digest() {
        // K5: pinned, because every store holds it.
        let mut bytes = b"hapax.claim.v1".to_vec();
        for part in ["header", "acme", "web", "user:alice", "pay", "k"] {
            bytes.extend((part.len() as u64).to_be_bytes());
            bytes.extend(part.as_bytes());
        }
        let expected: [u8; 32] = Sha256::digest(&bytes).into();
        let id = identity("user:alice", Width::Subject).claim_id();
        assert_eq!(*id.as_bytes(), expected);
        assert_eq!(id.to_string(), "ce2e7142a31bcd1414682b7e81760c38a27ca71abaa55b14eb6feb56d0535f32");
        assert_eq!(ClaimId::from_bytes(expected), id);
    }

    #[test]
    fn a_wider_claim_is_shared_but_remembers_who_asked() {
        // K8
        let (alice, bob) = (identity("user:alice", Width::Project), identity("user:bob", Width::Project));
        assert_eq!(alice.claim_id(), bob.claim_id());
        assert_ne!(alice, bob);
        assert_ne!(alice.claim_id(), identity("user:alice", Width::Subject).claim_id());
        assert_ne!(alice.claim_id(), identity("user:alice", Width::Tenant).claim_id());
        assert_eq!(Identity::decode(&alice.encode()).unwrap().scope(), alice.scope());
    }

    #[test]
    fn an_identity_read_from_a_peer_is_the_identity_that_the_peer_has() {
        // K3: a hapax layer behind a hapax edge.
        for width in [Width::Subject, Width::Project, Width::Tenant] {
            let edge = identity("user:alice", width);
            let text = crate::scope::namespaced(&edge.scope().narrowed(width), edge.key()).unwrap();
            let (scope, width, key) = crate::scope::parse_namespaced(&text).unwrap();
            let layer =
                Identity::new(Source::Header, scope.clone(), width, edge.operation().clone(), key.clone());
            assert_eq!(layer.claim_id(), edge.claim_id());
            assert_eq!(Identity::decode(&layer.encode()).unwrap(), layer);
            // What the peer dropped cannot be narrowed again.
            let narrow = Identity::new(Source::Header, scope, Width::Subject, edge.operation().clone(), key);
            assert_eq!((narrow.width(), narrow.claim_id()), (width, edge.claim_id()));
        }
    }

    #[test]
    fn stored_bytes_that_encode_did_not_write_are_corrupt() {
        let bytes = identity("user:alice", Width::Subject).encode();
        let corrupt = |bytes: &[u8]| Identity::decode(bytes).unwrap_err().kind() == Kind::Corrupt;
        for end in 0..bytes.len() {
            assert!(corrupt(&bytes[..end]), "cut at {end}");
        }
        assert!(corrupt(&[&bytes[..], b"x"].concat()), "trailing bytes");
        for (at, byte) in [(0, 2), (1, 0), (1, 4), (2, 0), (2, 4), (3, 1), (5, b'A'), (5, 0xff)] {
            let mut changed = bytes.clone();
            changed[at] = byte;
            assert!(corrupt(&changed), "byte {at} is {byte}");
        }
        let (scope, ..) = crate::scope::parse_namespaced("t-acme:web:_any:k").unwrap();
        let dropped = Identity::new(
            Source::Header,
            scope,
            Width::Project,
            Operation::new("a").unwrap(),
            Key::new("k").unwrap(),
        );
        let mut narrowed = dropped.encode();
        narrowed[2] = width_code(Width::Subject);
        assert!(corrupt(&narrowed), "a width narrower than its scope");
    }

    proptest! {
        #[test]
        fn an_encoded_identity_reads_back_as_itself(identity in any_identity()) {
            let read = Identity::decode(&identity.encode()).unwrap();
            prop_assert_eq!(&read, &identity);
            prop_assert_eq!(read.claim_id(), identity.claim_id());
        }

        #[test]
        fn different_tuples_never_share_their_bytes_or_their_claim_id(
            a in confusable_identity(), b in confusable_identity(),
        ) {
            // K5
            let same = tuple(&a) == tuple(&b);
            prop_assert_eq!(preimage_of(&a) == preimage_of(&b), same);
            prop_assert_eq!(a.claim_id() == b.claim_id(), same);
            prop_assert_eq!(a.encode() == b.encode(), a == b);
        }

        #[test]
        fn the_tuple_can_be_read_back_from_the_bytes_that_are_hashed(identity in any_identity()) {
            // K5: what can be read back was written injectively.
            let bytes = preimage_of(&identity);
            let mut rest = bytes.strip_prefix(CLAIM_DOMAIN).unwrap();
            let mut parts = Vec::new();
            while let Some((length, tail)) = rest.split_first_chunk() {
                let (part, tail) = tail.split_at(usize::try_from(u64::from_be_bytes(*length)).unwrap());
                parts.push(String::from_utf8(part.to_vec()).unwrap());
                rest = tail;
            }
            let (source, texts) = tuple(&identity);
            prop_assert!(rest.is_empty());
            prop_assert_eq!(&parts[0], source.as_str());
            prop_assert_eq!(&parts[1..], &texts[..]);
        }

        #[test]
        fn decoding_any_bytes_neither_panics_nor_accepts_what_encode_would_not_write(
            mut bytes in any_identity().prop_map(|identity| identity.encode()),
            at in any::<prop::sample::Index>(),
            byte: u8,
        ) {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(identity) = Identity::decode(&bytes) {
                prop_assert_eq!(identity.encode(), bytes);
            }
        }
    }
}
