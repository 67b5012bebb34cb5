//! Everything that is not a batch: transactions of their own on a few connections of their own.
//!
//! A job is run again when its connection is lost, until its patience ends. One that is not idempotent is run
//! again only if its COMMIT was never sent (L13).

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use hapax_core::Error;
use hapax_store::parts::clock;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::failure::Failure;
use super::link::{Line, Link};
use super::queue::closed_error;
use super::shared::Shared;
use crate::limits;

/// Whether a job may be run again when nobody knows whether it was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resend {
    /// It finds out that it was.
    Always,
    /// It would be carried out twice, or contradict itself.
    BeforeCommit,
}

/// Work for a connection, with the one who waits for it.
pub(super) struct Job {
    work: Box<dyn Work>,
    resend: Resend,
    deadline: Instant,
    /// How long it waits before it is run again, when it finds a claim locked.
    pause: Duration,
}

trait Work: Send {
    /// Runs once. The answer goes to whoever waits; a failure comes back.
    fn run<'a>(&'a mut self, link: &'a mut Link) -> LocalBoxFuture<'a, Result<(), Failure>>;

    /// Tells whoever waits that it is over.
    fn refuse(&mut self, error: Error);
}

struct Asked<F, T> {
    work: F,
    reply: Option<oneshot::Sender<Result<T, Error>>>,
}

impl<F, T> Work for Asked<F, T>
where
    F: AsyncFn(&mut Link) -> Result<T, Failure> + Send,
    T: Send,
{
    fn run<'a>(&'a mut self, link: &'a mut Link) -> LocalBoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            let answer = (self.work)(link).await?;
            if let Some(reply) = self.reply.take() {
                // Whoever asked may have gone.
                let _ = reply.send(Ok(answer));
            }
            Ok(())
        })
    }

    fn refuse(&mut self, error: Error) {
        if let Some(reply) = self.reply.take() {
            let _ = reply.send(Err(error));
        }
    }
}

impl Shared {
    /// Has work done at the desk. The work may be called several times.
    pub(super) async fn ask<T, F>(&self, resend: Resend, work: F) -> Result<T, Error>
    where
        F: AsyncFn(&mut Link) -> Result<T, Failure> + Send + 'static,
        T: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.hand_in(resend, reply, work);
        answer.await.unwrap_or_else(|_| Err(closed_error()))
    }

    /// The same for somebody who waits elsewhere.
    pub(super) fn hand_in<T, F>(&self, resend: Resend, reply: oneshot::Sender<Result<T, Error>>, work: F)
    where
        F: AsyncFn(&mut Link) -> Result<T, Failure> + Send + 'static,
        T: Send + 'static,
    {
        let work = Box::new(Asked { work, reply: Some(reply) });
        let (deadline, pause) = (self.deadline(), limits::BUSY_PAUSE.0);
        self.queue_job(Job { work, resend, deadline, pause });
    }

    fn queue_job(&self, job: Job) {
        if let Err((mut job, error)) = self.desk.push(job) {
            job.work.refuse(error);
        }
    }
}

/// Serves the desk on one connection.
pub(super) async fn serve(shared: Arc<Shared>) {
    let mut line = Line::new(shared.database.clone());
    while let Some(mut job) = shared.desk.next().await {
        loop {
            let Err(failure) = attempt(&mut line, &mut job).await else { break };
            let over = clock::timer_now() >= job.deadline;
            match failure {
                Failure::Lost(_) if !over => {}
                Failure::Unknown(_) if !over && job.resend == Resend::Always => {}
                // What asks to be looked at again has a bound of its own.
                Failure::Later => {
                    come_back(&shared, limits::BUSY_PAUSE.0, job);
                    break;
                }
                Failure::Busy if !over => {
                    let pause = job.pause;
                    job.pause = (2 * pause).min(limits::BUSY_PAUSE.1);
                    come_back(&shared, pause, job);
                    break;
                }
                other => {
                    job.work.refuse(other.into_error());
                    break;
                }
            }
        }
    }
}

/// Runs a job once and leaves the connection clean, or gives it up.
async fn attempt(line: &mut Line, job: &mut Job) -> Result<(), Failure> {
    let link = line.link().await?;
    let result = job.work.run(link).await;
    let is_clean = match &result {
        Err(Failure::Lost(_) | Failure::Unknown(_)) => false,
        _ => link.rollback().await.is_ok(),
    };
    if is_clean {
        line.serves();
    } else {
        line.give_up();
    }
    result
}

/// A job that must wait does not keep its connection from others.
fn come_back(shared: &Arc<Shared>, pause: Duration, job: Job) {
    let shared = shared.clone();
    tokio::task::spawn_local(async move {
        tokio::time::sleep(pause).await;
        shared.queue_job(job);
    });
}
