//! What callers and clusters should not send (D, bad input).

use std::time::Duration;

use hapax_testkit::raw;
use tokio::io::AsyncWriteExt as _;

use super::*;
use crate::rig::caller::ALICE;

#[tokio::test(flavor = "multi_thread")]
async fn what_a_handler_could_not_read_never_reaches_the_cluster_k1_k3() {
    let ground = Ground::new(1, "").await;
    let edge = ground.edge("one").await;
    let long = "k".repeat(16 << 10);
    for (key, code) in [
        ("", "key-malformed"),
        ("\"\"", "key-malformed"),
        ("a b", "key-malformed"),
        ("t-acme:web:user:bob:k", "key-reserved"),
        ("a:b", "key-malformed"),
        (&*long, "key-malformed"),
    ] {
        let got = post(&edge, ALICE, "/echo", key, "{}").await;
        // A namespaced key of a trusted peer is one that names another caller.
        assert!(got.status == 400 || got.status == 403 || got.status == 431, "{key:.20} {got:?}");
        if got.status == 400 && !key.starts_with("t-") {
            assert_eq!(got.problem().1, code, "{key:.20}");
        }
    }
    let two = [("idempotency-key", "a"), ("idempotency-key", "b")];
    assert_eq!(edge.send(ALICE, "POST /echo", &two, "{}").await.problem().1, "key-duplicated");
    for body in ["", "{", "{]", "nope", "{} {}", "\u{1}"] {
        let got = post(&edge, ALICE, "/echo", "json", body).await;
        assert_eq!(got.problem(), (400, "request-malformed".into()), "{body:?}");
    }
    assert_eq!(post(&edge, ALICE, "/never", "json", "{}").await.problem(), (400, "request-malformed".into()));
    assert_eq!(ground.restate.query("SELECT id FROM sys_invocation").len(), 0, "nothing reached the cluster");
    // A quoted key is the plain one.
    let first = post(&edge, ALICE, "/echo", "quoted", "{}").await;
    let again = post(&edge, ALICE, "/echo", "\"quoted\"", "{}").await;
    assert_eq!((again.is_replay(), again.body), (true, first.body));
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_services_long_bodies_and_long_answers_are_told_by_the_edge_h2() {
    let ground = Ground::new(1, "").await;
    let edge = ground.edge("one").await;
    let gone = post(&edge, ALICE, "/gone", "k", "{}").await;
    assert_eq!(
        (gone.problem(), &gone.json()["executed"]),
        ((502, "upstream-unreachable".into()), &"unknown".into())
    );
    shows_nothing_of_the_cluster(&gone);
    let long = format!("\"{}\"", "a".repeat(33 << 20));
    assert_eq!(post(&edge, ALICE, "/echo", "long", &long).await.problem(), (413, "body-too-large".into()));
    // Longer than what is read before it is passed on.
    let body = format!("{{\"bytes\": {}}}", 3 << 20);
    for replay in [false, true] {
        let got = post(&edge, ALICE, "/long", "long", &body).await;
        assert_eq!((got.status, got.is_replay()), (200, replay));
        assert_eq!(got.json()["long"].as_str().map(str::len), Some(3 << 20));
    }
    let broken = post(&edge, ALICE, "/envelopes", "b", r#"{"envelope": {"status": 99}}"#).await;
    assert_eq!(
        (broken.problem(), &broken.json()["executed"]),
        ((502, "upstream-unreachable".into()), &"yes".into())
    );
    assert_eq!(broken.json()["retryable"], false);
}

/// An ingress that speaks no HTTP, one that cuts its answers, and one that says nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_ingress_that_answers_nonsense_half_or_nothing_is_told_in_time_d1() {
    let answer = "HTTP/1.1 202 Accepted\r\ncontent-type: application/json\r\ncontent-length: 77\r\n\r\n{\"invocationId\":\"inv_1";
    for (name, says, expected) in [
        ("nonsense", "SSH-2.0-OpenSSH_9.2\r\n", (502, "upstream-unreachable")),
        ("half", answer, (502, "upstream-unreachable")),
        ("nothing", "", (504, "upstream-timeout")),
        ("lies", "HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\n{}", (502, "upstream-unreachable")),
        ("refuses", "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n", (503, "attempt-failed")),
    ] {
        let listener = raw::listener().await;
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let _ = raw::head(&mut stream).await;
                    let _ = stream.write_all(says.as_bytes()).await;
                    if says.is_empty() {
                        tokio::time::sleep(Duration::from_secs(60)).await;
                    }
                });
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("edge.toml");
        let text = format!(
            "[edge]\nlisten = \"127.0.0.1:0\"\nthreads = 1\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken_env = \"HAPAX_ADMIN_TOKEN\"\n\
             [store]\nurl = \"memory:\"\n[auth.trusted_headers]\nfrom = [\"127.0.0.1\"]\n[auth.api_keys]\n\
             [upstreams.engine]\nkind = \"restate\"\ningress = \"http://{address}\"\nadmin = \"http://{address}\"\ntimeout = \"1s\"\n\
             suspend_after = 3\nsuspend_for = \"1h\"\n\
             [[routes]]\nmethod = \"POST\"\npath = \"/echo\"\noperation = \"echo\"\npolicy = \"REQUIRED_A\"\nupstream = \"engine\"\n\
             restate = {{ service = \"S\", handler = \"h\" }}\n"
        );
        std::fs::write(&path, text).unwrap();
        let edge = Hapax::start(&path, &[]).await;
        let got = post(&edge, ALICE, "/echo", "k", "{}").await;
        assert_eq!(got.problem(), (expected.0, expected.1.into()), "{name} {got:?}");
        shows_nothing_of_the_cluster(&got);
        if name == "nonsense" {
            for _ in 0..2 {
                post(&edge, ALICE, "/echo", "k", "{}").await;
            }
            let suspended = post(&edge, ALICE, "/echo", "k", "{}").await;
            assert_eq!(suspended.problem(), (503, "upstream-suspended".into()), "{suspended:?}");
            assert!(suspended.header("retry-after").is_some());
        }
        serving.abort();
    }
}
