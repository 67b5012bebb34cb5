//! Operations that get another name, by start, hangup and back again: a used key stays used (K6).

use serde_json::Value;

use crate::rig::caller::ALICE;
use crate::rig::{Ground, Hapax, Kind};

/// Refunds under this name, with whatever else.
pub(crate) fn refunds(name: &str, more: &str) -> String {
    format!(
        "[[routes]]\nmethod = \"POST\"\npath = \"/refunds\"\npolicy = \"REQUIRED_A\"\nupstream = \"service\"\n\
         operation = \"{name}\"\n{more}\n"
    )
}

/// Goes on with other routes.
async fn reload(ground: &mut Ground, edge: &Hapax, routes: String, says: &str) {
    let before = edge.told().matches(says).count();
    ground.routes = routes;
    ground.write("hapax");
    edge.reload();
    crate::rig::process::eventually(says, async || edge.told().matches(says).count() > before).await;
}

const RELOADED: &str = "the configuration was reloaded";
const NOT_RELOADED: &str = "the configuration was not reloaded";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_used_under_every_name_by_start_and_back_again_k6() {
    let mut ground = Ground::new(Kind::Embedded).await;
    ground.routes = refunds("refund", "");
    let edge = ground.serve().await;
    assert_eq!(edge.post("/refunds", "old", "{}", "").await.status, 201);
    edge.kill();
    ground.routes = refunds("refund.v2", "was = \"refund\"");
    let edge = ground.serve().await;
    let again = edge.post("/refunds", "old", "{}", "").await;
    assert!(again.is_replay(), "{}", again.text());
    assert_eq!(edge.post("/refunds", "old", "{\"other\": 1}", "").await.problem().1, "key-reused");
    assert_eq!(edge.post("/refunds", "new", "{}", "").await.status, 201);
    for path in [
        "/refunds/by-idempotency-key/old",
        &format!("/operations/{}", again.header("x-operation-id").unwrap()),
    ] {
        assert_eq!(edge.send(ALICE, &format!("GET {path}"), &[], "").await.text(), again.text(), "{path}");
    }
    names_are_shown(&ground, &edge).await;
    edge.kill();
    // Back again, and forth without a word: neither configuration says as much as the registry knows.
    for name in ["refund", "refund.v2", "refund"] {
        ground.routes = refunds(name, "");
        let edge = ground.serve().await;
        for key in ["old", "new"] {
            assert!(edge.post("/refunds", key, "{}", "").await.is_replay(), "{key} under {name}");
        }
        edge.kill();
    }
    assert_eq!(ground.service.count(), 2);
}

/// Lists of claims have the first name and are asked by every name; the list of routes has both.
async fn names_are_shown(ground: &Ground, edge: &Hapax) {
    let routes = edge.ask("GET /v1/routes", "").await.json();
    let route =
        routes["routes"].as_array().unwrap().iter().find(|route| route["path"] == "/refunds").unwrap();
    assert_eq!((&route["operation"], &route["first_name"]), (&"refund.v2".into(), &"refund".into()));
    let at = [format!("--admin=http://{}", edge.admin), format!("--store={}", ground.store)];
    for place in &at {
        for name in ["refund", "refund.v2"] {
            let listed = ground.run(&["claims", "list", "--json", "--operation", name, place]).await;
            let page: Value = serde_json::from_str(&listed.out).unwrap_or_else(|_| panic!("{}", listed.err));
            let named =
                page["claims"].as_array().unwrap().iter().filter(|claim| claim["operation"] == "refund");
            assert_eq!(named.count(), 2, "{name} {place}: {page}");
            let counted = ground.run(&["claims", "count", "--json", "--operation", name, place]).await;
            let counts: Value = serde_json::from_str(&counted.out).unwrap();
            assert_eq!(counts["settled"], 2, "{name} {place}: {counts}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_used_under_every_name_by_hangup_also_while_its_work_runs_k6() {
    for store in ["embedded", "memory:"] {
        let mut ground = match store {
            "memory:" => Ground::at(store.to_owned()).await,
            _ => Ground::new(Kind::Embedded).await,
        };
        ground.routes = refunds("refund", "");
        let edge = ground.serve().await;
        for (turn, routes) in [
            refunds("refund.v2", "was = \"refund\""),
            refunds("refund", ""),
            refunds("refund.v3", "was = [\"refund.v2\", \"refund\"]"),
        ]
        .into_iter()
        .enumerate()
        {
            let key = format!("k-{turn}");
            ground.service.hold();
            let running = edge.begin("/refunds", &key, "{}", "");
            ground.service.reached(turn + 1).await;
            reload(&mut ground, &edge, routes, RELOADED).await;
            let waiting = edge.begin("/refunds", &key, "{}", "");
            let reused = edge.post("/refunds", &key, "{\"other\": 1}", "").await;
            assert_eq!(reused.problem(), (422, "key-reused".into()), "in flight under the other name");
            ground.service.let_go();
            let (first, second) = (running.await.unwrap().unwrap(), waiting.await.unwrap().unwrap());
            assert_eq!((first.status, second.kept()), (201, first.kept()));
        }
        assert_eq!(ground.service.count(), 3, "{store}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_name_without_a_word_is_refused_and_the_advice_is_right_k6() {
    let mut ground = Ground::new(Kind::Embedded).await;
    ground.routes = refunds("refund", "");
    let edge = ground.serve().await;
    assert_eq!(edge.post("/refunds", "k", "{}", "").await.status, 201);
    let before = edge.ask("GET /v1/routes", "").await.json();
    reload(&mut ground, &edge, refunds("money-back", ""), NOT_RELOADED).await;
    assert!(edge.told().contains("ERROR"), "{}", edge.told());
    assert_eq!(edge.ask("GET /v1/routes", "").await.json(), before);
    assert!(edge.post("/refunds", "k", "{}", "").await.is_replay());
    edge.kill();
    let config = ground.write("hapax").display().to_string();
    let refused = ground.run(&["serve", "--config", &config]).await;
    assert_eq!(refused.code, 1, "{}", refused.err);
    for part in ["POST /refunds", "\"refund\"", "claims: 1", "`was = \"refund\"`", "`was = []`"] {
        assert!(refused.err.contains(part), "{part}: {}", refused.err);
    }
    // What is advised first keeps the key used ...
    ground.routes = refunds("money-back", "was = \"refund\"");
    let edge = ground.serve().await;
    assert!(edge.post("/refunds", "k", "{}", "").await.is_replay());
    // ... and what is advised otherwise says that it does not.
    reload(&mut ground, &edge, refunds("returned", "was = []"), NOT_RELOADED).await;
    assert!(edge.told().contains("\"refund\" has no route any more"), "{}", edge.told());
    let retired = format!("retired = [\"money-back\"]\n{}", ground.configuration());
    std::fs::write(ground.folder.path().join("hapax.toml"), retired).unwrap();
    edge.reload();
    edge.tells(RELOADED).await;
    assert!(!edge.post("/refunds", "k", "{}", "").await.is_replay());
    assert_eq!(ground.service.count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scope_changes_neither_by_hangup_nor_while_claims_rest_on_it_k6() {
    let mut ground = Ground::new(Kind::Embedded).await;
    ground.routes = refunds("refund", "");
    let edge = ground.serve().await;
    let wider = refunds("refund", "scope = \"tenant\"");
    reload(&mut ground, &edge, wider.clone(), NOT_RELOADED).await;
    assert!(edge.told().contains("`scope` (from \"subject\" to \"tenant\")"), "{}", edge.told());
    edge.kill();
    let edge = ground.serve().await;
    assert_eq!(edge.post("/refunds", "k", "{}", "").await.status, 201);
    edge.kill();
    ground.routes = refunds("refund.v2", "was = \"refund\"");
    let config = ground.write("hapax").display().to_string();
    let refused = ground.run(&["serve", "--config", &config]).await;
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(refused.err.contains("claims: 1") && refused.err.contains("was = []"), "{}", refused.err);
}

/// What was hashed by a recipe with options of its own is compared by it, although no configuration has it any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fingerprint_changes_by_hangup_and_a_retry_is_compared_by_the_one_it_was_made_with_k6_k7() {
    let mut ground = Ground::new(Kind::Embedded).await;
    ground.routes = refunds("refund", "fingerprint = \"json\"\nignore = [\"/at\"]");
    let edge = ground.serve().await;
    assert_eq!(edge.post("/refunds", "k", r#"{"a": 1, "at": 1}"#, "").await.status, 201);
    reload(&mut ground, &edge, refunds("refund", "fingerprint = \"form\""), RELOADED).await;
    let retried = async |edge: &Hapax| {
        let again = edge.post("/refunds", "k", r#"{"at": 2, "a": 1}"#, "").await;
        assert!(again.is_replay(), "{}", again.text());
        let other = edge.post("/refunds", "k", r#"{"at": 1, "a": 2}"#, "").await;
        assert_eq!(other.problem(), (422, "key-reused".into()));
    };
    retried(&edge).await;
    edge.kill();
    retried(&ground.serve().await).await;
    assert_eq!(ground.service.count(), 1);
}
