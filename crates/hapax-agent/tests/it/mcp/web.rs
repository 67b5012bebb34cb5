//! Answers over HTTP that no server should give, byte by byte.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// A server of the older revision without a session. Its tools are named for what their calls are answered with.
async fn serve(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(answer(stream));
    }
}

async fn answer(mut stream: TcpStream) -> Option<()> {
    loop {
        let (head, asked) = request(&mut stream).await?;
        let id = &asked["id"];
        let result = |result: Value| json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
        let told = match asked["method"].as_str().unwrap_or_default() {
            "initialize" => ok(&result(json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "raw", "version": "1" }
            }))),
            "tools/list" => {
                let tools =
                    TABLE.map(|(name, ..)| json!({ "name": name, "inputSchema": { "type": "object" } }));
                ok(&result(json!({ "tools": tools })))
            }
            "tools/call" => {
                let header = head.lines().find_map(|line| line.strip_prefix("traceparent: "));
                let field = asked["params"]["_meta"]["traceparent"].as_str();
                let text = format!("header {} field {}", header.unwrap_or("none"), field.unwrap_or("none"));
                let done = result(json!({ "content": [{ "type": "text", "text": text }] }));
                match asked["params"]["name"].as_str()? {
                    "hang" => std::future::pending().await,
                    "reset" => return None,
                    "half" => ok(&done)[..60].to_owned(),
                    "events that end" => events(""),
                    "events" => events(&format!("data: {done}\n\n")),
                    "huge" => ok(&format!("\"{}\"", "x".repeat(5 << 20))),
                    "no json" => ok("<html>"),
                    "text" => {
                        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\nhi".into()
                    }
                    "moved" => "HTTP/1.1 307 Moved\r\nlocation: /mcp\r\ncontent-length: 0\r\n\r\n".into(),
                    "accepted" => "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".into(),
                    "done" => ok(&done),
                    status => format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n"),
                }
            }
            _ if id.is_null() => "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".into(),
            _ => "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n".into(),
        };
        stream.write_all(told.as_bytes()).await.ok()?;
        if told.len() == 60 || told.starts_with("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream") {
            return None;
        }
    }
}

fn ok(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn events(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{body}")
}

async fn request(stream: &mut TcpStream) -> Option<(String, Value)> {
    let mut read = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let more = stream.read(&mut chunk).await.ok().filter(|more| *more > 0)?;
        read.extend_from_slice(&chunk[..more]);
        let text = String::from_utf8_lossy(&read).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return Some((head.to_lowercase(), serde_json::from_str(body).unwrap_or_default()));
        }
    }
}

/// What a call is answered with, and whether it settles, releases, or leaves a doubt.
const TABLE: [(&str, End); 17] = [
    ("done", End::Settled),
    ("events", End::Settled),
    ("400", End::Released),
    ("401", End::Released),
    ("404", End::Released),
    ("429", End::Released),
    ("408", End::Doubt),
    ("500", End::Doubt),
    ("503", End::Doubt),
    ("moved", End::Doubt),
    ("text", End::Doubt),
    ("no json", End::Doubt),
    ("huge", End::Doubt),
    ("half", End::Doubt),
    ("reset", End::Doubt),
    ("events that end", End::Doubt),
    ("hang", End::Doubt),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Settled,
    Released,
    Doubt,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_over_http_ends_as_its_server_ends_it_l7() {
    let port = hapax_testkit::port::Port::reserve().unwrap();
    let listener = TcpListener::bind(port.address()).await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let serving = tokio::spawn(serve(listener));
    let short = McpTool { give_up: Some(Duration::from_millis(500)), ..McpTool::default() };
    let agent = actions(&memory(), Mcp::http(&url, []).unwrap().tool("hang", short));
    for (name, end) in TABLE {
        let planned = action(name, name, Some(name), &json!({}));
        let told = agent.act(&origin(), planned.clone()).await;
        let came = match (told.ok, told.code) {
            (true, None) => End::Settled,
            (false, Some("attempt-failed")) => End::Released,
            (false, Some("outcome-unknown")) => End::Doubt,
            other => panic!("{name}: {other:?} {:?}", told.error),
        };
        assert_eq!(came, end, "{name}: {:?}", told.error);
    }
    serving.abort();
    drop(serving.await);
    let told = agent.act(&origin(), action("done", "e", Some("gone"), &json!({}))).await;
    assert_eq!((told.ok, told.code), (false, Some("attempt-failed")), "{:?}", told.error);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_told_of_the_span_of_a_call_in_its_header_and_in_meta_o3() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(serve(listener));
    let agent = actions(&memory(), Mcp::http(&url, []).unwrap());
    let span = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (key, told, expected) in [
        ("with", Some(span.to_owned()), format!("header {span} field {span}")),
        ("without", None, "header none field none".to_owned()),
    ] {
        let origin = Origin { traceparent: told, ..origin() };
        let result = agent.act(&origin, action("done", "e", Some(key), &json!({}))).await.result.unwrap();
        assert!(result.get().contains(&expected), "{}", result.get());
    }
}

#[test]
fn what_is_no_address_of_a_server_is_refused() {
    for url in ["", "ftp://a/", "http://a/#b", "file:///etc/passwd"] {
        assert!(Mcp::http(url, []).is_err(), "{url}");
    }
    for header in [("mcp-session-id", "x"), ("accept", "x"), ("a b", "x"), ("a", "\n")] {
        assert!(Mcp::http("http://a/mcp", [header]).is_err(), "{header:?}");
    }
}
