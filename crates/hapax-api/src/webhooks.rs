//! Webhooks: made, listed, rotated and revoked (W1, W7), and what became of their deliveries (W8).

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::claims::{ClaimState, Counts, Damaged};
use crate::limits::{
    CONFIGURED, NAME_LENGTH, PAGE_RECORDS, PLACE_LENGTH, PRINTABLE, REASON_LENGTH, SAID, SECRET_LENGTH, SLUG,
    SPAN_OR_UTC,
};
use crate::text::{Epoch, OperationId, Time};
use crate::words::State;

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
    #[schemars(regex(pattern = SLUG))]
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

/// A webhook that is asked for. Its secret is in one place at most.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend(
    "oneOf" = [
        {"not": {"anyOf": [{"required": ["secret"]}, {"required": ["secret_env"]}, {"required": ["secret_file"]}]}},
        {"required": ["secret"], "properties": {"secret_kv": {"const": false}},
         "not": {"anyOf": [{"required": ["secret_env"]}, {"required": ["secret_file"]}]}},
        {"required": ["secret_env"], "properties": {"secret_kv": {"const": false}},
         "not": {"anyOf": [{"required": ["secret"]}, {"required": ["secret_file"]}]}},
        {"required": ["secret_file"], "properties": {"secret_kv": {"const": false}},
         "not": {"anyOf": [{"required": ["secret"]}, {"required": ["secret_env"]}]}},
    ],
    "anyOf" = [
        {"properties": {"algorithm": {"const": "provider"}}},
        {"properties": {"provider": {"pattern": "^twilio"}}},
    ],
))]
pub struct NewWebhook {
    /// Whose deliveries come there.
    #[schemars(regex(pattern = SLUG))]
    pub tenant: String,
    /// In which project.
    #[schemars(regex(pattern = SLUG))]
    pub project: String,
    /// Who sends them: github, shopify, slack, standard, stripe, twilio, twilio-events, or one of `[webhooks.providers]`.
    #[schemars(regex(pattern = CONFIGURED))]
    pub provider: String,
    /// The secret that the sender signs with. Without it, and without another place of the secret, one is made and told once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = SECRET_LENGTH))]
    pub secret: Option<String>,
    /// The environment variable of the servers that has the secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = PLACE_LENGTH), regex(pattern = PRINTABLE))]
    pub secret_env: Option<String>,
    /// The file of the servers that has the secrets, one a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = PLACE_LENGTH), regex(pattern = PRINTABLE))]
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
    #[schemars(with = "String", length(max = NAME_LENGTH), regex(pattern = PRINTABLE))]
    pub label: Option<String>,
    /// Who asks, where that is not the token's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = NAME_LENGTH), regex(pattern = PRINTABLE))]
    pub by: Option<String>,
    /// Why, for the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = REASON_LENGTH), regex(pattern = SAID))]
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
    /// The new secret; without it one is made and told once, unless only the former ones are dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = SECRET_LENGTH))]
    pub secret: Option<String>,
    /// All secrets but the newest stop counting at once: the newest is `secret`, or without it the one that was rotated in last.
    /// Without this field the former ones, up to two, count beside the new one.
    #[serde(default)]
    pub drop_former: bool,
    /// Who asks, where that is not the token's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = NAME_LENGTH), regex(pattern = PRINTABLE))]
    pub by: Option<String>,
    /// Why, for the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = REASON_LENGTH), regex(pattern = SAID))]
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
    /// How many secrets counted before and do not count any more.
    pub dropped: usize,
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
    #[schemars(length(max = NAME_LENGTH), regex(pattern = PRINTABLE))]
    pub by: Option<String>,
    /// Why, for the audit.
    #[schemars(length(min = 1, max = REASON_LENGTH), regex(pattern = SAID))]
    pub reason: Option<String>,
}

/// A webhook with what became of its deliveries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WebhookShown {
    /// The webhook.
    #[serde(flatten)]
    pub webhook: Webhook,
    /// How long outcomes of its deliveries are kept.
    pub retention: String,
    /// How many deliveries are kept, by the state of their claims.
    pub deliveries: Counts,
    /// How many deliveries were refused before anything was claimed, by cause: at this server, since it started.
    pub refused: Vec<RefusedFor>,
    /// The last of them, the newest first.
    pub refusals: Vec<DeliveryRefused>,
    /// How often signed content came again under another identifier: at this server, since it started.
    pub content_repeated: u64,
}

/// How many deliveries were refused for one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedFor {
    /// The code of the problem that the sender was told.
    pub cause: String,
    /// How many.
    pub count: u64,
}

/// A delivery that was refused before anything was claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeliveryRefused {
    /// When.
    pub at: Time,
    /// The code of the problem that the sender was told.
    pub cause: String,
    /// What exactly; the sender is not told.
    pub why: String,
}

/// Which deliveries are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DeliveriesQuery {
    /// Only those whose claims are in this state.
    pub state: Option<State>,
    /// Only the one that its sender calls so; where the provider has kinds of events, with a colon and the kind behind it. It is found at
    /// once, unless the webhook tells deliveries apart by their content.
    pub identifier: Option<String>,
    /// At most so many records (1 to 1000, default 50). A page may hold fewer and still have a next one.
    #[schemars(range(min = 1, max = PAGE_RECORDS))]
    pub limit: Option<usize>,
    /// Where the page starts: `next` of the page before.
    pub after: Option<String>,
}

/// One page of deliveries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Deliveries {
    /// The deliveries, newest first.
    pub deliveries: Vec<Delivery>,
    /// Where the next page starts; null at the end.
    pub next: Option<String>,
    /// Records that cannot be read. They may be among what was asked for, or not.
    pub damaged: Vec<Damaged>,
}

/// A delivery that was claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Delivery {
    /// The public id of its claim.
    pub operation_id: OperationId,
    /// The key of its claim: the provider, the sender's identifier, and the kind of event; or the digest of its content.
    pub key: String,
    /// The epoch of its claim.
    pub epoch: Epoch,
    /// When it came first.
    pub opened_at: Time,
    /// The status that the sender was answered with, where one is kept.
    pub status: Option<u16>,
    /// Its claim.
    #[serde(flatten)]
    pub state: ClaimState,
}

/// Kept refusals that are set aside, so that the sender's next try runs (W8).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReopenDeliveries {
    /// Only what was settled since then: a time (`2026-11-18T12:00:00Z`), or so long ago (`2h`).
    #[schemars(regex(pattern = SPAN_OR_UTC))]
    pub since: String,
    /// Only answers of this status, 400 to 599. Without it, all of 4xx.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u16", range(min = 400, max = 599))]
    pub status: Option<u16>,
    /// Where to go on: `next` of the answer before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub after: Option<String>,
    /// Who asks, where that is not the token's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = NAME_LENGTH), regex(pattern = PRINTABLE))]
    pub by: Option<String>,
    /// Why; the audit keeps it.
    #[schemars(length(min = 1, max = REASON_LENGTH), regex(pattern = SAID))]
    pub reason: String,
}

/// What became of one page of deliveries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeliveriesReopened {
    /// How many answers were set aside.
    pub reopened: u64,
    /// How many somebody else changed meanwhile.
    pub left: u64,
    /// Where to go on; null at the end.
    pub next: Option<String>,
    /// Records that cannot be read. They may be among what was asked for, or not.
    pub damaged: Vec<Damaged>,
}
