//! Who may come in: `[auth]`.

use super::*;
use crate::config::auth;
use crate::limits::{self, range};

sections! {
    /// Who may come in.
    AUTH = "auth" {
        "tenant": Text("name"), Absent =>
            "the tenant of callers whose credential names none: of tokens, keys of an outside service, trusted peers and \
             public routes. API keys always name theirs. It says whose keys are: [while claims rest \
             there](#names-of-operations) it does not change";
        "project": Text("name"), Absent =>
            "the project of such callers; where `tenant` is set, only of that tenant's. It changes as `tenant` does";
        "jwt": Table(&JWT), Absent =>
            "tokens";
        "api_keys": Table(&API_KEYS), Absent =>
            "API keys (`hpx_…`)";
        "trusted_headers": Table(&TRUSTED), Absent =>
            "peers that have authenticated their callers themselves";
        "verify": Table(&VERIFY), Absent =>
            "an outside service that knows keys";
        "schedules": Table(&AUTH_SCHEDULES), Absent =>
            "what schedules sign their requests with";
    }
    /// Tokens.
    JWT = "auth.jwt" {
        "algorithms": WordList(&words(&auth::ALGORITHMS)), Required =>
            "the algorithms that are accepted, whatever a token says; `HS256` needs a secret, the others a JWKS";
        "secret_env": Text("variable"), Told("one source of keys"), shown_as("secret") =>
            "the shared secret of `HS256`; 32 bytes or more are advised";
        "secret_file": Text("file"), Told("one source of keys"), shown_as("secret") =>
            "the same from a file";
        "jwks_file": Text("file"), Told("one source of keys") =>
            "public keys as a JWKS; read again on reload. Keys that can check no token, such as RSA keys below 2048 bits, \
             count for nothing; without any other, it is a mistake";
        "jwks_url": Text("URL"), Told("one source of keys") =>
            "public keys as a JWKS, fetched when needed and remembered";
        "issuer": Text("string"), Told("not checked") =>
            "who must have issued a token";
        "audience": Text("string"), Told("not checked") =>
            "whom a token must be for";
        "leeway": Duration(&range::LEEWAY), Lasts(limits::LEEWAY) =>
            "how much clocks may differ";
        "claims": Table(&CLAIMS), Told("see below") =>
            "the names of the claims";
        "subject_type": Words(&["user", "service", "tenant_member", "client"]), Is("user") =>
            "what the subject is where the token does not say";
    }
    /// The names of a token's claims.
    CLAIMS = "auth.jwt.claims" {
        "tenant": Text("string"), Is("tenant_id") =>
            "the claim with the tenant";
        "project": Text("string"), Is("project_id") =>
            "the claim with the project; a token without it reaches no project's routes";
        "subject": Text("string"), Is("sub") =>
            "the claim with the subject's id";
        "subject_type": Text("string"), Is("sub_type") =>
            "the claim with the subject's type";
        "level": Text("string"), Absent =>
            "the claim that says how far a token reaches: `project`, `tenant` or `platform`";
    }
    /// API keys of the registry.
    API_KEYS = "auth.api_keys" {
        "enabled": Flag, Bool(true) =>
            "whether API keys are accepted; without the section they are not";
        "also_from": WordList(&["x-api-key", "basic"]), Empty =>
            "where a key counts beside `Authorization: Bearer`: in the header `X-Api-Key`, or in `Authorization: Basic` as \
             the user or as the password. A request that shows two credentials is 401. The key never reaches the service";
    }
    /// Peers whose headers are believed.
    TRUSTED = "auth.trusted_headers" {
        "from": List("addresses and networks", UNBOUNDED), Empty =>
            "peers whose `x-tenant-id`, `x-project-id` and `x-subject` are believed, and the caller in a namespaced key";
        "level": Flag, Bool(false) =>
            "whether their `x-level` is believed, too: `project`, `tenant` or `platform`, how far the caller reaches; and \
             `_tenant` or `_platform` in the project's place";
    }
    /// An outside service that knows keys.
    VERIFY = "auth.verify" {
        "url": Text("URL"), Required =>
            "where keys are verified";
        "token_env": Text("variable"), Told("this or `token_file`"), shown_as("token") =>
            "what hapax authenticates itself with";
        "token_file": Text("file"), Told("this or `token_env`"), shown_as("token") =>
            "the same from a file";
        "remember": Duration(&range::REMEMBER), Lasts(limits::REMEMBER) =>
            "how long an answer is remembered; that a key is not valid, at most 5s";
        "timeout": Duration(&range::TIMEOUT), Lasts(limits::VERIFY_TIMEOUT) =>
            "the longest wait for an answer; after it the caller is refused";
    }
    /// What schedules sign their requests with.
    AUTH_SCHEDULES = "auth.schedules" {
        "secret_env": Text("variable"), Told("this or `secret_file`"), shown_as("secret") =>
            "the secret; at least 16 bytes, or a notice is told";
        "secret_file": Text("file"), Told("this or `secret_env`"), shown_as("secret") =>
            "the same from a file";
        "previous_env": Text("variable"), Absent, never_shown("a secret that counts only while the first one is changed") =>
            "a secret that counts beside it while it is changed";
        "previous_file": Text("file"), Absent, never_shown("a secret that counts only while the first one is changed") =>
            "the same from a file";
    }
}
