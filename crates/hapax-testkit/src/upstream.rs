//! An upstream whose effects can be counted afterwards, whoever crashed in between.
//!
//! The count must lie outside of what a test breaks: it is a file that every process appends to, one synced
//! line per effect. A line is one small write in append mode, so lines of several processes do not run into
//! each other.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file of effects, shared by the processes of a test.
#[derive(Clone, Debug)]
pub struct CountingFile {
    path: PathBuf,
}

/// One line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The key it was done under.
    pub key: String,
    /// The attempt or the epoch that did it, as the test wrote it.
    pub attempt: String,
    /// The process that did it.
    pub process: u32,
}

impl CountingFile {
    /// Counts in this file, which need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        CountingFile { path: path.into() }
    }

    /// Where it counts.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Has an effect. When this returns, no crash takes it back.
    pub fn record(&self, key: &str, attempt: &str) -> io::Result<()> {
        let line = line(key, attempt)?;
        let mut file = self.open()?;
        if file.write(line.as_bytes())? != line.len() {
            return Err(io::Error::other("an effect was written in part"));
        }
        file.sync_data()
    }

    /// All effects, in the order in which they happened.
    pub fn effects(&self) -> io::Result<Vec<Effect>> {
        let text = match std::fs::read_to_string(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        // A process that was killed while it wrote leaves a line without its end: the effect did not happen.
        text.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(parse).collect()
    }

    /// How many effects a key had.
    pub fn count(&self, key: &str) -> io::Result<usize> {
        Ok(self.effects()?.iter().filter(|effect| effect.key == key).count())
    }

    fn open(&self) -> io::Result<File> {
        OpenOptions::new().create(true).append(true).open(&self.path)
    }
}

fn line(key: &str, attempt: &str) -> io::Result<String> {
    if [key, attempt].iter().any(|field| field.contains(['\t', '\n'])) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "keys and attempts are one field each"));
    }
    Ok(format!("{key}\t{attempt}\t{}\n", std::process::id()))
}

fn parse(line: &str) -> io::Result<Effect> {
    let torn = || io::Error::new(io::ErrorKind::InvalidData, format!("not an effect: {line:?}"));
    let mut fields = line.trim_end_matches('\n').split('\t');
    let (Some(key), Some(attempt), Some(process), None) =
        (fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return Err(torn());
    };
    Ok(Effect {
        key: key.to_owned(),
        attempt: attempt.to_owned(),
        process: process.parse().map_err(|_| torn())?,
    })
}
