//! Operators and the calls that a cluster keeps (D2, M6).

use std::process::Output;

use serde_json::{Value, json};

use super::*;
use crate::rig::caller::ALICE;
use crate::rig::hapax;

/// Runs the program against this instance.
async fn run(edge: &Hapax, args: &[&str]) -> Output {
    let mut command = hapax(args);
    command.args(["--admin", &format!("http://{}", edge.admin)]);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn out(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_purged_or_killed_by_whoever_names_its_scope_and_the_key_runs_again_d2() {
    let ground = Ground::new(1, "").await;
    let edge = ground.edge("one").await;
    let body = r#"{"status": 402, "message": "no funds"}"#;
    let refused = post(&edge, ALICE, "/refusals", "order", body).await;
    assert_eq!(refused.status, 402);
    // Another tenant has the same key, and one whose name is how the first one's keys begin.
    assert_eq!(post(&edge, ELSEWHERE, "/refusals", "order", body).await.status, 402);
    let listed = run(&edge, &["delegated", "list", "--tenant", "acme", "--json"]).await;
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let calls = listed["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 1, "{listed}");
    let call = &calls[0];
    assert_eq!(
        (&call["tenant"], &call["project"], &call["subject"], &call["key"], &call["status"]),
        (&json!("acme"), &json!("web"), &json!("user:alice"), &json!("order"), &json!("completed"))
    );
    let id = call["invocation_id"].as_str().unwrap();
    let public = refused.header("x-operation-id").unwrap();
    // The last one would make the beginning of this key, and is no project.
    for (tenant, project, code) in [("globex", "web", 1), ("acme", "shop", 1), ("acm", "e:web", 2)] {
        let args = ["delegated", "purge", id, "--tenant", tenant, "--project", project, "--reason", "mine"];
        let no = run(&edge, &args).await;
        assert_eq!(no.status.code(), Some(code), "{tenant} {project}: {}", out(&no));
    }
    assert!(post(&edge, ALICE, "/refusals", "order", body).await.is_replay(), "nothing was purged");
    let scope = ["--tenant", "acme", "--project", "web", "--subject", "user:alice"];
    let shown = run(&edge, &[&["delegated", "show", public][..], &scope].concat()).await;
    assert!(shown.status.success() && out(&shown).contains(id), "{}", out(&shown));
    let purged =
        run(&edge, &[&["delegated", "purge", public, "--reason", "funds came"][..], &scope].concat()).await;
    assert!(purged.status.success(), "{}", out(&purged));
    let again = post(&edge, ALICE, "/refusals", "order", body).await;
    assert_eq!((again.status, again.is_replay(), ground.count("refuse")), (402, false, 3));

    // A call that has not come to its end is not purged, and is killed and purged at once.
    let waiting = edge.begin("/never", "stuck", "", "");
    let begun = std::time::Instant::now();
    let stuck = loop {
        let listed = run(&edge, &["delegated", "list", "--tenant", "acme", "--json"]).await;
        let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
        let calls = listed["calls"].as_array().unwrap();
        if let Some(call) = calls.iter().find(|call| call["handler"] == "never") {
            break call["invocation_id"].as_str().unwrap().to_owned();
        }
        assert!(begun.elapsed().as_secs() < 20);
    };
    let no = run(&edge, &["delegated", "purge", &stuck, "--tenant", "acme", "--reason", "x"]).await;
    assert_eq!(no.status.code(), Some(1), "{}", out(&no));
    let killed = run(&edge, &["delegated", "kill", &stuck, "--tenant", "acme", "--reason", "stuck"]).await;
    assert!(killed.status.success(), "{}", out(&killed));
    let told = waiting.await.unwrap().unwrap();
    assert!(matches!(told.status, 409 | 503), "{told:?}");
    let show = run(&edge, &["delegated", "show", &stuck, "--tenant", "acme"]).await;
    assert_eq!(show.status.code(), Some(1), "{}", out(&show));
    let audit = edge.ask("GET /v1/audit", "").await.text();
    for verb in ["delegated-purge", "delegated-kill"] {
        assert!(audit.contains(verb), "{audit}");
    }
    assert!(audit.contains("funds came") && audit.contains("stuck"), "{audit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_is_kept_by_every_service_that_has_it_outcome_and_journal_together_p5() {
    let ground = Ground::new(1, "").await;
    let edge = ground.edge("one").await;
    let set = run(&edge, &["retention", "set", "interactive", "3d", "--reason", "disputes", "--json"]).await;
    assert!(set.status.success(), "{}", out(&set));
    let told: Value = serde_json::from_slice(&set.stdout).unwrap();
    let services = told["delegated"].as_array().unwrap();
    let of = |name: &str| services.iter().find(|service| service["service"] == name).unwrap().clone();
    for name in ["Payments", "Trouble", "Account"] {
        assert_eq!(
            (&of(name)["idempotency_retention"], &of(name)["problem"]),
            (&json!("3d"), &Value::Null),
            "{told}"
        );
        let (_, kept) = ground.restate.admin("GET", &format!("/services/{name}"), "");
        assert_eq!(
            (&kept["idempotency_retention"], &kept["journal_retention"]),
            (&json!("3d"), &json!("3d"))
        );
    }
    assert!(of("Nowhere")["problem"].as_str().unwrap().contains("no such service"), "{told}");
    let unset = run(&edge, &["retention", "unset", "interactive", "--reason", "over"]).await;
    assert!(unset.status.success(), "{}", out(&unset));
    let (_, kept) = ground.restate.admin("GET", "/services/Payments", "");
    assert_eq!(kept["idempotency_retention"], "1d");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_looks_at_the_cluster_m6() {
    let mut ground = Ground::new(1, "").await;
    let path = ground.folder.path().join("doctor.toml");
    std::fs::write(&path, ground.configuration()).unwrap();
    assert_eq!(ground.restate.call("/Payments/charge", "k", r#"{"amount": 1}"#).0, 200);
    let doctor = async |path: &std::path::Path| {
        let mut command = hapax(&["doctor", "--config", &path.display().to_string()]);
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    };
    let told = out(&doctor(&path).await);
    for part in [
        "version 1.7.12",
        "kept answers say until when",
        "can be reached",
        "no service Nowhere is registered",
        "on_max_attempts = Pause",
        "on_max_attempts = Kill",
        "Payments keeps outcomes for 1d and journals for 1d",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // Journals that go before outcomes, and an object that its route takes for a service.
    let (status, _) = ground.restate.admin("PATCH", "/services/Payments", r#"{"journal_retention": "1h"}"#);
    assert_eq!(status, 200);
    let wrong = ground
        .configuration()
        .replace("path = \"/echo\"", "path = \"/wrong\"")
        .replace("service = \"Trouble\", handler = \"echo\"", "service = \"Account\", handler = \"balance\"");
    std::fs::write(&path, wrong).unwrap();
    let told = out(&doctor(&path).await);
    assert!(told.contains("set both together"), "{told}");
    assert!(told.contains("Account has no handler balance"), "{told}");
    ground.restate.kill(0);
    let away = doctor(&path).await;
    assert!(!away.status.success() && out(&away).contains("start it, or mend `admin`"), "{}", out(&away));
}
