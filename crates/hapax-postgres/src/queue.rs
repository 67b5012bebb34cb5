//! A bounded queue from the request cores to the store's threads.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hapax_core::Error;
use hapax_store::parts::clock;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::limits;

/// Waits in a queue, and weighs something.
pub(super) trait Weigh {
    /// Roughly how many bytes it brings into a statement.
    fn weight(&self) -> usize;
}

/// A bounded queue. Whoever takes from it takes many at once, and gives its turn back when it is done with them.
///
/// What comes while all takers are busy is the next batch. A taker whose batch has come back does not leave with the few that
/// wait at that moment: those whom it has just answered are about to ask again. It lingers until its share of all that there
/// lately were at once is there, for a part of what a batch takes. Where no other batch is under way, nobody lingers.
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    filled: Notify,
}

struct State<T> {
    items: VecDeque<T>,
    closed: bool,
    takers: usize,
    /// Batches that are under way, and the items in them.
    batches: usize,
    under_way: usize,
    /// Takers that answer whom they have taken, and then look here.
    answering: usize,
    /// How many items there lately were at once, waiting and under way.
    population: usize,
    /// How long a taker lingers, and until when one does.
    linger: Duration,
    lingering: Option<Instant>,
}

impl<T> State<T> {
    /// A taker's part of all items.
    fn share(&self) -> usize {
        self.population.div_ceil(self.takers).min(limits::BATCH)
    }

    /// Whether somebody who lingers until then should leave.
    fn is_enough(&self, until: Option<Instant>) -> bool {
        self.batches == 0
            || self.items.len() >= self.share()
            || until.is_none_or(|until| clock::timer_now() >= until)
    }
}

impl<T> Queue<T> {
    /// A queue for so many who take batches.
    pub(super) fn new(takers: usize) -> Self {
        let state = State {
            items: VecDeque::new(),
            closed: false,
            takers,
            batches: 0,
            under_way: 0,
            answering: 0,
            population: 0,
            linger: Duration::ZERO,
            lingering: None,
        };
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
            // Who has just been answered often asks again before the taker is done, and that one looks here next. To wake
            // another one for it takes longer.
            if state.answering > 0 || !state.is_enough(state.lingering) {
                return Ok(());
            }
        }
        // Whoever waits last was busy last: its connection is warm.
        self.filled.notify_last();
        Ok(())
    }

    /// Puts back at the front what somebody has taken and cannot carry out, for another taker.
    pub(super) fn give_back(&self, items: impl Iterator<Item = T>) {
        let items: Vec<T> = items.collect();
        {
            let mut state = self.lock();
            if state.closed {
                return;
            }
            items.into_iter().rev().for_each(|item| state.items.push_front(item));
        }
        self.filled.notify_one();
    }

    /// Takes one item; `None` once the queue is closed.
    pub(super) async fn next(&self) -> Option<T> {
        self.take_with(|state| state.items.pop_front()).await
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
        let until = clock::timer_now() + self.lock().linger;
        loop {
            let filled = self.filled.notified();
            let lingers = {
                let mut state = self.lock();
                if state.closed {
                    // For the next one who takes from it.
                    self.filled.notify_one();
                    return None;
                }
                // Without another batch the first item is enough, and who waits for one needs no timer.
                let lingers = state.batches > 0 && clock::timer_now() < until;
                if !state.items.is_empty() && state.is_enough(lingers.then_some(until)) {
                    if state.lingering == Some(until) {
                        state.lingering = None;
                    }
                    let taken = take(&mut state);
                    if !state.items.is_empty() && state.is_enough(state.lingering) {
                        self.filled.notify_one();
                    }
                    return taken;
                }
                if lingers {
                    state.lingering = Some(until);
                }
                lingers
            };
            if lingers {
                // Timers count milliseconds; whoever pushes looks at the time, too.
                let _ = timeout_at(until, filled).await;
            } else {
                filled.await;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Weigh> Queue<T> {
    /// Takes a batch: a taker's share of all items, within the bounds of one batch. It is under way until its turn is dropped.
    pub(super) async fn share(&self) -> Option<(Vec<T>, Turn<'_, T>)> {
        self.take_with(|state| {
            let here = state.items.len() + state.under_way;
            state.population =
                here.max(state.population - state.population.div_ceil(limits::POPULATION_MEMORY));
            let (mut count, mut bytes) = (0, 0);
            for item in state.items.iter().take(state.share()) {
                bytes += item.weight();
                if count > 0 && bytes > limits::BATCH_BYTES {
                    break;
                }
                count += 1;
            }
            state.batches += 1;
            state.under_way += count;
            let turn = Turn { queue: self, count, since: clock::timer_now(), answers: false };
            Some((state.items.drain(..count).collect(), turn))
        })
        .await
    }
}

/// A batch that is under way.
pub(super) struct Turn<'a, T> {
    queue: &'a Queue<T>,
    count: usize,
    since: Instant,
    answers: bool,
}

impl<T> Turn<'_, T> {
    /// All that is left of this turn is to answer, and whoever has it looks into the queue next.
    pub(super) fn answers(&mut self) {
        if !std::mem::replace(&mut self.answers, true) {
            self.queue.lock().answering += 1;
        }
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.batches -= 1;
        state.under_way -= self.count;
        state.answering -= usize::from(self.answers);
        let part = self.since.elapsed() / limits::LINGER_PART;
        state.linger = (state.linger.saturating_mul(7).saturating_add(part) / 8).min(limits::LINGER);
    }
}

/// The store has been closed.
pub(super) fn closed_error() -> Error {
    Error::unavailable("the store was closed")
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::time::timeout;

    use super::*;

    impl Weigh for usize {
        fn weight(&self) -> usize {
            *self
        }
    }

    /// Two takers have had a batch of eight between them, which took them `took`, and the first is back.
    async fn one_is_back<'a>(queue: &'a Queue<usize>, took: Duration) -> Turn<'a, usize> {
        (0..8).for_each(|n| queue.push(n).unwrap());
        let (first, first_turn) = take(queue).await;
        let (second, second_turn) = take(queue).await;
        assert_eq!((first.len(), second.len()), (4, 4), "each takes its half");
        tokio::time::advance(took).await;
        drop(first_turn);
        second_turn
    }

    /// Takes a batch. Where a broken rule would leave the test waiting for one, it fails.
    async fn take(queue: &Queue<usize>) -> (Vec<usize>, Turn<'_, usize>) {
        timeout(Duration::from_secs(60), queue.share()).await.expect("there is a batch").unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_taker_gets_its_share_and_the_second_the_rest() {
        let queue = Queue::new(2);
        (0..5).for_each(|n| queue.push(n).unwrap());
        let (first, _turn) = take(&queue).await;
        let (second, _turn) = take(&queue).await;
        assert_eq!((first, second), (vec![0, 1, 2], vec![3, 4]));
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_back_while_another_batch_is_under_way_waits_until_its_share_is_there() {
        let queue = Queue::new(2);
        let _other = one_is_back(&queue, Duration::from_millis(8)).await;
        let answered = async {
            for n in 0..4 {
                tokio::task::yield_now().await;
                queue.push(n).unwrap();
            }
        };
        let began = Instant::now();
        let (taken, ()) = tokio::join!(take(&queue), answered);
        assert_eq!((taken.0.len(), began.elapsed()), (4, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_lingers_for_longer_than_a_part_of_what_a_batch_takes() {
        let (short, long) = (Duration::from_millis(4), Duration::from_secs(1));
        for (took, bound) in [(short, short / limits::LINGER_PART), (long, limits::LINGER)] {
            let queue = Queue::new(2);
            for _ in 0..50 {
                drop(one_is_back(&queue, took).await);
            }
            let _other = one_is_back(&queue, took).await;
            let began = Instant::now();
            queue.push(0).unwrap();
            let (taken, _turn) = take(&queue).await;
            let lingered = began.elapsed();
            assert_eq!(taken, [0]);
            assert!(lingered > Duration::ZERO && lingered <= bound, "{lingered:?} where {took:?} is usual");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_after_a_taker_has_lingered_is_taken_at_once() {
        let queue = Queue::new(2);
        let _other = one_is_back(&queue, Duration::from_millis(8)).await;
        let late = async {
            tokio::time::sleep(limits::LINGER * 2).await;
            let pushed = Instant::now();
            queue.push(0).unwrap();
            pushed
        };
        let (taken, pushed) = tokio::join!(async { (take(&queue).await.0, Instant::now()) }, late);
        assert_eq!(taken, (vec![0], pushed));
    }

    /// One taker has long been idle; another one comes back and lingers until its share of four is there. Then there are `more`.
    /// What both took, and whether the idle one had it at once.
    async fn one_lingers_beside_an_idle_one(weight: usize, more: usize) -> (Vec<usize>, Vec<usize>, bool) {
        let queue = Queue::new(2);
        let _other = one_is_back(&queue, Duration::from_millis(8)).await;
        let later = || tokio::time::sleep(limits::LINGER * 5);
        let idle = async { (take(&queue).await, Instant::now()) };
        let back = async {
            later().await;
            take(&queue).await
        };
        let pushing = async {
            later().await;
            tokio::task::yield_now().await;
            (0..4).for_each(|_| queue.push(weight).unwrap());
            tokio::task::yield_now().await;
            (0..more).for_each(|_| queue.push(weight).unwrap());
            Instant::now()
        };
        let (((idle, _turn), when), (back, _its_turn), pushed) = tokio::join!(idle, back, pushing);
        (back, idle, when == pushed)
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_left_with_its_share_keeps_nobody_else_from_being_woken() {
        assert_eq!(one_lingers_beside_an_idle_one(0, 1).await, (vec![0; 4], vec![0], true));
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_batch_has_no_room_for_is_left_to_whoever_else_waits() {
        let heavy = limits::BATCH_BYTES;
        assert_eq!(one_lingers_beside_an_idle_one(heavy, 0).await, (vec![heavy], vec![heavy], true));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_lingers_while_no_other_batch_is_under_way() {
        let queue = Queue::new(2);
        drop(one_is_back(&queue, Duration::from_millis(8)).await);
        let began = Instant::now();
        queue.push(0).unwrap();
        let (taken, _turn) = take(&queue).await;
        assert_eq!((taken, began.elapsed()), (vec![0], Duration::ZERO));
    }

    #[tokio::test]
    async fn what_comes_while_a_taker_answers_is_taken_by_that_one_and_nobody_is_woken_for_it() {
        let queue = Queue::new(2);
        queue.push(0).unwrap();
        let (_, mut turn) = queue.share().await.unwrap();
        let mut idle = std::pin::pin!(queue.share());
        assert!((&mut idle).now_or_never().is_none());
        turn.answers();
        queue.push(1).unwrap();
        assert!((&mut idle).now_or_never().is_none(), "an idle taker was woken");
        drop(turn);
        let (taken, _turn) = queue.share().await.unwrap();
        assert_eq!(taken, [1]);
        queue.push(2).unwrap();
        assert_eq!(idle.await.unwrap().0, [2], "nobody answers any more");
    }

    #[tokio::test(start_paused = true)]
    async fn a_taker_that_has_long_been_idle_does_not_wait_for_those_whom_another_one_has_answered() {
        let queue = Queue::new(2);
        drop(one_is_back(&queue, Duration::from_millis(8)).await);
        let pushing = async {
            for n in 0..2 {
                tokio::time::sleep(limits::LINGER).await;
                queue.push(n).unwrap();
            }
            Instant::now()
        };
        let taking = async { tokio::join!(queue.share(), queue.share()) };
        let taken = async { (timeout(Duration::from_secs(1), taking).await.is_ok(), Instant::now()) };
        let (taken, pushed) = tokio::join!(taken, pushing);
        assert_eq!(taken, (true, pushed));
    }

    #[tokio::test(start_paused = true)]
    async fn the_queue_forgets_that_there_were_more() {
        let queue = Queue::new(2);
        (0..1_000).for_each(|n| queue.push(n).unwrap());
        for _ in 0..200 {
            drop(take(&queue).await);
            queue.push(0).unwrap();
        }
        assert_eq!(queue.lock().population, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_a_batch_is_woken_by_the_first_item() {
        let queue = Queue::new(2);
        let (taken, ()) = tokio::join!(take(&queue), async { queue.push(7_usize).unwrap() });
        assert_eq!(taken.0, [7]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_ends_where_its_bytes_do_and_has_at_least_one_item() {
        let queue = Queue::new(1);
        [limits::BATCH_BYTES + 1, 1, limits::BATCH_BYTES, 1].into_iter().for_each(|n| queue.push(n).unwrap());
        for size in [1, 1, 1, 1] {
            assert_eq!(take(&queue).await.0.len(), size);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_has_no_more_items_than_its_bound() {
        let queue = Queue::new(1);
        (0..=limits::BATCH).for_each(|_| queue.push(0).unwrap());
        assert_eq!([take(&queue).await.0.len(), take(&queue).await.0.len()], [limits::BATCH, 1]);
    }

    #[test]
    fn a_queue_takes_as_many_as_its_bound_and_gives_the_next_one_back() {
        let queue = Queue::new(1);
        (0..limits::QUEUE).for_each(|n| queue.push(n).unwrap());
        let (item, error) = queue.push(7).unwrap_err();
        assert_eq!((item, error.kind()), (7, hapax_core::Kind::Unavailable));
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_queue_gives_nothing_and_takes_nothing() {
        let queue = Queue::new(1);
        queue.push(1_usize).unwrap();
        queue.close();
        assert!(queue.share().await.is_none());
        assert!(queue.push(2).is_err());
    }

    #[test]
    fn what_waits_in_a_queue_that_is_closed_is_dropped() {
        let (queue, item) = (Queue::new(1), std::sync::Arc::new(()));
        queue.push(item.clone()).unwrap();
        queue.close();
        assert_eq!(std::sync::Arc::strong_count(&item), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_that_is_closed_sends_every_taker_away_at_once() {
        let queue = Queue::new(2);
        let _other = one_is_back(&queue, Duration::from_millis(8)).await;
        let later = || tokio::time::sleep(limits::LINGER * 5);
        let taking = async || {
            let taken = timeout(Duration::from_secs(60), queue.share()).await.expect("an answer");
            (taken.is_none(), Instant::now())
        };
        // One has long been idle, the other one lingers.
        let back = async {
            later().await;
            taking().await
        };
        let closing = async {
            later().await;
            tokio::task::yield_now().await;
            queue.push(0).unwrap();
            queue.close();
            (true, Instant::now())
        };
        let (idle, back, closed) = tokio::join!(taking(), back, closing);
        assert_eq!((idle, back), (closed, closed));
    }
}
