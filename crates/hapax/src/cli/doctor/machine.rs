//! What `hapax doctor` looks at on this machine: disk and file descriptors.

use std::path::Path;

use rustix::fs::{statfs, statvfs};
use rustix::process::{Resource, getrlimit};

use super::Check;
use crate::limits;

/// File systems whose locks or syncs SQLite cannot rely on, by the number that `statfs` gives.
const SHARED: &[(i64, &str)] =
    &[(0x6969, "NFS"), (0x517B, "SMB"), (0xFF53_4D42, "CIFS"), (0xFE53_4D42, "SMB2"), (0x0102_1997, "9P")];
/// `tmpfs`
const IN_MEMORY: i64 = 0x0102_1994;

/// Where a folder is, and how much room is left there; below so many bytes nothing is granted.
pub(super) fn disk(folder: &Path, needed: u64) -> Vec<Check> {
    [file_system(folder), space(folder, needed)].into_iter().flatten().collect()
}

fn file_system(folder: &Path) -> Option<Check> {
    let what = "file system";
    #[allow(clippy::useless_conversion, reason = "the number's type differs between machines")]
    let kind = i64::try_from(statfs(folder).ok()?.f_type).ok()?;
    Some(match SHARED.iter().find(|(number, _)| *number == kind) {
        Some((_, name)) => {
            let found =
                format!("the folder is on {name}, where SQLite's locks and syncs cannot be relied on");
            Check::fail(what, found, "keep the store on a disk of this machine, or use PostgreSQL")
        }
        None if kind == IN_MEMORY => Check::warn(
            what,
            "the folder is in memory (tmpfs)",
            "it is gone when the machine restarts: use a disk",
        ),
        None => Check::ok(what, "a disk of this machine"),
    })
}

fn space(folder: &Path, needed: u64) -> Option<Check> {
    let what = "free disk space";
    let stat = statvfs(folder).ok()?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let found = format!("{} MiB", free >> 20);
    Some(judged(what, free, found, (needed, limits::DISK_WANTED.max(needed)), |needed| {
        format!("below {} MiB new claims are refused; make room", needed >> 20)
    }))
}

/// How many files and connections a process may have open.
pub(super) fn files() -> Check {
    let what = "file descriptors";
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let found = if limit == u64::MAX { "no limit".to_owned() } else { format!("at most {limit}") };
    judged(what, limit, found, (limits::FILES_NEEDED, limits::FILES_WANTED), |_| {
        format!(
            "for the default of 20,000 connections raise it: `ulimit -n {0}`, or LimitNOFILE={0} with systemd",
            limits::FILES_WANTED
        )
    })
}

fn judged(
    what: &'static str,
    there: u64,
    found: String,
    (needed, wanted): (u64, u64),
    remedy: impl Fn(u64) -> String,
) -> Check {
    match there {
        there if there < needed => Check::fail(what, found, remedy(needed)),
        there if there < wanted => Check::warn(what, found, remedy(needed)),
        _ => Check::ok(what, found),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn too_little_fails_and_little_warns() {
        let level = |there| judged("disk", there, String::new(), (10, 100), |_| String::new()).level;
        assert_eq!(
            (level(9), level(10), level(99), level(100)),
            (Level::Fail, Level::Warn, Level::Warn, Level::Ok)
        );
    }
}
