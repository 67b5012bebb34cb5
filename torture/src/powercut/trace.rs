//! Reading what `strace` wrote down: which process wrote and synced what, in which order.
//!
//! All text is expected in hexadecimal (`-xx`) and file descriptors with their paths (`-y`). A call that another thread's
//! line interrupts comes in two parts; it began with the first and ended with the second. `strace` sees one event at a
//! time, so the order of the lines is an order of events: what is caused by the end of a call comes after it.

use std::collections::HashMap;

use anyhow::{Context as _, Result, bail};

/// The calls that are traced: everything that can change a file or make it durable.
pub const CALLS: &str = "?open,?openat,?openat2,?creat,?write,?writev,?pwrite64,?pwritev,?pwritev2,?fsync,?fdatasync,\
                         ?sync_file_range,?msync,?ftruncate,?truncate,?fallocate,?rename,?renameat,?renameat2,?link,\
                         ?linkat,?unlink,?unlinkat,?lseek,?mmap,?copy_file_range,?sendfile,?mkdir,?mkdirat";

/// A system call that succeeded, between two lines of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The line where it began.
    pub began: usize,
    /// The line where it ended.
    pub ended: usize,
    /// What it did.
    pub what: What,
}

/// What a system call did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A file was opened, and perhaps created.
    Opened {
        /// Its path.
        path: String,
        /// The flags as they are written.
        flags: String,
        /// The descriptor.
        descriptor: u64,
    },
    /// Bytes were written; without a place, where the descriptor stood.
    Wrote {
        /// The file's path.
        path: String,
        /// The descriptor.
        descriptor: u64,
        /// Where, if the call said so.
        at: Option<u64>,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The descriptor was moved.
    Moved {
        /// The descriptor.
        descriptor: u64,
        /// Where it stands now.
        to: u64,
    },
    /// The file was cut or extended to a length.
    Resized {
        /// The file's path.
        path: String,
        /// The length.
        length: u64,
    },
    /// The file has at least this length now.
    Allocated {
        /// The file's path.
        path: String,
        /// The length.
        length: u64,
    },
    /// The file, or the folder, was synced.
    Synced {
        /// Its path.
        path: String,
    },
    /// A name was given to another file's place.
    Renamed {
        /// The former name.
        from: String,
        /// The present one.
        to: String,
    },
    /// A name was removed.
    Removed {
        /// Its path.
        path: String,
    },
    /// Something was done to this file that the model does not know.
    Unknown {
        /// Its path.
        path: String,
        /// The call.
        call: String,
    },
}

/// Reads a whole trace; lines are counted from `first`.
pub fn read(text: &str, first: usize) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    let mut begun: HashMap<&str, (usize, &str)> = HashMap::new();
    for (number, line) in text.lines().enumerate() {
        let number = number + first;
        let Some((process, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        if let Some(start) = rest.strip_suffix(" <unfinished ...>") {
            begun.insert(process, (number, start));
            continue;
        }
        let event = match rest.strip_prefix("<... ") {
            Some(resumed) => {
                let (_, end) = resumed.split_once(" resumed>").context("a call that goes on has a name")?;
                let Some((began, start)) = begun.remove(process) else { continue };
                call(&format!("{start}{end}"), began, number)
            }
            None => call(rest, number, number),
        };
        events.extend(event.with_context(|| format!("line {number} of the trace"))?);
    }
    Ok(events)
}

/// One call that succeeded and matters.
fn call(text: &str, began: usize, ended: usize) -> Result<Option<Event>> {
    let Some((name, rest)) = text.split_once('(') else { return Ok(None) };
    let Some((arguments, result)) = rest.rsplit_once(" = ") else { return Ok(None) };
    if name.starts_with(['+', '-']) || result.starts_with(['-', '?']) {
        return Ok(None);
    }
    let arguments = arguments.trim_end().strip_suffix(')').context("a call ends with a parenthesis")?;
    let arguments: Vec<&str> = arguments.split(", ").collect();
    let what = what(name, &arguments, result)?;
    Ok(what.map(|what| Event { began, ended, what }))
}

fn what(name: &str, arguments: &[&str], result: &str) -> Result<Option<What>> {
    let argument =
        |at: usize| arguments.get(at).copied().with_context(|| format!("{name} has too few arguments"));
    let first = argument(0)?;
    Ok(Some(match name {
        "open" | "openat" | "openat2" | "creat" => {
            let (descriptor, path) = descriptor(result)?;
            let flags = match name {
                "open" => argument(1)?,
                "creat" => "O_CREAT|O_TRUNC",
                _ => argument(2)?,
            };
            What::Opened { path, flags: flags.to_owned(), descriptor }
        }
        "write" | "pwrite64" => {
            let (descriptor, path) = descriptor(first)?;
            let mut bytes = bytes(argument(1)?)?;
            bytes.truncate(usize::try_from(number(result)?)?);
            let at = if name == "pwrite64" { Some(number(argument(3)?)?) } else { None };
            What::Wrote { path, descriptor, at, bytes }
        }
        "lseek" => What::Moved { descriptor: descriptor(first)?.0, to: number(result)? },
        "ftruncate" => What::Resized { path: descriptor(first)?.1, length: number(argument(1)?)? },
        "truncate" => What::Resized { path: path(first)?, length: number(argument(1)?)? },
        "fallocate" if argument(1)? == "0" => {
            let length = number(argument(2)?)? + number(argument(3)?)?;
            What::Allocated { path: descriptor(first)?.1, length }
        }
        // A sync that was only pretended has made nothing durable.
        "fsync" | "fdatasync" if result.contains("INJECTED") => return Ok(None),
        "fsync" | "fdatasync" => What::Synced { path: descriptor(first)?.1 },
        "rename" => What::Renamed { from: path(first)?, to: path(argument(1)?)? },
        "renameat" | "renameat2" => {
            let (from, to) = (at_folder(first, argument(1)?)?, at_folder(argument(2)?, argument(3)?)?);
            What::Renamed { from, to }
        }
        "unlink" => What::Removed { path: path(first)? },
        "unlinkat" => What::Removed { path: at_folder(first, argument(1)?)? },
        "mmap" => return mapped(arguments),
        // Folders that are made lie above the store's, or are the store's: it has none inside.
        "mkdir" | "mkdirat" => return Ok(None),
        other => {
            let descriptors = arguments.iter().filter_map(|argument| descriptor(argument).ok());
            let paths = arguments.iter().filter_map(|argument| path(argument).ok());
            let touched = descriptors.map(|(_, path)| path).chain(paths).collect::<Vec<_>>().join(" ");
            What::Unknown { path: touched, call: other.to_owned() }
        }
    }))
}

/// A file that is mapped to be written changes without a call; only what is private or read is no matter.
fn mapped(arguments: &[&str]) -> Result<Option<What>> {
    let [_, _, protection, flags, mapped, ..] = arguments[..] else { return Ok(None) };
    if !protection.contains("PROT_WRITE") || !flags.contains("MAP_SHARED") {
        return Ok(None);
    }
    Ok(descriptor(mapped).ok().map(|(_, path)| What::Unknown { path, call: "mmap".to_owned() }))
}

/// `5<\x2f…>`: a descriptor and the path behind it.
fn descriptor(text: &str) -> Result<(u64, String)> {
    let (number, rest) = text.split_once('<').with_context(|| format!("{text:?} is no descriptor"))?;
    let (path, _) = rest.split_once('>').context("a descriptor's path has an end")?;
    Ok((number.parse()?, decode(path)?))
}

fn path(text: &str) -> Result<String> {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    decode(inner.with_context(|| format!("{text:?} is no path"))?)
}

/// A path that may be relative to a folder's descriptor.
fn at_folder(folder: &str, name: &str) -> Result<String> {
    let name = path(name)?;
    if name.starts_with('/') {
        return Ok(name);
    }
    let (_, rest) = folder.split_once('<').context("a folder is a descriptor")?;
    let (folder, _) = rest.split_once('>').context("a descriptor's path has an end")?;
    Ok(format!("{}/{name}", decode(folder)?))
}

fn number(text: &str) -> Result<u64> {
    let digits: &str = text.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().with_context(|| format!("{text:?} is no number"))
}

fn bytes(text: &str) -> Result<Vec<u8>> {
    if text.ends_with("...") {
        bail!("strace has cut off what was written");
    }
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).context("bytes are quoted")?;
    let mut decoded = Vec::with_capacity(inner.len() / 4);
    for escaped in inner.as_bytes().chunks(4) {
        let [b'\\', b'x', high, low] = escaped else { bail!("bytes are in hexadecimal") };
        let digit = |byte: &u8| char::from(*byte).to_digit(16).context("bytes are in hexadecimal");
        decoded.push(u8::try_from(digit(high)? * 16 + digit(low)?)?);
    }
    Ok(decoded)
}

fn decode(text: &str) -> Result<String> {
    if !text.starts_with("\\x") {
        return Ok(text.to_owned());
    }
    Ok(String::from_utf8_lossy(&bytes(&format!("\"{text}\""))?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_with_calls_that_were_interrupted() {
        let text = concat!(
            "7  openat(AT_FDCWD<\\x2f>, \"\\x2f\\x66\", O_RDWR|O_CREAT|O_CLOEXEC, 0644) = 3<\\x2f\\x66>\n",
            "7  pwrite64(3<\\x2f\\x66>, \"\\x61\\x00\\xff\", 3, 4096 <unfinished ...>\n",
            "8  fdatasync(3<\\x2f\\x66>) = 0 (INJECTED)\n",
            "7  <... pwrite64 resumed>) = 2\n",
            "7  fsync(3<\\x2f\\x66>)     = 0\n",
            "7  ftruncate(3<\\x2f\\x66>, 3) = 0\n",
            "7  unlink(\"\\x2f\\x67\") = -1 ENOENT (No such file or directory)\n",
            "7  unlink(\"\\x2f\\x66\") = 0\n",
            "7  +++ exited with 0 +++\n",
        );
        let events = read(text, 100).unwrap();
        let path = "/f".to_owned();
        let wrote = What::Wrote { path: path.clone(), descriptor: 3, at: Some(4096), bytes: vec![0x61, 0] };
        assert_eq!(events[1], Event { began: 101, ended: 103, what: wrote });
        assert_eq!(events[2].what, What::Synced { path: path.clone() }, "the pretended sync is none");
        assert_eq!(events[3].what, What::Resized { path: path.clone(), length: 3 });
        assert_eq!(events[4].what, What::Removed { path }, "the failed one is not there");
        assert_eq!(events.len(), 5);
    }

    #[test]
    fn what_the_model_does_not_know_is_named() {
        let text = concat!(
            "7  mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 3<\\x2f\\x66>, 0) = 0x7f00\n",
            "7  mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3<\\x2f\\x66>, 0) = 0x7f00\n",
            "7  pwritev(3<\\x2f\\x66>, [{iov_base=\"\\x61\", iov_len=1}], 1, 0) = 1\n",
        );
        let calls: Vec<What> = read(text, 0).unwrap().into_iter().map(|event| event.what).collect();
        let unknown = |call: &str| What::Unknown { path: "/f".to_owned(), call: call.to_owned() };
        assert_eq!(calls, [unknown("mmap"), unknown("pwritev")]);
    }

    #[test]
    fn bytes_that_were_cut_off_are_an_error() {
        assert!(read("7  write(1<\\x70>, \"\\x61\"..., 100) = 100\n", 0).is_err());
    }
}
