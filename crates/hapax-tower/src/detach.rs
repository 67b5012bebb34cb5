//! Calls that go on when their caller has gone away (H5).
//!
//! While the caller waits, its own task drives the call. When that task is dropped, or has waited long enough, a call whose
//! work has begun is moved to a task of its own. Until then it is a future of the caller's like any other, and dropping it cancels
//! it, which `once` knows how to do. Why a call without a caller failed is in the log: no caller is left to be told.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use hapax_core::Advice;
use hapax_exec::{Done, Error};
use pin_project_lite::pin_project;
use tokio::sync::Notify;

use crate::take::First;

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

/// What became of a call: what the ledger says, and the answer that its first caller alone gets.
pub(crate) type Recorded<B> = (Result<Done, Error>, Option<First<B>>);

pin_project! {
    /// A call whose work has begun, in two stages: the work, and the recording of what came of it.
    #[project = Stage]
    enum Call<W, R> {
        Working { #[pin] work: W },
        Recording { #[pin] recording: R, not_yet: Advice },
    }
}

impl<W: Future<Output = (Advice, R)>, R: Future> Future for Call<W, R> {
    type Output = R::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R::Output> {
        loop {
            let (not_yet, recording) = match self.as_mut().project() {
                Stage::Working { work } => ready!(work.poll(cx)),
                Stage::Recording { recording, .. } => return recording.poll(cx),
            };
            self.set(Call::Recording { recording, not_yet });
        }
    }
}

/// A call that says in which stage it is.
trait Staged: Future {
    fn not_recorded_yet(&self) -> Option<Advice>;
}

impl<W: Future<Output = (Advice, R)>, R: Future> Staged for Call<W, R> {
    fn not_recorded_yet(&self) -> Option<Advice> {
        match self {
            Call::Recording { not_yet, .. } => Some(*not_yet),
            Call::Working { .. } => None,
        }
    }
}

/// A call whose work has begun, and the caller who waits for it. Dropped, the call goes on without the caller.
pub(crate) struct Attended<B: 'static> {
    call: Option<Pin<Box<dyn Staged<Output = Recorded<B>> + Send>>>,
    calls: Calls,
}

impl<B> Attended<B> {
    /// The work of a call. It ends in what a caller is told that leaves from then on, and in the recording.
    pub(crate) fn new<W, R>(work: W, calls: Calls) -> Self
    where
        W: Future<Output = (Advice, R)> + Send + 'static,
        R: Future<Output = Recorded<B>> + Send + 'static,
    {
        Attended { call: Some(Box::pin(Call::Working { work })), calls }
    }

    /// What a caller is told that leaves once the work has ended: from then on only the ledger is waited for.
    pub(crate) fn not_recorded_yet(&self) -> Option<Advice> {
        self.call.as_ref().and_then(|call| call.not_recorded_yet())
    }
}

impl<B> Future for Attended<B> {
    type Output = Recorded<B>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Recorded<B>> {
        let Some(call) = &mut self.call else { return Poll::Pending };
        let recorded = call.as_mut().poll(cx);
        if recorded.is_ready() {
            self.call = None;
        }
        recorded
    }
}

impl<B> Drop for Attended<B> {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            self.calls.spawn(async move { call.await.0 });
        }
    }
}
