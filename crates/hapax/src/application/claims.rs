//! `/v1/claims`: work of other languages that happens once, on leases of its callers (L6, L9, E6).
//!
//! Claims are asked for and concluded by `hapax-exec`, as everywhere. A caller reaches its own claims of source Derived alone: those of
//! the edge, of steps and of actions are not there for it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hapax_api::application::{
    self as op, AskedClaim, ClaimReleased, ClaimRenewed, ClaimSeen, ClaimSettled, ClaimVerdict, KeptOutcome,
    SettledClaim,
};
use hapax_api::{MayHaveRun, Standing};
use hapax_core::claim::SettledBy;
use hapax_core::{
    ClaimId, Ending, Epoch, Fingerprint, Identity, Inspect as _, Key, Leases as _, Ledger as _, Operation,
    OperationId, Outcome, Record, Report, Retention, Scope, Source, State, StateName, Width,
};
use hapax_exec::{Attach, Call, Done, Ended, Entered, How, Reason, Seal};

use super::{ApplicationState, read, told};
use crate::admin::view::moment;
use crate::limits;
use crate::listen::mount::Asked;
use crate::listen::refusal::Refusal;
use crate::when::parse_retention;

/// Whether an operation's claims of source Derived belong to hapax itself.
fn is_reserved(operation: &str) -> bool {
    operation.starts_with("step.") || operation == "action"
}

fn identity(
    caller: &Scope,
    operation: &str,
    key: &str,
    width: Option<hapax_api::Sharing>,
) -> Result<Identity, Refusal> {
    if is_reserved(operation) {
        return Err(Refusal::malformed("operation: `action` and names that start with `step.` are reserved"));
    }
    let operation = Operation::new(operation);
    let operation =
        operation.map_err(|error| Refusal::malformed(format!("operation: {}", error.message())))?;
    let key = Key::new(key).map_err(|error| Refusal::malformed(format!("key: {}", error.message())))?;
    let width = width.map_or(Width::Subject, Width::from);
    Ok(Identity::new(Source::Derived, caller.clone(), width, operation, key))
}

fn fingerprint(body: &AskedClaim) -> Result<Fingerprint, Refusal> {
    match (&body.body, &body.fingerprint) {
        (None, None) => Ok(Fingerprint::none()),
        (Some(raw), None) => Ok(Fingerprint::of_bytes(&read::canonical("body", raw)?)),
        (None, Some(digest)) => {
            let plain = digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            match plain && digest.len() == 64 {
                true => Ok(Fingerprint::of_bytes(digest.as_bytes())),
                false => Err(Refusal::malformed(
                    "fingerprint: a SHA-256 as 64 hexadecimal digits in small letters",
                )),
            }
        }
        (Some(_), Some(_)) => Err(Refusal::malformed("say `body` or `fingerprint`, not both")),
    }
}

pub(super) async fn ask(
    state: ApplicationState,
    caller: Scope,
    asked: Asked<op::AskClaim>,
) -> Result<ClaimVerdict, Refusal> {
    let body = asked.body;
    let lease = read::lease(body.lease.as_str())?;
    let attempt = read::attempt(lease, &body.attempt)?;
    let identity = identity(&caller, &body.operation, &body.key, body.scope)?;
    let claim = identity.claim_id();
    let whose = identity.clone();
    let mut call = Call::of(identity).fingerprint(fingerprint(&body)?).attach(Attach::Reject);
    if let Some(rerun) = body.rerun {
        call = call.rerun(rerun.into());
    }
    if let Some(quiet) = read::span("quiet", body.quiet.as_deref(), limits::CLAIM_QUIET)? {
        if !quiet.is_zero() && body.rerun != Some(hapax_api::Rerun::Safe) {
            return Err(Refusal::malformed(
                "quiet: only with rerun `safe`; other work does not run again by itself",
            ));
        }
        call = call.quiet(quiet);
    }
    if let Some(max_run) = read::span("max_run", body.max_run.as_deref(), limits::CLAIM_MAX_RUN)? {
        call = call.max_run(max_run);
    }
    match read::span("wait", body.wait.as_deref(), limits::CLAIM_ATTACH)? {
        Some(wait) if !wait.is_zero() => call = call.attach(Attach::Wait(wait)),
        _ => {}
    }
    let place = state.places.take(&state.gateway, &state.store, &whose).await?;
    match Box::pin(state.executor.enter_under(lease, attempt, call, ())).await {
        Ok(Entered::Held(lent, ())) => {
            state.places.keep(&whose, place);
            Ok(ClaimVerdict::Granted {
                operation_id: lent.operation_id.into(),
                epoch: lent.epoch.into(),
                run_until: moment(lent.run_until),
                earlier_may_have_run: lent.earlier_may_have_run,
                must_ask: lent.must_ask,
            })
        }
        Ok(Entered::Done(done)) => replay(&state, &claim, done),
        Ok(Entered::Differs(error, ())) => {
            Ok(ClaimVerdict::Mismatch { operation_id: error.operation_id().map(Into::into) })
        }
        Ok(Entered::Unkeyed(())) => Err(hapax_core::Error::internal("a claim has a key").into()),
        Err(error) => verdict(error),
    }
}

fn replay(state: &ApplicationState, claim: &ClaimId, done: Done) -> Result<ClaimVerdict, Refusal> {
    let Some(operation_id) = done.operation_id else {
        return Err(hapax_core::Error::internal("an outcome of a claim has no operation").into());
    };
    Ok(ClaimVerdict::Replay {
        operation_id: operation_id.into(),
        outcome: kept(state, claim, &done.value)?,
        executed: done.executed.into(),
        keep_until: done.keep_until.and_then(moment),
    })
}

fn verdict(error: hapax_exec::Error) -> Result<ClaimVerdict, Refusal> {
    let operation_id = error.operation_id().map(Into::into);
    match error.reason() {
        Reason::InProgress => Ok(ClaimVerdict::Held { operation_id }),
        Reason::Mismatch(_) => Ok(ClaimVerdict::Mismatch { operation_id }),
        Reason::OutcomeUnknown { doubt } => {
            Ok(ClaimVerdict::InDoubt { operation_id, reason: doubt.map(Into::into) })
        }
        Reason::AttemptFailed { executed } => Ok(ClaimVerdict::Released { executed: (*executed).into() }),
        _ => Err(told::of_call(error)),
    }
}

/// What is kept, as its callers get it.
fn kept(state: &ApplicationState, claim: &ClaimId, outcome: &Outcome) -> Result<KeptOutcome, Refusal> {
    let open = |bytes: &bytes::Bytes| match (&state.seal, Seal::is_sealed(bytes)) {
        (_, false) => Ok(bytes.clone()),
        (Some(seal), true) => seal.open(claim, bytes).map_err(told::of_store),
        (None, true) => {
            Err(told::of_store(hapax_core::Error::corrupt("an outcome is sealed, and no key is set")))
        }
    };
    let other = |bytes: &[u8]| KeptOutcome::Other { kept_base64: STANDARD.encode(bytes) };
    Ok(match outcome {
        Outcome::Succeeded(bytes) => {
            let bytes = open(bytes)?;
            read::kept(&bytes).map_or_else(|| other(&bytes), |result| KeptOutcome::Succeeded { result })
        }
        Outcome::Refused(bytes) => {
            let bytes = open(bytes)?;
            read::kept(&bytes).map_or_else(|| other(&bytes), |error| KeptOutcome::Refused { error })
        }
        Outcome::NotKept { .. } => KeptOutcome::NotKept {},
        Outcome::Erased => KeptOutcome::Erased {},
    })
}

/// The claim of this id, if it is this caller's to see.
async fn own(state: &ApplicationState, caller: &Scope, id: &str) -> Result<Record, Refusal> {
    let id: OperationId = id.parse().map_err(|_| told::no_claim())?;
    let located = state.store.locate(id, caller).await.map_err(told::of_store)?;
    let identity = located.filter(|identity| is_own(identity, caller)).ok_or_else(told::no_claim)?;
    present(state, &identity).await
}

fn is_own(identity: &Identity, caller: &Scope) -> bool {
    identity.source() == Source::Derived
        && !is_reserved(identity.operation().as_str())
        && identity.scope().narrowed(identity.width()) == caller.narrowed(identity.width())
}

async fn present(state: &ApplicationState, identity: &Identity) -> Result<Record, Refusal> {
    let record = state.store.record(identity.claim_id()).await.map_err(told::of_store)?;
    record.ok_or_else(told::no_claim)
}

fn seen(state: &ApplicationState, record: &Record) -> Result<ClaimSeen, Refusal> {
    let (identity, claim) = (&record.identity, &record.claim);
    let (mut outcome, mut doubt, mut keep) = (None, None, None);
    match &claim.state {
        State::Settled { outcome: value, keep_until, .. } => {
            outcome = Some(kept(state, &identity.claim_id(), value)?);
            keep = moment(*keep_until);
        }
        State::InDoubt { reason, .. } => doubt = Some((*reason).into()),
        State::Held { .. } | State::Released { .. } => {}
    }
    Ok(ClaimSeen {
        operation_id: claim.operation_id.into(),
        operation: identity.operation().as_str().to_owned(),
        key: identity.key().as_str().to_owned(),
        scope: identity.width().into(),
        epoch: claim.epoch.into(),
        state: claim.state.name().into(),
        outcome,
        doubt,
        keep_until: keep,
    })
}

pub(super) async fn show(
    state: ApplicationState,
    caller: Scope,
    asked: Asked<op::ShowClaim>,
) -> Result<ClaimSeen, Refusal> {
    seen(&state, &own(&state, &caller, &asked.id).await?)
}

pub(super) async fn find(
    state: ApplicationState,
    caller: Scope,
    asked: Asked<op::FindClaim>,
) -> Result<ClaimSeen, Refusal> {
    let query = asked.query;
    let (Some(operation), Some(key)) = (&query.operation, &query.key) else {
        return Err(Refusal::malformed("say `operation` and `key`"));
    };
    let identity = identity(&caller, operation, key, query.scope)?;
    seen(&state, &present(&state, &identity).await?)
}

fn stale(record: &Record) -> Refusal {
    let detail = "epoch: the claim has another one by now; nothing was changed";
    told::stands_of(Standing::EpochStale, detail, record.claim.operation_id)
}

fn settled(record: &Record) -> Refusal {
    let detail = "the claim keeps another outcome already, which stays; ask for the claim to get it";
    told::stands_of(Standing::AlreadySettled, detail, record.claim.operation_id)
}

pub(super) async fn renew(
    state: ApplicationState,
    caller: Scope,
    asked: Asked<op::RenewClaim>,
) -> Result<ClaimRenewed, Refusal> {
    let (lease, epoch) = (read::lease(asked.body.lease.as_str())?, read::epoch(asked.body.epoch.as_str())?);
    let record = own(&state, &caller, &asked.id).await?;
    if record.claim.epoch != epoch {
        return Err(stale(&record));
    }
    if matches!(record.claim.state, State::Settled { .. }) {
        return Err(settled(&record));
    }
    // Whose the lease is, the store knows; whether the claim hangs on it, the claim.
    if record.claim.session != lease {
        return Err(told::lease_over());
    }
    state.store.renew_lease(&caller, lease).await.map_err(told::of_store)?;
    let renewed = state.store.report(record.identity.claim_id(), epoch, Report::Renew, Vec::new()).await;
    match renewed.map_err(told::of_store)? {
        Ending::Renewed { until } => {
            Ok(ClaimRenewed { operation_id: record.claim.operation_id.into(), until: moment(until) })
        }
        Ending::Settled(_) | Ending::AlreadySettled(_) => Err(settled(&record)),
        Ending::Released | Ending::InDoubt | Ending::LostLease => {
            Err(not_renewed(&present(&state, &record.identity).await?, epoch))
        }
    }
}

/// Why a claim that had this epoch was not renewed, by what it is now: the grant had lapsed or was given back, if no other was made since.
fn not_renewed(record: &Record, epoch: Epoch) -> Refusal {
    match &record.claim.state {
        _ if record.claim.epoch != epoch => stale(record),
        State::Settled { .. } => settled(record),
        _ => {
            let detail = "the grant is over and cannot be renewed; a settle with its epoch still counts";
            told::stands_of(Standing::GrantOver, detail, record.claim.operation_id)
        }
    }
}

/// The call that a record was granted for, to conclude it.
fn call_of(record: &Record) -> Call {
    Call::of(record.identity.clone()).rerun(record.claim.terms.rerun).attach(Attach::Reject)
}

/// What is kept of work, before it is sealed: the kind of outcome, and its bytes where it has some.
struct Said {
    kind: fn(bytes::Bytes) -> Outcome,
    plain: Option<Vec<u8>>,
}

impl Said {
    fn of(body: &SettledClaim) -> Result<Self, Refusal> {
        let (kind, member, raw): (fn(bytes::Bytes) -> Outcome, _, _) =
            match (&body.result, &body.error, body.not_kept) {
                (Some(raw), None, false) => (Outcome::Succeeded, "result", raw),
                (None, Some(raw), false) => (Outcome::Refused, "error", raw),
                (None, None, true) => return Ok(Said { kind: Outcome::Succeeded, plain: None }),
                _ => return Err(Refusal::malformed("say exactly one of `result`, `error` and `not_kept`")),
            };
        let bytes = read::canonical(member, raw)?;
        match bytes.len() <= limits::CLAIM_RESULT_BYTES {
            true => Ok(Said { kind, plain: Some(bytes) }),
            false => Err(Refusal::malformed(format!("{member}: at most 1 MiB as canonical JSON"))),
        }
    }
}

pub(super) async fn settle(
    state: ApplicationState,
    caller: Scope,
    asked: Asked<op::SettleClaim>,
) -> Result<ClaimSettled, Refusal> {
    let body = asked.body;
    let epoch = read::epoch(body.epoch.as_str())?;
    let Said { kind, plain } = Said::of(&body)?;
    let retention = body.retention.as_deref().map(parse_retention).transpose();
    let retention =
        retention.map_err(|error| Refusal::malformed(format!("retention: {}", error.message())))?;
    let record = own(&state, &caller, &asked.id).await?;
    let is_stale = record.claim.epoch != epoch;
    // The ledger refuses a true outcome that comes after an operator's, and writes both down (L8).
    if is_stale && !(by_operator(&record) && epoch < record.claim.epoch) {
        return Err(stale(&record));
    }
    let claim = record.identity.claim_id();
    let outcome = match (&plain, &state.seal) {
        (None, _) => Outcome::NotKept { status: 0 },
        (Some(plain), Some(seal)) => kind(seal.seal(&claim, plain)),
        (Some(plain), None) => kind(plain.clone().into()),
    };
    let said = kept(&state, &claim, &outcome)?;
    let call = call_of(&record).retention(retention.unwrap_or(Retention::For(limits::CLAIM_RETENTION)));
    let running = state.executor.running(claim, epoch, call);
    let done = match Box::pin(running.conclude(Ended::Settled(outcome))).await {
        _ if is_stale => return Err(stale(&record)),
        Ok(done) if done.how == How::Attached => return Err(stale(&record)),
        Ok(done) => done,
        Err(error) => return Err(not_concluded(&record, error)),
    };
    state.places.give_back(&record.identity);
    let kept = kept(&state, &claim, &done.value)?;
    let replayed = done.how != How::Executed;
    if replayed && !is_same(&said, &kept) {
        return Err(settled(&record));
    }
    Ok(ClaimSettled {
        operation_id: record.claim.operation_id.into(),
        replayed,
        outcome: kept,
        keep_until: done.keep_until.and_then(moment),
    })
}

fn by_operator(record: &Record) -> bool {
    matches!(record.claim.state, State::Settled { by: SettledBy::Operator, .. })
}

fn is_same(said: &KeptOutcome, kept: &KeptOutcome) -> bool {
    match (said, kept) {
        (KeptOutcome::Succeeded { result: said }, KeptOutcome::Succeeded { result: kept })
        | (KeptOutcome::Refused { error: said }, KeptOutcome::Refused { error: kept }) => {
            said.get() == kept.get()
        }
        (KeptOutcome::NotKept {}, KeptOutcome::NotKept {}) => true,
        _ => false,
    }
}

/// The epoch was present when it was looked at, and is not any more; or the ledger cannot be asked.
fn not_concluded(record: &Record, error: hapax_exec::Error) -> Refusal {
    match error.reason() {
        Reason::InProgress | Reason::OutcomeUnknown { .. } | Reason::AttemptFailed { .. } => stale(record),
        _ => told::of_call(error),
    }
}

pub(super) async fn release(
    state: ApplicationState,
    caller: Scope,
    asked: Asked<op::ReleaseClaim>,
) -> Result<ClaimReleased, Refusal> {
    let body = asked.body;
    let epoch = read::epoch(body.epoch.as_str())?;
    let cause = body.cause.unwrap_or_default();
    let ended = match body.ran {
        MayHaveRun::No => Ended::NotRun(cause),
        MayHaveRun::Perhaps => Ended::Unknown(cause),
    };
    let record = own(&state, &caller, &asked.id).await?;
    if record.claim.epoch != epoch {
        return Err(stale(&record));
    }
    let running = state.executor.running(record.identity.claim_id(), epoch, call_of(&record));
    let released = |state: StateName| ClaimReleased {
        operation_id: record.claim.operation_id.into(),
        state: state.into(),
    };
    let concluded = Box::pin(running.conclude(ended)).await;
    let is_over = |error: &hapax_exec::Error| {
        matches!(error.reason(), Reason::AttemptFailed { .. } | Reason::OutcomeUnknown { .. })
    };
    if concluded.as_ref().map_or_else(is_over, |_| true) {
        state.places.give_back(&record.identity);
    }
    match concluded {
        Ok(_) => Err(settled(&record)),
        Err(error) => match error.reason() {
            Reason::AttemptFailed { .. } => Ok(released(StateName::Released)),
            Reason::OutcomeUnknown { .. } => Ok(released(StateName::InDoubt)),
            Reason::InProgress => Err(stale(&record)),
            _ => Err(told::of_call(error)),
        },
    }
}
