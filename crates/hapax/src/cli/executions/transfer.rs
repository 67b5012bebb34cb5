//! `hapax executions export|import`: an execution as lines of JSON, to a file and from one, through a server (J7, M2).
//!
//! Lines are written as they come and sent as they are read, so that memory does not grow with the execution.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use hapax_api::{ExecutionScope, ExportQuery, ImportQuery, Nothing, operations as op};

use super::{Place, Whose};
use crate::cli::Failed;
use crate::cli::claims::Why;
use crate::cli::remote::{Remote, Server};

/// `hapax executions export`
#[derive(Debug, ClapArgs)]
pub(crate) struct Export {
    #[command(flatten)]
    whose: Whose,
    /// The file that is made; - is standard output. It must not be there.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    server: Server,
}

/// `hapax executions import`
#[derive(Debug, ClapArgs)]
pub(crate) struct Import {
    /// The file with the lines.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Whose the execution becomes.
    #[arg(long, value_name = "TENANT")]
    tenant: String,
    /// In which project.
    #[arg(long, value_name = "PROJECT")]
    project: String,
    #[command(flatten)]
    why: Why,
    #[command(flatten)]
    place: Place,
}

impl Export {
    pub(super) async fn run(self) -> Result<(), Failed> {
        let remote = Remote::new(&self.server)?;
        let ExecutionScope { tenant, project } = self.whose.scope();
        let mut query = ExportQuery { tenant, project, from: None, until: None };
        // Asked before the file is made: where there is no such execution, none is left behind.
        let mut page = remote.call::<op::ExportExecution>(self.whose.id()?, &query, &Nothing {}).await?;
        let unwritable = |error: std::io::Error| {
            Failed::misuse(format!("{} cannot be written: {error}", self.out.display()))
        };
        let mut out = writer(&self.out).map_err(unwritable)?;
        loop {
            out.write_all(page.lines.as_bytes()).map_err(unwritable)?;
            if page.next.is_none() {
                return out.flush().map_err(unwritable);
            }
            (query.from, query.until) = (page.next, Some(page.until));
            page = remote.call::<op::ExportExecution>(self.whose.id()?, &query, &Nothing {}).await?;
        }
    }
}

/// What an execution has kept is for its owner alone to read.
fn writer(out: &Path) -> std::io::Result<Box<dyn std::io::Write>> {
    use std::os::unix::fs::OpenOptionsExt as _;
    if out == Path::new("-") {
        return Ok(Box::new(std::io::stdout()));
    }
    let file = File::options().write(true).create_new(true).mode(0o600).open(out)?;
    Ok(Box::new(std::io::BufWriter::new(file)))
}

impl Import {
    pub(super) async fn run(self) -> Result<(), Failed> {
        let remote = Remote::new(&self.place.server)?;
        let file = File::open(&self.file)
            .map_err(|error| Failed::misuse(format!("{} cannot be read: {error}", self.file.display())))?;
        let (reason, by) = self.why.into_parts();
        let (tenant, project) = (Some(self.tenant), Some(self.project));
        let query = ImportQuery { tenant, project, reason: Some(reason), by };
        self.place.tell(&remote.upload::<op::ImportExecution>(&query, file).await?)
    }
}
