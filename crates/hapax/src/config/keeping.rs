//! What is kept where, for how long and under which key: `[store]`, `[retention]`, `[seal]`; and the two small sections
//! `[tenants]` and `[log]`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{STORE_VARIABLE, Store};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use hapax_core::Retention;
use hapax_gateway::settings::TenantLimits;

use super::reader::Reader;
use super::section::{Section, Spot, duration_within};
use super::tree::{Node, Value};
use super::upstream::{is_name, name_remedy};
use crate::limits::{self, range};

/// Where claims are kept.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreSettings {
    /// The store's URL, for `Store::open`. It may hold a password.
    pub url: String,
    /// How long one renewal of this process's session lasts (L4).
    pub lease: Duration,
    /// Where outcomes wait that the store has not heard of; in place of where [`StoreSettings::spool`] puts them.
    pub(crate) spool: Option<PathBuf>,
}

impl StoreSettings {
    /// Where outcomes wait that the store has not heard of (L15). Unless it is said: beside an embedded store; for other stores
    /// beside the configuration and named after it, because what waits there for one ledger must not be told to another.
    pub(crate) fn spool(&self, file: &Path) -> PathBuf {
        match (&self.spool, self.url.strip_prefix("embedded:")) {
            (Some(spool), _) => spool.clone(),
            (None, Some(folder)) => PathBuf::from(folder).join("spool"),
            (None, None) => {
                let name = file.file_stem().unwrap_or_default().to_string_lossy();
                file.with_file_name(format!("{name}-spool"))
            }
        }
    }

    /// The URL without its password.
    pub fn shown_url(&self) -> String {
        shown_url(&self.url)
    }
}

impl fmt::Debug for StoreSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreSettings")
            .field("url", &self.shown_url())
            .field("lease", &self.lease)
            .field("spool", &self.spool)
            .finish()
    }
}

/// Parameters of a PostgreSQL URL that hold no secret. Whatever else there is, is not shown.
const OPEN_PARAMETERS: [&str; 10] = [
    "user",
    "dbname",
    "host",
    "hostaddr",
    "port",
    "sslmode",
    "connect_timeout",
    "application_name",
    "target_session_attrs",
    "keepalives",
];

/// A store's URL as it may be shown. It is taken apart as those do who read it; of one that they cannot read, nobody knows
/// where its password is.
fn shown_url(url: &str) -> String {
    match url.split_once(':') {
        Some(("memory" | "embedded", _)) => url.to_owned(),
        Some((scheme @ ("postgres" | "postgresql"), rest)) if Store::check(url).is_ok() => {
            format!("{scheme}://{}", shown_database(rest.trim_start_matches('/')))
        }
        Some((scheme, _)) if !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_lowercase()) => {
            format!("{scheme}:(not shown)")
        }
        _ => "(not shown)".into(),
    }
}

/// Everything up to the first `@` says who comes, whatever other signs are in it.
fn shown_database(text: &str) -> String {
    let (who, rest) = text.split_once('@').map_or((None, text), |(who, rest)| (Some(who), rest));
    let (place, parameters) = rest.split_once('?').map_or((rest, None), |(place, more)| (place, Some(more)));
    let mut shown = who.map_or_else(String::new, shown_user) + place;
    for (index, pair) in parameters.iter().flat_map(|parameters| parameters.split('&')).enumerate() {
        shown.push(if index == 0 { '?' } else { '&' });
        match pair.split_once('=') {
            Some((name, value)) if OPEN_PARAMETERS.contains(&name) && !value.contains('@') => {
                shown.push_str(pair);
            }
            Some((name, _)) => shown.push_str(&format!("{name}=(set)")),
            None => shown.push_str("(set)"),
        }
    }
    shown
}

fn shown_user(who: &str) -> String {
    let plain =
        |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte));
    match who.split_once(':') {
        Some((user, _)) if plain(user) => format!("{user}:(set)@"),
        None if plain(who) => format!("{who}@"),
        _ => "(set)@".into(),
    }
}

/// Reads `[store]`; the environment's `HAPAX_STORE` goes before its `url` (B1).
pub(crate) fn store(section: &Section<'_>) -> StoreSettings {
    let reader = section.reader();
    let lease = section.duration("lease", &range::LEASE).map_or(limits::LEASE, |lease| lease.value);
    let written = section.text("url").map(|url| {
        if let Err(error) = Store::check(url.value) {
            let what = format!("`url` cannot be {:?}: {}", shown_url(url.value), error.message());
            reader.mistake(&url.at, what, STORE_REMEDY);
        }
        // The path of an embedded store is relative to the configuration.
        url.value.strip_prefix("embedded:").map_or_else(|| url.value.to_owned(), |path| beside(reader, path))
    });
    let url = match reader.variable(STORE_VARIABLE) {
        Some(url) => {
            if let Err(error) = Store::check(&url) {
                let what =
                    format!("the environment variable {STORE_VARIABLE} names no store: {}", error.message());
                reader.mistake(&reader.whole_file(), what, STORE_REMEDY);
            }
            url
        }
        None => written.unwrap_or_else(|| beside(reader, "./data")),
    };
    let spool = section.text("spool").map(|spool| reader.path(spool.value));
    StoreSettings { url, lease, spool }
}

const STORE_REMEDY: &str = "write \"memory:\", \"embedded:PATH\" or \"postgres://user@host:port/database\"";

fn beside(reader: &Reader<'_>, path: &str) -> String {
    format!("embedded:{}", reader.path(path).display())
}

/// The classes of retention, and which one holds where none is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionClasses {
    /// The class of routes that name none.
    pub default: String,
    /// The classes.
    pub classes: BTreeMap<String, Retention>,
}

impl RetentionClasses {
    /// How long outcomes of a class are kept.
    pub fn get(&self, class: &str) -> Option<Retention> {
        self.classes.get(class).copied()
    }

    pub(crate) fn default_retention(&self) -> Retention {
        self.get(&self.default).unwrap_or(Retention::For(limits::INTERACTIVE))
    }
}

/// Reads `[retention]`.
pub(crate) fn retention(section: &Section<'_>) -> RetentionClasses {
    let mut classes = BTreeMap::from([("interactive".to_owned(), Retention::For(limits::INTERACTIVE))]);
    for (name, node) in section.entries().filter(|(name, _)| name.value != "default") {
        // One that is written wrongly is known all the same: whoever names it is not to blame.
        let retention = class(section.reader(), &name, node).unwrap_or(Retention::For(limits::INTERACTIVE));
        classes.insert(name.value, retention);
    }
    let default = section.text("default").map(|default| Spot::new(default.value.to_owned(), &default.at));
    if let Some(default) = default.as_ref().filter(|default| !classes.contains_key(&default.value)) {
        let known: Vec<_> = classes.keys().map(String::as_str).collect();
        let remedy = format!("name one of {}", known.join(", "));
        let what = format!("`default`: there is no retention class {:?}", default.value);
        section.reader().mistake(&default.at, what, remedy);
    }
    let default = default.map_or_else(|| "interactive".to_owned(), |default| default.value);
    RetentionClasses { default, classes }
}

fn class(reader: &Reader<'_>, name: &Spot<String>, node: &Node) -> Option<Retention> {
    if !is_name(&name.value) || name.value == "forever" {
        reader.mistake(&name.at, format!("{:?} is no name of a retention class", name.value), name_remedy());
        return None;
    }
    let Value::Text(text) = &node.value else {
        let what = format!("`{}` cannot be {}", name.value, node.value.kind());
        reader.mistake(&node.at, what, "it takes a duration such as \"24h\", or \"forever\"");
        return None;
    };
    match retention_text(text) {
        Ok(retention) => Some(retention),
        Err(remedy) => {
            reader.mistake(&node.at, format!("`{}` cannot be {text:?}", name.value), remedy);
            None
        }
    }
}

/// `"24h"` or `"forever"` (L11).
pub(crate) fn retention_text(text: &str) -> Result<Retention, String> {
    if text == "forever" {
        return Ok(Retention::Forever);
    }
    let duration = duration_within(text, &range::RETENTION);
    duration.map(Retention::For).map_err(|remedy| format!("{remedy}, or \"forever\""))
}

/// A key for encryption at rest (B9).
#[derive(Clone, PartialEq, Eq)]
pub struct SealKey(pub [u8; limits::SEAL_BYTES]);

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(set)")
    }
}

/// Reads `[seal]`: the first key seals, all of them open.
pub(crate) fn seal(section: &Section<'_>) -> Vec<SealKey> {
    let reader = section.reader();
    if !section.exists() {
        return Vec::new();
    }
    let (env, file) = (section.one_or_more("key_env"), section.one_or_more("key_file"));
    match (section.has("key_env"), section.has("key_file")) {
        (false, false) => section.require("key_env", "say `key_env` or `key_file`, or remove [seal]"),
        (true, true) => {
            let at = section.place("key_file");
            reader.mistake(&at, "`key_env` and `key_file` are both written", "keep one of them");
        }
        _ => {}
    }
    let of_variables = env.iter().flatten().map(|name| reader.secret_of_variable("key_env", name));
    let of_files = file.iter().flatten().map(|path| reader.secret_of_file("key_file", path));
    let mut keys: Vec<SealKey> = Vec::new();
    let found: Vec<_> = of_variables.chain(of_files).collect();
    if reader.needs_seal() && found.iter().any(Option::is_none) {
        reader.mistake(
            &section.at(),
            "a key of [seal] is not there",
            "set what `key_env` names, or make what `key_file` names readable",
        );
    }
    for secret in found.into_iter().flatten() {
        match seal_key(secret.value.reveal()) {
            Some(key) if keys.contains(&key) => {
                reader.mistake(&secret.at, "this seal key is there twice", "remove it once");
            }
            Some(key) => keys.push(key),
            None => {
                let remedy = "make one with `openssl rand -hex 32`";
                reader.mistake(&secret.at, "a seal key is 32 bytes, written as hex or base64", remedy);
            }
        }
    }
    if env.is_some_and(|env| env.is_empty()) || file.is_some_and(|file| file.is_empty()) {
        reader.mistake(&section.at(), "[seal] has no key", "name at least one, or remove [seal]");
    }
    keys
}

fn seal_key(text: &str) -> Option<SealKey> {
    let text = text.trim();
    let bytes = match text.len() {
        64 => (0..64)
            .step_by(2)
            .map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok())
            .collect::<Option<Vec<u8>>>()?,
        _ => {
            let padded = format!("{}{}", text, if text.len() == 43 { "=" } else { "" });
            STANDARD.decode(&padded).or_else(|_| URL_SAFE.decode(&padded)).ok()?
        }
    };
    bytes.try_into().ok().map(SealKey)
}

/// Reads `[tenants]` (H12).
pub(crate) fn tenants(section: &Section<'_>) -> TenantLimits {
    let limit = |field| {
        section.integer(field, &range::TENANT).and_then(|limit| u32::try_from(limit.value).ok()).unwrap_or(0)
    };
    TenantLimits {
        held: limit("held"),
        claims_per_second: limit("claims_per_second"),
        in_doubt: limit("in_doubt"),
    }
}

/// How the process tells what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    /// The form of a line.
    pub format: LogFormat,
    /// The least important level that is told: `error`, `warn`, `info`, `debug` or `trace`.
    pub level: &'static str,
}

/// The form of a line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object.
    Json,
    /// Text for people.
    Text,
}

/// Reads `[log]`.
pub(crate) fn log(section: &Section<'_>) -> Log {
    let format = section.word("format", &[("json", LogFormat::Json), ("text", LogFormat::Text)]);
    let levels = ["error", "warn", "info", "debug", "trace"].map(|level| (level, level));
    Log {
        format: format.map_or(LogFormat::Json, |format| format.value),
        level: section.word("level", &levels).map_or("info", |level| level.value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_a_url_is_not_shown() {
        for (url, shown) in [
            ("memory:", "memory:"),
            ("embedded:./a?b", "embedded:./a?b"),
            ("postgres://u@h/d", "postgres://u@h/d"),
            ("postgres://u:p@h:1/d", "postgres://u:(set)@h:1/d"),
            ("postgresql://u:SEC?RET@h:1/d", "postgresql://u:(set)@h:1/d"),
            ("postgres://u:SEC/RET#x:y@h,i:2", "postgres://u:(set)@h,i:2"),
            ("postgres://h/d?user=a&password=SECRET", "postgres://h/d?user=a&password=(set)"),
            (
                "postgres://h/d?pass%77ord=SECRET&sslmode=disable",
                "postgres://h/d?pass%77ord=(set)&sslmode=disable",
            ),
            ("postgres://h/d?options=-c%20a=SECRET", "postgres://h/d?options=(set)"),
            ("postgres://h/d?password=SEC@h", "postgres://(set)@h"),
            // What cannot be read could have its secret anywhere.
            ("postgres://u:p@ss:w@h:1/d", "postgres:(not shown)"),
            ("postgres://u:p@SECRET@h/d", "postgres:(not shown)"),
            ("postgres://u:p@SEC/RET@h/d", "postgres:(not shown)"),
            ("postgres://u:SECRET@h:99999/d", "postgres:(not shown)"),
            ("mysql://u:SECRET@h/d", "mysql:(not shown)"),
            ("SECRET", "(not shown)"),
        ] {
            assert_eq!(shown_url(url), shown);
        }
    }

    #[test]
    fn a_seal_key_is_32_bytes_in_hex_or_base64_b9() {
        let bytes: Vec<u8> = (0..32).map(|n| n * 8 + 3).collect();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
        for text in [
            hex.clone(),
            hex.to_lowercase(),
            STANDARD.encode(&bytes),
            URL_SAFE.encode(&bytes),
            format!("{hex}\n"),
        ] {
            assert_eq!(seal_key(&text).unwrap().0.to_vec(), bytes, "{text}");
        }
        assert_eq!(seal_key(STANDARD.encode(&bytes).trim_end_matches('=')).unwrap().0.to_vec(), bytes);
        for text in ["", "abc", &hex[2..], &hex.replace('0', "x"), "é".repeat(32).as_str()] {
            assert!(seal_key(text).is_none(), "{text}");
        }
    }
}
