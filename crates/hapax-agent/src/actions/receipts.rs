//! Receipts: what became of every action, in a hash-chained stream of its tenant (X8).
//!
//! The receipt of an invoke is written with its settle, release or doubt in one transaction; where nothing was claimed it is written
//! alone.

use std::borrow::Cow;

use hapax_core::journal::{Append, Author, NewEvent, Stream};
use hapax_core::json::canonicalize;
use hapax_core::{Error, OperationId, limits as core_limits};
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::executor::Origin;
use super::plan::{Disposition, PlannedAction};
use crate::durable::vault::Vault;
use crate::limits;

/// The type of every event in a stream of receipts.
pub const EVENT: &str = "RECEIPT";

/// The stream of a tenant's receipts.
pub fn stream(tenant: &hapax_core::Tenant) -> Result<Stream, Error> {
    Stream::new(format!("receipts/{}", tenant.as_str()))
}

/// How the arguments of an action are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Args {
    /// Their SHA-256.
    #[default]
    Digest,
    /// As they were planned.
    Full,
}

/// What is recorded of an action.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Receipt<'a> {
    project: &'a str,
    connector: Cow<'a, str>,
    tool: Cow<'a, str>,
    entity_key: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<Cow<'a, str>>,
    args_digest: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<&'a RawValue>,
    decision: Disposition,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation_id: Option<String>,
}

/// What became of an action, as far as its receipt tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Became<'a> {
    pub(super) decision: Disposition,
    pub(super) rule: Option<&'a str>,
    pub(super) ok: bool,
    pub(super) error: Option<&'a str>,
    pub(super) code: Option<&'a str>,
    pub(super) operation_id: Option<OperationId>,
}

/// SHA-256 of the arguments in canonical form.
pub(super) fn args_digest(action: &PlannedAction) -> String {
    match canonicalize(action.args.get().as_bytes()) {
        Ok(canonical) => hex_digest(&canonical),
        // What has no canonical form was refused; its bytes are what there is.
        Err(_) => hex_digest(action.args.get().as_bytes()),
    }
}

fn hex_digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A name or a key as it is; of one that is longer than any that is accepted, its beginning and its digest.
fn clipped(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let begin: String = text.chars().take(limits::CLIPPED_CHARS).collect();
    Cow::Owned(format!("{begin}… ({} bytes, SHA-256 {})", text.len(), hex_digest(text.as_bytes())))
}

/// The write of one receipt.
pub(super) fn append(
    origin: &Origin,
    action: &PlannedAction,
    became: Became<'_>,
    args: Args,
    vault: &Vault,
) -> Result<Append, Error> {
    let fits = || action.args.get().len() <= limits::MAX_ARGS_BYTES;
    let is_json = || canonicalize(action.args.get().as_bytes()).is_ok();
    let name = |text| clipped(text, core_limits::MAX_NAME_BYTES);
    let receipt = Receipt {
        project: origin.project.as_str(),
        connector: name(&action.connector),
        tool: name(&action.tool),
        entity_key: clipped(&action.entity_key, limits::MAX_ENTITY_BYTES),
        idempotency_key: action
            .idempotency_key
            .as_deref()
            .map(|key| clipped(key, core_limits::MAX_KEY_BYTES)),
        args_digest: args_digest(action),
        args: (args == Args::Full && fits() && is_json()).then_some(&*action.args),
        decision: became.decision,
        rule: became.rule,
        ok: became.ok,
        error: became.error.map(|error| error.chars().take(limits::MAX_TEXT_CHARS).collect()),
        code: became.code,
        operation_id: became.operation_id.map(|id| id.to_string()),
    };
    let text = serde_json::to_vec(&receipt).map_err(|error| Error::internal(error.to_string()))?;
    let payload = canonicalize(&text).map_err(|error| Error::internal(error.to_string()))?;
    let author = Author::Anyone { version: None };
    let stream = stream(&origin.tenant)?;
    let event = NewEvent::new(EVENT, vault.close(&stream, payload));
    Ok(Append::new(stream, author).with(vec![event]))
}
