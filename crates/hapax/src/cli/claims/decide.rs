//! `hapax claims resolve|reopen|purge|erase`: a decision about the epoch that was seen (L8).

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{ArgGroup, Args as ClapArgs};
use serde_json::{Map, Value, json};

use super::{source, tell};
use crate::cli::remote::{Remote, Server, encoded};
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
pub(in crate::cli) struct Why {
    /// Why; the audit keeps it.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Who decides, for the audit; without it, the name in USER.
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

impl Why {
    /// As members of a request.
    pub(in crate::cli) fn into_members(self) -> Map<String, Value> {
        self.into_query().into_iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    /// As the query of a request.
    pub(in crate::cli) fn into_query(self) -> Vec<(&'static str, String)> {
        let by = self.by.or_else(|| std::env::var("USER").ok()).filter(|by| !by.is_empty());
        let by = by.map(|by| ("by", by));
        [("reason", self.reason)].into_iter().chain(by).collect()
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
    pub(super) async fn run(self, verb: &str) -> Result<(), Failed> {
        self.how.send(&self.operation_id, verb, Map::new()).await
    }
}

impl How {
    pub(super) async fn send(self, id: &str, verb: &str, more: Map<String, Value>) -> Result<(), Failed> {
        let id = &super::checked(id)?;
        let remote = Remote::new(&self.server)?;
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => present_epoch(&remote, id).await?,
        };
        let mut body = more;
        body.extend(self.why.into_members());
        body.insert("epoch".into(), epoch.into());
        let path = format!("/v1/claims/{}/{verb}", encoded(id));
        let decided = remote.post(&path, &Value::Object(body), &["operation_id", "done", "claim"]).await?;
        let told = match self.json {
            true => say::json(&decided),
            false => tell::decided(&decided),
        };
        told.map_err(|failed| failed.and("the decision was carried out"))
    }
}

/// The epoch that the claim has now, which the operator is told: the decision rests on it.
async fn present_epoch(remote: &Remote, id: &str) -> Result<String, Failed> {
    let claim = source::show(remote, id, false).await?;
    let (state, epoch) = (say::text(&claim, "state"), say::text(&claim, "epoch"));
    say::note(format!("{id} is {state} with epoch {epoch}; deciding about that (--epoch names another)"));
    Ok(epoch)
}

impl Resolve {
    pub(super) async fn run(self) -> Result<(), Failed> {
        let mut more = Map::new();
        match self.settle_status {
            Some(status) => {
                let mut settle = json!({"status": status, "headers": fields(&self.settle_header)?});
                if let Some(file) = &self.settle_body {
                    settle["body_base64"] = STANDARD.encode(body(file)?).into();
                }
                if let Some(retention) = self.retention {
                    settle["retention"] = retention.into();
                }
                more.insert("settle".into(), settle);
            }
            None => {
                more.insert("release".into(), self.release.into());
                more.insert("force".into(), self.force.into());
            }
        }
        self.plain.how.send(&self.plain.operation_id, "resolve", more).await
    }
}

fn fields(lines: &[String]) -> Result<Value, Failed> {
    let mut fields: Map<String, Value> = Map::new();
    for line in lines {
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| Failed::misuse(format!("--settle-header {line:?}: write it as 'Name: value'")))?;
        let values = fields.entry(name.trim().to_ascii_lowercase()).or_insert_with(|| json!([]));
        if let Value::Array(values) = values {
            values.push(value.trim().into());
        }
    }
    Ok(Value::Object(fields))
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
