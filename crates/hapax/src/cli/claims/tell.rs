//! Claims as people read them: tables, times in UTC and as ages, and what can be done next.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hapax_agent::actions::executor::OPERATION;
use hapax_api::{
    Claim, ClaimState, Claims, ClaimsQuery, Counts, Damaged, Decided, Done, Doubt, DoubtReason, HeaderValues,
    Outcome, SettledBy, Source, State, Time,
};

use crate::cli::Failed;
use crate::cli::say::{clean, data, note, table};
use crate::when::{now, parse_utc, span};

/// A list.
pub(super) fn list(found: &Claims, query: &ClaimsQuery) -> Result<(), Failed> {
    if found.claims.is_empty() {
        note(nothing(query));
    } else {
        let heads =
            ["OPERATION ID", "STATE", "EPOCH", "AGE", "TENANT", "PROJECT", "SUBJECT", "OPERATION", "KEY"];
        let rows: Vec<_> = found.claims.iter().map(row).collect();
        data(table(&heads, &rows))?;
    }
    if let Some(next) = &found.next {
        note(format!("there are more: --after {next}"));
    }
    if found.claims.iter().any(|claim| claim.state.name() == State::InDoubt) {
        note("in doubt: `hapax claims show OPERATION_ID` says why and what can be done");
    }
    Ok(())
}

/// What could not be read.
pub(in crate::cli) fn damaged(damaged: &[Damaged]) {
    for record in damaged {
        note(format!("cannot be read: {}: {}", clean(&record.id), clean(&record.error)));
    }
}

fn nothing(query: &ClaimsQuery) -> &'static str {
    let narrowed = *query != ClaimsQuery { state: query.state, ..ClaimsQuery::default() };
    match query.state {
        Some(State::InDoubt) if !narrowed => "nothing in doubt",
        _ if narrowed => "no such claims; fewer conditions may find some",
        Some(_) => "no such claims",
        None => "no claims yet",
    }
}

fn row(claim: &Claim) -> Vec<String> {
    vec![
        claim.operation_id.to_string(),
        claim.state.name().to_string(),
        claim.epoch.to_string(),
        age(&claim.opened_at).unwrap_or_default(),
        claim.tenant.clone(),
        claim.project.clone(),
        claim.subject.clone(),
        claim.operation.clone(),
        claim.key.clone(),
    ]
}

/// How long ago a time was; `None` for one to come or none at all.
fn age(time: &Time) -> Option<String> {
    let (time, now) = (parse_utc(time.as_str()).ok()?, now());
    (time <= now).then(|| span(now.since(time)))
}

/// `2026-11-15 22:52:49 UTC (3m ago)`.
fn when(time: Option<&Time>) -> String {
    let known = time.and_then(|time| Some((time.as_str(), parse_utc(time.as_str()).ok()?)));
    let Some((time, at)) = known else { return "never".into() };
    let short: String = time.chars().take(19).map(|c| if c == 'T' { ' ' } else { c }).collect();
    let now = now();
    let relative = if at <= now {
        format!("{} ago", span(now.since(at)))
    } else {
        format!("in {}", span(at.since(now)))
    };
    format!("{short} UTC ({relative})")
}

/// A line of what is told about one claim.
fn line(name: &str, value: impl AsRef<str>) -> Result<(), Failed> {
    data(format!("{name:<13}{}", value.as_ref()))
}

/// One claim.
pub(super) fn claim(claim: &Claim) -> Result<(), Failed> {
    line("operation id", claim.operation_id.as_str())?;
    line("state", state(&claim.state))?;
    line("epoch", format!("{} (x-operation-epoch: {})", claim.epoch, claim.operation_epoch))?;
    for (name, value) in [
        ("tenant", &claim.tenant),
        ("project", &claim.project),
        ("subject", &claim.subject),
        ("operation", &claim.operation),
    ] {
        line(name, clean(value))?;
    }
    line("key", format!("{} ({})", clean(&claim.key), claim.source))?;
    line("rerun", claim.rerun.as_str())?;
    line("fingerprint", &claim.fingerprint.digest)?;
    line("opened", when(Some(&claim.opened_at)))?;
    if claim.granted_at != claim.opened_at {
        line("granted", when(Some(&claim.granted_at)))?;
    }
    match &claim.state {
        ClaimState::Held { run_until } => line("runs until", when(run_until.as_ref()))?,
        ClaimState::Settled { settled_at, settled_by, keep_until, outcome } => {
            line("settled", when(Some(settled_at)))?;
            line("kept until", when(keep_until.as_ref()))?;
            tell_outcome(outcome, *settled_by)?;
        }
        ClaimState::InDoubt { may_run_until, .. } => hint(claim, may_run_until.as_ref()),
        ClaimState::Released { released_at, .. } => line("released", when(Some(released_at)))?,
    }
    Ok(())
}

fn state(state: &ClaimState) -> String {
    let ClaimState::InDoubt { doubt: Doubt { reason, since, cause, .. }, .. } = state else {
        return state.name().to_string();
    };
    let why = match reason {
        DoubtReason::Lapsed => "its process went silent while the work may have been running",
        DoubtReason::Failed => "the call failed after the work may have been reached",
        DoubtReason::Stated => "the work itself said that nobody can know",
        DoubtReason::Paused => "no attempt worked, none may follow, and its upstream pauses then",
    };
    let cause = cause.as_ref().map(|cause| format!(" ({})", clean(cause))).unwrap_or_default();
    format!("{} since {}: {why}{cause}", state.name(), when(Some(since)))
}

fn tell_outcome(outcome: &Outcome, by: SettledBy) -> Result<(), Failed> {
    let status = outcome.status.map(|status| format!(", status {status}")).unwrap_or_default();
    line("outcome", format!("{} by the {by}{status}, {} bytes kept", outcome.kind, outcome.bytes))?;
    for (name, values) in outcome.headers.iter().flatten() {
        let value = match values {
            HeaderValues::One(value) => value.clone(),
            HeaderValues::Many(values) => serde_json::json!(values).to_string(),
        };
        data(format!("  {name}: {}", clean(&value)))?;
    }
    if let Some(why) = &outcome.unreadable {
        note(format!("the answer cannot be read: {}; see [seal]", clean(why)));
        return Ok(());
    }
    let body = outcome.body_base64.as_ref().or(outcome.kept_base64.as_ref());
    if let Some(bytes) = body.and_then(|body| STANDARD.decode(body).ok()) {
        match std::str::from_utf8(&bytes) {
            Ok(body) if !body.chars().any(|c| c.is_control() && !"\n\t".contains(c)) => {
                data(format!("\n{body}"))?
            }
            _ => note("the body is no text: --json prints it in base64"),
        }
    }
    Ok(())
}

/// The commands that decide about a claim in doubt. What agents do is decided where their receipts and journals tell of it.
fn decisions(claim: &Claim) -> (String, String) {
    let id = &claim.operation_id;
    match (claim.source, claim.operation.as_str()) {
        (Source::Derived, OPERATION) => {
            (format!("hapax approvals confirm {id}"), format!("hapax approvals release {id}"))
        }
        (Source::Derived, operation) if operation.starts_with("step.") => {
            note(
                "The execution that waits for it is among `hapax executions list --status paused`, and its numbers are in",
            );
            note("`hapax executions waiting`.");
            let (tenant, project) = (&claim.tenant, &claim.project);
            let step = format!(
                "hapax executions decide EXECUTION --tenant {tenant} --project {project} --iteration N --call N"
            );
            (format!("{step} --confirm JSON"), format!("{step} --rerun"))
        }
        _ => (
            format!("hapax claims resolve {id} --settle-status 201 --settle-body FILE"),
            format!("hapax claims resolve {id} --release"),
        ),
    }
}

/// What can be done next.
fn hint(claim: &Claim, may_run_until: Option<&Time>) {
    note(
        "\nNobody knows whether the work was done, and nothing runs under this key until somebody says. Find out, then:",
    );
    let (done, not_done) = decisions(claim);
    note(format!("  it was done:      {done} --reason TEXT"));
    note(format!("  it was not done:  {not_done} --reason TEXT"));
    if may_run_until.is_some_and(|until| parse_utc(until.as_str()).is_ok_and(|until| until > now())) {
        note(format!(
            "The former run may still reach the work until {}: a release waits for that.",
            when(may_run_until)
        ));
    }
}

/// The counts.
pub(super) fn counts(counts: &Counts) -> Result<(), Failed> {
    let rows = State::ALL.iter().map(|state| {
        let count = match state {
            State::Held => counts.held,
            State::Settled => counts.settled,
            State::InDoubt => counts.in_doubt,
            State::Released => counts.released,
        };
        vec![state.to_string(), count.to_string()]
    });
    data(table(&["STATE", "CLAIMS"], &rows.collect::<Vec<_>>()))
}

/// What was decided.
pub(super) fn decided(decided: &Decided) -> Result<(), Failed> {
    let free = decided.claim.as_ref().is_some_and(|claim| claim.state.name() == State::Released);
    let told = match decided.done {
        Done::Release => "released: the next request with its key runs",
        Done::Settle => "settled: its callers get this answer from now on",
        Done::Reopen => "reopened: the next request with its key runs",
        Done::Purge => "purged: the next request with its key is a new one",
        Done::Erase if free => {
            "erased: the answer that was set aside, if any, is gone, and its key is free: the next request with it runs"
        }
        Done::Erase => "erased: its answer is gone, its key stays used up",
    };
    data(format!("{} {told}", decided.operation_id))
}
