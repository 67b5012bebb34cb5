//! The text of a first configuration, and what to do with it.

use std::fmt;

use super::Credentials;

/// What a first configuration is made from.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    pub(super) upstream: String,
    pub(super) route: Route,
    pub(super) credentials: Credentials,
    pub(super) jwks_url: Option<String>,
    pub(super) store: String,
}

impl Answers {
    /// What holds until something else is said.
    pub(super) fn usual() -> Self {
        Answers {
            upstream: "http://127.0.0.1:9000".into(),
            route: Route { method: "POST".into(), path: "/payments".into() },
            credentials: Credentials::Service,
            jwks_url: None,
            store: "embedded:./data".into(),
        }
    }
}

/// The route that must not run twice.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) method: String,
    pub(super) path: String,
}

impl Route {
    /// Reads `POST /payments`. Whether method and path can be used is found out with the whole configuration.
    pub(super) fn parse(text: &str) -> Result<Route, String> {
        match text.split_whitespace().collect::<Vec<_>>()[..] {
            [method, path] => Ok(Route { method: method.to_owned(), path: path.to_owned() }),
            _ => Err(format!("{text:?} is no route: write a method and a path, such as \"POST /payments\"")),
        }
    }

    /// A name for what it does: its literal segments and its method.
    fn operation(&self) -> String {
        let words = self.path.split('/').filter(|segment| !segment.is_empty() && !segment.contains('{'));
        let words = words.map(|word| word.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "-"));
        let method = self.method.to_ascii_lowercase();
        words.chain([method]).collect::<Vec<_>>().join(".").trim_start_matches(['-', '.']).to_owned()
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

/// A text of TOML.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// The configuration.
pub(super) fn configuration(answers: &Answers) -> String {
    let Answers { upstream, route, store, .. } = answers;
    let (upstream, store) = (quoted(upstream), quoted(store));
    let (method, path) = (quoted(&route.method), quoted(&route.path));
    let (operation, auth) = (quoted(&route.operation()), auth(answers));
    let (keyed, open) = match answers.credentials {
        Credentials::Service => (
            "public = \"shared-keys\"         # the service checks callers; a caller who knows a key gets its answer\n",
            "public = true                  # the service checks callers\n",
        ),
        _ => ("", ""),
    };
    format!(
        r#"# Written by `hapax init`. `hapax config check` tells every mistake at once, `hapax config show` what holds.

[edge]
listen = "127.0.0.1:8080"        # where callers come in

[admin]
listen = "127.0.0.1:8081"        # health, metrics, and what operators do
token_env = "HAPAX_ADMIN_TOKEN"  # the variable with the operators' token

[store]
url = {store}

{auth}
[upstreams.service]
url = {upstream}

# What must not run twice. Clients that send an Idempotency-Key are protected.
[[routes]]
method = {method}
path = {path}
operation = {operation}
policy = "ACCEPTED"              # clients without a key go on as before; "REQUIRED_A" refuses them
upstream = "service"
{keyed}
# Everything else goes through as it comes, and takes no keys.
[[routes]]
method = "*"
path = "/{{*rest}}"
lenient = true                   # a key is ignored here, and the answer says so
upstream = "service"
{open}"#
    )
}

/// Who may come in.
fn auth(answers: &Answers) -> String {
    let fixed = "[auth]\ntenant = \"main\"                  # whose callers are where nothing else says so\nproject = \"main\"\n";
    match answers.credentials {
        Credentials::Service => fixed.to_owned(),
        Credentials::ApiKeys => format!(
            "{fixed}\n[auth.api_keys]\nenabled = true                   # `hapax keys create` makes one\nalso_from = [\"x-api-key\"]        # beside `Authorization: Bearer`\n"
        ),
        Credentials::Tokens => {
            let url = quoted(answers.jwks_url.as_deref().unwrap_or_default());
            format!(
                "{fixed}\n[auth.jwt]\nalgorithms = [\"RS256\", \"ES256\"]  # what is accepted, whatever a token says\njwks_url = {url}\n# issuer = \"https://issuer.example\"\n# audience = \"api\"\n"
            )
        }
    }
}

/// What to run next.
pub(super) fn next(answers: &Answers, file: &str) -> Vec<String> {
    let word = word_of_a_shell(file);
    let mut commands = vec![
        "export HAPAX_ADMIN_TOKEN=$(openssl rand -hex 16)".to_owned(),
        format!("hapax config check {word}"),
        format!("hapax serve --config {word}"),
    ];
    if answers.credentials == Credentials::ApiKeys {
        commands.push("hapax keys create --tenant main --project main --subject service:NAME".into());
    }
    commands
}

/// A text as a shell takes it for one word.
fn word_of_a_shell(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:,=".contains(c);
    match text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}
