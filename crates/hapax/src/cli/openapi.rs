//! `hapax openapi`: the routes of a configuration as an OpenAPI document (P4).

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;

use super::{Failed, say};
use crate::config::{Config, read_file};
use crate::limits;
use crate::openapi::order::{self, Order};
use crate::openapi::write::{self, Target};
use crate::openapi::{Source, read};

/// Write the routes as an OpenAPI 3.1 document, with keys, retentions, recall routes and problems.
#[derive(Debug, Args)]
pub struct OpenapiArgs {
    /// The configuration.
    #[arg(long)]
    config: PathBuf,
    /// Add to this document (JSON) instead of printing one. What it says of these routes (x-idempotency-…, the key,
    /// problems) is replaced, everything else in it is kept.
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
    /// What stands before every path of the document, such as /api/v1; routes without it are left out. Not needed where
    /// [[openapi]] reads the document: its prefix is taken.
    #[arg(long)]
    prefix: Option<String>,
    /// The document is JSON in any case.
    #[arg(long)]
    json: bool,
}

/// Runs `hapax openapi`.
pub fn run(args: &OpenapiArgs) -> Result<(), Failed> {
    let config = super::config::load(&args.config)?;
    let Some(into) = &args.into else {
        let usual = Order::of(r#"{"openapi": 0, "info": 0, "paths": 0, "components": 0}"#);
        let prefix = args.prefix.as_deref().unwrap_or_default();
        let document = write::document(&config, prefix).map_err(Failed::no)?;
        return say::data(order::write(&document, &usual).trim_end());
    };
    let told = |what: String| Failed::no(format!("{}: {what}", into.display()));
    if into.extension().is_none_or(|extension| extension != "json") {
        return Err(Failed::misuse("--into takes a .json document; comments in YAML would be lost"));
    }
    let mut document = read::parse(into).map_err(told)?;
    write::into(&mut document, &config, &target(args, &config, into)?).map_err(told)?;
    let before = read_file(into, limits::FILE_BYTES).map_err(|error| told(error.to_string()))?;
    let text = order::write(&document, &Order::of(before.trim_start_matches('\u{feff}')));
    replace(into, &text).map_err(|error| Failed::unavailable(format!("{}: {error}", into.display())))
}

/// A document that the configuration reads has its prefix there; with another one its routes would be in it twice.
fn target<'t>(args: &'t OpenapiArgs, config: &'t Config, into: &Path) -> Result<Target<'t>, Failed> {
    let is_into = |source: &&Source| match (source.file.canonicalize(), into.canonicalize()) {
        (Ok(read), Ok(written)) => read == written,
        _ => false,
    };
    let Some(source) = config.documents.iter().find(is_into) else {
        return Ok(Target { prefix: args.prefix.as_deref().unwrap_or_default(), source: None });
    };
    match args.prefix.as_deref() {
        Some(prefix) if prefix.trim_end_matches('/') != source.prefix => Err(Failed::misuse(format!(
            "[[openapi]] reads {} with the prefix {:?}: leave --prefix out",
            into.display(),
            source.prefix
        ))),
        _ => Ok(Target { prefix: &source.prefix, source: Some(source) }),
    }
}

/// Puts the new document in the place of the old one, whole or not at all.
fn replace(path: &Path, document: &str) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(document.as_bytes())?;
    file.as_file().set_permissions(std::fs::metadata(path)?.permissions())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}
