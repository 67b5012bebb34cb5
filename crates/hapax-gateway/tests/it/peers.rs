//! Peers that speak for others: what they may say in a key (K3), and an edge that stands behind an edge.

use std::sync::Arc;

use hapax_core::Width;
use hapax_gateway::settings::{Level, Route, Settings, Upstream};
use hapax_tower::Rule;

use crate::world::{World, key_of_level};

/// Routes of each level, and some that share their answers.
fn add_routes(settings: &mut Settings) {
    for (path, level, width) in [
        ("platform", Level::Platform, Width::Subject),
        ("project.shared", Level::Project, Width::Project),
        ("project.wide", Level::Project, Width::Tenant),
        ("tenant.shared", Level::Tenant, Width::Project),
        ("tenant.wide", Level::Tenant, Width::Tenant),
    ] {
        let route = Route {
            path: format!("/{path}").into(),
            level,
            rule: Some(Arc::new(Rule { width, ..Rule::new(path).unwrap() })),
            ..settings.routes[0].clone()
        };
        settings.routes.push(route);
    }
}

/// An edge that believes whoever is on this machine.
async fn trusting(level: bool) -> World {
    World::with(|settings| {
        add_routes(settings);
        settings.auth.trusted = vec!["127.0.0.1/32".parse().unwrap()];
        settings.auth.trusted_level = level;
    })
    .await
}

#[tokio::test]
async fn a_key_says_no_more_than_its_peer_could_say_in_headers_a6_k3_k4() {
    // What a key says of its caller, and whether it is believed: without `level`, and with it.
    let cases = [
        ("/charges", "acme:web:user:alice", [true, true]),
        ("/charges", "acme:web:service:scheduler", [false, false]),
        ("/charges", "acme:web:service:webhook-ingest", [false, false]),
        ("/charges", "acme:_tenant:user:alice", [false, false]),
        ("/charges", "acme:_platform:user:alice", [false, false]),
        ("/charges", "acme:_tenant:tenant_member:mia", [false, false]),
        ("/charges", "acme:web:_any", [false, false]),
        ("/charges", "acme:_any:_any", [false, false]),
        ("/tenant", "acme:web:user:alice", [false, false]),
        ("/tenant", "acme:_tenant:user:alice", [false, true]),
        ("/tenant", "acme:_platform:user:alice", [false, false]),
        // As in headers: a member of the tenant reaches its level.
        ("/tenant", "acme:_tenant:tenant_member:mia", [true, true]),
        ("/tenant", "acme:_tenant:_any", [false, false]),
        ("/platform", "acme:web:user:alice", [false, false]),
        ("/platform", "acme:_tenant:user:alice", [false, false]),
        ("/platform", "acme:_platform:user:alice", [false, true]),
        ("/platform", "acme:_platform:tenant_member:mia", [false, true]),
        ("/project.shared", "acme:web:_any", [true, true]),
        ("/project.shared", "acme:_tenant:_any", [false, false]),
        ("/project.shared", "acme:_any:_any", [false, false]),
        ("/project.wide", "acme:web:_any", [true, true]),
        ("/project.wide", "acme:_any:_any", [true, true]),
        ("/tenant.shared", "acme:_tenant:_any", [false, true]),
        ("/tenant.shared", "acme:web:_any", [false, false]),
        // It says of nobody how far it reaches.
        ("/tenant.wide", "acme:_any:_any", [false, false]),
    ];
    for level in [false, true] {
        let world = trusting(level).await;
        for (number, (path, told, believed)) in cases.into_iter().enumerate() {
            let (count, key) = (world.service.count(), format!("t-{told}:k-{number}"));
            let got = world.ask(&format!("POST {path}"), "", &[("idempotency-key", &key)], "{}").await;
            let is_believed = believed[usize::from(level)];
            assert_eq!(
                got.status,
                if is_believed { 201 } else { 403 },
                "{level} {path} {key}: {}",
                got.text()
            );
            assert_eq!(world.service.count() - count, usize::from(is_believed), "{level} {path} {key}");
        }
    }
}

#[tokio::test]
async fn two_callers_do_not_meet_under_a_key_that_is_wider_than_the_route_k3_k8() {
    let world = trusting(false).await;
    for key in ["t-acme:_any:_any:k-1", "t-acme:web:_any:k-1"] {
        for who in [&world.alice, &world.bob, &world.carol] {
            let got = world.ask("POST /charges", who, &[("idempotency-key", key)], "{}").await;
            assert_eq!((got.status, got.code().as_str()), (403, "forbidden"), "{key}");
        }
    }
    assert_eq!(world.service.count(), 0);
}

#[tokio::test]
async fn the_service_behind_two_edges_is_told_who_asks_on_every_route_k3_k8() {
    let inner = trusting(true).await;
    let address = inner.gateway.address();
    let outer = World::with(|settings| {
        add_routes(settings);
        let behind = Arc::new(Upstream::new("inner", &address.ip().to_string(), address.port()));
        settings.routes.iter_mut().for_each(|route| route.upstream = behind.clone());
    })
    .await;
    let pat = key_of_level(&outer.store, "acme", "web", "user:pat", Level::Platform).await;
    for (path, who, project, subject, key) in [
        ("/charges", &outer.bob, "web", "user:bob", "web:user:bob"),
        ("/project.shared", &outer.bob, "web", "user:bob", "web:_any"),
        ("/project.wide", &outer.bob, "web", "user:bob", "_any:_any"),
        ("/tenant", &pat, "_tenant", "user:pat", "_tenant:user:pat"),
        ("/tenant", &outer.mia, "_tenant", "tenant_member:mia", "_tenant:tenant_member:mia"),
        ("/tenant.shared", &pat, "_tenant", "user:pat", "_tenant:_any"),
        ("/tenant.wide", &pat, "_tenant", "user:pat", "_any:_any"),
        ("/platform", &pat, "_platform", "user:pat", "_platform:user:pat"),
    ] {
        let line = format!("POST {path}");
        let first = outer.ask(&line, who, &[("idempotency-key", "k-1")], "{}").await;
        assert_eq!((first.status, first.is_replay()), (201, false), "{path}: {}", first.text());
        let arrived = inner.service.last();
        assert_eq!(arrived.header("x-project-id").unwrap(), project, "{path}");
        assert_eq!(arrived.header("x-subject").unwrap(), subject, "{path}");
        assert_eq!(arrived.header("idempotency-key").unwrap(), format!("t-acme:{key}:k-1"), "{path}");
        assert!(outer.ask(&line, who, &[("idempotency-key", "k-1")], "{}").await.is_replay(), "{path}");
    }
    // What is shared outside is shared inside.
    assert_eq!(inner.service.count(), 8);
    assert!(
        outer.ask("POST /project.wide", &outer.carol, &[("idempotency-key", "k-1")], "{}").await.is_replay()
    );
}
