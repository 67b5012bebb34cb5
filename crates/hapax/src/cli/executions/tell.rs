//! What `hapax executions` prints.

use hapax_api::{Execution, ExecutionEvent, Json, Time, WaitingStep, WaitsFor};
use serde::Serialize;
use serde_json::json;

use crate::cli::{Failed, say};

/// One record as one line of JSON.
pub(super) fn line(record: &impl Serialize) -> Result<(), Failed> {
    let text = serde_json::to_string(record);
    say::data(
        text.map_err(|error| Failed::unavailable(format!("the answer cannot be written as JSON: {error}")))?,
    )
}

/// A page of executions; the headings stand before the first.
pub(super) fn executions(page: &[Execution], json: bool, heads: &mut bool) -> Result<(), Failed> {
    if json {
        return page.iter().try_for_each(line);
    }
    if page.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = page.iter().map(row).collect();
    let table = say::table(&["TENANT", "PROJECT", "ID", "STATUS", "AGENT", "EVENTS", "UPDATED"], &rows);
    match std::mem::take(heads) {
        true => say::data(table),
        false => table.lines().skip(1).try_for_each(say::data),
    }
}

fn row(execution: &Execution) -> Vec<String> {
    vec![
        execution.tenant.clone(),
        execution.project.clone(),
        execution.execution_id.clone(),
        execution.status.to_string(),
        execution.agent.clone(),
        execution.events.to_string(),
        time(execution.updated_at.as_ref()),
    ]
}

fn time(time: Option<&Time>) -> String {
    time.map(ToString::to_string).unwrap_or_default()
}

fn said(value: Option<&Json>) -> String {
    value.map(|value| say::clean(&value.0.to_string())).unwrap_or_default()
}

/// One execution.
pub(super) fn execution(told: &Execution) -> Result<(), Failed> {
    let runner = if told.runs { "its lease lasts" } else { "none, or its lease has lapsed" };
    let mut lines = vec![
        ("execution", say::clean(&told.execution_id)),
        ("tenant", told.tenant.clone()),
        ("project", told.project.clone()),
        ("subject", say::clean(told.subject.as_deref().unwrap_or_default())),
        ("agent", say::clean(&told.agent)),
        ("status", told.status.to_string()),
        ("runner", runner.to_owned()),
        ("version", told.version.to_string()),
        ("events", told.events.to_string()),
        ("chain", told.schema_version.to_string()),
        ("created", time(told.created_at.as_ref())),
        ("updated", time(told.updated_at.as_ref())),
    ];
    if told.checkpoint.is_some() {
        lines.push(("checkpoint", said(told.checkpoint.as_ref())));
    }
    lines.iter().try_for_each(|(name, value)| say::data(format!("{name:<10}  {value}").trim_end()))
}

/// One event.
pub(super) fn event(event: &ExecutionEvent) -> Result<(), Failed> {
    let payload = if event.erased { "(erased)".to_owned() } else { said(event.payload.as_ref()) };
    let (kind, at) = (say::clean(&event.event_type), time(event.at.as_ref()));
    say::data(format!("{:>6}  {at}  {kind}  {payload}", event.seq).trim_end())
}

/// One step that waits, with what decides about it.
pub(super) fn waiting(
    (id, tenant, project): (&str, &str, &str),
    step: &WaitingStep,
    json: bool,
) -> Result<(), Failed> {
    if json {
        let mut record = json!({"execution_id": id, "tenant": tenant, "project": project});
        if let (Some(members), Ok(serde_json::Value::Object(more))) =
            (record.as_object_mut(), serde_json::to_value(step))
        {
            members.extend(more);
        }
        return line(&record);
    }
    let why = match (step.why, step.doubt) {
        (WaitsFor::InDoubt, Some(doubt)) => format!("it is not known whether it happened ({doubt})"),
        (WaitsFor::InDoubt, None) => "it is not known whether it happened".to_owned(),
        (WaitsFor::NotKept, _) => "it happened, and its result was not kept".to_owned(),
        (WaitsFor::EffectKeyTaken, _) => {
            let key = say::clean(step.effect_key.as_deref().unwrap_or_default());
            format!("other work has its effect key {key}: operation {}", step.operation_id)
        }
    };
    say::data(format!("{} {}: {why}", say::clean(&step.tool), said(step.args.as_ref())))?;
    say::data(format!("  key {}, {}, digest {}", step.key, step.declaration, step.digest))?;
    let choices = match step.why {
        WaitsFor::EffectKeyTaken => "(--confirm JSON | --fail TEXT)",
        WaitsFor::InDoubt | WaitsFor::NotKept => "(--confirm JSON | --rerun | --fail TEXT)",
    };
    say::data(format!(
        "  hapax executions decide {id} --tenant {tenant} --project {project} --iteration {} --call {} --epoch {} \
         {choices} --reason TEXT",
        step.iteration, step.call, step.epoch
    ))
}
