//! The spool: outcomes that the ledger could not take when the work had answered (L15).
//!
//! One synced file for each outcome, named by claim and epoch, in a bounded folder. Work that was begun elsewhere can be concluded
//! twice at the same time: then each conclusion has a file of its own. The folder outlives the process: the next one settles what it
//! finds, with the epoch it was granted under, before it accepts anything. The rules then decide whether the outcome still counts.

mod format;

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hapax_core::journal::Append;
use hapax_core::{ClaimId, Ending, Epoch, Error, Kind, Ledger, Outcome, Report, Retention, View};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinError;

use crate::late::Contradicted;
use crate::limits;
use crate::owed::{self, Debt};
use format::Spooled;

/// What the name of a file ends with that is not whole yet.
const WRITING: &str = "writing";

/// What the name of a file ends with that cannot be read.
const UNREADABLE: &str = "unreadable";

/// What the name of a file ends with whose outcome the ledger has refused.
const REFUSED: &str = "refused";

/// A folder of outcomes that wait for the ledger.
#[derive(Clone, Debug)]
pub(crate) struct Spool {
    folder: Arc<PathBuf>,
    taken: Arc<Mutex<Taken>>,
    /// What was refused or cannot be read, and waits for an operator.
    aside: Arc<Mutex<Taken>>,
    /// Turns to write.
    writers: Arc<Semaphore>,
}

/// How much room is taken, by what is written and by what is about to be.
#[derive(Debug, Default)]
struct Taken {
    files: usize,
    bytes: u64,
    /// Of those that this process writes or has found.
    paths: HashSet<PathBuf>,
}

impl Taken {
    fn add(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
    }

    fn has_room_for(&self, bytes: u64, (most_files, most_bytes): (usize, u64)) -> bool {
        self.files < most_files && self.bytes + bytes <= most_bytes
    }
}

/// One outcome's place in the spool. It is taken before anything is written, so that the outcome can be settled meanwhile.
#[derive(Debug)]
pub(crate) struct Entry {
    spool: Spool,
    path: PathBuf,
    bytes: u64,
    stage: Mutex<Stage>,
}

#[derive(Debug)]
enum Stage {
    /// This is to be written.
    Reserved(Vec<u8>),
    /// It is on disk.
    Written,
    /// It is not there, and will not be.
    Over,
}

impl Spool {
    /// Opens the folder, creating it where it is missing.
    pub(crate) fn open(folder: PathBuf) -> Result<Self, Error> {
        fs::create_dir_all(&folder).map_err(|error| broken("the spool cannot be opened", &folder, &error))?;
        remove_torn(&folder);
        let writers = Arc::new(Semaphore::new(limits::SPOOL_WRITERS));
        let spool = Spool { folder: Arc::new(folder), taken: Arc::default(), aside: Arc::default(), writers };
        *lock(&spool.aside) = spool.count_aside();
        Ok(spool)
    }

    /// How many files lie here or have a place here.
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.taken).files
    }

    /// A place for an outcome, for [`Entry::write`]. Does not touch the disk.
    pub(crate) fn reserve(
        &self,
        claim: ClaimId,
        epoch: Epoch,
        outcome: &Outcome,
        retention: Retention,
        events: &[Append],
    ) -> Result<Arc<Entry>, Error> {
        let content = format::encode(claim, epoch, outcome, retention, events);
        let bytes = content.len() as u64;
        let mut taken = lock(&self.taken);
        if !taken.has_room_for(bytes, (limits::SPOOL_FILES, limits::SPOOL_BYTES)) {
            return Err(Error::unavailable("the spool is full"));
        }
        let mut path = self.folder.join(format!("{claim}-{}.outcome", epoch.packed()));
        let mut number = 1;
        while taken.paths.contains(&path) {
            number += 1;
            path = self.folder.join(format!("{claim}-{}-{number}.outcome", epoch.packed()));
        }
        taken.add(bytes);
        taken.paths.insert(path.clone());
        Ok(Arc::new(Entry { spool: self.clone(), path, bytes, stage: Mutex::new(Stage::Reserved(content)) }))
    }

    /// Settles everything that an earlier process left here. What cannot be read, and what the ledger refuses, is set aside,
    /// within a bound: perhaps this is not the ledger that the outcome belongs to. What a ledger that is there cannot take, because
    /// the claim is damaged, say, stays where it is and is still owed: one claim keeps nobody from serving the others.
    pub(crate) async fn settle_all<L: Ledger>(
        &self,
        ledger: &L,
        contradicted: &Contradicted,
    ) -> Result<Vec<Debt>, Error> {
        let (mut refused, mut owed) = (0, Vec::new());
        for path in self.files()? {
            let content =
                fs::read(&path).map_err(|error| broken("the spool cannot be read", &path, &error))?;
            let uncleared = |error| broken("the spool cannot be cleared", &path, &error);
            let Some(Spooled { claim, epoch, outcome, retention, mut events }) = format::decode(&content)
            else {
                if self.set_aside(&path, UNREADABLE).map_err(uncleared)? {
                    tracing::error!(
                        entry = %path.display(),
                        "an outcome in the spool cannot be read; it was set aside as .{UNREADABLE}"
                    );
                }
                continue;
            };
            let report = Report::Settle(outcome.clone(), retention);
            let (ending, settled) = match settle(ledger, (claim, epoch), &report, &mut events).await {
                Ok(settled) => settled,
                Err(error) if error.kind() == Kind::Unavailable => return Err(error),
                Err(error) => {
                    tracing::error!(
                        entry = %path.display(), %claim, %error,
                        "an outcome in the spool cannot be settled: it stays there and is tried again"
                    );
                    let spooled = Some(self.found(path, content.len() as u64));
                    owed.push(Debt::Report { claim, epoch, report, events, spooled });
                    continue;
                }
            };
            refused += usize::from(self.clear(&path, settled).map_err(uncleared)?);
            contradicted.heard(ledger, (claim, epoch), &outcome, &ending).await;
        }
        if refused > 0 {
            self.tell_refused(refused);
        }
        Ok(owed)
    }

    fn tell_refused(&self, refused: usize) {
        tracing::error!(
            refused,
            folder = %self.folder.display(),
            "outcomes in the spool were refused and set aside as .{REFUSED}: either their claims have changed hands, or this \
             is another ledger than theirs; then rename them to .outcome and start on theirs"
        );
    }

    /// The place of an outcome that an earlier process has written.
    fn found(&self, path: PathBuf, bytes: u64) -> Arc<Entry> {
        let mut taken = lock(&self.taken);
        taken.add(bytes);
        taken.paths.insert(path.clone());
        Arc::new(Entry { spool: self.clone(), path, bytes, stage: Mutex::new(Stage::Written) })
    }

    fn files(&self) -> Result<Vec<PathBuf>, Error> {
        let unreadable = |error: std::io::Error| broken("the spool cannot be read", &self.folder, &error);
        let mut files = Vec::new();
        for entry in fs::read_dir(&*self.folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.extension().is_some_and(|extension| extension == "outcome") {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }

    /// Takes the file of an outcome away that need not be kept; sets one aside that was refused. Whether it is aside now.
    fn clear(&self, path: &Path, settled: bool) -> std::io::Result<bool> {
        match settled {
            true => fs::remove_file(path).map(|()| false),
            false => self.set_aside(path, REFUSED),
        }
    }

    /// Leaves a file to an operator under another name; removes it where too many wait for one already.
    fn set_aside(&self, path: &Path, renamed: &str) -> std::io::Result<bool> {
        let bytes = fs::metadata(path)?.len();
        let most = (limits::SPOOL_ASIDE_FILES, limits::SPOOL_ASIDE_BYTES);
        let mut aside = lock(&self.aside);
        if !aside.has_room_for(bytes, most) {
            // Somebody may have seen to them meanwhile.
            *aside = self.count_aside();
        }
        if !aside.has_room_for(bytes, most) {
            fs::remove_file(path)?;
            tracing::error!(
                entry = %path.display(),
                "an outcome could not be settled and was removed: too many are set aside in the spool already"
            );
            return Ok(false);
        }
        fs::rename(path, path.with_extension(renamed))?;
        aside.add(bytes);
        Ok(true)
    }

    fn count_aside(&self) -> Taken {
        let mut aside = Taken::default();
        for file in fs::read_dir(&*self.folder).into_iter().flatten().flatten() {
            let path = file.path();
            if path.extension().is_some_and(|extension| extension == REFUSED || extension == UNREADABLE) {
                aside.add(file.metadata().map_or(0, |file| file.len()));
            }
        }
        aside
    }
}

impl Entry {
    /// Writes it; it is on disk when this is done. The disk is waited for on a thread where that holds up no other request,
    /// and also when nobody waits for this any more.
    pub(crate) async fn write(self: Arc<Self>) -> Result<(), Error> {
        match Handle::try_current() {
            Ok(runtime) => runtime.spawn(self.write_in_turn()).await.unwrap_or_else(not_written),
            // Without a runtime there is nobody else on this thread.
            Err(_) => self.write_here(),
        }
    }

    /// Writes it while somebody waits for something else.
    pub(crate) fn write_meanwhile(self: Arc<Self>) {
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(self.write_in_turn());
        }
    }

    /// A ledger that is slow is slow for many at once, and each would have a thread and a sync of its own. What is settled before
    /// its turn is not written at all.
    async fn write_in_turn(self: Arc<Self>) -> Result<(), Error> {
        let turn = self.spool.writers.clone().acquire_owned().await;
        let writing = tokio::task::spawn_blocking(move || {
            let written = self.write_here();
            drop(turn);
            written
        });
        writing.await.unwrap_or_else(not_written)
    }

    /// The same as [`heard`](Self::heard), by a thread where waiting for the disk holds up no other request.
    pub(crate) fn heard_meanwhile(self: Arc<Self>, settled: bool) {
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || self.heard(settled))),
            Err(_) => self.heard(settled),
        }
    }

    fn write_here(&self) -> Result<(), Error> {
        let mut stage = lock(&self.stage);
        let Stage::Reserved(content) = &*stage else { return Ok(()) };
        if let Err(error) = write_synced(&self.spool.folder, &self.path, content) {
            self.remove();
            return Err(broken("the spool cannot be written", &self.path, &error));
        }
        *stage = Stage::Written;
        Ok(())
    }

    /// Whether it is on disk; waits while it is being written.
    pub(crate) fn is_written(&self) -> bool {
        matches!(*lock(&self.stage), Stage::Written)
    }

    /// The ledger has answered: it need not be here, nor be written any more, or it is set aside. Waits while it is being
    /// written.
    pub(crate) fn heard(&self, settled: bool) {
        if let Stage::Written = mem::replace(&mut *lock(&self.stage), Stage::Over) {
            // A file that stays behind is reported again by the next process, which changes nothing.
            if self.spool.clear(&self.path, settled).unwrap_or(false) {
                self.spool.tell_refused(1);
            }
        }
    }

    fn remove(&self) {
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_file(self.path.with_extension(WRITING));
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.is_written() {
            let mut taken = lock(&self.spool.taken);
            taken.files -= 1;
            taken.bytes -= self.bytes;
            taken.paths.remove(&self.path);
        }
    }
}

/// Reports an outcome from the spool; whether its file is not needed any more.
pub(crate) async fn settle<L: Ledger>(
    ledger: &L,
    of: (ClaimId, Epoch),
    report: &Report,
    events: &mut Vec<Append>,
) -> Result<(Ending, bool), Error> {
    let ending = owed::tell(ledger, of, report, events).await?;
    let settled = is_settled_for_good(ledger, of, &ending).await?;
    Ok((ending, settled))
}

/// Whether the file is of no use any more: the ledger has the outcome, or the claim is settled under a larger epoch. Then somebody
/// has taken it over, as may be where running again is safe, and that outcome counts (L5); or an operator has settled it, and the
/// audit has both; or it was erased.
pub(crate) async fn is_settled_for_good<L: Ledger>(
    ledger: &L,
    (claim, epoch): (ClaimId, Epoch),
    ending: &Ending,
) -> Result<bool, Error> {
    if matches!(ending, Ending::Settled(_) | Ending::AlreadySettled(_)) {
        return Ok(true);
    }
    let Some(View::Settled(kept)) = ledger.peek(claim).await? else { return Ok(false) };
    Ok(kept.epoch > epoch)
}

fn not_written(error: JoinError) -> Result<(), Error> {
    Err(Error::unavailable("the spool was not written").with_detail(error.to_string()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whole or not at all: written beside, synced, renamed, and the folder synced.
fn write_synced(folder: &Path, path: &Path, content: &[u8]) -> std::io::Result<()> {
    let beside = path.with_extension(WRITING);
    let mut file = File::create(&beside)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    File::open(folder)?.sync_all()
}

/// Removes what was being written when its process was killed: nobody was told of it. Nothing locks the folder, and another
/// process may be writing there, so only what is too old for that goes. What cannot be removed does no harm.
fn remove_torn(folder: &Path) {
    for file in fs::read_dir(folder).into_iter().flatten().flatten() {
        let age = |file: fs::Metadata| file.modified()?.elapsed().map_err(std::io::Error::other);
        let path = file.path();
        if path.extension().is_some_and(|extension| extension == WRITING)
            && file.metadata().and_then(age).is_ok_and(|age| age > limits::SPOOL_WRITING_FOR)
        {
            let _ = fs::remove_file(path);
        }
    }
}

fn broken(message: &'static str, path: &Path, error: &std::io::Error) -> Error {
    Error::unavailable(message).with_detail(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use hapax_testkit::lines::Lines;

    use super::*;

    fn reserve(spool: &Spool, number: u8) -> Result<Arc<Entry>, Error> {
        let (claim, epoch) = (ClaimId::from_bytes([number; 32]), Epoch::new(1, 9).unwrap());
        let outcome = Outcome::Succeeded(Bytes::from_static(b"paid"));
        spool.reserve(claim, epoch, &outcome, Retention::Forever, &[])
    }

    fn keep(spool: &Spool, number: u8) -> Result<Arc<Entry>, Error> {
        let entry = reserve(spool, number)?;
        entry.write_here()?;
        Ok(entry)
    }

    fn settled(entry: Arc<Entry>) {
        entry.heard(true);
    }

    #[test]
    fn a_spool_is_bounded_by_files_and_by_bytes_and_has_room_again_when_one_was_settled() {
        // L15
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path().to_owned()).unwrap();
        let first = keep(&spool, 1).unwrap();
        let bytes = first.bytes;
        lock(&spool.taken).files = limits::SPOOL_FILES;
        assert_eq!(keep(&spool, 2).unwrap_err().kind(), hapax_core::Kind::Unavailable);
        settled(first);
        let second = keep(&spool, 2).unwrap();
        assert!(keep(&spool, 3).is_err(), "that was the room of one");
        *lock(&spool.taken) = Taken { files: 1, bytes: limits::SPOOL_BYTES - bytes + 1, ..Taken::default() };
        assert_eq!(keep(&spool, 3).unwrap_err().kind(), hapax_core::Kind::Unavailable);
        settled(second);
        keep(&spool, 3).unwrap();
        assert_eq!(spool.files().unwrap().len(), 1, "what was settled or refused has left no file");
    }

    #[test]
    fn what_is_settled_before_it_is_written_leaves_no_file_and_takes_no_room_l15() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path().to_owned()).unwrap();
        let entry = reserve(&spool, 1).unwrap();
        assert_eq!(lock(&spool.taken).files, 1, "room is taken before it is written");
        entry.heard(true);
        entry.write_here().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        drop(entry);
        drop(reserve(&spool, 2).unwrap());
        assert_eq!(lock(&spool.taken).files, 0);
        assert_eq!(lock(&spool.taken).bytes, 0);
        drop(keep(&spool, 3).unwrap());
        assert_eq!(lock(&spool.taken).files, 1, "what is on disk takes room although nobody knows of it");
    }

    #[test]
    fn what_is_set_aside_is_bounded_and_told_beyond_that_l15() {
        let (lines, _guard) = Lines::listen();
        let folder = tempfile::tempdir().unwrap();
        let names = || -> Vec<PathBuf> {
            fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path()).collect()
        };
        let old = folder.path().join("old.refused");
        File::create(&old).unwrap().set_len(limits::SPOOL_ASIDE_BYTES).unwrap();
        let spool = Spool::open(folder.path().to_owned()).unwrap();
        keep(&spool, 1).unwrap().heard(false);
        assert_eq!(names(), std::slice::from_ref(&old), "there is no room for another one");
        let told = lines.told();
        assert!(told.contains("ERROR") && told.contains("was removed"), "{told}");
        assert!(told.contains(&ClaimId::from_bytes([1; 32]).to_string()), "{told}");

        // Somebody has looked at it.
        fs::remove_file(old).unwrap();
        let second = keep(&spool, 2).unwrap();
        second.heard(false);
        assert_eq!(names(), [second.path.with_extension(REFUSED)]);
        lock(&spool.aside).files = limits::SPOOL_ASIDE_FILES;
        keep(&spool, 3).unwrap().heard(false);
        assert_eq!(names().len(), 2, "it is counted again before anything is removed");
    }

    #[tokio::test]
    async fn only_some_write_at_once_and_what_is_settled_before_its_turn_is_not_written_l15() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path().to_owned()).unwrap();
        // Whoever opens a pipe for writing waits until somebody reads from it: that is the disk.
        let slow: Vec<PathBuf> = (0..limits::SPOOL_WRITERS as u8)
            .map(|number| {
                let entry = reserve(&spool, number).unwrap();
                let pipe = entry.path.with_extension(WRITING);
                assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
                entry.write_meanwhile();
                pipe
            })
            .collect();
        let next = reserve(&spool, 255).unwrap();
        let mut writing = Box::pin(next.clone().write());
        let at_once = tokio::time::timeout(std::time::Duration::from_millis(300), &mut writing).await;
        next.heard(true);
        // Also where this fails they come to an end, or the test would not.
        let read = |pipe: &PathBuf| File::options().read(true).write(true).open(pipe).unwrap();
        let _readers: Vec<File> = slow.iter().map(read).collect();
        assert!(at_once.is_err(), "it is not its turn");
        writing.await.unwrap();
        assert!(!next.path.exists());
    }
}
