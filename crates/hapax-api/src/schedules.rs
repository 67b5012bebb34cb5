//! Schedules: listed, paused, resumed and run now (S1).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::{NAME_LENGTH, PRINTABLE, REASON_LENGTH, RUN_ID, SAID};
use crate::text::{OperationId, Time};
use crate::words::State;

/// All schedules of the installation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Schedules {
    /// In the order of their ids.
    pub schedules: Vec<Schedule>,
}

/// A schedule as it is in force, and what became of its ticks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Schedule {
    /// Its id, which stands in the keys of its ticks.
    pub id: String,
    /// Whether its ticks are dispatched.
    pub state: ScheduleState,
    /// Who paused it, and why.
    pub paused: Option<SchedulePaused>,
    /// What this server's own configuration makes of it.
    pub here: ScheduleHere,
    /// The cron expression, where it has one.
    pub cron: Option<String>,
    /// The zone whose clock the expression follows.
    pub tz: Option<String>,
    /// The interval, where it has one; its multiples are counted from the Unix epoch.
    pub every: Option<String>,
    /// The operation that its ticks call, by its first name.
    pub operation: String,
    /// Method and path of its route.
    pub route: String,
    /// Whose its ticks are.
    pub tenant: String,
    /// In which project.
    pub project: String,
    /// What becomes of a tick while an earlier one has not ended.
    pub overlap: ScheduleOverlap,
    /// How many ticks that were not dispatched in their time are dispatched late.
    pub catch_up: u32,
    /// Up to when ticks were walked.
    pub walked_until: Time,
    /// The next ticks; none while it is paused.
    pub next: Vec<Time>,
    /// Ticks that were dispatched and have not ended, as far as is known.
    pub open: Vec<OpenTick>,
    /// The tick that was dispatched last, whether it has ended or not; null where none was.
    pub last: Option<OpenTick>,
    /// How many ticks were dispatched, those that were late among them.
    pub dispatched: u64,
    /// How many were dispatched late.
    pub late: u64,
    /// How many were not dispatched, or not to their end.
    pub missed: u64,
    /// How many were left out because an earlier one had not ended.
    pub skipped: u64,
    /// The last ticks that were missed, the newest first.
    pub last_missed: Vec<MissedTicks>,
}

/// Whether ticks are dispatched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScheduleState {
    /// They are.
    Running,
    /// An operator has paused it.
    Paused,
}

/// What a server's own configuration makes of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScheduleHere {
    /// It has the definition in force, and dispatches.
    Dispatched,
    /// It has another definition, and dispatches nothing.
    Differs,
    /// It does not have the schedule.
    Absent,
}

/// What becomes of a tick while an earlier one has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScheduleOverlap {
    /// It is dispatched.
    Allow,
    /// It is left out.
    Skip,
}

/// Who paused a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SchedulePaused {
    /// Who.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When.
    pub at: Time,
}

/// A tick that was dispatched and has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenTick {
    /// The key of its claim.
    pub key: String,
    /// When it was planned, or asked for.
    pub at: Time,
    /// When it was sent last.
    pub sent_at: Time,
    /// How often it was sent.
    pub sends: u32,
    /// The public id of its claim, where that is there.
    pub operation_id: Option<OperationId>,
    /// The state of its claim.
    pub claim: Option<State>,
}

/// Ticks that were missed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MissedTicks {
    /// The first of them.
    pub from: Time,
    /// The last of them.
    pub until: Time,
    /// How many.
    pub count: u64,
    /// `late`, `old`, `crowded`, `unroutable` or `changed`.
    pub why: String,
}

/// Who decides about a schedule, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DecideSchedule {
    /// Why, for the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = REASON_LENGTH), regex(pattern = SAID))]
    pub reason: Option<String>,
    /// Who decides; the audit shows it after the token's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = NAME_LENGTH), regex(pattern = PRINTABLE))]
    pub by: Option<String>,
}

/// A run that is not planned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunSchedule {
    /// What tells this run from others: the same run asked for again is one run. A fresh random value.
    #[schemars(regex(pattern = RUN_ID))]
    pub run: String,
    /// Why, for the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = REASON_LENGTH), regex(pattern = SAID))]
    pub reason: Option<String>,
    /// Who decides; the audit shows it after the token's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = NAME_LENGTH), regex(pattern = PRINTABLE))]
    pub by: Option<String>,
}

/// A run that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleRun {
    /// The schedule.
    pub id: String,
    /// The key of the run's claim.
    pub key: String,
}
