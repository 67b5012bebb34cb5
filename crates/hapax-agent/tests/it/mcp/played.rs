//! A server of this test binary that ends calls in every way, also those that no real server should.

use std::io::{BufRead as _, Write as _};

use super::*;

const EFFECTS: &str = "HAPAX_TEST_MCP_EFFECTS";
const NAME: &str = "mcp::played::a_server_plays_its_part";

/// A server that writes down what it does.
pub(super) fn server(effects: &CountingFile) -> Mcp {
    let mut process =
        McpProcess::new(std::env::current_exe().unwrap()).args(["--exact", NAME, "--nocapture"]);
    process.env.insert(EFFECTS.into(), effects.path().display().to_string());
    let short = McpTool { give_up: Some(Duration::from_millis(500)), ..McpTool::default() };
    let mut server = Mcp::process(process).give_up(Duration::from_secs(30));
    for hanging in ["hang", "junk", "huge", "other"] {
        server = server.tool(hanging, short);
    }
    server
}

/// Every tool of the server, and its hints.
fn tools(turned: bool) -> Vec<Value> {
    let plain = [
        "done", "hang", "die", "garbage", "half", "fails", "invalid", "unknown", "internal", "own", "huge",
        "junk", "other", "empty",
    ];
    let mut tools: Vec<_> = plain
        .iter()
        .map(|name| {
            json!({ "name": name, "inputSchema": { "type": "object", "properties": { "n": { "type": "integer" } } } })
        })
        .collect();
    let hinted = |name: &str, hints: Value| json!({ "name": name, "inputSchema": { "type": "object" }, "annotations": hints });
    tools.push(hinted("reads", json!({ "readOnlyHint": true })));
    tools.push(hinted("again", json!({ "idempotentHint": true, "readOnlyHint": false })));
    tools.push(hinted("turns", json!({ "readOnlyHint": !turned })));
    tools.push(hinted("turn", json!({})));
    tools
}

/// Alone it does nothing; as a child of another test it is a server.
#[test]
fn a_server_plays_its_part() {
    let Ok(effects) = std::env::var(EFFECTS) else { return };
    let effects = CountingFile::new(effects);
    let mut turned = false;
    let say = |text: &str| {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes()).unwrap();
        out.flush().unwrap();
    };
    for line in std::io::stdin().lock().lines() {
        let asked: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let Some(id) = asked.get("id") else { continue };
        let tell =
            |result: Value| say(&format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "result": result })));
        let fail = |code: i64| {
            let error = json!({ "code": code, "message": "it is so" });
            say(&format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "error": error })));
        };
        match asked["method"].as_str().unwrap() {
            "initialize" => tell(json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": { "listChanged": true } },
                "serverInfo": { "name": "played", "version": "1" }
            })),
            // Two tools on each page.
            "tools/list" => {
                let from: usize =
                    asked["params"]["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
                let all = tools(turned);
                let mut page = json!({ "tools": all[from..(from + 2).min(all.len())] });
                if from + 2 < all.len() {
                    page["nextCursor"] = json!((from + 2).to_string());
                }
                tell(page);
            }
            "tools/call" => {
                let (tool, meta) = (asked["params"]["name"].as_str().unwrap(), &asked["params"]["_meta"]);
                let key = meta[hapax_agent::actions::connect::KEY_FIELD].as_str().unwrap_or("none");
                effects.record(tool, key).unwrap();
                let done = json!({ "content": [{ "type": "text", "text": "it is done" }] });
                match tool {
                    "hang" => {}
                    "die" => std::process::exit(3),
                    "garbage" => tell(json!({ "garbage": [1, 2, 3] })),
                    "empty" => tell(json!({})),
                    "half" => {
                        say(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"ty"));
                        std::process::exit(0);
                    }
                    "junk" => say("Traceback (most recent call last):\n\u{0}\u{1}{{{{\n"),
                    "other" => {
                        say("{\"jsonrpc\":\"2.0\",\"id\":\"not asked\",\"result\":{\"content\":[]}}\n")
                    }
                    "huge" => tell(json!({ "content": [{ "type": "text", "text": "x".repeat(5 << 20) }] })),
                    "fails" => tell(
                        json!({ "isError": true, "content": [{ "type": "text", "text": "no such order" }] }),
                    ),
                    "invalid" => fail(-32602),
                    "unknown" => fail(-32601),
                    "internal" => fail(-32603),
                    "own" => fail(-32001),
                    "turn" => {
                        turned = true;
                        say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n");
                        tell(done);
                    }
                    _ => tell(done),
                }
            }
            // Also the newer revision's first question.
            _ => fail(-32601),
        }
    }
}
