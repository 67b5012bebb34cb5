//! An agent with a scripted planner that may be killed at any time: started again, it goes on, and nothing is done twice.
//!
//! ```text
//! cargo run --example agent -p hapax-agent -- --store embedded:/tmp/agent --effects /tmp/effects --execution order-7
//! ```
//!
//! Kill it as often as you like (`kill -9`) and start it again until it says `completed`. Where nobody knows whether a card was charged,
//! it plays the person who looks at the books (here: the file of effects) and decides.

use std::path::PathBuf;
use std::time::Duration;

use hapax::Store;
use hapax_agent::durable::{
    Agent, AgentId, Choice, Creation, Decision, Declaration, DurableLoop, Error, ExecutionId, Executions,
    Observation, Plan, PlannedCall, Resume, Run, Stop, Tools, Waiting,
};
use hapax_core::Scope;
use hapax_exec::Executor;
use hapax_store::{Lifecycle as _, Options};
use hapax_testkit::upstream::CountingFile;
use serde_json::{Value, json};

/// How the example is started.
#[derive(Clone, Debug, clap::Parser)]
pub struct Args {
    /// `memory:`, `embedded:FOLDER` or `postgres://…`
    #[arg(long)]
    pub store: String,
    /// Where effects are counted
    #[arg(long)]
    pub effects: PathBuf,
    /// The execution's id
    #[arg(long)]
    pub execution: String,
    /// Orders that are handled, one in each iteration
    #[arg(long, default_value_t = 3)]
    pub orders: u64,
    /// For how long the store takes this process for alive after it was last heard of
    #[arg(long, default_value_t = 30_000)]
    pub term_ms: u64,
}

/// What can go wrong here.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Handles so many orders, one after the other.
#[derive(Clone, Debug)]
pub struct Clerk {
    /// How many.
    pub orders: u64,
}

impl Agent for Clerk {
    async fn plan(&self, iteration: u64, state: &Value) -> Result<Plan, String> {
        if iteration == self.orders {
            return Ok(Plan::Finish(json!({ "handled": state["handled"] })));
        }
        let order = format!("order-{iteration}");
        let calls = vec![
            PlannedCall::new("stock.reserve", json!({ "order": order })),
            PlannedCall::new("card.charge", json!({ "order": order, "cents": 4200 })),
            PlannedCall::new("mail.send", json!({ "order": order, "text": "thank you" })),
        ];
        // Every other order is handled in parallel.
        Ok(Plan::Act { calls, parallel: iteration % 2 == 1 })
    }

    fn observe(&self, state: Value, observations: &[Observation]) -> Value {
        let mut handled = state["handled"].as_array().cloned().unwrap_or_default();
        handled.push(json!(observations.iter().map(|seen| seen.call.tool.clone()).collect::<Vec<_>>()));
        json!({ "handled": handled })
    }
}

/// Tools whose effects are lines in a file that no kill takes back.
pub fn tools(effects: &CountingFile) -> Tools {
    let tool = |declaration: Declaration, name: &'static str, tools: Tools| {
        let effects = effects.clone();
        tools.function(name, declaration, move |context, args| {
            let effects = effects.clone();
            async move {
                let (order, epoch) = (args["order"].as_str().unwrap_or_default(), context.epoch);
                let epoch = epoch.map(|epoch| epoch.to_string()).unwrap_or_default();
                let done = effects.record(&format!("{name} {order}"), &epoch);
                done.map_err(|error| hapax_agent::durable::ToolError::Unknown(error.to_string()))?;
                Ok(json!({ "done": name, "key": context.idempotency_key }))
            }
        })
    };
    let tools = tool(Declaration::Idempotent, "stock.reserve", Tools::new());
    let tools = tool(Declaration::NonIdempotent, "card.charge", tools);
    tool(Declaration::Unknown, "mail.send", tools)
}

/// Makes the execution, or goes on with it once the process that ran it is taken for dead.
pub async fn begin(executions: &Executions<Store>, id: &ExecutionId) -> Result<Run<Store>, Error> {
    let new = Creation::new(id.clone(), AgentId::new("clerk")?, json!({ "handled": [] }));
    match executions.create(new).await {
        Err(Error::AlreadyExists) => {}
        made => return made,
    }
    loop {
        match executions.resume(id, Resume::default()).await {
            Err(Error::Fenced) => tokio::time::sleep(Duration::from_millis(50)).await,
            taken => return taken,
        }
    }
}

/// Looks at the books and decides what to do about a step that nobody knows the end of.
pub async fn decide(
    executions: &Executions<Store>,
    id: &ExecutionId,
    waiting: Waiting,
    effects: &CountingFile,
) -> Result<(), Failure> {
    let order = waiting.intent.args["order"].as_str().unwrap_or_default();
    let done = effects.count(&format!("{} {order}", waiting.intent.tool))? > 0;
    let choice = match done {
        true => Choice::Confirm(json!({ "done": waiting.intent.tool, "by": "hand" })),
        false => Choice::Rerun { force: true },
    };
    let decision = Decision {
        at: waiting.at,
        digest: waiting.intent.digest,
        epoch: waiting.epoch,
        choice,
        by: "example".into(),
        reason: "the books say so".into(),
    };
    Ok(executions.decide(id, decision).await?)
}

/// Runs the execution until it has come to its end.
pub async fn live(args: &Args) -> Result<Stop, Failure> {
    let options = Options { term: Duration::from_millis(args.term_ms), ..Options::default() };
    let store = Store::open(&args.store, options).await?;
    let effects = CountingFile::new(&args.effects);
    let executions = Executions::new(Executor::new(store.clone()), Scope::local());
    let id = ExecutionId::new(&args.execution)?;
    let clerk = DurableLoop::new(Clerk { orders: args.orders }, tools(&effects));
    let stop = finish(&executions, &id, &clerk, &effects).await?;
    store.close().await?;
    Ok(stop)
}

/// Goes on until the execution has come to its end, and plays the person on the way.
pub async fn finish(
    executions: &Executions<Store>,
    id: &ExecutionId,
    clerk: &DurableLoop<Clerk>,
    effects: &CountingFile,
) -> Result<Stop, Failure> {
    loop {
        let run = match begin(executions, id).await {
            Err(Error::Ended) => return Ok(Stop::Completed(json!("before"))),
            run => run?,
        };
        let stop = clerk.run(&run).await?;
        let waiting = match stop {
            Stop::Paused(_) => executions.waiting(id).await?,
            Stop::Completed(_) | Stop::Failed(_) => Vec::new(),
        };
        if waiting.is_empty() {
            return Ok(stop);
        }
        for step in waiting {
            decide(executions, id, step, effects).await?;
        }
    }
}

#[allow(clippy::print_stdout, dead_code, reason = "it is an example, and a test runs what is above")]
fn main() -> Result<(), Failure> {
    let args: Args = clap::Parser::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    match runtime.block_on(live(&args))? {
        Stop::Completed(output) => println!("completed: {output}"),
        Stop::Paused(reason) => println!("paused: {reason}"),
        Stop::Failed(reason) => println!("failed: {reason}"),
    }
    Ok(())
}
