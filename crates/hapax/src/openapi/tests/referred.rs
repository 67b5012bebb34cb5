//! Documents as people write them: parameters that are referred to, and paths whose parameters have other names (P4).

use super::*;

/// A document whose parameters are written once and referred to.
fn referring() -> Value {
    let key = json!({"name": "idempotency-key", "in": "header", "schema": {"type": "string"}});
    let note = json!({"name": "note-id", "in": "path", "required": true, "schema": {"format": "uuid"}});
    let order = json!({"name": "order", "in": "path", "required": true, "schema": {"type": "integer"}});
    json!({
        "openapi": "3.0.3",
        "info": {"title": "Shop", "version": "1"},
        "paths": {
            "/orders/{order}/notes/{note-id}": {
                "parameters": [{"$ref": "#/components/parameters/Order"}],
                "put": {
                    "operationId": "notes.put",
                    "x-idempotency-policy": "ACCEPTED",
                    "parameters": [
                        {"$ref": "#/components/parameters/Key"},
                        {"$ref": "#/components/parameters/note~1id"},
                        {"$ref": "#/components/parameters/Nowhere"},
                    ],
                    "responses": {"200": {"description": "put"}},
                },
            },
        },
        "components": {"parameters": {"Key": key, "note/id": note, "Order": order}},
    })
}

/// Where the parameters of an operation are and what they are called, references as they stand there.
fn parameters(operation: &Value) -> Vec<String> {
    let text = |parameter: &Value| {
        let own = parameter["$ref"].as_str().or(parameter["name"].as_str());
        own.unwrap_or_default().to_owned()
    };
    operation["parameters"].as_array().unwrap().iter().map(text).collect()
}

#[test]
fn a_parameter_that_is_referred_to_is_not_written_a_second_time_p4() {
    let mut document = referring();
    let config = loaded(&document);
    for _ in 0..2 {
        write::into(&mut document, &config, &ANYWHERE).unwrap();
        let put = &document["paths"]["/orders/{order}/notes/{note-id}"]["put"];
        let wanted =
            ["#/components/parameters/note~1id", "#/components/parameters/Nowhere", "Idempotency-Key"];
        assert_eq!(parameters(put), wanted, "{put:#}");
    }
    assert_eq!(document["components"]["parameters"], referring()["components"]["parameters"]);
}

#[test]
fn a_path_whose_parameters_have_other_names_is_the_same_path_p4() {
    let routes = "[[routes]]\nmethod = \"PUT\"\npath = \"/api/orders/{id}/notes/{note}\"\noperation = \"notes.write\"\n\
                  policy = \"REQUIRED_A\"\nupstream = \"pay\"\n";
    let config = load(&[], routes).unwrap();
    let mut document = referring();
    let target = Target { prefix: "/api", source: None };
    for _ in 0..2 {
        write::into(&mut document, &config, &target).unwrap();
        let paths = document["paths"].as_object().unwrap();
        let names: Vec<_> = paths.keys().filter(|path| !path.contains("by-idempotency-key")).collect();
        assert_eq!(names, ["/orders/{order}/notes/{note-id}"], "two paths that match the same");
        let put = &paths["/orders/{order}/notes/{note-id}"]["put"];
        assert_eq!(put["x-idempotency-policy"], "REQUIRED_A");
        assert!(!parameters(put).iter().any(|name| name == "id" || name == "note"), "{put:#}");
    }
}

#[test]
fn a_parameter_of_the_prefix_is_none_of_the_document_p4() {
    let routes = "[[routes]]\nmethod = \"POST\"\npath = \"/shops/{shop}/orders/{order}\"\noperation = \"orders.create\"\n\
                  policy = \"REQUIRED_A\"\nupstream = \"pay\"\n";
    let mut document = json!({"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "paths": {}});
    let target = Target { prefix: "/shops/{shop}", source: None };
    write::into(&mut document, &load(&[], routes).unwrap(), &target).unwrap();
    assert_eq!(parameters(&document["paths"]["/orders/{order}"]["post"]), ["order", "Idempotency-Key"]);
}

#[test]
fn a_path_item_that_is_a_reference_is_told_and_stays_p4() {
    let config = loaded(&referring());
    let mut document = referring();
    document["paths"]["/orders/{order}/notes/{note-id}"] = json!({"$ref": "notes.json"});
    let before = document.clone();
    let told = write::into(&mut document, &config, &ANYWHERE).unwrap_err();
    assert!(told.contains("notes~1{note-id} is a reference"), "{told}");
    assert_eq!(document, before);
}

#[test]
fn a_recall_whose_path_item_is_a_reference_is_told_and_stays_p4() {
    let (config, mut document) = (loaded(&referring()), referring());
    let mut written = referring();
    write::into(&mut written, &config, &ANYWHERE).unwrap();
    let is_recall = |path: &&String| !document["paths"].as_object().unwrap().contains_key(*path);
    let recalls: Vec<String> =
        written["paths"].as_object().unwrap().keys().filter(is_recall).cloned().collect();
    assert!(!recalls.is_empty());
    for path in recalls {
        document["paths"] = referring()["paths"].clone();
        document["paths"][&path] = json!({"$ref": "recall.json"});
        let before = document.clone();
        let told =
            write::into(&mut document, &config, &ANYWHERE).map_err(|told| told.contains("is a reference"));
        assert!(told == Err(true) && document == before, "{path}: {told:?}");
    }
}
