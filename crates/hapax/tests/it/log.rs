//! Where the log cannot be written (O2).

use std::fs::File;
use std::process::Stdio;

use crate::rig::process::eventually;
use crate::rig::{Ground, Hapax, Kind};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_that_cannot_be_written_are_counted_o2() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let full = File::options().write(true).open("/dev/full").unwrap();
    for (place, log) in [("a full disk", Stdio::from(full)), ("nobody", Stdio::from(writer))] {
        let ground = Ground::new(Kind::Embedded).await;
        let edge = Hapax::start_telling(&ground.write("hapax"), log).await;
        for number in 0..20 {
            assert_eq!(edge.post("/charges", &format!("k-{number}"), "{}", "").await.status, 201, "{place}");
        }
        eventually(place, async || {
            let metrics = edge.ask("GET /metrics", "").await.text();
            let name = "hapax_log_lines_dropped_total ";
            let dropped = metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            dropped.parse::<u64>().unwrap() >= 20
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_told_as_wide_as_its_route_tells_callers_apart_o2_k8() {
    let mut ground = Ground::new(Kind::Embedded).await;
    for (path, scope) in [("/of-tenant", "tenant"), ("/of-project", "project")] {
        ground.routes.push_str(&format!(
            "[[routes]]\nmethod = \"POST\"\npath = \"{path}\"\noperation = \"shared.{scope}\"\npolicy = \"REQUIRED_A\"\n\
             scope = \"{scope}\"\nupstream = \"service\"\n"
        ));
    }
    let edge = ground.serve().await;
    for path in ["/of-tenant", "/of-project", "/charges"] {
        assert_eq!(edge.post(path, "k", "{}", "").await.status, 201, "{path}");
    }
    for whose in ["acme:_any:_any", "acme:web:_any", "acme:web:user:alice"] {
        edge.tells(&format!("t-{whose}:#")).await;
    }
}
