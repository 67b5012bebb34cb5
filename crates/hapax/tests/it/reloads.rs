//! Configurations that a process must not take as the new truth (P5).

use crate::renames::refunds;
use crate::rig::{Ground, Hapax, Kind};
use crate::webhooks_cli::{SECRET, WEBHOOKS, create, deliver, github, sign};

async fn not_reloaded(edge: &Hapax, ground: &Ground, text: &str, because: &str) {
    let (routes, told) = (edge.ask("GET /v1/routes", "").await.json(), edge.told().len());
    std::fs::write(ground.folder.path().join("hapax.toml"), text).unwrap();
    edge.reload();
    crate::rig::process::eventually(because, async || edge.told()[told..].contains("not reloaded")).await;
    let said = edge.told()[told..].to_owned();
    assert!(said.contains("ERROR") && said.contains(because), "{because}: {said}");
    assert_eq!(edge.ask("GET /v1/routes", "").await.json(), routes, "{because}");
    assert!(edge.post("/refunds", "k", "{}", "").await.is_replay(), "{because}");
    assert_eq!(edge.ask("GET /v1/claims", "").await.status, 200, "{because}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_or_cut_file_or_one_without_routes_changes_nothing_and_is_an_error_p5() {
    let mut ground = Ground::new(Kind::Embedded).await;
    ground.routes = refunds("refund", "");
    let edge = ground.serve().await;
    assert_eq!(edge.post("/refunds", "k", "{}", "").await.status, 201);
    let whole = ground.configuration();
    let at = |part: &str| whole.find(part).unwrap();
    for (text, because) in [
        ("", "there is no route"),
        ("\n# nothing\n", "there is no route"),
        (&whole[..at("[upstreams.service]")], "there is no route"),
        (&whole[..at("# Must not happen twice")], "there is no route"),
        // In the middle of a line, of a route, and between two.
        (&whole[..at("path = \"/notes\"") + 8], "hapax.toml:"),
        (&whole[..at("operation = \"refund\"")], "hapax.toml:"),
        (&whole[..at("# May happen twice")], "\"refund\" has no route any more"),
    ] {
        not_reloaded(&edge, &ground, text, because).await;
    }
    // The same at a start, and for who checks.
    let config = ground.folder.path().join("hapax.toml");
    std::fs::write(&config, "").unwrap();
    let config = config.display().to_string();
    for args in [&["config", "check", &config][..], &["serve", "--config", &config]] {
        let told = ground.run(args).await;
        assert_eq!(told.code, 1, "{args:?}");
        let said = format!("{}{}", told.out, told.err);
        assert!(said.contains("there is no route"), "{args:?}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_route_on_which_claims_rest_is_not_dropped_by_hangup_and_told_of_at_a_start_p5() {
    let mut ground = Ground::new(Kind::Embedded).await;
    let without = ground.configuration();
    ground.routes = refunds("refund", "");
    let edge = ground.serve().await;
    assert_eq!(edge.post("/refunds", "k", "{}", "").await.status, 201);
    not_reloaded(&edge, &ground, &without, "retired = [\"refund\"]").await;
    // A route without claims may go, and one whose operation is retired.
    let config = ground.folder.path().join("hapax.toml");
    let no_notes = ground.configuration().replace("\"/notes\"", "\"/n\"").replace("\"note\"", "\"n\"");
    for text in [no_notes, format!("retired = [\"refund\"]\n{without}")] {
        std::fs::write(&config, text).unwrap();
        let told = edge.told().len();
        edge.reload();
        crate::rig::process::eventually("a reload", async || {
            edge.told()[told..].contains("the configuration was reloaded")
        })
        .await;
    }
    assert_eq!(edge.post("/refunds", "k", "{}", "").await.status, 404);
    edge.kill();
    let edge = Hapax::start(&config, &[]).await;
    assert!(!edge.told().contains("that no route has here"), "{}", edge.told());
    edge.kill();
    std::fs::write(&config, &without).unwrap();
    let edge = Hapax::start(&config, &[]).await;
    edge.tells("claims rest on operations that no route has here: \"refund\" (claims: 1)").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_on_which_claims_rest_are_not_dropped_by_hangup_and_told_of_at_a_start_p5() {
    let mut ground = crate::webhooks_cli::ground().await;
    let declared = "[webhooks.providers.acme]\nheader = \"X-Acme\"\nidentifier = { header = \"X-Id\" }\n";
    ground.sections.push_str(declared);
    ground.routes = refunds("refund", "");
    let edge = ground.serve().await;
    assert_eq!(edge.post("/refunds", "k", "{}", "").await.status, 201);
    let made = create(&edge, "github", SECRET, &[]).await;
    let (id, path) = (made["webhook_id"].as_str().unwrap(), made["path"].as_str().unwrap());
    let with = ground.configuration();
    let without = with.replace(WEBHOOKS, "").replace(declared, "");
    let others = with.replace("prefix = \"/hooks\"", "prefix = \"/hooks\"\nenabled = [\"stripe\", \"acme\"]");
    assert!(without != with && others != with);
    assert_eq!(github(&edge, path, SECRET, "a", "").await.status, 201);
    let because = "deliveries of github are not taken any more, and claims rest on them (claims: 1)";
    for text in [&without, &others] {
        not_reloaded(&edge, &ground, text, because).await;
        assert!(github(&edge, path, SECRET, "a", "").await.is_replay());
    }
    // So is a provider that would call a delivery that was done otherwise.
    let acme = create(&edge, "acme", SECRET, &[]).await;
    let signature = sign(SECRET, "{}");
    let signature = signature.trim_start_matches("sha256=");
    let headers = [("x-acme", signature), ("x-id", "e1"), ("x-kind", "paid")];
    let delivered = deliver(&edge, acme["path"].as_str().unwrap(), &headers, "{}").await;
    assert_eq!(delivered.status, 201, "{}", delivered.text());
    let kinds = with.replace("header = \"X-Acme\"", "header = \"X-Acme\"\nkind_header = \"X-Kind\"");
    not_reloaded(&edge, &ground, &kinds, "[webhooks.providers.acme] says otherwise").await;
    // A start tells it, until the operator has decided.
    edge.kill();
    let config = ground.folder.path().join("hapax.toml");
    std::fs::write(&config, &without).unwrap();
    let edge = Hapax::start(&config, &[]).await;
    edge.tells("deliveries that are not taken here: of ").await;
    edge.kill();
    let retired = ["github", "acme"].iter().zip([id, acme["webhook_id"].as_str().unwrap()]);
    let retired: Vec<String> = retired.map(|(name, id)| format!("webhook.{name}.{id}")).collect();
    std::fs::write(&config, format!("retired = {retired:?}\n{without}")).unwrap();
    let edge = Hapax::start(&config, &[]).await;
    assert!(!edge.told().contains("not taken here"), "{}", edge.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_path_of_an_operation_that_has_moved_is_not_left_without_keys_by_hangup_k6() {
    let mut ground = Ground::new(Kind::Embedded).await;
    ground.routes = refunds("refund", "");
    let edge = ground.serve().await;
    assert_eq!(edge.post("/refunds", "k", "{}", "").await.status, 201);
    let moved = ground.configuration().replace("\"/refunds\"", "\"/refunds/new\"");
    let open = "[[routes]]\nmethod = \"POST\"\npath = \"/refunds\"\npolicy = \"PROHIBITED\"\nlenient = true\n\
                upstream = \"service\"\n";
    not_reloaded(&edge, &ground, &format!("{moved}\n{open}"), "would take no keys any more").await;
}
