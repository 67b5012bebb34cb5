//! Actions: what an agent does to the world, one at a time for each entity and at most once for each key (X).
//!
//! [`Actions::run`] walks a plan. Each action waits for its turn in the lane of its entity; a read then runs; anything else is looked
//! for in the ledger, judged by the [`Gate`], claimed under its key, and invoked when the lane has let it begin. Every disposition leaves
//! a receipt. A connector is called from [`executor`] and from nowhere else: there is no way around the gate.
//!
//! - [`check`]: what would be decided, without doing anything.
//! - [`plan`]: actions and their results, as they are written in JSON.
//! - `place`: a place in a lane, and that it is given up whatever happens.
//! - [`gate`]: what may happen, and what is raised for people.
//! - [`connect`]: the systems that tools are on.
//! - [`alerts`]: what people are told of.
//! - [`approvals`]: what people decide about actions of unknown fate.
//! - [`receipts`]: what is recorded of every action; [`read`] reads it back.

pub mod alerts;
pub mod approvals;
pub mod check;
pub mod connect;
pub mod executor;
pub mod gate;
mod place;
pub mod plan;
pub mod read;
pub mod receipts;

pub use connect::{Connectors, Http, HttpTool, Invocation, Invoked, KeyDialect, Local, Tool};
pub use executor::{Actions, Origin, Rules};
pub use gate::{Decision, Gate, Rule};
pub use place::lanes_waiting;
pub use plan::{ActionResult, Disposition, PlannedAction, read_plan};
