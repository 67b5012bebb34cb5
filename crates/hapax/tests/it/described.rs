//! Whether an answer of the admin listener is one that its OpenAPI document describes (M4). Every answer that a test gets
//! goes through here.
//!
//! Knows as much of JSON Schema as the document uses, and panics where it uses more.

use serde_json::Value;

const DOCUMENT: &str = include_str!("../../src/admin/openapi.json");

/// The operation that describes this method and path; `None` where there is none.
fn operation(document: &Value, method: &str, path: &str) -> Option<Value> {
    let asked: Vec<_> = path.split('?').next().unwrap().split('/').collect();
    let fits = |template: &str| {
        let parts: Vec<_> = template.split('/').collect();
        parts.len() == asked.len()
            && parts.iter().zip(&asked).all(|(part, asked)| part.starts_with('{') || part == asked)
    };
    let paths = document["paths"].as_object().unwrap();
    // A path without variables comes first, as in any router.
    let exact = paths.get(path.split('?').next().unwrap());
    let found =
        exact.or_else(|| paths.iter().find(|(template, _)| fits(template)).map(|(_, methods)| methods));
    found.and_then(|methods| methods.get(method.to_lowercase())).cloned()
}

/// Panics unless the document describes this answer.
pub(crate) fn check(method: &str, path: &str, status: u16, kind: &str, body: &str) {
    let document: Value = serde_json::from_str(DOCUMENT).unwrap();
    let problem = document["components"]["schemas"]["Problem"].clone();
    let Some(operation) = operation(&document, method, path) else {
        assert!(status == 404 || status == 405, "{method} {path} is served and not described");
        return fits(&document, &problem, &serde_json::from_str(body).unwrap(), path);
    };
    let response = &operation["responses"][status.to_string()];
    assert!(response.is_object(), "{method} {path} answers {status}, which is not described: {body}");
    let kind = kind.split(';').next().unwrap();
    let schema = &response["content"][kind]["schema"];
    assert!(schema.is_object(), "{method} {path} answers {status} as {kind}, which is not described");
    if kind.ends_with("json") {
        fits(&document, schema, &serde_json::from_str(body).unwrap(), path);
    }
}

fn fits(document: &Value, schema: &Value, value: &Value, at: &str) {
    let schema = schema.as_object().unwrap();
    for (word, rule) in schema {
        match word.as_str() {
            "$ref" => fits(document, document.pointer(&rule.as_str().unwrap()[1..]).unwrap(), value, at),
            "type" => assert!(of_type(rule, value), "{at}: {value} is no {rule}"),
            "enum" => assert!(rule.as_array().unwrap().contains(value), "{at}: {value} is none of {rule}"),
            "const" => assert_eq!(rule, value, "{at}"),
            "required" => {
                for name in rule.as_array().unwrap() {
                    assert!(value.get(name.as_str().unwrap()).is_some(), "{at}: no {name} in {value}");
                }
            }
            "properties" => {
                for (name, rule) in rule.as_object().unwrap() {
                    if let Some(member) = value.get(name) {
                        fits(document, rule, member, &format!("{at}.{name}"));
                    }
                }
            }
            "additionalProperties" if rule == false => {
                let known = schema["properties"].as_object().unwrap();
                for name in value.as_object().unwrap().keys() {
                    assert!(known.contains_key(name), "{at}: {name} is not described");
                }
            }
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    fits(document, rule, item, &format!("{at}[]"));
                }
            }
            "oneOf" => {
                let alternatives = rule.as_array().unwrap();
                let null = alternatives.iter().any(|alternative| alternative["type"] == "null");
                assert!(alternatives.len() == 2 && null, "{at}: more of JSON Schema than this knows");
                if !value.is_null() {
                    fits(document, &alternatives[0], value, at);
                }
            }
            "format" => {
                let time = value.as_str();
                assert!(time.is_none_or(|time| time.ends_with('Z') && time.len() == 27), "{at}: {value}");
            }
            "additionalProperties"
            | "description"
            | "pattern"
            | "minLength"
            | "maxLength"
            | "minimum"
            | "maximum" => {}
            other => panic!("{at}: {other}: more of JSON Schema than this knows"),
        }
    }
}

fn of_type(rule: &Value, value: &Value) -> bool {
    let is = |name: &Value| match name.as_str().unwrap() {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other}: more of JSON Schema than this knows"),
    };
    rule.as_array().map_or_else(|| is(rule), |names| names.iter().any(is))
}
