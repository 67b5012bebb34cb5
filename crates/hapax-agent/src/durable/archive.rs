//! The end of what is kept beside an execution's journal: archiving it, and erasing what it has of a subject (J5, B9).

use std::collections::BTreeMap;

use hapax_core::journal::{Event, Head, Status, Stream, StreamFilter};
use hapax_core::{
    Decision, Inspect, Journal, Ledger, Operated, OperationId, Outcome, Project, Record, State, Subject,
    Tenant, Verb,
};

use super::error::Error;
use super::event::{Intended, kind};
use super::execution::{self, ExecutionEvent, ExecutionId};
use super::progress::Intent;
use super::step::Step;
use super::stream::Executions;
use crate::limits;

/// What archiving did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Archived {
    /// Claims of steps that are kept no longer.
    pub purged: u64,
}

/// What one round of erasing did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErasedEvents {
    /// Events whose payload was destroyed.
    pub events: u64,
    /// Results of steps that were destroyed in the ledger.
    pub results: u64,
    /// Executions that were left alone: a step of theirs is held or in doubt.
    pub left: u64,
    /// Where the next round starts; `None` at the end.
    pub next: Option<String>,
}

impl<S: Journal + Ledger + Inspect> Executions<S> {
    /// Archives an execution that has ended, and of which no step is held or in doubt: the claims of its steps are kept no longer. Those
    /// under the key of an effect are, and so is the journal; the id stays used up.
    pub async fn archive(&self, id: &ExecutionId, by: &str, reason: &str) -> Result<Archived, Error> {
        let (stream, head) = self.head(id).await?;
        if !head.status.is_some_and(Status::is_terminal) {
            return Err(Error::NotApplicable("only an execution that has ended is archived".into()));
        }
        self.check_steps(id, &stream, None).await?;
        let (mut archived, mut next) = (Archived::default(), 0);
        while let Some(events) = self.page(&stream, &mut next).await? {
            for event in &events {
                let Some((step, record)) = self.claim_of(id, &stream, event).await? else { continue };
                let settled = matches!(record.claim.state, State::Settled { .. });
                if settled && !step.has_effect_key() && self.operate(&record, Verb::Purge, by, reason).await?
                {
                    archived.purged += 1;
                }
            }
        }
        Ok(archived)
    }

    /// Destroys what the executions of a tenant, or of one of its projects, have of a subject: the payloads of its events, checkpoints, and what the ledger keeps
    /// of its steps. One round takes a few executions and says where the next one starts. Their chains still verify.
    pub async fn erase_subject(
        &self,
        (tenant, project): (&Tenant, Option<&Project>),
        subject: &Subject,
        after: Option<&str>,
        (by, reason): (&str, &str),
    ) -> Result<ErasedEvents, Error> {
        let mut prefix = format!("{}{}/", execution::PREFIX, tenant.as_str());
        if let Some(project) = project {
            prefix = format!("{prefix}{}/", project.as_str());
        }
        let filter = StreamFilter { prefix, status: None };
        let page = self.store().list_streams(&filter, after, limits::ERASE_PAGE).await?;
        let mut erased = ErasedEvents { next: page.next, ..ErasedEvents::default() };
        for listed in page.items {
            let Some((tenant, project, id)) = execution::parts_of(&listed.stream) else { continue };
            let its = self.of(hapax_core::Scope::new(tenant, project, subject.clone()));
            let whose = Whose { head: &listed.head, subject: subject.as_str() };
            match its.check_steps(&id, &listed.stream, Some(&whose)).await {
                Ok(()) => its.erase_one(&id, &listed.stream, &whose, (by, reason), &mut erased).await?,
                Err(Error::NotApplicable(_)) => erased.left += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(erased)
    }

    /// The results of steps first: afterwards their claims cannot be found any more. A claim goes only after its intent: an intent that can
    /// be read and whose claim is absent is a step to be made.
    async fn erase_one(
        &self,
        id: &ExecutionId,
        stream: &Stream,
        whose: &Whose<'_>,
        (by, reason): (&str, &str),
        erased: &mut ErasedEvents,
    ) -> Result<(), Error> {
        let (mut next, mut purged) = (0, Vec::new());
        while let Some(events) = self.page(stream, &mut next).await? {
            for event in events.iter().filter(|event| whose.is(event)) {
                let Some((step, record)) = self.claim_of(id, stream, event).await? else { continue };
                let keeps = match &record.claim.state {
                    State::Settled { outcome, .. } => *outcome != Outcome::Erased || !step.has_effect_key(),
                    State::Released { .. } => self.store().has_set_aside(record.claim.operation_id).await?,
                    State::Held { .. } | State::InDoubt { .. } => false,
                };
                let is_settled = matches!(record.claim.state, State::Settled { .. });
                match keeps && is_settled && !step.has_effect_key() {
                    true => purged.push(record),
                    false => {
                        erased.results +=
                            u64::from(keeps && self.operate(&record, Verb::Erase, by, reason).await?);
                    }
                }
            }
        }
        let mut from = Some(0);
        while let Some(next) = from {
            let round = self.store().erase_events(stream, whose.subject, next, limits::READ_PAGE).await?;
            (erased.events, from) = (erased.events + round.erased, round.next);
        }
        // Without its intent a claim cannot be found again, not even when the execution is archived.
        for record in purged {
            erased.results += u64::from(self.operate(&record, Verb::Purge, by, reason).await?);
        }
        Ok(())
    }

    /// Refuses while a step is held or in doubt, of all events or of those of a subject.
    async fn check_steps(
        &self,
        id: &ExecutionId,
        stream: &Stream,
        whose: Option<&Whose<'_>>,
    ) -> Result<(), Error> {
        let mut next = 0;
        while let Some(events) = self.page(stream, &mut next).await? {
            for event in events.iter().filter(|event| whose.is_none_or(|whose| whose.is(event))) {
                let Some((step, record)) = self.claim_of(id, stream, event).await? else { continue };
                if matches!(record.claim.state, State::Held { .. } | State::InDoubt { .. }) {
                    let state = record.claim.state.name().as_str();
                    return Err(Error::NotApplicable(format!("the step at {} is {state}", step.at())));
                }
            }
        }
        Ok(())
    }

    async fn page(&self, stream: &Stream, next: &mut u64) -> Result<Option<Vec<Event>>, Error> {
        let events = self.store().read(stream, *next, limits::READ_PAGE).await?;
        *next += events.len() as u64;
        Ok((!events.is_empty()).then_some(events))
    }

    /// The claims of the steps that the intents among these events are about, by their places. Events and what they say are those of
    /// [`Executions::read`].
    pub async fn claims_of(
        &self,
        id: &ExecutionId,
        events: &[ExecutionEvent],
    ) -> Result<BTreeMap<u64, OperationId>, Error> {
        let mut claims = BTreeMap::new();
        for event in events.iter().filter(|event| event.event_type == kind::INTENT) {
            let Some(payload) = &event.payload else { continue };
            // A listing is for looking also at what is damaged.
            let Ok(intended) = super::progress::read::<Intended>(payload.get().as_bytes()) else { continue };
            let at = intended.at;
            let Ok(step) = Step::of_intent(id, at, &Intent::from(intended)) else { continue };
            let claim = step.identity(&self.scope)?.claim_id();
            if let Some(record) = self.store().record(claim).await? {
                claims.insert(event.seq, record.claim.operation_id);
            }
        }
        Ok(claims)
    }

    /// The claim of the step that an intent event is about.
    async fn claim_of(
        &self,
        id: &ExecutionId,
        stream: &Stream,
        event: &Event,
    ) -> Result<Option<(Step, Record)>, Error> {
        if event.kind != kind::INTENT {
            return Ok(None);
        }
        let Some(payload) = self.opened(stream, event)? else { return Ok(None) };
        let intended: Intended = super::progress::read(&payload)?;
        let at = intended.at;
        let step = Step::of_intent(id, at, &Intent::from(intended))?;
        let claim = step.identity(&self.scope)?.claim_id();
        Ok(self.store().record(claim).await?.map(|record| (step, record)))
    }

    /// Carries a decision out about a claim as it was seen; `false` where it is another one by now.
    async fn operate(&self, record: &Record, verb: Verb, by: &str, reason: &str) -> Result<bool, Error> {
        let (actor, reason) = (by.to_owned(), reason.to_owned());
        let decision = Decision { seen: record.claim.epoch, verb, actor, reason };
        let operated = self.store().decide(record.identity.claim_id(), decision).await?;
        Ok(matches!(operated, Operated::Done(_)))
    }
}

/// Whose events are meant.
struct Whose<'a> {
    head: &'a Head,
    subject: &'a str,
}

impl Whose<'_> {
    fn is(&self, event: &Event) -> bool {
        event.subject.as_deref().or(self.head.subject.as_deref()) == Some(self.subject)
    }
}
