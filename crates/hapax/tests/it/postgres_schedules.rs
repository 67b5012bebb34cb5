//! A thousand ticks over three instances on one PostgreSQL that are killed, lose their service and get another expression: none is
//! done twice, none is lost, and no more are caught up than is said (S1, S3).

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, UNIX_EPOCH};

use crate::rig::process::eventually;
use crate::rig::{Ground, Hapax, Kind};
use crate::schedules::{AUTH, keys, schedule, serve, shown};

fn now() -> i64 {
    UNIX_EPOCH.elapsed().unwrap().as_millis() as i64
}

/// The planned times of what was done, with how often.
fn done(ground: &Ground, id: &str) -> BTreeMap<i64, usize> {
    let prefix = format!("sched.{id}.");
    let mut done = BTreeMap::new();
    for key in keys(ground) {
        if let Some(at) = key.strip_prefix(&prefix) {
            *done.entry(at.parse().unwrap()).or_insert(0) += 1;
        }
    }
    done
}

/// The planned times of ticks whose outcome is unknown: an instance was killed while they ran.
async fn in_doubt(edge: &Hapax, id: &str) -> BTreeSet<i64> {
    let prefix = format!("sched.{id}.");
    let claims = edge.claims("in_doubt").await;
    let at = |claim: &serde_json::Value| claim["key"].as_str()?.strip_prefix(&prefix)?.parse().ok();
    claims.iter().filter_map(at).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_ticks_over_three_instances_are_done_once_each_s1() {
    let mut ground = Ground::new(Kind::Postgres).await;
    ground.lease = "2s";
    ground.sections = AUTH.into();
    ground.routes = schedule("tick", "every = \"40ms\"", "catch_up = 2000");
    let a = serve(&ground, "a").await;
    let b = serve(&ground, "b").await;
    let mut c = serve(&ground, "c").await;
    ground.service.reached(150).await;
    // One is killed while it dispatches, and comes back.
    c.kill();
    ground.service.reached(300).await;
    c = serve(&ground, "c").await;
    // The service is away for a while: what was sent waits, what is due is caught up.
    ground.service.hold();
    tokio::time::sleep(Duration::from_secs(1)).await;
    ground.service.let_go();
    ground.service.reached(450).await;
    // A rolling change of the expression, instance by instance.
    let changed_after = now();
    ground.routes = schedule("tick", "every = \"30ms\"", "catch_up = 2000");
    for (name, instance) in [("a", &a), ("b", &b)] {
        ground.write(name);
        instance.reload();
        instance.tells("the configuration was reloaded").await;
    }
    let before = ground.service.count();
    ground.service.reached(before + 50).await;
    // The last one has the former expression still, and dispatches nothing; it is killed, and comes back with the new one.
    assert_eq!(shown(&c, "tick").await["here"], "differs");
    c.kill();
    let c = serve(&ground, "c").await;
    a.kill();
    ground.service.reached(1_000).await;
    let audit = b.ask("POST /v1/schedules/tick/pause", "{}").await;
    assert_eq!(audit.status, 200, "{}", audit.text());
    eventually("nothing is open", async || shown(&b, "tick").await["open"].as_array().unwrap().is_empty())
        .await;
    let status = shown(&b, "tick").await;
    let (done, doubts) = (done(&ground, "tick"), in_doubt(&b, "tick").await);
    let twice: Vec<_> = done.iter().filter(|(_, count)| **count != 1).collect();
    assert!(twice.is_empty(), "done twice: {twice:?}");
    // What is planned from the first to the last: multiples of the one interval, and from the change on of the other.
    let (first, last) = (*done.keys().next().unwrap(), *done.keys().next_back().unwrap());
    let change = *done.keys().find(|at| **at % 40 != 0).expect("the new interval");
    assert!(change >= changed_after, "it takes effect after the change");
    let former = (first..change).filter(|at| at % 40 == 0);
    let planned: BTreeSet<i64> = former.chain((change..=last).filter(|at| at % 30 == 0)).collect();
    // Right at the change a multiple of the former interval may have come before the change itself.
    let lost: Vec<i64> =
        planned.iter().copied().filter(|at| !done.contains_key(at) && !doubts.contains(at)).collect();
    let between = |at: &i64| *at > changed_after - 40 && *at < change;
    let lost: Vec<i64> = lost.into_iter().filter(|at| !between(at)).collect();
    assert!(lost.is_empty(), "lost: {lost:?} of {}; {status}", planned.len());
    let odd: Vec<_> = done.keys().filter(|at| !planned.contains(at)).collect();
    assert!(odd.is_empty(), "not planned: {odd:?}");
    assert_eq!(status["missed"], 0, "{status}");
    assert!(doubts.len() <= 3 * 64, "{}", doubts.len());
    drop(c);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_an_outage_no_more_are_caught_up_than_is_said_s3() {
    let mut ground = Ground::new(Kind::Postgres).await;
    ground.sections = AUTH.into();
    let schedules =
        [schedule("some", "every = \"100ms\"", "catch_up = 5"), schedule("none", "every = \"100ms\"", "")];
    ground.routes = schedules.concat();
    let (a, b) = (serve(&ground, "a").await, serve(&ground, "b").await);
    ground.service.reached(20).await;
    let down = now();
    a.kill();
    b.kill();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(3) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let up = now();
    let before = ground.service.count();
    let edge = serve(&ground, "a").await;
    ground.service.reached(before + 30).await;
    for (id, most) in [("some", 5), ("none", 0)] {
        let done = done(&ground, id);
        assert!(done.values().all(|count| *count == 1), "{done:?}");
        // While both were down, and when the first one was back: the last of these are caught up.
        let late = done.keys().filter(|at| **at > down + 100 && **at < up - 100).count();
        assert!(late <= most, "{id}: {late} of {most}");
        let status = shown(&edge, id).await;
        assert!(status["missed"].as_u64().unwrap() >= 20, "{status}");
        assert_eq!(status["last_missed"].as_array().unwrap().last().unwrap()["why"], "late", "{status}");
    }
}
