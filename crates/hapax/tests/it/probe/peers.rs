//! The probe on other people's middleware, as its own guide says to use it: what it shows is what is there.
//!
//! This is about the probe, not about the peers: if a later version does better, the row named here changes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use axum_idempotent::{IdempotentLayer, IdempotentOptions};
use ruts::store::Ttl;
use ruts::store::moka::MokaStore;
use ruts::{CookieOptions, Session, SessionLayer};
use tower_cookies::CookieManagerLayer;

use super::{probed, rows, seen};

/// A service behind `axum-idempotent` with the caller's key; whoever logs in gets a session.
fn axum_idempotent() -> Router {
    let runs = Arc::new(AtomicU64::new(0));
    let charge = move |_body: String| async move {
        // All of a race have come by then.
        tokio::time::sleep(Duration::from_millis(500)).await;
        format!("charge {}", runs.fetch_add(1, Ordering::SeqCst))
    };
    let login = async |session: Session<MokaStore>| {
        session.set("user", &String::from("alice"), Ttl::new(600).unwrap(), None).await.unwrap();
    };
    let options = IdempotentOptions::default().use_idempotency_key_header(Some("Idempotency-Key"), true);
    let cookie = CookieOptions::build().name("session").max_age(600).path("/");
    Router::new()
        .route("/charges", post(charge))
        .layer(IdempotentLayer::<MokaStore>::new(options.expire_after(300)))
        .route("/login", post(login))
        .layer(SessionLayer::new(Arc::new(MokaStore::builder().build())).with_cookie_options(cookie))
        .layer(CookieManagerLayer::new())
}

/// The cookie of a new session.
fn log_in(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "POST /login HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let at = answer.find("session=").unwrap_or_else(|| panic!("{answer}"));
    answer[at..].split(';').next().unwrap().to_owned()
}

#[test]
fn axum_idempotent_runs_a_race_many_times_and_answers_another_body_with_the_old_answer_m5() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    runtime.spawn(async move { axum::serve(listener, axum_idempotent()).await });
    let (alice, bob) = (log_in(&address), log_in(&address));
    let (code, report) = probed(&[
        &format!("http://{address}/charges"),
        "--body-json",
        r#"{"amount": 10}"#,
        "--header",
        &format!("Cookie: {alice}"),
        "--other-header",
        &format!("Cookie: {bob}"),
        "--race",
        "10",
    ]);
    assert_eq!(code, Some(1), "{report:#}");
    assert!(seen(&report, "race").starts_with("10 different answers"), "{report:#}");
    assert!(seen(&report, "other-body").contains("the answer to the first body"), "{report:#}");
    let passed = rows(&report, "pass");
    for row in ["first", "distinct", "replay", "marker", "other-caller"] {
        assert!(passed.contains(&row.to_owned()), "{row}: {report:#}");
    }
}

#[test]
fn express_idempotency_from_npm_hands_an_answer_to_another_caller_m5() {
    let peers = std::env::var("HAPAX_TEST_NPM").expect("`cargo xtask test` installs peers and says where");
    let mut node = Command::new("node")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/probe/express.js"))
        .env("HAPAX_TEST_NPM", peers)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    let read = BufReader::new(node.stdout.take().unwrap()).read_line(&mut url);
    let (alice, bob) = ("Authorization: alice", "Authorization: bob");
    let args = ["--body-json", r#"{"amount": 10}"#, "--race", "10", "--header", alice, "--other-header", bob];
    let probed = std::panic::catch_unwind(|| probed(&[&[url.trim()], &args[..]].concat()));
    node.kill().unwrap();
    node.wait().unwrap();
    read.unwrap();
    let (code, report) = probed.unwrap();
    assert_eq!(code, Some(1), "{report:#}");
    let (failed, passed) = (rows(&report, "fail"), rows(&report, "pass"));
    for row in ["forms", "duplicated", "too-long", "other-caller"] {
        assert!(failed.contains(&row.to_owned()), "{row}: {report:#}");
    }
    for row in ["first", "distinct", "replay"] {
        assert!(passed.contains(&row.to_owned()), "{row}: {report:#}");
    }
    assert_eq!(seen(&report, "other-body"), "417 instead of 422");
}
