//! `hapax config` and `hapax openapi`, as they are called.

use std::path::Path;
use std::process::{Command, Output};

fn hapax(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
    command.args(arguments).env_clear().envs(variables.iter().copied());
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

const GIVEN: [(&str, &str); 2] =
    [("HAPAX_JWT_SECRET", "not to be shown, whatever happens"), ("HAPAX_ADMIN_TOKEN", "nor-this")];

fn example() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hapax.toml").display().to_string()
}

#[test]
fn config_check_says_ok_and_exits_with_0_p5() {
    let output = hapax(&["config", "check", &example()], &GIVEN);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output.stdout).contains("hapax.toml: ok, 4 routes (3 keyed), 1 upstream, "), "{output:?}");
    let json = hapax(&["config", "check", "--json", &example()], &GIVEN);
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&report["ok"], &report["routes"]), (&true.into(), &4.into()));
    assert!(report["notices"].is_array() && !report["notices"].to_string().contains("[api]"), "{report}");
}

#[test]
fn config_check_tells_every_mistake_and_exits_with_1_p5() {
    let output = hapax(&["config", "check", &example()], &[]);
    assert_eq!(output.status.code(), Some(1));
    let lines: Vec<_> = text(&output.stdout).lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("hapax.toml:21:13: ") && lines[0].contains("HAPAX_ADMIN_TOKEN"), "{lines:?}");
    assert!(lines[1].contains("HAPAX_JWT_SECRET"), "{lines:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    let json = hapax(&["config", "check", "--json", &example()], &[]);
    assert_eq!(json.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&report["mistakes"][0]["line"], &report["mistakes"][0]["column"]), (&21.into(), &13.into()));
}

#[test]
fn config_show_prints_defaults_and_no_secrets() {
    let output = hapax(&["config", "show", &example()], &GIVEN);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let shown = text(&output.stdout);
    for part in [
        "header_timeout = \"10s\"",
        "token = \"(set)\"",
        "secret = \"(set)\"",
        "scope = \"subject\"",
        "connect_timeout",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(GIVEN.iter().all(|(_, secret)| !shown.contains(secret)), "{shown}");
    let json = hapax(&["config", "show", "--json", &example()], &GIVEN);
    let shown: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(shown["routes"][0]["give_up"], "15m");
    assert_eq!(hapax(&["config", "show", "no/such/file"], &[]).status.code(), Some(1));
}

#[test]
fn openapi_is_printed_or_added_to_a_document_p4() {
    let output = hapax(&["openapi", "--config", &example()], &GIVEN);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["paths"]["/api/v1/payments"]["post"]["x-idempotency-retention"], "critical");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("api.json");
    std::fs::write(&path, r#"{"openapi": "3.1.0", "x-ours": 1, "paths": {"/other": {"get": {}}}}"#).unwrap();
    let into = path.display().to_string();
    let arguments = ["openapi", "--config", &example(), "--into", &into];
    assert_eq!(hapax(&arguments, &GIVEN).status.code(), Some(0));
    let first = std::fs::read_to_string(&path).unwrap();
    let document: serde_json::Value = serde_json::from_str(&first).unwrap();
    assert_eq!((&document["x-ours"], document["paths"]["/other"]["get"].is_object()), (&1.into(), true));
    assert!(document["paths"]["/api/v1/payments"]["post"]["responses"]["422"].is_object());
    let at = |part: &str| first.find(part).unwrap();
    assert!(
        at("\"openapi\"") < at("\"x-ours\"") && at("\"x-ours\"") < at("\"paths\""),
        "the order is kept: {first}"
    );
    assert_eq!(hapax(&arguments, &GIVEN).status.code(), Some(0));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), first, "a second run changes nothing");
}

#[test]
fn openapi_into_the_document_that_is_read_changes_no_route_p4() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    let api = file(
        "api.json",
        r##"{"openapi": "3.1.0", "paths": {"/pay": {"post": {"operationId": "pay", "x-idempotency-policy": "REQUIRED_A",
            "x-idempotency-was": "payments.old", "x-idempotency-retention": "critical", "x-idempotency-keep": "fact",
            "x-idempotency-on-5xx": "doubt", "x-idempotency-give-up": "20m", "x-idempotency-timeout": "30s",
            "x-idempotency-attach": "reject", "x-idempotency-max-request-body": "64KiB"}}}}"##,
    );
    let config = file(
        "hapax.toml",
        "[retention]\ncritical = \"7d\"\n[upstreams.u]\nurl = \"http://127.0.0.1:9000\"\n\
         [[openapi]]\nfile = \"api.json\"\nupstream = \"u\"\nprefix = \"/v1\"\n",
    );
    let show = || text(&hapax(&["config", "show", &config], &[]).stdout).to_owned();
    let before = show();
    assert!(before.contains("was = \"payments.old\"") && before.contains("path = \"/v1/pay\""), "{before}");
    let output = hapax(&["openapi", "--config", &config, "--into", &api], &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(show(), before);
    let output = hapax(&["openapi", "--config", &config, "--into", &api, "--prefix", "/"], &[]);
    assert_eq!(output.status.code(), Some(2), "its routes would be there twice: {output:?}");
    let written = std::fs::read_to_string(&api).unwrap();
    assert!(written.contains("\"/pay\"") && !written.contains("/v1"), "{written}");
    let broken = file(
        "broken.json",
        r#"{"openapi": "3.1.0", "paths": {"/v1/pay": {"post": {"responses": {"409": []}}}}}"#,
    );
    let output = hapax(&["openapi", "--config", &config, "--into", &broken], &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("#/paths/~1v1~1pay/post/responses/409 is no object"), "{output:?}");
}

#[test]
fn openapi_leaves_alone_what_it_cannot_add_to_p4() {
    let folder = tempfile::tempdir().unwrap();
    for (name, content, code) in
        [("a.yaml", "openapi: 3.1.0", 2), ("b.json", "{\"swagger\": \"2.0\"}", 1), ("c.json", "{", 1)]
    {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        let output =
            hapax(&["openapi", "--config", &example(), "--into", &path.display().to_string()], &GIVEN);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
    }
}

#[test]
fn a_reader_that_has_gone_is_no_reason_to_fail_m2() {
    let config = example();
    for arguments in [
        &["config", "show", &config][..],
        &["config", "show", "--json", &config],
        &["config", "check", &config],
        &["config", "check", "--json", &config],
        &["openapi", "--config", &config],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
        command.args(arguments).envs(GIVEN).stdout(writer);
        let output = command.output().unwrap();
        let told = text(&output.stderr);
        // What `check` notices about the example goes to standard error, whoever reads the rest.
        let is_quiet = told.lines().all(|line| line.contains("has no effect yet"));
        assert!(output.status.code() == Some(0) && is_quiet, "{arguments:?}: {told}");
    }
}

#[test]
fn what_cannot_be_written_is_no_success_m2() {
    let config = example();
    for arguments in [
        &["config", "show", &config][..],
        &["config", "show", "--json", &config],
        &["config", "check", &config],
        &["config", "check", "--json", &config],
        &["openapi", "--config", &config],
        &["doctor", "--store", "memory:"],
    ] {
        let full = std::fs::File::create("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
        command.args(arguments).envs(GIVEN).stdout(full);
        let output = command.output().unwrap();
        let told = text(&output.stderr);
        assert!(
            output.status.code() == Some(3) && told.contains("cannot be written"),
            "{arguments:?}: {told}"
        );
    }
}
