//! The pages of `docs/operating/runbooks`, followed word for word on servers that are in the trouble that they are about.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::actions_cli;
use crate::claims_cli::told;
use crate::pages::follow;
use crate::rig::caller::{Who, send};
use crate::rig::{Ground, Hapax, Kind, TOKEN, hapax};
use crate::webhooks_cli::{self, create, github};

/// What the shell knows: commands for a server ask this one, whose port is another than the usual.
fn asking(server: &Hapax) -> String {
    let admin = server.admin;
    format!(
        "hapax() {{ case \"$1 $*\" in *' --store '*) command hapax \"$@\" ;; \
         claims*|keys*|webhooks*|retention*|lanes*|approvals*|receipts*) command hapax \"$@\" --admin http://{admin} ;; \
         *) command hapax \"$@\" ;; esac; }}"
    )
}

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

async fn ran(command: std::process::Command) -> String {
    let ran = told(command).await;
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran.out
}

const OPERATOR: (&str, &str) = ("HAPAX_ADMIN_TOKEN", TOKEN);

#[test]
fn every_runbook_is_in_the_table_and_has_a_test() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating/runbooks");
    let (table, tests) = (page("runbooks/README.md"), include_str!("runbooks.rs"));
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name != "README.md" {
            assert!(table.contains(&format!("({name})")), "{name} is not in the table");
            assert!(tests.contains(&format!("\"runbooks/{name}\"")), "{name} is followed by no test");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_runbook_about_claims_in_doubt_is_right_word_for_word() {
    let ground = Ground::new(Kind::Embedded).await;
    let server = ground.serve().await;
    for key in ["order-42", "order-43"] {
        server.post("/charges", key, "{}", "cut").await;
    }
    follow(&page("runbooks/in-doubt.md"), ground.folder.path(), &asking(&server), &[OPERATOR]).await;
    let answer = server.post("/charges", "order-42", "{}", "").await;
    assert_eq!((answer.status, answer.text().trim()), (201, "{\"id\": \"ch_42\"}"));
    assert_eq!(server.post("/charges", "order-43", "{}", "").await.status, 201);
    assert_eq!(ground.service.count(), 3, "only what was released ran again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_runbook_about_a_stuck_lane_is_right_word_for_word() {
    let ground = actions_cli::doubtful().await;
    let send = |order: &str, what: &str| {
        let connector = if what == "send" { "lost" } else { "magento" };
        let tool = if what == "send" { "send" } else { "orders.hold" };
        json!({ "connector": connector, "tool": tool, "args": { "order": order }, "entity_key": format!("order:{order}"),
                "idempotency_key": format!("order:{order}:{what}") })
    };
    let both = |what| json!([send("1", what), send("2", what)]);
    let run = async |plan: &Value| actions_cli::run(&ground, plan).await.1;
    run(&both("send")).await;
    let refused = run(&both("hold")).await;
    assert_eq!(
        (&refused[0]["code"], &refused[1]["code"]),
        (&json!("lane-in-doubt"), &json!("lane-in-doubt"))
    );
    let server = ground.serve().await;
    // Decided about as other claims are, an action would leave no receipt.
    let past = "ID=$(command hapax approvals list --admin http://$ADMIN --json | grep -om1 'op_[0-9a-f]*' | head -1)\n\
                command hapax claims resolve $ID --release --force --reason x --admin http://$ADMIN";
    let mut shell = std::process::Command::new("bash");
    let folder = Path::new(env!("CARGO_BIN_EXE_hapax")).parent().unwrap().display();
    shell.args(["-c", past]).env("PATH", format!("{folder}:{}", std::env::var("PATH").unwrap()));
    shell.env("ADMIN", server.admin.to_string()).env(OPERATOR.0, OPERATOR.1);
    let told = told(shell).await;
    assert!(told.code == 1 && told.err.contains("hapax approvals release"), "{} {}", told.out, told.err);
    follow(&page("runbooks/stuck-lane.md"), ground.folder.path(), &asking(&server), &[OPERATOR]).await;
    server.kill();
    let held = run(&both("hold")).await;
    assert_eq!(
        (&held[0]["ok"], &held[1]["ok"]),
        (&json!(true), &json!(true)),
        "the lanes are open: {held:#?}"
    );
    assert_eq!(run(&json!([send("1", "send")])).await[0]["decision"], "DEDUP");
    assert_eq!(ground.service.count(), 4, "two calls that were cut, and two holds");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_runbook_about_kept_errors_is_right_word_for_word() {
    let ground = webhooks_cli::ground().await;
    let server = ground.serve().await;
    assert_eq!(server.post("/charges", "order-44", "{}", "status=422").await.status, 422);
    let hook = create(&server, "github", webhooks_cli::SECRET, &["--on-4xx", "keep"]).await;
    let path = hook["path"].as_str().unwrap();
    let first = github(&server, path, webhooks_cli::SECRET, "delivery-1", "status=422").await;
    assert_eq!(first.status, 422, "{first:?}");
    follow(&page("runbooks/kept-error.md"), ground.folder.path(), &asking(&server), &[OPERATOR]).await;
    assert_eq!(server.post("/charges", "order-44", "{}", "").await.status, 201);
    let again = github(&server, path, webhooks_cli::SECRET, "delivery-1", "").await;
    assert_eq!(again.status, 201, "{again:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_runbook_about_a_growing_store_is_right_word_for_word() {
    let ground = Ground::new(Kind::Embedded).await;
    let server = ground.serve().await;
    server.post("/charges", "order-1", "{}", "").await;
    follow(&page("runbooks/growing-store.md"), ground.folder.path(), &asking(&server), &[OPERATOR]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_runbook_about_a_leaked_key_is_right_word_for_word() {
    let ground = Ground::new(Kind::Embedded).await;
    let server = ground.serve().await;
    let admin = format!("http://{}", server.admin);
    let args =
        ["keys", "create", "--tenant", "acme", "--project", "prod", "--subject", "service:ci", "--label"];
    let leaked = ran(hapax(&[&args[..], &["build server", "--admin", &admin]].concat())).await;
    let leaked = leaked.trim();
    let bearer = format!("Bearer {leaked}");
    let with_key = async || {
        let head =
            "POST /charges HTTP/1.1\r\nhost: edge\r\ncontent-length: 2\r\nidempotency-key: order-1\r\n";
        let request = format!("{head}authorization: {bearer}\r\n\r\n{{}}");
        send(server.edge, request.as_bytes()).await.unwrap()
    };
    assert_eq!(with_key().await.status, 201);
    let id = leaked.rsplit_once('_').unwrap().0;
    let known = [OPERATOR, ("LEAKED", id)];
    follow(&page("runbooks/leaked-key.md"), ground.folder.path(), &asking(&server), &known).await;
    assert_eq!(with_key().await.status, 401);
    assert!(
        server
            .send(Who("acme", "prod", "service:ci"), "POST /charges", &[("idempotency-key", "order-1")], "{}")
            .await
            .is_replay()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_runbook_about_a_lost_store_is_right_word_for_word() {
    let ground = Ground::new(Kind::Embedded).await;
    let at = |name: &str| ground.folder.path().join(name);
    let mut server = ground.serve().await;
    server.post("/charges", "order-1", "{}", "").await;
    let paths = [at("hapax.toml"), at("backup-1")].map(|path| path.display().to_string());
    ran(hapax(&["backup", "--config", &paths[0], "--to", &paths[1]])).await;
    server.terminate();
    server.ended().await;
    std::fs::File::options().write(true).open(at("data/hapax.db")).unwrap().set_len(1_000).unwrap();
    follow(&page("runbooks/restore.md"), ground.folder.path(), "", &[OPERATOR]).await;
    let server = ground.serve().await;
    assert!(server.post("/charges", "order-1", "{}", "").await.is_replay());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_about_backups_is_right_word_for_word() {
    let mut ground = Ground::new(Kind::Embedded).await;
    let server = ground.serve().await;
    server.post("/charges", "order-1", "{}", "").await;
    ground.store = format!("embedded:{}", ground.folder.path().join("other").display());
    ground.write("other");
    let page = page("backup.md");
    let (embedded, _) = page.split_once("## PostgreSQL").unwrap();
    follow(embedded, ground.folder.path(), "", &[OPERATOR]).await;
    assert!(!ground.folder.path().join("other").exists(), "the page restores nothing");
    drop(server);
}

mod postgres {
    use super::*;
    use crate::rig::Database;
    use crate::rig::postgres::Server;

    /// A shell that finds the programs of PostgreSQL.
    fn programs() -> String {
        let bin =
            PathBuf::from(std::env::var_os("HAPAX_TEST_PG_BIN").expect("run `cargo xtask postgres -- …`"));
        format!("PATH=\"{}:$PATH\"", bin.display())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_page_about_dumps_is_right_word_for_word() {
        let ground = Ground::new(Kind::Postgres).await;
        let server = ground.serve().await;
        server.post("/charges", "order-1", "{}", "").await;
        let restored = Database::fresh().await;
        restored.run(&format!("DROP DATABASE IF EXISTS {}_restored", restored.name())).await;
        let page = page("backup.md").replace("hapax_restored", &format!("{}_restored", restored.name()));
        let (_, postgres) = page.split_once("## PostgreSQL").unwrap();
        let (postgres, _) = postgres.split_once("### Back to a point in time").unwrap();
        let url = format!("{}_restored", restored.url);
        let known = [OPERATOR, ("HAPAX_STORE", ground.store.as_str()), ("RESTORED_STORE", url.as_str())];
        follow(postgres, ground.folder.path(), &programs(), &known).await;
        let again = Ground::at(url).await;
        let server = again.serve().await;
        assert!(server.post("/charges", "order-1", "{}", "").await.is_replay());
        drop(server);
        restored.run(&format!("DROP DATABASE {}_restored WITH (FORCE)", restored.name())).await;
    }

    /// The epoch of the claim of a key, which is settled.
    async fn epoch(server: &Hapax, key: &str) -> Option<String> {
        let claims = server.claims("settled").await;
        let claim = claims.iter().find(|claim| claim["key"] == key)?;
        Some(claim["epoch"].as_str().unwrap().to_owned())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_page_about_a_point_in_time_is_right_word_for_word() {
        let old = Server::start(&[]);
        let new = old.beside();
        let page = page("backup.md").replace("-p 5433", &new.options());
        let (_, steps) = page.split_once("### Back to a point in time").unwrap();
        let (before, back) = steps.split_once("To go back,").unwrap();
        let folders = [("DATA", &old, "data"), ("ARCHIVE", &new, "archive"), ("BASE", &new, "base")];
        let folders = folders.map(|(name, server, folder)| (name, server.folder(folder)));
        let (old_url, new_url, recovered) = (old.url(), new.url(), new.folder("data"));
        let mut known = vec![
            OPERATOR,
            ("HAPAX_STORE", old_url.as_str()),
            ("RESTORED_STORE", new_url.as_str()),
            ("RECOVERED", recovered.as_str()),
        ];
        known.extend(folders.iter().map(|(name, folder)| (*name, folder.as_str())));
        let ground = Ground::at(old.url()).await;
        let shell = format!("{}\nmkdir -p \"$ARCHIVE\"", old.shell());
        follow(before, ground.folder.path(), &shell, &known).await;

        let mut server = ground.serve().await;
        let first = server.post("/charges", "order-1", "{}", "").await;
        let mut asking = std::process::Command::new("bash");
        let sql = "SELECT clock_timestamp() FROM pg_sleep(0.1)";
        asking.args(["-c", &format!("{}\npsql \"$HAPAX_STORE\" -Atc '{sql}'", old.shell())]);
        asking.env("HAPAX_STORE", &old_url);
        let target = ran(asking).await;
        server.post("/charges", "order-2", "{}", "").await;
        let former = epoch(&server, "order-2").await.unwrap();
        server.terminate();
        server.ended().await;
        known.push(("TARGET", target.trim()));
        follow(back, ground.folder.path(), &old.shell(), &known).await;

        let after = Ground::at(new.url()).await;
        let server = after.serve().await;
        assert_eq!(epoch(&server, "order-2").await, None, "what was after the moment is gone");
        let again = server.post("/charges", "order-1", "{}", "").await;
        assert!(again.is_replay(), "{again:?}");
        assert_eq!(again.kept(), first.kept());
        assert!(!server.post("/charges", "order-2", "{}", "").await.is_replay());
        assert_eq!((ground.service.count(), after.service.count()), (2, 1));
        let new = epoch(&server, "order-2").await.unwrap();
        assert!(former.starts_with("1.") && new.starts_with("2."), "{former}, then {new}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_runbook_about_a_failover_is_right_word_for_word() {
        let mut primary = Server::start(&[]);
        let standby = primary.standby();
        let ground = Ground::at(primary.url()).await;
        let server = ground.serve().await;
        server.post("/charges", "order-1", "{}", "").await;
        let before = server.claims("settled").await[0]["epoch"].as_str().unwrap().to_owned();
        standby.catch_up(&primary);
        server.kill();
        primary.fall();
        let url = standby.url();
        let known = [OPERATOR, ("STANDBY", url.as_str())];
        follow(&page("runbooks/postgres-failover.md"), ground.folder.path(), &programs(), &known).await;
        let after = Ground::at(url).await;
        let server = after.serve().await;
        assert!(server.post("/charges", "order-1", "{}", "").await.is_replay());
        server.post("/charges", "order-2", "{}", "").await;
        let claims = server.claims("settled").await;
        let new = claims.iter().find(|claim| claim["key"] == "order-2").unwrap()["epoch"].as_str().unwrap();
        assert!(before.starts_with("1.") && new.starts_with("2."), "{before}, then {new}");
    }
}
