//! What the admin listener has for browsers: the console's files, who asks, and what keeps other sites and guessers out (M1, M3).

use serde_json::json;

use crate::claims_cli::{hapax, told};
use crate::office::{OPERATOR, Office, READER, call_of, each};

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

#[tokio::test]
async fn shelves_and_the_newest_claims_of_all_of_them_are_listed_l17() {
    each(async |office| {
        let mut made = Vec::new();
        for number in 0..3 {
            made.push(office.settled(&format!("order-{number}"), "done").await);
            made.push(office.doubt_with(call_of("globex", &format!("order-{number}"))).await);
        }
        let shelves = office.get("/v1/shelves").await.json();
        let told: Vec<_> = shelves["shelves"]
            .as_array()
            .unwrap()
            .iter()
            .map(|shelf| {
                (shelf["tenant"].as_str().unwrap(), shelf["settled"].as_u64(), shelf["in_doubt"].as_u64())
            })
            .collect();
        assert_eq!(told, [("acme", Some(3), Some(0)), ("globex", Some(0), Some(3))]);
        let (mut listed, mut after) = (Vec::new(), String::new());
        loop {
            let page = office.get(&format!("/v1/claims?order=newest&limit=2{after}")).await.json();
            assert!(page["looked_at"].as_u64().unwrap() > 0);
            listed.extend(
                page["claims"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|claim| claim["operation_id"].as_str().unwrap().to_owned()),
            );
            let Some(next) = page["next"].as_str() else { break };
            after = format!("&after={next}");
        }
        let newest: Vec<_> = made.iter().rev().cloned().collect();
        assert_eq!(listed, newest);
        for (query, number) in [
            ("state=in_doubt&order=newest", 3),
            ("doubt=failed", 3),
            ("doubt=lapsed", 0),
            ("outcome=succeeded", 3),
            ("outcome=refused", 0),
            ("opened_after=2020-01-01T00:00:00Z&order=newest", 6),
            ("opened_after=2200-01-01T00:00:00Z", 0),
        ] {
            let page = office.get(&format!("/v1/claims?{query}")).await.json();
            assert_eq!(page["claims"].as_array().unwrap().len(), number, "{query}");
        }
        for query in ["order=newest&after=7", "order=newest&after=n1.op_x", "order=random"] {
            assert_eq!(office.get(&format!("/v1/claims?{query}")).await.status, 400, "{query}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_key_is_looked_up_and_the_same_request_under_another_key_is_shown_l17() {
    each(async |office| {
        let (one, other) =
            (office.settled("order-1", "done").await, office.settled("order-1-b", "done").await);
        let query = "tenant=acme&project=prod&subject=service:ci";
        let found = office.get(&format!("/v1/claims/lookup?{query}&key=order-1")).await.json();
        assert_eq!(found["claims"][0]["operation_id"], json!(one));
        assert_eq!(found["claims"].as_array().unwrap().len(), 1, "{found}");
        let none =
            office.get(&format!("/v1/claims/lookup?{query}&key=order-9&operation=payments.create")).await;
        assert_eq!(none.json()["claims"], json!([]));
        assert_eq!(office.get("/v1/claims/lookup?tenant=acme&key=order-1").await.status, 400);
        let related = office.get(&format!("/v1/claims/{one}/related")).await.json();
        assert_eq!(related["same_key"], json!([]));
        let same = related["same_request"].as_array().unwrap();
        assert_eq!((same.len(), &same[0]["operation_id"]), (1, &json!(other)));
    })
    .await;
}

#[tokio::test]
async fn a_note_stays_with_its_claim_and_the_audit_is_searched_l8() {
    each(async |office| {
        let id = office.doubt("order-1").await;
        let before = office.claim(&id).await;
        let note = json!({"reason": "asked the bank", "by": "ann"});
        assert_eq!(office.decide(&id, "note", note.clone()).await.json(), before);
        assert_eq!(
            office.send("POST", &format!("/v1/claims/{id}/note"), READER, &note.to_string()).await.status,
            403
        );
        office.decide(&id, "note", json!({"reason": " "})).await;
        assert_eq!(office.claim(&id).await, before);
        let other = office.settled("order-2", "done").await;
        let epoch = office.claim(&other).await["epoch"].clone();
        office.decide(&other, "purge", json!({"epoch": epoch, "reason": "again", "by": "bob"})).await;
        for (query, number) in [
            (format!("operation_id={id}"), 3),
            ("verb=note".to_owned(), 3),
            ("verb=purge".to_owned(), 1),
            ("actor=ops/ann".to_owned(), 1),
            ("actor=ops".to_owned(), 3),
            ("actor=op".to_owned(), 0),
            ("since=2200-01-01T00:00:00Z".to_owned(), 0),
            ("until=2200-01-01T00:00:00Z&limit=2".to_owned(), 2),
        ] {
            let audit = office.get(&format!("/v1/audit?{query}")).await.json();
            assert_eq!(audit["events"].as_array().unwrap().len(), number, "{query}: {audit}");
        }
        let audit = office.get("/v1/audit?verb=note&actor=ops/ann").await.json();
        let event = &audit["events"][0];
        assert_eq!((&event["key"], &event["tenant"]), (&json!("order-1"), &json!("acme")));
        assert_eq!((&event["before"], &event["after"]), (&json!("in_doubt"), &json!("in_doubt")));
        let timeline = office.get(&format!("/v1/claims/{id}/timeline")).await.json();
        let kinds: Vec<_> = timeline["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| event["kind"].as_str().unwrap())
            .collect();
        assert_eq!(kinds, ["held", "in_doubt", "note", "note", "note"], "{timeline}");
    })
    .await;
}

#[tokio::test]
async fn what_waits_for_a_person_is_listed_and_acknowledged_l8() {
    each(async |office| {
        let id = office.doubt("order-1").await;
        let attention = office.get("/v1/attention").await.json();
        let item = &attention["items"][0];
        assert_eq!((&item["kind"], &item["about"]), (&json!("claim-in-doubt"), &json!(id)));
        assert_eq!(attention["counts"]["in_doubt"], 1);
        let path = format!("/v1/attention/{}/acknowledge", item["id"].as_str().unwrap());
        let seen = json!({"reason": "the bank is asked", "by": "ann"});
        let acknowledged = office.post(&path, seen.clone()).await.json();
        assert_eq!(acknowledged["acknowledged"]["by"], "ops/ann");
        assert_eq!(office.send("POST", &path, READER, &seen.to_string()).await.status, 403);
        assert_eq!(office.post("/v1/attention/claim-none/acknowledge", seen).await.status, 404);
        let audit = office.get("/v1/audit?verb=acknowledge").await.json();
        assert_eq!(audit["events"].as_array().unwrap().len(), 1, "{audit}");
    })
    .await;
}

#[tokio::test]
async fn the_pulse_says_how_it_does_and_routes_say_what_they_do_o1() {
    let office = Office::in_memory().await;
    let pulse = office.get("/v1/pulse?window=15m").await;
    assert!(pulse.body.len() <= 4096, "{}", pulse.body.len());
    let pulse = pulse.json();
    assert_eq!((&pulse["ready"], &pulse["ledger"]["up"]), (&json!(true), &json!(true)));
    assert!(pulse["session"]["left_ms"].as_u64().unwrap() > 0);
    office.doubt("order-1").await;
    let before = pulse["changed"]["audit"].clone();
    let id = office.settled("order-2", "done").await;
    office.decide(&id, "note", json!({"reason": "seen"})).await;
    crate::rig::process::eventually("the pulse hears of the note", async || {
        office.get("/v1/pulse").await.json()["changed"]["audit"] != before
    })
    .await;
    assert_eq!(pulse["spool"], json!({"waiting": 0, "owed": 0}));
    for query in ["window=25h", "window=0s", "after=x"] {
        assert_eq!(office.get(&format!("/v1/pulse?{query}")).await.status, 400, "{query}");
    }
    let traffic = office.get("/v1/traffic?window=1h&sort=mismatch&limit=200").await.json();
    assert_eq!(traffic["more"], 0);
    for query in ["limit=0", "limit=201", "sort=colour"] {
        assert_eq!(office.get(&format!("/v1/traffic?{query}")).await.status, 400, "{query}");
    }
    let routes = office.get("/v1/routes").await.json();
    let route = &routes["routes"][0];
    assert_eq!((&route["retention"]["class"], &route["rerun"]), (&json!("critical"), &json!("unsafe")));
    let says = route["says"].as_str().unwrap();
    assert!(
        says.contains("A key is required.") && says.contains("for 7d") && says.contains("a person"),
        "{says}"
    );
    let upstreams = office.get("/v1/upstreams").await.json();
    assert_eq!(upstreams["upstreams"][0]["url"], "http://127.0.0.1:9");
}

#[tokio::test]
async fn notes_lookups_and_attention_have_their_command_lines_m2() {
    let office = Office::in_memory().await;
    let id = office.doubt("order-1").await;
    let run = async |args: &[&str]| told(hapax(&office, OPERATOR, args)).await;
    let noted = run(&["claims", "note", &id, "--reason", "asked the bank"]).await;
    assert!(noted.code == 0 && noted.err.contains("noted"), "{}", noted.err);
    let found = run(&[
        "claims",
        "find",
        "order-1",
        "--tenant",
        "acme",
        "--project",
        "prod",
        "--subject",
        "service:ci",
    ])
    .await;
    assert!(found.code == 0 && found.out.contains(&id), "{} {}", found.out, found.err);
    let newest = run(&["claims", "list", "--newest", "--doubt", "failed"]).await;
    assert!(newest.code == 0 && newest.out.contains(&id), "{} {}", newest.out, newest.err);
    let listed = run(&["attention", "list", "--json"]).await;
    let item = serde_json::from_str::<serde_json::Value>(&listed.out).unwrap()["items"][0]["id"].clone();
    let seen = run(&["attention", "acknowledge", item.as_str().unwrap(), "--reason", "on it"]).await;
    assert_eq!(seen.code, 0, "{}", seen.err);
    let again = run(&["attention", "list"]).await;
    assert!(again.out.contains("claim-in-doubt") && again.out.contains("ops"), "{}", again.out);
    assert_eq!(run(&["attention", "acknowledge", "claim-none", "--reason", "x"]).await.code, 1);
}

#[tokio::test]
async fn the_newest_of_too_many_shelves_are_refused_by_a_code_of_their_own_l17() {
    let office = Office::in_memory().await;
    for number in 0..=1_000 {
        office.doubt_with(call_of(&format!("t{number}"), "k")).await;
    }
    let refused = office.get("/v1/claims?order=newest").await;
    assert_eq!((refused.status, refused.code()), (400, "too-many-shelves".into()));
    let of_one = office.get("/v1/claims?order=newest&tenant=t7").await.json();
    assert_eq!(of_one["claims"].as_array().unwrap().len(), 1);
    let by_shelf = office.get("/v1/claims?limit=1000").await.json();
    assert_eq!(by_shelf["claims"].as_array().unwrap().len(), 1_000);
    let page = office.get("/.well-known/hapax/errors/too-many-shelves").await;
    assert!(page.status == 200 && page.body.contains("Name a tenant"), "{}", page.body);
}

#[tokio::test]
async fn everyone_sees_the_status_of_an_answer_and_whose_a_claim_is_l17() {
    each(async |office| {
        let id = office.settled("order-1", "done").await;
        let listed = office.get("/v1/claims").await.json();
        assert_eq!(listed["claims"][0]["outcome"]["status"], 201, "{listed}");
        let claim = office.get(&format!("/v1/claims/{id}")).await.json();
        assert_eq!((&claim["outcome"]["status"], &claim["outcome"]["headers"]), (&json!(201), &json!(null)));
        assert_eq!((&claim["upstream"], &claim["holder"]), (&json!("service"), &json!(null)));
        assert_eq!(claim["upstream_key"], "t-acme:prod:service:ci:order-1");
        let timeline = office.get(&format!("/v1/claims/{id}/timeline")).await.json();
        assert_eq!(timeline["events"][1]["text"], "Settled by the holder: 201");
        let held = office.held("order-2").await;
        let held = office.get(&format!("/v1/claims/{held}")).await.json();
        assert_eq!((&held["holder"]["alive"], &held["state"]), (&json!(true), &json!("held")), "{held}");
        assert!(held["holder"]["until"].is_string() && held["holder"]["instance"].is_string(), "{held}");
    })
    .await;
}

#[tokio::test]
async fn instances_store_and_configuration_are_told_m1() {
    each(async |office| {
        let told = office.get("/v1/instances").await.json();
        let instances = told["instances"].as_array().unwrap();
        assert_eq!(
            (instances.len(), &instances[0]["this"], &instances[0]["alive"]),
            (1, &json!(true), &json!(true))
        );
        let me = office.get("/v1/me").await.json();
        assert_eq!(
            (&instances[0]["name"], &instances[0]["version"]),
            (&me["server"]["instance"], &me["server"]["version"])
        );
        office.doubt("order-1").await;
        let store = office.get("/v1/store").await.json();
        assert_eq!((&store["kind"], &store["spool"]["owed"]), (&me["server"]["store"]["kind"], &json!(0)));
        assert_eq!(store["bytes"].as_u64().is_some_and(|bytes| bytes > 0), store["kind"] == "embedded");
        assert_eq!(store["free_bytes"].is_u64(), store["kind"] == "embedded");
        let config = office.get("/v1/config").await.json();
        assert_eq!((&config["config"], &config["waits_for_restart"]), (&json!(null), &json!([])));
    })
    .await;
}

#[tokio::test]
async fn what_is_looked_at_first_has_its_command_lines_m2() {
    let office = Office::in_memory().await;
    let id = office.settled("order-1", "done").await;
    let other = office.settled("order-1-b", "done").await;
    let run = async |args: &[&str]| told(hapax(&office, OPERATOR, args)).await;
    let noted = run(&["claims", "note", &id, "--reason", "asked the bank", "--by", "ann"]).await;
    assert_eq!(noted.code, 0, "{}", noted.err);
    let status = run(&["status"]).await;
    assert!(status.code == 0 && status.out.contains("1 alive of 1"), "{} {}", status.out, status.err);
    let status = run(&["status", "--json"]).await;
    let status: serde_json::Value = serde_json::from_str(&status.out).unwrap();
    assert_eq!((&status["pulse"]["ready"], &status["instances"][0]["this"]), (&json!(true), &json!(true)));
    let traffic = run(&["traffic", "--window", "1h"]).await;
    assert!(traffic.code == 0 && traffic.err.contains("no request"), "{} {}", traffic.out, traffic.err);
    assert_eq!(run(&["traffic", "--sort", "colour"]).await.code, 2);
    let audit = run(&["audit", "--operation-id", &id, "--verb", "note"]).await;
    assert!(
        audit.out.contains("asked the bank") && audit.out.contains("ops/ann"),
        "{} {}",
        audit.out,
        audit.err
    );
    assert!(run(&["audit", "--verb", "purge"]).await.err.contains("no such entry"));
    assert_eq!(run(&["audit", "--operation-id", "op_x"]).await.code, 2);
    let timeline = run(&["claims", "timeline", &id]).await;
    assert!(
        timeline.out.contains("Settled by the holder: 201") && timeline.out.contains("note"),
        "{}",
        timeline.out
    );
    let related = run(&["claims", "related", &id]).await;
    assert!(
        related.out.contains(&other) && related.err.contains("same request"),
        "{} {}",
        related.out,
        related.err
    );
}
