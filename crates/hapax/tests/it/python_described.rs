//! The APIs as Schemathesis reads their descriptions: it asks for what they allow and for what they do not, and no answer may be a
//! server's error, or one that is not described (M4).

use std::path::Path;
use std::process::Command;

use crate::claims_cli::told;
use crate::rig::TOKEN;
use crate::webhooks_cli::{self, create};

/// What an answer is held against.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
                      response_schema_conformance";

/// Asks an API about everything in its description, a few times each, always the same.
async fn asked(document: &str, base: &str, token: &str, config: Option<&Path>) {
    let python = std::env::var("HAPAX_TEST_PYTHON")
        .expect("`cargo xtask test` installs peers and sets HAPAX_TEST_PYTHON");
    let mut schemathesis = Command::new(format!("{python}/bin/schemathesis"));
    if let Some(config) = config {
        schemathesis.arg("--config-file").arg(config);
    }
    schemathesis.args(["run", document, "--url", base, "--checks", CHECKS, "--phases", "examples,fuzzing"]);
    schemathesis.args(["--max-examples", "6", "--seed", "19", "--no-shrink", "--continue-on-failure"]);
    schemathesis.args(["--generation-database", "none", "--warnings", "off"]);
    // It cannot write lines of JSON; what an import takes is tried in `transfers`.
    schemathesis.args(["--exclude-operation-id", "importExecution"]);
    schemathesis.args(["--header", &format!("Authorization: Bearer {token}")]);
    let folder = tempfile::tempdir().unwrap();
    schemathesis.current_dir(&folder).env("NO_COLOR", "1");
    let told = told(schemathesis).await;
    assert_eq!(told.code, 0, "{}\n{}", told.out, told.err);
    assert!(told.out.contains("Tested: "), "{}", told.out);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_admin_api_answers_everything_as_it_is_described_m4() {
    let ground = webhooks_cli::ground().await;
    let server = ground.serve().await;
    server.post("/charges", "settled", "{}", "").await;
    server.post("/charges", "doubt", "{}", "cut").await;
    let hook = create(&server, "github", webhooks_cli::SECRET, &[]).await;
    let base = format!("http://{}", server.admin);
    let document = format!("{base}/openapi.json");
    asked(&document, &base, TOKEN, None).await;
    // With ids that are there, beyond "not found".
    let claim = server.claims("in_doubt").await[0]["operation_id"].as_str().unwrap().to_owned();
    let config = ground.folder.path().join("schemathesis.toml");
    let ids = format!("[parameters]\noperation_id = \"{claim}\"\nwebhook_id = {}\n", hook["webhook_id"]);
    std::fs::write(&config, ids).unwrap();
    asked(&document, &base, TOKEN, Some(&config)).await;
    let health = server.ask("GET /healthz", "").await;
    assert_eq!(health.status, 200, "{}", server.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_application_api_answers_everything_as_it_is_described_m4() {
    let ground = webhooks_cli::ground().await;
    let server = ground.serve().await;
    let args = ["keys", "create", "--tenant", "acme", "--project", "web", "--subject", "service:ci"];
    let made = webhooks_cli::run(&server, "", &args).await;
    assert_eq!(made.code, 0, "{}", made.err);
    let base = format!("http://{}", server.api());
    asked(&format!("{base}/openapi.json"), &base, made.out.trim(), None).await;
    let health = server.ask("GET /healthz", "").await;
    assert_eq!(health.status, 200, "{}", server.told());
}
