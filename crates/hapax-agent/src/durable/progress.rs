//! What the events of an execution add up to: where it is, and what is known of the steps of its iteration.
//!
//! Only the present iteration counts: what came before is in its checkpoint. So this stays small however long an execution gets.

use std::collections::BTreeMap;

use hapax_core::journal::Status;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::driver::Plan;
use super::error::Error;
use super::event::{Completed, Created, Intended, Planned, Resulted, kind, status_set_by};
use super::key::Coordinates;
use super::step::StepResult;
use super::tools::Declaration;

/// Where an execution is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// How many iterations are complete, which is the number of the present one.
    pub iteration: u64,
    /// What the execution was made with.
    pub input: Value,
    /// What the present iteration is going to do, once that is recorded.
    pub plan: Option<Plan>,
    /// How the execution stands, by the last event that says so.
    pub(crate) status: Option<Status>,
    steps: BTreeMap<u32, Recorded>,
    /// A plan, an intent or a result of the present iteration was erased.
    erased: bool,
    input_erased: bool,
}

/// What is recorded of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// What was to be done.
    pub intent: Intent,
    /// What came of it.
    pub result: Option<StepResult>,
}

/// What was to be done, as it was written before it was done.
#[derive(Clone, Debug, PartialEq)]
pub struct Intent {
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub args: Value,
    /// SHA-256 of tool and arguments, as hexadecimal.
    pub digest: String,
    /// What the tool said about being called twice.
    pub declaration: Declaration,
    /// The key of the effect, where the plan gives one.
    pub effect_key: Option<String>,
}

impl From<Intended> for Intent {
    fn from(intended: Intended) -> Self {
        let Intended { tool, args, digest, declaration, effect_key, .. } = intended;
        Intent { tool, args, digest, declaration, effect_key }
    }
}

impl Progress {
    /// At its beginning.
    pub(crate) fn of(input: Value) -> Self {
        Progress { input, status: Some(Status::Running), ..Progress::default() }
    }

    /// Takes one more event into account; `None` stands for a payload that was erased.
    pub(crate) fn fold(&mut self, event_type: &str, payload: Option<&[u8]>) -> Result<(), Error> {
        self.status = status_set_by(event_type).or(self.status);
        match (event_type, payload) {
            (kind::CREATED, Some(payload)) => self.input = read::<Created>(payload)?.input,
            (kind::CREATED, None) => self.input_erased = true,
            (kind::PLAN, Some(payload)) => self.planned(read(payload)?),
            (kind::INTENT, Some(payload)) => self.intended(read(payload)?),
            (kind::RESULT, Some(payload)) => self.resulted(read(payload)?),
            (kind::PLAN | kind::INTENT | kind::RESULT, None) => self.erased = true,
            (kind::ITERATION_COMPLETE, payload) => self.completed(payload),
            _ => {}
        }
        Ok(())
    }

    /// An iteration is complete. It counts once, however often an event says so. Where the event does not say which one it was, because
    /// that was erased or another program wrote it, it was the present one.
    fn completed(&mut self, payload: Option<&[u8]>) {
        let said = payload.and_then(|payload| serde_json::from_slice::<Completed>(payload).ok());
        let iteration = said.map_or(self.iteration, |said| said.iteration);
        if iteration < self.iteration {
            return;
        }
        self.iteration = iteration.saturating_add(1);
        self.plan = None;
        self.steps.clear();
        self.erased = false;
    }

    fn planned(&mut self, planned: Planned) {
        if planned.iteration == self.iteration {
            self.plan.get_or_insert(planned.plan());
        }
    }

    pub(crate) fn intended(&mut self, intended: Intended) {
        let at = intended.at;
        if at.iteration == self.iteration {
            let intent = Intent::from(intended);
            self.steps.entry(at.call).or_insert(Recorded { intent, result: None });
        }
    }

    fn resulted(&mut self, resulted: Resulted) {
        self.result(resulted.at, resulted.result);
    }

    pub(crate) fn result(&mut self, at: Coordinates, result: StepResult) {
        // A result that comes after its iteration is complete changes nothing.
        if at.iteration == self.iteration
            && let Some(step) = self.steps.get_mut(&at.call)
        {
            step.result.get_or_insert(result);
        }
    }

    /// What is recorded of a step of the present iteration. An error where that may have been erased.
    pub fn step(&self, at: Coordinates) -> Result<Option<&Recorded>, Error> {
        self.check(at.iteration)?;
        match self.steps.get(&at.call) {
            Some(step) if step.result.is_some() || !self.erased => Ok(Some(step)),
            None if !self.erased => Ok(None),
            _ => Err(Error::Erased),
        }
    }

    /// The steps of the present iteration whose intent is recorded, in the order of their places.
    pub fn steps(&self) -> impl Iterator<Item = (Coordinates, &Recorded)> {
        let at = |call| Coordinates { iteration: self.iteration, call };
        self.steps.iter().map(move |(call, step)| (at(*call), step))
    }

    /// The steps of the present iteration that have no result yet.
    pub fn open_steps(&self) -> impl Iterator<Item = (Coordinates, &Intent)> {
        let at = |call| Coordinates { iteration: self.iteration, call };
        let open = self.steps.iter().filter(|(_, step)| step.result.is_none());
        open.map(move |(call, step)| (at(*call), &step.intent))
    }

    /// Refuses while a step of the present iteration has no result.
    pub(crate) fn check_no_step_is_open(&self) -> Result<(), Error> {
        match self.open_steps().next() {
            None => Ok(()),
            Some((at, _)) => Err(Error::NotApplicable(format!(
                "the step at {at} was begun and has no result: neither its iteration nor the execution is complete"
            ))),
        }
    }

    /// The recorded plan of the present iteration. An error where it may have been erased.
    pub fn plan(&self) -> Result<Option<&Plan>, Error> {
        match (&self.plan, self.erased) {
            (None, true) => Err(Error::Erased),
            (plan, _) => Ok(plan.as_ref()),
        }
    }

    /// Refuses another iteration than the present one.
    pub fn check(&self, iteration: u64) -> Result<(), Error> {
        match iteration == self.iteration {
            true => Ok(()),
            false => Err(Error::WrongIteration { asked: iteration, present: self.iteration }),
        }
    }

    /// What the execution was made with. An error where that was erased.
    pub(crate) fn input(&self) -> Result<Value, Error> {
        match self.input_erased {
            true => Err(Error::Erased),
            false => Ok(self.input.clone()),
        }
    }
}

/// A payload of ours that cannot be read was written by another program.
pub(crate) fn read<T: DeserializeOwned>(payload: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(payload).map_err(|error| {
        let told = hapax_core::Error::corrupt("the payload of an event does not fit its type");
        Error::Store(told.with_detail(error))
    })
}
