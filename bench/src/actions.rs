//! Actions beside bare `once` on the same store, behind rules beside behind none, and all on one entity.
//!
//! An action takes and leaves a place in a lane, and leaves a receipt: every tenant's receipts are one stream, here too.

use std::time::Duration;

use hapax_agent::actions::gate::{Decision, Rule};
use hapax_agent::actions::{
    Actions, Connectors, Gate, Invocation, Invoked, Local, Origin, PlannedAction, Rules, Tool,
};
use hapax_core::{Journal, Lanes, Ledger, Project, Registry, Tenant};
use hapax_exec::{Call, Ended, Executor};
use hapax_postgres::Postgres;
use hapax_sqlite::Embedded;
use hapax_store::{Lifecycle as _, Options};
use serde_json::json;
use serde_json::value::RawValue;

use crate::Failure;
use crate::journal::{median, rate};
use crate::report::Report;

const WAITERS: usize = 64;
/// Rules of a gate that has many. Each looks at something of the action, and none matches.
const RULES: usize = 50;

/// How it is measured.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Leave one of the stores out: `embedded` or `postgres`.
    #[arg(long)]
    only: Option<String>,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Rounds of each measurement; the median counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// Measures it all.
pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<(), Failure> {
    if args.only.as_deref() != Some("postgres") {
        let folder = tempfile::tempdir_in(".")?;
        let store = Embedded::open(folder.path().join("actions"), Options::default())?;
        report.heading("embedded store, 64 callers, each action durable with its receipt");
        on(&store, args, 0.5, report).await?;
        store.close().await?;
    }
    if args.only.as_deref() != Some("embedded") {
        let store = Postgres::open(&database().await?, Options::default()).await?;
        report.heading("PostgreSQL, 64 callers, each action durable with its receipt");
        on(&store, args, 0.2, report).await?;
        store.close().await?;
    }
    Ok(())
}

async fn database() -> Result<String, Failure> {
    let server = std::env::var("HAPAX_TEST_POSTGRES")
        .map_err(|_| "no PostgreSQL to measure on: run `cargo xtask bench actions`, which starts one")?;
    let (client, connection) = tokio_postgres::connect(&server, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    client.batch_execute("DROP DATABASE IF EXISTS hapax_bench_actions").await?;
    client.batch_execute("CREATE DATABASE hapax_bench_actions").await?;
    let (base, _) = server.rsplit_once('/').ok_or("the server's URL names no database")?;
    Ok(format!("{base}/hapax_bench_actions"))
}

async fn on<S: Ledger + Lanes + Journal + Registry>(
    store: &S,
    args: &Args,
    wanted: f64,
    report: &mut Report,
) -> Result<(), Failure> {
    let executor = Executor::new(store.clone());
    let plain = actions(&executor, Vec::new());
    let rules = (0..RULES).map(|n| {
        let when = format!("tool == 'orders.other{n}' || args.amount > {}", 1_000 + n);
        Rule::compile(&format!("rule {n}"), &when, Decision::Block)
    });
    let ruled = actions(&executor, rules.collect::<Result<_, _>>().map_err(|mistake| mistake.to_string())?);
    let [mut bare, mut free, mut gated, mut hot] = [const { Vec::new() }; 4];
    // In turns, so that what changes on the machine changes for all of them.
    for round in 0..args.rounds {
        bare.push(rate(WAITERS, time(args), once(executor.clone(), round)).await?);
        free.push(rate(WAITERS, time(args), acting(plain.clone(), format!("free{round}"), false)).await?);
        gated.push(rate(WAITERS, time(args), acting(ruled.clone(), format!("gated{round}"), false)).await?);
        hot.push(rate(WAITERS, time(args), acting(plain.clone(), format!("hot{round}"), true)).await?);
    }
    if !plain.settle(Duration::from_secs(30)).await || !ruled.settle(Duration::from_secs(30)).await {
        return Err("places in lanes are still owed".into());
    }
    let (bare, free, gated, hot) = (median(bare), median(free), median(gated), median(hot));
    report.figure("bare once", bare, "calls/s");
    report.figure("actions on distinct entities", free, "actions/s");
    report.figure("the same behind 50 rules", gated, "actions/s");
    report.figure("actions on one entity", hot, "actions/s");
    let store = if wanted > 0.3 { "embedded" } else { "PostgreSQL" };
    report.ratio(&format!("actions / bare once, {store}"), free / bare, wanted);
    report.ratio(&format!("behind 50 rules / behind none, {store}"), gated / free, 0.9);
    Ok(())
}

fn time(args: &Args) -> Duration {
    Duration::from_secs(args.seconds)
}

fn once<S: Ledger>(
    executor: Executor<S>,
    round: usize,
) -> impl Fn(usize, u64) -> std::pin::Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>
+ Clone
+ Send
+ 'static {
    move |waiter, number| {
        let executor = executor.clone();
        Box::pin(async move {
            let call = Call::local("bench", &format!("{round}-{waiter}-{number}"))?;
            let done = executor.once(call, |_| async { Ended::succeeded("{\"value\":1}") }).await;
            done.map(drop).map_err(Failure::from)
        })
    }
}

fn actions<S: Ledger + Lanes + Journal + Registry>(executor: &Executor<S>, rules: Vec<Rule>) -> Actions<S> {
    let local = Local::default().tool("orders.hold", Tool::default(), |_: Invocation| async {
        match RawValue::from_string("{\"value\":1}".into()) {
            Ok(done) => Invoked::Done(done),
            Err(error) => Invoked::Unknown(error.to_string()),
        }
    });
    let gate = Gate::new(Decision::Allow).rules(rules);
    Actions::new(executor.clone(), Rules::new(Connectors::default().local("bench", local), gate), None)
}

fn acting<S: Ledger + Lanes + Journal + Registry>(
    actions: Actions<S>,
    name: String,
    one_entity: bool,
) -> impl Fn(usize, u64) -> std::pin::Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>
+ Clone
+ Send
+ 'static {
    move |waiter, number| {
        let (actions, key) = (actions.clone(), format!("{name}-{waiter}-{number}"));
        let entity_key = if one_entity { name.clone() } else { key.clone() };
        Box::pin(async move {
            let (tenant, project) = (Tenant::new("acme")?, Project::new("bench")?);
            let origin = Origin { tenant, project, traceparent: None };
            let action = PlannedAction {
                connector: "bench".into(),
                tool: "orders.hold".into(),
                args: RawValue::from_string(json!({ "order": number, "amount": 7 }).to_string())?,
                entity_key,
                idempotency_key: Some(key),
            };
            let told = actions.act(&origin, action).await;
            if told.ok { Ok(()) } else { Err(format!("an action was not done: {:?}", told.error).into()) }
        })
    }
}
