//! Actions of agents as a configuration says: its connectors and its gate, for `hapax-agent` to run (X).

use hapax_agent::actions::connect::{Mcp, McpProcess, McpTool};
use hapax_agent::actions::{Connectors, Http, HttpTool, Rules};
use hapax_core::Error;

use crate::config::{Config, Connector, HttpConnector, McpConnector, Reached, ToolOverride};

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
