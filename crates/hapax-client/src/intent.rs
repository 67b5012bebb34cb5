//! The key journal: keys that outlive the process that minted them (C7).
//!
//! One synced file for each thing that is about to be done, named by a digest of what its caller calls it. It is there before
//! anything is sent, and gone when the caller says that it is done.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::clock;
use crate::error::Error;
use crate::key::IdempotencyKey;
use crate::limits;

/// A folder of keys of what is about to be done.
#[derive(Clone, Debug)]
pub struct Journal {
    folder: PathBuf,
}

/// Something that is about to be done, and its key.
#[derive(Clone, Debug)]
pub struct Intent {
    name: String,
    key: IdempotencyKey,
    written_ms: u64,
    file: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    version: u32,
    name: String,
    key: String,
    /// When it was written, in milliseconds since 1970.
    written_ms: u64,
}

impl Journal {
    /// Opens a folder, making it where there is none.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, Error> {
        let folder = folder.into();
        fs::create_dir_all(&folder)
            .map_err(|error| broken("the key journal cannot be opened", &folder, &error))?;
        Ok(Journal { folder })
    }

    /// What is about to be done under this name. Its key is on disk when this returns; if it was there before, it is the
    /// same key.
    pub fn intent(&self, name: &str) -> Result<Intent, Error> {
        if name.is_empty() || name.len() > limits::INTENT_NAME {
            return Err(Error::invalid("an intent's name has 1 to 512 bytes"));
        }
        let file = self.folder.join(format!("{}.intent", digest(name)));
        for _ in 0..2 {
            if let Some(intent) = read(&file)? {
                return match intent.name == name {
                    true => Ok(intent),
                    false => Err(Error::invalid("another intent has this file; choose another name")),
                };
            }
            if fs::read_dir(&self.folder).map_or(0, Iterator::count) > limits::INTENTS {
                return Err(Error::invalid("too many intents wait in this key journal"));
            }
            let key = IdempotencyKey::fresh();
            let written_ms = milliseconds(clock::time_of_day());
            let kept = Kept { version: 1, name: name.to_owned(), key: key.to_string(), written_ms };
            let text = serde_json::to_string(&kept).map_err(|error| Error::invalid(error.to_string()))?;
            match self.write(&file, text.as_bytes()) {
                Ok(()) => return Ok(Intent { name: name.to_owned(), key, written_ms, file }),
                // Somebody else was first: theirs is the key.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(broken("the key journal cannot be written", &file, &error)),
            }
        }
        Err(Error::invalid("the key journal changes faster than it can be read"))
    }

    /// Everything that was not finished.
    pub fn pending(&self) -> Result<Vec<Intent>, Error> {
        let unreadable =
            |error: std::io::Error| broken("the key journal cannot be read", &self.folder, &error);
        let mut pending = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.extension().is_some_and(|extension| extension == "intent") {
                pending.extend(read(&path)?);
            }
        }
        pending.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(pending)
    }

    /// Whole or not at all, and never over what is there: written beside, synced, linked, and the folder synced.
    fn write(&self, file: &Path, content: &[u8]) -> std::io::Result<()> {
        let beside = file.with_extension(format!("{}.writing", fastrand::u64(..)));
        let written = (|| {
            let mut new = File::create_new(&beside)?;
            new.write_all(content)?;
            new.sync_all()?;
            fs::hard_link(&beside, file)?;
            File::open(&self.folder)?.sync_all()
        })();
        // What is left behind is in nobody's way.
        let _ = fs::remove_file(&beside);
        written
    }
}

impl Intent {
    /// What its caller calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its key.
    pub fn key(&self) -> &IdempotencyKey {
        &self.key
    }

    /// How long ago it was written down, on this machine's clock: nothing was sent under its key before that. `None` where it
    /// cannot be told, because the clock was set back.
    ///
    /// A server keeps an outcome for its retention only. Afterwards a recall finds nothing, as if nothing had been done, and
    /// the key is free again: an intent that is older than the retention must not simply be sent.
    ///
    /// ```
    /// # fn example(intent: &hapax_client::Intent) {
    /// use std::time::Duration;
    ///
    /// const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);
    /// let may_be_sent = intent.age().is_some_and(|age| age < RETENTION);
    /// # let _ = may_be_sent;
    /// # }
    /// ```
    pub fn age(&self) -> Option<Duration> {
        milliseconds(clock::time_of_day()).checked_sub(self.written_ms).map(Duration::from_millis)
    }

    /// It was done, or need not be done any more: from now on the name stands for something new.
    pub fn finish(self) -> Result<(), Error> {
        match fs::remove_file(&self.file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(broken("the key journal cannot be written", &self.file, &error))
            }
            _ => Ok(()),
        }
    }
}

fn read(file: &Path) -> Result<Option<Intent>, Error> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        text => text.map_err(|error| broken("the key journal cannot be read", file, &error))?,
    };
    let damaged = || Error::invalid(format!("the key journal is damaged: {}", file.display()));
    let kept: Kept = serde_json::from_str(&text).map_err(|_| damaged())?;
    if kept.version != 1 {
        return Err(Error::invalid("the key journal was written by a newer version"));
    }
    let key = IdempotencyKey::new(&kept.key).map_err(|_| damaged())?;
    Ok(Some(Intent { name: kept.name, key, written_ms: kept.written_ms, file: file.to_owned() }))
}

/// Since 1970; a clock that was never set shows an earlier time.
fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn broken(what: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::invalid(format!("{what}: {}: {error}", path.display()))
}

/// A file name for any name: the raw fingerprint of its bytes.
fn digest(name: &str) -> String {
    let digest = hapax_core::Fingerprint::of_bytes(name.as_bytes()).digest;
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_key_until_it_is_finished_c7() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path().join("keys")).unwrap();
        let first = journal.intent("charge order 42").unwrap();
        let again = Journal::open(folder.path().join("keys")).unwrap().intent("charge order 42").unwrap();
        assert_eq!(first.key(), again.key());
        assert_ne!(first.key(), journal.intent("charge order 43").unwrap().key());
        let pending: Vec<_> =
            journal.pending().unwrap().iter().map(|intent| intent.name().to_owned()).collect();
        assert_eq!(pending, ["charge order 42", "charge order 43"]);
        let key = first.key().clone();
        first.finish().unwrap();
        again.finish().unwrap();
        assert_ne!(*journal.intent("charge order 42").unwrap().key(), key);
    }

    /// The journal of one intent, as somebody else wrote it.
    fn written(content: &str) -> Intent {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path()).unwrap();
        fs::write(folder.path().join(format!("{}.intent", digest("one"))), content).unwrap();
        let intent = journal.intent("one").unwrap();
        assert_eq!(journal.pending().unwrap()[0].age().is_some(), intent.age().is_some());
        assert_eq!(intent.key().as_str(), "k");
        intent
    }

    #[test]
    fn an_intent_tells_how_long_ago_it_was_written_to_another_process_too_c7() {
        let folder = tempfile::tempdir().unwrap();
        let before = SystemTime::now();
        let first = Journal::open(folder.path()).unwrap().intent("one").unwrap();
        let read = Journal::open(folder.path()).unwrap().intent("one").unwrap();
        assert_eq!(
            (first.written_ms, read.key()),
            (read.written_ms, first.key()),
            "reading it does not make it younger"
        );
        assert!(read.age().unwrap() <= before.elapsed().unwrap() + Duration::from_millis(1));
        let hours = Duration::from_secs(2 * 60 * 60);
        let then = milliseconds(before - hours);
        let old = written(&format!("{{\"version\":1,\"name\":\"one\",\"key\":\"k\",\"written_ms\":{then}}}"));
        assert!(old.age().unwrap() >= hours && old.age().unwrap() < 2 * hours, "{:?}", old.age());
    }

    #[test]
    fn an_age_that_cannot_be_told_is_none_and_the_journal_is_read_all_the_same_c7() {
        let ahead = milliseconds(SystemTime::now()) + 3_600_000;
        for time in [ahead, u64::MAX] {
            let text = format!("{{\"version\":1,\"name\":\"one\",\"key\":\"k\",\"written_ms\":{time}}}");
            assert_eq!(written(&text).age(), None, "the clock was set back");
        }
    }

    #[test]
    fn eight_threads_with_one_name_have_one_key_c7() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path()).unwrap();
        let keys: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| journal.intent("one").unwrap().key().clone())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_damaged_journal_is_an_error_and_never_a_fresh_key_c7() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path()).unwrap();
        journal.intent("one").unwrap();
        let file = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        for damage in [
            "",
            "{",
            "{\"version\":1,\"name\":\"one\",\"key\":\"a\"}",
            "{\"version\":1,\"name\":\"one\",\"key\":\"a b\",\"written_ms\":1}",
            "{\"version\":2,\"name\":\"one\",\"key\":\"a\",\"written_ms\":1}",
        ] {
            fs::write(&file, damage).unwrap();
            assert!(journal.intent("one").is_err(), "{damage:?}");
        }
        assert!(journal.intent("").is_err());
    }
}
