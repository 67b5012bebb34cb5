//! What answers where an admin listener should be, and is none: nothing it says is believed (M2).

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::claims_cli::{hapax, told};
use crate::office::{OPERATOR, Office};
use crate::rig::{self, Ground, Kind};

const ID: &str = "op_00000000000000000000000000000000";

/// Every command that asks a server.
const COMMANDS: &[&[&str]] = &[
    &["claims", "list", "--state", "in_doubt"],
    &["claims", "list", "--json"],
    &["claims", "show", ID],
    &["claims", "count"],
    &["claims", "resolve", ID, "--release", "--reason", "r", "--epoch", "1.1"],
    &["claims", "reopen", ID, "--reason", "r"],
    &["claims", "purge", ID, "--reason", "r", "--epoch", "1.1"],
    &["claims", "erase", ID, "--reason", "r", "--epoch", "1.1"],
    &["claims", "erase", "--tenant", "acme", "--subject", "user:a", "--reason", "r"],
    &["keys", "create", "--tenant", "acme", "--project", "p", "--subject", "service:ci"],
    &["keys", "list"],
    &["keys", "revoke", "hpx_0000000000000000"],
];

/// Answers everything alike.
async fn stranger(head: &'static str, body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut asked = Vec::new();
                while !asked.windows(4).any(|end| end == b"\r\n\r\n") {
                    stream.read_buf(&mut asked).await.unwrap();
                }
                let length = body.len();
                let answer = format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\n\r\n{body}");
                stream.write_all(answer.as_bytes()).await.unwrap();
                // Closed earlier, with a body unread, it would take the answer back.
                let _ = stream.read_to_end(&mut asked).await;
            });
        }
    });
    url
}

async fn is_not_believed(url: &str) {
    for args in COMMANDS {
        let told = told(rig::hapax(&[args, &["--admin", url][..]].concat())).await;
        assert_eq!((told.code, told.out.as_str()), (3, ""), "{args:?}: {}", told.err);
        assert!(told.err.contains("is no admin listener of hapax"), "{args:?}: {}", told.err);
    }
}

#[tokio::test]
async fn json_of_another_server_is_not_taken_for_an_answer_m2() {
    is_not_believed(&stranger("200 OK", r#"{"status":"ok"}"#).await).await;
    is_not_believed(&stranger("404 Not Found", r#"{"title":"Not Found"}"#).await).await;
}

#[tokio::test]
async fn an_answer_without_what_the_api_promises_is_none_m2() {
    let url = stranger("200 OK\r\nhapax-listener: admin", r#"{"status":"ok"}"#).await;
    is_not_believed(&url).await;
    let told = told(rig::hapax(&["claims", "count", "--admin", &url])).await;
    assert!(
        told.err.contains("another version (missing field `held`"),
        "what is missing is told: {}",
        told.err
    );
}

#[tokio::test]
async fn the_edge_is_not_taken_for_the_admin_listener_m2() {
    let ground = Ground::new(Kind::Embedded).await;
    let edge = ground.serve().await;
    is_not_believed(&format!("http://{}", edge.edge)).await;
}

#[tokio::test]
async fn every_answer_of_the_admin_listener_says_whose_it_is_m1() {
    let office = Office::in_memory().await;
    for path in ["/healthz", "/metrics", "/v1/claims", "/v1/claims/op_7", "/nothing/here"] {
        let answer = office.get(path).await;
        assert_eq!(answer.header("hapax-listener"), Some("admin"), "{path}: {}", answer.head);
    }
    let absent = told(hapax(&office, OPERATOR, &["claims", "show", ID])).await;
    assert_eq!(absent.code, 1, "its own 404 says that there is none: {}", absent.err);
}
