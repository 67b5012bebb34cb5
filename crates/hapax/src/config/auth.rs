//! Who may come in (`[auth]`, A1–A3 and A7). Tokens and keys are verified by the gateway; here it is made sure that what is
//! configured can work at all.

use hapax_core::{Project, SubjectKind, Tenant};
use hapax_gateway::settings::{Auth, Fixed, Jwt, JwtAlgorithm, JwtClaims, JwtKeys, KeyPlaces, VerifyService};
use http::HeaderValue;
use ipnet::IpNet;

use super::admin::Admin;
use super::material;
use super::route::Found;
use super::schedules;
use super::section::{Section, Spot};
use super::url::Url;
use crate::limits;

/// The words of token algorithms.
pub(crate) const ALGORITHMS: [(&str, JwtAlgorithm); 4] = [
    ("HS256", JwtAlgorithm::Hs256),
    ("RS256", JwtAlgorithm::Rs256),
    ("ES256", JwtAlgorithm::Es256),
    ("EdDSA", JwtAlgorithm::EdDsa),
];

/// Reads `[auth]`.
pub(crate) fn auth(section: &Section<'_>) -> Auth {
    let api_keys = section.section("api_keys");
    let trusted_headers = section.section("trusted_headers");
    Auth {
        jwt: jwt(&section.section("jwt")),
        api_keys: api_keys.exists() && api_keys.flag("enabled").is_none_or(|enabled| enabled.value),
        key_places: key_places(&api_keys),
        trusted: trusted(&trusted_headers),
        trusted_level: trusted_level(&trusted_headers),
        verify: verify(&section.section("verify")),
        schedules: schedules::secrets(&section.section("schedules")),
        fixed: fixed(section),
    }
}

/// What holds where a credential says nothing (A2).
fn fixed(section: &Section<'_>) -> Fixed {
    let told = |error: hapax_core::Error| error.message().to_owned();
    let tenant = section.parsed("tenant", |text| Tenant::new(text).map_err(told));
    let project = section.parsed("project", |text| Project::new(text).map_err(told));
    Fixed { tenant: tenant.map(|tenant| tenant.value), project: project.map(|project| project.value) }
}

/// Where callers may show a key beside `Authorization: Bearer` (A2).
fn key_places(section: &Section<'_>) -> KeyPlaces {
    let mut places = KeyPlaces::default();
    for word in section.texts("also_from").unwrap_or_default() {
        match word.value {
            "x-api-key" => places.x_api_key = true,
            "basic" => places.basic = true,
            other => {
                let what = format!("`also_from`: a key cannot be shown in {other:?}");
                section.reader().mistake(&word.at, what, "use \"x-api-key\" or \"basic\"");
            }
        }
    }
    places
}

/// Says so where no caller can come in.
pub(crate) fn lets_in(section: &Section<'_>, auth: &Auth, routes: &[Found]) {
    let asked = ["jwt", "verify"].iter().any(|field| section.has(field));
    let public = routes.iter().filter_map(|route| route.meant.as_ref()).any(|(route, _)| route.public);
    if !asked && !public && !auth.api_keys && auth.trusted.is_empty() && auth.schedules.is_none() {
        let text = "[auth] lets nobody in; add [auth.jwt], [auth.api_keys] or [auth.trusted_headers]";
        section.reader().notice(&section.at(), text);
    }
}

/// Callers need keys, and a running server makes them for operators only (A2).
pub(crate) fn keys_can_be_made(section: &Section<'_>, auth: &Auth, admin: &Admin) {
    if auth.api_keys && admin.tokens.is_empty() && !section.reader().spares_secrets() {
        let text = "there is no admin token, so while this serves nobody can make or revoke an API key; add [admin] with \
                    `token_env = \"HAPAX_ADMIN_TOKEN\"`";
        section.reader().notice(&section.place("api_keys"), text);
    }
}

fn jwt(section: &Section<'_>) -> Option<Jwt> {
    if !section.exists() {
        return None;
    }
    let algorithms = algorithms(section);
    let keys = keys(section);
    if let Some(keys) = &keys {
        algorithms_fit(section, &algorithms, keys);
    }
    let kinds = SubjectKind::ALL.map(|kind| (kind.as_str(), kind));
    let text = |field| section.text(field).map(|text| text.value.to_owned());
    let (issuer, audience) = (text("issuer"), text("audience"));
    let leeway = section.duration("leeway").map_or(limits::LEEWAY, |leeway| leeway.value);
    let claims = claims(&section.section("claims"));
    let subject_type = section.word("subject_type", &kinds).map_or(SubjectKind::User, |kind| kind.value);
    let keys = keys?;
    // Where an algorithm does not go with a file at all, that has been told.
    let public = algorithms.iter().all(|algorithm| algorithm.value != JwtAlgorithm::Hs256);
    let checked = !algorithms.is_empty() && public && matches!(keys.value, JwtKeys::File(_));
    let algorithms = algorithms.into_iter().map(|algorithm| algorithm.value).collect();
    let jwt = Jwt { algorithms, keys: keys.value, issuer, audience, leeway, claims, subject_type };
    if checked && let Err(error) = material::keys_of_file(&jwt) {
        let remedy = "name a file with a public key for one of `algorithms`";
        section.reader().mistake(&keys.at, format!("`jwks_file`: {}", error.message()), remedy);
    }
    Some(jwt)
}

fn algorithms(section: &Section<'_>) -> Vec<Spot<JwtAlgorithm>> {
    section.require("algorithms", "pin them, such as [\"ES256\"]; a token's own word is never believed");
    let Some(words) = section.texts("algorithms") else { return Vec::new() };
    if words.is_empty() {
        let remedy = "pin at least one of \"HS256\", \"RS256\", \"ES256\", \"EdDSA\"";
        section.reader().mistake(&section.place("algorithms"), "`algorithms` is empty", remedy);
    }
    let mut known = Vec::new();
    for word in words {
        match ALGORITHMS.iter().find(|(name, _)| *name == word.value) {
            Some((_, algorithm)) => known.push(Spot::new(*algorithm, &word.at)),
            None => {
                let what = format!("{:?} is no algorithm that is accepted", word.value);
                section.reader().mistake(&word.at, what, "use \"HS256\", \"RS256\", \"ES256\" or \"EdDSA\"");
            }
        }
    }
    known
}

fn keys(section: &Section<'_>) -> Option<Spot<JwtKeys>> {
    let reader = section.reader();
    let sources = ["secret_env", "secret_file", "jwks_file", "jwks_url"];
    let written: Vec<&str> = sources.into_iter().filter(|field| section.has(field)).collect();
    let secret = reader.secret(section, "secret");
    let file = reader.readable(section, "jwks_file");
    let url = section.url("jwks_url", |text| Url::parse(text).map(|_| text.to_owned()));
    match written[..] {
        [] => {
            let remedy =
                "say `secret_env` or `secret_file` for HS256, `jwks_file` or `jwks_url` for the others";
            reader.mistake(&section.at(), "[auth.jwt] has no keys", remedy);
        }
        [_] => {}
        // The reader of secrets has told this pair already.
        ["secret_env", "secret_file"] => {}
        [_, second, ..] => {
            let what = format!("[auth.jwt] has more than one source of keys: {}", written.join(", "));
            reader.mistake(&section.place(second), what, "keep one of them");
        }
    }
    if let Some(secret) = secret {
        if secret.value.reveal().len() < limits::JWT_SECRET_BYTES {
            let least = limits::JWT_SECRET_BYTES;
            reader.notice(&secret.at, format!("the shared secret of tokens is shorter than {least} bytes"));
        }
        return Some(Spot::new(JwtKeys::Secret(secret.value.reveal().as_bytes().to_vec()), &secret.at));
    }
    if let Some(file) = file {
        let text = reader.contents(&file.at, "jwks_file", &file.value, limits::FILE_BYTES)?;
        let set = serde_json::from_str::<serde_json::Value>(&text).ok();
        if !set.is_some_and(|set| set.get("keys").is_some_and(serde_json::Value::is_array)) {
            let what = format!("`jwks_file`: {} is no JWKS", file.value.display());
            reader.mistake(&file.at, what, "it must be JSON with an array `keys`");
            return None;
        }
        return Some(Spot::new(JwtKeys::File(file.value), &file.at));
    }
    url.map(|url| Spot::new(JwtKeys::Url(url.value), &url.at))
}

/// A shared secret makes HS256 only, and public keys make everything else.
fn algorithms_fit(section: &Section<'_>, algorithms: &[Spot<JwtAlgorithm>], keys: &Spot<JwtKeys>) {
    let shared = matches!(keys.value, JwtKeys::Secret(_));
    for algorithm in algorithms.iter().filter(|spot| (spot.value == JwtAlgorithm::Hs256) != shared) {
        let name =
            ALGORITHMS.iter().find(|(_, known)| *known == algorithm.value).map_or("", |(name, _)| name);
        let (what, remedy) = if shared {
            (
                format!("{name} cannot be checked with a shared secret"),
                "remove it, or use `jwks_file` or `jwks_url`",
            )
        } else {
            (format!("{name} cannot be checked with public keys"), "remove it, or use `secret_env`")
        };
        section.reader().mistake(&algorithm.at, what, remedy);
    }
}

fn claims(section: &Section<'_>) -> JwtClaims {
    let text = |field| section.text(field).map(|text| text.value.to_owned());
    JwtClaims {
        tenant: text("tenant").unwrap_or_else(|| "tenant_id".into()),
        project: text("project").unwrap_or_else(|| "project_id".into()),
        subject: text("subject").unwrap_or_else(|| "sub".into()),
        subject_type: Some(text("subject_type").unwrap_or_else(|| "sub_type".into())),
        level: text("level"),
    }
}

fn trusted(section: &Section<'_>) -> Vec<IpNet> {
    let mut nets = Vec::new();
    for text in section.texts("from").unwrap_or_default() {
        match network(text.value) {
            Ok(net) => {
                if net.prefix_len() == 0 {
                    section
                        .reader()
                        .notice(&text.at, format!("the headers of everybody are believed: {net}"));
                }
                nets.push(net);
            }
            Err(remedy) => {
                section.reader().mistake(&text.at, format!("{:?} is no network", text.value), remedy);
            }
        }
    }
    nets
}

/// How far a caller reaches is believed only where that is said: a peer that does not know the header passes it on.
fn trusted_level(section: &Section<'_>) -> bool {
    let Some(level) = section.flag("level").filter(|level| level.value) else { return false };
    if section.texts("from").is_none_or(|from| from.is_empty()) {
        let remedy = "list the peers in `from`, or remove it";
        section.reader().mistake(&level.at, "`level` has no effect where no peer is trusted", remedy);
    }
    true
}

fn network(text: &str) -> Result<IpNet, String> {
    if let Ok(address) = text.parse::<std::net::IpAddr>() {
        return Ok(IpNet::from(address));
    }
    let net: IpNet =
        text.parse().map_err(|_| "write an address or a network such as \"10.0.0.0/8\"".to_owned())?;
    if net.trunc() == net { Ok(net) } else { Err(format!("did you mean \"{}\"?", net.trunc())) }
}

fn verify(section: &Section<'_>) -> Option<VerifyService> {
    if !section.exists() {
        return None;
    }
    section.require("url", "say where the service is that verifies keys");
    if !section.has("token_file") {
        section.require("token_env", "say what hapax authenticates itself with: `token_env` or `token_file`");
    }
    let url = section.url("url", |text| Url::parse(text).map(|_| text.to_owned()));
    let token = section.reader().secret(section, "token");
    if let Some(token) = token.as_ref().filter(|token| HeaderValue::try_from(token.value.reveal()).is_err()) {
        let remedy = "write it without line breaks and other control characters";
        section.reader().mistake(&token.at, "this token cannot be sent in a header", remedy);
    }
    let remember = section.duration("remember");
    let timeout = section.duration("timeout");
    Some(VerifyService {
        url: url?.value,
        token: token?.value.reveal().to_owned(),
        remember: remember.map_or(limits::REMEMBER, |remember| remember.value),
        timeout: timeout.map_or(limits::VERIFY_TIMEOUT, |timeout| timeout.value),
    })
}
