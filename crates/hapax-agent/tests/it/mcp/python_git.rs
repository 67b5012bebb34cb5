//! The reference server for Git, for Python, of revision 2026-07-28.

use std::process::Command;

use super::*;

fn server(repository: &Path) -> Mcp {
    let program = needed("HAPAX_TEST_PYTHON").join("bin/mcp-server-git");
    let mut process = McpProcess::new(program).args(["--repository", repository.to_str().unwrap()]);
    for (name, value) in [("NAME", "a"), ("EMAIL", "a@b.example")] {
        process.env.insert(format!("GIT_AUTHOR_{name}"), value.into());
        process.env.insert(format!("GIT_COMMITTER_{name}"), value.into());
    }
    Mcp::process(process).trusted(true)
}

fn git(repository: &Path, args: &[&str]) -> String {
    let out = Command::new("git").arg("-C").arg(repository).args(args).output().unwrap();
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

fn commits(repository: &Path) -> usize {
    git(repository, &["log", "--format=%s", "--all"]).lines().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_proposed_twice_is_made_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    git(&path, &["init", "--quiet"]);
    let (store, place) = (memory(), json!(path.to_str().unwrap()));
    let agent = actions(&store, server(&path));
    let stage = |name: &str| {
        std::fs::write(path.join(name), name).unwrap();
        git(&path, &["add", name]);
    };
    let commit = |key: &str| {
        let args = json!({ "repo_path": place, "message": "Add a file" });
        action("git_commit", "repository", Some(key), &args)
    };
    stage("one");
    let first = agent.act(&origin(), commit("first")).await;
    assert_eq!((first.decision, first.ok), (Disposition::Allow, true), "{:?}", first.error);
    // What a second call would commit.
    stage("two");
    for other in [&agent, &actions(&store, server(&path))] {
        let again = other.act(&origin(), commit("first")).await;
        assert_eq!((again.decision, again.ok), (Disposition::Dedup, true), "{:?}", again.error);
    }
    assert_eq!(commits(&path), 1);
    // Without hapax there are two.
    assert!(actions(&memory(), server(&path)).act(&origin(), commit("first")).await.ok);
    assert_eq!(commits(&path), 2);
    let read =
        agent.act(&origin(), action("git_status", "repository", None, &json!({ "repo_path": place }))).await;
    assert!(read.ok, "a read needs no key: {:?}", read.error);
}
