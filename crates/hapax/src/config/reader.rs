//! What reading a configuration needs beside the text: the environment, the folder that paths are relative to, and a place
//! to put mistakes.
//!
//! Secrets are fetched here, so that nothing else asks the environment.

use std::cell::RefCell;
use std::fmt::{self, Display};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::mistakes::{Mistake, Place, Within};
use super::section::{Section, Spot};
use crate::limits;

/// Text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(set)")
    }
}

/// Whether secrets must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrets {
    /// A variable or a file that is absent is a mistake.
    Needed,
    /// One that is absent counts as right; one that is there is checked.
    MayBeAbsent,
    /// The same, but for the keys of `[seal]`: what would be sealed is not written without them.
    SealNeeded,
}

/// What reading needs.
pub(crate) struct Reader<'e> {
    file: Arc<PathBuf>,
    secrets: Secrets,
    env: &'e dyn Fn(&str) -> Option<String>,
    mistakes: RefCell<Vec<Mistake>>,
    notices: RefCell<Vec<String>>,
}

impl<'e> Reader<'e> {
    pub(crate) fn new(file: Arc<PathBuf>, env: &'e dyn Fn(&str) -> Option<String>, secrets: Secrets) -> Self {
        Reader { file, secrets, env, mistakes: RefCell::default(), notices: RefCell::default() }
    }

    /// Tells a mistake.
    pub(crate) fn mistake(&self, at: &Place, what: impl Display, remedy: impl Display) {
        self.add(Mistake { place: at.clone(), what: what.to_string(), remedy: remedy.to_string() });
    }

    pub(crate) fn add(&self, mistake: Mistake) {
        self.mistakes.borrow_mut().push(mistake);
    }

    /// Tells what is allowed, but worth knowing.
    pub(crate) fn notice(&self, at: &Place, text: impl Display) {
        self.notices.borrow_mut().push(format!("{at}: {text}"));
    }

    /// Whether anything is wrong so far.
    pub(crate) fn has_mistakes(&self) -> bool {
        !self.mistakes.borrow().is_empty()
    }

    /// Everything that was told.
    pub(crate) fn finish(self) -> (Vec<Mistake>, Vec<String>) {
        (self.mistakes.into_inner(), self.notices.into_inner())
    }

    pub(crate) fn whole_file(&self) -> Place {
        Place { file: self.file.clone(), within: Within::File }
    }

    /// An environment variable; an empty one counts as not set.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        (self.env)(name).filter(|value| !value.is_empty())
    }

    /// A path of the configuration, which is relative to its file.
    pub(crate) fn path(&self, text: &str) -> PathBuf {
        self.file.parent().unwrap_or(Path::new("")).join(text)
    }

    /// A file that must be readable; its path.
    pub(crate) fn readable(&self, section: &Section<'_>, field: &str) -> Option<Spot<PathBuf>> {
        let text = section.text(field)?;
        let path = self.path(text.value);
        match open(&path) {
            Ok(_) => Some(Spot::new(path, &text.at)),
            Err(error) => {
                self.unreadable(&text.at, field, &path, &error);
                None
            }
        }
    }

    /// A file with a secret, or one that comes with it, which must be readable unless it may be absent; its path.
    pub(crate) fn secret_file(&self, section: &Section<'_>, field: &str) -> Option<Spot<PathBuf>> {
        let text = section.text(field)?;
        match self.may_be_absent(&self.path(text.value)) {
            true => None,
            false => self.readable(section, field),
        }
    }

    /// Whether secrets may be absent, and this file is.
    fn may_be_absent(&self, path: &Path) -> bool {
        self.spares_secrets() && !path.exists()
    }

    /// Whether secrets may be absent.
    pub(crate) fn spares_secrets(&self) -> bool {
        self.secrets != Secrets::Needed
    }

    /// Whether the keys of [seal] are needed where other secrets are not.
    pub(crate) fn needs_seal(&self) -> bool {
        self.secrets == Secrets::SealNeeded
    }

    /// The text of a file that must be readable.
    pub(crate) fn contents(&self, at: &Place, field: &str, path: &Path, most: u64) -> Option<String> {
        read(path, most).map_err(|error| self.unreadable(at, field, path, &error)).ok()
    }

    fn unreadable(&self, at: &Place, field: &str, path: &Path, error: &std::io::Error) {
        let what = format!("`{field}`: {} cannot be read: {error}", path.display());
        self.mistake(
            at,
            what,
            "name a file that this user may read; paths are relative to the configuration",
        );
    }

    /// A secret by `{name}_env` or `{name}_file`. Neither is no mistake here; both are.
    pub(crate) fn secret(&self, section: &Section<'_>, name: &str) -> Option<Spot<Secret>> {
        let (env, file) = (format!("{name}_env"), format!("{name}_file"));
        if section.has(&env) && section.has(&file) {
            let what = format!("`{env}` and `{file}` are both written");
            self.mistake(&section.place(&file), what, "keep one of them");
            return None;
        }
        if let Some(variable) = section.text(&env) {
            return self.secret_of_variable(&env, &variable);
        }
        let path = section.text(&file)?;
        self.secret_of_file(&file, &path)
    }

    /// A secret from an environment variable, which must be set.
    pub(crate) fn secret_of_variable(&self, field: &str, name: &Spot<&str>) -> Option<Spot<Secret>> {
        let Some(value) = self.variable(name.value) else {
            if self.spares_secrets() {
                return None;
            }
            let what = format!("`{field}`: the environment variable {} is not set", name.value);
            self.mistake(&name.at, what, format!("set {} before hapax starts", name.value));
            return None;
        };
        Some(Spot::new(Secret(value), &name.at))
    }

    /// A secret from a file; white space at its end does not belong to it.
    pub(crate) fn secret_of_file(&self, field: &str, path: &Spot<&str>) -> Option<Spot<Secret>> {
        let full = self.path(path.value);
        if self.may_be_absent(&full) {
            return None;
        }
        let text = self.contents(&path.at, field, &full, limits::SECRET_BYTES)?;
        let secret = text.trim_end();
        if secret.is_empty() {
            self.mistake(
                &path.at,
                format!("`{field}`: {} is empty", full.display()),
                "write the secret into it",
            );
            return None;
        }
        Some(Spot::new(Secret(secret.to_owned()), &path.at))
    }
}

/// A folder opens as a file does, and fails only when it is read.
fn open(path: &Path) -> std::io::Result<std::fs::File> {
    let file = std::fs::File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(std::io::Error::from(std::io::ErrorKind::IsADirectory));
    }
    Ok(file)
}

/// Reads a text file of at most this many bytes.
pub(crate) fn read(path: &Path, most: u64) -> std::io::Result<String> {
    let mut text = String::new();
    open(path)?.take(most + 1).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        return Err(std::io::Error::other(format!("it is longer than {most} bytes")));
    }
    Ok(text)
}
