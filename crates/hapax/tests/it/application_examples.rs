//! The examples for other languages run as they are printed: killed anywhere and many at once, each effect happens once (M1, J8).

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::application::{App, one};
use crate::rig::{Ground, Hapax};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/application-api").join(name)
}

async fn key(hapax: &Hapax) -> String {
    let made =
        hapax.ask("POST /v1/keys", r#"{"tenant":"acme","project":"web","subject":"service:ci"}"#).await;
    made.json()["key"].as_str().unwrap().to_owned()
}

/// Runs a program with an example to its end.
async fn run(
    program: &str,
    name: &str,
    app: &App,
    key: &str,
    more: &[(&str, &str)],
    args: &[&str],
) -> Output {
    let mut command = Command::new(program);
    command.arg(example(name)).args(args).env("HAPAX_API", format!("http://{}", app.address));
    command.env("HAPAX_KEY", key).envs(more.iter().copied()).env("PYTHONDONTWRITEBYTECODE", "1");
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn lines(file: &Path) -> Vec<String> {
    std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Several at once, and one afterwards, under each of two keys.
async fn happens_once(program: &str, name: &str) {
    let (ground, hapax, app) = one().await;
    let (key, outbox) = (key(&hapax).await, ground.folder.path().join("outbox"));
    let file = outbox.display().to_string();
    for what in ["a", "b"] {
        let args = [what, file.as_str()];
        let at_once = || run(program, name, &app, &key, &[], &args);
        let (one, two, three) = tokio::join!(at_once(), at_once(), at_once());
        let later = at_once().await;
        for output in [one, two, three, later] {
            assert_eq!(said(&output), what);
        }
    }
    assert_eq!(lines(&outbox), ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_in_curl_and_sh_happens_once_m1() {
    happens_once("sh", "once.sh").await;
}

mod python {
    use std::net::SocketAddr;
    use std::sync::{Arc, Mutex};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::rig::caller::ALICE;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_claim_happens_once_m1() {
        happens_once("python3", "once.py").await;
    }

    /// Killed at each of its steps in turn, and started again until it comes to its end.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_agent_that_is_killed_at_every_step_comes_to_the_same_end_j8() {
        let (ground, hapax, app): (Ground, _, _) = one().await;
        let (key, ledger) = (key(&hapax).await, ground.folder.path().join("payments"));
        let file = ledger.display().to_string();
        let mut kills = 0;
        for attempt in 0.. {
            assert!(attempt < 60, "it comes to its end");
            // The n-th process gets some steps further than the last one did, so that each step is where one dies.
            let die_at = (attempt % 7 + 1).to_string();
            let more = [("DIE_AT", die_at.as_str()), ("LEASE_SECONDS", "1")];
            let output = run("python3", "agent.py", &app, &key, &more, &["e-1", &file]).await;
            if output.status.success() {
                assert_eq!(said(&output), "COMPLETED");
                break;
            }
            assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
            kills += 1;
        }
        assert!(kills >= 5, "it was killed {kills} times");
        let paid = lines(&ledger);
        let orders: Vec<_> = paid.iter().map(|line| line.split(' ').nth(1).unwrap()).collect();
        assert_eq!(orders, ["order-1", "order-2", "order-3"]);
        // Started once more it only says how it ended.
        let again = run("python3", "agent.py", &app, &key, &[], &["e-1", &file]).await;
        assert_eq!((said(&again), lines(&ledger).len()), ("COMPLETED".to_owned(), 3));
    }

    /// The way to a server that loses answers: of each request the first one, and now and then the server with it.
    struct Lossy {
        server: SocketAddr,
        /// The requests whose answer was lost once, as they came.
        lost: Vec<Vec<u8>>,
        /// The server is to be killed before it is asked again.
        kills: bool,
    }

    /// A request to its end, as far as this test's callers write one.
    async fn whole(from: &mut TcpStream) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            if from.read_buf(&mut bytes).await.ok()? == 0 {
                return None;
            }
            let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.trim().parse().unwrap()) {
                return Some(bytes);
            }
        }
    }

    async fn pass(mut caller: TcpStream, lossy: Arc<Mutex<Lossy>>) {
        let Some(request) = whole(&mut caller).await else { return };
        let server = lossy.lock().unwrap().server;
        let Ok(mut there) = TcpStream::connect(server).await else { return };
        let mut answer = Vec::new();
        if there.write_all(&request).await.is_err() || there.read_to_end(&mut answer).await.is_err() {
            return;
        }
        let is_new = {
            let mut lossy = lossy.lock().unwrap();
            let is_new = !lossy.lost.contains(&request);
            if is_new {
                lossy.lost.push(request);
                // Amid the steps of the execution, and at its end.
                lossy.kills |= matches!(lossy.lost.len(), 6 | 11 | 17 | 23);
            }
            is_new
        };
        if !is_new {
            let _ = caller.write_all(&answer).await;
        }
    }

    /// No answer arrives the first time, and the server is killed several times: each payment happens once all the same.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_agent_that_hears_no_answer_at_first_and_whose_server_is_killed_pays_once_j2_j8() {
        let (ground, mut hapax, app): (Ground, _, _) = one().await;
        let (key, ledger) = (key(&hapax).await, ground.folder.path().join("payments"));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let way = App::at(listener.local_addr().unwrap(), ALICE);
        let lossy = Arc::new(Mutex::new(Lossy { server: app.address, lost: Vec::new(), kills: false }));
        let passing = lossy.clone();
        tokio::spawn(async move {
            while let Ok((caller, _)) = listener.accept().await {
                tokio::spawn(pass(caller, passing.clone()));
            }
        });
        let file = ledger.display().to_string();
        // One that takes over, too: the first one is killed when it has paid once.
        let died = run(
            "python3",
            "agent.py",
            &way,
            &key,
            &[("DIE_AT", "5"), ("LEASE_SECONDS", "2")],
            &["e-1", &file],
        )
        .await;
        assert!(!died.status.success());
        let more = [("LEASE_SECONDS", "60")];
        let args = ["e-1", file.as_str()];
        let mut agent = std::pin::pin!(run("python3", "agent.py", &way, &key, &more, &args));
        let mut kills = 0;
        let output = loop {
            tokio::select! {
                output = &mut agent => break output,
                () = tokio::time::sleep(std::time::Duration::from_millis(5)) => {}
            }
            if std::mem::take(&mut lossy.lock().unwrap().kills) {
                hapax.kill();
                hapax = ground.serve().await;
                lossy.lock().unwrap().server = App::new(&hapax, ALICE).address;
                kills += 1;
            }
        };
        assert_eq!(said(&output), "COMPLETED");
        assert!(kills >= 3, "it was killed {kills} times");
        let paid = lines(&ledger);
        let orders: Vec<_> = paid.iter().map(|line| line.split(' ').nth(1).unwrap()).collect();
        assert_eq!(orders, ["order-1", "order-2", "order-3"]);
        let there = lossy.lock().unwrap().server;
        let read = App::at(there, ALICE).get("/v1/executions/e-1?limit=256").await;
        let count = |kind: &str| {
            read["events"].as_array().unwrap().iter().filter(|event| event["eventType"] == kind).count()
        };
        for (kind, times) in [
            ("EXECUTION_CREATED", 1),
            ("EXECUTION_RESUMED", 1),
            ("PLAN_RECORDED", 3),
            ("TOOL_CALL_RESULT", 6),
            ("ITERATION_COMPLETE", 3),
            ("EXECUTION_COMPLETED", 1),
        ] {
            assert_eq!(count(kind), times, "{kind}");
        }
    }
}
