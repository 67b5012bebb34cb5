//! Claims as people read them: tables, times in UTC and as ages, and what can be done next.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::admin::Which;
use crate::cli::Failed;
use crate::cli::say::{clean, data, note, table, text};
use crate::when::{now, parse_utc, span};

/// A list.
pub(super) fn list(claims: &[Value], next: Option<&str>, which: &Which) -> Result<(), Failed> {
    if claims.is_empty() {
        note(nothing(which));
    } else {
        let heads =
            ["OPERATION ID", "STATE", "EPOCH", "AGE", "TENANT", "PROJECT", "SUBJECT", "OPERATION", "KEY"];
        let rows: Vec<_> = claims.iter().map(row).collect();
        data(table(&heads, &rows))?;
    }
    if let Some(next) = next {
        note(format!("there are more: --after {next}"));
    }
    if claims.iter().any(|claim| claim["state"] == "in_doubt") {
        note("in doubt: `hapax claims show OPERATION_ID` says why and what can be done");
    }
    Ok(())
}

/// What a page names as damaged; a server that is older names nothing.
pub(super) fn take_damaged(page: &mut Value) -> Vec<Value> {
    match page["damaged"].take() {
        Value::Array(damaged) => damaged,
        _ => Vec::new(),
    }
}

/// What could not be read.
pub(super) fn damaged(damaged: &[Value]) {
    for record in damaged {
        note(format!("cannot be read: {}: {}", clean(&text(record, "id")), clean(&text(record, "error"))));
    }
}

fn nothing(which: &Which) -> &'static str {
    let narrowed = *which != Which { state: which.state.clone(), ..Which::default() };
    match which.state.as_deref() {
        Some("in_doubt") if !narrowed => "nothing in doubt",
        _ if narrowed => "no such claims; fewer conditions may find some",
        Some(_) => "no such claims",
        None => "no claims yet",
    }
}

fn row(claim: &Value) -> Vec<String> {
    let age = age(&text(claim, "opened_at")).unwrap_or_default();
    let mut row = vec![text(claim, "operation_id"), text(claim, "state"), text(claim, "epoch"), age];
    row.extend(["tenant", "project", "subject", "operation", "key"].map(|name| text(claim, name)));
    row
}

/// How long ago a time was; `None` for one to come or none at all.
fn age(time: &str) -> Option<String> {
    let (time, now) = (parse_utc(time).ok()?, now());
    (time <= now).then(|| span(now.since(time)))
}

/// `2026-11-15 22:52:49 UTC (3m ago)`.
fn when(time: &str) -> String {
    let Ok(at) = parse_utc(time) else { return "never".into() };
    let short: String = time.chars().take(19).map(|c| if c == 'T' { ' ' } else { c }).collect();
    let now = now();
    let relative = if at <= now {
        format!("{} ago", span(now.since(at)))
    } else {
        format!("in {}", span(at.since(now)))
    };
    format!("{short} UTC ({relative})")
}

/// One claim.
pub(super) fn claim(claim: &Value) -> Result<(), Failed> {
    let line = |name: &str, value: String| data(format!("{name:<13}{value}"));
    line("operation id", text(claim, "operation_id"))?;
    line("state", state(claim))?;
    line(
        "epoch",
        format!("{} (x-operation-epoch: {})", text(claim, "epoch"), text(claim, "operation_epoch")),
    )?;
    for name in ["tenant", "project", "subject", "operation"] {
        line(name, clean(&text(claim, name)))?;
    }
    line("key", format!("{} ({})", clean(&text(claim, "key")), text(claim, "source")))?;
    line("rerun", text(claim, "rerun"))?;
    line("fingerprint", text(&claim["fingerprint"], "digest"))?;
    line("opened", when(&text(claim, "opened_at")))?;
    if claim["granted_at"] != claim["opened_at"] {
        line("granted", when(&text(claim, "granted_at")))?;
    }
    for (name, member) in [
        ("runs until", "run_until"),
        ("settled", "settled_at"),
        ("kept until", "keep_until"),
        ("released", "released_at"),
    ] {
        if claim.get(member).is_some() {
            line(name, when(&text(claim, member)))?;
        }
    }
    if let Some(outcome) = claim.get("outcome") {
        tell_outcome(outcome, &text(claim, "settled_by"))?;
    }
    hint(claim);
    Ok(())
}

fn state(claim: &Value) -> String {
    let state = text(claim, "state");
    let Some(doubt) = claim.get("doubt") else { return state };
    let why = match text(doubt, "reason").as_str() {
        "lapsed" => "its process went silent while the work may have been running",
        "failed" => "the call failed after the work may have been reached",
        "stated" => "the work itself said that nobody can know",
        "paused" => "no attempt worked, none may follow, and its upstream pauses then",
        _ => "for a reason that this hapax does not know",
    };
    format!("{state} since {}: {why}", when(&text(doubt, "since")))
}

fn tell_outcome(outcome: &Value, by: &str) -> Result<(), Failed> {
    let status = match text(outcome, "status") {
        status if status.is_empty() => status,
        status => format!(", status {status}"),
    };
    data(format!(
        "{:<13}{} by the {by}{status}, {} bytes kept",
        "outcome",
        text(outcome, "kind"),
        text(outcome, "bytes")
    ))?;
    if let Some(Value::Object(headers)) = outcome.get("headers") {
        for (name, value) in headers {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            data(format!("  {name}: {}", clean(&value)))?;
        }
    }
    if let Some(why) = outcome.get("unreadable").and_then(Value::as_str) {
        note(format!("the answer cannot be read: {}; see [seal]", clean(why)));
        return Ok(());
    }
    let body = outcome.get("body_base64").or(outcome.get("kept_base64")).and_then(Value::as_str);
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

/// What can be done next.
fn hint(claim: &Value) {
    let id = text(claim, "operation_id");
    if claim["state"] != "in_doubt" {
        return;
    }
    note(
        "\nNobody knows whether the work was done, and nothing runs under this key until somebody says. Find out, then:",
    );
    note(format!(
        "  it was done:      hapax claims resolve {id} --settle-status 201 --settle-body FILE --reason TEXT"
    ));
    note(format!("  it was not done:  hapax claims resolve {id} --release --reason TEXT"));
    let until = text(claim, "may_run_until");
    if parse_utc(&until).is_ok_and(|until| until > now()) {
        note(format!(
            "The former run may still reach the work until {}: a release waits for that.",
            when(&until)
        ));
    }
}

/// The counts.
pub(super) fn counts(counts: &Value) -> Result<(), Failed> {
    let rows: Vec<_> = ["held", "settled", "in_doubt", "released"]
        .iter()
        .map(|state| vec![(*state).to_owned(), text(counts, state)])
        .collect();
    data(table(&["STATE", "CLAIMS"], &rows))
}

/// What was decided.
pub(super) fn decided(decided: &Value) -> Result<(), Failed> {
    let id = text(decided, "operation_id");
    let told = match text(decided, "done").as_str() {
        "resolve-release" => "released: the next request with its key runs",
        "resolve-settle" => "settled: its callers get this answer from now on",
        "reopen" => "reopened: the next request with its key runs",
        "purge" => "purged: the next request with its key is a new one",
        "erase" if decided["claim"]["state"] == "released" => {
            "erased: the answer that was set aside, if any, is gone, and its key is free: the next request with it runs"
        }
        "erase" => "erased: its answer is gone, its key stays used up",
        _ => "done",
    };
    data(format!("{id} {told}"))
}
