//! The list of paths and their description say the same (M4); and what unit tests of this module need to start a listener.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::routing::MethodFilter;
use bytes::Bytes;
use hapax_core::{ClaimId, Error, Page};
use hapax_store::memory::Memory;
use hapax_store::{Options, Store};
use serde_json::Value;

use super::endpoints::{ENDPOINTS, OPENAPI};
use super::{
    AdminState, AdminTokens, AnswerCodec, HttpAnswer, KeyDesk, KeyInfo, KeyMade, NewKey, Reply, Role,
};

/// A desk without keys, for tests that do not ask for one.
pub(crate) struct NoKeys;

impl KeyDesk for NoKeys {
    fn create(&self, _: NewKey) -> Reply<'_, KeyMade> {
        Box::pin(async { Err(Error::unavailable("there are no keys here")) })
    }

    fn list(&self, _: Option<String>, _: usize) -> Reply<'_, Page<KeyInfo>> {
        Box::pin(async { Ok(Page::new(Vec::new(), None)) })
    }

    fn revoke(&self, _: String) -> Reply<'_, bool> {
        Box::pin(async { Ok(false) })
    }
}

/// Bodies alone.
struct Bodies;

impl AnswerCodec for Bodies {
    fn encode(&self, _: &ClaimId, answer: &HttpAnswer) -> Result<Bytes, Error> {
        Ok(answer.body.clone())
    }

    fn decode(&self, _: &ClaimId, _: &Bytes) -> Result<HttpAnswer, Error> {
        Err(Error::corrupt("no answer of HTTP"))
    }
}

/// A listener's state on an empty store.
pub(crate) fn state(tokens: AdminTokens) -> AdminState {
    let store = Store::Memory(Memory::open(Options::default()));
    AdminState::new(store, tokens, Arc::new(NoKeys), Arc::new(Bodies))
}

fn word(method: MethodFilter) -> &'static str {
    match method {
        MethodFilter::GET => "get",
        MethodFilter::POST => "post",
        MethodFilter::DELETE => "delete",
        _ => panic!("a method that this listener does not use"),
    }
}

#[test]
fn every_path_is_described_and_every_described_path_is_served_m4() {
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    let mut described = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in
            methods.as_object().unwrap().iter().filter(|(name, _)| *name != "parameters")
        {
            let role = operation["security"].as_array().unwrap().first();
            let role = role.map(|scheme| scheme["token"][0].as_str().unwrap().to_owned());
            described.insert((path.clone(), method.clone(), role));
        }
    }
    let served: BTreeSet<_> = ENDPOINTS
        .iter()
        .map(|endpoint| {
            let role = endpoint.role.map(|role: Role| role.as_str().to_owned());
            (endpoint.path.to_owned(), word(endpoint.method).to_owned(), role)
        })
        .collect();
    assert_eq!(described, served);
}

#[test]
fn every_reference_of_the_description_leads_somewhere_m4() {
    fn walk(value: &Value, document: &Value) {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(to)) = members.get("$ref") {
                    let pointer = to.strip_prefix('#').unwrap();
                    assert!(document.pointer(pointer).is_some(), "{to}");
                }
                members.values().for_each(|member| walk(member, document));
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, document)),
            _ => {}
        }
    }
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    walk(&document, &document);
}

#[test]
fn without_a_token_only_health_readiness_metrics_and_pages_are_served_m1() {
    let open: Vec<_> =
        ENDPOINTS.iter().filter(|endpoint| endpoint.role.is_none()).map(|open| open.path).collect();
    assert_eq!(open, ["/healthz", "/readyz", "/metrics", "/.well-known/hapax/errors/{code}"]);
}

#[test]
fn whatever_changes_something_needs_the_role_operate_m1() {
    for endpoint in ENDPOINTS.iter().filter(|endpoint| endpoint.method != MethodFilter::GET) {
        assert_eq!(endpoint.role, Some(Role::Operate), "{}", endpoint.path);
    }
}
