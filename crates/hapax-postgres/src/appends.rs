//! Appends that wait together share one transaction (B3).
//!
//! One connection takes what is queued, whatever streams it is for. A stream that another transaction has locked is not waited for: what is
//! for it goes to the desk, as does a batch that failed for one of its writes. Sent again after a lost connection, a write is found to
//! have been made by its id (L13).

use std::sync::Arc;

use hapax_core::journal::{Append, Head};
use hapax_core::{Error, Timestamp};
use hapax_store::parts::clock;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::desk::Resend;
use super::failure::Failure;
use super::journal;
use super::link::{Line, Link};
use super::queue::{Weigh, closed_error};
use super::row::get;
use super::shared::Shared;
use super::stream_rows as rows;

/// A write, with whoever waits for it.
pub(super) struct Appending {
    write: Append,
    deadline: Instant,
    reply: oneshot::Sender<Result<Head, Error>>,
}

impl Weigh for Appending {
    fn weight(&self) -> usize {
        self.write.weight()
    }
}

impl Appending {
    fn answer(self, answer: Result<Head, Error>) {
        // Whoever asked may have gone.
        drop(self.reply.send(answer));
    }

    /// Has it written alone, waiting for whoever has its stream.
    fn hand_in(self, shared: &Arc<Shared>) {
        let (its, write) = (shared.clone(), self.write);
        shared.hand_in(Resend::Always, self.reply, async move |link: &mut Link| {
            journal::append_one(link, &write, &its.session).await
        });
    }
}

impl Shared {
    /// Has a write made together with others.
    pub(super) async fn append(&self, write: Append) -> Result<Head, Error> {
        let (reply, head) = oneshot::channel();
        let appending = Appending { write, deadline: self.deadline(), reply };
        self.appends.push(appending).map_err(|(_, error)| error)?;
        head.await.unwrap_or_else(|_| Err(closed_error()))
    }
}

/// Serves appends on one connection.
pub(super) async fn serve(shared: Arc<Shared>) {
    let mut line = Line::new(shared.database.clone());
    while let Some((mut items, mut turn)) = shared.appends.share().await {
        while !items.is_empty() {
            let writes: Vec<Append> = items.iter().map(|item| item.write.clone()).collect();
            let tried = attempt(&shared, &mut line, &writes).await;
            match tried {
                Ok(answers) => {
                    turn.answers();
                    for (item, answer) in items.drain(..).zip(answers) {
                        match answer {
                            Some(answer) => item.answer(answer),
                            None => item.hand_in(&shared),
                        }
                    }
                }
                Err(failure @ (Failure::Lost(_) | Failure::Unknown(_))) => {
                    let now = clock::timer_now();
                    let overdue: Vec<Appending>;
                    (overdue, items) = items.into_iter().partition(|item| item.deadline <= now);
                    let error = failure.into_error();
                    overdue.into_iter().for_each(|item| item.answer(Err(error.clone())));
                }
                // Each alone tells for which.
                Err(_) => items.drain(..).for_each(|item| item.hand_in(&shared)),
            }
        }
    }
}

/// What each write is answered; `None` for one whose stream is locked.
type Answers = Vec<Option<Result<Head, Error>>>;

async fn attempt(shared: &Shared, line: &mut Line, writes: &[Append]) -> Result<Answers, Failure> {
    let link = line.link().await?;
    let result = carry_out(shared, link, writes).await;
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

async fn carry_out(shared: &Shared, link: &mut Link, writes: &[Append]) -> Result<Answers, Failure> {
    let at: Timestamp = journal::begin(link, &shared.session).await?;
    let names = journal::names(writes);
    let found = link.query(rows::LOCK_FREE, &[&names]).await?;
    let mut plan = journal::look(&found, &names, at, Some(&shared.session))?;
    let locked = locked(link, &found, &names).await?;
    journal::learn(link, &mut plan, writes).await?;
    let answers = writes.iter().map(|write| match locked.iter().any(|name| name == write.stream.as_str()) {
        true => None,
        false => Some(plan.append(write, at)),
    });
    let answers = answers.collect();
    journal::keep(link, plan).await?;
    link.commit().await?;
    Ok(answers)
}

/// Streams that are there and were not given: another transaction has them.
async fn locked(
    link: &mut Link,
    found: &[tokio_postgres::Row],
    names: &[&str],
) -> Result<Vec<String>, Failure> {
    if found.len() == names.len() {
        return Ok(Vec::new());
    }
    let free: Vec<&str> = found.iter().map(|row| get(row, 1)).collect::<Result<_, Error>>()?;
    let rest: Vec<&str> = names.iter().copied().filter(|name| !free.contains(name)).collect();
    let there = link.query(rows::PRESENT, &[&rest]).await?;
    Ok(there.iter().map(|row| get(row, 0)).collect::<Result<_, Error>>()?)
}
