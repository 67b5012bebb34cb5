//! Reading, writing, and reading back what was written (P4).

use std::path::Path;

use hapax_core::{Policy, Rerun, Retention, Width};
use serde_json::{Value, json};

use super::write::{self, Target};
use crate::config::{self, Config, Mistakes};

mod dropped;
mod referred;
mod round_trip;

/// All routes, into a document that nothing is read from.
const ANYWHERE: Target<'static> = Target { prefix: "", source: None };

/// Loads a configuration whose routes are those of these documents.
fn load(documents: &[(&str, &str)], more: &str) -> Result<Config, Mistakes> {
    let folder = tempfile::tempdir().unwrap();
    let mut text = format!("[upstreams.pay]\nurl = \"http://127.0.0.1:9000\"\n{more}\n");
    for (name, document) in documents {
        std::fs::write(folder.path().join(name), document).unwrap();
        text += &format!("[[openapi]]\nfile = \"{name}\"\nupstream = \"pay\"\n");
    }
    load_in(folder.path(), &text)
}

fn load_in(folder: &Path, text: &str) -> Result<Config, Mistakes> {
    let path = folder.join("hapax.toml");
    std::fs::write(&path, text).unwrap();
    config::load(&path, &|_| None)
}

fn loaded(document: &Value) -> Config {
    load(&[("api.json", &document.to_string())], "").unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn mistakes(documents: &[(&str, &str)]) -> Vec<String> {
    let mistakes = load(documents, "").expect_err("mistakes");
    mistakes
        .iter()
        .map(|mistake| {
            mistake.to_string().rsplit('/').next().map_or(String::new(), |_| strip(&mistake.to_string()))
        })
        .collect()
}

/// Without the folder.
fn strip(text: &str) -> String {
    let at = text.find("api.").or_else(|| text.find("hapax.toml")).unwrap_or(0);
    text[at..].to_owned()
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_document_p4() {
    let routes = loaded(&sample()).settings.routes.len();
    let yaml = "openapi: 3.1.0\npaths: {/a: {post: {operationId: a, x-idempotency-policy: ACCEPTED}}}";
    for (name, text, routes) in [("api.json", sample().to_string(), routes), ("api.yaml", yaml.into(), 1)] {
        let config = load(&[(name, &format!("\u{feff}{text}"))], "");
        let config = config.unwrap_or_else(|mistakes| panic!("{name}: {mistakes}"));
        assert_eq!(config.settings.routes.len(), routes, "{name}");
    }
}

fn sample() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Shop", "version": "1", "x-team": "pay"},
        "servers": [{"url": "https://shop.example"}],
        "paths": {
            "/payments": {
                "summary": "Payments",
                "post": {
                    "operationId": "payments.create",
                    "tags": ["pay"],
                    "x-idempotency-policy": "REQUIRED_A",
                    "x-idempotency-retention": "7d",
                    "x-idempotency-rerun": "unsafe",
                    "x-idempotency-fingerprint": "json",
                    "x-idempotency-ignore": ["/sent_at"],
                    "x-idempotency-scope": "project",
                    "responses": {"201": {"description": "Charged"}, "400": {"description": "No"}},
                },
                "get": {"operationId": "payments.list", "responses": {}},
            },
            "/orders/{order-id}/notes": {
                "parameters": [{"name": "order-id", "in": "path", "required": true, "schema": {"type": "integer"}}],
                "post": {
                    "operationId": "orders.note",
                    "x-idempotency-policy": "ACCEPTED",
                    "x-idempotency-rerun": "ask",
                    "x-idempotency-reconcile": "/reconcile",
                    "x-idempotency-key-from": "fingerprint",
                    "responses": {},
                },
                "delete": {"x-idempotency-policy": "PROHIBITED", "x-idempotency-lenient": true, "responses": {}},
            },
        },
        "components": {"schemas": {"Money": {"type": "string"}}},
    })
}

#[test]
fn routes_are_read_from_a_document_p4() {
    let config = loaded(&sample());
    let routes = &config.settings.routes;
    assert_eq!(routes.len(), 3);
    let find = |name: &str| {
        routes
            .iter()
            .find(|route| route.rule.as_ref().is_some_and(|rule| rule.operation.as_str() == name))
            .unwrap()
    };
    let pay = find("payments.create");
    let rule = pay.rule.as_ref().unwrap();
    assert_eq!((pay.method.as_str(), &*pay.path, pay.policy), ("POST", "/payments", Policy::RequiredA));
    assert_eq!(rule.retention, Retention::For(std::time::Duration::from_secs(7 * 86_400)));
    assert_eq!((rule.rerun, rule.width), (Rerun::Unsafe, Width::Project));
    assert_eq!(rule.recipe.ignored()[0].as_str(), "/sent_at");
    let note = find("orders.note");
    assert_eq!((note.policy, note.reconcile.as_deref()), (Policy::Accepted, Some("/reconcile")));
    assert!(note.rule.as_ref().unwrap().derived.is_some());
    assert!(routes.iter().any(|route| route.policy == Policy::Prohibited && route.lenient));
}

#[test]
fn yaml_is_read_as_well_p4() {
    let text = "openapi: 3.0.3\ninfo: {title: a, version: '1'}\npaths:\n  /payments:\n    post: &pay\n      operationId: pay\n      \
                x-idempotency-policy: REQUIRED_A\n      x-idempotency-retention: 7d\n      x-idempotency-mismatch-status: 409\n      \
                responses:\n        201:\n          description: done\n";
    let config = load(&[("api.yaml", text)], "").unwrap();
    let rule = config.settings.routes[0].rule.as_ref().unwrap();
    assert_eq!((rule.operation.as_str(), rule.mismatch_status), ("pay", 409));
    assert!(mistakes(&[("api.yml", "a: [")])[0].contains("is no YAML"));
    assert!(mistakes(&[("api.yml", "a: 1\n---\nb: 2\n")])[0].contains("exactly one YAML document"));
}

#[test]
fn a_prefix_stands_before_every_path_p4() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("api.json"), sample().to_string()).unwrap();
    let text = "[upstreams.pay]\nurl = \"http://h\"\n[[openapi]]\nfile = \"api.json\"\nupstream = \"pay\"\nprefix = \"/api/v1\"\n";
    let config = load_in(folder.path(), text).unwrap();
    assert!(config.settings.routes.iter().all(|route| route.path.starts_with("/api/v1/")));
    let written = write::document(&config, "/api/v1").unwrap();
    assert!(
        written["paths"]["/payments"]["post"].is_object()
            && written["paths"]["/operations/{operation_id}"].is_null()
    );
}

#[test]
fn mistakes_name_the_file_and_the_pointer_p5() {
    let mut document = sample();
    let pay = &mut document["paths"]["/payments"]["post"];
    pay["x-idempotency-policy"] = "REQUIRED".into();
    pay["x-idempotency-retention"] = 7.into();
    pay["x-idempotency-colour"] = "red".into();
    let note = &mut document["paths"]["/orders/{order-id}/notes"]["post"];
    note["operationId"] = Value::Null;
    note["x-idempotency-rerun"] = "maybe".into();
    document["paths"]["/more"] = json!({"$ref": "#/x", "put": {"x-idempotency-retention": "1h"}});
    let told = mistakes(&[("api.json", &document.to_string())]);
    for (pointer, part) in [
        ("/paths/~1payments/post/x-idempotency-policy", "cannot be \"REQUIRED\""),
        ("/paths/~1payments/post/x-idempotency-colour", "says nothing about a route"),
        ("/paths/~1orders~1{order-id}~1notes/post/operationId", "cannot be null"),
        ("/paths/~1orders~1{order-id}~1notes/post/x-idempotency-rerun", "\"maybe\""),
        ("/paths/~1more/$ref", "not followed"),
        ("/paths/~1more/put", "`policy` is missing"),
    ] {
        let wanted = format!("api.json#{pointer}: ");
        assert!(
            told.iter().any(|line| line.starts_with(&wanted) && line.contains(part)),
            "{pointer}: {told:#?}"
        );
    }
    pay_as_integer_is_told();
}

fn pay_as_integer_is_told() {
    let mut document = sample();
    document["paths"]["/payments"]["post"]["x-idempotency-retention"] = 7.into();
    let told = mistakes(&[("api.json", &document.to_string())]);
    assert!(told.len() == 1 && told[0].contains("`retention` cannot be an integer"), "{told:#?}");
}

#[test]
fn a_file_that_is_no_document_is_told_p5() {
    for (name, text, part) in [
        ("api.json", "{", "is no JSON"),
        ("api.json", "{}", "no OpenAPI 3 document"),
        ("api.json", "{\"swagger\": \"2.0\"}", "no OpenAPI 3 document"),
        ("api.json", "{\"openapi\": \"3.1.0\"}", "there are no paths"),
        ("api.txt", "", "neither .json nor .yaml"),
    ] {
        let told = mistakes(&[(name, text)]);
        assert!(told.len() == 1 && told[0].contains(part), "{told:#?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let told = load_in(folder.path(), "[[openapi]]\nfile = \"gone.json\"\nupstream = \"x\"\n")
        .unwrap_err()
        .to_string();
    assert!(told.contains("hapax.toml:2:8: ") && told.contains("cannot be read"), "{told}");
}

/// Everything that takes effect of each route.
fn essence(config: &Config) -> Vec<String> {
    let mut routes: Vec<_> =
        config.to_json()["routes"].as_array().unwrap().iter().map(Value::to_string).collect();
    routes.sort();
    routes
}

#[test]
fn what_was_written_reads_back_as_the_same_p4() {
    let first = load(
        &[("api.json", &sample().to_string())],
        "[[routes]]\nmethod = \"PUT\"\npath = \"/x/{a}\"\noperation = \"x\"\npolicy = \"REQUIRED_B\"\nidentifier = { json = \"/id\" }\nupstream = \"pay\"\n\
         retention = \"forever\"\nlevel = \"tenant\"\nfingerprint_headers = [\"b\"]\n",
    )
    .unwrap();
    let again = loaded(&write::document(&first, "").unwrap());
    assert_eq!(essence(&first), essence(&again));
    assert_eq!(first.settings.routes.len(), 4);
}

#[test]
fn a_written_document_tells_callers_about_keys_recall_and_problems_p4() {
    let document = write::document(&loaded(&sample()), "").unwrap();
    let pay = &document["paths"]["/payments"]["post"];
    let key = pay["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .find(|parameter| parameter["name"] == "Idempotency-Key")
        .unwrap();
    assert_eq!((&key["in"], &key["required"]), (&"header".into(), &true.into()));
    assert_eq!(
        (&pay["x-idempotency-policy"], &pay["x-idempotency-retention"]),
        (&"REQUIRED_A".into(), &"7d".into())
    );
    let codes = &pay["responses"]["422"]["content"]["application/problem+json"]["schema"]["allOf"][1]["properties"]
        ["code"]["enum"];
    assert_eq!(codes, &json!(["key-reused"]));
    assert!(pay["responses"]["400"]["description"].as_str().unwrap().contains("key-missing"));
    assert!(pay["responses"]["503"]["headers"]["Retry-After"].is_object());
    let note = &document["paths"]["/orders/{order-id}/notes"];
    let key = note["post"]["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .find(|parameter| parameter["name"] == "Idempotency-Key");
    assert_eq!(key.unwrap()["required"], false);
    assert!(
        note["delete"]["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .all(|parameter| parameter["name"] != "Idempotency-Key")
    );
    for path in [
        "/payments/by-idempotency-key/{key}",
        "/payments/by-idempotency-key/{key}/output",
        "/operations/{operation_id}",
        "/operations/{operation_id}/output",
    ] {
        let get = &document["paths"][path]["get"];
        assert!(get["responses"]["404"].is_object() && get["operationId"].is_string(), "{path}: {get}");
        assert!(get["x-idempotency-policy"].is_null());
    }
    let all =
        document["components"]["schemas"]["Problem"]["properties"]["code"]["enum"].as_array().unwrap().len();
    assert_eq!(all, hapax_tower::Code::ALL.len() - super::responses::DELEGATED.len());
}

#[test]
fn a_written_document_tells_senders_where_their_identifier_goes_p4() {
    let events = |identifier: &str| {
        let route = format!(
            "[[routes]]\nmethod = \"POST\"\npath = \"/events\"\noperation = \"events\"\npolicy = \"REQUIRED_B\"\n\
             identifier = {identifier}\nupstream = \"pay\"\n"
        );
        let config = load(&[("api.json", &sample().to_string())], &route).unwrap();
        write::document(&config, "").unwrap()["paths"]["/events"]["post"].clone()
    };
    let header = events("{ header = \"X-Delivery-Id\" }");
    let told = &header["parameters"][0];
    assert_eq!(
        (&told["name"], &told["in"], &told["required"]),
        (&"x-delivery-id".into(), &"header".into(), &true.into())
    );
    assert_eq!(
        (&told["schema"]["maxLength"], header["parameters"].as_array().unwrap().len()),
        (&200.into(), 1)
    );
    assert_eq!(header["x-idempotency-identifier"], json!({"header": "x-delivery-id"}));
    let refused = header["responses"]["400"]["description"].as_str().unwrap();
    assert!(refused.contains("translation-failed") && !refused.contains("key-"), "{refused}");
    let json = events("{ json = \"/id\" }");
    assert_eq!(
        (&json["parameters"], &json["x-idempotency-identifier"]),
        (&Value::Null, &json!({"json": "/id"}))
    );
}

#[test]
fn a_written_document_leaves_out_what_is_never_answered_h2() {
    let written = write::document(&loaded(&sample()), "").unwrap().to_string();
    let cluster = "[upstreams.engine]\nkind = \"restate\"\ningress = \"http://h\"\nadmin = \"http://h\"\n\
                   [[routes]]\nmethod = \"POST\"\npath = \"/a\"\noperation = \"a\"\npolicy = \"REQUIRED_A\"\nupstream = \"engine\"\n\
                   restate = { service = \"Secret\", handler = \"hidden\" }\n";
    let folder = tempfile::tempdir().unwrap();
    let delegated = load_in(folder.path(), cluster).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let delegated = write::document(&delegated, "").unwrap().to_string();
    for code in super::responses::DELEGATED {
        assert!(!written.contains(code.as_str()), "{}", code.as_str());
        assert!(delegated.contains(code.as_str()), "{}", code.as_str());
    }
    for word in ["Secret", "hidden", "restate"] {
        assert!(!delegated.contains(word), "callers do not learn what stands behind: {word}");
    }
    assert!(written.contains("outcome-unknown"), "the control: what is answered is there");
}

#[test]
fn adding_to_a_document_keeps_the_rest_and_can_be_repeated_p4() {
    let config = loaded(&sample());
    let mut document = sample();
    document["paths"]["/payments"]["post"]["parameters"] =
        json!([{"name": "idempotency-key", "in": "header"}, {"name": "X-Trace", "in": "header"}]);
    document["paths"]["/payments"]["post"]["x-idempotency-on-5xx"] = "keep".into();
    let before = document.clone();
    write::into(&mut document, &config, &ANYWHERE).unwrap();
    for pointer in [
        "/info",
        "/servers",
        "/components/schemas/Money",
        "/paths/~1payments/summary",
        "/paths/~1payments/get",
        "/paths/~1payments/post/tags",
        "/paths/~1payments/post/responses/201",
        "/paths/~1payments/post/responses/400/description",
        "/paths/~1orders~1{order-id}~1notes/parameters",
    ] {
        assert_eq!(document.pointer(pointer), before.pointer(pointer), "{pointer}");
    }
    let pay = &document["paths"]["/payments"]["post"];
    let names: Vec<_> =
        pay["parameters"].as_array().unwrap().iter().map(|parameter| parameter["name"].clone()).collect();
    assert_eq!(names, ["X-Trace", "Idempotency-Key"]);
    assert!(pay["responses"]["400"]["content"]["application/problem+json"].is_object());
    assert!(
        document["paths"]["/orders/{order-id}/notes"]["post"]["parameters"].as_array().unwrap().len() == 1
    );
    assert_eq!(essence(&loaded(&document)), essence(&config));
    let mut again = document.clone();
    write::into(&mut again, &config, &ANYWHERE).unwrap();
    assert_eq!(document, again);
}

#[test]
fn what_is_no_document_is_not_added_to() {
    let config = loaded(&sample());
    for document in [json!([]), json!({"swagger": "2.0"}), json!({"openapi": "3.1.0", "paths": []})] {
        let mut changed = document.clone();
        assert!(write::into(&mut changed, &config, &ANYWHERE).is_err());
        assert_eq!(changed, document);
    }
}

#[test]
fn a_schema_of_the_same_name_stays_its_authors_p4() {
    let config = loaded(&sample());
    let mut document = sample();
    let theirs = json!({"type": "string", "description": "theirs"});
    document["components"]["schemas"]["Problem"] = theirs.clone();
    for _ in 0..2 {
        write::into(&mut document, &config, &ANYWHERE).unwrap();
        let schemas = &document["components"]["schemas"];
        assert_eq!(schemas["Problem"], theirs);
        assert!(schemas["HapaxProblem"]["properties"]["code"].is_object(), "{schemas}");
        let used = &document["paths"]["/payments"]["post"]["responses"]["409"]["content"]["application/problem+json"]
            ["schema"]["allOf"][0]["$ref"];
        assert_eq!(used, "#/components/schemas/HapaxProblem");
    }
    document["components"]["schemas"]["HapaxProblem"] = theirs;
    let before = document.clone();
    let told = write::into(&mut document, &config, &ANYWHERE).unwrap_err();
    assert!(told.contains("#/components/schemas has a HapaxProblem"), "{told}");
    assert_eq!(document, before);
}

#[test]
fn what_is_no_object_is_told_and_stays_p4() {
    let config = loaded(&sample());
    for (pointer, name, wrong) in [
        ("", "paths", json!([])),
        ("", "components", json!("x")),
        ("/components", "schemas", json!([])),
        ("/paths", "/payments", json!(null)),
        ("/paths/~1payments", "post", json!([])),
        ("/paths/~1payments/post", "parameters", json!({})),
        ("/paths/~1payments/post", "responses", json!([])),
        ("/paths/~1payments/post/responses", "409", json!([])),
        ("/paths/~1payments/post/responses", "400", json!(null)),
        ("/paths/~1payments/post/responses/400", "content", json!([])),
        ("/paths", "/operations/{operation_id}", json!(1)),
    ] {
        let mut document = sample();
        let parent = if pointer.is_empty() { &mut document } else { document.pointer_mut(pointer).unwrap() };
        parent[name] = wrong;
        let before = document.clone();
        let told = write::into(&mut document, &config, &ANYWHERE).expect_err(name);
        let at = format!("#{pointer}/{} is no ", name.replace('/', "~1"));
        assert!(told.starts_with(&at), "{at}: {told}");
        assert_eq!(document, before, "{at}");
    }
}
