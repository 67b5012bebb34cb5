//! `hapax serve` is told to end while it does something else than to serve (H11, M2).

use std::io::Read as _;
use std::process::Stdio;
use std::time::Duration;

use hapax_testkit::raw;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

use crate::application::App;
use crate::rig::caller::{self, ALICE};
use crate::rig::postgres::Server;
use crate::rig::{Ground, Kind, hapax};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn told_to_end_before_it_serves_it_ends_without_having_served_h11_m2() {
    // A database that takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ground = Ground::at(format!("postgres://u@{}/d", silent.local_addr().unwrap())).await;
    let config = ground.write("hapax").display().to_string();
    for signal in [Signal::TERM, Signal::INT] {
        let mut command = hapax(&["serve", "--config", &config]);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let _open = silent.accept().await.unwrap();
        // One that is to reload first has nothing to reload yet.
        kill_process(Pid::from_child(&process), Signal::HUP).unwrap();
        kill_process(Pid::from_child(&process), signal).unwrap();
        let ended = tokio::task::spawn_blocking(move || {
            let (status, mut told) = (process.wait().unwrap(), String::new());
            process.stderr.take().unwrap().read_to_string(&mut told).unwrap();
            let mut said = String::new();
            process.stdout.take().unwrap().read_to_string(&mut said).unwrap();
            (status.code(), said, told)
        });
        let (code, said, told) = ended.await.unwrap();
        assert_eq!((code, said.as_str()), (Some(0), ""), "{told}");
        assert!(told.contains("told to end before it served"), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn told_to_end_while_it_reloads_it_does_not_wait_for_that_h11_m2() {
    let mut server = Server::start(&[]);
    let ground = Ground::at(server.url()).await;
    let mut edge = ground.serve().await;
    server.fall();
    edge.reload();
    // What is told in one moment is to end.
    tokio::time::sleep(Duration::from_millis(500)).await;
    edge.terminate();
    edge.tells("finishing what is running").await;
    assert!(!edge.told().contains("the configuration was not reloaded"), "{}", edge.told());
    edge.terminate();
    edge.ended().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_websocket_keeps_no_process_from_a_clean_end_h11_m2() {
    let mut ground = Ground::new(Kind::Embedded).await;
    let sockets = TcpListener::bind("127.0.0.1:0").await.unwrap();
    ground.sections = format!("[upstreams.sockets]\nurl = \"http://{}\"\n", sockets.local_addr().unwrap());
    ground.routes =
        "[[routes]]\nmethod = \"GET\"\npath = \"/live\"\npolicy = \"PROHIBITED\"\nupstream = \"sockets\"\n"
            .into();
    let mut edge = ground.serve().await;
    let mut client = tokio::net::TcpStream::connect(edge.edge).await.unwrap();
    let headers = [("connection", "upgrade"), ("upgrade", "websocket"), ("sec-websocket-version", "13")];
    raw::write(&mut client, &caller::request(ALICE, "GET /live", &headers, "")).await;
    let mut service = raw::accept(&sockets).await;
    raw::head(&mut service).await;
    let switch = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    raw::write(&mut service, switch).await;
    raw::head(&mut client).await;
    edge.terminate();
    let mut told = [0; 4];
    client.read_exact(&mut told).await.unwrap();
    assert_eq!(told, [0x88, 2, 0x03, 0xe9], "going away");
    drop((client, service));
    assert_eq!(edge.ended().await.code(), Some(0), "{}", edge.told());
}

/// The caller of a plan hears what became of it. A plan that comes too late is for another instance.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn told_to_end_it_finishes_the_plan_under_way_and_begins_no_other_h11_x1() {
    let tool = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut ground = Ground::new(Kind::Embedded).await;
    ground.sections = format!(
        "[connectors.slow]\nkind = \"http\"\nurl = \"http://{}\"\n\
         [connectors.slow.tools.send]\nmethod = \"POST\"\npath = \"/send\"\n",
        tool.local_addr().unwrap()
    );
    let mut edge = ground.serve().await;
    let app = App::new(&edge, ALICE);
    let plan = |key: &str| {
        let action = json!({ "connector": "slow", "tool": "send", "args": {}, "entity_key": key, "idempotency_key": key });
        json!([action])
    };
    let (under_way, late) = (plan("a"), plan("b"));
    let proposing = tokio::spawn(async move { app.post("/v1/plans", under_way).await });
    let mut called = raw::accept(&tool).await;
    raw::head(&mut called).await;
    edge.terminate();
    edge.tells("finishing what is running").await;
    let app = App::new(&edge, ALICE);
    let lease = app.refused("/v1/leases", json!({})).await;
    assert_eq!((lease.0, lease.1.as_str()), (503, "draining"));
    let refused = app.refused("/v1/plans", late).await;
    assert_eq!((refused.0, refused.1.as_str()), (503, "draining"));
    raw::write(&mut called, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}").await;
    let results = proposing.await.unwrap();
    assert_eq!((&results[0]["decision"], &results[0]["ok"]), (&json!("ALLOW"), &json!(true)), "{results:#}");
    assert_eq!(edge.ended().await.code(), Some(0), "{}", edge.told());
    let again = tokio::time::timeout(Duration::from_millis(200), tool.accept()).await;
    assert!(again.is_err(), "the tool was called once");
}
