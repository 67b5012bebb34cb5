//! `hapax actions` with the tools of a real MCP server, as its own process and as another one after it (X7).

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::actions_cli::actions;
use crate::rig::{Ground, Kind};

const WHOSE: [&str; 5] = ["--tenant", "acme", "--project", "shop", "--json"];

fn git(repository: &Path, args: &[&str]) -> String {
    let out = Command::new("git").arg("-C").arg(repository).args(args).output().unwrap();
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_two_plans_propose_is_made_once_by_the_python_server() {
    let python = std::env::var("HAPAX_TEST_PYTHON").expect("`cargo xtask test` installs MCP servers");
    let mut ground = Ground::new(Kind::Embedded).await;
    let repository = ground.folder.path().join("repository");
    std::fs::create_dir(&repository).unwrap();
    let repository = repository.canonicalize().unwrap();
    git(&repository, &["init", "--quiet"]);
    ground.sections = format!(
        "[connectors.git]\nkind = \"mcp\"\ncommand = \"{python}/bin/mcp-server-git\"\nargs = [\"--repository\", {place:?}]\ntrusted = true\n\
         env = {{ GIT_AUTHOR_NAME = \"a\", GIT_AUTHOR_EMAIL = \"a@b.example\", GIT_COMMITTER_NAME = \"a\", GIT_COMMITTER_EMAIL = \"a@b.example\" }}\n\
         [connectors.gone]\nkind = \"mcp\"\nurl = \"http://127.0.0.1:1/mcp\"\n\
         [[trust.rules]]\nname = \"nothing is thrown away\"\nwhen = 'tool == \"git_reset\"'\ndecision = \"BLOCK\"\n\
         [[trust.rules]]\nname = \"what may destroy is watched\"\nwhen = 'hints.destructive'\ndecision = \"ALERT\"\n",
        place = repository.display().to_string(),
    );
    let action = |connector: &str, tool: &str, key: Option<&str>, args: Value| {
        let mut action =
            json!({ "connector": connector, "tool": tool, "entity_key": "repository", "args": args });
        if let Some(key) = key {
            action["idempotency_key"] = json!(key);
        }
        action
    };
    let place = json!({ "repo_path": repository });
    let commit =
        action("git", "git_commit", Some("first"), json!({ "repo_path": repository, "message": "One" }));
    let plan = json!([
        commit,
        commit,
        action("git", "git_status", None, place.clone()),
        action("git", "git_reset", Some("reset"), place),
        action("git", "git_commit", Some("second"), json!({ "repo_path": repository })),
        action("gone", "any", Some("gone"), json!({})),
    ]);
    let stage = |name: &str| {
        std::fs::write(repository.join(name), name).unwrap();
        git(&repository, &["add", name]);
    };
    stage("one");
    let told = actions(&ground, "run", &plan, &WHOSE).await;
    assert_eq!(told.code, 1, "{}", told.err);
    let results: Vec<Value> = serde_json::from_str(&told.out).unwrap();
    let expected = [
        ("ALLOW", true, None),
        ("DEDUP", true, None),
        ("ALLOW", true, None),
        ("BLOCK", false, None),
        ("BLOCK", false, Some("args-malformed")),
        ("BLOCK", false, Some("connector-unavailable")),
    ];
    let came: Vec<_> = results
        .iter()
        .map(|result| {
            (result["decision"].as_str().unwrap(), result["ok"].as_bool().unwrap(), result["code"].as_str())
        })
        .collect();
    assert_eq!(came, expected, "{results:#?}");
    stage("two");
    let told = actions(&ground, "run", &json!([commit]), &WHOSE).await;
    assert_eq!(told.code, 0, "{}", told.err);
    assert!(told.out.contains("DEDUP"), "{}", told.out);
    assert_eq!(git(&repository, &["log", "--format=%s", "--all"]), "One\n");
}
