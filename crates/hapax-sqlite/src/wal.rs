//! A look at the write-ahead log before SQLite replays it.
//!
//! SQLite replays the log up to the first frame whose checksum is wrong and silently drops the rest: right
//! for a write that a power cut tore, wrong for a log that was damaged later. The two can be told apart.
//! Every commit is synced before the next one is written, so a torn write is at the end: behind the first bad
//! frame there is at most one commit. Two or more mean that something durable was damaged. The remaining
//! case, damage within the very last commit, shows in the [`Mark`](super::folder::Mark) unless the machine
//! lost its power as well.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

use hapax_core::Error;

use super::fault::damaged;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// Refuses a log that was damaged after it had been synced. A missing or empty log is fine.
pub(super) fn check(path: &Path) -> Result<(), Error> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unreadable(path, &error)),
    };
    let mut log = BufReader::with_capacity(1 << 20, file);
    let mut header = [0; HEADER];
    match read_whole(&mut log, &mut header) {
        Ok(true) => {}
        Ok(false) => return Ok(()),
        Err(error) => return Err(unreadable(path, &error)),
    }
    let Some(walk) = Walk::start(&header) else {
        // A log that was just begun when the power failed may be all zeros.
        if header.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        return Err(damaged(format_args!("{}: the log's header", path.display())));
    };
    match walk.run(&mut log) {
        Ok(found) if found.commits_behind < 2 => Ok(()),
        Ok(found) => Err(damaged(format_args!(
            "{}: frame {} of the log is bad and {} commits follow it",
            path.display(),
            found.good,
            found.commits_behind
        ))),
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// The sums and salts while walking through the frames.
struct Walk {
    big_endian: bool,
    page: usize,
    salts: [u8; 8],
    sums: [u32; 2],
}

struct Found {
    /// Frames before the first bad one.
    good: u64,
    /// Commit frames of this log behind it.
    commits_behind: u64,
}

impl Walk {
    fn start(header: &[u8; HEADER]) -> Option<Walk> {
        let word =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let page = usize::try_from(word(8)).ok()?;
        let sized = page.is_power_of_two() && (512..=65_536).contains(&page);
        let mut salts = [0; 8];
        salts.copy_from_slice(&header[16..24]);
        let mut walk = Walk { big_endian: word(0) & 1 == 1, page, salts, sums: [0; 2] };
        walk.add(&header[..24]);
        (word(0) >> 1 == 0x377f_0682 >> 1 && sized && walk.sums == [word(24), word(28)]).then_some(walk)
    }

    fn run(mut self, log: &mut impl Read) -> std::io::Result<Found> {
        let mut frame = vec![0; FRAME_HEADER + self.page];
        let mut found = Found { good: 0, commits_behind: 0 };
        let mut sound = true;
        while read_whole(log, &mut frame)? {
            let (head, page) = frame.split_at(FRAME_HEADER);
            let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
            let ours = head[8..16] == self.salts;
            if sound {
                self.add(&head[..8]);
                self.add(page);
                sound = ours && self.sums == [word(16), word(20)];
                found.good += u64::from(sound);
            }
            if !sound && ours && word(4) != 0 {
                found.commits_behind += 1;
            }
        }
        Ok(found)
    }

    /// SQLite's checksum: two running sums over pairs of words.
    fn add(&mut self, bytes: &[u8]) {
        let [mut first, mut second] = self.sums;
        for pair in bytes.chunks_exact(8) {
            let (left, right) = pair.split_at(4);
            first = first.wrapping_add(self.word(left)).wrapping_add(second);
            second = second.wrapping_add(self.word(right)).wrapping_add(first);
        }
        self.sums = [first, second];
    }

    fn word(&self, bytes: &[u8]) -> u32 {
        let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }
}

/// Fills the buffer; `false` at the end of the file.
fn read_whole(from: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<bool> {
    match from.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    Error::unavailable("the store's log cannot be read")
        .with_detail(format_args!("{}: {error}", path.display()))
}
