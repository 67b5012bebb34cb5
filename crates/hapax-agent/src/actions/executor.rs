//! From a plan to its results: lane, ledger, gate, claim, begin, invoke, report, leave (X2).

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use hapax_core::claim::View;
use hapax_core::journal::Append;
use hapax_core::lane::LaneId;
use hapax_core::{
    Backoff, Error as StoreError, Fingerprint, Identity, Journal, Lanes, Ledger, Operation, OperationId,
    Outcome, Project, Registry, Rerun, Retention, Scope, Source, Subject, Tenant, Width,
};
use hapax_exec::{
    Attach, Begun, Call, Done, Ended, Entered, Executor, Held, How, Reconciled, Running, Seal, WorkResult,
};
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::Instant;

use super::alerts::{Alert, Item};
use super::connect::{Connect, Connectors, Invocation, Invoked, Tool};
use super::gate::{Decision, Gate, Judged, Lately};
use super::place::{OwedLeaves, Place};
use super::plan::{ActionResult, BLOCKED, Disposition, PlannedAction, Refusal};
use super::receipts::{self, Args, Became};
use crate::clock::{deadline, left};
use crate::durable::vault::Vault;
use crate::limits;

/// The operation of every action's claim.
pub const OPERATION: &str = "action";

/// Whose actions they are, and what they are done for.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The tenant.
    pub tenant: Tenant,
    /// The project.
    pub project: Project,
    /// The span that calls of tools are told of: `traceparent` of W3C's Trace Context.
    pub traceparent: Option<String>,
}

impl Origin {
    /// The claim of an action: the project's and its key alone. The same key under another tool or agent is the same claim.
    pub(super) fn identity(&self, key: hapax_core::Key) -> Result<Identity, StoreError> {
        let subject = Subject::from_credential_text("service:agent")?;
        let scope = Scope::new(self.tenant.clone(), self.project.clone(), subject);
        Ok(Identity::new(Source::Derived, scope, Width::Project, Operation::new(OPERATION)?, key))
    }

    fn lane(&self, entity: &str) -> LaneId {
        LaneId { tenant: self.tenant.clone(), project: self.project.clone(), entity: entity.to_owned() }
    }
}

/// Runs the actions of agents. Cheap to clone.
pub struct Actions<S: Ledger>(Arc<Inner<S>>);

struct Inner<S: Ledger> {
    once: Executor<S>,
    rules: RwLock<Arc<Rules>>,
    owed: OwedLeaves,
    vault: Vault,
    /// Whether this process ends, and begins no further action.
    stopping: watch::Sender<bool>,
}

/// What holds for every action, and can be replaced while others run.
#[derive(Debug)]
pub struct Rules {
    /// The systems that tools are on.
    pub connectors: Connectors,
    /// What may happen.
    pub gate: Gate,
    /// How receipts keep arguments.
    pub args: Args,
    /// Whether a repeated action is told the first one's result.
    pub include_result: bool,
}

impl Rules {
    /// Tools behind a gate.
    pub fn new(connectors: Connectors, gate: Gate) -> Self {
        Rules { connectors, gate, args: Args::default(), include_result: false }
    }
}

/// What became of an action.
struct End {
    decision: Disposition,
    /// The rule that decided, if one did.
    rule: Option<Arc<str>>,
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
        let (rule, result, error) = (None, None, None);
        End { decision, rule, ok, result, error, code: None, operation_id: None, recorded: false }
    }

    fn refused(Refusal { code, error }: Refusal) -> Self {
        End { error: Some(error), code: Some(code), ..End::new(Disposition::Block, false) }
    }

    fn became(&self) -> Became<'_> {
        let End { decision, ok, operation_id, .. } = *self;
        let (rule, error) = (self.rule.as_deref(), self.error.as_deref());
        Became { decision, rule, ok, error, code: self.code, operation_id }
    }

    /// The gate's refusal. A rule that could not be asked is named, with what was missing.
    fn blocked(judged: Judged) -> Self {
        let rule = judged.rule;
        let (error, code) = match judged.failed {
            Some(why) => {
                let name = rule.as_deref().unwrap_or_default();
                (format!("{BLOCKED}: the rule {name:?} cannot be answered: {why}"), Some("rule-failed"))
            }
            None => (BLOCKED.to_owned(), None),
        };
        End { rule, error: Some(error), code, ..End::new(Disposition::Block, false) }
    }
}

/// An action that changes something, ready to be done.
struct Prepared<'a> {
    rules: &'a Rules,
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

impl<S: Ledger + Lanes + Journal + Registry> Actions<S> {
    /// Actions under claims of this executor. What is kept of them is sealed where there is a seal.
    pub fn new(once: Executor<S>, rules: Rules, seal: Option<Arc<Seal>>) -> Self {
        let (rules, owed) = (RwLock::new(Arc::new(rules)), OwedLeaves::default());
        let stopping = watch::Sender::new(false);
        Actions(Arc::new(Inner { once, rules, owed, vault: Vault(seal), stopping }))
    }

    /// Begins no further action, because this process ends: one that runs comes to its end, and one that waits for its turn is refused
    /// with `stopping`, as are all that follow in its plan.
    pub fn stop(&self) {
        self.0.stopping.send_replace(true);
    }

    /// Whether no further action begins.
    pub fn is_stopping(&self) -> bool {
        *self.0.stopping.borrow()
    }

    /// Goes on with other rules. An action that is under way ends by those that it began with.
    pub fn reload(&self, rules: Rules) {
        *self.0.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    /// The rules that hold now.
    pub fn rules(&self) -> Arc<Rules> {
        self.0.rules()
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
        let rules = self.0.rules();
        let end = match Box::pin(self.0.act(&rules, origin, &action)).await {
            Ok(end) => end,
            Err(refusal) => End::refused(refusal),
        };
        if !end.recorded {
            self.0.record(rules.args, origin, &action, &end).await;
        }
        let End { decision, ok, result, error, code, .. } = end;
        ActionResult { action, decision, ok, result, error, code }
    }

    /// Waits until the store has confirmed that every place is left, for so long at most. Whether it has.
    pub async fn settle(&self, within: Duration) -> bool {
        self.0.owed.settle(within).await
    }
}

impl<S: Ledger + Lanes + Journal + Registry> Inner<S> {
    fn store(&self) -> &S {
        self.once.ledger()
    }

    fn rules(&self) -> Arc<Rules> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn act(&self, rules: &Rules, origin: &Origin, action: &PlannedAction) -> Result<End, Refusal> {
        if *self.stopping.borrow() {
            return Err(stopping());
        }
        action.check()?;
        let found = rules.connectors.find(&action.connector, &action.tool, &action.args).await;
        let (connector, tool) = found?;
        let until = deadline(hapax_core::limits::LANE_WAIT);
        // Of a read, too: what JSON readers disagree about would reach the service as something else.
        let fingerprint = action.fingerprint()?;
        if tool.read_only {
            return self.read(origin, action, connector, &tool, until).await;
        }
        let identity = origin.identity(action.key()?).map_err(|error| Refusal::of_store(&error))?;
        let prepared = Prepared { rules, origin, action, connector, tool, identity, fingerprint, until };
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
        let waited = self.unless_stopping(place.served(answer, true, until)).await;
        place.leave(true).await;
        waited?;
        let call = Invocation {
            tool: action.tool.clone(),
            args: action.args.clone(),
            key: None,
            epoch: None,
            operation_id: None,
            traceparent: origin.traceparent.clone(),
        };
        let end = End::new(Disposition::Allow, false);
        Ok(match tokio::time::timeout(tool.give_up, connector.invoke(call)).await {
            Ok(Invoked::Done(result)) => End { ok: true, result: Some(result), ..end },
            Ok(Invoked::NotRun(error) | Invoked::Unknown(error)) => End { error: Some(error), ..end },
            Err(_) => End { error: Some("the read took too long".into()), ..end },
        })
    }

    /// What this waiting comes to, unless this process ends before.
    async fn unless_stopping<T>(
        &self,
        waiting: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        let mut told = self.stopping.subscribe();
        tokio::select! {
            biased;
            _ = told.wait_for(|stopping| *stopping) => Err(stopping()),
            waited = waiting => waited,
        }
    }

    /// Waits for the action's turn.
    async fn served(&self, prepared: &Prepared<'_>) -> Result<Place<S>, Refusal> {
        let lane = prepared.origin.lane(&prepared.action.entity_key);
        let claim = Some(prepared.identity.claim_id());
        loop {
            let (place, answer) = Place::take(self.store(), &self.owed, &lane, claim).await?;
            match self.unless_stopping(place.served(answer, false, prepared.until)).await {
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
        let judged = match settled {
            true => Judged { decision: Decision::Allow, rule: None, failed: None },
            false => self.judge(prepared, &place).await?,
        };
        if judged.decision == Decision::Block {
            place.leave(false).await;
            return Ok(Turn::Over(End::blocked(judged)));
        }
        match self.once.enter(self.call(prepared), ()).await {
            Ok(Entered::Done(done)) => {
                place.leave(true).await;
                Ok(Turn::Over(self.repeated(prepared, &done)))
            }
            // It was settled a moment ago, and is not any more: the gate has not been asked.
            Ok(Entered::Held(held, ())) if settled => {
                let given_back = held.give_back(Vec::new()).await.is_ok();
                place.leave(given_back).await;
                Ok(Turn::Again)
            }
            Ok(Entered::Held(held, ())) => self.granted(prepared, place, held, judged).await,
            Ok(Entered::Differs(error, ())) | Err(error) => {
                place.leave(false).await;
                Err(Refusal::new(error.code(), error.to_string()))
            }
            Ok(Entered::Unkeyed(())) => Err(Refusal::new("internal", "an action has a key")),
        }
    }

    /// Asks the gate. What began lately is read while the action is served: nothing else can begin in its lane meanwhile.
    async fn judge(&self, prepared: &Prepared<'_>, place: &Place<S>) -> Result<Judged, Refusal> {
        let Prepared { rules, origin, action, tool, .. } = prepared;
        let lately = match rules.gate.counts() {
            true => {
                let view = place.look().await?;
                Lately { recent: view.lane.recent, now: view.time }
            }
            false => Lately::default(),
        };
        Ok(rules.gate.judge(origin, action, tool, lately).await)
    }

    /// Raises an alert for an action that was granted.
    async fn raise(
        &self,
        prepared: &Prepared<'_>,
        place: &Place<S>,
        held: &Held<S>,
        rule: Option<&str>,
    ) -> Result<Option<Item<S>>, Refusal> {
        let attempt = held.attempt();
        let (Some(operation_id), Some(epoch)) = (attempt.operation_id, attempt.epoch) else {
            return Ok(None);
        };
        let Prepared { rules, origin, action, .. } = prepared;
        let at = place.look().await?.time;
        let alert = Alert::new(origin, action, rule, operation_id, at, rules.args);
        let raised = Item::raise(self.store(), &self.owed, &self.vault, &alert, epoch).await;
        raised.map(Some).map_err(|error| Refusal::of_store(&error))
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
        judged: Judged,
    ) -> Result<Turn, Refusal> {
        let raised = match judged.decision {
            Decision::Alert => self.raise(prepared, &place, &held, judged.rule.as_deref()).await,
            _ => Ok(None),
        };
        // Dropped unless the action begins: then it is taken back.
        let item = match raised {
            Ok(item) => item,
            Err(refusal) => {
                let given_back = held.give_back(Vec::new()).await.is_ok();
                place.leave(given_back).await;
                return Err(refusal);
            }
        };
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
                if let Some(item) = item {
                    item.keep();
                }
                let (end, confirmed) = self.invoke(prepared, running, judged).await;
                place.leave(confirmed).await;
                Ok(Turn::Over(end))
            }
            Ok(Some(Begun::Done(done))) => {
                place.leave(true).await;
                Ok(Turn::Over(self.repeated(prepared, &done)))
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
    async fn invoke(&self, prepared: &Prepared<'_>, running: Running<S>, judged: Judged) -> (End, bool) {
        let attempt = running.attempt();
        let call = Invocation {
            tool: prepared.action.tool.clone(),
            args: prepared.action.args.clone(),
            key: Some(prepared.identity.claim_id().to_string()),
            epoch: attempt.epoch,
            operation_id: attempt.operation_id,
            traceparent: prepared.origin.traceparent.clone(),
        };
        let invoked = running.run(prepared.connector.invoke(call)).await;
        let end = End::new(judged.decision.disposition(), false);
        let end = End { operation_id: attempt.operation_id, rule: judged.rule, ..end };
        let (mut end, ended) = self.ended(prepared, invoked, end);
        let receipt = self.receipt(prepared.rules.args, prepared.origin, prepared.action, &end);
        match running.conclude(ended.with(receipt.into_iter().collect())).await {
            Ok(done) => {
                end.recorded = done.events_written;
                match done.how {
                    How::Executed => (end, true),
                    // Another attempt's outcome counts, and this one's does not (L5).
                    _ => (End { recorded: end.recorded, ..self.repeated(prepared, &done) }, true),
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
    fn repeated(&self, prepared: &Prepared<'_>, done: &Done) -> End {
        let result = match &done.value {
            Outcome::Succeeded(bytes) if prepared.rules.include_result => {
                let opened = self.vault.open_outcome(&prepared.identity.claim_id(), bytes);
                opened.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok())
            }
            _ => None,
        };
        End { result, operation_id: done.operation_id, ..End::new(Disposition::Dedup, true) }
    }

    /// What an invoke came to, for the ledger and for the agent.
    fn ended(&self, prepared: &Prepared<'_>, invoked: WorkResult<Invoked>, end: End) -> (End, Ended) {
        let (mut end, ended) = ended(invoked, end);
        if let Ended::Unknown(_) = ended {
            // As the ledger is going to tell it: what may run again leaves no doubt.
            let again = prepared.tool.rerun == Rerun::Safe;
            end.code = Some(if again { "attempt-failed" } else { "outcome-unknown" });
        }
        let PlannedAction { connector, tool, entity_key, .. } = prepared.action;
        let ended = match ended {
            // Whoever decides about the doubt sees what was being done.
            Ended::Unknown(error) => Ended::Unknown(format!("{connector}/{tool} on {entity_key}: {error}")),
            Ended::Settled(Outcome::Succeeded(bytes)) => {
                let claim = prepared.identity.claim_id();
                Ended::Settled(Outcome::Succeeded(self.vault.close_outcome(&claim, bytes.to_vec())))
            }
            other => other,
        };
        (end, ended)
    }

    fn receipt(&self, args: Args, origin: &Origin, action: &PlannedAction, end: &End) -> Option<Append> {
        receipts::append(origin, action, end.became(), args, &self.vault)
            .inspect_err(|error| tracing::error!(%error, "a receipt could not be made"))
            .ok()
    }

    /// Writes a receipt alone.
    async fn record(&self, args: Args, origin: &Origin, action: &PlannedAction, end: &End) {
        let Some(receipt) = self.receipt(args, origin, action, end) else { return };
        let mut backoff = Backoff::default();
        for _ in 0..limits::RECEIPT_TRIES {
            match self.store().append(receipt.clone()).await {
                Ok(_) => return,
                Err(error) => tracing::warn!(%error, "a receipt is not written yet"),
            }
            tokio::time::sleep(backoff.pause(limits::OWED_PAUSE)).await;
        }
        let (decision, key) = (end.decision.as_str(), &action.idempotency_key);
        tracing::error!(decision, ?key, "a receipt could not be written");
    }
}

/// Nothing was begun, because this process ends.
fn stopping() -> Refusal {
    Refusal::new("stopping", "this process ends: the action was not begun, and may be proposed again")
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
        f.debug_struct("Actions").finish_non_exhaustive()
    }
}
