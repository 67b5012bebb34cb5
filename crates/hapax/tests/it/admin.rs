//! The admin listener: who gets in, what can be asked, and how it refuses (M1, M4, L17).

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::office::{OPERATOR, Office, READER, call_of, each};

const ID: &str = "op_00000000000000000000000000000000";

/// Every path that needs a token, with its method.
fn guarded() -> Vec<(&'static str, String)> {
    let mut paths: Vec<(&'static str, String)> = [
        "/openapi.json",
        "/v1/claims",
        "/v1/claims/count",
        "/v1/keys",
        "/v1/retention",
        "/v1/audit",
        "/v1/routes",
    ]
    .into_iter()
    .map(|path| ("GET", path.to_owned()))
    .collect();
    paths.push(("GET", format!("/v1/claims/{ID}")));
    paths.extend(changing());
    paths
}

fn changing() -> Vec<(&'static str, String)> {
    let mut paths: Vec<(&'static str, String)> = ["resolve", "reopen", "purge", "erase"]
        .into_iter()
        .map(|verb| ("POST", format!("/v1/claims/{ID}/{verb}")))
        .collect();
    paths.push(("POST", "/v1/keys".into()));
    paths.push(("DELETE", "/v1/keys/key_1".into()));
    paths.push(("POST", "/v1/retention/critical".into()));
    paths.push(("DELETE", "/v1/retention/critical?reason=r".into()));
    paths.push(("POST", "/v1/claims/erase".into()));
    paths
}

#[tokio::test]
async fn without_a_token_only_health_readiness_and_metrics_answer_m1() {
    let office = Office::in_memory().await;
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(office.send("GET", path, "", "").await.status, 200, "{path}");
    }
    assert!(office.send("GET", "/metrics", "", "").await.body.contains("hapax_ledger_up 1"));
    for (method, path) in guarded() {
        let answer = office.send(method, &path, "", "").await;
        assert_eq!((answer.status, answer.code().as_str()), (401, "unauthenticated"), "{method} {path}");
        assert!(answer.header("www-authenticate").unwrap().starts_with("bearer"), "{}", answer.head);
    }
}

#[tokio::test]
async fn the_type_of_every_problem_leads_to_a_page_on_the_same_listener_h1() {
    let office = Office::in_memory().await;
    let refused = office.send("GET", "/v1/claims", "", "").await;
    let id = office.settled("order-1", "done").await;
    let stale = json!({"epoch": "9.9", "reason": "it is not what I saw"});
    let changed = office.decide(&id, "purge", stale).await;
    for (problem, code) in [(refused, "unauthenticated"), (changed, "claim-changed")] {
        assert_eq!(problem.code(), code);
        let page = problem.json()["type"].as_str().unwrap().to_owned();
        assert_eq!(problem.header("link").unwrap(), format!("<{page}>; rel=\"describedby\""));
        let page = office.send("GET", &page, "", "").await;
        assert!(
            page.status == 200 && page.body.starts_with("# 4") && page.body.contains(code),
            "{}",
            page.body
        );
    }
    let pages = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors")).unwrap();
    let names = pages.map(|page| page.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned());
    for name in names.filter(|name| name != "README") {
        let page = office.send("GET", &format!("/.well-known/hapax/errors/{name}"), "", "").await;
        assert_eq!(page.status, 200, "{name}");
    }
    assert_eq!(office.send("GET", "/.well-known/hapax/errors/nonsense", "", "").await.status, 404);
}

#[tokio::test]
async fn a_wrong_token_is_refused_m1() {
    let office = Office::in_memory().await;
    let longer = format!("{READER}x");
    for token in ["wrong", &READER[1..], &longer, "looker", "reader-0123456788"] {
        assert_eq!(office.send("GET", "/v1/claims", token, "").await.status, 401, "{token}");
    }
    let line = format!("Authorization: Bearer {READER}\r\n");
    for lines in [
        format!("{line}{line}"),
        format!("Authorization: Basic {READER}\r\n"),
        format!("Cookie: {READER}\r\n"),
    ] {
        let request =
            format!("GET /v1/claims HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{lines}\r\n");
        assert_eq!(office.raw(&request).await.status, 401, "{lines}");
    }
}

#[tokio::test]
async fn the_role_read_looks_and_changes_nothing_m1() {
    let office = Office::in_memory().await;
    let id = office.settled("order-1", "done").await;
    for (method, path) in changing() {
        let answer = office.send(method, &path.replace(ID, &id), READER, "{}").await;
        assert_eq!((answer.status, answer.code().as_str()), (403, "forbidden"), "{method} {path}");
    }
    let outcome = office.get(&format!("/v1/claims/{id}?outcome=true")).await;
    assert_eq!((outcome.status, outcome.code().as_str()), (403, "forbidden"));
    assert_eq!(office.claim(&id).await["state"], "settled");
}

#[tokio::test]
async fn nothing_of_the_edge_or_the_application_api_is_served_here_m1() {
    let office = Office::in_memory().await;
    for path in ["/payments", "/operations/op_1", "/v1/", "/v1/plans", "/v1/claims/"] {
        let answer = office.send("GET", path, OPERATOR, "").await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "not-found"), "{path}");
    }
    let answer = office.send("DELETE", "/v1/claims", OPERATOR, "").await;
    assert_eq!((answer.status, answer.code().as_str()), (405, "method-not-allowed"));
    assert!(answer.header("allow").unwrap().contains("get"), "{}", answer.head);
}

#[tokio::test]
async fn claims_are_listed_in_pages_and_by_what_they_are_l17() {
    each(async |office| {
        for number in 0..5 {
            office.settled(&format!("order-{number}"), "done").await;
        }
        let doubt = office.doubt("order-5").await;
        let other = office.doubt_with(call_of("globex", "order-5")).await;
        let held = office.held("order-6").await;
        let (mut keys, mut after) = (Vec::new(), String::new());
        loop {
            let page = office.get(&format!("/v1/claims?tenant=acme&limit=2{after}")).await.json();
            let claims = page["claims"].as_array().unwrap();
            assert!(claims.len() <= 2);
            keys.extend(claims.iter().map(|claim| claim["key"].as_str().unwrap().to_owned()));
            let Some(next) = page["next"].as_str() else { break };
            after = format!("&after={next}");
        }
        let expected: Vec<_> = (0..7).map(|number| format!("order-{number}")).collect();
        assert_eq!(keys, expected);

        let ids = async |query: &str| -> Vec<String> {
            let page = office.get(&format!("/v1/claims?{query}")).await.json();
            page["claims"]
                .as_array()
                .unwrap()
                .iter()
                .map(|claim| claim["operation_id"].as_str().unwrap().to_owned())
                .collect()
        };
        assert_eq!(ids("state=in_doubt").await, [doubt.clone(), other.clone()]);
        assert_eq!(ids("state=in_doubt&tenant=globex").await, [other]);
        assert_eq!(ids("state=held").await, [held]);
        assert_eq!(
            ids("key=order-5&tenant=acme&project=prod&subject=service%3Aci&operation=payments.create").await,
            [doubt]
        );
        assert_eq!(ids("subject=user%3Aci").await, Vec::<String>::new());
        assert_eq!(ids("age=1h").await, Vec::<String>::new());
        assert_eq!(ids("opened_before=2999-01-01T00:00:00Z").await.len(), 8);
        let counts = office.get("/v1/claims/count?tenant=acme").await.json();
        assert_eq!(counts, json!({"held": 1, "settled": 5, "in_doubt": 1, "released": 0}));
    })
    .await;
}

#[tokio::test]
async fn questions_that_cannot_be_understood_say_why() {
    let office = Office::in_memory().await;
    for (path, why) in [
        ("/v1/claims?state=lost", "held, settled, in_doubt or released"),
        ("/v1/claims?limit=0", "1 to 1000"),
        ("/v1/claims?limit=1001", "1 to 1000"),
        ("/v1/claims?limit=many", "limit"),
        ("/v1/claims?teant=acme", "teant"),
        ("/v1/claims?after=elsewhere", "page mark"),
        ("/v1/claims?age=long", "span of time"),
        ("/v1/claims?opened_before=yesterday", "time in UTC"),
        ("/v1/claims?age=1h&opened_before=2026-01-01T00:00:00Z", "not both"),
        ("/v1/claims?tenant=NOPE!", "tenant"),
        ("/v1/claims?subject=al", "user:ID"),
        ("/v1/claims/count?key=k", "every state is told"),
        ("/v1/claims/count?subject=user:a", "every state is told"),
        ("/v1/claims/count?state=held", "every state is told"),
        ("/v1/claims/op_1", "op_"),
        ("/v1/claims/op_zz000000000000000000000000000000", "op_"),
        ("/v1/audit?limit=0", "1 to 1000"),
        ("/v1/keys?limit=0", "1 to 1000"),
    ] {
        let answer = office.get(path).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "request-malformed"), "{path}");
        assert!(answer.json()["detail"].as_str().unwrap().contains(why), "{path}: {}", answer.body);
    }
    assert_eq!(office.get(&format!("/v1/claims/{ID}")).await.status, 404);
}

#[tokio::test]
async fn a_claim_is_shown_without_its_answer_unless_an_operator_asks_for_it() {
    each(async |office| {
        let id = office.settled("order-1", "the secret answer").await;
        let shown = office.get(&format!("/v1/claims/{id}")).await;
        let claim = shown.json();
        assert_eq!(
            (&claim["state"], &claim["source"], &claim["rerun"]),
            (&json!("settled"), &json!("header"), &json!("unsafe"))
        );
        assert_eq!(claim["outcome"]["kind"], "succeeded");
        assert!(claim["outcome"]["bytes"].as_u64().unwrap() > 0);
        assert!(
            !shown.body.contains("secret") && claim["outcome"].get("body_base64").is_none(),
            "{}",
            shown.body
        );
        let whole = office.send("GET", &format!("/v1/claims/{id}?outcome=true"), OPERATOR, "").await.json();
        assert_eq!(
            (&whole["outcome"]["status"], &whole["outcome"]["body_base64"]),
            (&json!(201), &json!("dGhlIHNlY3JldCBhbnN3ZXI="))
        );
        // What a program kept through the library is no answer of HTTP.
        office.retry("order-2").await.unwrap();
        let listed = office.get("/v1/claims?key=order-2").await.json();
        let id = listed["claims"][0]["operation_id"].as_str().unwrap().to_owned();
        let whole = office.send("GET", &format!("/v1/claims/{id}?outcome=true"), OPERATOR, "").await.json();
        assert_eq!(whole["outcome"]["kept_base64"], "cmFu");
    })
    .await;
}

#[tokio::test]
async fn keys_are_made_listed_and_revoked_a2() {
    each(async |office| {
        let asked = json!({"tenant": "acme", "project": "prod", "subject": "service:ci", "label": "build", "expires": "90d"});
        let made = office.post("/v1/keys", asked).await;
        assert_eq!(made.status, 201);
        let (id, key) = (made.json()["id"].clone(), made.json()["key"].clone());
        assert!(key.as_str().unwrap().starts_with("hpx_"));
        office.post("/v1/keys", json!({"tenant": "acme", "subject": "service:ops", "level": "tenant"})).await;
        let listed = office.get("/v1/keys").await.json();
        let keys = listed["keys"].as_array().unwrap();
        assert_eq!(keys.len(), 2);
        let first = keys.iter().find(|key| key["id"] == id).unwrap();
        assert_eq!((&first["subject"], &first["level"], &first["label"]), (&json!("service:ci"), &json!("project"), &json!("build")));
        let page = office.get("/v1/keys?limit=1").await.json();
        let rest = office.get(&format!("/v1/keys?limit=1&after={}", page["next"].as_str().unwrap())).await.json();
        assert_eq!(rest["keys"].as_array().unwrap().len(), 1);
        // That the last page was the last one is known when another is asked for.
        let end = office.get(&format!("/v1/keys?limit=1&after={}", rest["next"].as_str().unwrap())).await.json();
        assert_eq!(end, json!({"keys": [], "next": null}));
        let path = format!("/v1/keys/{}", id.as_str().unwrap());
        for said in ["first", "again"] {
            let revoked = office.send("DELETE", &path, OPERATOR, "").await;
            assert_eq!((revoked.status, revoked.json()), (200, json!({"id": id, "revoked": true})), "{said}");
        }
        assert_eq!(office.send("DELETE", "/v1/keys/hpx_0000000000000000", OPERATOR, "").await.status, 404);
        assert_eq!(office.get("/v1/keys").await.json()["keys"].as_array().unwrap().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn keys_that_could_not_work_are_refused_a2() {
    let office = Office::in_memory().await;
    for (asked, why) in [
        (json!({"tenant": "acme", "subject": "service:ci"}), "name the project"),
        (json!({"tenant": "Acme", "project": "prod", "subject": "service:ci"}), "tenant is no slug"),
        (json!({"tenant": "acme", "project": "_tenant", "subject": "service:ci"}), "project is no slug"),
        (json!({"tenant": "acme", "project": "prod", "subject": "ci"}), "no type"),
        (json!({"tenant": "acme", "project": "prod", "subject": "service:scheduler"}), "reserved"),
        (json!({"tenant": "acme", "project": "prod", "subject": "service:ci", "level": "root"}), "level"),
        (
            json!({"tenant": "acme", "project": "prod", "subject": "service:ci", "expires": "2020-01-01T00:00:00Z"}),
            "expired",
        ),
        (
            json!({"tenant": "acme", "project": "prod", "subject": "service:ci", "scope": "all"}),
            "unknown field",
        ),
        (json!({"tenant": "acme"}), "missing field"),
    ] {
        let answer = office.post("/v1/keys", asked).await;
        assert_eq!(answer.status, 400, "{}", answer.body);
        assert!(answer.json()["detail"].as_str().unwrap().contains(why), "{why}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_class_of_retention_is_listed_set_and_taken_back_p5() {
    each(async |office| {
        let class = async || office.get("/v1/retention").await.json()["classes"][0].clone();
        let critical = class().await;
        assert_eq!(
            (&critical["class"], &critical["retention"], &critical["set"], &critical["routes"]),
            (&json!("critical"), &json!("7d"), &Value::Null, &json!(["POST /payments"]))
        );
        let path = "/v1/retention/critical";
        let set = office.post(path, json!({"retention": "2d", "reason": "audit", "by": "kim"})).await;
        assert_eq!((set.status, &set.json()), (200, &class().await));
        assert_eq!((&set.json()["retention"], &set.json()["set"]["by"]), (&json!("2d"), &json!("ops/kim")));
        let event = office.get("/v1/audit?limit=1").await.json()["events"][0].clone();
        assert_eq!((&event["setting"], &event["after"]), (&json!("retention/critical"), &json!("2d")));
        let unset = office.send("DELETE", &format!("{path}?reason=done"), OPERATOR, "").await;
        assert_eq!((unset.status, &unset.json()["retention"]), (200, &json!("7d")));
        for (body, status) in [
            (json!({"retention": "soon", "reason": "r"}), 400),
            (json!({"retention": "2d"}), 400),
            (json!({"retention": "2d", "reason": ""}), 400),
        ] {
            assert_eq!(office.post(path, body).await.status, status);
        }
        assert_eq!(office.send("DELETE", path, OPERATOR, "").await.status, 400, "no reason");
        let absent = json!({"retention": "2d", "reason": "r"});
        assert_eq!(office.post("/v1/retention/absent", absent).await.status, 404);
        assert_eq!(class().await, critical);
    })
    .await;
}

#[tokio::test]
async fn what_an_operator_states_is_kept_as_the_route_says_unless_it_is_said_otherwise_l8() {
    each(async |office| {
        let kept_for = async |key: &str, retention: Value| {
            let id = office.doubt(key).await;
            let mut settle = json!({"status": 201});
            if retention.is_string() {
                settle["retention"] = retention;
            }
            let epoch = office.claim(&id).await["epoch"].clone();
            let body = json!({"epoch": epoch, "reason": "r", "settle": settle});
            crate::retention_cli::kept_since(
                &office.decide(&id, "resolve", body).await.json()["claim"],
                "settled_at",
            )
        };
        assert_eq!(kept_for("one", Value::Null).await, 7 * crate::retention_cli::DAY);
        assert_eq!(kept_for("other", json!("2d")).await, 2 * crate::retention_cli::DAY);
    })
    .await;
}

#[tokio::test]
async fn routes_and_the_description_are_served() {
    let office = Office::in_memory().await;
    let route = office.get("/v1/routes").await.json()["routes"][0].clone();
    for (member, value) in [
        ("method", json!("POST")),
        ("path", json!("/payments")),
        ("policy", json!("REQUIRED_A")),
        ("upstream", json!("service")),
        ("operation", json!("payments.create")),
        ("first_name", json!("payments.create")),
        ("scope", json!("subject")),
        ("rerun", json!("unsafe")),
        ("retention", json!({"class": "critical", "kept": "7d"})),
        ("fingerprint", json!("raw")),
        ("mismatch_status", json!(422)),
        ("give_up", json!("15m")),
    ] {
        assert_eq!(route[member], value, "{member}");
    }
    let says = route["says"].as_str().unwrap();
    assert!(says.contains("gets the first answer for 7d"), "{says}");
    assert_eq!(office.get("/openapi.json").await.json()["openapi"], "3.1.0");
}

#[tokio::test]
async fn a_request_that_is_being_answered_is_finished_before_the_listener_ends() {
    let mut office = Office::in_memory().await;
    let mut stream = TcpStream::connect(&office.address).await.unwrap();
    let body = json!({"tenant": "acme", "project": "prod", "subject": "service:ci"}).to_string();
    let head = format!(
        "POST /v1/keys HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {OPERATOR}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&body.as_bytes()[..10]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let _stopping = office.tell_to_stop();
    let refused = async { while TcpStream::connect(&office.address).await.is_ok() {} };
    tokio::time::timeout(Duration::from_secs(30), refused).await.expect("nobody new gets in");
    stream.write_all(&body.as_bytes()[10..]).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
}

#[tokio::test]
async fn an_idle_connection_does_not_keep_the_listener_from_ending() {
    let mut office = Office::in_memory().await;
    let _idle = TcpStream::connect(&office.address).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let stopping = office.tell_to_stop();
    assert!(tokio::time::timeout(Duration::from_secs(30), stopping).await.unwrap().unwrap().unwrap());
}

#[tokio::test]
async fn a_page_under_a_name_of_its_own_reads_nothing_of_this_listener_m1() {
    let office = Office::in_memory().await;
    let ask = async |path: &str, host: &str| {
        let mut stream = TcpStream::connect(&office.address).await.unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\n{host}Connection: close\r\nAuthorization: Bearer {OPERATOR}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    for path in ["/metrics", "/v1/claims", "/openapi.json", "/.well-known/hapax/errors/forbidden"] {
        let refused = ask(path, "Host: rebound.example:8081\r\n").await;
        assert!(refused.starts_with("HTTP/1.1 421 "), "{path}: {refused}");
        assert!(refused.contains("rebound.example") && refused.contains("`hosts` of [admin]"), "{refused}");
        for host in ["Host: 127.0.0.1:1\r\n", "Host: localhost\r\n", "Host: hapax.internal:8081\r\n"] {
            assert!(ask(path, host).await.starts_with("HTTP/1.1 200 "), "{path} {host}");
        }
    }
}
