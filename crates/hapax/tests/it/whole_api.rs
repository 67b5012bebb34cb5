//! hapax in front of a whole API: a catch-all behind the routes that matter, callers of one tenant, and callers without credentials
//! (A2, P2, P3).

use crate::rig::caller::{Got, send};
use crate::rig::{Ground, Hapax, Kind};

/// Everything goes through, and one route is protected; the service checks callers itself.
const WHOLE: &str = r#"
[[routes]]
method = "*"
path = "/{*rest}"
upstream = "service"
public = true

[[routes]]
method = "POST"
path = "/v1/pay"
operation = "pay"
policy = "ACCEPTED"
upstream = "service"
public = "shared-keys"
fingerprint = "json"
"#;

/// The tenant of every caller who does not say another.
const FIXED: &str = "[auth]\ntenant = \"acme\"\nproject = \"shop\"\n";

async fn whole(sections: &str, routes: &str) -> (Ground, Hapax) {
    let mut ground = Ground::new(Kind::Embedded).await;
    (ground.sections, ground.routes) = (format!("{FIXED}{sections}"), routes.into());
    let edge = ground.serve().await;
    (ground, edge)
}

/// A request without any of the headers that name a caller.
async fn ask(edge: &Hapax, line: &str, headers: &[(&str, &str)], body: &str) -> Got {
    let fields: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    let request = format!("{line} HTTP/1.1\r\nhost: h\r\n{fields}content-length: {length}\r\n\r\n{body}");
    send(edge.edge, request.as_bytes()).await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_api_stands_behind_three_lines_and_the_route_that_matters_is_protected_p2_a2() {
    let (ground, edge) = whole("", WHOLE).await;
    // Whatever the API has goes through, with what the service checks callers by, and nothing that only hapax may say.
    let token = ("authorization", "Bearer the-services-own");
    for line in ["GET /", "GET /v1/pay", "DELETE /deep/er/still?q=1", "PURGE /x", "PUT /v1/pay"] {
        let answer = ask(&edge, line, &[token, ("x-subject", "user:root")], "").await;
        assert_eq!(answer.status, 201, "{line}: {answer:?}");
        let done = ground.service.done().pop().unwrap();
        assert_eq!(done.header("authorization"), Some("Bearer the-services-own"), "{line}");
        assert_eq!(done.header("x-tenant-id"), Some("acme"), "{line}");
        assert_eq!(done.header("x-subject"), Some("client:anonymous"), "{line}");
    }
    // The route that matters runs once under a key.
    let before = ground.service.count();
    let key = ("idempotency-key", "order-1");
    let first = ask(&edge, "POST /v1/pay", &[token, key], "{\"amount\": 10}").await;
    let again = ask(&edge, "POST /v1/pay", &[token, key], "{\"amount\":10}").await;
    assert_eq!((first.status, again.is_replay()), (201, true), "{again:?}");
    assert_eq!(first.kept(), again.kept());
    assert_eq!(ground.service.count(), before + 1);
    // What differs is told to nobody: the first caller may have been another one (A2).
    let other = ask(&edge, "POST /v1/pay", &[token, key], "{\"amount\":99}").await;
    assert_eq!(other.problem(), (422, "key-reused".into()));
    assert!(other.json().get("differences").is_none(), "{}", other.text());
    // No way around it, and hapax's own paths stay its own.
    for (line, status) in [
        ("POST /v1/Pay", 404),
        ("POST /v1/pay/", 404),
        ("post /v1/pay", 404),
        ("POST /v1//pay", 400),
        ("POST /v1/%2e/pay", 400),
        ("POST /v1/pa%79", 422),
        ("GET /.well-known/hapax/errors/none", 404),
        // No recall by key: this is one of the catch-all, which takes no key.
        ("GET /v1/pay/by-idempotency-key/order-1", 400),
        ("GET /operations/op_1", 401),
    ] {
        let reached = ground.service.count();
        let answer = ask(&edge, line, &[key], "").await;
        assert_eq!(answer.status, status, "{line}: {answer:?}");
        assert_eq!(ground.service.count(), reached, "{line}");
    }
    let known = edge.claims("settled").await;
    assert_eq!((known.len(), known[0]["subject"].as_str()), (1, Some("client:anonymous")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn preflights_are_answered_before_a_catch_all_and_other_options_go_through_p2_p7() {
    let (ground, edge) = whole("[edge.cors]\norigins = [\"https://shop.example\"]\n", WHOLE).await;
    let asks = [("origin", "https://shop.example"), ("access-control-request-method", "PATCH")];
    for path in ["/anything", "/v1/pay"] {
        let answer = ask(&edge, &format!("OPTIONS {path}"), &asks, "").await;
        assert_eq!(answer.status, 204, "{answer:?}");
        assert_eq!(answer.header("access-control-allow-origin"), Some("https://shop.example"));
        assert!(answer.header("access-control-allow-methods").unwrap().contains("PATCH"), "{answer:?}");
    }
    assert_eq!(ground.service.count(), 0);
    assert_eq!(ask(&edge, "OPTIONS /anything", &[], "").await.status, 201);
    assert_eq!(ground.service.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_catch_all_that_is_not_public_asks_for_credentials_before_a_body_p3() {
    let (ground, edge) = whole("", &WHOLE.replacen("public = true\n", "", 1)).await;
    let head = "POST /upload HTTP/1.1\r\nhost: h\r\ncontent-length: 1000000\r\n\r\n";
    let answer = send(edge.edge, head.as_bytes()).await.unwrap();
    assert_eq!((answer.problem(), ground.service.count()), ((401, "unauthenticated".into()), 0));
    // A trusted peer need not say what is fixed.
    assert_eq!(ask(&edge, "POST /upload", &[("x-subject", "user:alice")], "").await.status, 201);
    let done = ground.service.done().pop().unwrap();
    assert_eq!((done.header("x-tenant-id"), done.header("x-project-id")), (Some("acme"), Some("shop")));
    // One who names another tenant has none of this one's projects.
    let other = [("x-tenant-id", "globex"), ("x-subject", "user:alice")];
    assert_eq!(ask(&edge, "POST /upload", &other, "").await.status, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_key_counts_where_it_is_shown_in_one_place_only_a2() {
    let open = "[[routes]]\nmethod = \"*\"\npath = \"/{*rest}\"\nupstream = \"service\"\n";
    let mut ground = Ground::new(Kind::Embedded).await;
    ground.routes = open.into();
    let text = ground.configuration();
    let both = text.replace("[auth.api_keys]", "[auth.api_keys]\nalso_from = [\"x-api-key\", \"basic\"]");
    let both = both.replace("from = [\"127.0.0.1\"]", "from = []");
    let path = ground.folder.path().join("hapax.toml");
    std::fs::write(&path, &both).unwrap();
    let edge = Hapax::start(&path, &[]).await;
    let admin = format!("http://{}", edge.admin);
    let made = [
        "keys",
        "create",
        "--tenant",
        "acme",
        "--project",
        "web",
        "--subject",
        "service:a",
        "--admin",
        &admin,
    ];
    let made = ground.run(&made).await;
    let key = made.out.trim().to_owned();
    assert!(key.starts_with("hpx_"), "{} {}", made.out, made.err);
    let basic = |text: String| {
        use base64::Engine as _;
        format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(text))
    };
    let bearer = format!("Bearer {key}");
    let (user, password) = (basic(format!("{key}:")), basic(format!("api:{key}")));
    for field in [
        ("authorization", &bearer),
        ("x-api-key", &key),
        ("authorization", &user),
        ("authorization", &password),
    ] {
        let answer = ask(&edge, "GET /a", &[(field.0, field.1)], "").await;
        assert_eq!(answer.status, 201, "{field:?}");
        let done = ground.service.done().pop().unwrap();
        assert_eq!(done.header("x-subject"), Some("service:a"));
        assert_eq!(
            (done.header("authorization"), done.header("x-api-key")),
            (None, None),
            "the key stays here"
        );
    }
    let reached = ground.service.count();
    let (two, unknown) = (basic(format!("{key}:{key}")), basic("user:secret".into()));
    let wrong: [&[(&str, &str)]; 6] = [
        &[("authorization", &bearer), ("x-api-key", &key)],
        &[("x-api-key", &key), ("x-api-key", &key)],
        &[("authorization", &two)],
        &[("authorization", &unknown)],
        &[("authorization", "Basic !")],
        &[("x-api-key", "")],
    ];
    let challenges = |got: &Got| -> Vec<String> {
        let lines = got.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("www-authenticate"));
        lines.map(|(_, line)| line.clone()).collect()
    };
    for fields in wrong {
        let got = ask(&edge, "GET /a", fields, "").await;
        assert_eq!(got.problem(), (401, "unauthenticated".into()), "{fields:?}");
        // Clients that wait for a challenge show nothing without one.
        let told = challenges(&got);
        assert!(told.len() == 2 && told[0].starts_with("Bearer"), "{told:?}");
        assert_eq!(told[1], "Basic realm=\"hapax\", charset=\"UTF-8\"");
    }
    assert_eq!(ground.service.count(), reached);
    // Where nothing is said, only `Authorization: Bearer` counts.
    std::fs::write(&path, both.replace("also_from = [\"x-api-key\", \"basic\"]", "")).unwrap();
    edge.reload();
    edge.tells("the configuration was reloaded").await;
    for field in [("x-api-key", &key), ("authorization", &user)] {
        let got = ask(&edge, "GET /a", &[(field.0, field.1)], "").await;
        assert_eq!((got.status, challenges(&got).len()), (401, 1));
    }
    assert_eq!(ask(&edge, "GET /a", &[("authorization", &bearer)], "").await.status, 201);
}
