//! Whether an answer of the admin listener is one that its OpenAPI document describes (M4). Every answer that a test gets
//! goes through here.
//!
//! Knows as much of JSON Schema as the document uses, and panics where it uses more.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use hapax_api::ADMIN_DOCUMENT as DOCUMENT;

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
        fit(&document, &problem, &serde_json::from_str(body).unwrap(), path).unwrap();
        return;
    };
    let response = &operation["responses"][status.to_string()];
    assert!(response.is_object(), "{method} {path} answers {status}, which is not described: {body}");
    let kind = kind.split(';').next().unwrap();
    let schema = &response["content"][kind]["schema"];
    assert!(schema.is_object(), "{method} {path} answers {status} as {kind}, which is not described");
    if kind.ends_with("json") {
        fit(&document, schema, &serde_json::from_str(body).unwrap(), path).unwrap();
    }
}

/// Which members of the value the schema describes; or what does not fit.
fn fit(document: &Value, schema: &Value, value: &Value, at: &str) -> Result<BTreeSet<String>, String> {
    let schema = schema.as_object().unwrap();
    let mut described = BTreeSet::new();
    for (word, rule) in schema {
        let fits = match word.as_str() {
            "$ref" => {
                let referred = document.pointer(&rule.as_str().unwrap()[1..]).unwrap();
                described.extend(fit(document, referred, value, at)?);
                true
            }
            "type" => of_type(rule, value),
            "enum" => rule.as_array().unwrap().contains(value),
            "const" => rule == value,
            "required" => {
                rule.as_array().unwrap().iter().all(|name| value.get(name.as_str().unwrap()).is_some())
            }
            "properties" => {
                for (name, rule) in rule.as_object().unwrap() {
                    if let Some(member) = value.get(name) {
                        fit(document, rule, member, &format!("{at}.{name}"))?;
                        described.insert(name.clone());
                    }
                }
                true
            }
            "additionalProperties" if rule.is_object() => {
                for (name, member) in value.as_object().into_iter().flatten() {
                    fit(document, rule, member, &format!("{at}.{name}"))?;
                }
                true
            }
            "additionalProperties" if rule == false => {
                let known = schema["properties"].as_object().unwrap();
                value.as_object().into_iter().flatten().all(|(name, _)| known.contains_key(name))
            }
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    fit(document, rule, item, &format!("{at}[]"))?;
                }
                true
            }
            "oneOf" | "anyOf" => {
                let each: Vec<_> =
                    rule.as_array().unwrap().iter().map(|one| fit(document, one, value, at)).collect();
                let fitting: Vec<_> = each.iter().flatten().collect();
                if fitting.is_empty() {
                    return Err(format!("{at}: {value} fits none: {each:?}"));
                }
                described.extend(fitting.iter().flat_map(|names| names.iter().cloned()));
                word == "anyOf" || fitting.len() == 1
            }
            "format" => {
                assert_eq!(rule, "date-time", "{at}: more of JSON Schema than this knows");
                value.as_str().is_none_or(|time| time.ends_with('Z') && time.len() == 27)
            }
            "pattern" => {
                // All of them begin and end, and have parts that these are enough to tell apart.
                let fits = |text: &str| match rule.as_str().unwrap() {
                    "^op_[0-9a-fA-F]{32}$" => text.parse::<hapax_core::OperationId>().is_ok(),
                    "^[0-9]+\\.[0-9]+$" => text.parse::<hapax_core::Epoch>().is_ok(),
                    "^[0-9]+$" => text.parse::<u64>().is_ok(),
                    other => panic!("{at}: {other}: more patterns than this knows"),
                };
                value.as_str().is_none_or(fits)
            }
            "minimum" => value.as_u64().is_none_or(|number| number >= rule.as_u64().unwrap()),
            "maximum" => value.as_u64().is_none_or(|number| number <= rule.as_u64().unwrap()),
            "additionalProperties" | "unevaluatedProperties" | "description" | "default" => true,
            other => panic!("{at}: {other}: more of JSON Schema than this knows"),
        };
        if !fits {
            return Err(format!("{at}: {value} does not fit {word}: {rule}"));
        }
    }
    // Looked at last: it is about what all the other words have described.
    if schema.get("unevaluatedProperties").is_some_and(|rule| rule == false) {
        let all: BTreeSet<_> =
            value.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
        if let Some(name) = all.difference(&described).next() {
            return Err(format!("{at}: {name} is not described"));
        }
    }
    Ok(described)
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

#[test]
fn an_answer_that_is_not_described_is_found_m4() {
    let document: Value = serde_json::from_str(DOCUMENT).unwrap();
    let released = json!({
        "operation_id": "op_00000000000000000000000000000000", "tenant": "t", "project": "p", "subject": "s",
        "operation": "o", "key": "k", "source": "header", "scope": "subject", "epoch": "1.2",
        "operation_epoch": "7", "fingerprint": {"recipe": "r", "digest": "d"}, "rerun": "safe",
        "opened_at": "2026-11-15T22:52:49.000000Z", "granted_at": "2026-11-15T22:52:49.000000Z",
        "state": "released", "released_at": "2026-11-15T22:52:49.000000Z", "ran": "no",
    });
    let told = |claim: &Value| fit(&document, &document["components"]["schemas"]["Claim"], claim, "claim");
    told(&released).unwrap();
    for (name, value) in [
        ("more", json!(1)),
        ("run_until", json!(null)),
        ("state", json!("settled")),
        ("state", json!("lost")),
        ("ran", json!(null)),
        ("epoch", json!("1")),
        ("operation_id", json!("op_1")),
        ("released_at", json!("yesterday")),
        ("fingerprint", json!({"recipe": "r", "digest": "d", "more": 1})),
    ] {
        let mut wrong = released.clone();
        wrong[name] = value;
        assert!(told(&wrong).is_err(), "{wrong}");
    }
    let mut less = released;
    less.as_object_mut().unwrap().remove("ran");
    assert!(told(&less).is_err());
}
