//! Actions of agents as a configuration says: its connectors and its gate, for `hapax-agent` to run (X).

use std::sync::Arc;
use std::time::Duration;

use hapax_agent::actions::connect::{Mcp, McpProcess, McpTool};
use hapax_agent::actions::{ActionResult, Actions, Connectors, Http, HttpTool, Origin, PlannedAction, Rules};
use hapax_core::Error;
use hapax_exec::{Executor, Seal};
use tokio::sync::Semaphore;

use crate::Store;
use crate::config::{Config, Connector, HttpConnector, McpConnector, Reached, ToolOverride};
use crate::limits;

/// Plans that a server does. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Plans {
    actions: Actions<Store>,
    room: Arc<Semaphore>,
}

impl Plans {
    pub(crate) fn new(executor: Executor<Store>, rules: Rules, seal: Option<Arc<Seal>>) -> Self {
        Plans { actions: Actions::new(executor, rules, seal), room: Arc::new(Semaphore::new(limits::PLANS)) }
    }

    /// Goes on with other rules.
    pub(crate) fn reload(&self, rules: Rules) {
        self.actions.reload(rules);
    }

    /// Does a plan, also when whoever waits for it has gone: an action that is cut off would be in doubt. `None` where too many are
    /// under way.
    pub(crate) async fn run(
        &self,
        origin: Origin,
        plan: Vec<PlannedAction>,
    ) -> Result<Option<Vec<ActionResult>>, Error> {
        let Ok(place) = self.room.clone().try_acquire_owned() else { return Ok(None) };
        let actions = self.actions.clone();
        let doing = tokio::spawn(async move {
            let results = actions.run(&origin, plan).await;
            drop(place);
            results
        });
        doing.await.map(Some).map_err(|error| Error::internal(format!("a plan has ended: {error}")))
    }

    /// Begins no further action: what is left of each plan is told as not begun.
    pub(crate) fn stop(&self) {
        self.actions.stop();
    }

    /// Takes no further plans, and waits for those that are under way, and then, a little, for what is owed to the store. Whether all has
    /// ended.
    pub(crate) async fn drain(&self, within: Duration) -> bool {
        self.stop();
        let all = u32::try_from(limits::PLANS).unwrap_or(u32::MAX);
        let ended = tokio::time::timeout(within, self.room.clone().acquire_many_owned(all)).await;
        self.room.close();
        self.actions.settle(limits::PLANS_SETTLE).await && ended.is_ok()
    }
}

/// The rules that a configuration means.
pub(crate) fn rules(config: &Config) -> Result<Rules, Error> {
    let mut connectors = Connectors::default();
    for (name, connector) in &config.connectors {
        connectors = match connector {
            Connector::Http(connector) => connectors.http(name, http(connector)?),
            Connector::Mcp(connector) => connectors.mcp(name, mcp(connector)?),
        };
    }
    let rules = Rules::new(connectors, config.trust.gate.clone());
    Ok(Rules { args: config.actions.receipts, include_result: config.actions.include_result, ..rules })
}

fn http(connector: &HttpConnector) -> Result<Http, Error> {
    let mut http = Http::new(&connector.url)?;
    for (name, settings) in &connector.tools {
        let tool = HttpTool::new(settings.tool.clone(), &settings.method, &settings.path)?;
        let mut tool = tool.key(connector.key);
        for (header, value) in &connector.headers {
            tool = tool.header(header, value)?;
        }
        if let Some(token) = &connector.token {
            tool = tool.header("authorization", &format!("Bearer {}", token.reveal()))?;
        }
        http = http.tool(name, tool);
    }
    Ok(http)
}

fn mcp(connector: &McpConnector) -> Result<Mcp, Error> {
    let mut mcp = match &connector.reached {
        Reached::Command { command, args, env, pass_env } => {
            let mut process = McpProcess::new(command).args(args.iter().cloned());
            let passed = pass_env.iter().filter_map(|name| Some((name.clone(), std::env::var(name).ok()?)));
            process.env.extend(passed);
            process.env.extend(env.clone());
            Mcp::process(process)
        }
        Reached::Url { url, headers, token } => {
            let bearer = token.as_ref().map(|token| format!("Bearer {}", token.reveal()));
            let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            Mcp::http(url, headers.chain(bearer.as_deref().map(|bearer| ("authorization", bearer))))?
        }
    }
    .trusted(connector.trusted);
    for (name, said) in &connector.tools {
        let ToolOverride { read_only, destructive, rerun, give_up } = said.clone();
        mcp = mcp.tool(name, McpTool { read_only, destructive, rerun, give_up });
    }
    Ok(mcp)
}
