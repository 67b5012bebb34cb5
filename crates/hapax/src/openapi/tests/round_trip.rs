//! Whatever a route says, writing it into a document and reading it back changes nothing (P4).

use std::collections::BTreeSet;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{NAMED_ELSEWHERE, Source, field_of};
use super::{essence, load_in};
use crate::config::{Config, route_fields};
use crate::openapi::write::{self, Target};

/// What holds where a route says nothing: other things than without it, so that what was said and what was not differ.
const AROUND: &str = "[auth]\ntenant = \"acme\"\nproject = \"shop\"\n[retention]\ndefault = \"usual\"\nusual = \"36h\"\ncritical = \"7d\"\n\
    [edge]\nattach_timeout = \"11s\"\nmismatch_status = 409\nmax_request_body = \"3MiB\"\nmax_kept_response = \"2MiB\"\n\
    [upstreams.pay]\nurl = \"http://127.0.0.1:9000\"\ntimeout = \"7s\"\ngive_up = \"14m\"\n";

/// For each part of a route, what can be said of it. The first of each is what is said where nothing else is picked.
fn sayings() -> Vec<Vec<Value>> {
    vec![
        vec![
            json!({"policy": "REQUIRED_A"}),
            json!({"policy": "REQUIRED_B", "identifier": {"header": "x-delivery-id"}}),
            json!({"policy": "REQUIRED_B", "identifier": {"json": "/event/id"}}),
            json!({"policy": "REQUIRED_B", "identifier": {"form": "id"}}),
            json!({"policy": "ACCEPTED"}),
            json!({"policy": "REQUIRED_A", "key": [{"header": "x-key"}, {"json": "/key"}]}),
            json!({"policy": "ACCEPTED", "key": [{"json": "/a/key"}], "key-grammar": "printable"}),
            json!({"policy": "ACCEPTED", "key-from": "fingerprint", "rerun": "unsafe"}),
            json!({"policy": "ACCEPTED", "key-from": "fingerprint", "rerun": "unsafe", "window": "90m"}),
        ],
        vec![
            json!({}),
            json!({"rerun": "unsafe"}),
            json!({"rerun": "safe"}),
            json!({"rerun": "safe", "quiet": "3s"}),
            json!({"rerun": "ask", "reconcile": "/asked"}),
        ],
        vec![
            json!({}),
            json!({"retention": "critical"}),
            json!({"retention": "9d"}),
            json!({"retention": "forever"}),
        ],
        vec![json!({}), json!({"scope": "project"}), json!({"scope": "tenant"}), json!({"scope": "subject"})],
        vec![
            json!({}),
            json!({"fingerprint": "json"}),
            json!({"fingerprint": "json", "ignore": ["/at", "/a~1b"]}),
            json!({"fingerprint": "form"}),
            json!({"fingerprint-headers": ["accept", "x-b"]}),
        ],
        vec![
            json!({}),
            json!({"timeout": "30s"}),
            json!({"give-up": "20m"}),
            json!({"max-run": "2h"}),
            json!({"timeout": "1500ms", "give-up": "59m", "max-run": "61m"}),
        ],
        vec![
            json!({}),
            json!({"doubt": {"after": "3d", "then": "release"}}),
            json!({"doubt": {"after": "24h", "then": "forget"}}),
        ],
        vec![
            json!({}),
            json!({"attach": "reject"}),
            json!({"attach": "wait", "attach-timeout": "4s"}),
            json!({"attach-timeout": "0s"}),
        ],
        vec![json!({}), json!({"keep": "full"}), json!({"keep": "head"}), json!({"keep": "fact"})],
        vec![json!({}), json!({"on-5xx": "release"}), json!({"on-5xx": "keep"}), json!({"on-5xx": "doubt"})],
        vec![json!({}), json!({"mismatch-status": 422}), json!({"mismatch-status": 409})],
        vec![json!({}), json!({"max-request-body": "64KiB"}), json!({"max-request-body": "1MiB"})],
        vec![json!({}), json!({"max-kept-response": "1000B"})],
        vec![
            json!({}),
            json!({"was": "payments.old"}),
            json!({"was": ["newer", "older"]}),
            json!({"was": []}),
        ],
        vec![json!({}), json!({"recall": false}), json!({"recall": true})],
        vec![
            json!({}),
            json!({"level": "project"}),
            json!({"level": "tenant"}),
            json!({"level": "platform"}),
        ],
    ]
}

/// What can be said of a route without keys.
fn keyless() -> [Value; 5] {
    [
        json!({"policy": "PROHIBITED"}),
        json!({"policy": "PROHIBITED", "lenient": true}),
        json!({"policy": "PROHIBITED", "lenient": false, "level": "tenant"}),
        json!({"level": "platform"}),
        json!({"policy": "PROHIBITED", "public": true}),
    ]
}

fn document(picks: &[usize]) -> Value {
    let mut pay = json!({"operationId": "pay", "responses": {"201": {"description": "Charged"}}});
    let sayings = sayings();
    for (part, pick) in sayings.iter().zip(picks) {
        say(&mut pay, &part[pick % part.len()]);
    }
    let mut look = json!({"responses": {}});
    say(&mut look, &keyless()[picks[0] % 5]);
    json!({"openapi": "3.1.0", "paths": {"/pay": {"post": pay, "get": look}}})
}

fn say(operation: &mut Value, what: &Value) {
    for (name, value) in what.as_object().unwrap() {
        operation[format!("x-idempotency-{name}")] = value.clone();
    }
}

/// Loads the configuration whose routes are those of `document`, and of the file itself.
fn load(folder: &Path, prefix: &str, routes: &str, document: &Value) -> Config {
    std::fs::write(folder.join("api.json"), document.to_string()).unwrap();
    let text = format!("{AROUND}{routes}\n[[openapi]]\nfile = \"api.json\"\nupstream = \"pay\"\n{prefix}\n");
    load_in(folder, &text).unwrap_or_else(|mistakes| panic!("{mistakes}: {document}"))
}

fn written(config: &Config, document: &Value) -> Value {
    let source: &Source = &config.documents[0];
    let mut document = document.clone();
    write::into(&mut document, config, &Target { prefix: &source.prefix, source: Some(source) }).unwrap();
    document
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn whatever_a_route_says_is_the_same_after_it_was_written_and_read_back_p4(
        picks in proptest::collection::vec(0..20_usize, 15)
    ) {
        let (folder, document) = (tempfile::tempdir().unwrap(), document(&picks));
        let before = load(folder.path(), "", "", &document);
        let written = written(&before, &document);
        let after = load(folder.path(), "", "", &written);
        prop_assert_eq!(before.to_toml(), after.to_toml());
        prop_assert_eq!(&self::written(&after, &written), &written, "a second time changes nothing");
        for method in ["post", "get"] {
            let said = |document: &Value| extensions(&document["paths"]["/pay"][method]);
            let mut stated = said(&document);
            if !stated.contains_key("x-idempotency-policy") {
                stated.insert("x-idempotency-policy".into(), "PROHIBITED".into());
            }
            prop_assert_eq!(said(&written), stated, "what is left to defaults is left to them");
        }
        let printed = write::document(&before, "").unwrap();
        let after = load(folder.path(), "", "", &printed);
        prop_assert_eq!(essence(&before), essence(&after), "what is printed is read back as well");
    }
}

fn extensions(operation: &Value) -> serde_json::Map<String, Value> {
    let members = operation.as_object().unwrap().iter();
    let ours = members.filter(|(name, _)| name.starts_with("x-idempotency-"));
    ours.map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[test]
fn every_field_of_a_route_is_written_and_read_back_p4() {
    let said = sayings().into_iter().flatten().chain(keyless());
    let names = said.flat_map(|what| what.as_object().unwrap().keys().cloned().collect::<Vec<_>>());
    let tried: BTreeSet<_> = names.map(|name| field_of(&format!("x-idempotency-{name}")).unwrap()).collect();
    let fields = route_fields().filter(|field| !NAMED_ELSEWHERE.contains(field));
    assert_eq!(tried, fields.collect::<BTreeSet<_>>(), "a new field belongs into `sayings`");
}

#[test]
fn a_document_that_routes_are_read_from_does_not_get_those_of_others_p4() {
    let folder = tempfile::tempdir().unwrap();
    let other = "[[routes]]\nmethod = \"POST\"\npath = \"/v1/refunds\"\noperation = \"refund\"\n\
        policy = \"REQUIRED_A\"\nupstream = \"pay\"\nkeep = \"fact\"\n";
    let document = document(&[1; 15]);
    let before = load(folder.path(), "prefix = \"/v1\"", other, &document);
    let written = written(&before, &document);
    let after = load(folder.path(), "prefix = \"/v1\"", other, &written);
    assert_eq!(before.to_toml(), after.to_toml());
    let refunds = &written["paths"]["/refunds"]["post"];
    assert!(extensions(refunds).is_empty() && refunds["responses"]["409"].is_object(), "{refunds}");
}
