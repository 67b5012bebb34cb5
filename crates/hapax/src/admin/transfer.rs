//! Executions as lines of JSON, out of a server and into one (J7, M4).
//!
//! An export is told in pages, and all pages together are the file. An import comes as one body, which is put aside before any of it
//! counts, because nothing is written unless all of it is sound.

use std::fs::File;
use std::io::{BufReader, Write as _};

use axum::body::Body;
use hapax_agent::durable::Told;
use hapax_api::{Execution, Exported, operations as op};
use hapax_core::Error;
use hapax_tower::{Code, Problem};
use http_body_util::BodyExt as _;

use super::AdminState;
use super::access::Operator;
use super::decide::{actor, reason};
use super::executions::{Meant, of, told};
use crate::limits;
use crate::listen::mount::Asked;
use crate::listen::refusal::Refusal;

pub(super) async fn export(
    state: AdminState,
    _: Operator,
    asked: Asked<op::ExportExecution>,
) -> Result<Exported, Refusal> {
    let query = asked.query;
    let meant = Meant::of(&state, &asked.id, query.tenant.as_deref(), query.project.as_deref())?;
    let Meant { executions, id } = &meant;
    let (lines, next, until) = match (query.from, query.until) {
        (None, None) => {
            let mut export = executions.export(id).await.map_err(told)?;
            let until = export.length();
            (export.next().await.map_err(told)?.unwrap_or_default(), 0, until)
        }
        (Some(from), Some(until)) => {
            let (lines, next) = executions.exported(id, from, until).await.map_err(told)?;
            (lines, next, until)
        }
        _ => return Err(Refusal::malformed("`from` goes with `until`")),
    };
    let lines = String::from_utf8(lines).map_err(|_| Error::internal("an export is not text"))?;
    Ok(Exported { lines, next: Some(next).filter(|next| *next < until), until })
}

pub(super) async fn import(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::ImportExecution>,
    body: Body,
) -> Result<Execution, Refusal> {
    let query = asked.query;
    let executions = of(&state, query.tenant.as_deref(), query.project.as_deref())?;
    let by = actor(&operator.name, query.by.as_deref())?;
    let why = reason(query.reason.ok_or_else(|| Refusal::malformed("say a `reason`"))?)?;
    // Hashing all of it takes seconds, and the listeners' threads have others to serve.
    let (lines, checking) = (BufReader::new(put_aside(body).await?), executions.clone());
    let (mut lines, sound) = tokio::task::spawn_blocking(move || {
        let mut lines = lines;
        let sound = checking.sound(&mut lines);
        (lines, sound)
    })
    .await
    .map_err(|error| Error::internal(format!("an import could not be checked: {error}")))?;
    let sound = sound.map_err(told)?;
    let id = sound.id().clone();
    // The audit tells of it first: what cannot be written down is not done.
    let note = Told { verb: "import", by: &by, reason: &why };
    executions.write_down(&id, "", &note).await.map_err(told)?;
    executions.import_sound(&mut lines, &sound).await.map_err(told)?;
    tracing::info!(execution = id.as_str(), actor = by, reason = why, "an execution was imported");
    Meant { executions, id }.shown().await
}

/// The body in a file that has no name.
async fn put_aside(mut body: Body) -> Result<File, Refusal> {
    let unwritable =
        |error: std::io::Error| Error::unavailable("an import cannot be put aside").with_detail(error);
    let (mut file, mut bytes) = (tempfile::tempfile().map_err(unwritable)?, 0_u64);
    loop {
        let frame = match tokio::time::timeout(limits::API_BODY_TIMEOUT, body.frame()).await {
            Err(_) => return Err(Problem::new(Code::RequestTimeout).into()),
            Ok(None) => return Ok(file),
            Ok(Some(Err(_))) => return Err(Refusal::malformed("the body ended too early")),
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(data) = frame.into_data() else { continue };
        bytes += data.len() as u64;
        if bytes > limits::IMPORT_BYTES {
            return Err(Problem::new(Code::BodyTooLarge).detail("an import has at most 1 GiB").into());
        }
        file.write_all(&data).map_err(unwritable)?;
    }
}
