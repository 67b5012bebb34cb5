//! What a disk may hold after a power cut.
//!
//! Certain is what a sync made durable: the writes to a file that ended before a sync of that file began, once that sync
//! has ended; the names in a folder likewise by a sync of the folder. Of everything later any part may be there: a write may
//! be missing, whole, or torn at the boundaries of sectors, whatever became of the writes around it. Changes of names
//! survive in their order, as a file system's journal keeps them, but up to any point.
//!
//! Two assumptions: a sector is written whole or not at all, and a sync that a file system has confirmed is true.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use anyhow::{Result, bail};

use super::trace::{Event, What};
use crate::dice::Dice;

/// The unit in which a disk writes.
const SECTOR: usize = 512;

/// The files of one folder, and everything that was ever done to them.
#[derive(Debug)]
pub struct Disk {
    folder: String,
    /// Names as the processes see them, and the file behind each.
    names: BTreeMap<String, usize>,
    files: usize,
    positions: HashMap<u64, u64>,
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    began: usize,
    ended: usize,
    change: Change,
}

#[derive(Debug)]
enum Change {
    Write {
        file: usize,
        at: u64,
        bytes: Vec<u8>,
    },
    Resize {
        file: usize,
        length: u64,
    },
    /// At least this long.
    Extend {
        file: usize,
        length: u64,
    },
    SyncFile {
        file: usize,
        name: String,
    },
    Name {
        name: String,
        file: usize,
    },
    Unname {
        name: String,
    },
    SyncFolder,
}

/// How much of what is not certain has survived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harshness {
    /// Nothing.
    Nothing,
    /// Everything.
    Everything,
    /// Some writes, whole.
    Some,
    /// Some writes, and parts of others.
    Torn,
}

impl Harshness {
    /// All of them.
    pub const ALL: [Harshness; 4] =
        [Harshness::Nothing, Harshness::Everything, Harshness::Some, Harshness::Torn];
}

/// Whether syncs of a file are taken for true.
pub type Believes = fn(&str) -> bool;

impl Disk {
    /// An empty folder.
    pub fn new(folder: &str) -> Disk {
        Disk {
            folder: folder.to_owned(),
            names: BTreeMap::new(),
            files: 0,
            positions: HashMap::new(),
            steps: Vec::new(),
        }
    }

    /// How many steps there are.
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// The line after each step that began within these lines.
    pub fn lines(&self, within: Range<usize>) -> Vec<usize> {
        self.steps
            .iter()
            .map(|step| step.began)
            .filter(|began| within.contains(began))
            .map(|began| began + 1)
            .collect()
    }

    /// How many syncs there are.
    pub fn syncs(&self) -> usize {
        let sync = |step: &&Step| matches!(step.change, Change::SyncFile { .. } | Change::SyncFolder);
        self.steps.iter().filter(sync).count()
    }

    /// How many writes to the file of this name there are.
    pub fn writes_to(&self, name: &str) -> usize {
        let of = |step: &&Step| match &step.change {
            Change::Write { file, .. } => self.was_called(*file, name),
            _ => false,
        };
        self.steps.iter().filter(of).count()
    }

    fn was_called(&self, file: usize, name: &str) -> bool {
        let named = |step: &Step| matches!(&step.change, Change::Name { name: given, file: of } if *of == file && given == name);
        self.steps.iter().any(named)
    }

    /// The name inside of the folder; `None` for everything elsewhere and for what is rebuilt after a crash.
    fn name(&self, path: &str) -> Option<String> {
        let name = path.strip_prefix(&self.folder)?.strip_prefix('/')?;
        // SQLite's shared memory is mapped, never synced, and made anew by whoever opens the database after a crash.
        (!name.is_empty() && !name.ends_with("-shm")).then(|| name.to_owned())
    }

    /// Adds what a traced process did.
    pub fn add(&mut self, event: &Event) -> Result<()> {
        match &event.what {
            What::Opened { path, flags, descriptor } => self.open(event, path, flags, *descriptor),
            What::Moved { descriptor, to } => {
                self.positions.insert(*descriptor, *to);
            }
            What::Wrote { path, descriptor, at, bytes } => {
                let position = self.positions.entry(*descriptor).or_default();
                let at = at.unwrap_or(*position);
                *position = at + bytes.len() as u64;
                if let Some(file) = self.file(path)? {
                    self.step(event, Change::Write { file, at, bytes: bytes.clone() });
                }
            }
            What::Resized { path, length } => {
                if let Some(file) = self.file(path)? {
                    self.step(event, Change::Resize { file, length: *length });
                }
            }
            What::Allocated { path, length } => {
                if let Some(file) = self.file(path)? {
                    self.step(event, Change::Extend { file, length: *length });
                }
            }
            What::Synced { path } if *path == self.folder => self.step(event, Change::SyncFolder),
            What::Synced { path } => {
                if let (Some(file), Some(name)) = (self.file(path)?, self.name(path)) {
                    self.step(event, Change::SyncFile { file, name });
                }
            }
            What::Renamed { from, to } => self.rename(event, from, to)?,
            What::Removed { path } => {
                if let Some(name) = self.name(path) {
                    self.names.remove(&name);
                    self.step(event, Change::Unname { name });
                }
            }
            What::Unknown { path, call } => {
                if path.split(' ').any(|path| self.name(path).is_some()) {
                    bail!("{call} on {path}: the model of the disk does not know what that does");
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, event: &Event, change: Change) {
        self.steps.push(Step { began: event.began, ended: event.ended, change });
    }

    fn file(&self, path: &str) -> Result<Option<usize>> {
        let Some(name) = self.name(path) else { return Ok(None) };
        match self.names.get(&name) {
            Some(file) => Ok(Some(*file)),
            None => bail!("{path} is written and was never opened"),
        }
    }

    fn open(&mut self, event: &Event, path: &str, flags: &str, descriptor: u64) {
        self.positions.insert(descriptor, 0);
        let Some(name) = self.name(path) else { return };
        let flags: Vec<&str> = flags.split('|').collect();
        match self.names.get(&name) {
            None => {
                let file = self.files;
                self.files += 1;
                self.names.insert(name.clone(), file);
                self.step(event, Change::Name { name, file });
            }
            Some(&file) if flags.contains(&"O_TRUNC") => self.step(event, Change::Resize { file, length: 0 }),
            Some(_) => {}
        }
    }

    fn rename(&mut self, event: &Event, from: &str, to: &str) -> Result<()> {
        match (self.name(from), self.name(to)) {
            (Some(from), Some(to)) => {
                let Some(file) = self.names.remove(&from) else {
                    bail!("{from} is renamed and was never there")
                };
                self.names.insert(to.clone(), file);
                self.step(event, Change::Unname { name: from });
                self.step(event, Change::Name { name: to, file });
            }
            (None, None) => {}
            _ => bail!("{from} is renamed to {to}, out of the folder or into it"),
        }
        Ok(())
    }

    /// What the folder may hold when the power fails at this line of the trace.
    pub fn after_cut(
        &self,
        line: usize,
        dice: &mut Dice,
        harshness: Harshness,
        believes: Believes,
    ) -> BTreeMap<String, Vec<u8>> {
        let (files_until, names_until) = self.certain(line, believes);
        let mut contents: Vec<Vec<u8>> = vec![Vec::new(); self.files];
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        let mut names_survive = true;
        for step in self.steps.iter().filter(|step| step.began < line) {
            match &step.change {
                Change::Write { file, at, bytes } => {
                    let certain = step.ended < files_until[*file];
                    write(&mut contents[*file], *at, bytes, certain, dice, harshness);
                }
                Change::Resize { file, length } => {
                    if step.ended < files_until[*file] || survives(dice, harshness) {
                        contents[*file].resize(index(*length), 0);
                    }
                }
                Change::Extend { file, length } => {
                    let length = index(*length).max(contents[*file].len());
                    if step.ended < files_until[*file] || survives(dice, harshness) {
                        contents[*file].resize(length, 0);
                    }
                }
                Change::Name { name, file } => {
                    names_survive = names_survive && (step.ended < names_until || survives(dice, harshness));
                    if names_survive {
                        names.insert(name.clone(), *file);
                    }
                }
                Change::Unname { name } => {
                    names_survive = names_survive && (step.ended < names_until || survives(dice, harshness));
                    if names_survive {
                        names.remove(name);
                    }
                }
                Change::SyncFile { .. } | Change::SyncFolder => {}
            }
        }
        names.into_iter().map(|(name, file)| (name, std::mem::take(&mut contents[file]))).collect()
    }

    /// The line before which everything done to each file is durable, and the same for names.
    fn certain(&self, line: usize, believes: Believes) -> (Vec<usize>, usize) {
        let (mut files, mut names) = (vec![0; self.files], 0);
        for step in self.steps.iter().filter(|step| step.ended < line) {
            match &step.change {
                Change::SyncFile { file, name } if believes(name) => {
                    files[*file] = files[*file].max(step.began)
                }
                Change::SyncFolder => names = names.max(step.began),
                _ => {}
            }
        }
        (files, names)
    }
}

fn index(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

fn survives(dice: &mut Dice, harshness: Harshness) -> bool {
    match harshness {
        Harshness::Nothing => false,
        Harshness::Everything => true,
        Harshness::Some | Harshness::Torn => dice.once_in(2),
    }
}

fn write(content: &mut Vec<u8>, at: u64, bytes: &[u8], certain: bool, dice: &mut Dice, harshness: Harshness) {
    let at = index(at);
    if certain || (harshness != Harshness::Torn && survives(dice, harshness)) {
        put(content, at, bytes);
        return;
    }
    if harshness != Harshness::Torn {
        return;
    }
    match dice.below(4) {
        0 => {}
        1 => put(content, at, bytes),
        2 => put(content, at, &bytes[..sector_end(at, bytes.len(), dice)]),
        _ => put_some_sectors(content, at, bytes, dice),
    }
}

/// How many bytes of a write there are up to some boundary between sectors.
fn sector_end(at: usize, length: usize, dice: &mut Dice) -> usize {
    let sectors = (at + length).div_ceil(SECTOR) - at / SECTOR;
    ((at / SECTOR + dice.below(sectors + 1)) * SECTOR).saturating_sub(at).min(length)
}

fn put_some_sectors(content: &mut Vec<u8>, at: usize, bytes: &[u8], dice: &mut Dice) {
    let mut from = 0;
    while from < bytes.len() {
        let to = ((at + from) / SECTOR + 1) * SECTOR - at;
        let to = to.min(bytes.len());
        if dice.once_in(2) {
            put(content, at + from, &bytes[from..to]);
        }
        from = to;
    }
}

fn put(content: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    if content.len() < at + bytes.len() {
        content.resize(at + bytes.len(), 0);
    }
    content[at..at + bytes.len()].copy_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(events: &[What]) -> Disk {
        let mut disk = Disk::new("/s");
        for (line, what) in events.iter().enumerate() {
            disk.add(&Event { began: line, ended: line, what: what.clone() }).unwrap();
        }
        disk
    }

    fn opened(name: &str) -> What {
        What::Opened { path: format!("/s/{name}"), flags: "O_RDWR|O_CREAT".into(), descriptor: 3 }
    }

    fn wrote(name: &str, at: Option<u64>, bytes: &[u8]) -> What {
        What::Wrote { path: format!("/s/{name}"), descriptor: 3, at, bytes: bytes.to_vec() }
    }

    fn synced(path: &str) -> What {
        What::Synced { path: path.into() }
    }

    fn after(disk: &Disk, line: usize, harshness: Harshness) -> BTreeMap<String, Vec<u8>> {
        disk.after_cut(line, &mut Dice::new(1), harshness, |_| true)
    }

    #[test]
    fn only_what_was_synced_is_certain() {
        let disk = disk(&[
            opened("a"),
            wrote("a", Some(0), b"one"),
            synced("/s/a"),
            synced("/s"),
            wrote("a", Some(3), b"two"),
            opened("b"),
        ]);
        assert_eq!(after(&disk, 3, Harshness::Nothing).len(), 0, "the name is not durable yet");
        assert_eq!(after(&disk, 9, Harshness::Nothing)["a"], b"one");
        assert_eq!(after(&disk, 9, Harshness::Everything)["a"], b"onetwo");
        assert!(!after(&disk, 9, Harshness::Nothing).contains_key("b"));
        assert!(after(&disk, 9, Harshness::Everything).contains_key("b"));
        let distrusted = disk.after_cut(9, &mut Dice::new(1), Harshness::Nothing, |_| false);
        assert_eq!(distrusted["a"], b"", "a disk that lies about its syncs has nothing");
    }

    #[test]
    fn a_sync_covers_only_what_ended_before_it_began() {
        let mut disk = disk(&[opened("a"), synced("/s")]);
        let mut add = |began, ended, what| disk.add(&Event { began, ended, what }).unwrap();
        add(2, 5, wrote("a", Some(0), b"late"));
        add(3, 6, synced("/s/a"));
        assert_eq!(after(&disk, 9, Harshness::Nothing)["a"], b"");
    }

    #[test]
    fn a_removed_name_may_come_back_with_what_it_had() {
        let disk = disk(&[
            opened("a"),
            wrote("a", Some(0), b"old"),
            synced("/s/a"),
            synced("/s"),
            What::Removed { path: "/s/a".into() },
        ]);
        assert_eq!(after(&disk, 9, Harshness::Nothing)["a"], b"old");
        assert!(after(&disk, 9, Harshness::Everything).is_empty());
    }

    #[test]
    fn a_torn_write_ends_at_sectors() {
        let page: Vec<u8> = vec![7; 4096];
        let disk = disk(&[opened("a"), synced("/s"), wrote("a", Some(100), &page)]);
        let mut lengths = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let image = disk.after_cut(9, &mut Dice::new(seed), Harshness::Torn, |_| true);
            let content = &image["a"];
            assert!(
                content.is_empty() || content.len() == 4196 || content.len().is_multiple_of(SECTOR),
                "{}",
                content.len()
            );
            lengths.insert(content.len());
        }
        assert!(lengths.len() > 5, "{lengths:?}");
    }

    #[test]
    fn writes_without_a_place_follow_each_other() {
        let disk = disk(&[opened("a"), synced("/s"), wrote("a", None, b"one"), wrote("a", None, b"two")]);
        assert_eq!(after(&disk, 9, Harshness::Everything)["a"], b"onetwo");
        let shared = What::Unknown { path: "/s/a-shm".into(), call: "mmap".into() };
        let mut disk = disk;
        disk.add(&Event { began: 4, ended: 4, what: shared }).unwrap();
        let mapped = What::Unknown { path: "/s/a".into(), call: "mmap".into() };
        assert!(disk.add(&Event { began: 5, ended: 5, what: mapped }).is_err());
    }
}
