//! The command line. Data goes to standard output, everything else to standard error; the exit code is 0 for done, 1 when
//! the answer is no, 2 for misuse and 3 when something needed is not available.

pub(crate) mod actions;
pub(crate) mod approvals;
pub(crate) mod attention;
pub(crate) mod backup;
pub(crate) mod claims;
pub mod config;
pub(crate) mod delegated;
pub(crate) mod doctor;
#[cfg(test)]
mod documented;
pub(crate) mod executions;
pub(crate) mod init;
pub(crate) mod keys;
pub(crate) mod observe;
pub mod openapi;
pub(crate) mod probe;
mod remote;
pub(crate) mod restore;
pub(crate) mod retention;
pub(crate) mod say;
pub(crate) mod schedules;
pub(crate) mod serve;
pub(crate) mod store;
pub(crate) mod verify;
pub(crate) mod webhooks;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::demo;
use crate::operations::Disagreement;

/// Makes a request happen once: a retried request gets the first answer back, and the work does not run again.
#[derive(Debug, Parser)]
#[command(name = "hapax", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the edge in front of a small payments service, and say what to try.
    Demo(demo::Args),
    /// Write a configuration to start from, with one protected route.
    Init(init::Args),
    /// Look at claims, and decide about those that need somebody to decide.
    #[command(subcommand)]
    Claims(claims::Command),
    /// Say how a server and the processes on its store do, and what waits for a person.
    Status(observe::Status),
    /// Say what a server has answered, by tenant, project and endpoint.
    Traffic(observe::TrafficArgs),
    /// Look at what operators did, newest first.
    Audit(observe::AuditArgs),
    /// Look at what waits for a person, and say that it was seen.
    #[command(subcommand)]
    Attention(attention::Command),
    /// Look at calls whose claims a Restate cluster keeps, and purge or kill them.
    #[command(subcommand)]
    Delegated(delegated::Command),
    /// Look at durable executions, order about them, and decide about their steps that wait for a person.
    #[command(subcommand)]
    Executions(executions::Command),
    /// Do what an agent's plan says, at most once for each key; or tell what would be decided about it.
    #[command(subcommand)]
    Actions(actions::Command),
    /// Look at actions of which it is not known whether they happened, and decide about them.
    #[command(subcommand)]
    Approvals(approvals::Approvals),
    /// Look at what became of agents' actions.
    #[command(subcommand)]
    Receipts(approvals::Receipts),
    /// Look at entities whose actions run one at a time: whose turn it is, how many wait, and what closed them.
    Lanes(approvals::Lanes),
    /// Look at actions that were let through and are raised for people.
    #[command(subcommand)]
    Alerts(approvals::Alerts),
    /// Check the hash chains of a store's journals, beside the servers that have it open.
    Verify(verify::Args),
    /// Make, list and revoke API keys.
    #[command(subcommand)]
    Keys(keys::Command),
    /// Make, list, rotate and revoke webhooks.
    #[command(subcommand)]
    Webhooks(webhooks::Command),
    /// Look at schedules, pause, resume and run them.
    #[command(subcommand)]
    Schedules(schedules::Command),
    /// Look at how long outcomes are kept, and change it while servers run.
    #[command(subcommand)]
    Retention(retention::Command),
    /// Check a store and this machine before they are relied on.
    Doctor(doctor::Args),
    /// Copy an embedded store, beside the server that has it open.
    Backup(backup::Args),
    /// Put a backup in the place of a store that was lost.
    Restore(restore::Args),
    /// Serve: the edge, and the admin listener beside it.
    Serve(serve::Args),
    /// Find out from outside what an API makes of Idempotency-Key.
    Probe(probe::Args),
    Config(config::ConfigArgs),
    Openapi(openapi::OpenapiArgs),
}

/// What a command could not do, and the exit code that says so to scripts.
#[derive(Debug)]
pub struct Failed {
    message: String,
    code: u8,
}

impl Failed {
    /// The answer is no. An empty message says nothing more than the exit code.
    pub fn no(message: impl Into<String>) -> Self {
        Failed { message: message.into(), code: 1 }
    }

    /// Something needed is not available.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Failed { message: message.into(), code: 3 }
    }

    /// With what else must be known.
    pub(crate) fn and(self, more: impl AsRef<str>) -> Self {
        Failed { message: format!("{}; {}", self.message, more.as_ref()), ..self }
    }

    /// The command was used in a way that cannot work.
    pub fn misuse(message: impl Into<String>) -> Self {
        Failed { message: message.into(), code: 2 }
    }
}

impl From<hapax_core::Error> for Failed {
    fn from(error: hapax_core::Error) -> Self {
        match error.kind() {
            hapax_core::Kind::Invalid => Failed::misuse(format!("{error:#}")),
            _ => Failed::unavailable(format!("{error:#}")),
        }
    }
}

impl From<Disagreement> for Failed {
    fn from(error: Disagreement) -> Self {
        match error {
            Disagreement::Refused(mistakes) => Failed::no(mistakes.to_string()),
            Disagreement::Store(error) => error.into(),
        }
    }
}

/// Runs the command line.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            say::note(format!("hapax: the runtime cannot start: {error}"));
            return ExitCode::from(3);
        }
    };
    let done = match cli.command {
        Command::Demo(args) => runtime.block_on(demo::run(args)),
        Command::Claims(command) => runtime.block_on(claims::run(command)),
        Command::Status(args) => runtime.block_on(observe::status(args)),
        Command::Traffic(args) => runtime.block_on(observe::traffic(args)),
        Command::Audit(args) => runtime.block_on(observe::audit(args)),
        Command::Attention(command) => runtime.block_on(attention::run(command)),
        Command::Delegated(command) => runtime.block_on(delegated::run(command)),
        Command::Executions(command) => runtime.block_on(executions::run(command)),
        Command::Actions(command) => runtime.block_on(actions::run(command)),
        Command::Approvals(command) => runtime.block_on(approvals::approvals(command)),
        Command::Receipts(command) => runtime.block_on(approvals::receipts(command)),
        Command::Lanes(args) => runtime.block_on(approvals::lanes(args)),
        Command::Alerts(command) => runtime.block_on(approvals::alerts(command)),
        Command::Verify(args) => runtime.block_on(verify::run(args)),
        Command::Keys(command) => runtime.block_on(keys::run(command)),
        Command::Webhooks(command) => runtime.block_on(webhooks::run(command)),
        Command::Schedules(command) => runtime.block_on(schedules::run(command)),
        Command::Retention(command) => runtime.block_on(retention::run(command)),
        Command::Doctor(args) => runtime.block_on(doctor::run(args)),
        Command::Serve(args) => runtime.block_on(serve::run(args)),
        Command::Probe(args) => runtime.block_on(probe::run(args)),
        Command::Backup(args) => backup::run(&args),
        Command::Restore(args) => restore::run(&args),
        Command::Init(args) => init::run(args),
        Command::Config(args) => config::run(&args),
        Command::Openapi(args) => openapi::run(&args),
    };
    // Whatever still waits for the system, such as a name that is looked up, does not hold up the end.
    runtime.shutdown_background();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            if !failed.message.is_empty() {
                say::note(format!("hapax: {}", failed.message));
            }
            ExitCode::from(failed.code)
        }
    }
}
