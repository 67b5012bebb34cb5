//! Other settings while requests run (P5).

use std::sync::Arc;
use std::time::Duration;

use hapax_gateway::settings::Upstream;

use crate::world::{Service, World, settings};

#[tokio::test]
async fn a_reload_changes_routes_and_drops_no_request_p5() {
    let world = World::start().await;
    let key = [("idempotency-key", "k-1"), ("x-do", "hold")];
    let reload = async {
        world.service.reached(1).await;
        // Another service, without the route that is in use.
        let other = Service::start().await;
        let mut changed = settings(&other);
        changed.routes.retain(|route| *route.path != *"/raw");
        changed
            .routes
            .iter_mut()
            .filter(|route| *route.path == *"/open")
            .for_each(|route| route.path = "/opened".into());
        world.gateway.reload(changed).await.unwrap();
        let gone = world.ask("POST /raw", &world.alice, &key[..1], "x").await;
        assert_eq!((gone.status, gone.code().as_str()), (404, "not-found"));
        assert_eq!(world.ask("POST /open", &world.alice, &[], "x").await.status, 404);
        assert_eq!(world.ask("POST /opened", &world.alice, &[], "x").await.status, 201);
        assert_eq!(world.charge("k-2", "{}", &[]).await.status, 201);
        world.service.let_go();
        other
    };
    let (first, other) = tokio::join!(world.ask("POST /raw", &world.alice, &key, "x"), reload);
    assert_eq!((first.status, first.text()), (201, "answer 1 to x".into()));
    assert_eq!((world.service.count(), other.count()), (1, 2));
    // What was kept under a route that comes back is still there.
    world.gateway.reload(settings(&world.service)).await.unwrap();
    let again = world.ask("POST /raw", &world.alice, &key[..1], "x").await;
    assert_eq!((again.is_replay(), again.text()), (true, "answer 1 to x".into()));
}

#[tokio::test]
async fn a_reload_that_cannot_be_used_changes_nothing_p5() {
    let world = World::start().await;
    let mut clash = settings(&world.service);
    let mut second = clash.routes[3].clone();
    second.path = "/charges/by-idempotency-key/{other}".into();
    clash.routes.push(second);
    assert!(world.gateway.reload(clash).await.is_err(), "a route in the place of a recall");
    assert_eq!(world.charge("k-1", "{}", &[]).await.status, 201);
    let recalled = world.ask("GET /charges/by-idempotency-key/k-1", &world.alice, &[], "").await;
    assert!(recalled.is_replay());
}

#[tokio::test]
async fn requests_never_fail_while_settings_change_again_and_again_p5() {
    let world = World::start().await;
    let reloads = async {
        for _ in 0..30 {
            world.gateway.reload(settings(&world.service)).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let asks = async {
        for number in 0..100 {
            let got = world.charge(&format!("k-{number}"), "{}", &[]).await;
            assert_eq!(got.status, 201, "{}", got.text());
        }
    };
    tokio::join!(reloads, asks);
    assert_eq!(world.service.count(), 100);
}

#[tokio::test]
async fn another_edge_on_the_same_store_hands_out_the_same_answer_l9() {
    let first = World::start().await;
    let second = World::before(first.service.clone(), first.store.clone(), |_| {}).await;
    let key = [("idempotency-key", "k-1"), ("x-do", "hold")];
    let waits = async {
        first.service.reached(1).await;
        let let_go = async { first.service.let_go() };
        tokio::join!(second.ask("POST /raw", &first.alice, &key[..1], "x"), let_go).0
    };
    let (here, there) = tokio::join!(first.ask("POST /raw", &first.alice, &key, "x"), waits);
    assert_eq!((here.status, here.text()), (201, "answer 1 to x".into()));
    assert_eq!(here.without_marks(), there.without_marks());
    assert!(first.gateway.drain(hapax_testkit::raw::PATIENCE).await);
    let again = second.ask("POST /raw", &first.alice, &key[..1], "x").await;
    assert_eq!((again.is_replay(), first.service.count()), (true, 1));
}

#[tokio::test]
async fn a_replay_takes_nothing_that_only_the_work_needs_h3() {
    let world = World::start().await;
    let first = world.charge("k-1", "{}", &[]).await;
    // From here on no connection to the service can be prepared.
    let mut changed = settings(&world.service);
    for route in &mut changed.routes {
        let unusable = Some("no-such-certificates.pem".into());
        route.upstream = Arc::new(Upstream { https: true, ca: unusable, ..(*route.upstream).clone() });
    }
    world.gateway.reload(changed).await.unwrap();
    let again = world.charge("k-1", "{}", &[]).await;
    assert_eq!((again.status, again.is_replay(), again.text()), (first.status, true, first.text()));
    // What must be sent certainly was not, with a key or without.
    let new = world.charge("k-2", "{}", &[]).await;
    assert_eq!((new.status, new.code().as_str()), (502, "upstream-unreachable"), "{}", new.text());
    let plain = world.ask("POST /open", &world.alice, &[], "x").await;
    assert_eq!((plain.status, plain.code().as_str()), (502, "upstream-unreachable"), "{}", plain.text());
    assert!(plain.text().contains(r#""executed":"no""#), "{}", plain.text());
    assert_eq!(world.service.count(), 1);
    // Nothing was left behind: with a service that can be reached, the same key runs.
    world.gateway.reload(settings(&world.service)).await.unwrap();
    assert_eq!(world.charge("k-2", "{}", &[]).await.status, 201);
}
