//! Looking, while an answer is waited for, whether the call can still come to its end: a paused one waits for an operator, and its
//! callers would wait with it.

use std::sync::atomic::Ordering::Relaxed;

use hapax_tower::{Code, Problem};

use super::ask::{Asking, Patience, Unanswered};
use crate::limits;
use crate::restate::nodes::{Question, Reply};
use crate::restate::{Within, is_invocation_id};

impl Asking<'_> {
    /// The id that the cluster gave the call, once it is known.
    pub(super) fn invocation(&self) -> Option<&str> {
        self.invocation.get().map(String::as_str)
    }

    /// Remembers the id of the call.
    pub(super) fn note(&self, id: &str) {
        if is_invocation_id(id) {
            let _ = self.invocation.set(id.to_owned());
        }
    }

    /// What bounds a question to the admin API about this call.
    pub(super) fn within(&self) -> Within<'_> {
        Within { cluster: self.cluster, circuits: self.circuits, until: self.until }
    }

    /// Waits for an answer, and looks now and then whether the call is one that can still come to its end.
    pub(super) async fn waited(
        &self,
        asking: impl Future<Output = Result<Reply, Unanswered>>,
    ) -> Result<Reply, Problem> {
        let asked = tokio::select! {
            biased;
            asked = asking => asked,
            problem = self.until_paused() => return Err(problem),
        };
        asked.map_err(|unanswered| {
            // Nobody knows of the call: then it is not the handler that takes so long.
            let is_late = matches!(unanswered, Unanswered::TooLate);
            if is_late && self.timeout > limits::STATUS_FIRST && !self.is_alive.load(Relaxed) {
                self.blame();
            }
            unanswered.problem(self.timeout)
        })
    }

    /// What a caller is told who waits no longer for a call that is under way.
    pub(super) async fn unfinished(&self) -> Problem {
        match self.is_paused().await {
            true => paused(),
            false => Problem::new(Code::InProgress).with("executed", "unknown"),
        }
    }

    /// Comes back only if the call is paused.
    async fn until_paused(&self) -> Problem {
        let mut pause = limits::STATUS_FIRST;
        loop {
            tokio::time::sleep(pause).await;
            pause = limits::STATUS_AGAIN;
            if self.is_paused().await {
                return paused();
            }
        }
    }

    async fn is_paused(&self) -> bool {
        if self.invocation().is_none() {
            self.look_up_id().await;
        }
        let Some(id) = self.invocation() else { return false };
        let status = self.admin.status(id, self.within()).await;
        self.is_alive.store(matches!(status, Ok(Some(_))), Relaxed);
        matches!(&status, Ok(Some(status)) if status == "paused")
    }

    /// Which id the call has, whether it is there or not.
    async fn look_up_id(&self) {
        let question = Question::posted("/restate/lookup", self.call.clone());
        let Ok(reply) = self.ask(&question, Patience::Prompt).await else { return };
        let found = reply.whole().and_then(|body| serde_json::from_slice::<serde_json::Value>(body).ok());
        if let Some(id) = found.as_ref().and_then(|found| found["invocationId"].as_str()) {
            self.note(id);
        }
    }
}

fn paused() -> Problem {
    Problem::new(Code::OutcomeUnknown)
        .retry_after(limits::STATUS_AGAIN)
        .with("executed", "unknown")
        .detail("the operation has failed too often and is paused; an operator has to decide")
        .because("the invocation is paused")
}
