//! PostgreSQL dies in the middle of everything, and comes back.

use crate::rig::postgres::Server;
use crate::rig::process::eventually;
use crate::rig::{Database, Ground};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_ledger_the_edge_does_nothing_and_loses_nothing_l14_l15() {
    let mut server = Server::start(&[]);
    let ground = Ground::at(server.url()).await;
    let edge = ground.serve().await;
    let kept = edge.post("/charges", "before", "{}", "").await;
    assert_eq!(kept.status, 201);
    ground.service.hold();
    let running = edge.begin("/charges", "running", "{}", "");
    ground.service.reached(2).await;
    server.fall();
    let waiting = edge.begin("/charges", "running", "{}", "");
    let refused = [edge.begin("/charges", "new", "{}", ""), edge.begin("/notes", "new", "{}", "")];
    for refused in refused {
        let refused = refused.await.unwrap().unwrap();
        assert_eq!(refused.problem(), (503, "ledger-unavailable".into()), "{refused:?}");
        assert!(refused.header("retry-after").is_some());
    }
    assert_eq!(ground.service.count(), 2, "nothing is done that cannot be claimed");
    // What was under way has an answer now, and nowhere to record it but on this machine.
    ground.service.let_go();
    let pending = running.await.unwrap().unwrap();
    assert_eq!(pending.problem(), (503, "outcome-pending".into()), "{pending:?}");
    let waiting = waiting.await.unwrap().unwrap();
    assert!(waiting.status != 201 || waiting.text() == "answer 2 to {}", "{waiting:?}");
    let spool = ground.folder.path().join("hapax-spool");
    assert!(crate::rig::holds(&spool, b"answer 2 to {}"), "it is on disk before the caller is told");
    let metrics = edge.ask("GET /metrics", "").await.text();
    assert!(metrics.lines().any(|line| line == "hapax_spool_files 1"), "{metrics}");
    // Beside that outcome, what the refused calls have asked for without an answer.
    let gauge = |name: &str| {
        let value =
            metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse::<f64>().ok());
        value.unwrap_or_else(|| panic!("{name} in {metrics}"))
    };
    assert!(gauge("hapax_reports_owed") >= 1.0, "{metrics}");
    assert!(gauge("hapax_ledger_failures_total") >= 2.0, "{metrics}");
    server.rise(&[]);
    eventually("the retry gets the first answer", async || {
        let got = edge.post("/charges", "running", "{}", "").await;
        assert!(got.status == 201 || got.status == 503, "{got:?}");
        got.status == 201 && got.text() == "answer 2 to {}"
    })
    .await;
    eventually("the spool is empty", async || std::fs::read_dir(&spool).unwrap().next().is_none()).await;
    assert_eq!(edge.post("/charges", "before", "{}", "").await.kept(), kept.kept());
    assert_eq!(ground.service.count(), 2, "nothing ran twice");
    // What was refused is handed back to the ledger now that it is there (L13): whoever comes in that moment is told to come
    // again, and then it runs, once.
    eventually("the refused key runs", async || {
        let got = edge.post("/charges", "new", "{}", "").await;
        assert!(got.status == 201 || got.problem() == (503, "attempt-failed".into()), "{got:?}");
        got.status == 201 && got.text() == "answer 3 to {}"
    })
    .await;
    assert_eq!(ground.service.count(), 3, "the refused key ran once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_without_its_ledger_says_so_and_why_until_it_is_back_l14_o1_m2() {
    let mut server = Server::start(&[]);
    let ground = Ground::at(server.url()).await;
    let edge = ground.serve().await;
    let up = async |wanted: &str| {
        let metrics = edge.ask("GET /metrics", "").await.text();
        metrics.lines().any(|line| line == format!("hapax_ledger_up {wanted}"))
    };
    let ready = edge.ask("GET /readyz", "").await;
    assert_eq!((ready.status, up("1").await), (200, true), "{ready:?}");
    server.fall();
    eventually("it says that it cannot serve", async || edge.ask("GET /readyz", "").await.status == 503)
        .await;
    let reasons = edge.ask("GET /readyz", "").await.json()["reasons"].clone();
    let reason = reasons[0].as_str().unwrap();
    assert!(reason.starts_with("the ledger has taken no claims since 20"), "{reason}");
    assert!(up("0").await);
    // As long as the store is away nothing is swept: that shows before a minute of it.
    eventually("the sweep lags", async || {
        let metrics = edge.ask("GET /metrics", "").await.text();
        let lag = metrics
            .lines()
            .find_map(|line| line.strip_prefix("hapax_sweep_lag_seconds ")?.parse::<f64>().ok());
        lag.is_some_and(|lag| lag > 3.0)
    })
    .await;
    assert_eq!(edge.ask("GET /healthz", "").await.status, 200, "the process lives");
    server.rise(&[]);
    eventually("it can serve again", async || edge.ask("GET /readyz", "").await.status == 200).await;
    assert!(up("1").await);
    edge.tells("the ledger takes claims again").await;
    let told = edge.told();
    let away: Vec<&str> = told.lines().filter(|line| line.contains("the ledger takes no claims")).collect();
    assert!(away.len() == 1 && away[0].contains("WARN") && away[0].contains("cause="), "{away:?}");
    assert_eq!(edge.post("/charges", "after", "{}", "").await.status, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_reaches_its_ledger_but_not_for_claims_is_not_ready_l14_m2() {
    let database = Database::fresh().await;
    let role = format!("{}_few", database.name());
    let create = format!("GRANT CREATE ON DATABASE {} TO {role}", database.name());
    database.run(&format!("CREATE ROLE {role} LOGIN; {create}")).await;
    let (_, rest) = database.url.split_once('@').unwrap();
    let ground = Ground::at(format!("postgres://{role}@{rest}")).await;
    let edge = ground.serve().await;
    assert_eq!(edge.post("/charges", "k", "{}", "").await.status, 201);
    // The server has no room for connections any more, and those for claims and outcomes are gone; the others stay.
    let cut = format!(
        "ALTER ROLE {role} CONNECTION LIMIT 0; SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE usename = '{role}' AND query SIMILAR TO '(WITH (won|done) AS|SELECT % FROM hapax.batch)%'"
    );
    database.run(&cut).await;
    eventually("it says that it cannot serve", async || edge.ask("GET /readyz", "").await.status == 503)
        .await;
    let refused = edge.post("/charges", "new", "{}", "").await;
    assert_eq!(refused.problem(), (503, "ledger-unavailable".into()), "{refused:?}");
    assert_eq!(edge.ask("GET /readyz", "").await.status, 503, "it stays so");
    database.run(&format!("ALTER ROLE {role} CONNECTION LIMIT -1")).await;
    eventually("it can serve again", async || edge.ask("GET /readyz", "").await.status == 200).await;
    assert_eq!(edge.post("/charges", "new", "{}", "").await.status, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spooled_outcome_outlives_its_process_too_l15() {
    let mut server = Server::start(&[]);
    let mut ground = Ground::at(server.url()).await;
    let edge = ground.serve().await;
    ground.service.hold();
    let running = edge.begin("/charges", "k", "{}", "");
    ground.service.reached(1).await;
    server.fall();
    ground.service.let_go();
    assert_eq!(running.await.unwrap().unwrap().problem(), (503, "outcome-pending".into()));
    edge.kill();
    // Without the ledger it does not start: whatever it accepted, it could not protect.
    let refused = ground.run(&["serve", "--config", &ground.write("hapax").display().to_string()]).await;
    assert_eq!(refused.code, 3, "{}", refused.err);
    // Another instance beside it, with another ledger, must not take what waits for this one.
    let other = std::mem::replace(&mut ground.store, "memory:".into());
    ground.serve_as("other").await.kill();
    ground.store = other;
    server.rise(&[]);
    let edge = ground.serve().await;
    let got = edge.post("/charges", "k", "{}", "").await;
    assert_eq!((got.status, got.is_replay(), got.text()), (201, true, "answer 1 to {}".into()));
    assert_eq!(ground.service.count(), 1);
}
