//! How the writer answers: it puts all answers of a commit in their slots first, then wakes each thread once.
//!
//! To wake a task of another thread's runtime costs a system call, and on a busy core it hands the core over before
//! the other answers are there; to wake a task from within its own thread is a push onto a queue. So the writer
//! wakes the first that waits in a thread, which finds a [`Baton`] with its answer: the wakers of the others.
//!
//! Nobody depends on that first one. Whoever lets go of a baton first wakes everybody on it: the first waiter, when
//! it takes its answer or is dropped, or the writer, which has a hold on every baton, too, and lets go of it before
//! it carries out the next batch, or soon ([`crate::limits::WAKE_GRACE`]) when there is none.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{Thread, ThreadId};

/// Both ends of one answer.
pub(super) fn pair<T>() -> (Reply<T>, Wait<T>) {
    let slot = Arc::new(Mutex::new(Slot::Empty(None)));
    (Reply(Arc::clone(&slot)), Wait(slot))
}

/// Where an answer goes. Dropped without one, it tells so.
#[derive(Debug)]
pub(super) struct Reply<T>(Arc<Mutex<Slot<T>>>);

/// Waits for an answer; `None` when there will not be any.
#[derive(Debug)]
pub(super) struct Wait<T>(Arc<Mutex<Slot<T>>>);

#[derive(Debug)]
enum Slot<T> {
    /// There is no answer yet, and this one waits for it.
    Empty(Option<Waiter>),
    /// The answer, and those who are woken by whoever takes it.
    Answered(T, Option<Baton>),
    /// The answer was taken, or one of both ends is gone.
    Over,
}

#[derive(Debug)]
struct Waiter {
    /// Where it was polled. It may be elsewhere by now; then it is only woken from a less convenient place.
    thread: ThreadId,
    waker: Waker,
}

impl<T> Future for Wait<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut slot = lock(&self.0);
        match &mut *slot {
            Slot::Empty(waiter) => {
                let former =
                    waiter.replace(Waiter { thread: std::thread::current().id(), waker: cx.waker().clone() });
                drop(slot);
                drop(former);
                Poll::Pending
            }
            answered => {
                let taken = std::mem::replace(answered, Slot::Over);
                drop(slot);
                let Slot::Answered(answer, baton) = taken else { return Poll::Ready(None) };
                drop(baton);
                Poll::Ready(Some(answer))
            }
        }
    }
}

impl<T> Wait<T> {
    /// Waits in a thread that has nothing else to do.
    pub(super) fn block(mut self) -> Option<T> {
        let waker = own_waker();
        loop {
            match Pin::new(&mut self).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(answer) => return answer,
                Poll::Pending => std::thread::park(),
            }
        }
    }
}

impl<T> Drop for Wait<T> {
    fn drop(&mut self) {
        let left = std::mem::replace(&mut *lock(&self.0), Slot::Over);
        // Only now, because others may be woken by it.
        drop(left);
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        let mut slot = lock(&self.0);
        let Slot::Empty(waiter) = &mut *slot else { return };
        let waiter = waiter.take();
        *slot = Slot::Over;
        drop(slot);
        if let Some(waiter) = waiter {
            waiter.waker.wake();
        }
    }
}

/// The wakers of those who are woken by whoever lets go of this first.
#[derive(Clone, Debug)]
struct Baton(Arc<Mutex<Option<Vec<Waker>>>>);

impl Baton {
    fn new() -> Baton {
        Baton(Arc::new(Mutex::new(Some(Vec::new()))))
    }

    /// Takes one more along; gives it back when somebody has let go already.
    fn add(&self, waker: Waker) -> Result<(), Waker> {
        match &mut *lock(&self.0) {
            Some(wakers) => {
                wakers.push(waker);
                Ok(())
            }
            None => Err(waker),
        }
    }

    /// Whether somebody is still to be woken.
    fn owes(&self) -> bool {
        lock(&self.0).as_ref().is_some_and(|wakers| !wakers.is_empty())
    }
}

impl Drop for Baton {
    fn drop(&mut self) {
        let wakers = lock(&self.0).take();
        wakers.into_iter().flatten().for_each(Waker::wake);
    }
}

/// The waking that the writer owes.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    /// The first of each thread.
    firsts: Vec<Waker>,
    batons: HashMap<ThreadId, Baton, foldhash::fast::RandomState>,
}

impl Wakes {
    /// Puts an answer in its slot. Whoever waits for it is woken by what follows.
    pub(super) fn put<T>(&mut self, reply: Reply<T>, answer: T) {
        let mut slot = lock(&reply.0);
        let Slot::Empty(waiter) = &mut *slot else {
            // Whoever asked has gone.
            return;
        };
        // The slot is locked until the answer is there: nobody who is woken meanwhile finds it empty.
        let baton = waiter.take().and_then(|waiter| self.owe(waiter));
        *slot = Slot::Answered(answer, baton);
    }

    /// Notes one to be woken; returns the baton when it is the first of its thread.
    fn owe(&mut self, Waiter { thread, waker }: Waiter) -> Option<Baton> {
        let waker = match self.batons.get(&thread) {
            Some(baton) => baton.add(waker).err()?,
            None => waker,
        };
        self.firsts.push(waker);
        let baton = Baton::new();
        self.batons.insert(thread, baton.clone());
        Some(baton)
    }

    /// Wakes the first of each thread.
    pub(super) fn wake_firsts(&mut self) {
        self.firsts.drain(..).for_each(Waker::wake);
        self.batons.retain(|_, baton| baton.owes());
    }

    /// Whether somebody was not woken yet.
    pub(super) fn owed(&self) -> bool {
        self.batons.values().any(Baton::owes)
    }

    /// Wakes everybody whom nobody has woken so far.
    pub(super) fn wake_all(&mut self) {
        self.firsts.drain(..).for_each(Waker::wake);
        self.batons.clear();
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        self.wake_all();
    }
}

/// What wakes the present thread out of [`std::thread::park`].
pub(super) fn own_waker() -> Waker {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    Arc::new(Unpark(std::thread::current())).into()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Somebody who waits, polled by hand.
    struct Somebody {
        wait: Wait<u32>,
        woken: Arc<Count>,
    }

    impl Somebody {
        fn poll(&mut self) -> Poll<Option<u32>> {
            let waker = Waker::from(Arc::clone(&self.woken));
            Pin::new(&mut self.wait).poll(&mut Context::from_waker(&waker))
        }

        fn woken(&self) -> usize {
            self.woken.0.load(Ordering::SeqCst)
        }
    }

    /// Some who wait in this thread.
    fn waiting<const N: usize>() -> ([Option<Reply<u32>>; N], [Somebody; N]) {
        let mut replies = [const { None }; N];
        let somebodies = std::array::from_fn(|index| {
            let (reply, wait) = pair();
            replies[index] = Some(reply);
            let mut somebody = Somebody { wait, woken: Arc::default() };
            assert_eq!(somebody.poll(), Poll::Pending);
            somebody
        });
        (replies, somebodies)
    }

    /// Answers them by their number.
    fn put<const N: usize>(wakes: &mut Wakes, replies: [Option<Reply<u32>>; N]) {
        for (reply, number) in replies.into_iter().flatten().zip(0..) {
            wakes.put(reply, number);
        }
    }

    fn answered<const N: usize>() -> (Wakes, [Somebody; N]) {
        let (replies, somebodies) = waiting();
        let mut wakes = Wakes::default();
        put(&mut wakes, replies);
        (wakes, somebodies)
    }

    #[test]
    fn an_answer_that_was_there_before_anybody_asked_is_found_b3() {
        let (reply, wait) = pair();
        let mut wakes = Wakes::default();
        wakes.put(reply, 7);
        wakes.wake_firsts();
        assert!(!wakes.owed());
        assert_eq!(wait.block(), Some(7));
    }

    #[test]
    fn nobody_is_woken_before_all_answers_are_there_b3() {
        let (mut wakes, mut all) = answered::<3>();
        assert!(all.iter().all(|one| one.woken() == 0));
        wakes.wake_firsts();
        for (one, number) in all.iter_mut().rev().zip([2, 1, 0]) {
            assert_eq!(one.poll(), Poll::Ready(Some(number)));
        }
    }

    #[test]
    fn the_first_of_a_thread_is_woken_and_wakes_the_others_b3() {
        let (mut wakes, mut all) = answered::<3>();
        wakes.wake_firsts();
        assert_eq!(all.each_ref().map(Somebody::woken), [1, 0, 0]);
        assert!(wakes.owed());
        assert_eq!(all[0].poll(), Poll::Ready(Some(0)));
        assert_eq!(all.each_ref().map(Somebody::woken), [1, 1, 1]);
        assert!(!wakes.owed());
        wakes.wake_all();
        assert_eq!(all.each_ref().map(Somebody::woken), [1, 1, 1]);
    }

    #[test]
    fn a_first_one_that_is_dropped_wakes_the_others_b3() {
        let (mut wakes, [first, second, third]) = answered();
        wakes.wake_firsts();
        drop(first);
        assert_eq!((second.woken(), third.woken()), (1, 1));
    }

    #[test]
    fn a_first_one_that_goes_before_the_others_are_answered_keeps_nobody_from_being_woken_b3() {
        let ([a, b, c], [first, second, third]) = waiting();
        let mut wakes = Wakes::default();
        put(&mut wakes, [a]);
        drop(first);
        put(&mut wakes, [b, c]);
        wakes.wake_firsts();
        assert_eq!((second.woken(), third.woken()), (1, 0));
        drop(second);
        assert_eq!(third.woken(), 1);
    }

    #[test]
    fn one_that_went_before_its_answer_is_not_counted_on_b3() {
        let (replies, [first, second, mut third]) = waiting();
        let gone = Arc::clone(&first.woken);
        drop(first);
        let mut wakes = Wakes::default();
        put(&mut wakes, replies);
        wakes.wake_firsts();
        assert_eq!((gone.0.load(Ordering::SeqCst), second.woken(), third.woken()), (0, 1, 0));
        // One that goes later, without having been first, changes nothing either.
        assert_eq!(third.poll(), Poll::Ready(Some(2)));
        drop(third);
        assert!(wakes.owed());
    }

    #[test]
    fn whoever_was_not_woken_by_the_first_is_woken_by_the_writer_b3() {
        let (mut wakes, all) = answered::<3>();
        wakes.wake_firsts();
        wakes.wake_all();
        assert_eq!(all.each_ref().map(Somebody::woken), [1, 1, 1]);
        // Also when it has not even begun.
        let (wakes, all) = answered::<2>();
        drop(wakes);
        assert_eq!(all.each_ref().map(Somebody::woken), [1, 1]);
    }

    #[test]
    fn each_thread_has_a_first_one_b3() {
        let (here, all) = waiting::<2>();
        let (there, others) = std::thread::spawn(waiting::<2>).join().unwrap();
        let mut wakes = Wakes::default();
        put(&mut wakes, here);
        put(&mut wakes, there);
        wakes.wake_firsts();
        assert_eq!(all.each_ref().map(Somebody::woken), [1, 0]);
        assert_eq!(others.each_ref().map(Somebody::woken), [1, 0]);
        drop(others);
        assert_eq!(all[1].woken(), 0);
    }

    #[test]
    fn only_the_waker_of_the_last_poll_counts_b3() {
        let (replies, [mut moved, stays]) = waiting();
        let former = std::mem::take(&mut moved.woken);
        let moved = std::thread::spawn(move || {
            assert_eq!(moved.poll(), Poll::Pending);
            moved
        });
        let moved = moved.join().unwrap();
        let mut wakes = Wakes::default();
        put(&mut wakes, replies);
        wakes.wake_firsts();
        assert_eq!((former.0.load(Ordering::SeqCst), moved.woken(), stays.woken()), (0, 1, 1));
    }

    #[test]
    fn whoever_will_not_be_answered_is_told_at_once_b3() {
        let ([reply], [mut somebody]) = waiting();
        drop(reply);
        assert_eq!(somebody.woken(), 1);
        assert_eq!(somebody.poll(), Poll::Ready(None));
    }

    #[test]
    fn a_runtime_that_is_shut_down_wakes_the_others_of_its_thread_b3() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (reply, wait) = pair();
        runtime.spawn(wait);
        runtime.block_on(tokio::task::yield_now());
        let ([other], [somebody]) = waiting();
        let mut wakes = Wakes::default();
        put(&mut wakes, [Some(reply), other]);
        wakes.wake_firsts();
        assert_eq!(somebody.woken(), 0, "the task of the runtime is the first");
        drop(runtime);
        assert_eq!(somebody.woken(), 1);
    }

    #[test]
    fn tasks_of_several_runtimes_and_threads_that_block_are_all_woken_b3() {
        let (asking, asked) = std::sync::mpsc::channel();
        let ask = move || {
            let (reply, wait) = pair();
            asking.send(reply).unwrap();
            wait
        };
        let several = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let threads: Vec<_> = (0..6)
            .map(|number| {
                let (ask, several) = (ask.clone(), several.handle().clone());
                std::thread::spawn(move || match number {
                    0 | 1 => drop(ask().block()),
                    2 | 3 => several.block_on(many(ask)),
                    _ => tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(many(ask)),
                })
            })
            .collect();
        drop(ask);
        let mut wakes = Wakes::default();
        while let Ok(reply) = asked.recv() {
            wakes.put(reply, 1);
            asked.try_iter().for_each(|reply| wakes.put(reply, 1));
            wakes.wake_firsts();
            // Nobody else does it here, so that each is woken by another waiter or not at all.
            while wakes.owed() {
                std::thread::yield_now();
            }
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    /// Many tasks that ask again and again, some of which are given up.
    async fn many(ask: impl Fn() -> Wait<u32> + Clone + Send + 'static) {
        let tasks: Vec<_> = (0..20)
            .map(|number| {
                let ask = ask.clone();
                tokio::spawn(async move {
                    for round in 0..200 {
                        let mut wait = ask();
                        if (number + round) % 7 == 0 {
                            tokio::select! {
                                biased;
                                _ = &mut wait => {}
                                () = tokio::task::yield_now() => {}
                            }
                        } else {
                            assert_eq!(wait.await, Some(1));
                        }
                    }
                })
            })
            .collect();
        drop(ask);
        for task in tasks {
            task.await.unwrap();
        }
    }
}
