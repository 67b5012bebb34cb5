//! Actions of agents as a configuration says: its connectors and its gate, for `hapax-agent` to run (X).

use hapax_agent::actions::{Connectors, Http, HttpTool, Rules};
use hapax_core::Error;

use crate::config::{Config, Connector, HttpConnector};

/// The rules that a configuration means.
pub(crate) fn rules(config: &Config) -> Result<Rules, Error> {
    let mut connectors = Connectors::default();
    for (name, connector) in &config.connectors {
        connectors = match connector {
            Connector::Http(connector) => connectors.http(name, http(connector)?),
            Connector::Mcp(_) => {
                let what = format!("connectors.{name}: this version calls no tools of kind \"mcp\"");
                return Err(Error::invalid(what));
            }
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
