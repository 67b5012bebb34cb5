//! `hapax doctor` on a PostgreSQL server of the test's own, because what it must refuse is the whole server's (M6).

use std::time::Duration;

use crate::doctor::{doctor, level};
use crate::rig::postgres::Server;

#[tokio::test]
async fn a_server_that_loses_what_it_confirmed_is_refused_m6() {
    let server = Server::start(&["fsync=off", "full_page_writes=off", "synchronous_commit=local"]);
    let told = doctor(&["--store", &server.url(), "--json"]).await;
    assert_eq!(told.code, 1, "{}", told.out);
    for (what, expected) in [("fsync", "fail"), ("full_page_writes", "fail"), ("synchronous_commit", "warn")]
    {
        assert_eq!(level(&told, what), expected, "{what}: {}", told.out);
    }
}

#[tokio::test]
async fn replicas_of_which_none_is_synchronous_are_refused_m6() {
    let mut server = Server::start(&[]);
    // Whoever only keeps the log is never promoted.
    server.attach("pg_receivewal");
    tokio::time::sleep(Duration::from_millis(500)).await;
    let told = doctor(&["--store", &server.url(), "--json"]).await;
    assert_eq!(level(&told, "replicas"), "ok", "{}", told.out);
    server.attach("standby");
    for _ in 0..50 {
        let told = doctor(&["--store", &server.url(), "--json"]).await;
        if level(&told, "replicas") == "fail" {
            assert_eq!(told.code, 1);
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("a standby that is not synchronous was not told");
}
