//! The systems that tools are on: `[connectors.<name>]`, of kind `http` or `mcp`.

use std::collections::BTreeMap;
use std::time::Duration;

use hapax_agent::actions::{HttpTool, KeyDialect, Tool};
use hapax_core::{Rerun, lane};
use http::{HeaderName, HeaderValue};

use super::reader::Secret;
use super::rule::RERUNS;
use super::section::{Section, Spot};
use super::tree::{Node, Value};
use super::upstream::{digest_chars, is_name, name_remedy};
use super::url::Url;
use crate::limits;

/// A system that tools are on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Connector {
    /// A service that speaks HTTP.
    Http(HttpConnector),
    /// A server of the Model Context Protocol.
    Mcp(McpConnector),
}

/// A service whose endpoints are tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpConnector {
    /// Where it is.
    pub url: String,
    /// What goes with every call.
    pub headers: Vec<(String, String)>,
    /// Goes with every call as `Authorization: Bearer`.
    pub token: Option<Secret>,
    /// How it takes the key of an action.
    pub key: KeyDialect,
    /// Its tools, by name.
    pub tools: BTreeMap<String, HttpToolSettings>,
}

/// An endpoint as a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpToolSettings {
    /// The method.
    pub method: String,
    /// The path, with parameters out of the arguments.
    pub path: String,
    /// Whether the service itself does what has one key once (X10).
    pub vendor_key: bool,
    /// What is known of it.
    pub tool: Tool,
}

/// A server of tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpConnector {
    /// How it is reached.
    pub reached: Reached,
    /// Whether its own hints about its tools are believed where they make hapax less strict.
    pub trusted: bool,
    /// What is said of its tools here; it goes before the server's own hints.
    pub tools: BTreeMap<String, ToolOverride>,
}

/// How a server of tools is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reached {
    /// As a process of hapax's own, over its standard input and output.
    Command {
        /// The program.
        command: String,
        /// What it is started with.
        args: Vec<String>,
        /// Its environment, beside what every process has.
        env: BTreeMap<String, String>,
        /// Variables of hapax's own environment that it is given, too.
        pass_env: Vec<String>,
    },
    /// Over HTTP.
    Url {
        /// Where it is.
        url: String,
        /// What goes with every request.
        headers: Vec<(String, String)>,
        /// Goes with every request as `Authorization: Bearer`.
        token: Option<Secret>,
    },
}

/// What is said of a tool in the place of what its server says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolOverride {
    /// Whether it changes nothing.
    pub read_only: Option<bool>,
    /// Whether it may overwrite or remove something.
    pub destructive: Option<bool>,
    /// Whether it may run again.
    pub rerun: Option<Rerun>,
    /// How long one call may take.
    pub give_up: Option<Duration>,
}

/// The words of `kind`.
pub(super) const KINDS: [(&str, ()); 2] = [("http", ()), ("mcp", ())];
/// The words of `upstream_key`: whether a service is told the key.
pub(super) const SENT: [(&str, bool); 2] = [("digest", true), ("none", false)];

/// Reads `[connectors]`.
pub(crate) fn connectors(section: &Section<'_>) -> BTreeMap<String, Connector> {
    section.entries().filter_map(|(name, node)| one(section, &name, node)).collect()
}

fn one<'a>(within: &Section<'a>, name: &Spot<String>, node: &'a Node) -> Option<(String, Connector)> {
    let reader = within.reader();
    let Value::Table(table) = &node.value else {
        let what = format!("`{}` cannot be {}", name.value, node.value.kind());
        reader.mistake(&node.at, what, format!("write [connectors.{}] and its fields below", name.value));
        return None;
    };
    let named_well = is_name(&name.value);
    if !named_well {
        reader.mistake(&name.at, format!("{:?} is no name of a connector", name.value), name_remedy());
    }
    let is_mcp =
        table.get("kind").is_some_and(|kind| matches!(&kind.node.value, Value::Text(kind) if kind == "mcp"));
    let section = within.named(table, if is_mcp { "mcp" } else { "http" });
    section.word("kind", &KINDS);
    section.require("kind", "say `kind = \"http\"` or `kind = \"mcp\"`");
    let read = if is_mcp { mcp(&section).map(Connector::Mcp) } else { http(&section).map(Connector::Http) };
    Some((name.value.clone(), read?)).filter(|_| named_well)
}

fn http(section: &Section<'_>) -> Option<HttpConnector> {
    section.require("url", "say where the service is, such as \"http://127.0.0.1:9000\"");
    let url = url(section);
    let (headers, token, key) = (headers(section), token(section), key(section));
    let tools = section.section("tools");
    if !section.has("tools") {
        let remedy =
            "add a section such as [connectors.orders.tools.\"orders.hold\"] with `method` and `path`";
        section.reader().mistake(&section.at(), "this connector has no tools", remedy);
    }
    let tools = each_tool(&tools, "http", |own| http_tool(own, key));
    Some(HttpConnector { url: url?, headers, token, key, tools })
}

fn url(section: &Section<'_>) -> Option<String> {
    section.url("url", |text| Url::parse(text).map(|_| text.to_owned())).map(|url| url.value)
}

/// Reads the sections of tools, by name.
fn each_tool<T>(
    tools: &Section<'_>,
    kind: &'static str,
    read: impl Fn(&Section<'_>) -> Option<T>,
) -> BTreeMap<String, T> {
    let reader = tools.reader();
    let mut found = BTreeMap::new();
    for (name, node) in tools.entries() {
        let Value::Table(table) = &node.value else {
            let what = format!("the tool {:?} cannot be {}", name.value, node.value.kind());
            reader.mistake(&node.at, what, "write a section for it");
            continue;
        };
        let own = tools.named(table, kind);
        if let Err(error) = lane::check_tool(&name.value) {
            reader.mistake(&name.at, format!("{:?} is no name of a tool", name.value), error.message());
            continue;
        }
        found.extend(read(&own).map(|tool| (name.value, tool)));
    }
    if found.len() > limits::CONNECTOR_TOOLS {
        let what = format!("a connector has {} tools", found.len());
        reader.mistake(&tools.at(), what, format!("use at most {}", limits::CONNECTOR_TOOLS));
    }
    found
}

fn http_tool(section: &Section<'_>, key: KeyDialect) -> Option<HttpToolSettings> {
    let reader = section.reader();
    section.require("method", "say the method, such as \"POST\"");
    section.require("path", "say the path, such as \"/orders/{order}/hold\"");
    let method = section.parsed("method", |text| match text {
        "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" => Ok(text.to_owned()),
        _ => Err("use GET, HEAD, POST, PUT, PATCH or DELETE".into()),
    });
    let path = section.parsed("path", |text| match HttpTool::new(Tool::default(), "POST", text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.message().to_owned()),
    });
    let said = overrides(section);
    let vendor_key = section.flag("vendor_key").is_some_and(|flag| flag.value);
    let read_only = said.read_only.unwrap_or(false);
    if read_only {
        for field in ["rerun", "vendor_key", "destructive"] {
            if section.has(field) {
                let what = format!("`{field}` has no effect on a tool that is read only");
                reader.mistake(&section.place(field), what, "remove one of them");
            }
        }
    }
    if vendor_key && key == KeyDialect::None {
        let what = "`vendor_key` is set, and the service is not told the key";
        reader.mistake(
            &section.place("vendor_key"),
            what,
            "remove `upstream_key = \"none\"` of the connector",
        );
    }
    if vendor_key && said.rerun.is_some_and(|rerun| rerun != Rerun::Safe) {
        let what = "`vendor_key` makes this tool safe to run again, and `rerun` says otherwise";
        reader.mistake(&section.place("rerun"), what, "remove one of them");
    }
    let usual = if read_only { Tool::reads() } else { Tool::default() };
    let tool = Tool {
        rerun: if vendor_key || read_only { Rerun::Safe } else { said.rerun.unwrap_or(usual.rerun) },
        destructive: said.destructive.unwrap_or(usual.destructive),
        give_up: said.give_up.unwrap_or(usual.give_up),
        ..usual
    };
    Some(HttpToolSettings { method: method?.value, path: path?.value, vendor_key, tool })
}

fn overrides(section: &Section<'_>) -> ToolOverride {
    ToolOverride {
        read_only: section.flag("read_only").map(|flag| flag.value),
        destructive: section.flag("destructive").map(|flag| flag.value),
        rerun: section.word("rerun", &RERUNS).map(|word| word.value),
        give_up: section.duration("give_up").map(|duration| duration.value),
    }
}

/// How many characters of an action's key the service takes.
fn key(section: &Section<'_>) -> KeyDialect {
    let word = section.word("upstream_key", &SENT);
    let sent = word.is_none_or(|word| word.value);
    let chars = digest_chars(section);
    if !sent && section.has("digest_chars") {
        let what = "`digest_chars` has no effect with `upstream_key = \"none\"`";
        section.reader().mistake(&section.place("digest_chars"), what, "remove one of them");
    }
    match (sent, chars) {
        (false, _) => KeyDialect::None,
        (true, 32) => KeyDialect::Chars32,
        (true, 40) => KeyDialect::Chars40,
        (true, _) => KeyDialect::Chars64,
    }
}

fn token(section: &Section<'_>) -> Option<Secret> {
    let token = section.reader().secret(section, "token")?;
    if HeaderValue::from_str(&format!("Bearer {}", token.value.reveal())).is_err() {
        let what = "the token has characters that a header cannot have";
        section.reader().mistake(&token.at, what, "set another one");
        return None;
    }
    Some(token.value)
}

fn headers(section: &Section<'_>) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    for (name, value) in texts(section, "headers") {
        let refuse = |what: String, remedy: &str| section.reader().mistake(&name.at, what, remedy);
        let known = HeaderName::try_from(&name.value);
        let ours = [
            "idempotency-key",
            "x-operation-epoch",
            "x-operation-id",
            "host",
            "content-length",
            "content-type",
        ];
        match known {
            Err(_) => refuse(format!("{:?} is no header name", name.value), "write the name of a header"),
            Ok(header) if ours.contains(&header.as_str()) => {
                refuse(format!("{:?} is written by hapax itself", name.value), "remove it");
            }
            Ok(_) if HeaderValue::from_str(&value).is_err() => {
                refuse(
                    format!("the value of {:?} cannot be sent in a header", name.value),
                    "write printable text",
                );
            }
            Ok(header) if header == http::header::AUTHORIZATION => {
                refuse("a credential stands in the configuration".into(), "use `token_env` or `token_file`");
            }
            Ok(_) => headers.push((name.value, value)),
        }
    }
    headers
}

/// The texts of a table whose names the user chooses.
fn texts(section: &Section<'_>, field: &str) -> Vec<(Spot<String>, String)> {
    let own = section.section(field);
    let mut found = Vec::new();
    for (name, node) in own.entries() {
        match &node.value {
            Value::Text(text) => found.push((name, text.clone())),
            other => {
                let what = format!("`{field}`: {:?} cannot be {}", name.value, other.kind());
                section.reader().mistake(&node.at, what, "it takes a string");
            }
        }
    }
    found
}

fn mcp(section: &Section<'_>) -> Option<McpConnector> {
    let reader = section.reader();
    let trusted = section.flag("trusted").is_some_and(|flag| flag.value);
    let tools = section.section("tools");
    let tools = each_tool(&tools, "mcp", |own| Some(overrides(own)));
    let reached = match (section.has("command"), section.has("url")) {
        (true, false) => {
            for field in ["headers", "token_env", "token_file"] {
                if section.has(field) {
                    let what = format!("`{field}` has no effect on a command");
                    reader.mistake(&section.place(field), what, "remove it, or use `url`");
                }
            }
            let list = |field| {
                let texts = section.texts(field).unwrap_or_default();
                texts.into_iter().map(|text| text.value.to_owned()).collect::<Vec<_>>()
            };
            let env = texts(section, "env");
            Some(Reached::Command {
                args: list("args"),
                env: env.into_iter().map(|(name, value)| (name.value, value)).collect(),
                pass_env: list("pass_env"),
                command: section.text("command")?.value.to_owned(),
            })
        }
        (false, true) => {
            for field in ["args", "env", "pass_env"] {
                if section.has(field) {
                    let what = format!("`{field}` has no effect on a URL");
                    reader.mistake(&section.place(field), what, "remove it, or use `command`");
                }
            }
            let (headers, token) = (headers(section), token(section));
            url(section).map(|url| Reached::Url { url, headers, token })
        }
        (true, true) => {
            reader.mistake(&section.place("url"), "`command` and `url` are both written", "keep one of them");
            None
        }
        (false, false) => {
            let remedy = "say `command = \"uvx\"` and `args`, or `url`";
            reader.mistake(&section.at(), "nothing says how this server is reached", remedy);
            None
        }
    };
    Some(McpConnector { reached: reached?, trusted, tools })
}
