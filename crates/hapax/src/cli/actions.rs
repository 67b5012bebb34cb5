//! `hapax actions`: does what a plan says, and tells what would be decided about it (X1, M2).
//!
//! The command opens the store itself. An embedded store that a server has open is refused with what to do instead: that server takes
//! plans, too.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args as ClapArgs, Subcommand};
use hapax_agent::actions::check::Checked;
use hapax_agent::actions::connect::servers_ended;
use hapax_agent::actions::{ActionResult, Actions, Disposition, Origin, PlannedAction, read_plan};
use hapax_agent::limits as agent_limits;
use hapax_core::{Project, Tenant};
use hapax_exec::{Executor, Seal};
use hapax_store::{Lifecycle as _, Options};
use serde_json::json;

use super::{Failed, say, store};
use crate::Store;
use crate::config::{self, Config, Secrets};
use crate::signals::Signals;
use crate::{actions, limits};

/// What can be done with a plan.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Do what a plan says: one action after the other, each key at most once. The exit code is 1 where an action was not done.
    Run(Plan),
    /// Tell what would be decided about a plan, and do nothing. The exit code is 1 where an action would be refused.
    Check(Plan),
}

/// A plan, and whose it is.
#[derive(Debug, ClapArgs)]
pub(crate) struct Plan {
    /// The configuration, with its connectors and its gate.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Whose actions they are; without it, as [actions] says.
    #[arg(long, value_name = "TENANT", requires = "project")]
    tenant: Option<String>,
    /// In which project.
    #[arg(long, value_name = "PROJECT", requires = "tenant")]
    project: Option<String>,
    /// The plan: a JSON array of actions; - reads standard input.
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs `hapax actions`.
pub(crate) async fn run(command: Command) -> Result<(), Failed> {
    match command {
        Command::Run(plan) => Box::pin(plan.run()).await,
        Command::Check(plan) => plan.check().await,
    }
}

impl Plan {
    async fn run(self) -> Result<(), Failed> {
        let config = self.config(Secrets::Needed)?;
        let (origin, plan) = (self.origin(&config)?, self.read()?);
        let rules = actions::rules(&config)?;
        store::keep_private();
        let options = Options { term: config.store.lease, ..Options::default() };
        let store = store::open(&config.store.url, options).await.map_err(held_by_a_server)?;
        if let Store::Memory(_) = store {
            say::note(format!("hapax: {}", store.notice()));
        }
        let seal = match config.seal.is_empty() {
            true => None,
            false => Some(Arc::new(Seal::new(config.seal.iter().map(|key| key.0).collect())?)),
        };
        let mut signals = Signals::listen()?;
        let actions = Actions::new(Executor::new(store.clone()), rules, seal);
        let (results, cut_off) = unless_told_twice(&mut signals, &actions, &origin, plan).await;
        let settled = tokio::select! {
            settled = actions.settle(limits::ACTIONS_SETTLE) => settled,
            () = signals.end() => false,
        };
        if !settled {
            say::note(
                "hapax: the store has not confirmed every end: what is not confirmed ends with this process's session",
            );
        }
        drop(actions);
        servers_ended().await;
        let closed = store.close().await;
        self.tell(&results)?;
        closed?;
        match cut_off {
            true => {
                Err(Failed::no("ended at once, as told: it is not known whether the last action happened"))
            }
            false => ending(&results),
        }
    }

    async fn check(self) -> Result<(), Failed> {
        let config = self.config(Secrets::MayBeAbsent)?;
        let (origin, plan) = (self.origin(&config)?, self.read()?);
        let rules = actions::rules(&config)?;
        let mut checked = Vec::with_capacity(plan.len());
        for action in &plan {
            checked.push(rules.check(&origin, action).await);
        }
        self.tell_checked(&plan, &checked)?;
        match checked.iter().any(|checked| checked.decision == Disposition::Block) {
            true => Err(Failed::no("")),
            false => Ok(()),
        }
    }

    fn config(&self, secrets: Secrets) -> Result<Config, Failed> {
        let environment = |name: &str| std::env::var(name).ok();
        let config = config::load_with(&self.config, &environment, secrets);
        config.map_err(|mistakes| Failed::no(mistakes.to_string()))
    }

    fn origin(&self, config: &Config) -> Result<Origin, Failed> {
        match (&self.tenant, &self.project, &config.actions.whose) {
            (Some(tenant), Some(project), _) => {
                let (tenant, project) = (Tenant::new(tenant)?, Project::new(project)?);
                Ok(Origin { tenant, project, traceparent: None })
            }
            (_, _, Some((tenant, project))) => {
                let (tenant, project) = (tenant.clone(), project.clone());
                Ok(Origin { tenant, project, traceparent: None })
            }
            _ => Err(Failed::misuse(
                "nothing says whose actions these are: say --tenant and --project, or `as` in [actions]",
            )),
        }
    }

    /// Reads the plan. What is none is misuse.
    fn read(&self) -> Result<Vec<PlannedAction>, Failed> {
        let most = agent_limits::MAX_PLAN_BYTES as u64 + 1;
        let mut text = Vec::new();
        let read = match self.plan.as_os_str() == "-" {
            true => std::io::stdin().lock().take(most).read_to_end(&mut text),
            false => std::fs::File::open(&self.plan).and_then(|file| file.take(most).read_to_end(&mut text)),
        };
        read.map_err(|error| Failed::misuse(format!("{}: {error}", self.plan.display())))?;
        Ok(read_plan(&text)?)
    }

    fn tell(&self, results: &[ActionResult]) -> Result<(), Failed> {
        if self.json {
            return say::json(&results);
        }
        let row = |result: &ActionResult| {
            let ActionResult { action, decision, ok, error, code, .. } = result;
            let why = [code.map(str::to_owned), error.clone()].into_iter().flatten().collect::<Vec<_>>();
            vec![
                decision.as_str().to_owned(),
                if *ok { "ok" } else { "failed" }.to_owned(),
                format!("{}/{}", action.connector, action.tool),
                action.entity_key.clone(),
                why.join(": "),
            ]
        };
        let rows: Vec<_> = results.iter().map(row).collect();
        say::data(say::table(&["DECISION", "END", "TOOL", "ENTITY", "WHY"], &rows))
    }

    fn tell_checked(&self, plan: &[PlannedAction], checked: &[Checked]) -> Result<(), Failed> {
        let pairs = || plan.iter().zip(checked);
        if self.json {
            let told: Vec<_> = pairs()
                .map(|(action, checked)| {
                    json!({
                        "action": action, "decision": checked.decision, "reads": checked.reads,
                        "rule": checked.rule.as_deref(), "error": checked.error, "code": checked.code, "warnings": checked.warnings,
                    })
                })
                .collect();
            return say::json(&told);
        }
        let row = |(action, checked): (&PlannedAction, &Checked)| {
            let rule = match (&checked.rule, checked.reads, &checked.error) {
                (Some(rule), ..) => rule.to_string(),
                (None, true, _) => "(reads: no rule is asked)".to_owned(),
                (None, false, Some(_)) if checked.code.is_some() => String::new(),
                (None, false, _) => "(default)".to_owned(),
            };
            let why = checked.error.clone().unwrap_or_default();
            vec![
                checked.decision.as_str().to_owned(),
                format!("{}/{}", action.connector, action.tool),
                rule,
                why,
            ]
        };
        let rows: Vec<_> = pairs().map(row).collect();
        say::data(say::table(&["DECISION", "TOOL", "RULE", "WHY"], &rows))?;
        for (at, (action, checked)) in pairs().enumerate() {
            let key = action.idempotency_key.as_deref().unwrap_or_default();
            for warning in &checked.warnings {
                say::note(format!("action {}, key {}: {warning}", at + 1, say::clean(key)));
            }
        }
        Ok(())
    }
}

/// Does a plan. Told to end, it lets the action that is under way come to its end and begins no other; told so again, it waits for
/// nothing more. What became of the actions, and whether one was cut off.
async fn unless_told_twice(
    signals: &mut Signals,
    actions: &Actions<Store>,
    origin: &Origin,
    plan: Vec<PlannedAction>,
) -> (Vec<ActionResult>, bool) {
    let mut results = Vec::with_capacity(plan.len());
    for action in plan {
        let mut acting = std::pin::pin!(actions.act(origin, action));
        let result = loop {
            tokio::select! {
                result = &mut acting => break result,
                () = signals.end() => {
                    if actions.is_stopping() {
                        return (results, true);
                    }
                    actions.stop();
                    say::note("hapax: the action that is under way comes to its end; told again, it is cut off");
                }
            }
        };
        results.push(result);
    }
    (results, false)
}

/// What to do where another process has the store.
fn held_by_a_server(failed: Failed) -> Failed {
    match failed.message.starts_with("another process") {
        true => failed
            .and("if that is a server, send it the plan: POST /v1/plans on its application listener ([api])"),
        false => failed,
    }
}

/// The exit code of a plan: what was not done is the answer no; where the ledger could not be asked, it was not available.
fn ending(results: &[ActionResult]) -> Result<(), Failed> {
    let failed = || results.iter().filter(|result| !result.ok);
    match (failed().count(), failed().all(|result| result.code == Some("ledger-unavailable"))) {
        (0, _) => Ok(()),
        (many, true) => {
            Err(Failed::unavailable(format!("the ledger could not be asked about {many} actions")))
        }
        (_, false) => Err(Failed::no("")),
    }
}
