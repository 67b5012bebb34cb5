//! What agents may do: `[actions]`, `[connectors]` and `[trust]`.

use hapax_agent::actions::Decision;

use super::*;
use crate::config::{actions, connectors, rule};
use crate::limits::{self, range};

sections! {
    /// How actions of agents are done.
    ACTIONS = "actions" {
        "as": Table(&ACTIONS_AS), Absent =>
            "whose actions they are where nothing else says so, as with `hapax actions run` without `--tenant`";
        "receipts": Words(&words(&actions::RECEIPTS)), Is("digest") =>
            "whether receipts and alerts keep the arguments of an action, or only their SHA-256";
        "include_result": Flag, Bool(false) =>
            "whether a repeated action (`DEDUP`) is told the first one's result";
    }
    /// Whose actions they are where nothing else says so.
    ACTIONS_AS = "actions.as" {
        "tenant": Text("name"), Required =>
            "the tenant";
        "project": Text("name"), Required =>
            "the project";
    }
    /// The systems that tools are on.
    CONNECTORS = "connectors" {
        "<name>": Table(&CONNECTOR), Absent =>
            "a system that tools are on: a name of `a-z`, `0-9`, `-`, `_` that starts with a letter";
    }
    /// A service whose endpoints are tools.
    CONNECTOR = "connectors.<name>" {
        "kind": Words(&words(&connectors::KINDS)), Required =>
            "what it speaks";
        "url": Text("URL"), Told("must be said for `http`") =>
            "where it is";
        "headers": Table(&CONNECTOR_HEADERS), Absent =>
            "headers that go with every call";
        "token_env": Text("variable"), Absent, shown_as("token") =>
            "a token that goes with every call as `Authorization: Bearer`";
        "token_file": Text("file"), Absent, shown_as("token") =>
            "the same from a file";
        "upstream_key": Words(&words(&connectors::SENT)), Is("digest"), of(Only("http")) =>
            "whether the service is told the key of an action as `Idempotency-Key`";
        "digest_chars": Numbers(&[32, 40, 64]), Count(64), of(Only("http")) =>
            "how long that key is";
        "command": Text("program"), Told("this or `url` for `mcp`"), of(Only("mcp")) =>
            "the server is started as a process, and spoken to over its standard input and output";
        "args": List("strings", UNBOUNDED), Empty, of(Only("mcp")) =>
            "what it is started with";
        "env": Table(&CONNECTOR_ENV), Absent, of(Only("mcp")) =>
            "variables of its environment";
        "pass_env": List("names", UNBOUNDED), Empty, of(Only("mcp")) =>
            "variables of hapax's own environment that it is given, too";
        "trusted": Flag, Bool(false), of(Only("mcp")) =>
            "whether the server's hints about its tools are believed also where they make hapax less strict";
        "tools": Table(&CONNECTOR_TOOLS), Told("must be said for `http`") =>
            "its tools";
    }
    /// What goes with every call.
    CONNECTOR_HEADERS = "connectors.<name>.headers" {
        "<name>": Text("string"), Absent =>
            "the value of this header";
    }
    /// What a server of tools finds in its environment.
    CONNECTOR_ENV = "connectors.<name>.env" {
        "<name>": Text("string"), Absent =>
            "the value of this variable";
    }
    /// The tools of a connector.
    CONNECTOR_TOOLS = "connectors.<name>.tools" {
        "<name>": Table(&CONNECTOR_TOOL), Absent =>
            "a tool; its name has 1 to 128 bytes, in quotes where it has more than letters, digits, `-` and `_`";
    }
    /// An endpoint as a tool.
    CONNECTOR_TOOL = "connectors.<name>.tools.<name>" {
        "method": Text("method"), Told("must be said for `http`"), of(Only("http")) =>
            "the method";
        "path": Text("path"), Told("must be said for `http`"), of(Only("http")) =>
            "the path; `{name}` is taken out of the arguments, and the rest of them is the JSON body, or the query where \
             the method has no body";
        "read_only": Flag, Bool(false) =>
            "the tool changes nothing: it needs no key, and no rule is asked";
        "rerun": Words(&words(&rule::RERUNS)), Is("unsafe") =>
            "whether it may run again where it is not known whether it ran";
        "vendor_key": Flag, Bool(false), of(Only("http")) =>
            "the service itself does what has one key once, so the tool may run again";
        "destructive": Flag, Bool(true) =>
            "whether it may overwrite or remove something; rules are told as `hints.destructive`";
        "give_up": Duration(&range::GIVE_UP), Is("15m") =>
            "how long one call may take";
    }
    /// What may happen.
    TRUST = "trust" {
        "default": Words(&words(&Decision::WORDS)), Is("ALLOW") =>
            "what is decided where no rule matches";
        "rules": Tables(&TRUST_RULE), Absent =>
            "the rules; the first that matches decides";
    }
    /// A rule of the gate.
    TRUST_RULE = "trust.rules" {
        "name": Characters(limits::NAME_LENGTH), Required =>
            "its name, which receipts and alerts tell";
        "when": Text("CEL expression, at most 4KiB"), Required =>
            "when it matches: true or false over `tenant`, `project`, `connector`, `tool`, `args`, `entity_key`, `hints` \
             and `recent(tool, \"1h\")`";
        "decision": Words(&words(&Decision::WORDS)), Required =>
            "what it decides";
    }
}
