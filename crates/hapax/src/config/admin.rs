//! `[admin]`: the operators' listener, who may use it, and what its console shows (M1).

use std::net::SocketAddr;

use hapax_gateway::settings::Tls;

use super::edge::{listen, local, tls};
use super::reader::Secret;
use super::section::{Section, Spot};
use crate::admin::{AdminTokens, Role};
use crate::limits;

/// Where operators are served.
#[derive(Clone, Debug)]
pub struct Admin {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Names that it answers to, beside addresses and `localhost`.
    pub hosts: Vec<String>,
    /// What operators authenticate with, each with its name; without any only health and metrics are served.
    pub tokens: Vec<AdminToken>,
    /// Certificate and key, where it speaks TLS.
    pub tls: Option<Tls>,
    /// Whether it serves the console.
    pub console: bool,
    /// What this process is called among others.
    pub name: Option<String>,
    /// What the installation is called.
    pub label: Option<String>,
    /// Other tools that know more, by name.
    pub links: Vec<(String, String)>,
}

/// A token of an operator.
#[derive(Clone, Debug)]
pub struct AdminToken {
    /// Its name, which the audit shows.
    pub name: String,
    /// What it allows.
    pub role: Role,
    /// The token itself; `None` where secrets may be absent, and it is.
    pub token: Option<Secret>,
    /// Whether it is the one that needs no section of its own.
    pub short: bool,
}

/// What the one token is called that needs no section of its own.
const SHORT: &str = "admin";

impl Admin {
    /// The tokens as a listener takes them.
    pub(crate) fn tokens(&self) -> Result<AdminTokens, hapax_core::Error> {
        self.tokens.iter().try_fold(AdminTokens::default(), |known, token| match &token.token {
            Some(secret) => known.with(&token.name, token.role, secret.reveal()),
            None => Ok(known),
        })
    }
}

/// Reads `[admin]`.
pub(crate) fn admin(section: &Section<'_>) -> Admin {
    let one = section.has("token_env") || section.has("token_file");
    if section.exists() && !one && !section.has("tokens") {
        section.require(
            "token_env",
            "say `token_env = \"HAPAX_ADMIN_TOKEN\"`, `token_file`, or [[admin.tokens]]",
        );
    }
    let printable = |field| section.parsed(field, printable).map(|text| text.value);
    Admin {
        listen: listen(section).unwrap_or_else(|| local(8081)),
        hosts: hosts(section),
        tokens: tokens(section),
        tls: tls(&section.section("tls")),
        console: section.flag("console").is_none_or(|flag| flag.value),
        name: printable("name"),
        label: printable("label"),
        links: links(section),
    }
}

fn printable(text: &str) -> Result<String, String> {
    let fits = text.chars().count() <= limits::NAME_LENGTH && !text.chars().any(char::is_control);
    if fits { Ok(text.to_owned()) } else { Err("write 1 to 128 printable characters".into()) }
}

/// The one token of the section, and those that have sections of their own.
fn tokens(section: &Section<'_>) -> Vec<AdminToken> {
    let mut known = AdminTokens::default();
    let mut tokens = Vec::new();
    let mut add = |name: &str, role, token: Option<Spot<Secret>>| {
        if let Some(token) = &token {
            match known.clone().with(name, role, token.value.reveal()) {
                Ok(with) => known = with,
                Err(error) => {
                    section.reader().mistake(&token.at, error, "make one with `openssl rand -hex 16`")
                }
            }
        }
        let short = name == SHORT;
        tokens.push(AdminToken { name: name.to_owned(), role, token: token.map(|token| token.value), short });
    };
    if section.has("token_env") || section.has("token_file") {
        add(SHORT, Role::Operate, section.reader().secret(section, "token"));
    }
    let mut names = Vec::new();
    for one in section.one_or_more_sections("tokens") {
        one.require("name", "say who has the token, such as \"night-shift\": the audit shows it");
        one.require("role", "say `role = \"read\"` to look, or `role = \"operate\"` to decide as well");
        let name = one.parsed("name", printable);
        let role = one.word("role", &Role::ALL.iter().map(|role| (role.as_str(), *role)).collect::<Vec<_>>());
        let token = token(&one);
        let (Some(name), Some(role)) = (name, role) else { continue };
        if names.contains(&name.value) || name.value == SHORT {
            let what = format!(
                "there are two admin tokens called {:?}, or it is the name of the one in [admin]",
                name.value
            );
            section.reader().mistake(
                &name.at,
                what,
                "give each its own name, so that the audit tells them apart",
            );
        }
        names.push(name.value.clone());
        add(&name.value, role.value, token);
    }
    tokens
}

/// A token by `env` or `file`.
fn token(one: &Section<'_>) -> Option<Spot<Secret>> {
    match (one.has("env"), one.has("file")) {
        (true, true) => {
            one.reader().mistake(&one.place("file"), "`env` and `file` are both written", "keep one of them");
            None
        }
        (true, false) => one.reader().secret_of_variable("env", &one.text("env")?),
        (false, true) => one.reader().secret_of_file("file", &one.text("file")?),
        (false, false) => {
            one.require("env", "name the environment variable with the token, or write `file`");
            None
        }
    }
}

/// Where else to look. Browsers follow these, so only what leads to a page is taken.
fn links(section: &Section<'_>) -> Vec<(String, String)> {
    let sections = section.one_or_more_sections("links");
    if sections.len() > limits::ADMIN_LINKS {
        let what = format!("there are {} links", sections.len());
        section.reader().mistake(
            &section.place("links"),
            what,
            format!("use at most {}", limits::ADMIN_LINKS),
        );
    }
    let one = |one: &Section<'_>| {
        one.require("name", "say what the tool is called, such as \"Trace\"");
        one.require("url", "write its URL, such as \"https://traces.example/{trace_id}\"");
        let (name, url) = (one.parsed("name", printable), one.url("url", link));
        Some((name?.value, url?.value))
    };
    sections.iter().filter_map(one).collect()
}

/// What may stand in braces.
const PLACES: [&str; 7] = ["operation_id", "trace_id", "tenant", "project", "key", "from", "to"];

fn link(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let Some(rest) = rest.filter(|_| text.bytes().all(|byte| byte.is_ascii_graphic())) else {
        return Err("write an http(s) URL".into());
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() || authority.contains(['@', '{', '}']) {
        return Err("write a host without user, password or braces".into());
    }
    let mut braces = rest.split('{').skip(1).map(|after| after.split_once('}').map_or("", |(name, _)| name));
    match braces.find(|name| !PLACES.contains(name)) {
        None => Ok(text.to_owned()),
        Some(_) => Err(format!("what may stand in braces is {}", PLACES.join(", "))),
    }
}

/// The names that operators and their tools ask for; a port does not count.
pub(super) fn hosts(section: &Section<'_>) -> Vec<String> {
    let named = section.texts("hosts").unwrap_or_default();
    for host in named.iter().filter(|host| !is_host(host.value)) {
        let what = format!("{:?} is no host name", host.value);
        section.reader().mistake(&host.at, what, "write a name such as \"hapax.internal\", without a port");
    }
    named.into_iter().map(|host| host.value.to_owned()).collect()
}

fn is_host(text: &str) -> bool {
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'));
    plain && !text.is_empty() && !text.ends_with('.')
}
