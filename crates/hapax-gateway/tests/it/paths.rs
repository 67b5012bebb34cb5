//! Targets and hosts that two servers could read differently: refused, or forwarded exactly as they were matched (P2).

use std::sync::Arc;

use hapax_core::Policy;
use hapax_gateway::settings::{Level, Route, Settings};
use hapax_tower::Rule;
use http::Method;

use crate::world::World;

#[tokio::test]
async fn paths_that_can_be_read_in_two_ways_reach_nobody_p2() {
    let world = World::start().await;
    for path in [
        "/charges%2f1",
        "/charges%2F1",
        "/charges%5c1",
        "/charges%5C1",
        "/charges\\1",
        "/charges/%2e%2e/open",
        "/charges/%2E%2E/open",
        "/charges/.%2e/open",
        "/charges/../open",
        "/charges/./1",
        "/charges/..",
        "/../charges/1",
        "//charges/1",
        "/charges//1",
        "///charges",
        "/charges/1//",
        "/charges/..;/open",
        "/charges;a=b",
        "/charges/1;a=b",
        "/charges%3ba=b",
        "/charges/%00",
        "/charges/1%00.html",
        "/charges/%0d%0ax:y",
        "/charges/%0a",
        "/charges/%7f",
        "/charges/%252e%252e",
        "/charges/%252f",
        "/charges/%25",
        "/charges/%",
        "/charges/%2",
        "/charges/%zz",
        "/charges/%u002f",
        "/charges/%c0%ae%c0%ae/open",
        "/charges/%c0%af1",
        "/charges/%e0%80%af1",
        "/charges/%f0%80%80%af1",
        "/charges/%ff",
        "/charges/%ed%a0%80",
        "*",
    ] {
        let got = world.ask(&format!("GET {path}"), &world.alice, &[], "").await;
        assert_eq!((got.status, got.code().as_str()), (400, "path-malformed"), "{path}");
    }
    // What cannot be in a request line at all is refused before there is a path.
    for path in ["/charges/\0", "/charges/a b", "/charges/\u{7f}", "/charges/<x>", "charges/1", "/charges/\t"]
    {
        let got = world.send(world.request(&format!("GET {path}"), &world.alice, &[], "")).await.unwrap();
        assert_eq!(got.status, 400, "{path:?}");
    }
    let got = world.ask("GET /charges/ä", &world.alice, &[], "").await;
    assert_eq!(got.status, 400);
    assert_eq!(world.service.count(), 0);
}

#[tokio::test]
async fn what_is_matched_is_what_arrives_p2() {
    let world = World::start().await;
    for (sent, arrives) in [
        ("/charges/1", "/charges/1"),
        ("/charges/1?a=b&a=c", "/charges/1?a=b&a=c"),
        ("/charges/1?", "/charges/1?"),
        ("/charges/1?x=../..//%2f%00;%zz", "/charges/1?x=../..//%2f%00;%zz"),
        // An escape that is needed stays as it came, one that is not is gone: nobody can read it differently.
        ("/charges/%41%20b", "/charges/A%20b"),
        ("/charges/a%3Ab%2b%21?%41", "/charges/a%3Ab%2b%21?%41"),
        ("/charges/%7E%2D%5f%30%5A?", "/charges/~-_0Z?"),
        ("/%63harges", "/charges"),
        ("http://edge.example/%63harges/1?%63", "/charges/1?%63"),
        ("/charges/%c3%a4", "/charges/%c3%a4"),
        ("/charges/...", "/charges/..."),
        ("/charges/a:b@c", "/charges/a:b@c"),
        ("/charges/1#fragment", "/charges/1"),
        ("http://edge.example/charges/1?a", "/charges/1?a"),
        ("http://EDGE.example/charges/1", "/charges/1"),
        ("https://edge.example/charges/1", "/charges/1"),
    ] {
        let got = world.ask(&format!("GET {sent}"), &world.alice, &[], "").await;
        assert_eq!(got.status, 201, "{sent}: {}", got.text());
        assert_eq!(world.service.last().line(), format!("GET {arrives} HTTP/1.1"), "{sent}");
    }
    let before = world.service.count();
    for (sent, status, code) in [
        ("/charges/", 404, "not-found"),
        ("/CHARGES", 404, "not-found"),
        ("/charges/1/", 404, "not-found"),
        ("/charges/1/2", 404, "not-found"),
        ("/%43harges", 404, "not-found"),
        ("/charges%20", 404, "not-found"),
        ("/", 404, "not-found"),
        ("http://other.example/charges/1", 400, "request-malformed"),
        ("http://edge.example:81/charges/1", 400, "request-malformed"),
        ("http://user@edge.example/charges/1", 400, "request-malformed"),
        ("http://edge.example@other.example/charges/1", 400, "request-malformed"),
        ("http://edge.example", 404, "not-found"),
    ] {
        let got = world.ask(&format!("GET {sent}"), &world.alice, &[], "").await;
        assert_eq!((got.status, got.code().as_str()), (status, code), "{sent}");
    }
    assert_eq!(world.service.count(), before);
}

/// Concrete routes beside looser ones.
fn concrete_and_loose(settings: &mut Settings) {
    let usual = settings.routes[0].clone();
    let open = Route { policy: Policy::Prohibited, rule: None, ..usual.clone() };
    let rule = Some(Arc::new(Rule::new("refund").unwrap()));
    settings.routes.extend([
        Route { path: "/orders/refund".into(), rule, ..usual },
        Route { path: "/orders/{order}".into(), ..open.clone() },
        Route { path: "/orders/all:cancel".into(), level: Level::Tenant, ..open.clone() },
        Route { method: Method::GET, path: "/v1/admin/users".into(), level: Level::Tenant, ..open.clone() },
        Route { method: Method::GET, path: "/v1/{project}/users".into(), ..open },
    ]);
}

#[tokio::test]
async fn no_escape_leads_past_the_policy_or_the_level_of_a_route_p2_a6() {
    let world = World::with(concrete_and_loose).await;
    for (line, status, code) in [
        ("POST /orders/refund", 400, "key-missing"),
        ("POST /orders/%72efund", 400, "key-missing"),
        ("POST /orders/refun%64", 400, "key-missing"),
        ("POST /%6frders/%72%65%66%75%6E%64", 400, "key-missing"),
        ("GET /v1/admin/users", 403, "forbidden"),
        ("GET /v1/%61dmin/users", 403, "forbidden"),
        ("HEAD /v1/admi%6e/user%73", 403, ""),
        ("POST /orders/all:cancel", 403, "forbidden"),
        // A colon may have to be escaped. Some services match it then and others do not.
        ("POST /orders/all%3acancel", 400, "path-malformed"),
        ("POST /orders/all%3Acance%6c", 400, "path-malformed"),
        ("PATCH /orders/all%3Acancel", 405, "method-not-allowed"),
    ] {
        let got = world.send(world.request(line, &world.alice, &[], "")).await.unwrap();
        assert_eq!(got.status, status, "{line}: {}", got.text());
        assert!(line.starts_with("HEAD") || got.code() == code, "{line}: {}", got.text());
    }
    assert_eq!(world.service.count(), 0);
    // What is no other route in either reading passes.
    for (line, arrives) in [
        ("POST /orders/%72efun", "POST /orders/refun"),
        ("POST /orders/refund%21", "POST /orders/refund%21"),
        ("POST /orders/each%3Acancel", "POST /orders/each%3Acancel"),
        ("GET /v1/Admin/users", "GET /v1/Admin/users"),
    ] {
        assert_eq!(world.ask(line, &world.alice, &[], "").await.status, 201, "{line}");
        assert_eq!(world.service.last().line(), format!("{arrives} HTTP/1.1"));
    }
}

#[tokio::test]
async fn a_path_is_the_same_with_escapes_that_it_can_do_without_p2_k7_h7() {
    let world = World::start().await;
    let key = [("idempotency-key", "k-1")];
    let first = world.ask("POST /orders/%31%41/notes", &world.alice, &key, "x").await;
    assert_eq!((first.status, world.service.last().line()), (201, "POST /orders/1A/notes HTTP/1.1"));
    for line in ["/orders/1A/notes", "/orders/1%41/notes", "/%6frders/%31A/note%73"] {
        let again = world.ask(&format!("POST {line}"), &world.alice, &key, "x").await;
        assert!(again.is_replay(), "{line}: {}", again.text());
        assert_eq!(again.without_marks(), first.clone().without_marks(), "{line}");
        let recalled = format!("GET {line}/by-idempotency-%6bey/k%2d1");
        assert_eq!(world.ask(&recalled, &world.alice, &[], "").await.text(), first.text(), "{line}");
    }
    // What the service may take for another order is another request.
    for line in ["/orders/1a/notes", "/orders/1A%20/notes", "/orders/1A%3A/notes"] {
        let other = world.ask(&format!("POST {line}"), &world.alice, &key, "x").await;
        assert_eq!(other.code(), "key-reused", "{line}");
    }
    let id = first.header("x-operation-id").unwrap().replacen("op_", "%6F%70%5F", 1);
    let recalled = world.ask(&format!("GET /operation%73/{id}"), &world.alice, &[], "").await;
    assert_eq!(recalled.text(), first.text());
    assert_eq!(world.service.count(), 1);
}

#[tokio::test]
async fn the_services_own_prefix_is_put_before_what_was_matched_p2() {
    let world = World::with(|settings| {
        let upstream = &settings.upstreams["service"];
        let based = std::sync::Arc::new(hapax_gateway::settings::Upstream {
            base: "/v1/shop".into(),
            ..(**upstream).clone()
        });
        settings.routes.iter_mut().for_each(|route| route.upstream = based.clone());
    })
    .await;
    let got = world.ask("GET /charges/1?a=b", &world.alice, &[], "").await;
    assert_eq!((got.status, world.service.last().line()), (201, "GET /v1/shop/charges/1?a=b HTTP/1.1"));
}

#[tokio::test]
async fn a_request_has_exactly_one_host_h11() {
    let world = World::start().await;
    let auth = format!("authorization: Bearer {}\r\n", world.alice);
    for hosts in [
        "",
        "host: edge.example\r\nhost: edge.example\r\n",
        "host: edge.example\r\nHost: other.example\r\n",
        "host:\r\n",
        "host: user@edge.example\r\n",
        "host: user:pass@edge.example\r\n",
        "host: edge.example:99999\r\n",
        "host: edge.example:-1\r\n",
        "host: edge.example:+80\r\n",
        "host: edge.example:\r\n",
        "host: edge.example:80:80\r\n",
        "host: :80\r\n",
        "host: edge.example, other.example\r\n",
        "host: edge.example other.example\r\n",
        "host: edge.example/charges\r\n",
        "host: edge.example?\r\n",
        "host: http://edge.example\r\n",
        "host: a\";proto=https;x=\"\r\n",
        "host: a;proto=https\r\n",
        "host: a,b\r\n",
        "host: %65dge.example\r\n",
        "host: [::1\r\n",
        "host: [::zz]\r\n",
        "host: ::1\r\n",
        "host: \u{e9}.example\r\n",
    ] {
        let got = world.send(format!("GET /charges/1 HTTP/1.1\r\n{hosts}{auth}\r\n")).await.unwrap();
        assert_eq!((got.status, got.code().as_str()), (400, "request-malformed"), "{hosts:?}");
    }
    assert_eq!(world.service.count(), 0);
    for host in ["edge.example", "edge.example:80", "a_b.example:8080", "127.0.0.1", "[::1]", "[::1]:8080"] {
        let got = world.send(format!("GET /charges/1 HTTP/1.1\r\nhost: {host}\r\n{auth}\r\n")).await.unwrap();
        assert_eq!(got.status, 201, "{host}");
        assert_eq!(world.service.last().header("x-forwarded-host").unwrap(), host);
        let forwarded = format!("for=127.0.0.1;host=\"{host}\";proto=http");
        assert_eq!(world.service.last().header("forwarded").unwrap(), forwarded);
    }
}

#[tokio::test]
async fn no_header_turns_a_request_into_another_p2() {
    let world = World::start().await;
    for name in [
        "x-http-method-override",
        "X-HTTP-Method",
        "x-method-override",
        "x-original-url",
        "x-rewrite-url",
        "x-original-method",
        "x_http_method_override",
        "X_Original_URL",
    ] {
        for line in ["GET /charges/1", "POST /open"] {
            let got = world.ask(line, &world.alice, &[(name, "DELETE")], "").await;
            assert_eq!((got.status, got.code().as_str()), (400, "request-malformed"), "{name}");
        }
    }
    for expectation in ["tea", "100-continue, tea", ""] {
        let got = world.ask("POST /open", &world.alice, &[("expect", expectation)], "").await;
        assert_eq!((got.status, got.code().as_str()), (400, "request-malformed"), "{expectation:?}");
    }
    assert_eq!(world.service.count(), 0);
}
