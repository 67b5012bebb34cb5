//! A bounded queue from the request cores to the store's thread.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hapax_core::Error;
use tokio::sync::Notify;

use crate::limits;

/// Waits in a queue, and weighs something.
pub(super) trait Weigh {
    /// Roughly how many bytes it brings into a statement.
    fn weight(&self) -> usize;
}

/// A bounded queue. Whoever takes from it takes many at once, and says when it is done with them.
///
/// It gathers without a timer: while one batch is under way, the next one starts as soon as half as many
/// items wait, or when the first is done. Whoever was just answered comes back with the next command a moment
/// later; a batch that did not wait for those would be small, and every batch costs a commit.
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    filled: Notify,
}

struct State<T> {
    items: VecDeque<T>,
    closed: bool,
    /// Batches that are under way, and the items in them.
    batches: usize,
    in_flight: usize,
}

impl<T> State<T> {
    /// How many items must wait before the next batch starts: half of what the batches under way have on
    /// average.
    fn wanted(&self) -> usize {
        (self.in_flight / (2 * self.batches.max(1))).max(1)
    }
}

impl<T> Queue<T> {
    pub(super) fn new() -> Self {
        let state = State { items: VecDeque::new(), closed: false, batches: 0, in_flight: 0 };
        Queue { state: Mutex::new(state), filled: Notify::new() }
    }

    /// Adds to the end, or gives the item back with the reason.
    pub(super) fn push(&self, item: T) -> Result<(), (T, Error)> {
        let enough = {
            let mut state = self.lock();
            if state.closed {
                return Err((item, closed_error()));
            }
            if state.items.len() >= limits::QUEUE {
                return Err((item, Error::unavailable("too many commands wait for the store")));
            }
            state.items.push_back(item);
            state.items.len() >= state.wanted()
        };
        if enough {
            // Whoever waits last was busy last: its connection is warm.
            self.filled.notify_last();
        }
        Ok(())
    }

    /// Takes one item; `None` once the queue is closed.
    pub(super) async fn next(&self) -> Option<T> {
        self.take_with(|state| state.items.pop_front()).await
    }

    /// A batch of this many items is done.
    pub(super) fn done(&self, count: usize) {
        let enough = {
            let mut state = self.lock();
            state.batches -= 1;
            state.in_flight -= count;
            state.items.len() >= state.wanted()
        };
        if enough {
            self.filled.notify_one();
        }
    }

    /// Refuses whatever comes from now on, and drops what waits.
    pub(super) fn close(&self) {
        let dropped = {
            let mut state = self.lock();
            state.closed = true;
            std::mem::take(&mut state.items)
        };
        drop(dropped);
        self.filled.notify_one();
    }

    async fn take_with<R>(&self, mut take: impl FnMut(&mut State<T>) -> Option<R>) -> Option<R> {
        loop {
            let filled = self.filled.notified();
            {
                let mut state = self.lock();
                if state.closed {
                    // For the next one who takes from it.
                    self.filled.notify_one();
                    return None;
                }
                if state.items.len() >= state.wanted() {
                    let taken = take(&mut state);
                    if state.items.len() >= state.wanted() {
                        self.filled.notify_one();
                    }
                    return taken;
                }
            }
            filled.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Weigh> Queue<T> {
    /// Takes a batch for one of `takers`, within the bounds of one batch: its share of what waits for those
    /// of them that have none. To be followed by [`Queue::done`].
    pub(super) async fn share(&self, takers: usize) -> Option<Vec<T>> {
        self.take_with(|state| {
            let waiting = state.items.len();
            // The others have theirs, or will want it.
            let idle = takers.saturating_sub(state.batches).max(1);
            let most = waiting.div_ceil(idle).min(limits::BATCH);
            let (mut count, mut bytes) = (0, 0);
            for item in state.items.iter().take(most) {
                bytes += item.weight();
                if count > 0 && bytes > limits::BATCH_BYTES {
                    break;
                }
                count += 1;
            }
            state.batches += 1;
            state.in_flight += count;
            Some(state.items.drain(..count).collect())
        })
        .await
    }
}

/// The store has been closed.
pub(super) fn closed_error() -> Error {
    Error::unavailable("the store was closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Weigh for usize {
        fn weight(&self) -> usize {
            *self
        }
    }

    #[tokio::test]
    async fn the_first_taker_gets_its_share_and_the_second_the_rest() {
        let queue = Queue::new();
        (0..5).for_each(|n| queue.push(n).unwrap());
        assert_eq!(queue.share(2).await.unwrap(), [0, 1, 2]);
        assert_eq!(queue.share(2).await.unwrap(), [3, 4]);
    }

    #[tokio::test]
    async fn the_next_batch_gathers_until_it_is_half_as_large_or_the_one_before_is_done() {
        let queue = Queue::new();
        (0..8).for_each(|n| queue.push(n).unwrap());
        assert_eq!(queue.share(1).await.unwrap().len(), 8);
        (0..3).for_each(|n| queue.push(n).unwrap());
        let short = std::time::Duration::from_millis(20);
        assert!(tokio::time::timeout(short, queue.share(2)).await.is_err());
        queue.push(3).unwrap();
        assert_eq!(queue.share(2).await.unwrap().len(), 4);
        queue.push(4).unwrap();
        assert!(tokio::time::timeout(short, queue.share(2)).await.is_err());
        queue.done(8);
        queue.done(4);
        assert_eq!(queue.share(2).await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_batch_ends_where_its_bytes_do_and_has_at_least_one_item() {
        let queue = Queue::new();
        [limits::BATCH_BYTES + 1, 1, limits::BATCH_BYTES, 1].into_iter().for_each(|n| queue.push(n).unwrap());
        for size in [1, 1, 1, 1] {
            assert_eq!(queue.share(1).await.unwrap().len(), size);
            queue.done(size);
        }
    }

    #[test]
    fn a_queue_takes_as_many_as_its_bound_and_gives_the_next_one_back() {
        let queue = Queue::new();
        (0..limits::QUEUE).for_each(|n| queue.push(n).unwrap());
        let (item, error) = queue.push(7).unwrap_err();
        assert_eq!((item, error.kind()), (7, hapax_core::Kind::Unavailable));
    }

    #[tokio::test]
    async fn a_closed_queue_gives_nothing_and_takes_nothing() {
        let queue = Queue::new();
        queue.push(1_usize).unwrap();
        queue.close();
        assert!(queue.share(1).await.is_none());
        assert!(queue.push(2).is_err());
    }
}
