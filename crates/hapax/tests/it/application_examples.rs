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
    use super::*;

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
}
