//! The one waker of a connection, which passes a wake-up on to whoever waits for it, and only while somebody does.
//!
//! A connection is polled by one call after the other. With their own wakers, each call would wake the one before it, and
//! itself with every piece of its answer that it takes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

#[derive(Default)]
pub(super) struct Relay(Mutex<State>);

#[derive(Default)]
struct State {
    /// Who waited last.
    waiter: Option<Waker>,
    /// Whether it still does.
    waits: bool,
    /// Whether there was a wake-up since the connection began to be polled.
    missed: bool,
}

impl Relay {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection is about to be polled: what happened before is taken care of by that.
    pub(super) fn begin(&self) {
        let mut state = self.state();
        state.waits = false;
        state.missed = false;
    }

    /// There is nothing to do until the next wake-up; it may have come while the connection was polled.
    pub(super) fn wait(&self, cx: &mut Context<'_>) {
        let mut state = self.state();
        if state.missed {
            drop(state);
            cx.waker().wake_by_ref();
            return;
        }
        state.waits = true;
        match &mut state.waiter {
            Some(waiter) => waiter.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
    }
}

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.state();
        state.missed = true;
        if !std::mem::take(&mut state.waits) {
            return;
        }
        let waiter = state.waiter.take();
        drop(state);
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }
}
