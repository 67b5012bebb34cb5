//! `hapax claims resolve|reopen|purge|erase`: a decision about the epoch that was seen (L8).

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{ArgGroup, Args as ClapArgs};
use hapax_api::{
    Decide, Decided, Epoch, HeaderValues, Headers, Nothing, Operation, Settle, operations as op,
};

use super::{source, tell};
use crate::cli::remote::{Remote, Server};
use crate::cli::{Failed, say};
use crate::limits;

/// What every decision says.
#[derive(Debug, ClapArgs)]
pub(crate) struct Plain {
    /// The public id of the operation, as callers see it in x-operation-id.
    operation_id: String,
    #[command(flatten)]
    how: How,
}

/// The rest of it.
#[derive(Debug, ClapArgs)]
pub(super) struct How {
    #[command(flatten)]
    pub(super) why: Why,
    /// The epoch you saw; without it, the one that the claim has now.
    #[arg(long, value_name = "EPOCH")]
    epoch: Option<String>,
    #[command(flatten)]
    pub(super) server: Server,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// What the audit keeps.
#[derive(Debug, ClapArgs)]
pub(crate) struct Why {
    /// Why; the audit keeps it.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Who decides, for the audit; without it, the name in USER.
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

impl Why {
    /// The reason, and who decides.
    pub(in crate::cli) fn into_parts(self) -> (String, Option<String>) {
        let by = self.by.or_else(|| std::env::var("USER").ok()).filter(|by| !by.is_empty());
        (self.reason, by)
    }
}

/// `hapax claims resolve`
#[derive(Debug, ClapArgs)]
#[command(group = ArgGroup::new("how").required(true).args(["release", "settle_status"]))]
pub(crate) struct Resolve {
    #[command(flatten)]
    plain: Plain,
    /// Give the claim back: the next request with its key runs.
    #[arg(long)]
    release: bool,
    /// Even while the former run may still be going on.
    #[arg(long, conflicts_with = "settle_status")]
    force: bool,
    /// Settle the claim with an answer of this status.
    #[arg(long, value_name = "STATUS")]
    settle_status: Option<u16>,
    /// The answer's body, from this file; - reads standard input. Without it the body is empty.
    #[arg(long, value_name = "FILE", conflicts_with = "release")]
    settle_body: Option<PathBuf>,
    /// A header field of the answer, such as 'Content-Type: application/json'; may be given several times.
    #[arg(long, value_name = "FIELD", conflicts_with = "release")]
    settle_header: Vec<String>,
    /// How long the answer is kept, such as 24h, 7d or forever; without it, as the route says.
    #[arg(long, value_name = "SPAN", conflicts_with = "release")]
    retention: Option<String>,
}

impl Plain {
    pub(super) async fn run<O>(self) -> Result<(), Failed>
    where
        O: Operation<Query = Nothing, Body = Decide, Answer = Decided>,
    {
        self.how.send::<O>(&self.operation_id, |decide| decide).await
    }
}

impl How {
    /// Sends a decision about this operation.
    pub(super) async fn send<O>(self, id: &str, body: impl FnOnce(Decide) -> O::Body) -> Result<(), Failed>
    where
        O: Operation<Query = Nothing, Answer = Decided>,
    {
        let id = &super::checked(id)?.to_string();
        let remote = Remote::new(&self.server)?;
        let epoch = match self.epoch {
            Some(epoch) => epoch.into(),
            None => present_epoch(&remote, id).await?,
        };
        let (reason, by) = self.why.into_parts();
        let decided = remote.call::<O>(id, &Nothing {}, &body(Decide { epoch, reason, by })).await?;
        let told = match self.json {
            true => say::json(&decided),
            false => tell::decided(&decided),
        };
        told.map_err(|failed| failed.and("the decision was carried out"))
    }
}

/// The epoch that the claim has now, which the operator is told: the decision rests on it.
async fn present_epoch(remote: &Remote, id: &str) -> Result<Epoch, Failed> {
    let claim = source::show(remote, id, false).await?;
    let (state, epoch) = (claim.state.name(), claim.epoch);
    say::note(format!("{id} is {state} with epoch {epoch}; deciding about that (--epoch names another)"));
    Ok(epoch)
}

impl Resolve {
    pub(super) async fn run(self) -> Result<(), Failed> {
        let settle = match self.settle_status {
            Some(status) => Some(Settle {
                status,
                headers: fields(&self.settle_header)?,
                body_base64: match &self.settle_body {
                    Some(file) => STANDARD.encode(body(file)?),
                    None => String::new(),
                },
                retention: self.retention,
            }),
            None => None,
        };
        let (release, force) = (self.release, self.force);
        let resolve =
            |Decide { epoch, reason, by }| hapax_api::Resolve { epoch, reason, by, release, force, settle };
        self.plain.how.send::<op::ResolveClaim>(&self.plain.operation_id, resolve).await
    }
}

fn fields(lines: &[String]) -> Result<Headers, Failed> {
    let mut fields = Headers::new();
    for line in lines {
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| Failed::misuse(format!("--settle-header {line:?}: write it as 'Name: value'")))?;
        let value = value.trim().to_owned();
        let values = fields.entry(name.trim().to_ascii_lowercase()).or_insert(HeaderValues::Many(Vec::new()));
        if let HeaderValues::Many(values) = values {
            values.push(value);
        }
    }
    Ok(fields)
}

fn body(file: &Path) -> Result<Vec<u8>, Failed> {
    use std::io::Read as _;
    let bad = |error| Failed::misuse(format!("--settle-body {}: {error}", file.display()));
    let most = u64::try_from(limits::SETTLED_BODY_BYTES).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    let read = match file.as_os_str() == "-" {
        true => std::io::stdin().lock().take(most + 1).read_to_end(&mut bytes),
        false => std::fs::File::open(file).and_then(|file| file.take(most + 1).read_to_end(&mut bytes)),
    };
    read.map_err(bad)?;
    match bytes.len() <= limits::SETTLED_BODY_BYTES {
        true => Ok(bytes),
        false => Err(Failed::misuse(format!("--settle-body {}: more than 1 MiB", file.display()))),
    }
}
