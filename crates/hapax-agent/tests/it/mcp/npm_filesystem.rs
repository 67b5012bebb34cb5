//! The reference server for files, from npm, of revision 2025-11-25.

use super::*;

fn server(folder: &Path) -> Mcp {
    let package = needed("HAPAX_TEST_NPM").join("node_modules/@modelcontextprotocol/server-filesystem");
    let script = package.join("dist/index.js").display().to_string();
    Mcp::process(McpProcess::new("node").args([script, folder.display().to_string()])).trusted(true)
}

/// Adds a line; done twice, there are two.
fn edit(folder: &Path) -> PlannedAction {
    let edits = json!([{ "oldText": "one\n", "newText": "one\nmore\n" }]);
    let args = json!({ "path": folder.join("list").display().to_string(), "edits": edits });
    action("edit_file", "file:list", Some("add-more"), &args)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_that_is_proposed_twice_happens_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    std::fs::write(path.join("list"), "one\ntwo\n").unwrap();
    let store = memory();
    twice(&actions(&store, server(&path)), &edit(&path)).await;
    // Another process proposes it, too.
    let again = actions(&store, server(&path)).act(&origin(), edit(&path)).await;
    assert_eq!((again.decision, again.ok), (Disposition::Dedup, true), "{:?}", again.error);
    assert_eq!(std::fs::read_to_string(path.join("list")).unwrap(), "one\nmore\ntwo\n");
    // Without hapax there are two.
    let free = actions(&memory(), server(&path));
    assert!(free.act(&origin(), edit(&path)).await.ok);
    assert_eq!(std::fs::read_to_string(path.join("list")).unwrap(), "one\nmore\nmore\ntwo\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_needs_no_key_and_a_failed_edit_releases_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let actions = actions(&memory(), server(&path));
    let told = actions.act(&origin(), edit(&path)).await;
    assert_eq!((told.ok, told.code), (false, Some("attempt-failed")), "there is no such file");
    std::fs::write(path.join("list"), "one\n").unwrap();
    twice(&actions, &edit(&path)).await;
    let args = json!({ "path": path.join("list").display().to_string() });
    let read = actions.act(&origin(), action("read_text_file", "file:list", None, &args)).await;
    assert!(read.ok && read.result.unwrap().get().contains("more"), "{:?}", read.error);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_in_the_midst_of_a_call_leaves_a_doubt() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    std::fs::write(path.join("list"), "one\n").unwrap();
    let actions = actions(&memory(), server(&path));
    let args = json!({ "path": path.join("list").display().to_string() });
    let read = || action("read_text_file", "file:list", None, &args);
    assert!(actions.act(&origin(), read()).await.ok);
    // Stopped, so that the call is surely under way when it is killed.
    let process = process_of(&path).await;
    signal(process, "-STOP");
    let (acting, planned) = (actions.clone(), edit(&path));
    let call = tokio::spawn(async move { acting.act(&origin(), planned).await });
    under_way(process).await;
    signal(process, "-KILL");
    let told = call.await.unwrap();
    assert_eq!((told.ok, told.code), (false, Some("outcome-unknown")), "{:?}", told.error);
    let again = actions.act(&origin(), edit(&path)).await;
    assert_eq!((again.decision, again.code), (Disposition::Block, Some("outcome-unknown")));
    assert!(actions.act(&origin(), read()).await.ok, "a read goes on, on another server process");
}

/// Waits until a stopped server has something to read.
async fn under_way(process: u32) {
    let input = std::fs::File::open(format!("/proc/{process}/fd/0")).unwrap();
    until(|| (rustix::io::ioctl_fionread(&input).unwrap() > 0).then_some(())).await;
}
