//! Calls that go on when their caller has gone away (H5).
//!
//! While the caller waits, its own task drives the call. When that task is dropped, or has waited long enough, a call whose
//! work has begun is moved to a task of its own; one that has not is cancelled, which `once` knows how to do. Why a call without
//! a caller failed is in the log: nobody else is told.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use hapax_exec::{Done, Error};
use tokio::sync::Notify;

/// Counts the calls that go on without a caller.
#[derive(Clone, Debug, Default)]
pub struct Calls(Arc<Counter>);

#[derive(Debug, Default)]
struct Counter {
    detached: AtomicUsize,
    ended: Notify,
}

impl Calls {
    /// How many go on without a caller.
    pub fn detached(&self) -> usize {
        self.0.detached.load(Ordering::SeqCst)
    }

    /// Returns when none is left.
    pub async fn idle(&self) {
        loop {
            let mut ended = std::pin::pin!(self.0.ended.notified());
            ended.as_mut().enable();
            if self.detached() == 0 {
                return;
            }
            ended.await;
        }
    }

    fn spawn(&self, call: impl Future<Output = Result<Done, Error>> + Send + 'static) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        self.0.detached.fetch_add(1, Ordering::SeqCst);
        let counted = Counted(self.clone());
        runtime.spawn(async move {
            // In the task, so that it is dropped with it however that ends.
            let _counted = counted;
            if let Err(error) = call.await {
                tell(&error);
            }
        });
    }
}

fn tell(error: &Error) {
    let operation_id = error.operation_id().map(tracing::field::display);
    let (event, cause) = (error.code(), error.cause());
    tracing::warn!(operation_id, event, cause, "a call that went on without its caller has no outcome");
}

struct Counted(Calls);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.detached.fetch_sub(1, Ordering::SeqCst);
        self.0.0.ended.notify_waiters();
    }
}

/// Says whether the work of a call has begun.
pub(crate) trait Begun {
    fn begun(&self) -> bool;
}

/// A call and the caller who waits for it.
pub(crate) struct Attended<F: Future<Output = Result<Done, Error>> + Send + 'static, P: Begun> {
    call: Option<Pin<Box<F>>>,
    progress: Arc<P>,
    calls: Calls,
}

impl<F: Future<Output = Result<Done, Error>> + Send + 'static, P: Begun> Attended<F, P> {
    pub(crate) fn new(call: Pin<Box<F>>, progress: Arc<P>, calls: Calls) -> Self {
        Attended { call: Some(call), progress, calls }
    }
}

impl<F: Future<Output = Result<Done, Error>> + Send + 'static, P: Begun> Future for Attended<F, P> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Some(call) = &mut self.call else { return Poll::Pending };
        let answer = call.as_mut().poll(cx);
        if answer.is_ready() {
            self.call = None;
        }
        answer
    }
}

impl<F: Future<Output = Result<Done, Error>> + Send + 'static, P: Begun> Drop for Attended<F, P> {
    fn drop(&mut self) {
        if let Some(call) = self.call.take().filter(|_| self.progress.begun()) {
            self.calls.spawn(call);
        }
    }
}
