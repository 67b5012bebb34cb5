//! Nothing that a document says about keys is dropped without a word (P4, P5).

use serde_json::{Value, json};

use super::{load, mistakes, sample};

/// Whether one of the mistakes is at this place and says this.
fn is_told(document: &Value, pointer: &str, part: &str) {
    let told = mistakes(&[("api.json", &document.to_string())]);
    let at = format!("api.json#{pointer}: ");
    assert!(told.iter().any(|line| line.starts_with(&at) && line.contains(part)), "{at}{part}: {told:#?}");
}

#[test]
fn what_yaml_merges_counts_as_if_it_were_written_there_p4() {
    let text = "openapi: 3.1.0\nx-money: &money\n  x-idempotency-retention: 9d\n  x-idempotency-fingerprint: json\n\
                x-slow: &slow {x-idempotency-retention: 3d, x-idempotency-timeout: 33s}\npaths:\n\
                \x20 /a: {post: {operationId: a, x-idempotency-policy: REQUIRED_A, <<: *money}}\n\
                \x20 /b: {post: {<<: *money, operationId: b, x-idempotency-policy: REQUIRED_A, x-idempotency-retention: 5d}}\n\
                \x20 /c: {post: {operationId: c, x-idempotency-policy: REQUIRED_A, <<: [*money, *slow]}}\n\
                \x20 /d:\n    post: &d {operationId: d, x-idempotency-policy: REQUIRED_A, <<: *slow}\n    put: {<<: *d, operationId: e}\n";
    let config = load(&[("api.yaml", text)], "").unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let routes = config.to_json()["routes"].as_array().unwrap().clone();
    let found = |operation: &str| {
        let route = routes.iter().find(|route| route["operation"] == operation).unwrap();
        json!([route["retention"], route["fingerprint"], route["timeout"]])
    };
    assert_eq!(found("a"), json!(["9d", "json", "10s"]));
    assert_eq!(found("b"), json!(["5d", "json", "10s"]), "what stands there itself goes first");
    assert_eq!(found("c"), json!(["9d", "json", "33s"]), "the first of a list goes first");
    assert_eq!((found("d"), found("e")), (json!(["3d", "raw", "33s"]), json!(["3d", "raw", "33s"])));
    for wrong in ["<<: 1", "<<: [1]", "<<: text"] {
        let told = mistakes(&[("api.yaml", &format!("openapi: 3.1.0\npaths: {{}}\ninfo:\n  {wrong}\n"))]);
        assert!(told[0].contains("`<<` merges something that is no mapping"), "{told:?}");
    }
}

#[test]
fn a_member_that_is_there_twice_is_told_p5() {
    let operation = r#"{"operationId": "OP", "x-idempotency-policy": "REQUIRED_A"}"#;
    let first = operation.replace("OP", "a");
    let second = operation.replace("OP", "b");
    let text = format!(
        r#"{{"openapi": "3.1.0", "paths": {{"/pay": {{"post": {first}}}, "/pay": {{"put": {second}}}}}}}"#
    );
    let told = mistakes(&[("api.json", &text)]);
    assert!(told.len() == 1 && told[0].contains("has #/paths/~1pay twice"), "{told:?}");
    let nested = r#"{"openapi": "3.1.0", "paths": {}, "tags": [{}, {"name": 1, "name": 1}]}"#;
    assert!(mistakes(&[("api.json", nested)])[0].contains("has #/tags/1/name twice"));
    let yaml = "openapi: 3.1.0\npaths: {}\ninfo: {201: a, '201': b}\n";
    assert!(mistakes(&[("api.yaml", yaml)])[0].contains("has a member `201` twice"));
}

#[test]
fn an_extension_in_another_place_than_an_operation_is_told_p5() {
    let pay = "/paths/~1payments";
    for (parent, pointer) in [
        ("", ""),
        ("/info", "/info"),
        ("/paths", "/paths"),
        (pay, pay),
        ("/paths/~1payments/post/responses", "/paths/~1payments/post/responses"),
    ] {
        let mut document = sample();
        document.pointer_mut(parent).unwrap()["x-idempotency-retention"] = "forever".into();
        is_told(&document, &format!("{pointer}/x-idempotency-retention"), "has no effect here");
    }
    let mut document = sample();
    document["paths"]["/payments"]["post"]["requestBody"] = json!({"x-idempotency-fingerprint": "json"});
    is_told(&document, &format!("{pay}/post/requestBody/x-idempotency-fingerprint"), "has no effect here");
}

#[test]
fn an_operation_that_is_no_route_is_told_if_it_has_extensions_p5() {
    let operation = json!({"operationId": "x", "x-idempotency-policy": "REQUIRED_A"});
    let mut document = sample();
    document["paths"]["/payments"]["PUT"] = operation.clone();
    document["webhooks"] = json!({"paid": {"post": operation}});
    document["components"]["pathItems"] = json!({"shared": {"post": operation}});
    is_told(&document, "/paths/~1payments/PUT/x-idempotency-policy", "has no effect here");
    is_told(&document, "/webhooks/paid/post/x-idempotency-policy", "has no effect here");
    is_told(&document, "/components/pathItems/shared/post/x-idempotency-policy", "has no effect here");
}

#[test]
fn an_extension_that_is_written_in_two_ways_or_in_capitals_is_told_p5() {
    let mut document = sample();
    let pay = &mut document["paths"]["/payments"]["post"];
    pay["x-idempotency-give-up"] = "20m".into();
    pay["x-idempotency-give_up"] = "30m".into();
    pay["X-Idempotency-Keep"] = "fact".into();
    let pay = "/paths/~1payments/post";
    is_told(&document, &format!("{pay}/x-idempotency-give_up"), "`give_up` is said twice");
    is_told(&document, &format!("{pay}/X-Idempotency-Keep"), "says nothing about a route");
}
