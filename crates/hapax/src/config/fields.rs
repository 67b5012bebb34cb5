//! Every field that a configuration can have, and those that it will have later.
//!
//! The reader refuses what is not listed here; a test holds the list against `docs/reference/configuration.md`.

/// The fields of one section. A name in angle brackets stands for names that the user chooses.
#[derive(Debug)]
pub(crate) struct Fields {
    /// The section as the reference page calls it; empty for the top of the file.
    pub(crate) section: &'static str,
    /// Its fields.
    pub(crate) names: &'static [&'static str],
    /// Fields that a later release will know: refused by name.
    pub(crate) later: &'static [&'static str],
}

macro_rules! sections {
    ($($(#[$doc:meta])* $id:ident = $section:literal [$($name:literal),* $(,)?] $(later [$($later:literal),* $(,)?])?;)*) => {
        $($(#[$doc])* pub(crate) const $id: Fields = Fields {
            section: $section,
            names: &[$($name),*],
            later: &[$($($later),*)?],
        };)*
        /// All sections.
        #[cfg(test)]
        pub(crate) const ALL: &[&Fields] = &[$(&$id),*];
    };
}

sections! {
    /// The top of the file.
    ROOT = "" [
        "edge", "admin", "api", "store", "retention", "auth", "seal", "log", "traces", "tenants", "upstreams", "routes", "openapi",
        "retired", "webhooks", "schedules",
        "actions", "connectors", "trust",
    ];
    /// The listener and what holds for every route.
    EDGE = "edge" [
        "listen", "threads", "tls", "drain_timeout", "header_timeout", "body_rate", "idle_timeout", "max_connections",
        "max_connections_per_address", "max_buffered", "max_detached", "operations_prefix", "recall_segment", "docs", "cors",
        "max_request_body", "max_kept_response",
        "attach", "attach_timeout", "mismatch_status",
    ];
    /// Certificate and key.
    TLS = "edge.tls" ["cert", "key"];
    /// What browsers of other origins may do.
    CORS = "edge.cors" ["origins", "headers", "credentials", "max_age"];
    /// The operators' listener.
    ADMIN = "admin" [
        "listen", "hosts", "token_env", "token_file", "tokens", "name", "label", "links", "console", "tls",
    ];
    /// A token of an operator.
    ADMIN_TOKEN = "admin.tokens" ["name", "role", "env", "file"];
    /// Another tool that knows more.
    ADMIN_LINK = "admin.links" ["name", "url"];
    /// Certificate and key of the operators' listener.
    ADMIN_TLS = "admin.tls" ["cert", "key"];
    /// The applications' listener.
    API = "api" ["listen", "hosts"];
    /// Where claims are kept.
    STORE = "store" ["url", "lease", "spool"];
    /// How long outcomes are kept.
    RETENTION = "retention" ["default", "<class>"];
    /// Who may come in.
    AUTH = "auth" ["tenant", "project", "jwt", "api_keys", "trusted_headers", "verify", "schedules"];
    /// Tokens.
    JWT = "auth.jwt" [
        "algorithms", "secret_env", "secret_file", "jwks_file", "jwks_url", "issuer", "audience", "leeway", "claims",
        "subject_type",
    ];
    /// The names of a token's claims.
    CLAIMS = "auth.jwt.claims" ["tenant", "project", "subject", "subject_type", "level"];
    /// API keys of the registry.
    API_KEYS = "auth.api_keys" ["enabled", "also_from"];
    /// Peers whose headers are believed.
    TRUSTED = "auth.trusted_headers" ["from", "level"];
    /// An outside service that knows keys.
    VERIFY = "auth.verify" ["url", "token_env", "token_file", "remember", "timeout"];
    /// What schedules sign their requests with.
    AUTH_SCHEDULES = "auth.schedules" ["secret_env", "secret_file", "previous_env", "previous_file"];
    /// Keys for encryption at rest.
    SEAL = "seal" ["key_env", "key_file"];
    /// What the process tells.
    LOG = "log" ["format", "level"];
    /// Where spans of requests go.
    TRACES = "traces" ["endpoint", "ratio", "parent", "headers_env", "headers_file"];
    /// What one tenant may use.
    TENANTS = "tenants" ["held", "claims_per_second", "in_doubt"];
    /// The services behind.
    UPSTREAMS = "upstreams" ["<name>"];
    /// A service behind.
    UPSTREAM = "upstreams.<name>" [
        "kind", "url", "timeout", "give_up", "connect_timeout", "upstream_key", "digest_chars", "retry",
        "max_connections", "idle_timeout", "reuse", "ca",
    ];
    /// A Restate cluster behind.
    CLUSTER = "upstreams.<name>" [
        "kind", "ingress", "admin", "classify", "headers", "suspend_after", "suspend_for", "timeout", "connect_timeout", "retry",
        "max_connections", "idle_timeout", "ca",
    ];
    /// What is tried again.
    RETRY = "upstreams.<name>.retry" ["max_attempts", "backoff", "on_exhausted"];
    /// A route.
    ROUTE = "routes" [
        "method", "path", "operation", "was", "policy", "lenient", "public", "recall", "level", "upstream", "retention", "rerun", "quiet",
        "reconcile", "scope", "fingerprint", "ignore", "fingerprint_headers", "timeout", "give_up", "max_run", "doubt",
        "attach", "attach_timeout", "keep", "on_5xx", "mismatch_status", "max_request_body", "max_kept_response",
        "key", "key_grammar", "key_from", "window", "restate", "identifier",
    ];
    /// The handler of a cluster.
    HANDLER = "routes.restate" ["service", "handler", "key", "workflow", "input", "envelope"];
    /// Where a key may stand.
    KEY = "routes.key" ["header", "json"];
    /// Where a sender's identifier stands.
    ROUTE_IDENTIFIER = "routes.identifier" ["header", "json", "form"];
    /// What becomes of a doubt that nobody resolves.
    DOUBT = "routes.doubt" ["after", "then"];
    /// Where deliveries of providers come in, and where they go.
    WEBHOOKS = "webhooks" [
        "prefix", "upstream", "path", "public_url", "retention", "rerun", "keep", "give_up", "wait", "max_request_body",
        "max_kept_response", "enabled", "providers", "kv", "verify", "restate",
    ];
    /// Providers that the configuration declares.
    WEBHOOK_PROVIDERS = "webhooks.providers" ["<name>"];
    /// A declared provider.
    WEBHOOK_PROVIDER = "webhooks.providers.<name>" [
        "header", "prefix", "hash", "encoding", "signed", "timestamp_header", "identifier", "identifier_signed", "kind_header",
        "wait", "window",
    ];
    /// Where the identifier of a delivery stands.
    IDENTIFIER = "webhooks.providers.<name>.identifier" ["header", "json", "form"];
    /// A store of secrets outside the registry.
    WEBHOOK_KV = "webhooks.kv" ["url", "mount", "token_file", "timeout"];
    /// What is dispatched at planned times.
    SCHEDULE = "schedules" [
        "id", "cron", "tz", "every", "route", "body", "content_type", "as", "overlap", "catch_up",
    ];
    /// Whose the ticks of a schedule are.
    SCHEDULE_AS = "schedules.as" ["tenant", "project"];
    /// How actions of agents are done.
    ACTIONS = "actions" ["as", "receipts", "include_result"];
    /// Whose actions they are where nothing else says so.
    ACTIONS_AS = "actions.as" ["tenant", "project"];
    /// The systems that tools are on.
    CONNECTORS = "connectors" ["<name>"];
    /// A service whose endpoints are tools.
    CONNECTOR_HTTP = "connectors.<name>" [
        "kind", "url", "headers", "token_env", "token_file", "upstream_key", "digest_chars", "tools",
    ];
    /// A server of tools.
    CONNECTOR_MCP = "connectors.<name>" [
        "kind", "command", "args", "env", "pass_env", "url", "headers", "token_env", "token_file", "trusted", "tools",
    ];
    /// What goes with every call.
    CONNECTOR_HEADERS = "connectors.<name>.headers" ["<name>"];
    /// What a server of tools finds in its environment.
    CONNECTOR_ENV = "connectors.<name>.env" ["<name>"];
    /// The tools of a connector.
    CONNECTOR_TOOLS = "connectors.<name>.tools" ["<name>"];
    /// An endpoint as a tool.
    CONNECTOR_TOOL = "connectors.<name>.tools.<name>" [
        "method", "path", "read_only", "rerun", "vendor_key", "destructive", "give_up",
    ];
    /// What is said of a server's tool.
    CONNECTOR_MCP_TOOL = "connectors.<name>.tools.<name>" ["read_only", "rerun", "destructive", "give_up"];
    /// What may happen.
    TRUST = "trust" ["default", "rules"];
    /// A rule of the gate.
    TRUST_RULE = "trust.rules" ["name", "when", "decision"];
    /// An OpenAPI document to read routes from.
    OPENAPI = "openapi" ["file", "upstream", "prefix", "default_policy", "recall"];
}

impl Fields {
    /// The known name that was probably meant.
    pub(crate) fn nearest(&self, name: &str) -> Option<&'static str> {
        nearest(name, self.names.iter().copied().filter(|known| !known.starts_with('<')))
    }
}

/// The word that was probably meant: at most two letters away, and closer than half of its length.
pub(crate) fn nearest<'w>(written: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let written = written.to_ascii_lowercase();
    let distances = words.into_iter().map(|word| (distance(&written, &word.to_ascii_lowercase()), word));
    let (distance, word) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= 2 && distance * 2 < word.len()).then_some(word)
}

/// How many letters must be added, removed, changed or swapped with their neighbour.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows = vec![(0..=to.len()).collect::<Vec<usize>>()];
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let changed = rows[i][j] + usize::from(a != b);
            let mut least = changed.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_is_recognised() {
        assert_eq!(EDGE.nearest("listne"), Some("listen"));
        assert_eq!(ROUTE.nearest("Operation"), Some("operation"));
        assert_eq!(ROUTE.nearest("polcy"), Some("policy"));
        assert_eq!(ROUTE.nearest("colour"), None);
        assert_eq!(LOG.nearest("x"), None);
    }
}
