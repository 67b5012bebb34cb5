//! The files of a backup: as they are, or sealed.
//!
//! A sealed file is a row of pieces, each with its length in front. A piece is bound to the backup, the file, its place and whether it is
//! the last one: pieces that were left out, exchanged, or taken from another backup do not open.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use hapax_core::Error;
use hapax_exec::Seal;

use super::cannot;
use super::manifest::{Packed, Sum};
use crate::limits;

/// One backup, and what seals it.
#[derive(Clone, Copy)]
pub(super) struct Envelope<'a> {
    /// The backup's id.
    pub(super) id: &'a str,
    /// The keys, where it is sealed.
    pub(super) seal: Option<&'a Seal>,
}

/// A new file that only its user can read.
pub(super) fn new_file(path: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(path);
    file.map_err(|error| cannot("the backup cannot be written", path, &error))
}

impl Envelope<'_> {
    /// Writes a file of the backup, synced. `length` is how many bytes come.
    pub(super) fn pack(
        &self,
        name: &str,
        (from, length): (&mut impl Read, u64),
        to: &Path,
        mut progress: impl FnMut(u64),
    ) -> Result<Packed, Error> {
        let broken = |error: &std::io::Error| cannot("the backup cannot be written", to, error);
        let mut file = new_file(to)?;
        let (mut sum, mut bytes, mut done) = (Sum::new(), 0, 0);
        let mut put = |part: &[u8]| {
            sum.add(part);
            bytes += part.len() as u64;
            file.write_all(part)
        };
        for number in 0.. {
            let piece = (length - done).min(limits::BACKUP_PIECE);
            let mut plain = vec![0; usize::try_from(piece).unwrap_or_default()];
            from.read_exact(&mut plain).map_err(|error| broken(&error))?;
            done += piece;
            let is_last = done == length;
            match self.seal {
                None => put(&plain),
                Some(seal) => {
                    let sealed = seal.seal_bytes(&self.context(name, number, is_last), &plain);
                    let length = u32::try_from(sealed.len()).unwrap_or(u32::MAX);
                    put(&length.to_le_bytes()).and_then(|()| put(&sealed))
                }
            }
            .map_err(|error| broken(&error))?;
            progress(done);
            if is_last {
                break;
            }
        }
        file.sync_all().map_err(|error| broken(&error))?;
        Ok(Packed { name: name.to_owned(), bytes, sha256: sum.finish() })
    }

    /// Writes what a file of the backup holds. What is not as it was packed is refused, then with some of it written already.
    pub(super) fn unpack(
        &self,
        packed: &Packed,
        from: &Path,
        to: &mut impl Write,
        mut progress: impl FnMut(u64),
    ) -> Result<(), Error> {
        let mut file = Packing::open(packed, from)?;
        for number in 0.. {
            let left = packed.bytes - file.done;
            let plain = match self.seal {
                None => file.take(left.min(limits::BACKUP_PIECE))?,
                Some(seal) => {
                    let head = file.take(4)?;
                    let length = head.try_into().map(u32::from_le_bytes).unwrap_or_default();
                    if u64::from(length) > limits::BACKUP_PIECE + limits::SEALED_MORE {
                        return Err(changed(packed));
                    }
                    let sealed = file.take(u64::from(length))?;
                    let is_last = file.done == packed.bytes;
                    let opened = seal.open_bytes(&self.context(&packed.name, number, is_last), &sealed);
                    opened.map_err(|error| changed(packed).with_detail(format_args!("{error:#}")))?.to_vec()
                }
            };
            let unwritten =
                |error| Error::unavailable("what is in the backup cannot be written").with_detail(error);
            to.write_all(&plain).map_err(|error: std::io::Error| unwritten(error.to_string()))?;
            progress(file.done);
            if file.done == packed.bytes {
                break;
            }
        }
        file.finish()
    }

    fn context(&self, name: &str, number: u64, is_last: bool) -> Vec<u8> {
        format!("hapax.backup.file\0{}\0{name}\0{number}\0{is_last}", self.id).into_bytes()
    }
}

/// A file of a backup that is being read.
struct Packing<'a> {
    packed: &'a Packed,
    path: &'a Path,
    file: File,
    sum: Sum,
    done: u64,
}

impl<'a> Packing<'a> {
    /// Opens one that has the length it should have.
    fn open(packed: &'a Packed, path: &'a Path) -> Result<Self, Error> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::corrupt(format!(
                    "the backup was cut short: {} is not there",
                    packed.name
                )));
            }
            Err(error) => return Err(cannot("the backup cannot be read", path, &error)),
        };
        let length =
            file.metadata().map_err(|error| cannot("the backup cannot be read", path, &error))?.len();
        if length != packed.bytes {
            let text = format!(
                "the backup was cut short or changed: {} has {length} bytes instead of {}",
                packed.name, packed.bytes
            );
            return Err(Error::corrupt(text));
        }
        Ok(Packing { packed, path, file, sum: Sum::new(), done: 0 })
    }

    fn take(&mut self, length: u64) -> Result<Vec<u8>, Error> {
        if length > self.packed.bytes - self.done {
            return Err(changed(self.packed));
        }
        let mut part = vec![0; usize::try_from(length).unwrap_or_default()];
        self.file
            .read_exact(&mut part)
            .map_err(|error| cannot("the backup cannot be read", self.path, &error))?;
        self.sum.add(&part);
        self.done += length;
        Ok(part)
    }

    fn finish(self) -> Result<(), Error> {
        match self.sum.finish() == self.packed.sha256 {
            true => Ok(()),
            false => Err(changed(self.packed)),
        }
    }
}

fn changed(packed: &Packed) -> Error {
    Error::corrupt(format!("the backup was changed: {} is not what was written", packed.name))
}
