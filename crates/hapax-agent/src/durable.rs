//! Durable executions: work that is killed goes on, and no step happens twice (J).
//!
//! An execution is a stream of hashed events. [`Executions`] makes, reads and lists them; a [`Run`] is one life of an execution under
//! one runner, and the only writer while its lease lasts. Each tool call is a [`Step`]: one claim, driven by `once`, with its intent
//! durable before and its result in the transaction of the settle. [`DurableLoop`] puts these together for an agent in Rust; a holder in
//! another process takes the same steps by itself.
//!
//! Read `run.rs` and `step.rs` first. What the events say is in `event.rs`, and what they add up to in `progress.rs`.

mod archive;
mod driver;
mod error;
mod event;
mod execution;
mod key;
mod lent;
mod operators;
mod people;
mod progress;
mod resume;
mod run;
mod step;
mod stream;
mod tools;
mod transfer;
pub(crate) mod vault;
mod verify;

pub use archive::{Archived, ErasedEvents};
pub use driver::{Agent, Control, DurableLoop, Observation, Plan, PlannedCall, Stop};
pub use error::Error;
pub use event::kind;
pub use execution::{
    AgentId, Execution, ExecutionEvent, ExecutionId, Listing, Summary, parse_runner, runner_text,
};
pub use key::{Coordinates, tool_key};
pub use lent::Lending;
pub use operators::{Order, Sought, Told, sought};
pub use people::{Choice, Decision, Waiting, is_step};
pub use progress::{Intent, Progress, Recorded};
pub use resume::{Resume, lapsed};
pub use run::Run;
pub use step::{Step, StepEnd, StepResult, Waits};
pub use stream::{Creation, Executions};
pub use tools::{Calling, Declaration, Tool, ToolContext, ToolError, Tools};
pub use transfer::{Export, Sound};
pub use verify::{Broken, Report, verify, verify_page};
