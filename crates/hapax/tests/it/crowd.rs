//! Ten thousand callers at once with one key, through one instance: one execution, everybody answered, memory bounded (L9).

use std::time::Duration;

use crate::rig::process::eventually;
use crate::rig::{Ground, Hapax, Kind};

const CALLERS: usize = 10_000;
/// Far more than it takes, and far less than ten thousand copies of anything large.
const MOST_MEMORY_MIB: u64 = 1_024;

/// How many keyed requests have come in, as the metrics say.
pub(crate) async fn came_in(edge: &Hapax) -> usize {
    let metrics = edge.ask("GET /metrics", "").await.text();
    let counted = metrics.lines().filter(|line| line.starts_with("idempotency_key_present_total{"));
    counted.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::print_stderr, reason = "a measurement that people look at")]
async fn ten_thousand_with_one_key_run_once_and_all_are_answered_l9() {
    let ground = Ground::new(Kind::Embedded).await;
    let edge = ground.serve().await;
    let body = format!(r#"{{"note": "{}"}}"#, "x".repeat(1_000));
    ground.service.hold();
    let mut asked = Vec::with_capacity(CALLERS);
    for number in 1..=CALLERS {
        asked.push(edge.begin("/charges", "k", &body, ""));
        // Sockets are opened as fast as they are taken in.
        if number % 500 == 0 {
            eventually("they come in", async || came_in(&edge).await >= number).await;
        }
    }
    let waiting = edge.peak_memory();
    assert_eq!(ground.service.count(), 1, "one runs, all others wait for it");
    ground.service.let_go();
    let mut first = None;
    let mut replays = 0;
    for answer in asked {
        let answer = answer.await.unwrap().expect("everybody is answered");
        assert_eq!(answer.status, 201, "{answer:?}");
        replays += usize::from(answer.is_replay());
        let answer = answer.kept();
        assert_eq!(first.get_or_insert_with(|| answer.clone()), &answer);
    }
    assert_eq!((ground.service.count(), replays), (1, CALLERS - 1));
    let peak = edge.peak_memory();
    eprintln!("{CALLERS} callers on one key: {waiting} MiB while they wait, {peak} MiB at most");
    assert!(peak < MOST_MEMORY_MIB, "{peak} MiB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_keeps_no_body_l9() {
    let ground = Ground::new(Kind::Embedded).await;
    let edge = ground.serve().await;
    let body = "x".repeat(1_000_000);
    ground.service.hold();
    let mut asked = vec![edge.begin("/files", "k", &body, "")];
    ground.service.reached(1).await;
    let before = edge.present_memory();
    for _ in 0..20 {
        asked.extend((0..10).map(|_| edge.begin("/files", "k", &body, "")));
        // A few after the others, so that what those had is there for them.
        eventually("they come in", async || came_in(&edge).await == asked.len()).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // What was read last may not have been let go yet.
    eventually("their bodies are gone", async || edge.present_memory() < before + 80).await;
    assert!(edge.peak_memory() < before + 160, "{} of {before} MiB", edge.peak_memory());
    ground.service.let_go();
    for answer in asked {
        assert_eq!(answer.await.unwrap().unwrap().status, 201);
    }
    assert_eq!(ground.service.count(), 1);
}
