//! `hapax probe` against routes whose claims a cluster keeps: what it finds wrong with an API, it does not find here.

use std::process::Stdio;

use serde_json::Value;

use super::*;
use crate::rig::hapax;

#[tokio::test(flavor = "multi_thread")]
async fn the_probe_finds_nothing_wrong_behind_a_cluster_m5() {
    for classify in ["exact", "marker"] {
        let ground = Ground::new(1, "").await.with(&format!("classify = \"{classify}\""));
        let edge = ground.edge("one").await;
        let url = format!("http://{}/bookings", edge.edge);
        let mut command =
            hapax(&["probe", &url, "--body-json", r#"{"amount": 10}"#, "--race", "10", "--json"]);
        for header in ["x-tenant-id: acme", "x-project-id: web", "x-subject: user:alice"] {
            command.args(["--header", header]);
        }
        command.args(["--other-header", "x-subject: user:bob", "--other-path", "/echo"]).stdin(Stdio::null());
        let done = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let told = String::from_utf8_lossy(&done.stdout).into_owned();
        let report: Value = serde_json::from_str(&told).unwrap_or_else(|_| panic!("{told}"));
        let rows = |level: &str| -> Vec<String> {
            let rows = report["rows"].as_array().unwrap().iter().filter(|row| row["level"] == level);
            rows.map(|row| row["id"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!((done.status.code(), rows("fail")), (Some(0), Vec::new()), "{classify}: {report:#}");
        for row in
            ["replay", "other-body", "missing", "duplicated", "empty", "too-long", "race", "other-path"]
        {
            assert!(rows("pass").contains(&row.to_owned()), "{classify} {row}: {report:#}");
        }
    }
}
