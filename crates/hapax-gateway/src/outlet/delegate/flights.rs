//! Which calls are under way at this edge, so that one that joins another is known for it (D3). What another edge has under way is
//! not seen here.

use std::sync::{Mutex, PoisonError};

use foldhash::HashMap;

use crate::auth::remembered::Digest;
use crate::limits;

/// The calls that are under way.
#[derive(Default)]
pub(super) struct Flights(Mutex<HashMap<Digest, usize>>);

impl Flights {
    /// One more is under way, until what this returns is dropped.
    pub(super) fn enter(&self, slot: Digest) -> Flight<'_> {
        let mut flights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Without room it is not known to be the first.
        if flights.len() >= limits::FLIGHTS && !flights.contains_key(&slot) {
            return Flight { flights: None, slot, is_first: false };
        }
        let under_way = flights.entry(slot).or_insert(0);
        *under_way += 1;
        Flight { is_first: *under_way == 1, flights: Some(self), slot }
    }
}

/// A call that is under way.
pub(super) struct Flight<'f> {
    flights: Option<&'f Flights>,
    slot: Digest,
    /// Whether no other one was under way.
    pub(super) is_first: bool,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let Some(flights) = self.flights else { return };
        let mut flights = flights.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(under_way) = flights.get_mut(&self.slot) {
            *under_way -= 1;
            if *under_way == 0 {
                flights.remove(&self.slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_those_under_way_leads_and_whoever_comes_after_the_last_does_again_d3() {
        let (flights, slot, other) = (Flights::default(), Digest::of("a"), Digest::of("b"));
        let first = flights.enter(slot);
        let second = flights.enter(slot);
        assert_eq!((first.is_first, second.is_first, flights.enter(other).is_first), (true, false, true));
        drop(first);
        assert!(!flights.enter(slot).is_first, "the second is still under way");
        drop(second);
        assert!(flights.enter(slot).is_first);
    }
}
