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
/// It gathers without a timer: whoever is free takes its share of what waits, and what comes while all are busy is the
/// next batch. Waiting for more, until half a batch was there, cost more than the larger batches saved.
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    filled: Notify,
}

struct State<T> {
    items: VecDeque<T>,
    closed: bool,
    /// Batches that are under way.
    batches: usize,
}

impl<T> Queue<T> {
    pub(super) fn new() -> Self {
        let state = State { items: VecDeque::new(), closed: false, batches: 0 };
        Queue { state: Mutex::new(state), filled: Notify::new() }
    }

    /// Adds to the end, or gives the item back with the reason.
    pub(super) fn push(&self, item: T) -> Result<(), (T, Error)> {
        {
            let mut state = self.lock();
            if state.closed {
                return Err((item, closed_error()));
            }
            if state.items.len() >= limits::QUEUE {
                return Err((item, Error::unavailable("too many commands wait for the store")));
            }
            state.items.push_back(item);
        }
        // Whoever waits last was busy last: its connection is warm.
        self.filled.notify_last();
        Ok(())
    }

    /// Takes one item; `None` once the queue is closed.
    pub(super) async fn next(&self) -> Option<T> {
        self.take_with(|state| state.items.pop_front()).await
    }

    /// A batch is done.
    pub(super) fn done(&self) {
        self.lock().batches -= 1;
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
                if !state.items.is_empty() {
                    let taken = take(&mut state);
                    if !state.items.is_empty() {
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
    async fn who_is_free_takes_all_that_waits_while_the_other_has_a_batch() {
        let queue = Queue::new();
        (0..8).for_each(|n| queue.push(n).unwrap());
        assert_eq!(queue.share(2).await.unwrap().len(), 4);
        assert_eq!(queue.share(2).await.unwrap().len(), 4);
        queue.done();
        (0..3).for_each(|n| queue.push(n).unwrap());
        assert_eq!(queue.share(2).await.unwrap().len(), 3);
        queue.done();
        queue.done();
        (0..3).for_each(|n| queue.push(n).unwrap());
        assert_eq!(queue.share(2).await.unwrap().len(), 2, "both are free: each takes its half");
    }

    #[tokio::test]
    async fn whoever_waits_for_a_batch_is_woken_by_the_first_item() {
        let queue = Queue::new();
        let (taken, ()) = tokio::join!(queue.share(2), async { queue.push(7_usize).unwrap() });
        assert_eq!(taken.unwrap(), [7]);
    }

    #[tokio::test]
    async fn a_batch_ends_where_its_bytes_do_and_has_at_least_one_item() {
        let queue = Queue::new();
        [limits::BATCH_BYTES + 1, 1, limits::BATCH_BYTES, 1].into_iter().for_each(|n| queue.push(n).unwrap());
        for size in [1, 1, 1, 1] {
            assert_eq!(queue.share(1).await.unwrap().len(), size);
            queue.done();
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
