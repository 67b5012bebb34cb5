//! `hapax executions decide`: a decision about a step that waits, as it was seen (J6, L8).

use std::io::Read as _;

use clap::{ArgGroup, Args as ClapArgs};
use hapax_api::{DecideStep, Epoch, Json, Nothing, StepDecision, operations as op};

use super::{Place, Whose, tell};
use crate::cli::claims::Why;
use crate::cli::remote::Remote;
use crate::cli::{Failed, say};
use crate::limits;

/// `hapax executions decide`
#[derive(Debug, ClapArgs)]
#[command(group = ArgGroup::new("how").required(true).args(["confirm", "rerun", "fail"]))]
pub(crate) struct Decide {
    #[command(flatten)]
    whose: Whose,
    /// The iteration, as `waiting` shows it.
    #[arg(long, value_name = "NUMBER")]
    iteration: u64,
    /// The call within it, as `waiting` shows it.
    #[arg(long, value_name = "NUMBER")]
    call: u32,
    /// The epoch you saw; without it, the one that the step has now.
    #[arg(long, value_name = "EPOCH")]
    epoch: Option<String>,
    /// The digest you saw; without it, the one that the step has now.
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,
    /// It happened, and this was its result, as JSON; - reads standard input.
    #[arg(long, value_name = "JSON")]
    confirm: Option<String>,
    /// It may run again.
    #[arg(long)]
    rerun: bool,
    /// Even while the former call may still be on its way.
    #[arg(long, requires = "rerun")]
    force: bool,
    /// It failed: the agent is told this.
    #[arg(long, value_name = "TEXT")]
    fail: Option<String>,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    place: Place,
}

impl Decide {
    pub(super) async fn run(self) -> Result<(), Failed> {
        let remote = Remote::new(&self.place.server)?;
        let result = self.confirm.as_deref().map(read).transpose()?;
        let decision = match (&result, &self.fail) {
            (Some(_), _) => StepDecision::Confirm,
            (None, Some(_)) => StepDecision::Fail,
            (None, None) => StepDecision::Rerun,
        };
        let told = remote.call::<op::ListWaiting>(self.whose.id()?, &self.whose.scope(), &Nothing {}).await?;
        let place = (self.iteration, self.call);
        let seen = told.waiting.into_iter().find(|step| (step.iteration, step.call) == place);
        let (epoch, digest) = match (self.epoch, self.digest, seen) {
            (Some(epoch), Some(digest), _) => (Epoch::from(epoch), digest),
            (epoch, digest, Some(seen)) => {
                (epoch.map_or(seen.epoch, Epoch::from), digest.unwrap_or(seen.digest))
            }
            _ => {
                let (iteration, call) = (self.iteration, self.call);
                return Err(Failed::no(format!(
                    "the step at iteration {iteration}, call {call} does not wait for a person"
                )));
            }
        };
        let (reason, by) = self.why.into_parts();
        let body = DecideStep {
            tenant: self.whose.tenant.clone(),
            project: self.whose.project.clone(),
            iteration: self.iteration,
            call: self.call,
            digest,
            epoch,
            decision,
            result,
            error: self.fail,
            force: self.force,
            reason,
            by,
        };
        let told = remote.call::<op::DecideStep>(self.whose.id()?, &Nothing {}, &body).await?;
        let done = match self.place.json {
            true => tell::line(&told),
            false => say::data(format!("{decision} {} {}", told.execution_id, told.status)),
        };
        done.map_err(|failed| failed.and("the decision was carried out"))
    }
}

/// A result as JSON.
fn read(text: &str) -> Result<Json, Failed> {
    let mut from_input = String::new();
    let text = match text {
        "-" => {
            let most = u64::try_from(limits::API_BODY_BYTES).unwrap_or(u64::MAX);
            let read = std::io::stdin().lock().take(most).read_to_string(&mut from_input);
            read.map_err(|error| Failed::misuse(format!("standard input cannot be read: {error}")))?;
            from_input.as_str()
        }
        text => text,
    };
    serde_json::from_str(text)
        .map(Json)
        .map_err(|error| Failed::misuse(format!("--confirm takes JSON: {error}")))
}
