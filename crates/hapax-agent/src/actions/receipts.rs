//! Receipts: what became of every action, in a hash-chained stream of its tenant (X8).
//!
//! The receipt of an invoke is written with its settle, release or doubt in one transaction; where nothing was claimed it is written
//! alone.

use hapax_core::journal::{Append, Author, NewEvent, Stream};
use hapax_core::json::canonicalize;
use hapax_core::{Error, OperationId};
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::executor::Origin;
use super::plan::{Disposition, PlannedAction};
use crate::durable::vault::Vault;

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
    connector: &'a str,
    tool: &'a str,
    entity_key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    args_digest: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<&'a RawValue>,
    decision: Disposition,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
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
    let digest = match canonicalize(action.args.get().as_bytes()) {
        Ok(canonical) => Sha256::digest(canonical),
        // What has no canonical form was refused; its bytes are what there is.
        Err(_) => Sha256::digest(action.args.get().as_bytes()),
    };
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The write of one receipt.
pub(super) fn append(
    origin: &Origin,
    action: &PlannedAction,
    became: Became<'_>,
    args: Args,
    vault: &Vault,
) -> Result<Append, Error> {
    let is_json = || canonicalize(action.args.get().as_bytes()).is_ok();
    let receipt = Receipt {
        project: origin.project.as_str(),
        connector: &action.connector,
        tool: &action.tool,
        entity_key: &action.entity_key,
        idempotency_key: action.idempotency_key.as_deref(),
        args_digest: args_digest(action),
        args: (args == Args::Full && is_json()).then_some(&*action.args),
        decision: became.decision,
        rule: became.rule,
        ok: became.ok,
        error: became.error,
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
