//! Scheduled dispatch (S): ticks of cron expressions and intervals, each of them one signed request to the edge of this process.
//!
//! A tick's claim is the claim of its request, so any number of instances dispatch it once. When ticks are planned is in `when`, what
//! may become of a schedule in `state`, both pure; `desk` reads and writes the documents, `dispatcher` walks, `sender` sends.

mod definition;
mod desk;
mod dispatcher;
mod place;
mod sender;
mod state;
mod when;

use std::sync::Arc;

use hapax_core::{Project, Tenant};

pub(crate) use definition::{Definition, Overlap};
pub(crate) use desk::{Desk, Instruction};
pub(crate) use dispatcher::Dispatcher;
pub(crate) use place::{claim_id, claim_of, hex};
pub(crate) use state::{Open, State};
pub(crate) use when::{Timing, UTC, When};

/// A schedule as a configuration has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Its id, which stands in the keys of its ticks.
    pub id: Arc<str>,
    /// When its ticks are planned.
    pub(crate) timing: Timing,
    /// The operation that its ticks call, by its present name.
    pub(crate) operation: String,
    /// Whose its ticks are.
    pub(crate) tenant: Tenant,
    pub(crate) project: Project,
    /// What each tick sends.
    pub(crate) body: String,
    pub(crate) content_type: Option<String>,
    pub(crate) overlap: Overlap,
    /// How many ticks that were not dispatched in their time are dispatched late.
    pub(crate) catch_up: u32,
}
