//! What browsers of other origins may do (P7).

use std::time::Duration;

use hapax_gateway::settings::Cors;

use crate::world::{Got, World};

const SHOP: &str = "https://shop.example";

async fn world(origins: &[&str], credentials: bool) -> World {
    World::with(|settings| {
        settings.edge.cors = Some(Cors {
            origins: origins.iter().map(|origin| (*origin).to_owned()).collect(),
            headers: vec!["x-mine".into()],
            credentials,
            max_age: Duration::from_secs(600),
        });
    })
    .await
}

async fn preflight(world: &World, path: &str, origin: &str) -> Got {
    let headers = [
        ("origin", origin),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "idempotency-key,content-type"),
    ];
    world.ask(&format!("OPTIONS {path}"), "", &headers, "").await
}

/// The fields of an answer that browsers look at.
fn granted(got: &Got) -> Vec<&str> {
    let fields = got.headers.iter().filter(|(name, _)| name.starts_with("access-control-"));
    fields.map(|(name, _)| name.as_str()).collect()
}

#[tokio::test]
async fn an_allowed_origin_may_send_keys_and_read_the_receipt_p7() {
    let world = world(&[SHOP], true).await;
    let got = preflight(&world, "/charges", SHOP).await;
    assert_eq!(got.status, 204);
    assert_eq!(got.header("access-control-allow-origin"), Some(SHOP));
    assert_eq!(got.header("access-control-allow-credentials"), Some("true"));
    assert_eq!(got.header("access-control-allow-methods"), Some("GET, POST, HEAD, OPTIONS"));
    assert_eq!(got.header("access-control-max-age"), Some("600"));
    let allowed = got.header("access-control-allow-headers").unwrap();
    for name in ["idempotency-key", "authorization", "content-type", "prefer", "x-mine"] {
        assert!(allowed.contains(name), "{name} in {allowed}");
    }
    assert_eq!(got.all("vary"), ["origin"]);
    assert_eq!(world.service.count(), 0, "nobody behind is asked");

    let first = world.charge("k-1", "{}", &[("origin", SHOP)]).await;
    let again = world.charge("k-1", "{}", &[("origin", SHOP)]).await;
    let refused = world.charge("k-1", "{\"a\":1}", &[("origin", SHOP)]).await;
    let unknown = world.ask("GET /nowhere", "", &[("origin", SHOP)], "").await;
    for (got, status) in [(&first, 201), (&again, 201), (&refused, 422), (&unknown, 404)] {
        assert_eq!((got.status, got.header("access-control-allow-origin")), (status, Some(SHOP)));
        let exposed = got.header("access-control-expose-headers").unwrap();
        for name in ["x-operation-id", "idempotent-replayed", "idempotency-expires", "retry-after"] {
            assert!(exposed.contains(name), "{name} in {exposed}");
        }
        assert_eq!(got.all("vary"), ["origin"]);
    }
}

#[tokio::test]
async fn other_origins_get_nothing_and_caches_are_told_p7() {
    let world = world(&[SHOP], true).await;
    for origin in [
        "https://evil.example",
        "http://shop.example",
        "https://shop.example.evil",
        "https://shop.example:444",
        "null",
        "",
    ] {
        let got = preflight(&world, "/charges", origin).await;
        assert_eq!((got.status, granted(&got)), (204, vec![]), "{origin}");
        assert_eq!(got.all("vary"), ["origin"], "{origin}");
        let got = world.charge("k-1", "{}", &[("origin", origin)]).await;
        assert_eq!((got.status, granted(&got)), (201, vec![]), "{origin}");
        assert_eq!(got.all("vary"), ["origin"], "{origin}");
    }
    assert_eq!(world.service.count(), 1);
    let got = world.charge("k-1", "{}", &[("origin", SHOP)]).await;
    assert_eq!(got.header("access-control-allow-origin"), Some(SHOP), "what is kept is for every origin");
    assert_eq!(preflight(&world, "/nowhere", SHOP).await.status, 404);
}

#[tokio::test]
async fn any_origin_means_no_credentials_p7() {
    let world = world(&["*"], false).await;
    let got = preflight(&world, "/charges", "https://anybody.example").await;
    assert_eq!(got.header("access-control-allow-origin"), Some("*"));
    assert_eq!(got.header("access-control-allow-credentials"), None);
    let got = world.charge("k-1", "{}", &[("origin", "https://anybody.example")]).await;
    assert_eq!(got.header("access-control-allow-origin"), Some("*"));
    let without = world.charge("k-1", "{}", &[]).await;
    assert_eq!(granted(&without), Vec::<&str>::new());
}

#[tokio::test]
async fn what_the_service_grants_does_not_count_where_the_edge_decides_p7() {
    let world = world(&[SHOP], false).await;
    for origin in ["https://evil.example", SHOP] {
        let headers = [("origin", origin), ("x-do", "cors")];
        let got = world.ask("POST /open", &world.alice, &headers, "").await;
        let wanted = (origin == SHOP).then_some(SHOP);
        assert_eq!(got.all("access-control-allow-origin"), wanted.into_iter().collect::<Vec<_>>());
        assert_eq!(got.header("access-control-allow-credentials"), None);
    }
    // Without the edge's word, the service's own passes.
    let plain = World::start().await;
    let got = plain.ask("POST /open", &plain.alice, &[("origin", SHOP), ("x-do", "cors")], "").await;
    assert_eq!(got.header("access-control-allow-origin"), Some("https://evil.example"));
}

#[tokio::test]
async fn what_the_service_lets_scripts_read_stays_so_p7() {
    let world = world(&[SHOP], false).await;
    for _ in 0..2 {
        let got = world.charge("k-1", "{}", &[("origin", SHOP), ("x-do", "expose")]).await;
        let exposed = got.all("access-control-expose-headers").join(", ");
        for name in ["x-custom", "etag", "x-operation-id", "idempotent-replayed"] {
            assert!(exposed.split(", ").any(|exposed| exposed == name), "{name} in {exposed}");
        }
    }
    let got = world.charge("k-1", "{}", &[("origin", "https://evil.example"), ("x-do", "expose")]).await;
    assert!(!got.all("access-control-expose-headers").join(", ").contains("x-operation-id"));
}
