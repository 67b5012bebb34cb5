//! The same as a middleware of an existing reqwest client (C8).

use std::time::Duration;

use hapax_client::middleware::{NoKey, SafeRetries};
use hapax_client::{Error, Executed, Kind, Retry, RetryPolicy};
use reqwest_middleware::ClientWithMiddleware;

use crate::server::{Do, Server, WHOLE};

fn client() -> ClientWithMiddleware {
    let policy = RetryPolicy::new(3, Duration::from_millis(1), Duration::from_millis(5), 0.1).unwrap();
    reqwest_middleware::ClientBuilder::new(reqwest::Client::new()).with(SafeRetries::new(policy)).build()
}

#[tokio::test]
async fn a_post_gets_a_key_that_all_its_attempts_share_c8() {
    let server = Server::start([Do::Answer(503, "", ""), Do::Cut(0), Do::Answer(201, "", "charged")]).await;
    let answer = client().post(server.url()).body("ten").send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.text().await.unwrap()), (201, "charged".to_owned()));
    let keys = server.keys();
    assert!(keys.len() == 3 && keys[0].is_some() && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    assert!(server.came().iter().all(|came| came.body == "ten"));
}

#[tokio::test]
async fn a_key_of_the_callers_own_stays_and_no_key_means_one_attempt_c8() {
    let server = Server::start([Do::Answer(503, "", "")]).await;
    client().post(server.url()).header("idempotency-key", "mine").send().await.unwrap();
    assert_eq!(server.keys(), vec![Some("mine".to_owned()); 2]);
    let server = Server::start([Do::Answer(503, "", "")]).await;
    let answer = client().post(server.url()).with_extension(NoKey).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), server.keys()), (503, vec![None]));
}

#[tokio::test]
async fn a_key_that_is_none_is_an_error_before_anything_is_sent_c1_c8() {
    let server = Server::start([Do::Answer(503, "", "")]).await;
    for none in ["", " ", "\"\"", "\" \""] {
        let sent = client().post(server.url()).header("idempotency-key", none).send().await;
        assert!(sent.unwrap_err().is_middleware(), "{none:?}");
    }
    let two = client().post(server.url()).header("idempotency-key", "a").header("idempotency-key", "b");
    assert!(two.send().await.unwrap_err().is_middleware());
    assert_eq!(server.came().len(), 0, "a server that takes it for none would do it at every attempt");
    let quoted = client().post(server.url()).header("idempotency-key", "\"order-42\"").send().await;
    assert_eq!((quoted.unwrap().status().as_u16(), server.came().len()), (200, 2));
}

#[tokio::test]
async fn an_attempt_that_never_ends_ends_with_the_deadline_c3_c8() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    for deadline in [Duration::from_millis(200), Duration::from_millis(1)] {
        let retries = SafeRetries::default().deadline(deadline);
        let client = reqwest_middleware::ClientBuilder::new(reqwest::Client::new()).with(retries).build();
        let sent = tokio::time::timeout(Duration::from_secs(20), client.post(&url).body("ten").send()).await;
        assert!(sent.expect("it ends by itself").is_err());
    }
    let server = Server::start([]).await;
    let retries = SafeRetries::default().deadline(Duration::MAX);
    let client = reqwest_middleware::ClientBuilder::new(reqwest::Client::new()).with(retries).build();
    assert_eq!(client.post(server.url()).send().await.unwrap().status().as_u16(), 200);
}

#[tokio::test]
async fn an_error_of_the_deadline_knows_what_was_sent_c3_c4() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let retries = SafeRetries::default().deadline(Duration::from_millis(200));
    let client = reqwest_middleware::ClientBuilder::new(reqwest::Client::new()).with(retries).build();
    for (key, retry) in [(Some("order-42"), true), (None, false)] {
        let request = client.post(&url).body("ten");
        let request = match key {
            Some(key) => request.header("idempotency-key", key),
            None => request.with_extension(NoKey),
        };
        let reqwest_middleware::Error::Middleware(error) = request.send().await.unwrap_err() else {
            panic!("not ours")
        };
        let error: &Error = error.downcast_ref().unwrap();
        assert_eq!((error.kind(), error.attempts(), error.key()), (Kind::Network, 1, key));
        assert_eq!(
            (error.executed(), matches!(error.retry(), Retry::SameKey(_))),
            (Executed::Unknown, retry)
        );
    }
}

#[tokio::test]
async fn a_request_that_is_still_running_is_asked_again_and_other_conflicts_are_handed_on_whole_c8() {
    let problem = "content-type: application/problem+json\r\n";
    let server = Server::start([Do::Answer(409, problem, "{\"code\":\"in-progress\"}")]).await;
    assert_eq!(client().post(server.url()).send().await.unwrap().status().as_u16(), 200);
    let server = Server::start([Do::Answer(409, problem, "{\"code\":\"key-reused\"}")]).await;
    let answer = client().post(server.url()).send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "application/problem+json");
    assert_eq!(answer.text().await.unwrap(), "{\"code\":\"key-reused\"}");
    assert_eq!(server.came().len(), 1);
}

#[tokio::test]
async fn a_head_cut_at_any_byte_is_asked_for_again_c8() {
    let head = WHOLE.find("\r\n\r\n").unwrap() + 3;
    for cut in (0..head).step_by(7) {
        let server = Server::start([Do::Cut(cut)]).await;
        assert_eq!(
            client().post(server.url()).send().await.unwrap().status().as_u16(),
            200,
            "cut after {cut} bytes"
        );
    }
}
