//! Schedules: shown, paused, resumed and run now by operators (S1). Each change leaves an audit event.
//!
//! A run that is asked for is one more open tick: it is sent, and sent again, as those are, by any instance.

use std::time::Duration;

use hapax_api::{
    MissedTicks, OpenTick, Schedule, ScheduleHere, ScheduleOverlap, SchedulePaused, ScheduleRun,
    ScheduleState, Schedules, operations as op,
};
use hapax_core::{Error, Inspect as _, Timestamp};

use super::access::Operator;
use super::decide::{actor, reason};
use super::{AdminState, view};
use crate::config::units::show_duration;
use crate::limits;
use crate::listen::mount::Asked;
use crate::listen::refusal::Refusal;
use crate::schedules::{
    Definition, Desk, Instruction, Open, Overlap, State, Timing, When, claim_id, claim_of, hex,
};

fn not_found(id: &str) -> Refusal {
    Refusal::not_found(format!("there is no schedule {id:?}: GET /v1/schedules lists them"))
}

fn time(millis: i64) -> hapax_api::Time {
    view::time(Timestamp::from_micros(millis.saturating_mul(1_000)))
}

pub(super) async fn get_list(
    state: AdminState,
    _: Operator,
    _: Asked<op::ListSchedules>,
) -> Result<Schedules, Refusal> {
    let desk = Desk::new(state.store.clone());
    let mut schedules = Vec::new();
    for (id, kept) in desk.list().await? {
        schedules.extend(shown(&state, &id, &kept).await?);
    }
    Ok(Schedules { schedules })
}

pub(super) async fn show(
    state: AdminState,
    _: Operator,
    asked: Asked<op::ShowSchedule>,
) -> Result<Schedule, Refusal> {
    let found = Desk::new(state.store.clone()).get(&asked.id).await?;
    let (kept, _) = found.ok_or_else(|| not_found(&asked.id))?;
    shown(&state, &asked.id, &kept).await?.ok_or_else(|| not_found(&asked.id))
}

/// A tick with the claim that it has made.
async fn tick_shown(state: &AdminState, tick: &Open) -> Result<OpenTick, Error> {
    let record = match claim_id(&tick.claim) {
        Some(claim) => state.store.record(claim).await?,
        None => None,
    };
    Ok(OpenTick {
        key: tick.key.clone(),
        at: time(tick.at),
        sent_at: time(tick.sent_at),
        sends: tick.sends,
        operation_id: record.as_ref().map(|record| record.claim.operation_id.into()),
        claim: record.as_ref().map(|record| record.claim.state.name().into()),
    })
}

/// A schedule as it is told; `None` where its document has no definition.
async fn shown(state: &AdminState, id: &str, kept: &State) -> Result<Option<Schedule>, Error> {
    let Some(definition) = kept.definition() else { return Ok(None) };
    let mut open = Vec::with_capacity(kept.open.len());
    for tick in &kept.open {
        open.push(tick_shown(state, tick).await?);
    }
    let last = match &kept.last {
        Some(tick) => Some(tick_shown(state, tick).await?),
        None => None,
    };
    let here = here(state, id, definition);
    let (cron, tz, every) = match &definition.timing {
        Timing::Cron { cron, tz, .. } => (Some(cron.clone()), Some(tz.clone()), None),
        Timing::Every { every_ms } => (None, None, Some(show_duration(Duration::from_millis(*every_ms)))),
    };
    Ok(Some(Schedule {
        id: id.to_owned(),
        state: if kept.paused.is_some() { ScheduleState::Paused } else { ScheduleState::Running },
        paused: kept.paused.as_ref().map(|paused| SchedulePaused {
            by: paused.by.clone(),
            reason: paused.reason.clone(),
            at: time(paused.at),
        }),
        here,
        cron,
        tz,
        every,
        operation: definition.operation.clone(),
        route: definition.route.clone(),
        tenant: definition.tenant.clone(),
        project: definition.project.clone(),
        overlap: match definition.overlap {
            Overlap::Allow => ScheduleOverlap::Allow,
            Overlap::Skip => ScheduleOverlap::Skip,
        },
        catch_up: definition.catch_up,
        walked_until: time(kept.cursor),
        // Ticks that no server is known to dispatch are not announced.
        next: Some(kept)
            .filter(|_| here != ScheduleHere::Absent)
            .map(next)
            .unwrap_or_default()
            .into_iter()
            .map(time)
            .collect(),
        open,
        last,
        dispatched: kept.counts.dispatched,
        late: kept.counts.late,
        missed: kept.counts.missed,
        skipped: kept.counts.skipped,
        last_missed: kept
            .missed
            .iter()
            .map(|missed| MissedTicks {
                from: time(missed.at),
                until: time(missed.until),
                count: missed.count,
                why: missed.why.as_str().to_owned(),
            })
            .collect(),
    }))
}

/// What this server has of a schedule.
fn here(state: &AdminState, id: &str, definition: &Definition) -> ScheduleHere {
    match state.schedules.plans().iter().find(|plan| &*plan.id == id) {
        Some(plan) if plan.definition == *definition => ScheduleHere::Dispatched,
        Some(_) => ScheduleHere::Differs,
        None => ScheduleHere::Absent,
    }
}

/// The next ticks of the definition in force.
fn next(kept: &State) -> Vec<i64> {
    let when = kept.definition().and_then(|definition| When::of(&definition.timing).ok());
    let Some(when) = when.filter(|_| kept.paused.is_none()) else { return Vec::new() };
    let first = when.next(kept.cursor.max(kept.after));
    std::iter::successors(first, |at| when.next(*at)).take(limits::TICKS_SHOWN).collect()
}

/// Changes a schedule, and shows it as it is then.
async fn change(
    state: &AdminState,
    operator: &Operator,
    (verb, id, by, why): (&'static str, &str, Option<String>, Option<String>),
    to: impl Fn(&mut State, i64, &Instruction) -> Result<(), Error>,
) -> Result<State, Refusal> {
    let instruction = Instruction {
        verb,
        by: actor(&operator.name, by.as_deref())?,
        reason: why.map(reason).transpose()?.unwrap_or_else(|| verb.into()),
    };
    let desk = Desk::new(state.store.clone());
    let changed = desk.operate(id, &instruction, |kept, now| to(kept, now, &instruction)).await?;
    state.schedules.nudge();
    changed.ok_or_else(|| not_found(id))
}

pub(super) async fn pause(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::PauseSchedule>,
) -> Result<Schedule, Refusal> {
    let asking = ("schedule-pause", &*asked.id, asked.body.by, asked.body.reason);
    let kept = change(&state, &operator, asking, |kept, now, instruction| {
        kept.pause(instruction.by.clone(), instruction.reason.clone(), now);
        Ok(())
    });
    let kept = kept.await?;
    shown(&state, &asked.id, &kept).await?.ok_or_else(|| not_found(&asked.id))
}

pub(super) async fn resume(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::ResumeSchedule>,
) -> Result<Schedule, Refusal> {
    let asking = ("schedule-resume", &*asked.id, asked.body.by, asked.body.reason);
    let kept = change(&state, &operator, asking, |kept, now, _| {
        kept.resume(now);
        Ok(())
    });
    let kept = kept.await?;
    shown(&state, &asked.id, &kept).await?.ok_or_else(|| not_found(&asked.id))
}

pub(super) async fn run(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::RunSchedule>,
) -> Result<ScheduleRun, Refusal> {
    let (id, run) = (asked.id, asked.body.run);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if run.is_empty() || run.len() > limits::RUN_ID_BYTES || !run.bytes().all(plain) {
        return Err(Error::invalid("`run` has 1 to 64 of A–Z a–z 0–9 _ -: send a fresh random value").into());
    }
    let (found, plans) = (Desk::new(state.store.clone()).get(&id).await?, state.schedules.plans());
    if found.is_some() && !plans.iter().any(|plan| *plan.id == *id) {
        // Nothing may ever send the run, or something some day, when nobody expects it.
        return Err(Refusal::not_found(format!(
            "this server's configuration does not have the schedule {id:?}, and dispatches no run of it: ask a server that has it"
        )));
    }
    let key = format!("sched.{id}.now.{run}");
    let settings = state.keeping.settings().subscribe();
    let asking = ("schedule-run", &*id, asked.body.by, asked.body.reason);
    let ran = change(&state, &operator, asking, |kept, now, _| {
        let unroutable = || Error::invalid("no route of this server takes the ticks of this schedule");
        let definition = kept.definition().ok_or_else(unroutable)?;
        let claim = claim_of(&settings.borrow(), definition, &key).ok_or_else(unroutable)?;
        let definition = kept.current.clone();
        // Never sent yet: whichever instance looks first sends it.
        kept.asked_for(Open {
            key: key.clone(),
            at: now,
            definition,
            claim: hex(&claim),
            sent_at: now,
            sends: 0,
        });
        Ok(())
    });
    ran.await?;
    Ok(ScheduleRun { id, key })
}
