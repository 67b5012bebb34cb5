//! `hapax schedules`: look at schedules, pause, resume and run them, through a server (S1, M2).

use clap::{Args as ClapArgs, Subcommand};
use hapax_api::{
    DecideSchedule, Nothing, RunSchedule, Schedule, ScheduleHere, ScheduleOverlap, ScheduleState, State,
    operations as op,
};

use super::remote::{Remote, Server};
use super::{Failed, say};

/// What can be done about schedules.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List schedules, with their next, open and missed ticks.
    List(List),
    /// Show a schedule with its next ticks, the open ones and the last that were missed, with the reason.
    Show(Show),
    /// Dispatch no ticks of a schedule, in all servers on the store, until it is resumed.
    Pause(Decide),
    /// Dispatch ticks of a schedule again, from now on: those of the pause are left out.
    Resume(Decide),
    /// Run a schedule once now, also while it is paused.
    Run(Run),
}

/// `hapax schedules list`
#[derive(Debug, ClapArgs)]
pub(crate) struct List {
    #[command(flatten)]
    place: Place,
}

/// `hapax schedules show`
#[derive(Debug, ClapArgs)]
pub(crate) struct Show {
    /// The schedule's id.
    id: String,
    #[command(flatten)]
    place: Place,
}

/// `hapax schedules pause` and `resume`
#[derive(Debug, ClapArgs)]
pub(crate) struct Decide {
    /// The schedule's id.
    id: String,
    #[command(flatten)]
    who: Who,
    #[command(flatten)]
    place: Place,
}

/// `hapax schedules run`
#[derive(Debug, ClapArgs)]
pub(crate) struct Run {
    /// The schedule's id.
    id: String,
    /// What tells this run from others; the same one again is no second run. Made up where it is not given.
    #[arg(long, value_name = "ID")]
    run_id: Option<String>,
    #[command(flatten)]
    who: Who,
    #[command(flatten)]
    place: Place,
}

/// Who decides, for the audit.
#[derive(Debug, ClapArgs)]
struct Who {
    /// Who decides, where that is not the token's own name.
    #[arg(long)]
    by: Option<String>,
    /// Why, for the audit.
    #[arg(long)]
    reason: Option<String>,
}

/// Whom to ask, and how to tell.
#[derive(Debug, ClapArgs)]
struct Place {
    #[command(flatten)]
    server: Server,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs `hapax schedules`.
pub(crate) async fn run(command: Command) -> Result<(), Failed> {
    match command {
        Command::List(list) => list.run().await,
        Command::Show(show) => show.run().await,
        Command::Pause(decide) => {
            let (remote, body) = (Remote::new(&decide.place.server)?, asked(decide.who));
            let told = remote.call::<op::PauseSchedule>(&decide.id, &Nothing {}, &body).await?;
            decide.place.tell(&told)
        }
        Command::Resume(decide) => {
            let (remote, body) = (Remote::new(&decide.place.server)?, asked(decide.who));
            let told = remote.call::<op::ResumeSchedule>(&decide.id, &Nothing {}, &body).await?;
            decide.place.tell(&told)
        }
        Command::Run(run) => run.run().await,
    }
}

fn asked(who: Who) -> DecideSchedule {
    DecideSchedule { reason: who.reason, by: who.by }
}

impl List {
    async fn run(self) -> Result<(), Failed> {
        let remote = Remote::new(&self.place.server)?;
        let told = remote.call::<op::ListSchedules>("", &Nothing {}, &Nothing {}).await?;
        if self.place.json {
            return say::json(&told);
        }
        if told.schedules.is_empty() {
            say::note("no schedules; a [[schedules]] section in the configuration makes one");
            return Ok(());
        }
        let rows: Vec<_> = told.schedules.iter().map(row).collect();
        say::data(say::table(
            &["ID", "STATE", "WHEN", "OPERATION", "NEXT", "OPEN", "DISPATCHED", "LATE", "MISSED", "SKIPPED"],
            &rows,
        ))?;
        for schedule in &told.schedules {
            if let Some(why) = not_here(schedule) {
                say::note(format!("{}: {why}", schedule.id));
            }
        }
        Ok(())
    }
}

/// Why the server that was asked dispatches no ticks of a schedule, whether it is paused or not.
fn not_here(schedule: &Schedule) -> Option<&'static str> {
    match schedule.here {
        ScheduleHere::Dispatched => None,
        ScheduleHere::Differs => Some("this server has another definition, and dispatches none of its ticks"),
        ScheduleHere::Absent => Some("this server's configuration does not have it"),
    }
}

fn when(schedule: &Schedule) -> String {
    match (&schedule.cron, &schedule.tz, &schedule.every) {
        (Some(cron), Some(tz), _) => format!("{cron} ({tz})"),
        (.., Some(every)) => format!("every {every}"),
        _ => String::new(),
    }
}

fn state(schedule: &Schedule) -> &'static str {
    match schedule.state {
        ScheduleState::Running => "running",
        ScheduleState::Paused => "paused",
    }
}

fn row(schedule: &Schedule) -> Vec<String> {
    vec![
        schedule.id.clone(),
        state(schedule).into(),
        when(schedule),
        schedule.operation.clone(),
        schedule.next.first().map(ToString::to_string).unwrap_or_default(),
        schedule.open.len().to_string(),
        schedule.dispatched.to_string(),
        schedule.late.to_string(),
        schedule.missed.to_string(),
        schedule.skipped.to_string(),
    ]
}

impl Show {
    async fn run(self) -> Result<(), Failed> {
        let remote = Remote::new(&self.place.server)?;
        let told = remote.call::<op::ShowSchedule>(&self.id, &Nothing {}, &Nothing {}).await?;
        match self.place.json {
            true => say::json(&told),
            false => details(&told),
        }
    }
}

/// All that is known of a schedule, for people.
fn details(schedule: &Schedule) -> Result<(), Failed> {
    let here = match (schedule.here, not_here(schedule)) {
        (ScheduleHere::Differs, Some(why)) => format!("differs: {why}"),
        (_, Some(why)) => format!("absent: {why}"),
        (_, None) => "dispatched".to_owned(),
    };
    let state = match &schedule.paused {
        Some(paused) => format!("paused by {} at {}: {}", paused.by, paused.at, paused.reason),
        None => state(schedule).to_owned(),
    };
    let next: Vec<_> = schedule.next.iter().map(ToString::to_string).collect();
    let overlap = match schedule.overlap {
        ScheduleOverlap::Allow => "allow",
        ScheduleOverlap::Skip => "skip",
    };
    let rows = [
        ("id", schedule.id.clone()),
        ("state", state),
        ("here", here),
        ("when", when(schedule)),
        ("route", format!("{} ({})", schedule.route, schedule.operation)),
        ("whose", format!("{}/{}", schedule.tenant, schedule.project)),
        ("overlap", overlap.to_owned()),
        ("catch up", schedule.catch_up.to_string()),
        ("walked until", schedule.walked_until.to_string()),
        ("next", if next.is_empty() { "none".to_owned() } else { next.join(", ") }),
        (
            "ticks",
            format!(
                "{} dispatched, {} of them late, {} missed, {} skipped, {} open",
                schedule.dispatched,
                schedule.late,
                schedule.missed,
                schedule.skipped,
                schedule.open.len()
            ),
        ),
    ];
    let text: Vec<_> = rows.iter().map(|(name, value)| format!("{name:<12} {}", say::clean(value))).collect();
    say::data(text.join("\n"))?;
    if !schedule.open.is_empty() {
        let rows = schedule.open.iter().map(|tick| {
            let claim = tick.claim.map_or("none", State::as_str).to_owned();
            let id = tick.operation_id.as_ref().map(ToString::to_string).unwrap_or_default();
            vec![tick.key.clone(), tick.sent_at.to_string(), tick.sends.to_string(), claim, id]
        });
        let heads = ["OPEN TICK", "SENT AT", "SENDS", "CLAIM", "OPERATION ID"];
        say::data(say::table(&heads, &rows.collect::<Vec<_>>()))?;
    }
    if !schedule.last_missed.is_empty() {
        let rows = schedule.last_missed.iter().map(|missed| {
            vec![
                missed.from.to_string(),
                missed.until.to_string(),
                missed.count.to_string(),
                missed.why.clone(),
            ]
        });
        say::data(say::table(&["MISSED FROM", "UNTIL", "TICKS", "WHY"], &rows.collect::<Vec<_>>()))?;
    }
    Ok(())
}

impl Run {
    async fn run(self) -> Result<(), Failed> {
        let run = self.run_id.map_or_else(fresh, Ok)?;
        let remote = Remote::new(&self.place.server)?;
        let body = RunSchedule { run, reason: self.who.reason, by: self.who.by };
        let told = remote.call::<op::RunSchedule>(&self.id, &Nothing {}, &body).await?;
        let done = match self.place.json {
            true => say::json(&told),
            false => say::data(&told.key),
        };
        done.map_err(|failed| failed.and("the run was asked for"))
    }
}

/// A random id of a run.
fn fresh() -> Result<String, Failed> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|_| Failed::unavailable("the system gives no random bytes"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Place {
    fn tell(&self, schedule: &Schedule) -> Result<(), Failed> {
        match self.json {
            true => say::json(schedule),
            false => say::data(format!("{} {}", schedule.id, state(schedule))),
        }
    }
}
