//! Which node a call goes to: the next one only where a node did not take it, none that has failed too often, and that one again when it
//! is back (D, bounds).

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hapax_testkit::raw;
use tokio::io::AsyncWriteExt as _;

use super::*;
use crate::rig::caller::ALICE;

/// A node that says the same to whatever it is asked.
struct Broken {
    address: SocketAddr,
    /// The keys that it was asked with.
    keys: Arc<Mutex<Vec<String>>>,
}

impl Broken {
    async fn saying(says: &'static str) -> Broken {
        let listener = raw::listener().await;
        let (address, keys) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<String>>>::default());
        let kept = keys.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let kept = kept.clone();
                tokio::spawn(async move {
                    let head = raw::head(&mut stream).await;
                    let key = head.lines().find_map(|line| line.strip_prefix("idempotency-key: "));
                    kept.lock().unwrap().extend(key.map(str::to_owned));
                    let _ = stream.write_all(says.as_bytes()).await;
                });
            }
        });
        Broken { address, keys }
    }
}

/// An edge in front of the server and this node, of which each gets every other call first.
async fn beside(ground: &Ground, broken: &Broken) -> Hapax {
    let there = format!("ingress = [\"http://{}\"]", ground.restate.ingress()[0]);
    let both =
        format!("ingress = [\"http://{}\", \"http://{}\"]", broken.address, ground.restate.ingress()[0]);
    let text = ground.configuration();
    assert!(text.contains(&there), "{text}");
    let path = ground.folder.path().join("beside.toml");
    std::fs::write(&path, text.replace(&there, &both)).unwrap();
    Hapax::start(&path, &[]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn only_where_a_node_did_not_take_a_call_the_next_one_is_asked_with_the_same_key_d1() {
    let ground = Ground::new(1, "").await.with("classify = \"marker\"\nsuspend_after = 1000");
    let runs = AtomicUsize::new(0);
    for (name, says, goes_on) in [
        ("busy", "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n", true),
        ("away", "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n", true),
        ("silent", "", true),
        ("half", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{", true),
        ("broken", "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n", false),
        ("other", "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", false),
    ] {
        let broken = Broken::saying(says).await;
        let edge = beside(&ground, &broken).await;
        let mut refused = Vec::new();
        for number in 0..4 {
            let key = format!("{name}-{number}");
            let got = post(&edge, ALICE, "/echo", &key, r#"{"a": 1}"#).await;
            match got.status {
                200 => _ = runs.fetch_add(1, Relaxed),
                _ => refused.push((key, got)),
            }
        }
        let asked = broken.keys.lock().unwrap().clone();
        assert!(!asked.is_empty(), "{name}: it was its turn");
        for key in &asked {
            assert!(key.starts_with(&format!("t-acme:web:user:alice:{name}-")), "{key}");
        }
        match goes_on {
            true => assert!(refused.is_empty(), "{name}: {refused:?}"),
            false => {
                assert_eq!(refused.len(), asked.len(), "{name}: what it refuses is not sent elsewhere");
                for (key, got) in &refused {
                    assert!(asked.iter().any(|asked| asked.ends_with(key.as_str())), "{key} {asked:?}");
                    assert_eq!(got.problem(), (502, "upstream-unreachable".into()), "{name}: {got:?}");
                }
            }
        }
    }
    assert_eq!(ground.count("echo"), runs.into_inner());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_node_gets_calls_again_when_a_probe_finds_it_back_d1() {
    let upstream =
        "suspend_after = 2\nsuspend_for = \"300ms\"\ntimeout = \"5s\"\nretry = { max_attempts = 1 }";
    let mut ground = Ground::new(1, "").await.with(upstream);
    let edge = ground.edge("one").await;
    assert_eq!(post(&edge, ALICE, "/echo", "before", r#"{"a": 1}"#).await.status, 200);
    ground.restate.kill(0);
    let begun = Instant::now();
    let suspended = loop {
        let got = post(&edge, ALICE, "/echo", "k", r#"{"a": 1}"#).await;
        assert!(matches!(got.status, 502..=504), "{got:?}");
        if got.problem().1 == "upstream-suspended" {
            break got;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{got:?}");
    };
    assert!(suspended.header("retry-after").is_some() && suspended.json()["retryable"] == true);
    let metrics = edge.ask("GET /metrics", "").await.text();
    assert!(
        metrics.lines().any(|line| line.starts_with("hapax_circuits_open{node=\"") && line.ends_with(" 1")),
        "{metrics}"
    );
    // Away for longer than the suspension: one request at a time looks, and nothing else is asked.
    tokio::time::sleep(Duration::from_millis(400)).await;
    let still = post(&edge, ALICE, "/echo", "k", r#"{"a": 1}"#).await;
    assert_eq!(still.problem(), (503, "upstream-suspended".into()), "{still:?}");
    let ground = tokio::task::spawn_blocking(move || {
        ground.restate.restart(0);
        ground
    });
    let ground = ground.await.unwrap();
    let begun = Instant::now();
    let back = loop {
        let got = post(&edge, ALICE, "/echo", "k", r#"{"a": 1}"#).await;
        if got.status == 200 {
            break got;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{got:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!((back.is_replay(), ground.count("echo")), (false, 2), "{back:?}");
}
