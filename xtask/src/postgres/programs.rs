//! Finding PostgreSQL's server programs, and installing them where there are none.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};

use super::BIN_DIR_VAR;
use crate::debian;

/// Where Debian keeps the server programs, off the PATH, one directory per major version.
const DEBIAN_VERSIONS: &str = "/usr/lib/postgresql";
const NEEDED: [&str; 2] = ["initdb", "postgres"];
const BY_HAND: &str = "install PostgreSQL 15 or newer (Debian: apt-get install postgresql) or put its `initdb` and `postgres` on the PATH";

/// A directory that holds the server programs.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    bin_dir: PathBuf,
}

impl Programs {
    /// The directory of the programs.
    pub(crate) fn bin_dir(&self) -> &Path {
        &self.bin_dir
    }

    /// The programs of this machine; installs them when there are none.
    pub(crate) fn find_or_install() -> Result<Programs> {
        if let Some(named) = env::var_os(BIN_DIR_VAR) {
            let bin_dir = PathBuf::from(named);
            ensure!(
                has_all(&bin_dir),
                "{BIN_DIR_VAR} names {}, which has no `initdb` and `postgres`: correct or unset it",
                bin_dir.display()
            );
            return Ok(Programs { bin_dir });
        }
        if let Some(found) = Programs::find() {
            return Ok(found);
        }
        debian::install("PostgreSQL", "postgresql", BY_HAND)?;
        match Programs::find() {
            Some(found) => Ok(found),
            None => bail!("the package `postgresql` is installed but its programs are not found: {BY_HAND}"),
        }
    }

    fn find() -> Option<Programs> {
        let path = env::var_os("PATH").unwrap_or_default();
        let on_path = env::split_paths(&path).find(|dir| has_all(dir)).map(behind_links);
        let bin_dir = on_path.or_else(|| newest_under(Path::new(DEBIAN_VERSIONS)))?;
        Some(Programs { bin_dir })
    }
}

fn has_all(dir: &Path) -> bool {
    NEEDED.iter().all(|program| dir.join(program).is_file())
}

/// Where the programs really are: the PATH may hold links to some of them only, and tests need others, too.
fn behind_links(dir: PathBuf) -> PathBuf {
    let postgres = fs::canonicalize(dir.join("postgres")).ok();
    let real = postgres.as_deref().and_then(Path::parent).filter(|real| has_all(real));
    real.map_or(dir, Path::to_owned)
}

/// The `bin` of the highest version that is installed whole.
fn newest_under(versions: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(versions).ok()?;
    let installed = entries.flatten().filter_map(|entry| {
        let major: u32 = entry.file_name().to_str()?.parse().ok()?;
        let bin_dir = entry.path().join("bin");
        has_all(&bin_dir).then_some((major, bin_dir))
    });
    installed.max_by_key(|(major, _)| *major).map(|(_, bin_dir)| bin_dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_on_the_path_lead_to_the_whole_directory() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let (real, links) = (dir.join("real"), dir.join("links"));
        fs::create_dir(&real).unwrap();
        fs::create_dir(&links).unwrap();
        for program in NEEDED {
            fs::write(real.join(program), "").unwrap();
            std::os::unix::fs::symlink(real.join(program), links.join(program)).unwrap();
        }
        assert_eq!(behind_links(links), real);
        assert_eq!(behind_links(real.clone()), real);
    }

    #[test]
    fn the_newest_whole_version_is_taken_by_number_not_by_text() {
        let versions = tempfile::tempdir().unwrap();
        for (version, programs) in [("9", &NEEDED[..]), ("15", &NEEDED[..]), ("17", &NEEDED[..1])] {
            let bin_dir = versions.path().join(version).join("bin");
            fs::create_dir_all(&bin_dir).unwrap();
            for program in programs {
                fs::write(bin_dir.join(program), "").unwrap();
            }
        }
        assert_eq!(newest_under(versions.path()), Some(versions.path().join("15/bin")));
        assert_eq!(newest_under(&versions.path().join("none")), None);
    }
}
