//! How calls end, and what a server's word about its tools counts for.

use super::played::server;
use super::*;

struct Setting {
    _folder: tempfile::TempDir,
    effects: CountingFile,
    actions: Actions<Store>,
}

fn setting(change: impl FnOnce(Mcp) -> Mcp) -> Setting {
    let folder = tempfile::tempdir().unwrap();
    let effects = CountingFile::new(folder.path().join("effects"));
    let actions = actions(&memory(), change(server(&effects)));
    Setting { _folder: folder, effects, actions }
}

impl Setting {
    async fn act(&self, tool: &str, entity: &str, key: Option<&str>) -> ActionResult {
        self.actions.act(&origin(), action(tool, entity, key, &json!({}))).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_ends_as_its_server_ends_it_l7() {
    let it = setting(|server| server);
    let released = (Disposition::Allow, Some("attempt-failed"));
    let doubt = (Disposition::Block, Some("outcome-unknown"));
    for (tool, first, lane_is_open, told) in [
        ("done", None, true, ""),
        ("fails", Some("attempt-failed"), true, "no such order"),
        ("invalid", Some("attempt-failed"), true, "-32602"),
        ("unknown", Some("attempt-failed"), true, "-32601"),
        ("internal", Some("outcome-unknown"), false, "-32603"),
        ("own", Some("outcome-unknown"), false, "-32001"),
        ("garbage", Some("outcome-unknown"), false, "none to a call"),
        ("empty", Some("outcome-unknown"), false, "none to a call"),
        ("hang", Some("outcome-unknown"), false, ""),
        ("junk", Some("outcome-unknown"), false, ""),
        ("other", Some("outcome-unknown"), false, ""),
        ("huge", Some("outcome-unknown"), false, ""),
        ("die", Some("outcome-unknown"), false, "went away"),
        ("half", Some("outcome-unknown"), false, "went away"),
    ] {
        let done = tool == "done";
        let result = it.act(tool, tool, Some(tool)).await;
        assert_eq!((result.decision, result.ok, result.code), (Disposition::Allow, done, first), "{tool}");
        let error = result.error.unwrap_or_default();
        assert!(error.contains(told), "{tool}: {error}");
        assert_eq!(it.effects.count(tool).unwrap(), 1, "{tool}");
        let other = it.act("reads", tool, Some(&format!("{tool}.other"))).await;
        let open = (lane_is_open, (!lane_is_open).then_some("lane-in-doubt"));
        assert_eq!((other.ok, other.code), open, "{tool}: {:?}", other.error);
        let again = it.act(tool, tool, Some(tool)).await;
        let expected = match (done, lane_is_open) {
            (true, _) => (Disposition::Dedup, None),
            (false, true) => released,
            (false, false) => doubt,
        };
        assert_eq!((again.decision, again.code), expected, "{tool}: {:?}", again.error);
        let reached = if expected == released { 2 } else { 1 };
        assert_eq!(it.effects.count(tool).unwrap(), reached, "{tool} reached the server");
    }
    // Each effect was told the key of its action.
    let keys = it.effects.effects().unwrap();
    assert!(keys.iter().all(|effect| effect.attempt.len() == 64), "{keys:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_died_is_started_again_and_one_that_does_not_stay_is_left_alone_for_a_while() {
    let it = setting(|server| server);
    let mut refused = None;
    for n in 0..12 {
        let key = n.to_string();
        let told = it.act("die", &key, Some(&key)).await;
        if told.decision == Disposition::Block {
            refused = told.code;
            break;
        }
        assert_eq!(told.code, Some("outcome-unknown"), "{:?}", told.error);
    }
    assert_eq!(refused, Some("connector-unavailable"), "the pause grows");
    assert!(it.effects.count("die").unwrap() > 1, "it was started more than once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hints_count_only_where_the_server_is_trusted_x7() {
    let wary = setting(|server| server);
    let told = wary.act("reads", "e", None).await;
    assert_eq!((told.decision, told.code), (Disposition::Block, Some("key-missing")));
    let trusting = setting(|server| server.trusted(true));
    for _ in 0..2 {
        assert!(
            trusting.act("reads", "e", None).await.ok,
            "a read needs no key and runs as often as it is asked"
        );
    }
    assert_eq!(trusting.effects.effects().unwrap()[0].attempt, "none", "a read has no key");
    let said = setting(|server| server.tool("done", McpTool { read_only: Some(true), ..McpTool::default() }));
    assert!(said.act("done", "e", None).await.ok, "the operator says that it reads");
    let told = McpTool { read_only: Some(true), ..McpTool::default() };
    let stricter = setting(|server| server.tool("again", told));
    let told = stricter.act("again", "e", None).await;
    assert_eq!(told.code, Some("key-missing"), "its server says that it writes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_has_changed_is_asked_for_again() {
    let it = setting(|server| server.trusted(true));
    assert!(it.act("turns", "e", None).await.ok, "it reads");
    assert!(it.act("turn", "e", Some("turn")).await.ok);
    let mut tries = 0;
    // The server's word comes beside its answer.
    while it.act("turns", "e", None).await.code != Some("key-missing") {
        tries += 1;
        assert!(tries < 1000, "the list is fresh for minutes");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_reaches_no_server() {
    let it = setting(|server| server);
    let wrong = action("done", "e", Some("k"), &json!({ "n": "many" }));
    let told = it.actions.act(&origin(), wrong).await;
    assert_eq!((told.decision, told.code), (Disposition::Block, Some("args-malformed")));
    assert_eq!(told.error.as_deref(), Some("args.n: of type integer"));
    assert_eq!(it.act("none", "e", Some("k")).await.code, Some("tool-unknown"));
    assert!(it.effects.effects().unwrap().is_empty());
    assert!(it.act("done", "e", Some("k")).await.ok, "no key was burned");
    let nowhere = actions(&memory(), Mcp::process(McpProcess::new("/no/such/program")));
    let told = nowhere.act(&origin(), action("done", "e", Some("k"), &json!({}))).await;
    assert_eq!((told.decision, told.code), (Disposition::Block, Some("connector-unavailable")));
}
