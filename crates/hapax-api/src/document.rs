//! The OpenAPI document of a table: paths from its endpoints, schemas from their types.
//!
//! A model is closed (it has no other members than those that are described) unless it says otherwise. A type that is both
//! sent and answered has one schema.

use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::endpoint::{Endpoint, Method, Need, Parameter, Refusal, Table};
use crate::problem::Problem;

/// The schemas of what is sent and of what is answered: a member that may be left out by the one is always told by the other.
struct Schemas {
    sent: SchemaGenerator,
    answered: SchemaGenerator,
}

/// The document of this table.
pub fn document<N: Need>(table: &Table<N>) -> Value {
    let settings = || {
        SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        })
    };
    let mut schemas = Schemas {
        sent: settings().for_deserialize().into_generator(),
        answered: settings().for_serialize().into_generator(),
    };
    let mut paths = Map::new();
    for endpoint in table.endpoints {
        let path = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        if let Some(parameter) = variable(table.parameters, endpoint.path) {
            let schema = (parameter.schema)(&mut schemas.sent);
            path["parameters"] = json!([{
                "name": parameter.name, "in": "path", "required": true, "description": parameter.description, "schema": schema,
            }]);
        }
        path[endpoint.method.as_str().to_lowercase()] = operation(endpoint, table, &mut schemas);
    }
    let (credential, about) = table.credential;
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": table.title,
            "version": "1",
            "summary": table.summary,
            "description": table.description,
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": table.server}],
        "paths": paths,
        "components": {
            "securitySchemes": {credential: {"type": "http", "scheme": "bearer", "description": about}},
            "schemas": components(schemas),
        },
    })
}

/// The variable part of a path.
fn variable(parameters: &'static [Parameter], path: &str) -> Option<&'static Parameter> {
    let (_, rest) = path.split_once('{')?;
    let (name, _) = rest.split_once('}')?;
    parameters.iter().find(|parameter| parameter.name == name)
}

fn operation<N: Need>(endpoint: &Endpoint<N>, table: &Table<N>, schemas: &mut Schemas) -> Value {
    let credential = table.credential.0;
    let security = endpoint.needs.map(|needs| json!({credential: [needs.scope()]}));
    let mut operation = json!({
        "summary": endpoint.summary,
        "operationId": endpoint.id,
        "security": security.into_iter().collect::<Vec<_>>(),
        "responses": responses(endpoint, table, schemas),
    });
    let parameters = query((endpoint.query)(&mut schemas.sent));
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if endpoint.method == Method::Post {
        let schema = (endpoint.body)(&mut schemas.sent);
        let kind = schema.get("contentMediaType").and_then(Value::as_str).unwrap_or("application/json");
        operation["requestBody"] = json!({"required": true, "content": {kind: {"schema": schema}}});
    }
    operation
}

fn responses<N: Need>(endpoint: &Endpoint<N>, table: &Table<N>, schemas: &mut Schemas) -> Value {
    let reading = [
        Refusal::with::<Problem>(408, "The body came too slowly."),
        Refusal::with::<Problem>(413, table.body.1),
    ];
    let mut responses = Map::new();
    let mut add = |status: u16, description: &str, kind: &str, schema: Schema| {
        let told =
            json!({"description": description, "content": {kind: {"schema": closed(schema.to_value())}}});
        responses.insert(status.to_string(), told);
    };
    let kind = endpoint.kind.split(';').next().unwrap_or_default();
    let (usual, others) = endpoint.answers;
    for (status, description) in [usual].iter().chain(others) {
        add(*status, description, kind, (endpoint.answer)(&mut schemas.answered));
    }
    let of_needs = endpoint.needs.map(Need::refusals).unwrap_or_default();
    let of_method: &[Refusal] = if endpoint.method == Method::Post { &reading } else { &[] };
    for refusal in table.refusals.iter().chain(of_needs).chain(of_method).chain(endpoint.refusals) {
        let schema = (refusal.schema)(&mut schemas.answered);
        add(refusal.status, refusal.description, "application/problem+json", schema);
    }
    responses.into()
}

/// The members of a query as parameters. None of them can be null: it is there, or it is not.
fn query(schema: Schema) -> Vec<Value> {
    let mut schema = schema.to_value();
    let required = schema["required"].take();
    let Value::Object(members) = schema["properties"].take() else { return Vec::new() };
    let parameter = |(name, mut schema): (String, Value)| {
        let required = required.as_array().is_some_and(|names| names.contains(&json!(name)));
        let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        let schema = closed(present(schema));
        json!({"name": name, "in": "query", "required": required, "description": description, "schema": schema})
    };
    members.into_iter().map(parameter).collect()
}

/// A schema without null, and without what holds where nothing is said.
fn present(mut schema: Value) -> Value {
    if let Some(some) =
        schema["anyOf"].as_array().and_then(|any| any.iter().find(|one| one["type"] != "null"))
    {
        return some.clone();
    }
    if let Value::Object(members) = &mut schema {
        members.remove("anyOf");
        members.remove("default");
        if let Some(Value::Array(kinds)) = members.get_mut("type") {
            kinds.retain(|kind| kind != "null");
            if let [kind] = &kinds[..] {
                let kind = kind.clone();
                members.insert("type".into(), kind);
            }
        }
    }
    schema
}

/// All schemas by name.
fn components(mut schemas: Schemas) -> Value {
    let mut all = schemas.sent.take_definitions(true);
    all.extend(schemas.answered.take_definitions(true));
    all.into_iter().map(|(name, schema)| (name, closed(schema))).collect()
}

/// The same schema with objects that have no other members than those that are described.
fn closed(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(members) => {
            let composed = ["oneOf", "anyOf", "allOf"].iter().any(|word| members.contains_key(*word));
            // How wide a number is here says nothing to callers, and no standard has these words.
            let width = |format: &Value| format.as_str().is_some_and(|format| format.starts_with("uint"));
            if members.get("format").is_some_and(width) {
                members.remove("format");
            }
            let object = members.contains_key("properties");
            let open = object && !members.contains_key("additionalProperties");
            for (word, member) in members.iter_mut() {
                // The parts of an object that is put together do not know of each other.
                if !(object && ["oneOf", "anyOf", "allOf"].contains(&word.as_str())) {
                    *member = closed(member.take());
                }
            }
            if open {
                let word = if composed { "unevaluatedProperties" } else { "additionalProperties" };
                members.insert(word.into(), false.into());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = closed(item.take())),
        _ => {}
    }
    schema
}

#[cfg(test)]
mod tests;
