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
