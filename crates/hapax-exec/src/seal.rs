//! Sealing what is kept (B9): outcomes, registry secrets, spool files and backups are encrypted at rest when keys are given.
//!
//! AES-256-GCM with a random nonce. What is sealed is bound to where it belongs (the claim, or a context that the caller
//! states), so that sealed bytes that were moved elsewhere do not open. The key that encrypts is derived from the given one
//! for each such place: random nonces of one key must not be too many, and of one place there are never many.
//!
//! Sealed bytes are a version byte, four bytes that name the key, the nonce, and the encrypted bytes with their tag. When to
//! seal, and where keys come from, is decided by whoever makes a [`Seal`].

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, MAX_TAG_LEN, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};
use bytes::Bytes;
use hapax_core::{ClaimId, Error};

/// The first byte. Never the first byte of a text, nor of a record that counts its versions from 1.
const VERSION: u8 = 0xF9;
const KEY_ID_LEN: usize = 4;
const HEAD_LEN: usize = 1 + KEY_ID_LEN + NONCE_LEN;
/// Keep derived keys apart from each other, and from everything else that may be derived from the same key.
const FOR_KEY_ID: &[u8] = b"hapax.seal.v1.key-id";
const FOR_CLAIM: &[u8] = b"hapax.seal.v1.claim\0";
const FOR_BYTES: &[u8] = b"hapax.seal.v1.bytes\0";

/// Seals and opens. The first key seals, all of them open.
pub struct Seal {
    keys: Vec<SealKey>,
}

struct SealKey {
    id: [u8; KEY_ID_LEN],
    secret: Prk,
}

impl Seal {
    /// A seal with these keys, at least one: the first one seals, all of them open. To change keys, put the new one in front
    /// and keep the old one for as long as something is kept that it sealed.
    pub fn new(keys: Vec<[u8; 32]>) -> Result<Self, Error> {
        if keys.is_empty() {
            return Err(Error::invalid("sealing needs at least one key"));
        }
        let keys = keys.iter().map(SealKey::new).collect::<Result<_, _>>();
        Ok(Seal { keys: keys.map_err(|Unspecified| Error::internal("a sealing key cannot be used"))? })
    }

    /// Whether these bytes were sealed, by whichever key. That they open is not said.
    pub fn is_sealed(bytes: &[u8]) -> bool {
        bytes.first() == Some(&VERSION) && bytes.len() >= HEAD_LEN + MAX_TAG_LEN
    }

    /// Whether these bytes were sealed with the key that seals now.
    pub fn seals_like(&self, sealed: &[u8]) -> bool {
        Self::is_sealed(sealed) && sealed[1..=KEY_ID_LEN] == self.keys[0].id
    }

    /// Seals what belongs to a claim.
    pub fn seal(&self, claim: &ClaimId, plain: &[u8]) -> Bytes {
        self.seal_for([FOR_CLAIM, claim.as_bytes()], plain)
    }

    /// Opens what was sealed for this claim. What was not, or was changed since, is corrupt.
    pub fn open(&self, claim: &ClaimId, sealed: &[u8]) -> Result<Bytes, Error> {
        self.open_for([FOR_CLAIM, claim.as_bytes()], sealed)
    }

    /// Seals what belongs to no claim. The context says where it belongs, such as the kind and id of a document.
    pub fn seal_bytes(&self, context: &[u8], plain: &[u8]) -> Bytes {
        self.seal_for([FOR_BYTES, context], plain)
    }

    /// Opens what was sealed for this context. What was not, or was changed since, is corrupt.
    pub fn open_bytes(&self, context: &[u8], sealed: &[u8]) -> Result<Bytes, Error> {
        self.open_for([FOR_BYTES, context], sealed)
    }

    fn seal_for(&self, place: [&[u8]; 2], plain: &[u8]) -> Bytes {
        let mut nonce = [0; NONCE_LEN];
        // Without randomness a nonce could come twice, and both plain texts would lie open.
        getrandom::fill(&mut nonce).expect("the operating system gives random bytes");
        // There is at least one key: `new` made sure.
        let sealed = self.keys[0].seal(place, nonce, plain);
        // Only lengths that do not fit a memory are refused.
        sealed.expect("AES-256-GCM seals everything shorter than 64 GiB")
    }

    fn open_for(&self, place: [&[u8]; 2], sealed: &[u8]) -> Result<Bytes, Error> {
        if !Self::is_sealed(sealed) {
            return Err(Error::corrupt("what should have been sealed is not, or is cut short"));
        }
        let (head, body) = sealed.split_at(HEAD_LEN);
        let (id, nonce) = head[1..].split_at(KEY_ID_LEN);
        let mut known = self.keys.iter().filter(|key| key.id == id).peekable();
        if known.peek().is_none() {
            return Err(Error::corrupt("this was sealed with a key that is not known here")
                .with_detail(format_args!("key {:02x}{:02x}{:02x}{:02x}", id[0], id[1], id[2], id[3])));
        }
        let opened = known.find_map(|key| key.open(place, head, nonce, body).ok());
        opened.ok_or_else(|| Error::corrupt("sealed bytes were changed, or belong to something else"))
    }
}

impl SealKey {
    fn new(key: &[u8; 32]) -> Result<Self, Unspecified> {
        let secret = Prk::new_less_safe(HKDF_SHA256, key);
        let mut id = [0; KEY_ID_LEN];
        secret.expand(&[FOR_KEY_ID], KeyIdLength)?.fill(&mut id)?;
        Ok(SealKey { id, secret })
    }

    /// The key for one place.
    fn derived(&self, place: [&[u8]; 2]) -> Result<LessSafeKey, Unspecified> {
        Ok(LessSafeKey::new(UnboundKey::from(self.secret.expand(&place, &AES_256_GCM)?)))
    }

    fn seal(&self, place: [&[u8]; 2], nonce: [u8; NONCE_LEN], plain: &[u8]) -> Result<Bytes, Unspecified> {
        let mut sealed = Vec::with_capacity(HEAD_LEN + plain.len() + MAX_TAG_LEN);
        sealed.push(VERSION);
        sealed.extend(self.id);
        sealed.extend(nonce);
        let bound = bound_to(place, &sealed);
        sealed.extend_from_slice(plain);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self.derived(place)?.seal_in_place_separate_tag(nonce, bound, &mut sealed[HEAD_LEN..])?;
        sealed.extend_from_slice(tag.as_ref());
        Ok(sealed.into())
    }

    fn open(&self, place: [&[u8]; 2], head: &[u8], nonce: &[u8], body: &[u8]) -> Result<Bytes, Unspecified> {
        let nonce = Nonce::try_assume_unique_for_key(nonce)?;
        let mut opened = body.to_vec();
        let length = self.derived(place)?.open_in_place(nonce, bound_to(place, head), &mut opened)?.len();
        opened.truncate(length);
        Ok(opened.into())
    }
}

/// What is authenticated beside the bytes: the head, of fixed length, and the place.
fn bound_to(place: [&[u8]; 2], head: &[u8]) -> Aad<Vec<u8>> {
    Aad::from([head, place[0], place[1]].concat())
}

struct KeyIdLength;

impl KeyType for KeyIdLength {
    fn len(&self) -> usize {
        KEY_ID_LEN
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use hapax_core::Kind;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn here() -> ClaimId {
        ClaimId::from_bytes([7; 32])
    }

    fn seal(keys: &[u8]) -> Seal {
        Seal::new(keys.iter().map(|byte| [*byte; 32]).collect()).unwrap()
    }

    fn is_corrupt(opened: &Result<Bytes, Error>) -> bool {
        opened.as_ref().is_err_and(|error| error.kind() == Kind::Corrupt)
    }

    proptest! {
        #[test]
        fn what_was_sealed_opens_where_it_belongs_b9(claim: [u8; 32], key: [u8; 32], plain in vec(any::<u8>(), 0..300)) {
            let (seal, claim) = (Seal::new(vec![key]).unwrap(), ClaimId::from_bytes(claim));
            let sealed = seal.seal(&claim, &plain);
            prop_assert!(Seal::is_sealed(&sealed));
            prop_assert_eq!(&seal.open(&claim, &sealed).unwrap()[..], &plain[..]);
            let sealed = seal.seal_bytes(claim.as_bytes(), &plain);
            prop_assert_eq!(seal.open_bytes(claim.as_bytes(), &sealed).unwrap(), plain);
        }

        #[test]
        fn what_was_sealed_opens_nowhere_else_b9(a: [u8; 32], b: [u8; 32], plain in vec(any::<u8>(), 0..50)) {
            prop_assume!(a != b);
            let seal = seal(&[1]);
            let (here, there) = (ClaimId::from_bytes(a), ClaimId::from_bytes(b));
            let sealed = seal.seal(&here, &plain);
            prop_assert!(is_corrupt(&seal.open(&there, &sealed)));
            prop_assert!(is_corrupt(&seal.open_bytes(&a, &sealed)));
            prop_assert!(is_corrupt(&seal.open(&here, &seal.seal_bytes(&a, &plain))));
            prop_assert!(is_corrupt(&seal.open_bytes(&b, &seal.seal_bytes(&a, &plain))));
        }

        #[test]
        fn every_flipped_bit_is_noticed_b9(plain in vec(any::<u8>(), 0..40), bit in 0..8_u8) {
            let seal = seal(&[1, 2]);
            let sealed = seal.seal(&here(), &plain);
            for index in 0..sealed.len() {
                let mut changed = sealed.to_vec();
                changed[index] ^= 1 << bit;
                prop_assert!(is_corrupt(&seal.open(&here(), &changed)), "byte {}", index);
            }
        }

        #[test]
        fn what_was_cut_or_extended_is_noticed_b9(plain in vec(any::<u8>(), 0..40)) {
            let seal = seal(&[1]);
            let sealed = seal.seal(&here(), &plain);
            for length in 0..sealed.len() {
                prop_assert!(is_corrupt(&seal.open(&here(), &sealed[..length])));
            }
            prop_assert!(is_corrupt(&seal.open(&here(), &[&sealed[..], &[0]].concat())));
        }

        #[test]
        fn no_text_and_no_record_of_ours_is_taken_for_sealed_b9(text in ".{0,80}", record in vec(any::<u8>(), 0..80)) {
            prop_assert!(!Seal::is_sealed(text.as_bytes()));
            prop_assert!(!Seal::is_sealed(&[&[1], &record[..]].concat()));
        }

        #[test]
        fn no_bytes_whatever_open_by_chance(bytes in vec(any::<u8>(), 0..100)) {
            prop_assert!(is_corrupt(&seal(&[1]).open(&here(), &bytes)));
        }
    }

    #[test]
    fn keys_can_be_changed_and_an_unknown_one_is_named_b9() {
        let (old, both, new) = (seal(&[1]), seal(&[2, 1]), seal(&[2]));
        let by_old = old.seal(&here(), b"before");
        assert_eq!(both.open(&here(), &by_old).unwrap(), "before");
        let by_both = both.seal(&here(), b"after");
        assert_eq!(new.open(&here(), &by_both).unwrap(), "after", "the first key seals");
        let unknown = new.open(&here(), &by_old).unwrap_err();
        assert_eq!(unknown.kind(), Kind::Corrupt);
        assert!(unknown.to_string().contains("key that is not known"), "{unknown}");
        let changed = old.open(&ClaimId::from_bytes([8; 32]), &by_old).unwrap_err();
        assert!(!changed.to_string().contains("not known"), "{changed}");
    }

    #[test]
    fn the_same_bytes_are_sealed_differently_each_time_b9() {
        let seal = seal(&[1]);
        assert_ne!(seal.seal(&here(), b"same"), seal.seal(&here(), b"same"));
        let sealed = seal.seal(&here(), &[0x41; 64]);
        assert!(!sealed.windows(8).any(|window| window == [0x41; 8]));
    }

    #[test]
    fn a_seal_has_a_key_and_does_not_show_it() {
        assert_eq!(Seal::new(Vec::new()).unwrap_err().kind(), Kind::Invalid);
        let shown = format!("{:?}", seal(&[0x41]));
        assert!(!shown.contains("65") && !shown.contains("41"), "{shown}");
    }

    /// What is sealed is kept for years: a change of this format needs another version byte.
    #[test]
    fn what_the_first_version_sealed_still_opens_b9() {
        let claim = here();
        let place = [FOR_CLAIM, claim.as_bytes()];
        let sealed = SealKey::new(&[1; 32]).unwrap().seal(place, [9; NONCE_LEN], b"kept").unwrap();
        let hex: String = sealed.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "f9d3c7d4af090909090909090909090909380fa7fe769ec76fcd297dba34d890221f0d2689");
    }
}
