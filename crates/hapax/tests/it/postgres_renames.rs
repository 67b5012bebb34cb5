//! Several instances on one PostgreSQL, with old and new names of an operation side by side (K6).

use tokio_postgres::NoTls;

use crate::renames::refunds;
use crate::rig::process::eventually;
use crate::rig::{BRIEF, Ground, Hapax, Kind};

async fn serve(ground: &mut Ground, name: &str, routes: String) -> Hapax {
    ground.routes = routes;
    ground.serve_as(name).await
}

async fn end(mut edge: Hapax) {
    edge.terminate();
    assert_eq!(edge.ended().await.code(), Some(0), "{}", edge.told());
}

/// Whoever runs it, all of them have it.
async fn shared_by(ground: &Ground, edges: &[&Hapax], key: &str) {
    let before = ground.service.count();
    for (number, first) in edges.iter().enumerate() {
        let key = format!("{key}-{number}");
        ground.service.hold();
        let running = first.begin("/refunds", &key, "{}", "");
        ground.service.reached(before + number + 1).await;
        let waiting: Vec<_> = edges.iter().map(|edge| edge.begin("/refunds", &key, "{}", "")).collect();
        ground.service.let_go();
        let ran = running.await.unwrap().unwrap();
        assert_eq!((ran.status, ran.is_replay()), (201, false), "{}", ran.text());
        let ran = ran.kept();
        for waited in waiting {
            assert_eq!(waited.await.unwrap().unwrap().kept(), ran);
        }
        for edge in edges {
            assert_eq!(edge.post("/refunds", &key, "{}", "").await.kept(), ran);
        }
    }
    assert_eq!(ground.service.count(), before + edges.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_instances_share_every_claim_through_a_rolling_restart_and_back_k6() {
    let mut ground = Ground::new(Kind::Postgres).await;
    let old = refunds("refund", "");
    let new = refunds("refund.v2", "was = \"refund\"");
    let (a, b) = (serve(&mut ground, "a", old.clone()).await, serve(&mut ground, "b", old.clone()).await);
    let c = serve(&mut ground, "c", old.clone()).await;
    end(c).await;
    let c = serve(&mut ground, "c", new.clone()).await;
    shared_by(&ground, &[&a, &b, &c], "one").await;
    end(b).await;
    let b = serve(&mut ground, "b", new.clone()).await;
    // The last by hangup.
    ground.routes = new;
    ground.write("a");
    a.reload();
    a.tells("the configuration was reloaded").await;
    shared_by(&ground, &[&a, &b, &c], "two").await;
    end(a).await;
    let a = serve(&mut ground, "a", old).await;
    shared_by(&ground, &[&a, &b, &c], "three").await;
    for (edge, key) in [&a, &b, &c].into_iter().flat_map(|edge| ["one-0", "two-0"].map(|key| (edge, key))) {
        assert!(edge.post("/refunds", key, "{}", "").await.is_replay(), "{key}");
    }
    assert_eq!(ground.service.count(), 9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_name_without_a_word_is_refused_beside_an_instance_that_serves_k6() {
    let mut ground = Ground::new(Kind::Postgres).await;
    let a = serve(&mut ground, "a", refunds("refund", "")).await;
    ground.routes = refunds("money-back", "");
    let config = ground.write("b").display().to_string();
    let refused = ground.run(&["serve", "--config", &config]).await;
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(refused.err.contains("another process"), "{}", refused.err);
    end(a).await;
    let b = ground.serve_as("b").await;
    assert_eq!(b.post("/refunds", "k", "{}", "").await.status, 201);
}

/// Waits until no instance has its term running.
async fn nobody_is_there(url: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    eventually("the session lapses", async || {
        let sql = "SELECT count(*) FROM hapax.sessions WHERE until > hapax.clock()";
        client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_whose_session_had_lapsed_runs_nothing_by_what_was_changed_meanwhile_k6() {
    for changed in [refunds("refund", "scope = \"tenant\""), refunds("money-back", "")] {
        let mut ground = Ground::new(Kind::Postgres).await;
        ground.lease = BRIEF;
        let a = serve(&mut ground, "a", refunds("refund", "")).await;
        a.freeze();
        nobody_is_there(&ground.store).await;
        let b = serve(&mut ground, "b", changed).await;
        assert_eq!(b.post("/refunds", "k", "{}", "").await.status, 201);
        // One waits already when it wakes up, others come when it has renewed its session.
        let waiting = a.begin("/refunds", "k", "{}", "");
        a.thaw();
        let late = waiting.await.unwrap().unwrap();
        assert_eq!(late.problem(), (503, "ledger-unavailable".into()), "{}", late.text());
        for _ in 0..3 {
            let again = a.post("/refunds", "k", "{}", "").await;
            assert_eq!(again.problem(), (503, "ledger-unavailable".into()), "{}", again.text());
        }
        a.tells("was changed while the session of this process had lapsed").await;
        // It is taken out of rotation, too.
        eventually("it is not ready", async || a.ask("GET /readyz", "").await.status == 503).await;
        assert_eq!(b.ask("GET /readyz", "").await.status, 200);
        assert_eq!(ground.service.count(), 1);
        assert!(b.post("/refunds", "k", "{}", "").await.is_replay());
        // Where everything is as it was, it goes on.
        end(b).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_whose_session_had_lapsed_goes_on_where_nothing_was_changed_k6() {
    let mut ground = Ground::new(Kind::Postgres).await;
    ground.lease = BRIEF;
    let a = serve(&mut ground, "a", refunds("refund", "")).await;
    a.freeze();
    nobody_is_there(&ground.store).await;
    let b = serve(&mut ground, "b", refunds("refund.v2", "was = \"refund\"")).await;
    assert_eq!(b.post("/refunds", "k", "{}", "").await.status, 201);
    a.thaw();
    eventually("it serves again", async || a.post("/refunds", "k", "{}", "").await.is_replay()).await;
    assert_eq!(a.post("/refunds", "new", "{}", "").await.status, 201);
    assert!(b.post("/refunds", "new", "{}", "").await.is_replay());
    assert_eq!(ground.service.count(), 2);
}
