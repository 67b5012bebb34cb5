//! What is kept and told: `[store]`, `[retention]`, `[seal]`, `[log]`, `[traces]` and `[tenants]`.

use super::*;
use crate::config::keeping;
use crate::limits::{self, range};

sections! {
    /// Where claims are kept.
    STORE = "store" {
        "url": Text("store"), Told("`\"embedded:./data\"`"), restart =>
            "`\"memory:\"`, `\"embedded:PATH\"` or `\"postgres://user@host:port/database\"` (`@` in a password is `%40`); \
             the variable `HAPAX_STORE` goes before it, with a path relative to the working directory";
        "lease": Duration(&range::LEASE), Lasts(limits::LEASE), restart =>
            "how long a process that has died keeps its claims";
        "spool": Text("folder"),
            Told("`spool` in the folder of an embedded store; else beside the configuration and named after it (`hapax-spool` for `hapax.toml`)"), restart =>
            "where outcomes wait that the store has not heard of yet. It must be writable, be there again when the process \
             is started again, and belong to one process and one store";
    }
    /// How long outcomes are kept.
    RETENTION = "retention" {
        "default": Text("class"), Is("interactive") =>
            "the class of routes that name none";
        "<class>": Retention("", &range::RETENTION), Told("`interactive = \"24h\"`") =>
            "a class: a name of `a-z`, `0-9`, `-`, `_` that starts with a letter";
    }
    /// Keys for encryption at rest.
    SEAL = "seal" {
        "key_env": OneOrList("variable", UNBOUNDED), Told("this or `key_file`"), shown_as("key") =>
            "the keys: the first seals, all of them open, so that a key can be replaced";
        "key_file": OneOrList("file", UNBOUNDED), Told("this or `key_env`"), shown_as("key") =>
            "the same from files";
    }
    /// What the process tells.
    LOG = "log" {
        "format": Words(&words(&keeping::FORMATS)), Is("json"), restart =>
            "the form of a line";
        "level": Words(&words(&keeping::LEVELS)), Is("info"), restart =>
            "the least important level that is told";
    }
    /// Where spans of requests go.
    TRACES = "traces" {
        "endpoint": Text("URL"), Required =>
            "the collector, which takes OTLP over HTTP in Protocol Buffers; without a path spans are posted to `/v1/traces`";
        "ratio": Ratio, Count(1) =>
            "the share of requests that are recorded, of those whose caller has not decided it";
        "parent": Flag, Bool(true) =>
            "whether a caller that sends a `traceparent` decides whether its request is recorded";
        "headers_env": Text("variable"), Absent, shown_as("headers") =>
            "headers that the collector wants: `NAME=VALUE`, with a comma between two of them";
        "headers_file": Text("file"), Absent, shown_as("headers") =>
            "the same from a file";
    }
    /// What one tenant may use.
    TENANTS = "tenants" {
        "held": Integer(&range::TENANT), Count(0) =>
            "claims held at a time";
        "claims_per_second": Integer(&range::TENANT), Count(0) =>
            "new claims per second";
        "in_doubt": Integer(&range::TENANT), Count(0) =>
            "claims in doubt; beyond, new claims of the tenant are refused. Doubts that this process brings about count at \
             once, those of other processes and of applications, and what operators resolve, within 5 s";
    }
}
