//! `[actions]`, `[connectors]` and `[trust]` as they take effect.

use std::collections::BTreeMap;

use hapax_agent::actions::{Decision, KeyDialect};

use super::super::actions::{ActionSettings, RECEIPTS, Trust};
use super::super::connectors::{Connector, HttpConnector, McpConnector, Reached, ToolOverride};
use super::super::rule::RERUNS;
use super::{SET, Section, Shown, word};

pub(super) fn actions(settings: &ActionSettings) -> Section {
    let mut section = Section::default();
    section.text("receipts", word(&RECEIPTS, &settings.receipts));
    section.flag("include_result", settings.include_result);
    section.maybe(settings.whose.as_ref(), |section, (tenant, project)| {
        let mut whose = Section::default();
        whose.text("tenant", tenant.as_str()).text("project", project.as_str());
        section.table("as", whose);
    });
    section
}

pub(super) fn trust(trust: &Trust) -> Section {
    let mut section = Section::default();
    section.text("default", word(&Decision::WORDS, &trust.default));
    let rules = trust.rules.iter().map(|rule| {
        let mut one = Section::default();
        one.text("name", &rule.name).text("when", &rule.when);
        one.text("decision", word(&Decision::WORDS, &rule.decision));
        one.0
    });
    if !trust.rules.is_empty() {
        section.put("rules", Shown::Tables(rules.collect()));
    }
    section
}

pub(super) fn connectors(connectors: &BTreeMap<String, Connector>) -> Section {
    let mut section = Section::default();
    for (name, connector) in connectors {
        section.table(
            name,
            match connector {
                Connector::Http(connector) => http(connector),
                Connector::Mcp(connector) => mcp(connector),
            },
        );
    }
    section
}

fn pairs<'p>(pairs: impl IntoIterator<Item = (&'p String, &'p String)>) -> Section {
    let mut section = Section::default();
    for (name, value) in pairs {
        section.text(name, value);
    }
    section
}

fn http(connector: &HttpConnector) -> Section {
    let mut section = Section::default();
    section.text("kind", "http").text("url", &connector.url);
    section.maybe(connector.token.as_ref(), |section, _| _ = section.text("token", SET));
    match connector.key {
        KeyDialect::None => section.text("upstream_key", "none"),
        KeyDialect::Chars32 => section.text("upstream_key", "digest").number("digest_chars", 32_u64),
        KeyDialect::Chars40 => section.text("upstream_key", "digest").number("digest_chars", 40_u64),
        KeyDialect::Chars64 => section.text("upstream_key", "digest").number("digest_chars", 64_u64),
    };
    if !connector.headers.is_empty() {
        section.table("headers", pairs(connector.headers.iter().map(|(name, value)| (name, value))));
    }
    let mut tools = Section::default();
    for (name, tool) in &connector.tools {
        let mut one = Section::default();
        one.text("method", &tool.method).text("path", &tool.path);
        match tool.tool.read_only {
            true => one.flag("read_only", true),
            false if tool.vendor_key => {
                one.flag("vendor_key", true).flag("destructive", tool.tool.destructive)
            }
            false => {
                one.text("rerun", word(&RERUNS, &tool.tool.rerun)).flag("destructive", tool.tool.destructive)
            }
        };
        one.duration("give_up", tool.tool.give_up);
        tools.table(name, one);
    }
    section.table("tools", tools);
    section
}

fn mcp(connector: &McpConnector) -> Section {
    let mut section = Section::default();
    section.text("kind", "mcp").flag("trusted", connector.trusted);
    match &connector.reached {
        Reached::Command { command, args, env, pass_env } => {
            section.text("command", command).texts("args", args);
            // What a server is given may be secret.
            if !env.is_empty() {
                let mut shown = Section::default();
                env.keys().for_each(|name| _ = shown.text(name, SET));
                section.table("env", shown);
            }
            if !pass_env.is_empty() {
                section.texts("pass_env", pass_env);
            }
        }
        Reached::Url { url, headers, token } => {
            section.text("url", url);
            section.maybe(token.as_ref(), |section, _| _ = section.text("token", SET));
            if !headers.is_empty() {
                section.table("headers", pairs(headers.iter().map(|(name, value)| (name, value))));
            }
        }
    }
    if !connector.tools.is_empty() {
        let mut tools = Section::default();
        for (name, tool) in &connector.tools {
            tools.table(name, overrides(tool));
        }
        section.table("tools", tools);
    }
    section
}

fn overrides(tool: &ToolOverride) -> Section {
    let mut one = Section::default();
    one.maybe(tool.read_only, |one, flag| _ = one.flag("read_only", flag));
    one.maybe(tool.destructive, |one, flag| _ = one.flag("destructive", flag));
    one.maybe(tool.rerun, |one, rerun| _ = one.text("rerun", word(&RERUNS, &rerun)));
    one.maybe(tool.give_up, |one, give_up| _ = one.duration("give_up", give_up));
    one
}
