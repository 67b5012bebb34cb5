//! The document in the tree is the one that the table and its types make, and it holds together (M4).

use std::collections::BTreeSet;

use super::*;
use crate::{ADMIN, ADMIN_DOCUMENT, APPLICATION, APPLICATION_DOCUMENT};

/// Writes the document into the tree where this variable is set.
const BLESS: &str = "HAPAX_BLESS";

fn rendered(document: &Value) -> String {
    format!("{document:#}\n")
}

fn both() -> [Value; 2] {
    [document(&ADMIN), document(&APPLICATION)]
}

#[test]
fn the_documents_in_the_tree_are_the_generated_ones_m4() {
    let kept = [("openapi.json", ADMIN_DOCUMENT), ("application.json", APPLICATION_DOCUMENT)];
    for ((name, kept), made) in kept.into_iter().zip(both()) {
        let rendered = rendered(&made);
        if std::env::var_os(BLESS).is_some() {
            let path = format!("{}/{name}", env!("CARGO_MANIFEST_DIR"));
            std::fs::write(path, &rendered).expect("the document can be written");
            continue;
        }
        let differs = rendered.lines().zip(kept.lines()).position(|(made, kept)| made != kept);
        assert!(
            rendered == kept,
            "crates/hapax-api/{name} is not what the types say (line {}): `{BLESS}=1 cargo test -p hapax-api` writes it anew",
            differs.unwrap_or_default() + 1
        );
    }
}

fn every_endpoint_is_described<N: Need>(table: &Table<N>) {
    let document = document(table);
    let mut described = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        let methods = methods.as_object().expect("methods");
        assert_eq!(path.contains('{'), methods.contains_key("parameters"), "{path}: its variable part");
        for (method, operation) in methods.iter().filter(|(name, _)| *name != "parameters") {
            let needs = operation["security"][0][table.credential.0][0].as_str().map(str::to_owned);
            described.insert((path.clone(), method.to_uppercase(), needs));
        }
    }
    let endpoints = table.endpoints.iter().map(|endpoint| {
        let needs = endpoint.needs.map(|needs| needs.scope().to_owned());
        (endpoint.path.to_owned(), endpoint.method.as_str().to_owned(), needs)
    });
    assert_eq!(described, endpoints.collect());
    let ids: BTreeSet<_> = table.endpoints.iter().map(|endpoint| endpoint.id).collect();
    assert_eq!(ids.len(), table.endpoints.len(), "two endpoints have one name");
}

#[test]
fn every_endpoint_is_described_with_what_it_needs_m4() {
    every_endpoint_is_described(&ADMIN);
    every_endpoint_is_described(&APPLICATION);
}

#[test]
fn every_reference_of_the_document_leads_somewhere_m4() {
    fn walk(value: &Value, document: &Value) {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(to)) = members.get("$ref") {
                    let pointer = to.strip_prefix('#').expect("a reference within the document");
                    assert!(document.pointer(pointer).is_some(), "{to}");
                }
                members.values().for_each(|member| walk(member, document));
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, document)),
            _ => {}
        }
    }
    for document in both() {
        walk(&document, &document);
    }
}

#[test]
fn an_object_has_no_other_members_than_those_described_unless_it_says_so_m4() {
    for document in both() {
        let schemas = document["components"]["schemas"].as_object().expect("schemas");
        for (name, schema) in schemas.iter().filter(|(_, schema)| schema["properties"].is_object()) {
            let closed = schema["additionalProperties"] == false || schema["unevaluatedProperties"] == false;
            assert_eq!(closed, !["Problem", "Conflict"].contains(&name.as_str()), "{name}: {schema:#}");
        }
    }
}

#[test]
fn a_type_that_is_sent_and_answered_has_one_schema_m4() {
    let settings = || SchemaSettings::draft2020_12().with(|settings| settings.meta_schema = None);
    let mut sent = settings().for_deserialize().into_generator();
    let mut answered = settings().for_serialize().into_generator();
    for endpoint in ADMIN.endpoints {
        (endpoint.query)(&mut sent);
        (endpoint.body)(&mut sent);
        (endpoint.answer)(&mut answered);
    }
    let answered = answered.take_definitions(true);
    for (name, schema) in sent.take_definitions(true) {
        assert!(answered.get(&name).is_none_or(|other| *other == schema), "{name} has two schemas");
    }
}

#[test]
fn every_text_that_a_body_has_is_described_by_its_form_m4() {
    // A cursor and a digest are handed back as they came, a body is whatever bytes it is, and a secret is its sender's.
    let free = ["after", "body_base64", "digest", "secret"];
    let document = document(&ADMIN);
    let schemas = &document["components"]["schemas"];
    let name_of = |schema: &Value| schema["$ref"].as_str()?.rsplit('/').next().map(str::to_owned);
    let methods = document["paths"].as_object().expect("paths").values();
    let bodies = methods.filter_map(|methods| {
        name_of(&methods["post"]["requestBody"]["content"]["application/json"]["schema"])
    });
    let names: BTreeSet<String> = bodies.chain(["Settle".to_owned()]).collect();
    assert!(names.contains("NewWebhook") && names.contains("DecideDelegated"), "{names:?}");
    for name in names {
        let Some(members) = schemas[&name]["properties"].as_object() else { continue };
        for (member, schema) in members {
            let is_text = schema["type"] == "string" || schema["type"][0] == "string";
            let has_form = ["pattern", "enum", "format"].iter().any(|word| !schema[*word].is_null());
            assert!(!is_text || has_form || free.contains(&member.as_str()), "{name}.{member}: {schema}");
        }
    }
}
