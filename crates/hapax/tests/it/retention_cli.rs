//! `hapax retention`, run as an operator would run it beside servers that go on (P5, L10).

use hapax::when::parse_utc;
use serde_json::Value;

use crate::claims_cli::Told;
use crate::office::carried_out;
use crate::rig::process::eventually;
use crate::rig::{Database, Ground, Hapax, Kind};

const ROUTE: &str = "[[routes]]\nmethod = \"POST\"\npath = \"/refunds\"\noperation = \"refund\"\n\
                     policy = \"REQUIRED_A\"\nupstream = \"service\"\nretention = \"critical\"\n";

pub(crate) const DAY: u64 = 24 * 60 * 60;

async fn ground(kind: Kind) -> Ground {
    let mut ground = Ground::new(kind).await;
    ground.sections = "[retention]\ncritical = \"7d\"".to_owned();
    ground.routes = ROUTE.to_owned();
    ground
}

async fn run(ground: &Ground, edge: &Hapax, args: &[&str]) -> Told {
    let admin = format!("http://{}", edge.admin);
    let args: Vec<_> = ["retention"].iter().chain(args).chain(&["--admin", &admin]).copied().collect();
    ground.run(&args).await
}

/// For how many seconds the outcome of this key is kept.
pub(crate) async fn kept_for(edge: &Hapax, key: &str) -> u64 {
    let claims = edge.claims("settled").await;
    kept_since(claims.iter().find(|claim| claim["key"] == key).unwrap(), "settled_at")
}

/// For how many seconds an outcome is kept, from a time that its claim has.
pub(crate) fn kept_since(claim: &Value, from: &str) -> u64 {
    let time = |name: &str| parse_utc(claim[name].as_str().unwrap()).unwrap().as_micros();
    u64::try_from((time("keep_until") - time(from)) / 1_000_000).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_set_holds_at_once_for_new_outcomes_and_across_restarts_until_it_is_unset_p5() {
    let ground = ground(Kind::Embedded).await;
    let edge = ground.serve().await;
    assert_eq!(edge.post("/refunds", "before", "{}", "").await.status, 201);
    let set = run(&ground, &edge, &["set", "critical", "2d", "--reason", "audit", "--by", "kim"]).await;
    assert_eq!((set.code, set.out.trim()), (0, "critical: 2d (configured: 7d)"), "{}", set.err);
    assert_eq!(edge.post("/refunds", "after", "{}", "").await.status, 201);
    assert_eq!((kept_for(&edge, "before").await, kept_for(&edge, "after").await), (7 * DAY, 2 * DAY));
    assert_eq!(edge.post("/charges", "k", "{}", "").await.status, 201);
    assert_eq!(kept_for(&edge, "k").await, DAY, "another class");
    // A reload reads the configuration again; what was set goes before it.
    edge.reload();
    edge.tells("the configuration was reloaded").await;
    assert_eq!(edge.post("/refunds", "reloaded", "{}", "").await.status, 201);
    assert_eq!(kept_for(&edge, "reloaded").await, 2 * DAY);
    edge.kill();
    let edge = ground.serve().await;
    edge.tells("kept as was set by command").await;
    assert_eq!(edge.post("/refunds", "restarted", "{}", "").await.status, 201);
    assert_eq!(kept_for(&edge, "restarted").await, 2 * DAY);
    let listed: Value = serde_json::from_str(&run(&ground, &edge, &["list", "--json"]).await.out).unwrap();
    let critical =
        listed["classes"].as_array().unwrap().iter().find(|class| class["class"] == "critical").unwrap();
    assert_eq!((&critical["set"]["by"], &critical["set"]["reason"]), (&"admin/kim".into(), &"audit".into()));
    assert_eq!((&critical["retention"], &critical["routes"][0]), (&"2d".into(), &"POST /refunds".into()));
    let table = run(&ground, &edge, &["list"]).await.out;
    assert!(
        table.contains("interactive") && table.contains("critical") && table.contains("audit"),
        "{table}"
    );
    assert_eq!(run(&ground, &edge, &["unset", "critical", "--reason", "r"]).await.code, 0);
    assert_eq!(edge.post("/refunds", "unset", "{}", "").await.status, 201);
    assert_eq!(kept_for(&edge, "unset").await, 7 * DAY);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_set_is_refused_and_changes_nothing_p5() {
    let ground = ground(Kind::Embedded).await;
    let edge = ground.serve().await;
    for (args, code, why) in [
        (&["set", "nothing", "2d", "--reason", "r"][..], 1, "no retention class \"nothing\""),
        (&["set", "critical", "soon", "--reason", "r"], 2, "\"soon\" is no retention"),
        (&["set", "critical", "0s", "--reason", "r"], 2, "\"0s\" is no retention"),
        (&["set", "critical", "2d", "--reason", " "], 2, "reason"),
        (&["set", "critical", "2d"], 2, "--reason"),
        (&["unset", "nothing", "--reason", "r"], 1, "no retention class \"nothing\""),
    ] {
        let refused = run(&ground, &edge, args).await;
        assert_eq!((refused.code, refused.out.as_str()), (code, ""), "{args:?}: {}", refused.err);
        assert!(refused.err.contains(why), "{args:?}: {}", refused.err);
    }
    assert_eq!(edge.post("/refunds", "k", "{}", "").await.status, 201);
    assert_eq!(kept_for(&edge, "k").await, 7 * DAY);
    // To take back what was not set changes nothing either.
    assert_eq!(run(&ground, &edge, &["unset", "critical", "--reason", "r"]).await.code, 0);
    assert_eq!(audit(&edge).await, Vec::<Value>::new());
}

async fn audit(edge: &Hapax) -> Vec<Value> {
    carried_out(&edge.ask("GET /v1/audit", "").await.json())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_keeps_who_set_and_unset_a_class_and_why_l8() {
    let ground = ground(Kind::Embedded).await;
    let edge = ground.serve().await;
    for args in [
        &["set", "critical", "2d", "--reason", "the bank asks", "--by", "kim"][..],
        &["set", "critical", "forever", "--reason", "and again", "--by", "lee"],
        &["unset", "critical", "--reason", "it is over", "--by", "kim"],
    ] {
        assert_eq!(run(&ground, &edge, args).await.code, 0, "{args:?}");
    }
    let told: Vec<_> = audit(&edge)
        .await
        .iter()
        .map(|event| {
            ["verb", "actor", "reason", "setting", "before", "after"].map(|member| event[member].clone())
        })
        .collect();
    let event = |verb: &str, actor: &str, reason: &str, before: Value, after: Value| {
        [verb.into(), actor.into(), reason.into(), "retention/critical".into(), before, after]
    };
    let none = || Value::Null;
    let expected = [
        event("retention-unset", "admin/kim", "it is over", "forever".into(), none()),
        event("retention-set", "admin/lee", "and again", "2d".into(), "forever".into()),
        event("retention-set", "admin/kim", "the bank asks", none(), "2d".into()),
    ];
    assert_eq!(told, expected);
    for reason in ["the bank asks", "and again", "it is over"] {
        edge.tells(&format!("reason=\"{reason}\"")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_servers_on_postgres_follow_what_is_set_at_one_p5() {
    let ground = ground(Kind::Postgres).await;
    let (a, b) = (ground.serve_as("a").await, ground.serve_as("b").await);
    assert_eq!(run(&ground, &a, &["set", "critical", "forever", "--reason", "r"]).await.code, 0);
    b.tells("kept as was set by command").await;
    assert_eq!(b.post("/refunds", "k", "{}", "").await.status, 201);
    let claim = b.claims("settled").await.remove(0);
    assert_eq!(claim["keep_until"], Value::Null);
    assert_eq!(run(&ground, &b, &["unset", "critical", "--reason", "r"]).await.code, 0);
    eventually("the first server follows", async || {
        let told = run(&ground, &a, &["list", "--json"]).await.out;
        !told.contains("forever")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_set_and_cannot_be_read_on_postgres_can_be_set_again_and_unset_p5() {
    let database = Database::fresh().await;
    let mut ground = Ground::at(database.url.clone()).await;
    ground.sections = "[retention]\ncritical = \"7d\"".to_owned();
    ground.routes = ROUTE.to_owned();
    let edge = ground.serve().await;
    let set = ["set", "critical", "2d", "--reason", "r"];
    assert_eq!(run(&ground, &edge, &set).await.code, 0);
    for mend in [&["set", "critical", "3d", "--reason", "r"][..], &["unset", "critical", "--reason", "r"]] {
        database.run("UPDATE hapax.documents SET body = '{}' WHERE kind = 'retention'").await;
        let told = run(&ground, &edge, &["list"]).await;
        assert!(told.code != 0 && told.err.contains("cannot be read"), "{} {}", told.out, told.err);
        let told = run(&ground, &edge, mend).await;
        assert_eq!(told.code, 0, "{mend:?} {}", told.err);
        assert_eq!(run(&ground, &edge, &["list"]).await.code, 0);
    }
    let event = audit(&edge).await.remove(0);
    assert_eq!((&event["verb"], &event["before"]), (&"retention-unset".into(), &Value::Null));
}
