//! Whether an answer of the admin listener is one that its OpenAPI document describes (M4). Every answer that a test gets
//! goes through here.
//!
//! Knows as much of JSON Schema as the document uses, and panics where it uses more.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use hapax_api::{ADMIN_DOCUMENT as DOCUMENT, APPLICATION_DOCUMENT};

use crate::office::Office;

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
    check_by(DOCUMENT, method, path, status, kind, body);
}

/// The same for an answer of the application listener.
pub(crate) fn check_application(method: &str, path: &str, status: u16, kind: &str, body: &str) {
    check_by(APPLICATION_DOCUMENT, method, path, status, kind, body);
}

fn check_by(document: &str, method: &str, path: &str, status: u16, kind: &str, body: &str) {
    let document: Value = serde_json::from_str(document).unwrap();
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
                let pattern = regex::Regex::new(rule.as_str().unwrap()).unwrap();
                value.as_str().is_none_or(|text| pattern.is_match(text))
            }
            "minLength" => length(value).is_none_or(|length| length >= rule.as_u64().unwrap()),
            "maxLength" => length(value).is_none_or(|length| length <= rule.as_u64().unwrap()),
            "not" => fit(document, rule, value, at).is_err(),
            "minimum" => value.as_u64().is_none_or(|number| number >= rule.as_u64().unwrap()),
            "maximum" => value.as_u64().is_none_or(|number| number <= rule.as_u64().unwrap()),
            "additionalProperties" | "unevaluatedProperties" | "description" | "default" | "examples" => true,
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

/// How many characters a text has.
fn length(value: &Value) -> Option<u64> {
    value.as_str().map(|text| text.chars().count() as u64)
}

fn of_type(rule: &Value, value: &Value) -> bool {
    let is = |name: &Value| match name.as_str().unwrap() {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "number" => value.is_number(),
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

/// The schema of what a request may say.
fn asked(document: &Value, method: &str, path: &str, query: Option<&str>) -> Value {
    let operation = operation(document, method, path).unwrap();
    let Some(name) = query else {
        return operation["requestBody"]["content"]["application/json"]["schema"].clone();
    };
    let parameters = operation["parameters"].as_array().unwrap();
    parameters.iter().find(|parameter| parameter["name"] == name).unwrap()["schema"].clone()
}

#[tokio::test]
async fn what_the_description_allows_the_server_understands_m4() {
    let document: Value = serde_json::from_str(DOCUMENT).unwrap();
    let office = Office::in_memory().await;
    let (resolve, id) = ("resolve", office.doubt("order-1").await);
    let long = |text: &str, times: usize| text.repeat(times);
    let decision = |more: Value| {
        let mut body = json!({"epoch": "9.9", "reason": "seen", "release": true});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let settle = json!({"status": 201});
    let resolved = [
        // Understood: what is refused then is the epoch.
        (true, decision(json!({}))),
        (true, decision(json!({"force": true}))),
        (true, decision(json!({"release": false, "settle": settle}))),
        (true, decision(json!({"reason": long("é", 1024), "by": long("é", 128)}))),
        (false, decision(json!({"release": false}))),
        (false, decision(json!({"settle": settle}))),
        (false, decision(json!({"release": false, "settle": settle, "force": true}))),
        (false, decision(json!({"reason": long("é", 1025)}))),
        (false, decision(json!({"reason": " \u{a0}"}))),
        (false, decision(json!({"reason": "a\nb"}))),
        (false, decision(json!({"by": long("é", 129)}))),
        (false, decision(json!({"by": "a\u{7}"}))),
        (false, decision(json!({"more": 1}))),
        (false, decision(json!({"release": false, "settle": {"status": 199}}))),
        (false, decision(json!({"release": false, "settle": {"status": 201, "retention": "1y"}}))),
    ];
    let path = format!("/v1/claims/{id}/{resolve}");
    for (understood, body) in resolved {
        let schema = asked(&document, "POST", &path, None);
        assert_eq!(fit(&document, &schema, &body, &path).is_ok(), understood, "the schema of {body}");
        let status = office.post(&path, body.clone()).await.status;
        assert_eq!(status == 409, understood, "{body} is answered {status}");
    }
    let key = |more: Value| {
        let mut body = json!({"tenant": "acme", "project": "prod", "subject": "service:ci"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    for (understood, body) in [
        (true, key(json!({"label": long("é", 128), "expires": "90d"}))),
        (false, key(json!({"label": long("é", 129)}))),
        (false, key(json!({"tenant": "Acme"}))),
        (false, key(json!({"project": "_any"}))),
        (false, key(json!({"subject": "ci"}))),
        (false, key(json!({"expires": "99999999999999999999d"}))),
    ] {
        let schema = asked(&document, "POST", "/v1/keys", None);
        assert_eq!(fit(&document, &schema, &body, "/v1/keys").is_ok(), understood, "the schema of {body}");
        let status = office.post("/v1/keys", body.clone()).await.status;
        assert_eq!(status == 201, understood, "{body} is answered {status}");
    }
    for (understood, name, value) in [
        (true, "tenant", "acme"),
        (true, "project", "_any"),
        (true, "subject", "user:a%20b"),
        (true, "operation", "payments.create"),
        (true, "opened_before", "2026-11-18T00:00:00.000000Z"),
        (false, "tenant", "_any"),
        (false, "project", "Prod"),
        (false, "subject", "alice"),
        (false, "operation", "-"),
        (false, "opened_before", "2026-11-18T00:00:00+01:00"),
        (false, "age", "1y"),
        (false, "state", "lost"),
    ] {
        let schema = asked(&document, "GET", "/v1/claims", Some(name));
        assert_eq!(
            fit(&document, &schema, &json!(value), name).is_ok(),
            understood,
            "the schema of {name}={value}"
        );
        let value = value.replace('%', "%25").replace('+', "%2B");
        let status = office.get(&format!("/v1/claims?{name}={value}")).await.status;
        assert_eq!(status == 200, understood, "{name}={value} is answered {status}");
    }
}

#[tokio::test]
async fn what_the_description_allows_of_webhooks_and_delegated_calls_the_server_understands_m4() {
    let document: Value = serde_json::from_str(DOCUMENT).unwrap();
    let office = Office::in_memory().await;
    let hook = |more: Value| {
        let mut body = json!({"tenant": "acme", "project": "prod", "provider": "github"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    for (understood, body) in [
        (true, hook(json!({}))),
        (true, hook(json!({"secret": "s", "secret_kv": false}))),
        (true, hook(json!({"secret_env": "GITHUB_SECRET"}))),
        (true, hook(json!({"secret_file": "/run/secret", "label": "é".repeat(128)}))),
        (true, hook(json!({"algorithm": "provider", "dedupe": "content", "on_4xx": "keep"}))),
        (false, hook(json!({"secret": "s", "secret_env": "S"}))),
        (false, hook(json!({"secret": "s", "secret_file": "S"}))),
        (false, hook(json!({"secret_env": "s", "secret_file": "S"}))),
        (false, hook(json!({"secret": "s", "secret_kv": true}))),
        (false, hook(json!({"secret_env": "s", "secret_kv": true}))),
        (false, hook(json!({"secret_file": "s", "secret_kv": true}))),
        (false, hook(json!({"secret": ""}))),
        (false, hook(json!({"secret_env": "a\n"}))),
        (false, hook(json!({"algorithm": "sha256"}))),
        (false, hook(json!({"provider": "Git Hub"}))),
        (false, hook(json!({"project": "_tenant"}))),
        (false, hook(json!({"label": "é".repeat(129)}))),
        (false, hook(json!({"dedupe": "body"}))),
    ] {
        let schema = asked(&document, "POST", "/v1/webhooks", None);
        assert_eq!(fit(&document, &schema, &body, "hook").is_ok(), understood, "the schema of {body}");
        let status = office.post("/v1/webhooks", body.clone()).await.status;
        assert_eq!(status == 200 || status == 201, understood, "{body} is answered {status}");
    }
    let call = |more: Value| {
        let mut body = json!({"tenant": "acme", "reason": "stuck"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    // Understood: there is no cluster.
    for (understood, body) in [
        (true, call(json!({}))),
        (true, call(json!({"project": "_any", "subject": "_any", "upstream": "engine"}))),
        (true, call(json!({"project": "web", "subject": "user:a%20b"}))),
        (false, call(json!({"subject": "user:alice"}))),
        (false, call(json!({"project": "e:web"}))),
        (false, call(json!({"project": "web", "subject": "alice"}))),
        (false, call(json!({"upstream": "The Engine"}))),
        (false, call(json!({"reason": " "}))),
    ] {
        let path = "/v1/delegated/inv_1/kill";
        let schema = asked(&document, "POST", path, None);
        assert_eq!(fit(&document, &schema, &body, "call").is_ok(), understood, "the schema of {body}");
        let status = office.post(path, body.clone()).await.status;
        assert_eq!(status == 404, understood, "{body} is answered {status}");
    }
    for (understood, query) in [
        (true, "tenant=acme&status=backing-off"),
        (true, "tenant=acme&project=web&subject=user:alice&upstream=engine"),
        (false, "tenant=acme&status=pauzed"),
        (false, "tenant=acme&project=Web"),
        (false, "project=web"),
    ] {
        let operation = operation(&document, "GET", "/v1/delegated").unwrap();
        let described = operation["parameters"].as_array().unwrap().iter().all(|parameter| {
            let name = parameter["name"].as_str().unwrap();
            let said =
                query.split('&').filter_map(|pair| pair.split_once('=')).find(|(said, _)| *said == name);
            said.map_or(parameter["required"] == false, |(_, value)| {
                fit(&document, &parameter["schema"], &json!(value), name).is_ok()
            })
        });
        assert_eq!(described, understood, "the schema of {query}");
        let status = office.get(&format!("/v1/delegated?{query}")).await.status;
        assert_eq!(status == 404, understood, "{query} is answered {status}");
    }
}

#[tokio::test]
async fn what_the_description_allows_about_steps_and_traffic_the_server_understands_m4() {
    let document: Value = serde_json::from_str(DOCUMENT).unwrap();
    let office = Office::in_memory().await;
    let step = |more: Value| {
        let mut body = json!({"tenant": "acme", "project": "prod", "iteration": 1, "call": 1, "digest": "d", "epoch": "1.1", "reason": "seen"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let path = "/v1/executions/e-1/decide";
    // Understood: there is no such execution.
    for (understood, body) in [
        (true, step(json!({"decision": "confirm", "result": null}))),
        (true, step(json!({"decision": "confirm", "result": {"id": 7}, "force": false}))),
        (true, step(json!({"decision": "rerun"}))),
        (true, step(json!({"decision": "rerun", "force": true, "call": u32::MAX, "iteration": u64::MAX}))),
        (true, step(json!({"decision": "fail", "error": "no funds"}))),
        (false, step(json!({"decision": "confirm"}))),
        (false, step(json!({"decision": "confirm", "result": 1, "error": "no funds"}))),
        (false, step(json!({"decision": "confirm", "result": 1, "force": true}))),
        (false, step(json!({"decision": "rerun", "result": 1}))),
        (false, step(json!({"decision": "rerun", "error": "no funds"}))),
        (false, step(json!({"decision": "fail"}))),
        (false, step(json!({"decision": "fail", "error": "no funds", "force": true}))),
        (false, step(json!({"decision": "rerun", "call": u64::from(u32::MAX) + 1}))),
    ] {
        let schema = asked(&document, "POST", path, None);
        assert_eq!(fit(&document, &schema, &body, path).is_ok(), understood, "the schema of {body}");
        let status = office.post(path, body.clone()).await.status;
        assert_eq!(status == 404, understood, "{body} is answered {status}");
    }
    for (understood, sort) in
        [(true, "requests"), (true, "p99_ms"), (true, "in_doubt"), (false, "abc"), (false, "tenant")]
    {
        let schema = asked(&document, "GET", "/v1/traffic", Some("sort"));
        assert_eq!(fit(&document, &schema, &json!(sort), "sort").is_ok(), understood, "the schema of {sort}");
        let status = office.get(&format!("/v1/traffic?sort={sort}")).await.status;
        assert_eq!(status == 200, understood, "{sort} is answered {status}");
    }
}

/// A variable part of a path that the description does not allow is never found, and what is made has one that it allows.
#[tokio::test]
async fn every_id_in_a_path_has_the_form_that_is_described_m4() {
    let document: Value = serde_json::from_str(DOCUMENT).unwrap();
    let office = Office::in_memory().await;
    let form = |path: &str, id: &str| {
        let schema = &document["paths"][path]["parameters"][0]["schema"];
        assert!(schema.is_object(), "{path} describes no id");
        fit(&document, schema, &json!(id), path).is_ok()
    };
    let made = office.post("/v1/webhooks", json!({"tenant": "acme", "project": "prod", "provider": "slack"}));
    let webhook = made.await.json()["webhook_id"].as_str().unwrap().to_owned();
    let new_key = json!({"tenant": "acme", "project": "prod", "subject": "service:ci"});
    let key = office.post("/v1/keys", new_key).await.json()["id"].as_str().unwrap().to_owned();
    for (path, id) in [
        ("/v1/claims/{operation_id}", office.doubt("order-1").await),
        ("/v1/webhooks/{webhook_id}", webhook),
        ("/v1/keys/{key_id}", key),
        ("/v1/retention/{class}", "critical".to_owned()),
    ] {
        assert!(form(path, &id), "{path} does not allow {id}");
        let method = if path.contains("keys") || path.contains("retention") { "DELETE" } else { "GET" };
        if method == "GET" {
            let asked = path.split('{').next().unwrap();
            assert_eq!(office.get(&format!("{asked}{id}")).await.status, 200, "{path} {id}");
        }
    }
    for (path, ids) in [
        ("/v1/claims/{operation_id}", ["op_1", "order-1", "op_zz"]),
        ("/v1/webhooks/{webhook_id}", ["wh_1", "wh_G", "a"]),
        ("/v1/schedules/{schedule_id}", ["A", "_a", "a.b"]),
        ("/v1/delegated/{invocation_id}", ["1", "inv_", "x_1"]),
        ("/v1/executions/{execution_id}", ["a%20b", "%C3%A9", "a%2Fb"]),
    ] {
        for id in ids {
            assert!(!form(path, id), "{path} allows {id}");
            let asked = path.split('{').next().unwrap();
            let status = office.get(&format!("{asked}{id}?tenant=acme&project=web")).await.status;
            assert!(status == 404 || status == 400, "{path} {id} is answered {status}");
        }
    }
}
