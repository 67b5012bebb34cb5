//! The tasks that a node keeps running in the background: each has a name, and a stage at which it ends.
//!
//! A watcher that panics is told of and started again, so that a node does not go on without anybody noticing that its gauges or
//! its retentions have stopped. What the tasks do is in their own files; when each stage is over is for `Node::drain` to say.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::limits;

/// When tasks end, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Before requests are finished: what only looks, and starts nothing that somebody waits for.
    Watching,
    /// After the last request: operators can look until the end.
    Operators,
}

/// The tasks of a node, in the order in which they end within their stage: the latest first.
#[derive(Default)]
pub(super) struct Supervisor {
    tasks: Vec<Task>,
}

struct Task {
    name: &'static str,
    stage: Stage,
    /// Sent to a task that ends by itself when it is told to; others are aborted.
    stop: Option<oneshot::Sender<()>>,
    handle: JoinHandle<()>,
}

impl Supervisor {
    /// Keeps something running that has no end of its own. Where it panics, that is logged, and after a pause it starts again.
    pub(super) fn keep<F>(&mut self, name: &'static str, start: impl Fn() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let kept = async move {
            loop {
                // In this very task, so that whoever waits for its end waits for all of it. What panicked is not used again.
                if panics(start()).await {
                    let again_in = limits::RESTART_PAUSE;
                    tracing::error!(task = name, ?again_in, "a task of this instance panicked");
                }
                tokio::time::sleep(limits::RESTART_PAUSE).await;
            }
        };
        self.tasks.push(Task { name, stage: Stage::Watching, stop: None, handle: tokio::spawn(kept) });
    }

    /// Runs something that goes on until it is told to stop, and then comes to its end.
    pub(super) fn serve<F>(
        &mut self,
        name: &'static str,
        start: impl FnOnce(oneshot::Receiver<()>) -> F + Send,
    ) where
        F: Future<Output = std::io::Result<()>> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel();
        let serving = start(stopped);
        let served = async move {
            if let Err(error) = serving.await {
                tracing::error!(task = name, %error, "a task of this instance has ended");
            }
        };
        let handle = tokio::spawn(served);
        self.tasks.push(Task { name, stage: Stage::Operators, stop: Some(stop), handle });
    }

    /// Ends the tasks of a stage, one after another, and waits for each.
    pub(super) async fn end(&mut self, stage: Stage) {
        let ending: Vec<Task> = self.tasks.extract_if(.., |task| task.stage == stage).collect();
        for task in ending.into_iter().rev() {
            task.end().await;
        }
    }
}

impl Task {
    async fn end(self) {
        match self.stop {
            // Where the other end is gone, so is the task.
            Some(stop) => _ = stop.send(()),
            None => self.handle.abort(),
        }
        if self.handle.await.is_err_and(|error| error.is_panic()) {
            tracing::error!(task = self.name, "a task of this instance panicked");
        }
    }
}

/// Runs something to its end, and says whether that was a panic.
async fn panics(run: impl Future<Output = ()>) -> bool {
    let mut run = pin!(run);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(context))) {
        Ok(poll) => poll.map(|()| false),
        Err(_) => Poll::Ready(true),
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_starts_again_and_the_others_go_on() {
        let (starts, beats) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut supervisor = Supervisor::default();
        let counting = starts.clone();
        supervisor.keep("faulty", move || {
            let number = counting.fetch_add(1, Ordering::SeqCst);
            async move {
                assert!(number >= 2, "a planted panic");
                std::future::pending().await
            }
        });
        let beating = beats.clone();
        supervisor.keep("steady", move || {
            let beating = beating.clone();
            async move {
                loop {
                    beating.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(limits::RESTART_PAUSE).await;
                }
            }
        });
        tokio::time::sleep(limits::RESTART_PAUSE * 10).await;
        assert_eq!(starts.load(Ordering::SeqCst), 3);
        assert!(beats.load(Ordering::SeqCst) >= 10);
        supervisor.end(Stage::Watching).await;
        let last = beats.load(Ordering::SeqCst);
        tokio::time::sleep(limits::RESTART_PAUSE * 10).await;
        assert_eq!(beats.load(Ordering::SeqCst), last, "what was ended does not start again");
    }

    #[tokio::test]
    async fn tasks_end_stage_by_stage_and_the_latest_first() {
        let ended = Arc::new(Mutex::new(Vec::new()));
        let mut supervisor = Supervisor::default();
        for name in ["admin", "application"] {
            let ended = ended.clone();
            supervisor.serve(name, |stopped| async move {
                let _ = stopped.await;
                ended.lock().unwrap().push(name);
                Ok(())
            });
        }
        struct Ends(&'static str, Arc<Mutex<Vec<&'static str>>>);
        impl Drop for Ends {
            fn drop(&mut self) {
                self.1.lock().unwrap().push(self.0);
            }
        }
        for name in ["doubts", "retentions"] {
            let ended = ended.clone();
            supervisor.keep(name, move || {
                let ends = Ends(name, ended.clone());
                async move {
                    let _ends = ends;
                    std::future::pending().await
                }
            });
        }
        tokio::task::yield_now().await;
        supervisor.end(Stage::Watching).await;
        assert_eq!(ended.lock().unwrap().len(), 2, "they have ended, and not only been told to");
        supervisor.end(Stage::Operators).await;
        assert_eq!(*ended.lock().unwrap(), ["retentions", "doubts", "application", "admin"]);
    }
}
