//! How many connections there are: in all, of one peer, and on one thread.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::limits;

/// The connections of all threads.
#[derive(Debug)]
pub(super) struct Slots {
    most: usize,
    most_each: usize,
    taken: AtomicUsize,
    peers: Mutex<HashMap<IpAddr, usize>>,
}

impl Slots {
    pub(super) fn new(most: usize) -> Arc<Self> {
        let most_each = (most / limits::PEER_SHARE).max(1);
        Arc::new(Slots { most, most_each, taken: AtomicUsize::new(0), peers: Mutex::default() })
    }

    pub(super) fn taken(&self) -> usize {
        self.taken.load(Relaxed)
    }

    /// Room for one more connection of this peer, if there is.
    pub(super) fn take(self: &Arc<Self>, address: IpAddr, census: &Arc<Census>) -> Option<Slot> {
        let peer = peer(address);
        if self.taken.fetch_add(1, Relaxed) >= self.most {
            self.taken.fetch_sub(1, Relaxed);
            return None;
        }
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let count = peers.entry(peer).or_default();
        if *count >= self.most_each {
            self.taken.fetch_sub(1, Relaxed);
            return None;
        }
        *count += 1;
        drop(peers);
        Some(Slot { slots: Arc::clone(self), peer, _here: census.enter() })
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
    _here: Here,
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
        let (slots, census) = (Slots::new(4), Arc::new(Census::default()));
        let take = |address: &str| slots.take(address.parse().unwrap(), &census);
        let taken = [take("10.0.0.1").unwrap(), take("::ffff:10.0.0.1").unwrap()];
        assert!(take("10.0.0.1").is_none());
        let others = [take("2001:db8::1").unwrap(), take("2001:db8::2").unwrap()];
        assert!(take("10.0.0.2").is_none(), "there is no room in all");
        assert_eq!((slots.taken(), census.count()), (4, 4));
        drop(others);
        assert!(take("2001:db8::3").is_some());
        drop(taken);
        assert!(take("10.0.0.1").is_some());
        assert_eq!((slots.taken(), census.count(), slots.peers.lock().unwrap().len()), (0, 0, 0));
    }
}
