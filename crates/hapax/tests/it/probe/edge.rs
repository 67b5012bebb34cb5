//! The probe against hapax's own edge, as `hapax serve` runs it: with two operations, and over TLS.

use serde_json::Value;

use super::{probe, probed, rows};
use crate::rig::{Ground, Kind};

/// Certificates of the edge's own tests: an authority, and what it signed for `localhost` and 127.0.0.1.
fn certificate(name: &str) -> String {
    format!("{}/../hapax-http/tests/it/tls/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Two callers, and a body that every route takes.
const CALLERS: &[&str] = &[
    "--body-json",
    r#"{"amount": 10}"#,
    "--race",
    "10",
    "--header",
    "x-tenant-id: acme",
    "--header",
    "x-project-id: web",
    "--header",
    "x-subject: user:alice",
    "--other-header",
    "x-subject: user:bob",
];

async fn probed_with(url: String, args: Vec<String>) -> (Option<i32>, Value) {
    let run = move || {
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        probed(&[&[url.as_str()], CALLERS, &args].concat())
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_means_something_else_on_another_path_of_the_edge_k6_m5() {
    let ground = Ground::new(Kind::Embedded).await;
    let edge = ground.serve().await;
    let url = format!("http://{}/charges", edge.edge);
    let (code, report) = probed_with(url, vec!["--other-path".into(), "/notes".into()]).await;
    assert_eq!((code, &report["verdict"]), (Some(0), &Value::from("pass")), "{report:#}");
    assert!(rows(&report, "pass").contains(&"other-path".to_owned()), "{report:#}");
    let notes = ground.service.done().iter().filter(|done| done.is_on("/notes")).count();
    assert_eq!(notes, 2, "the control with a key of its own, and the used key: {report:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_edge_is_probed_over_tls_with_the_authority_that_signed_for_it_m5() {
    let mut ground = Ground::new(Kind::Embedded).await;
    let (cert, key) = (certificate("server.crt"), certificate("server.key"));
    ground.sections = format!("[edge.tls]\ncert = \"{cert}\"\nkey = \"{key}\"\n");
    let edge = ground.serve().await;
    for host in ["127.0.0.1", "localhost"] {
        let url = format!("https://{host}:{}/charges", edge.edge.port());
        let (code, report) = probed_with(url, vec!["--cacert".into(), certificate("ca.crt")]).await;
        assert_eq!((code, &report["verdict"]), (Some(0), &Value::from("pass")), "{report:#}");
    }
    let before = ground.service.count();
    let url = format!("https://{}/charges", edge.edge);
    let done =
        tokio::task::spawn_blocking(move || probe(&[&[url.as_str()], CALLERS].concat())).await.unwrap();
    let told = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(3), "the system does not know that authority: {told}");
    assert!(told.contains("cannot be reached") && told.contains("certificate"), "{told}");
    assert_eq!(ground.service.count(), before);
}

#[test]
fn what_cannot_be_trusted_is_told_before_anything_is_sent_m5() {
    let ca = certificate("ca.crt");
    let key = certificate("server.key");
    for (url, file, why) in [
        ("http://127.0.0.1:1/", ca.as_str(), "https"),
        ("https://127.0.0.1:1/", "/no/such/file", "No such file"),
        ("https://127.0.0.1:1/", key.as_str(), "no certificates"),
    ] {
        let done = probe(&[url, "--cacert", file]);
        let told = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.code() == Some(2) && told.contains(why), "{url} {file}: {told}");
    }
}
