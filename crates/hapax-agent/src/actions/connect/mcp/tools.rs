//! The tools that a server lists: what its hints count for, and whether arguments fit their schema.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hapax_core::Rerun;
use rmcp::RoleClient;
use rmcp::model::{
    ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult, Tool as Said, ToolAnnotations,
};
use rmcp::service::{Peer, PeerRequestOptions};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::super::Tool;
use super::ends::excerpt;
use super::schema::misfit;
use super::{McpTool, Trust};
use crate::clock::{deadline, left};
use crate::limits;

/// All tools of a server, as it has listed them.
#[derive(Debug)]
pub(super) struct Tools {
    by_name: BTreeMap<String, Arc<Listed>>,
    fresh_until: Instant,
    /// Before this, a tool that is not there is not asked for again.
    sure_until: Instant,
}

/// One tool, as its server has listed it.
#[derive(Debug)]
pub(super) struct Listed {
    said: Said,
}

impl Tools {
    /// Asks the server for all pages of its list.
    pub(super) async fn list(peer: &Peer<RoleClient>) -> Result<Self, String> {
        let (mut by_name, mut cursor) = (BTreeMap::new(), None);
        let mut fresh = limits::MCP_LIST_FRESH;
        for _ in 0..limits::MCP_LIST_PAGES {
            let params = cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            let request =
                ClientRequest::ListToolsRequest(ListToolsRequest { params, ..ListToolsRequest::default() });
            let options = PeerRequestOptions::with_timeout(limits::MCP_ASK);
            let asked = peer.send_request_with_option(request, options).await;
            let answer = match asked {
                Ok(handle) => handle.await_response().await,
                Err(error) => Err(error),
            };
            let page = match answer.map_err(|error| format!("the server does not list its tools: {error}"))? {
                ServerResult::ListToolsResult(page) => page,
                _ => return Err("the server's list of tools is none".into()),
            };
            for said in page.tools {
                let name = said.name.to_string();
                let listed = Arc::new(Listed { said });
                // Of two with one name the server would call either.
                if by_name.insert(name.clone(), listed).is_some() {
                    return Err(format!("the server lists the tool {name:?} twice"));
                }
            }
            if by_name.len() > limits::MCP_TOOLS {
                return Err(format!("the server lists more than {} tools", limits::MCP_TOOLS));
            }
            if let Some(ttl) = page.ttl_ms {
                fresh = fresh.min(Duration::from_millis(ttl)).max(limits::MCP_LIST_AGAIN);
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                let sure_until = deadline(limits::MCP_LIST_AGAIN);
                return Ok(Tools { by_name, fresh_until: deadline(fresh), sure_until });
            }
        }
        Err(format!("the server's list of tools has more than {} pages", limits::MCP_LIST_PAGES))
    }

    pub(super) fn get(&self, name: &str) -> Option<Arc<Listed>> {
        self.by_name.get(name).cloned()
    }

    /// Whether the list may be used to answer what is asked about a tool of this name.
    pub(super) fn answers(&self, name: &str) -> bool {
        let until = if self.by_name.contains_key(name) { self.fresh_until } else { self.sure_until };
        !left(until).is_zero()
    }
}

impl Listed {
    /// What the tool is, after what its server and the operator say about it.
    pub(super) fn tool(&self, trust: &Trust) -> Tool {
        let told = trust.tools.get(&*self.said.name).copied().unwrap_or_default();
        let hints = self.said.annotations.clone().unwrap_or_default();
        let Tool { read_only, rerun, destructive, .. } = weighed(&hints, told, trust.trusted);
        Tool { read_only, rerun, destructive, give_up: told.give_up.unwrap_or(trust.give_up) }
    }

    /// Whether the tool takes these arguments.
    pub(super) fn check(&self, args: &RawValue) -> Result<(), String> {
        let args: Value = serde_json::from_str(args.get()).map_err(|error| format!("args: {error}"))?;
        match misfit(&self.said.input_schema, &args) {
            None => Ok(()),
            Some(misfit) => Err(excerpt(&misfit)),
        }
    }
}

/// What counts. The hints of a server that is not trusted only make a tool stricter than the operator says; those of a trusted one
/// stand where the operator says nothing.
fn weighed(hints: &ToolAnnotations, told: McpTool, trusted: bool) -> Tool {
    let read_hint = hints.read_only_hint;
    let writes = read_hint == Some(false) || hints.destructive_hint == Some(true);
    let read_only = match told.read_only {
        Some(read_only) => read_only && (trusted || !writes),
        None => trusted && read_hint == Some(true) && hints.destructive_hint != Some(true),
    };
    if read_only {
        return Tool::reads();
    }
    let rerun = match told.rerun {
        Some(Rerun::Safe) if !trusted && hints.idempotent_hint == Some(false) => Rerun::Unsafe,
        Some(rerun) => rerun,
        None if trusted && hints.idempotent_hint == Some(true) => Rerun::Safe,
        None => Rerun::Unsafe,
    };
    let destructive = match told.destructive {
        Some(destructive) => destructive || (!trusted && hints.destructive_hint == Some(true)),
        None => !trusted || hints.destructive_hint.unwrap_or(true),
    };
    Tool { rerun, destructive, ..Tool::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(
        read_only: Option<bool>,
        idempotent: Option<bool>,
        destructive: Option<bool>,
    ) -> ToolAnnotations {
        ToolAnnotations::from_raw(None, read_only, destructive, idempotent, None)
    }

    #[test]
    fn hints_of_a_server_that_is_not_trusted_only_make_it_stricter() {
        let free = McpTool { read_only: Some(true), rerun: Some(Rerun::Safe), ..McpTool::default() };
        let kind = hints(Some(true), Some(true), Some(false));
        let none = McpTool::default();
        assert_eq!(weighed(&kind, none, false), Tool::default(), "what it promises counts for nothing");
        assert!(weighed(&hints(None, None, None), free, false).read_only, "what the operator says stands");
        assert!(
            !weighed(&hints(Some(false), None, None), free, false).read_only,
            "unless it says that it writes"
        );
        assert!(!weighed(&hints(None, None, Some(true)), free, false).read_only);
        let safe = McpTool { rerun: Some(Rerun::Safe), ..none };
        assert_eq!(weighed(&hints(None, None, None), safe, false).rerun, Rerun::Safe);
        assert_eq!(weighed(&hints(None, Some(false), None), safe, false).rerun, Rerun::Unsafe);
        let mild = McpTool { destructive: Some(false), ..none };
        assert!(!weighed(&hints(None, None, None), mild, false).destructive);
        assert!(weighed(&hints(None, None, Some(true)), mild, false).destructive);
    }

    #[test]
    fn hints_of_a_trusted_server_stand_where_the_operator_says_nothing() {
        let none = McpTool::default();
        assert_eq!(weighed(&hints(Some(true), None, None), none, true), Tool::reads());
        assert!(
            !weighed(&hints(Some(true), None, Some(true)), none, true).read_only,
            "it contradicts itself"
        );
        let again = weighed(&hints(Some(false), Some(true), Some(false)), none, true);
        assert_eq!((again.read_only, again.rerun, again.destructive), (false, Rerun::Safe, false));
        let told = McpTool { read_only: Some(false), rerun: Some(Rerun::Unsafe), ..none };
        let strict = weighed(&hints(Some(true), Some(true), None), told, true);
        assert_eq!((strict.read_only, strict.rerun), (false, Rerun::Unsafe), "the operator comes first");
        assert_eq!(weighed(&ToolAnnotations::default(), none, true), Tool::default());
    }
}
