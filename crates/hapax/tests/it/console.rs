//! What the admin listener has for browsers: the console's files, who asks, and what keeps other sites and guessers out (M1, M3).

use serde_json::json;

use crate::office::{OPERATOR, Office, READER, each};

/// A request as a browser may send it.
fn ask(method: &str, path: &str, more: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{more}\r\n")
}

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

#[tokio::test]
async fn the_page_and_its_files_are_served_with_the_strictest_policy_m3() {
    let office = Office::in_memory().await;
    let page = office.raw(&ask("GET", "/", "")).await;
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(!page.body.contains("BUILD/"), "{}", page.body);
    for (name, value) in [
        ("content-security-policy", POLICY),
        ("cache-control", "no-store"),
        ("x-frame-options", "deny"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("x-content-type-options", "nosniff"),
        ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
    ] {
        assert_eq!(page.header(name), Some(value), "{}", page.head);
    }
    assert!(!page.head.contains("set-cookie") && !page.head.contains("access-control"), "{}", page.head);
    let me = office.get("/v1/me").await.json();
    let build = me["server"]["console"].as_str().unwrap();
    for path in ["/ui/old/index.html", "/ui//x", "/ui/../../etc/hostname", &format!("/ui/{build}/../secret")]
    {
        let missing = office.raw(&ask("GET", path, "")).await;
        assert_eq!(missing.status, 404, "{path}");
    }
    assert_eq!(office.raw(&ask("POST", "/", "Content-Length: 0\r\n")).await.status, 405);
    assert_eq!(
        office.raw(&ask("OPTIONS", "/v1/claims", "Origin: https://evil.example\r\n")).await.status,
        405
    );
}

#[tokio::test]
async fn every_other_answer_is_inert_in_a_browser_m3() {
    let office = Office::in_memory().await;
    for path in ["/healthz", "/metrics", "/v1/claims", "/nowhere", "/.well-known/hapax/errors/forbidden"] {
        let answer = office.send("GET", path, READER, "").await;
        let policy = "default-src 'none'; frame-ancestors 'none'; sandbox";
        assert_eq!(answer.header("content-security-policy"), Some(policy), "{path}");
    }
}

#[tokio::test]
async fn a_token_is_told_who_it_is_and_who_answers_m1() {
    let office = Office::in_memory().await;
    for (token, name, role) in [(READER, "looker", "read"), (OPERATOR, "ops", "operate")] {
        let me = office.send("GET", "/v1/me", token, "").await.json();
        assert_eq!((&me["name"], &me["role"]), (&json!(name), &json!(role)));
        assert_eq!(me["server"]["store"], json!({"kind": "memory"}));
        assert_eq!((&me["server"]["label"], &me["server"]["sealed"]), (&json!("test"), &json!(false)));
        assert_eq!(me["links"][0]["url"], "https://trace.example/{operation_id}");
    }
}

#[tokio::test]
async fn a_page_of_another_site_reads_and_changes_nothing_m1() {
    let office = Office::in_memory().await;
    let bearer = format!("Authorization: Bearer {OPERATOR}\r\nContent-Length: 0\r\n");
    for path in ["/v1/claims", "/v1/keys", "/metrics", "/openapi.json"] {
        for (site, status) in [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)] {
            let answer = office.raw(&ask("GET", path, &format!("{bearer}Sec-Fetch-Site: {site}\r\n"))).await;
            assert_eq!(answer.status, status, "{path} {site}");
        }
    }
    // A link in a chat leads to the console all the same.
    assert_eq!(office.raw(&ask("GET", "/", "Sec-Fetch-Site: cross-site\r\n")).await.status, 200);
}

#[tokio::test]
async fn other_hosts_get_nothing_on_any_path_m1() {
    let office = Office::in_memory().await;
    for path in [
        "/",
        "/ui/x/y",
        "/healthz",
        "/readyz",
        "/metrics",
        "/v1/claims",
        "/v1/me",
        "/nowhere",
        "/openapi.json",
    ] {
        let request = ask("GET", path, "").replace("Host: localhost", "Host: evil.example");
        let answer = office.raw(&request).await;
        assert_eq!((answer.status, answer.code().as_str()), (421, "misdirected"), "{path}");
        assert!(answer.body.contains("`hosts` of [admin]"), "{}", answer.body);
    }
}

#[tokio::test]
async fn guessing_is_slowed_down_and_a_forgotten_script_shuts_nobody_out_m1() {
    let office = Office::in_memory().await;
    for _ in 0..15 {
        assert_eq!(office.send("GET", "/v1/me", "an-old-token", "").await.status, 401);
    }
    assert_eq!(office.send("GET", "/v1/me", READER, "").await.status, 200);
    for number in 0..9 {
        assert_eq!(office.send("GET", "/v1/me", &format!("guess-{number}"), "").await.status, 401);
    }
    for token in ["guess-9", READER] {
        let answer = office.send("GET", "/v1/me", token, "").await;
        assert_eq!((answer.status, answer.code().as_str()), (429, "too-many-guesses"), "{token}");
        assert!(answer.header("retry-after").unwrap().parse::<u64>().unwrap() <= 60);
    }
    assert_eq!(office.send("GET", "/healthz", "", "").await.status, 200);
}

#[tokio::test]
async fn keys_and_refused_decisions_are_in_the_audit_by_name_l8() {
    each(async |office| {
        let new = json!({"tenant": "acme", "project": "prod", "subject": "service:ci", "label": "build"});
        let id = office.post("/v1/keys", new).await.json()["id"].as_str().unwrap().to_owned();
        assert_eq!(office.send("DELETE", &format!("/v1/keys/{id}"), OPERATOR, "").await.status, 200);
        let settled = office.settled("order-1", "done").await;
        let stale = json!({"epoch": "9.9", "reason": "it is not what I saw"});
        assert_eq!(office.decide(&settled, "purge", stale.clone()).await.status, 409);
        let purge = format!("/v1/claims/{settled}/purge");
        assert_eq!(office.send("POST", &purge, READER, &stale.to_string()).await.status, 403);
        assert_eq!(office.send("POST", &purge, "", "{}").await.status, 401);
        let events = office.get("/v1/audit").await.json()["events"].clone();
        let told: Vec<_> = events
            .as_array()
            .unwrap()
            .iter()
            .map(|event| {
                [
                    &event["verb"],
                    &event["actor"],
                    &event["refused"],
                    &event["setting"],
                    &event["operation_id"],
                ]
            })
            .map(|row| row.map(|value| value.as_str().unwrap_or("-").to_owned()))
            .collect();
        let key = format!("key/{id}");
        assert_eq!(
            told,
            [
                ["purge", "looker", "forbidden", "-", &settled],
                ["purge", "ops", "claim-changed", "-", &settled],
                ["key-revoke", "ops", "-", &key, "-"],
                ["key-create", "ops", "-", &key, "-"],
            ]
        );
    })
    .await;
}
