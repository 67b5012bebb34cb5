//! From a plan to its results: lane, ledger, gate, claim, begin, invoke, report, leave (X2).

use std::sync::Arc;
use std::time::Duration;

use hapax_core::claim::View;
use hapax_core::journal::Append;
use hapax_core::lane::LaneId;
use hapax_core::{
    Error as StoreError, Fingerprint, Identity, Journal, Lanes, Ledger, Operation, OperationId, Outcome,
    Project, Retention, Scope, Source, Subject, Tenant, Width,
};
use hapax_exec::{
    Attach, Begun, Call, Done, Ended, Entered, Executor, Held, How, Reconciled, Running, WorkResult,
};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::connect::{Connect, Connectors, Invocation, Invoked, Tool};
use super::gate::{Decision, Gate};
use super::place::{OwedLeaves, Place};
use super::plan::{ActionResult, BLOCKED, Disposition, PlannedAction, Refusal};
use super::receipts::{self, Args, Became};
use crate::clock::{deadline, left};
use crate::limits;

/// Whose actions they are.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The tenant.
    pub tenant: Tenant,
    /// The project.
    pub project: Project,
}

impl Origin {
    /// The claim of an action: the project's and its key alone. The same key under another tool or agent is the same claim.
    fn identity(&self, key: hapax_core::Key) -> Result<Identity, StoreError> {
        let subject = Subject::from_credential_text("service:agent")?;
        let scope = Scope::new(self.tenant.clone(), self.project.clone(), subject);
        Ok(Identity::new(Source::Derived, scope, Width::Project, Operation::new("action")?, key))
    }

    fn lane(&self, entity: &str) -> LaneId {
        LaneId { tenant: self.tenant.clone(), project: self.project.clone(), entity: entity.to_owned() }
    }
}

/// Runs the actions of agents. Cheap to clone.
pub struct Actions<S: Ledger>(Arc<Inner<S>>);

struct Inner<S: Ledger> {
    once: Executor<S>,
    connectors: Connectors,
    gate: Gate,
    owed: OwedLeaves,
    args: Args,
    include_result: bool,
}

/// What became of an action.
struct End {
    decision: Disposition,
    ok: bool,
    result: Option<Box<RawValue>>,
    error: Option<String>,
    code: Option<&'static str>,
    operation_id: Option<OperationId>,
    /// Whether its receipt was written with the report of its claim.
    recorded: bool,
}

impl End {
    fn new(decision: Disposition, ok: bool) -> Self {
        End { decision, ok, result: None, error: None, code: None, operation_id: None, recorded: false }
    }

    fn refused(Refusal { code, error }: Refusal) -> Self {
        End { error: Some(error), code: Some(code), ..End::new(Disposition::Block, false) }
    }

    fn became(&self) -> Became<'_> {
        let End { decision, ok, operation_id, .. } = *self;
        Became { decision, ok, error: self.error.as_deref(), code: self.code, operation_id }
    }
}

/// An action that changes something, ready to be done.
struct Prepared<'a> {
    origin: &'a Origin,
    action: &'a PlannedAction,
    connector: &'a dyn Connect,
    tool: Tool,
    identity: Identity,
    fingerprint: Fingerprint,
    until: Instant,
}

/// What one turn in the lane came to.
enum Turn {
    Over(End),
    /// Not served any more: the claim is given back, and the action starts again with a new ticket.
    Again,
}

impl<S: Ledger + Lanes + Journal> Actions<S> {
    /// Actions under claims of this executor.
    pub fn new(once: Executor<S>, connectors: Connectors, gate: Gate) -> Self {
        let owed = OwedLeaves::default();
        Actions(Arc::new(Inner {
            once,
            connectors,
            gate,
            owed,
            args: Args::default(),
            include_result: false,
        }))
    }

    /// The same, with receipts and repeated answers as it is said here.
    #[must_use]
    pub fn telling(self, args: Args, include_result: bool) -> Self {
        match Arc::try_unwrap(self.0) {
            Ok(inner) => Actions(Arc::new(Inner { args, include_result, ..inner })),
            Err(shared) => Actions(shared),
        }
    }

    /// Walks a plan, one action after the other. One that fails does not keep the next one from being tried.
    pub async fn run(&self, origin: &Origin, plan: Vec<PlannedAction>) -> Vec<ActionResult> {
        let mut results = Vec::with_capacity(plan.len());
        for action in plan {
            results.push(self.act(origin, action).await);
        }
        results
    }

    /// Does one action, and records what became of it.
    pub async fn act(&self, origin: &Origin, action: PlannedAction) -> ActionResult {
        let end = match Box::pin(self.0.act(origin, &action)).await {
            Ok(end) => end,
            Err(refusal) => End::refused(refusal),
        };
        if !end.recorded {
            self.0.record(origin, &action, &end).await;
        }
        let End { decision, ok, result, error, code, .. } = end;
        ActionResult { action, decision, ok, result, error, code }
    }

    /// Waits until the store has confirmed that every place is left, for so long at most. Whether it has.
    pub async fn settle(&self, within: Duration) -> bool {
        self.0.owed.settle(within).await
    }
}

impl<S: Ledger + Lanes + Journal> Inner<S> {
    fn store(&self) -> &S {
        self.once.ledger()
    }

    async fn act(&self, origin: &Origin, action: &PlannedAction) -> Result<End, Refusal> {
        action.check()?;
        let found = self.connectors.find(&action.connector, &action.tool, &action.args).await;
        let (connector, tool) = found?;
        let until = deadline(hapax_core::limits::LANE_WAIT);
        if tool.read_only {
            return self.read(origin, action, connector, &tool, until).await;
        }
        let identity = origin.identity(action.key()?).map_err(|error| Refusal::of_store(&error))?;
        let fingerprint = action.fingerprint()?;
        let prepared = Prepared { origin, action, connector, tool, identity, fingerprint, until };
        loop {
            let place = self.served(&prepared).await?;
            if let Turn::Over(end) = self.turn(&prepared, place).await? {
                return Ok(end);
            }
        }
    }

    /// A read waits for what is under way on its entity, leaves the lane, and runs.
    async fn read(
        &self,
        origin: &Origin,
        action: &PlannedAction,
        connector: &dyn Connect,
        tool: &Tool,
        until: Instant,
    ) -> Result<End, Refusal> {
        let lane = origin.lane(&action.entity_key);
        let (place, answer) = Place::take(self.store(), &self.owed, &lane, None).await?;
        let waited = place.served(answer, true, until).await;
        place.leave(true).await;
        waited?;
        let (tool_name, args) = (action.tool.clone(), action.args.clone());
        let call = Invocation { tool: tool_name, args, key: None, epoch: None, operation_id: None };
        let end = End::new(Disposition::Allow, false);
        Ok(match tokio::time::timeout(tool.give_up, connector.invoke(call)).await {
            Ok(Invoked::Done(result)) => End { ok: true, result: Some(result), ..end },
            Ok(Invoked::NotRun(error) | Invoked::Unknown(error)) => End { error: Some(error), ..end },
            Err(_) => End { error: Some("the read took too long".into()), ..end },
        })
    }

    /// Waits for the action's turn.
    async fn served(&self, prepared: &Prepared<'_>) -> Result<Place<S>, Refusal> {
        let lane = prepared.origin.lane(&prepared.action.entity_key);
        let claim = Some(prepared.identity.claim_id());
        loop {
            let (place, answer) = Place::take(self.store(), &self.owed, &lane, claim).await?;
            match place.served(answer, false, prepared.until).await {
                Ok(true) => return Ok(place),
                Ok(false) => place.leave(true).await,
                Err(refusal) => {
                    place.leave(true).await;
                    return Err(refusal);
                }
            }
            if left(prepared.until).is_zero() {
                return Err(Refusal::new("lane-timeout", "other actions on this entity took too long"));
            }
            tokio::time::sleep(limits::LANE_PAUSE).await;
        }
    }

    /// What is done while the action is served. Whatever fails, the place is given up: an early return drops it.
    async fn turn(&self, prepared: &Prepared<'_>, place: Place<S>) -> Result<Turn, Refusal> {
        let seen = self.store().peek(prepared.identity.claim_id()).await;
        let settled = matches!(seen.map_err(|error| Refusal::of_store(&error))?, Some(View::Settled(_)));
        let decision = if settled { Decision::Allow } else { self.gate.default_decision() };
        if decision == Decision::Block {
            place.leave(false).await;
            let end = End { error: Some(BLOCKED.into()), ..End::new(Disposition::Block, false) };
            return Ok(Turn::Over(end));
        }
        match self.once.enter(self.call(prepared), ()).await {
            Ok(Entered::Done(done)) => {
                place.leave(true).await;
                Ok(Turn::Over(self.repeated(&done)))
            }
            // It was settled a moment ago, and is not any more: the gate has not been asked.
            Ok(Entered::Held(held, ())) if settled => {
                let given_back = held.give_back(Vec::new()).await.is_ok();
                place.leave(given_back).await;
                Ok(Turn::Again)
            }
            Ok(Entered::Held(held, ())) => self.granted(prepared, place, held, decision).await,
            Ok(Entered::Differs(error, ())) | Err(error) => {
                place.leave(false).await;
                Err(Refusal::new(error.code(), error.to_string()))
            }
            Ok(Entered::Unkeyed(())) => Err(Refusal::new("internal", "an action has a key")),
        }
    }

    fn call(&self, prepared: &Prepared<'_>) -> Call {
        Call::of(prepared.identity.clone())
            .fingerprint(prepared.fingerprint)
            .rerun(prepared.tool.rerun)
            .give_up(prepared.tool.give_up)
            .max_run(max_run(&prepared.tool))
            .retention(Retention::Forever)
            .ask_within(limits::ASK_WITHIN)
            .attach(Attach::Wait(left(prepared.until)))
    }

    async fn granted(
        &self,
        prepared: &Prepared<'_>,
        place: Place<S>,
        held: Held<S>,
        decision: Decision,
    ) -> Result<Turn, Refusal> {
        let (tool, run) = (&prepared.action.tool, max_run(&prepared.tool));
        let ask = |_| std::future::ready(Reconciled::Unknown);
        let mut look = place.beginning(tool, run);
        #[allow(
            clippy::redundant_closure,
            reason = "what `look` is does not count as an asynchronous closure"
        )]
        let begun = held.begin_if(ask, move || look()).await;
        match begun {
            Ok(Some(Begun::Running(running))) => {
                let (end, confirmed) = self.invoke(prepared, running, decision).await;
                place.leave(confirmed).await;
                Ok(Turn::Over(end))
            }
            Ok(Some(Begun::Done(done))) => {
                place.leave(true).await;
                Ok(Turn::Over(self.repeated(&done)))
            }
            Ok(None) => {
                place.leave(true).await;
                Ok(Turn::Again)
            }
            Err(error) => {
                place.leave(false).await;
                Err(Refusal::new(error.code(), error.to_string()))
            }
        }
    }

    /// The call and its report. Whether the ledger has confirmed that the claim is settled.
    async fn invoke(&self, prepared: &Prepared<'_>, running: Running<S>, decision: Decision) -> (End, bool) {
        let attempt = running.attempt();
        let call = Invocation {
            tool: prepared.action.tool.clone(),
            args: prepared.action.args.clone(),
            key: Some(prepared.identity.claim_id().to_string()),
            epoch: attempt.epoch,
            operation_id: attempt.operation_id,
        };
        let invoked = running.run(prepared.connector.invoke(call)).await;
        let end = End { operation_id: attempt.operation_id, ..End::new(decision.disposition(), false) };
        let (mut end, ended) = ended(invoked, end);
        let receipt = self.receipt(prepared.origin, prepared.action, &end);
        match running.conclude(ended.with(receipt.into_iter().collect())).await {
            Ok(done) => {
                end.recorded = done.events_written;
                match done.how {
                    How::Executed => (end, true),
                    // Another attempt's outcome counts, and this one's does not (L5).
                    _ => (End { recorded: end.recorded, ..self.repeated(&done) }, true),
                }
            }
            Err(error) => {
                end.recorded = error.events_written();
                // What was done, and could not be recorded, is not told as done.
                let told = end.error.take().unwrap_or_else(|| error.to_string());
                (End { ok: false, result: None, error: Some(told), code: Some(error.code()), ..end }, false)
            }
        }
    }

    /// What was done before is in place.
    fn repeated(&self, done: &Done) -> End {
        let result = match &done.value {
            Outcome::Succeeded(bytes) if self.include_result => serde_json::from_slice(bytes).ok(),
            _ => None,
        };
        End { result, operation_id: done.operation_id, ..End::new(Disposition::Dedup, true) }
    }

    fn receipt(&self, origin: &Origin, action: &PlannedAction, end: &End) -> Option<Append> {
        receipts::append(origin, action, end.became(), self.args)
            .inspect_err(|error| tracing::error!(%error, "a receipt could not be made"))
            .ok()
    }

    /// Writes a receipt alone.
    async fn record(&self, origin: &Origin, action: &PlannedAction, end: &End) {
        let Some(receipt) = self.receipt(origin, action, end) else { return };
        let mut pause = limits::OWED_PAUSE.0;
        for _ in 0..limits::RECEIPT_TRIES {
            match self.store().append(receipt.clone()).await {
                Ok(_) => return,
                Err(error) => tracing::warn!(%error, "a receipt is not written yet"),
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        let (decision, key) = (end.decision.as_str(), &action.idempotency_key);
        tracing::error!(decision, ?key, "a receipt could not be written");
    }
}

/// How long the lease of an action may be renewed: longer than its call.
fn max_run(tool: &Tool) -> Duration {
    tool.give_up.saturating_add(limits::RUN_MORE)
}

/// What an invoke came to, for the ledger and for the agent.
fn ended(invoked: WorkResult<Invoked>, end: End) -> (End, Ended) {
    let failed = |error: &str, end: End| End { error: Some(error.to_owned()), ..end };
    match invoked {
        WorkResult::Ended(Invoked::Done(result)) => {
            let ended = match result.get().len() <= limits::MAX_RESULT_BYTES {
                true => Ended::succeeded(result.get().as_bytes().to_vec()),
                false => Ended::Settled(Outcome::NotKept { status: 200 }),
            };
            (End { ok: true, result: Some(result), ..end }, ended)
        }
        WorkResult::Ended(Invoked::NotRun(error)) => {
            (End { code: Some("attempt-failed"), ..failed(&error, end) }, Ended::NotRun(error))
        }
        WorkResult::Ended(Invoked::Unknown(error)) => (failed(&error, end), Ended::Unknown(error)),
        WorkResult::Panicked(message) => {
            let error = format!("the tool panicked: {message}");
            (failed(&error, end), Ended::Unknown(error))
        }
        WorkResult::GivenUp => {
            let error = "the tool took too long and was given up";
            (failed(error, end), Ended::Unknown(error.into()))
        }
        WorkResult::NotBegun => {
            let error = "the time of the action was over before it began";
            (failed(error, end), Ended::NotRun(error.into()))
        }
    }
}

impl<S: Ledger> Clone for Actions<S> {
    fn clone(&self) -> Self {
        Actions(self.0.clone())
    }
}

impl<S: Ledger> std::fmt::Debug for Actions<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Actions").field("connectors", &self.0.connectors).finish_non_exhaustive()
    }
}
