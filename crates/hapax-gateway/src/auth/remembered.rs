//! What is known about credentials that were looked at a moment ago: bounded in number and in time.
//!
//! Credentials are known by their digest, so that the memory of a process does not hold a list of them. It may forget
//! whenever it likes; what it must not do is to remember for too long.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use foldhash::HashMap;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::clock;

/// Parts with a mutex of their own, so that the threads of an edge do not wait for each other.
const PARTS: usize = 16;

/// The digest of a credential.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Digest([u8; 32]);

impl Digest {
    pub(super) fn of(credential: &str) -> Self {
        Digest(Sha256::digest(credential.as_bytes()).into())
    }

    /// One of so many, evenly.
    pub(super) fn index(self, of: usize) -> usize {
        usize::from(u16::from_le_bytes([self.0[0], self.0[1]])) % of
    }
}

/// A bounded memory of values that are good until some time.
pub(super) struct Remembered<T> {
    parts: [Mutex<HashMap<Digest, (Instant, T)>>; PARTS],
    room: usize,
    /// How often something was forgotten on purpose.
    forgotten: AtomicU64,
}

/// How things stood before somebody was asked about a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Before(u64);

impl<T: Clone> Remembered<T> {
    /// A memory of about this many values.
    pub(super) fn new(room: usize) -> Self {
        Remembered { parts: Default::default(), room: (room / PARTS).max(1), forgotten: AtomicU64::new(0) }
    }

    /// What is known, if it is still good.
    pub(super) fn get(&self, digest: &Digest) -> Option<T> {
        let part = self.parts[digest.index(PARTS)].lock().unwrap_or_else(PoisonError::into_inner);
        let (until, value) = part.get(digest)?;
        (clock::now() < *until).then(|| value.clone())
    }

    /// To be asked for before anybody is asked about a credential.
    pub(super) fn before(&self) -> Before {
        Before(self.forgotten.load(SeqCst))
    }

    /// Remembers a value for this long, unless something was forgotten since: the answer may be older than the reason for that.
    pub(super) fn insert(&self, digest: Digest, value: T, good_for: Duration, before: Before) {
        if good_for.is_zero() {
            return;
        }
        let now = clock::now();
        let mut part = self.parts[digest.index(PARTS)].lock().unwrap_or_else(PoisonError::into_inner);
        // Looked at under the lock: what is inserted before the count goes up is found by whoever forgets.
        if self.before() != before {
            return;
        }
        if part.len() >= self.room && !part.contains_key(&digest) {
            self.make_room(&mut part, now);
        }
        part.insert(digest, (now + good_for, value));
    }

    /// Forgets all such values, also those that are being looked up now.
    pub(super) fn forget(&self, is_such: impl Fn(&T) -> bool) {
        self.forgotten.fetch_add(1, SeqCst);
        for part in &self.parts {
            let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
            part.retain(|_, (_, value)| !is_such(value));
        }
    }

    /// Drops what is no longer good, and an eighth of the rest if that is not enough: so much at once that the next
    /// values cost nothing.
    fn make_room(&self, part: &mut HashMap<Digest, (Instant, T)>, now: Instant) {
        part.retain(|_, (until, _)| now < *until);
        let mut surplus = (part.len() + (self.room / 8).max(1)).saturating_sub(self.room);
        part.retain(|_, _| {
            let keep = surplus == 0;
            surplus = surplus.saturating_sub(1);
            keep
        });
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.parts.iter().map(|part| part.lock().unwrap().len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_remembered_is_forgotten_in_time() {
        let remembered = Remembered::new(100);
        let digest = Digest::of("a");
        remembered.insert(digest, 1, Duration::from_secs(5), remembered.before());
        tokio::time::advance(Duration::from_millis(4_999)).await;
        assert_eq!(remembered.get(&digest), Some(1));
        assert_eq!(remembered.get(&Digest::of("b")), None);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(remembered.get(&digest), None);
    }

    #[tokio::test(start_paused = true)]
    async fn it_never_holds_more_than_it_has_room_for() {
        let remembered = Remembered::new(160);
        for number in 0..10_000 {
            let digest = Digest::of(&number.to_string());
            remembered.insert(digest, number, Duration::from_secs(60), remembered.before());
            assert_eq!(remembered.get(&digest), Some(number), "what came last is there");
        }
        assert!(remembered.len() <= 160, "{}", remembered.len());
        assert!(remembered.len() >= 80, "making room does not empty it: {}", remembered.len());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_forgotten_is_not_remembered_by_who_asked_before_a2() {
        let (remembered, long) = (Remembered::new(100), Duration::from_secs(60));
        let (revoked, other) = (Digest::of("revoked"), Digest::of("other"));
        let before = remembered.before();
        remembered.insert(revoked, 1, long, before);
        remembered.insert(other, 2, long, before);
        remembered.forget(|value| *value == 1);
        assert_eq!((remembered.get(&revoked), remembered.get(&other)), (None, Some(2)));
        remembered.insert(revoked, 1, long, before);
        assert_eq!(remembered.get(&revoked), None, "the answer is from before");
        remembered.insert(revoked, 3, long, remembered.before());
        assert_eq!(remembered.get(&revoked), Some(3));
    }
}
