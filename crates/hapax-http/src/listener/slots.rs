//! How many connections there are: in all, of one peer, and on one thread.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::limits;

/// The connections of all threads.
#[derive(Debug)]
pub(super) struct Slots {
    most: usize,
    most_each: usize,
    taken: AtomicUsize,
    peers: Mutex<HashMap<IpAddr, usize>>,
}

/// Why there is no room for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Full {
    /// There are as many as there may be.
    All,
    /// This peer has as many as one may have.
    Address(IpAddr),
}

impl Slots {
    pub(super) fn new(most: usize, most_each: usize) -> Arc<Self> {
        Arc::new(Slots { most, most_each, taken: AtomicUsize::new(0), peers: Mutex::default() })
    }

    pub(super) fn taken(&self) -> usize {
        self.taken.load(Relaxed)
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }

    pub(super) fn most_each(&self) -> usize {
        self.most_each
    }

    /// Room for one more connection of this peer, if there is.
    pub(super) fn take(self: &Arc<Self>, address: IpAddr, census: &Arc<Census>) -> Result<Slot, Full> {
        let peer = peer(address);
        if self.taken.fetch_add(1, Relaxed) >= self.most {
            self.taken.fetch_sub(1, Relaxed);
            return Err(Full::All);
        }
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let count = peers.entry(peer).or_default();
        if *count >= self.most_each {
            self.taken.fetch_sub(1, Relaxed);
            return Err(Full::Address(peer));
        }
        *count += 1;
        drop(peers);
        Ok(Slot { slots: Arc::clone(self), peer, here: census.enter() })
    }
}

/// Who counts as one peer: an address; of IPv6 a network, because that is what one peer is given.
fn peer(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
    }
}

/// Room for one connection.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    peer: IpAddr,
    here: Here,
}

impl Slot {
    /// From now on it is waited for as one of these.
    pub(super) fn move_to(&mut self, census: &Arc<Census>) {
        self.here = census.enter();
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.taken.fetch_sub(1, Relaxed);
        let mut peers = self.slots.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = peers.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                peers.remove(&self.peer);
            }
        }
    }
}

/// When the operator was last told that there is no room: once in a while for each peer, however often it knocks.
#[derive(Debug, Default)]
pub(super) struct Warned(Mutex<HashMap<Full, Instant>>);

impl Warned {
    /// Whether it is time to tell; then it was told.
    pub(super) fn is_due(&self, full: Full, now: Instant) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |at: &Instant| now.saturating_duration_since(*at) < limits::WARNED_AGAIN;
        if told.get(&full).is_some_and(is_recent) {
            return false;
        }
        if told.len() >= limits::WARNED_PEERS {
            told.retain(|_, at| is_recent(at));
        }
        let has_room = told.len() < limits::WARNED_PEERS;
        if has_room {
            told.insert(full, now);
        }
        has_room
    }
}

/// What a thread must wait for before it ends.
#[derive(Debug, Default)]
pub(super) struct Census {
    count: AtomicUsize,
    empty: Notify,
}

impl Census {
    pub(super) fn enter(self: &Arc<Self>) -> Here {
        self.count.fetch_add(1, Relaxed);
        Here(Arc::clone(self))
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Waits until nobody is here.
    pub(super) async fn emptied(&self) {
        loop {
            let empty = self.empty.notified();
            if self.count() == 0 {
                return;
            }
            empty.await;
        }
    }
}

/// Somebody who is waited for.
#[derive(Debug)]
pub(super) struct Here(Arc<Census>);

impl Drop for Here {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Relaxed) == 1 {
            self.0.empty.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_peer_takes_the_room_of_all() {
        let (slots, census) = (Slots::new(4, 2), Arc::new(Census::default()));
        let take = |address: &str| slots.take(address.parse().unwrap(), &census);
        let taken = [take("10.0.0.1").unwrap(), take("::ffff:10.0.0.1").unwrap()];
        assert_eq!(take("10.0.0.1").err(), Some(Full::Address("10.0.0.1".parse().unwrap())));
        let others = [take("2001:db8::1").unwrap(), take("2001:db8::2").unwrap()];
        assert_eq!(take("10.0.0.2").err(), Some(Full::All), "there is no room in all");
        assert_eq!((slots.taken(), census.count()), (4, 4));
        drop(others);
        assert!(take("2001:db8::3").is_ok());
        drop(taken);
        assert!(take("10.0.0.1").is_ok());
        assert_eq!((slots.taken(), census.count(), slots.peers.lock().unwrap().len()), (0, 0, 0));
    }

    #[test]
    fn an_operator_is_warned_once_in_a_while_for_each_peer_and_never_without_bound() {
        let (warned, began) = (Warned::default(), crate::clock::now());
        let peer = |number: u32| Full::Address(std::net::Ipv4Addr::from(number).into());
        assert!(warned.is_due(peer(1), began) && warned.is_due(Full::All, began));
        assert!(!warned.is_due(peer(1), began + limits::WARNED_AGAIN / 2));
        let again = began + limits::WARNED_AGAIN;
        assert!(warned.is_due(peer(1), again) && !warned.is_due(peer(1), again));
        let lines = (0..10_000).filter(|number| warned.is_due(peer(*number), again)).count();
        assert!(lines < limits::WARNED_PEERS, "{lines}");
        assert!(warned.0.lock().unwrap().len() <= limits::WARNED_PEERS);
        assert!(warned.is_due(peer(7), again + limits::WARNED_AGAIN), "there is room again");
    }
}
