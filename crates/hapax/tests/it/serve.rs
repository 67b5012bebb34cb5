//! `hapax serve` as whoever operates it knows it: how it starts, reloads, refuses and ends (M1, M2, P5, H11, K6).

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::claims_cli::told;
use crate::rig::caller::ALICE;
use crate::rig::process::eventually;
use crate::rig::{Ground, Hapax, Kind, hapax};

const ROUTE: &str = r#"
[[routes]]
method = "POST"
path = "/refunds"
operation = "refund"
policy = "REQUIRED_A"
upstream = "service"
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_says_what_must_be_known_when_it_starts_b1_b9() {
    let ground = Ground::new(Kind::Embedded).await;
    let edge = ground.serve().await;
    edge.tells("the embedded store is for a single instance only").await;
    edge.tells("outcomes are kept unencrypted: see [seal]").await;
    edge.tells("serving").await;
    let health = edge.ask("GET /healthz", "").await;
    assert_eq!((health.status, health.json()["status"].as_str()), (200, Some("ok")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn told_to_end_it_finishes_what_runs_takes_nothing_new_and_exits_with_0_h11() {
    let ground = Ground::new(Kind::Embedded).await;
    let mut edge = ground.serve().await;
    ground.service.hold();
    let running = edge.begin("/charges", "running", "{}", "");
    let left = edge.begin("/charges", "left", "{}", "");
    ground.service.reached(2).await;
    // Its caller hangs up; the work goes on and is waited for (H5).
    left.abort();
    edge.terminate();
    edge.tells("finishing what is running").await;
    eventually("it is not ready any more, or gone", async || {
        let refused = edge.begin("/charges", "new", "{}", "").await.unwrap();
        refused.is_none_or(|refused| refused.problem() == (503, "draining".into()))
    })
    .await;
    ground.service.let_go();
    let answer = running.await.unwrap().expect("what runs is answered");
    assert_eq!((answer.status, answer.text().starts_with("answer")), (201, true));
    assert_eq!(edge.ended().await.code(), Some(0), "{}", edge.told());
    edge.tells("everything came to its end").await;
    assert_eq!(ground.service.count(), 2, "nothing new was done");
    let edge = ground.serve().await;
    for key in ["running", "left"] {
        assert!(edge.post("/charges", key, "{}", "").await.is_replay(), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_end_within_the_drain_timeout_is_an_error_and_in_doubt_afterwards_h11_m2() {
    let ground = Ground::new(Kind::Embedded).await;
    let mut edge = ground.serve().await;
    // Also tells that the time-out of the last configuration counts.
    let hasty = ground.configuration().replace("[admin]", "drain_timeout = \"100ms\"\n[admin]");
    std::fs::write(ground.folder.path().join("hapax.toml"), hasty).unwrap();
    edge.reload();
    edge.tells("the configuration was reloaded").await;
    ground.service.hold();
    let running = edge.begin("/charges", "running", "{}", "");
    ground.service.reached(1).await;
    edge.terminate();
    assert_eq!(edge.ended().await.code(), Some(1), "{}", edge.told());
    edge.tells("some requests did not come to their end in time").await;
    drop(running);
    ground.service.let_go();
    let edge = ground.serve().await;
    let again = edge.post("/charges", "running", "{}", "").await;
    assert_eq!(again.problem(), (409, "outcome-unknown".into()));
    assert_eq!(ground.service.count(), 1, "it is not done again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn told_to_end_twice_it_ends_at_once_h11_m2() {
    let ground = Ground::new(Kind::Embedded).await;
    let mut edge = ground.serve().await;
    ground.service.hold();
    let running = edge.begin("/charges", "running", "{}", "");
    ground.service.reached(1).await;
    edge.terminate();
    edge.tells("finishing what is running").await;
    edge.reload();
    edge.terminate();
    assert_eq!(edge.ended().await.code(), Some(1), "{}", edge.told());
    edge.tells("ended at once, as told").await;
    drop(running);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hangup_brings_a_new_route_and_drops_no_request_p5() {
    let mut ground = Ground::new(Kind::Embedded).await;
    let edge = ground.serve().await;
    assert_eq!(edge.post("/refunds", "k", "{}", "").await.problem(), (404, "not-found".into()));
    ground.service.hold();
    let running = edge.begin("/charges", "k", "{}", "");
    ground.service.reached(1).await;
    ground.routes.push_str(ROUTE);
    ground.write("hapax");
    edge.reload();
    edge.tells("the configuration was reloaded").await;
    ground.service.let_go();
    assert_eq!(running.await.unwrap().unwrap().status, 201);
    assert_eq!(edge.post("/refunds", "k", "{}", "").await.status, 201);
    // A broken file changes nothing, and says so; with what is wrong, and where.
    let whole = ground.configuration();
    std::fs::write(ground.folder.path().join("hapax.toml"), format!("{whole}\ncolour = 1\n[[routes]]\n"))
        .unwrap();
    edge.reload();
    edge.tells("the configuration was not reloaded").await;
    assert!(edge.told().contains("hapax.toml:"), "{}", edge.told());
    assert!(edge.post("/refunds", "k", "{}", "").await.is_replay());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hangup_with_a_certificate_that_cannot_be_used_changes_nothing_and_says_so_p5() {
    let mut ground = Ground::new(Kind::Embedded).await;
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let (cert, key) = (ground.folder.path().join("cert.pem"), ground.folder.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    ground.sections = "[edge.tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n".into();
    let edge = ground.serve().await;
    let before = edge.ask("GET /v1/routes", "").await.json();
    std::fs::write(&cert, "no certificate").unwrap();
    ground.routes.push_str(ROUTE);
    ground.write("hapax");
    edge.reload();
    edge.tells("the configuration was not reloaded").await;
    assert!(edge.told().contains("`cert`: the certificate cannot be read"), "{}", edge.told());
    assert_eq!(edge.ask("GET /v1/routes", "").await.json(), before);
    // Neither does it start like this.
    let again = ground.run(&["serve", "--config", &ground.write("other").display().to_string()]).await;
    assert_eq!(again.code, 1, "{}", again.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_kept_cannot_be_read_by_other_users_b9() {
    use std::os::unix::fs::PermissionsExt as _;
    let ground = Ground::new(Kind::Embedded).await;
    let edge = ground.serve().await;
    assert_eq!(edge.post("/charges", "k", "{}", "").await.status, 201);
    let (mut folders, mut seen) = (vec![ground.folder.path().join("data")], 0);
    while let Some(folder) = folders.pop() {
        assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700, "{folder:?}");
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            seen += 1;
            match entry.path().is_dir() {
                true => folders.push(entry.path()),
                false => {
                    assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{entry:?}")
                }
            }
        }
    }
    assert!(seen > 4, "the store and the spool");
}

/// The status that an operator with this token gets.
async fn as_operator(edge: &Hapax, token: &str) -> u16 {
    let request =
        format!("GET /v1/claims HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n");
    crate::rig::caller::send(edge.admin, request.as_bytes()).await.unwrap().status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hangup_takes_a_leaked_token_back_p5_m1() {
    let ground = Ground::new(Kind::Embedded).await;
    let (config, token) = (ground.write("hapax"), ground.folder.path().join("token"));
    let text = ground.configuration().replace("token_env = \"HAPAX_ADMIN_TOKEN\"", "token_file = \"token\"");
    std::fs::write(&config, &text).unwrap();
    std::fs::write(&token, "leaked").unwrap();
    let edge = Hapax::start(&config, &[]).await;
    assert_eq!((as_operator(&edge, "leaked").await, as_operator(&edge, "new").await), (200, 401));
    // A token that none can send is no token: everything stays as it is.
    std::fs::write(&token, "with a space").unwrap();
    edge.reload();
    edge.tells("the configuration was not reloaded").await;
    assert_eq!(as_operator(&edge, "leaked").await, 200);
    std::fs::write(&token, "new").unwrap();
    edge.reload();
    edge.tells("the configuration was reloaded").await;
    assert_eq!((as_operator(&edge, "leaked").await, as_operator(&edge, "new").await), (401, 200));
    assert!(!edge.told().contains("after a restart"), "{}", edge.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hangup_names_what_takes_effect_after_a_restart_only_p5() {
    const KEY: &str = "0101010101010101010101010101010101010101010101010101010101010101";
    let mut ground = Ground::new(Kind::Embedded).await;
    let edge = Hapax::start(&ground.write("hapax"), &[("SEAL_A", KEY)]).await;
    ground.lease = "31s";
    ground.sections = "[seal]\nkey_env = \"SEAL_A\"\n".into();
    ground.routes.push_str(ROUTE);
    let config = ground.write("hapax");
    let text = std::fs::read_to_string(&config).unwrap();
    let text = text.replace("threads = 2", "threads = 3").replace("format = \"text\"", "level = \"debug\"");
    std::fs::write(&config, text).unwrap();
    edge.reload();
    edge.tells("the configuration was reloaded").await;
    edge.tells(
        "edge.threads, store.lease, seal, log.format, log.level: the change takes effect after a restart",
    )
    .await;
    assert_eq!(edge.post("/refunds", "k", "{}", "").await.status, 201, "the rest was reloaded");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_while_it_reloads_is_heard_h11() {
    let ground = Ground::new(Kind::Embedded).await;
    let mut edge = ground.serve().await;
    // A configuration that is still being written: the reload waits for the end of it.
    let path = ground.folder.path().join("hapax.toml");
    std::fs::remove_file(&path).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    edge.reload();
    let writer =
        tokio::task::spawn_blocking(move || std::fs::File::options().write(true).open(path).unwrap());
    let _unfinished = writer.await.unwrap();
    edge.terminate();
    assert_eq!(edge.ended().await.code(), Some(0));
    edge.tells("everything came to its end").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mistakes_are_listed_and_the_exit_code_is_1_p5() {
    let mut ground = Ground::new(Kind::Embedded).await;
    ground.routes.push_str(
        "[[routes]]\nmethod = \"POST\"\npath = \"/x\"\npolcy = \"ACCEPTED\"\nupstream = \"nobody\"\n",
    );
    let config = ground.write("hapax").display().to_string();
    let refused = ground.run(&["serve", "--config", &config]).await;
    assert_eq!((refused.code, refused.out.as_str()), (1, ""));
    for part in ["polcy", "policy", "nobody", "hapax.toml:"] {
        assert!(refused.err.contains(part), "{part}: {}", refused.err);
    }
    assert!(refused.err.lines().count() >= 2, "all of them: {}", refused.err);
    let mut bare = hapax(&["serve", "--config", &config]);
    bare.env_remove("HAPAX_ADMIN_TOKEN");
    assert!(told(bare).await.err.contains("HAPAX_ADMIN_TOKEN"), "a missing variable is told by name");
    assert!(
        !ground.folder.path().join("data").exists(),
        "no store is made for a configuration that is wrong"
    );
    assert_eq!(ground.run(&["serve", "--config", "no/such/file.toml"]).await.code, 1);
    assert_eq!(ground.run(&["serve"]).await.code, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_instance_on_one_embedded_store_is_refused_b8() {
    let ground = Ground::new(Kind::Embedded).await;
    let edge = ground.serve().await;
    let second = ground.run(&["serve", "--config", &ground.write("second").display().to_string()]).await;
    assert_eq!(second.code, 3);
    assert!(second.err.contains("another process"), "{}", second.err);
    assert_eq!(edge.post("/charges", "k", "{}", "").await.status, 201, "the first one goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_is_taken_is_told_and_nothing_is_served_m1() {
    let ground = Ground::new(Kind::Embedded).await;
    let edge = ground.serve().await;
    let other = Ground::new(Kind::Embedded).await;
    for (listener, taken) in [("edge", edge.edge), ("admin", edge.admin)] {
        let path = other.write("other");
        let text = std::fs::read_to_string(&path).unwrap();
        let at = text.find(&format!("[{listener}]")).unwrap();
        let text = format!("{}{}", &text[..at], text[at..].replacen("127.0.0.1:0", &taken.to_string(), 1));
        std::fs::write(&path, text).unwrap();
        let refused = other.run(&["serve", "--config", &path.display().to_string()]).await;
        assert_eq!((refused.code, refused.out.as_str()), (3, ""), "{listener}: {}", refused.err);
        assert!(refused.err.contains(&taken.to_string()), "{listener}: {}", refused.err);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_is_compared_by_the_fingerprint_of_its_claim_which_the_configuration_has_no_more_k6() {
    let mut ground = Ground::new(Kind::Embedded).await;
    ground.routes = format!("{ROUTE}fingerprint = \"json\"\nignore = [\"/sent_at\"]\n");
    let edge = ground.serve().await;
    let first = edge.post("/refunds", "k", "{\"amount\": 1, \"sent_at\": 1}", "").await;
    assert_eq!(first.status, 201, "{}", first.text());
    edge.kill();
    ground.routes = format!("{}was = \"refund\"\n", ROUTE.replace("\"refund\"", "\"refund.v2\""));
    let edge = ground.serve().await;
    let again = edge.post("/refunds", "k", "{\"amount\": 1, \"sent_at\": 2}", "").await;
    assert!(again.is_replay(), "{}", again.text());
    assert_eq!(again.text(), first.text());
    let other = edge.post("/refunds", "k", "{\"amount\": 2, \"sent_at\": 1}", "").await;
    assert_eq!(other.problem(), (422, "key-reused".into()));
    assert_eq!(ground.service.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_listener_serves_what_belongs_to_another_m1() {
    let ground = Ground::new(Kind::Embedded).await;
    let edge = ground.serve().await;
    for path in ["/v1/claims", "/v1/keys", "/v1/audit", "/metrics", "/healthz", "/readyz", "/openapi.json"] {
        let refused = edge.send(ALICE, &format!("GET {path}"), &[], "").await;
        assert_eq!(refused.problem(), (404, "not-found".into()), "{path} at the edge");
        assert_eq!(edge.ask(&format!("GET {path}"), "").await.status, 200, "{path} at the admin listener");
    }
    for (method, path) in [
        ("GET", "/charges"),
        ("POST", "/charges"),
        ("GET", "/operations/op_1"),
        ("GET", "/charges/by-idempotency-key/k"),
    ] {
        assert_eq!(
            edge.ask(&format!("{method} {path}"), "").await.status,
            404,
            "{path} at the admin listener"
        );
    }
    assert_eq!(ground.service.count(), 0);
    let bare = b"GET /v1/claims HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let refused = crate::rig::caller::send(edge.admin, bare).await.unwrap();
    assert_eq!(refused.problem(), (401, "unauthenticated".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_kept_is_sealed_and_opens_with_its_key_only_b9() {
    const KEY: &str = "0101010101010101010101010101010101010101010101010101010101010101";
    const OTHER: &str = "0202020202020202020202020202020202020202020202020202020202020202";
    let secret = r#"{"card": "4242-secret-4242"}"#;
    let mut ground = Ground::new(Kind::Embedded).await;
    let plain = ground.serve().await;
    assert_eq!(plain.post("/charges", "plain", secret, "").await.status, 201);
    plain.kill();
    let data = ground.folder.path().join("data");
    assert!(crate::rig::holds(&data, b"4242-secret-4242"), "the control: without a seal it can be read");
    std::fs::remove_dir_all(&data).unwrap();

    ground.sections = "[seal]\nkey_env = [\"SEAL_A\"]\n".into();
    let edge = Hapax::start(&ground.write("hapax"), &[("SEAL_A", KEY)]).await;
    let first = edge.post("/charges", "k", secret, "").await;
    assert!(first.text().contains("4242-secret-4242"));
    assert!(edge.post("/charges", "k", secret, "").await.is_replay());
    edge.kill();
    assert!(!crate::rig::holds(&data, b"4242-secret-4242"), "not in any file of the store");
    let edge = Hapax::start(&ground.write("hapax"), &[("SEAL_A", KEY)]).await;
    assert_eq!(edge.post("/charges", "k", secret, "").await.kept(), first.clone().kept());
    edge.kill();
    // Without the key, or with another one, it does not start.
    let sealed = std::mem::take(&mut ground.sections);
    let keyless = ground.run(&["serve", "--config", &ground.write("keyless").display().to_string()]).await;
    assert!(keyless.code == 3 && keyless.err.contains("[seal]"), "{}", keyless.err);
    ground.sections = sealed;
    let mut wrong = hapax(&["serve", "--config", &ground.write("hapax").display().to_string()]);
    wrong.env("SEAL_A", OTHER);
    let wrong = told(wrong).await;
    assert!(wrong.code == 3 && wrong.err.contains("sealed with a key that is not known"), "{}", wrong.err);
    // A new key in front: old answers open, and the old key is not needed for anything new.
    ground.sections = "[seal]\nkey_env = [\"SEAL_B\", \"SEAL_A\"]\n".into();
    let edge = Hapax::start(&ground.write("hapax"), &[("SEAL_A", KEY), ("SEAL_B", OTHER)]).await;
    assert_eq!(edge.post("/charges", "k", secret, "").await.kept(), first.kept());
    assert_eq!(edge.post("/charges", "new", secret, "").await.status, 201);
    edge.kill();
    ground.sections = "[seal]\nkey_env = \"SEAL_B\"\n".into();
    let edge = Hapax::start(&ground.write("hapax"), &[("SEAL_B", OTHER)]).await;
    assert!(edge.post("/charges", "new", secret, "").await.is_replay());
    let lost = edge.post("/charges", "k", secret, "").await;
    assert_eq!(lost.problem(), (500, "internal".into()));
    assert!(lost.text().contains("a key that is not known"), "{}", lost.text());
    let line = crate::why::line(&edge, "POST", "/charges", "event=\"internal\"").await;
    assert!(line.contains("ERROR") && line.contains("not known here") && line.contains("key "), "{line}");
    assert_eq!(ground.service.count(), 3, "an answer that cannot be read is no reason to run again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_readme_says_about_a_service_works_as_it_is_written_a2_m2() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let (_, chapter) = readme.split_once("## In front of a service").unwrap();
    let block = |kind: &str| {
        let (_, rest) = chapter.split_once(&format!("```{kind}\n")).unwrap();
        rest.split_once("```").unwrap().0
    };
    let ground = Ground::new(Kind::Embedded).await;
    let service = format!("http://{}", ground.service.address());
    let config = format!("[edge]\nlisten = \"127.0.0.1:0\"\n{}", block("toml"))
        .replace("[admin]", "[admin]\nlisten = \"127.0.0.1:0\"")
        .replace("http://127.0.0.1:9000", &service);
    let path = ground.folder.path().join("hapax.toml");
    std::fs::write(&path, config).unwrap();
    let edge = Hapax::start(&path, &[]).await;
    // Its third and fourth line; the first two have been done above.
    let steps: Vec<_> = block("console").lines().filter_map(|line| line.strip_prefix("$ ")).skip(2).collect();
    let program = env!("CARGO_BIN_EXE_hapax");
    let create = format!("{program} keys create --admin http://{}", edge.admin);
    let script = steps
        .join("\n")
        .replace("localhost:8080", &edge.edge.to_string())
        .replace("hapax keys create", &create);
    let mut shell = Command::new("bash");
    shell.args(["-ec", &script]).env("HAPAX_ADMIN_TOKEN", crate::rig::TOKEN);
    let shown = told(shell).await;
    assert!(shown.code == 0 && shown.out.starts_with("HTTP/1.1 201"), "{} {}", shown.out, shown.err);
    assert_eq!(ground.service.count(), 1);
    assert!(!edge.told().contains("no admin token"), "{}", edge.told());
}

/// Has so many requests answered on one connection, one after the other.
async fn many_are_answered(edge: &Hapax, number: usize) {
    let request = b"GET /nowhere HTTP/1.1\r\nhost: a\r\n\r\n";
    let (from, mut to) = TcpStream::connect(edge.edge).await.unwrap().into_split();
    let asking = async { to.write_all(&request.repeat(number)).await.unwrap() };
    let answered = async {
        let (mut lines, mut count) = (BufReader::new(from).lines(), 0);
        while count < number {
            let line = lines.next_line().await.unwrap().expect("the connection goes on");
            count += usize::from(line.ends_with("HTTP/1.1 404 Not Found"));
        }
    };
    let both = async { tokio::join!(asking, answered) };
    tokio::time::timeout(Duration::from_secs(60), both).await.expect("all are answered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_answered_while_nobody_reads_the_log_which_tells_of_its_gaps_o2() {
    let ground = Ground::new(Kind::Embedded).await;
    let edge = ground.serve().await;
    edge.read(false);
    // What a pipe holds, and all that wait to be written.
    many_are_answered(&edge, 12_000).await;
    assert_eq!(edge.post("/charges", "k", "{}", "").await.status, 201);
    let metrics = edge.ask("GET /metrics", "").await.text();
    let dropped = metrics.lines().find_map(|line| line.strip_prefix("hapax_log_lines_dropped_total "));
    assert!(dropped.unwrap().parse::<u64>().unwrap() > 0, "{metrics}");
    edge.read(true);
    edge.tells("lines of this log were left out").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn told_to_end_it_ends_though_nobody_reads_the_log_h11() {
    let ground = Ground::new(Kind::Embedded).await;
    let mut edge = ground.serve().await;
    edge.read(false);
    many_are_answered(&edge, 2_000).await;
    edge.terminate();
    assert_eq!(edge.ended().await.code(), Some(0));
}
