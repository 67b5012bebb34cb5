//! OpenAPI documents of the size that real APIs have: read with a policy for every write, and written back unharmed (P4).

use std::path::Path;
use std::time::Instant;

use serde_json::{Map, Value, json};

use crate::rig::{Ground, Kind, hapax};

/// The methods that change something.
const WRITES: [&str; 4] = ["put", "post", "delete", "patch"];

/// Whether everything of the first is in the second. Objects may have more members, and lists more items at their end.
fn is_within(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            before.iter().all(|(name, member)| after.get(name).is_some_and(|now| is_within(member, now)))
        }
        (Value::Array(before), Value::Array(after)) => {
            before.len() <= after.len() && before.iter().zip(after).all(|(item, now)| is_within(item, now))
        }
        (before, after) => before == after,
    }
}

/// How many operations change something.
fn writes(document: &Value) -> usize {
    let items = document["paths"].as_object().unwrap().values().filter_map(Value::as_object);
    items.map(|item| item.keys().filter(|name| WRITES.contains(&name.as_str())).count()).sum()
}

/// Checks a configuration that reads this document, writes the document back, and checks it again.
#[expect(clippy::print_stdout, reason = "how long it takes is printed, and is no limit")]
async fn reads_and_writes(what: &str, document: &str, fields: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (file, config) = (folder.path().join("api.json"), folder.path().join("hapax.toml"));
    std::fs::write(&file, document).unwrap();
    let text = format!(
        "[auth.api_keys]\n[upstreams.api]\nurl = \"http://127.0.0.1:9\"\n[[openapi]]\nfile = \"api.json\"\nupstream = \"api\"\n{fields}\n"
    );
    std::fs::write(&config, text).unwrap();
    let before: Value = serde_json::from_str(document).unwrap();
    let wanted = writes(&before);
    let config = config.display().to_string();
    let (checked, took) = timed(&["config", "check", &config]).await;
    println!("{what}: {} bytes, {wanted} writes, read in {took} ms", document.len());
    assert!(checked.contains(&format!("ok, {wanted} routes ({wanted} keyed)")), "{checked}");
    let (_, took) = timed(&["openapi", "--config", &config, "--into", &file.display().to_string()]).await;
    println!("{what}: written back in {took} ms");
    let written = std::fs::read_to_string(&file).unwrap();
    let after: Value = serde_json::from_str(&written).unwrap();
    let lost = lost(&before, &after, "");
    assert!(lost.is_none(), "{what} lost {lost:?}");
    assert!(written.contains("x-idempotency-policy") && is_within(&before, &after));
    // What was written is read as the same, and writing it again changes nothing.
    assert_eq!(timed(&["config", "check", &config]).await.0, checked);
    timed(&["openapi", "--config", &config, "--into", &file.display().to_string()]).await;
    assert!(std::fs::read_to_string(&file).unwrap() == written, "{what}: a second run changes the document");
}

/// The pointer of what is not there any more.
fn lost(before: &Value, after: &Value, pointer: &str) -> Option<String> {
    if is_within(before, after) {
        return None;
    }
    let below = match (before, after) {
        (Value::Object(before), Value::Object(after)) => before.iter().find_map(|(name, member)| {
            lost(member, after.get(name).unwrap_or(&Value::Null), &format!("{pointer}/{name}"))
        }),
        (Value::Array(before), Value::Array(after)) => before.iter().enumerate().find_map(|(index, item)| {
            lost(item, after.get(index).unwrap_or(&Value::Null), &format!("{pointer}/{index}"))
        }),
        _ => None,
    };
    below.or_else(|| Some(pointer.to_owned()))
}

/// What a command says, and how many milliseconds it took.
async fn timed(args: &[&str]) -> (String, u128) {
    let began = Instant::now();
    let told = crate::claims_cli::told(hapax(args)).await;
    assert_eq!(told.code, 0, "{args:?}: {} {}", told.out, told.err);
    (told.out, began.elapsed().as_millis())
}

#[tokio::test]
async fn npm_the_document_of_github_is_read_and_written_back_unharmed_p4() {
    let peers =
        std::env::var("HAPAX_TEST_NPM").expect("this test needs packages from npm: run `cargo xtask test`");
    let file = Path::new(&peers).join("node_modules/@octokit/openapi/generated/api.github.com.json");
    let document = std::fs::read_to_string(file).unwrap();
    reads_and_writes("GitHub", &document, "default_policy = \"ACCEPTED\"\nrecall = false").await;
}

#[tokio::test]
async fn a_document_of_the_size_of_stripes_is_read_and_written_back_unharmed_p4() {
    let document = serde_json::to_string_pretty(&stripe_sized()).unwrap();
    assert!(document.len() > 5 << 20, "{} bytes", document.len());
    reads_and_writes("Stripe-sized", &document, "default_policy = \"REQUIRED_A\"").await;
}

/// As many paths, operations and schemas as Stripe's document has, with forms, references and nested resources as it has them.
fn stripe_sized() -> Value {
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    for number in 0..150 {
        let (name, schema) = (format!("things{number}"), format!("thing_{number}"));
        let answer = |schema: &str| {
            json!({
                "200": {"description": "Successful response.", "content": {"application/json": {"schema": {"$ref": format!("#/components/schemas/{schema}")}}}},
                "default": {"description": "Error response.", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/error"}}}},
            })
        };
        let operation = |id: String, body: bool| {
            let mut operation = json!({"operationId": id, "description": "<p>What it does, at some length.</p>", "responses": answer(&schema)});
            if body {
                let properties: Map<String, Value> = (0..20).map(|field| (format!("field_{field}"), json!({"type": "string", "maxLength": 5000, "description": "A field, described as such fields are."}))).collect();
                operation["requestBody"] = json!({"content": {"application/x-www-form-urlencoded": {"encoding": {"metadata": {"style": "deepObject", "explode": true}}, "schema": {"type": "object", "properties": properties}}}});
            }
            operation
        };
        let id = json!([{"name": "id", "in": "path", "required": true, "style": "simple", "schema": {"type": "string", "maxLength": 5000}}]);
        paths.insert(
            format!("/v1/{name}"),
            json!({"get": operation(format!("Get{name}"), false), "post": operation(format!("Post{name}"), true)}),
        );
        paths.insert(
            format!("/v1/{name}/{{id}}"),
            json!({"parameters": id, "get": operation(format!("Get{name}Id"), false), "post": operation(format!("Post{name}Id"), true),
                   "delete": operation(format!("Delete{name}Id"), false)}),
        );
        paths.insert(
            format!("/v1/{name}/{{id}}/cancel"),
            json!({"parameters": id, "post": operation(format!("Post{name}IdCancel"), true)}),
        );
        let properties: Map<String, Value> = (0..60)
            .map(|field| (format!("property_{field}"), json!({"anyOf": [{"type": "string"}, {"$ref": "#/components/schemas/error"}], "nullable": true, "description": "What it means."})))
            .collect();
        schemas.insert(schema, json!({"type": "object", "properties": properties, "x-expandableFields": []}));
    }
    schemas.insert("error".into(), json!({"type": "object"}));
    json!({
        "openapi": "3.0.0",
        "info": {"title": "A large API", "version": "2026-01-01"},
        "servers": [{"url": "https://api.example/"}],
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

/// The routes of a large document take requests, each its own (P2).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routes_with_parameters_inside_a_segment_and_crossing_paths_take_their_own_requests_p2() {
    let mut ground = Ground::new(Kind::Embedded).await;
    let document = json!({"openapi": "3.1.0", "info": {"title": "a", "version": "1"}, "paths": {
        "/repos/{repo}/compare/{base}...{head}": {"post": {"operationId": "compare", "responses": {}}},
        "/repos/{repo}/issues/comments/{id}": {"delete": {"operationId": "comment.delete", "responses": {}}},
        "/repos/{repo}/issues/{number}/lock": {"delete": {"operationId": "unlock", "responses": {}}},
    }});
    std::fs::write(ground.folder.path().join("api.json"), document.to_string()).unwrap();
    ground.routes =
        "[[openapi]]\nfile = \"api.json\"\nupstream = \"service\"\ndefault_policy = \"REQUIRED_A\"\n".into();
    let edge = ground.serve().await;
    for (line, operation) in [
        ("POST /repos/r/compare/main...dev", "compare"),
        ("DELETE /repos/r/issues/comments/lock", "comment.delete"),
        ("DELETE /repos/r/issues/7/lock", "unlock"),
    ] {
        let answer = edge.send(crate::rig::caller::ALICE, line, &[("idempotency-key", operation)], "").await;
        assert_eq!(answer.status, 201, "{line}");
    }
    let claims = edge.claims("settled").await;
    assert!(claims.iter().all(|claim| claim["operation"] == claim["key"]) && claims.len() == 3, "{claims:?}");
    let without = edge.send(crate::rig::caller::ALICE, "POST /repos/r/compare/main..dev", &[], "").await;
    assert_eq!(without.status, 404);
}
