//! Webhooks: made, listed, rotated and revoked (W1, W7).

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::{NAME_BYTES, PAGE_RECORDS};
use crate::text::Time;

/// Which webhooks are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WebhooksQuery {
    /// At most so many records (1 to 1000, default 50). A page may hold fewer and still have a next one.
    #[schemars(range(min = 1, max = PAGE_RECORDS))]
    pub limit: Option<usize>,
    /// Where the page starts: `next` of the page before.
    pub after: Option<String>,
}

/// One page of webhooks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Webhooks {
    /// The webhooks, in the order of their ids.
    pub webhooks: Vec<Webhook>,
    /// Where the next page starts; null at the end.
    pub next: Option<String>,
}

/// A webhook; its secrets are not told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Webhook {
    /// Its id, which stands in its path.
    pub webhook_id: String,
    /// Whose deliveries come there.
    pub tenant: String,
    /// In which project.
    pub project: String,
    /// Who sends them.
    pub provider: String,
    /// The path at the edge that its sender is given.
    pub path: String,
    /// The operation that its deliveries are claimed under.
    pub operation: String,
    /// Where its secrets are.
    pub secrets_from: SecretsFrom,
    /// How many secrets it has in the registry.
    pub secrets: usize,
    /// What makes two deliveries the same.
    pub dedupe: Dedupe,
    /// What becomes of answers of status 4xx.
    pub on_4xx: On4xx,
    /// What Twilio signs with; for other providers `provider`.
    pub algorithm: Algorithm,
    /// What it is for.
    pub label: Option<String>,
    /// When it was made.
    pub created_at: Time,
    /// When it was revoked.
    pub revoked_at: Option<Time>,
}

/// Where the secrets of a webhook are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SecretsFrom {
    /// In the registry.
    Registry,
    /// In an environment variable of the server.
    Env,
    /// In a file of the server.
    File,
    /// In the KV store of `[webhooks.kv]`.
    Kv,
}

/// What makes two deliveries the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Dedupe {
    /// The sender's identifier.
    Identifier,
    /// What is signed.
    Content,
}

/// What becomes of answers of status 4xx.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum On4xx {
    /// The delivery has failed, and the sender's next try runs.
    #[default]
    Release,
    /// They are kept as any other answer.
    Keep,
}

/// What deliveries are signed with, where a provider has more than one algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// What the provider uses.
    #[default]
    Provider,
    /// Twilio's SHA-256.
    Sha256,
}

/// A webhook that is asked for.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewWebhook {
    /// Whose deliveries come there.
    pub tenant: String,
    /// In which project.
    pub project: String,
    /// Who sends them: github, shopify, slack, standard, stripe, twilio, twilio-events, or one of `[webhooks.providers]`.
    pub provider: String,
    /// The secret that the sender signs with. Without it, and without another place of the secret, one is made and told once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 4096))]
    pub secret: Option<String>,
    /// The environment variable of the servers that has the secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub secret_env: Option<String>,
    /// The file of the servers that has the secrets, one a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub secret_file: Option<String>,
    /// The secret is in the KV store, at `{tenant}:{project}:{provider}`.
    #[serde(default)]
    pub secret_kv: bool,
    /// What makes two deliveries the same; cannot be changed later. Without it, as is usual for the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Dedupe")]
    pub dedupe: Option<Dedupe>,
    /// What becomes of answers of status 4xx.
    #[serde(default)]
    pub on_4xx: On4xx,
    /// What Twilio signs with.
    #[serde(default)]
    pub algorithm: Algorithm,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = NAME_BYTES))]
    pub label: Option<String>,
    /// Who asks, where that is not the token's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub by: Option<String>,
    /// Why, for the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub reason: Option<String>,
}

impl fmt::Debug for NewWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NewWebhook { tenant, project, provider, .. } = self;
        let mut shown = f.debug_struct("NewWebhook");
        shown.field("tenant", tenant).field("project", project).field("provider", provider);
        shown.finish_non_exhaustive()
    }
}

/// A webhook that was made.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WebhookMade {
    /// Its id.
    pub webhook_id: String,
    /// The path at the edge that its sender is given.
    pub path: String,
    /// The whole URL, where the public one is configured.
    pub url: Option<String>,
    /// The secret, where one was made; it cannot be told again.
    pub secret: Option<String>,
}

impl fmt::Debug for WebhookMade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookMade").field("webhook_id", &self.webhook_id).finish_non_exhaustive()
    }
}

/// Another secret for a webhook.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateWebhook {
    /// The new secret; without it one is made and told once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 4096))]
    pub secret: Option<String>,
    /// The former secrets stop counting at once. Without it they count beside the new one.
    #[serde(default)]
    pub drop_former: bool,
    /// Who asks, where that is not the token's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub by: Option<String>,
    /// Why, for the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub reason: Option<String>,
}

impl fmt::Debug for RotateWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RotateWebhook").field("drop_former", &self.drop_former).finish_non_exhaustive()
    }
}

/// A webhook with another secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WebhookRotated {
    /// Its id.
    pub webhook_id: String,
    /// How many secrets count now.
    pub secrets: usize,
    /// The secret, where one was made; it cannot be told again.
    pub secret: Option<String>,
}

impl fmt::Debug for WebhookRotated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookRotated").field("webhook_id", &self.webhook_id).finish_non_exhaustive()
    }
}

/// Who revokes a webhook, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RevokeWebhook {
    /// Who asks, where that is not the token's own name.
    pub by: Option<String>,
    /// Why, for the audit.
    pub reason: Option<String>,
}
