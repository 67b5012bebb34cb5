//! The tracked files of the checkout, read into memory.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// Directories that hold no source, for a checkout that git cannot list.
const UNTRACKED_DIRS: [&str; 3] = [".git", "target", "data"];

/// Files by their path from the root, with `/`. A file that is no text has no content here.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Reads what git tracks, and what it would track: a new file is checked before it is committed.
    pub(crate) fn read(root: &Path) -> Result<Tree> {
        let paths = listed_by_git(root).map_or_else(|| walk(root), Ok)?;
        let mut files = BTreeMap::new();
        for path in paths {
            // Listed, but deleted or a link to nowhere: not there to be checked.
            if let Ok(bytes) = fs::read(root.join(&path)) {
                files.insert(path, String::from_utf8(bytes).ok());
            }
        }
        Ok(Tree { files })
    }

    /// Every path.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Every text file: path and content.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// Every Rust file.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| path.ends_with(".rs"))
    }

    /// Every Markdown file.
    pub(crate) fn markdown(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| path.ends_with(".md"))
    }

    /// One text file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Whether there is such a file, or a directory with a file in it.
    pub(crate) fn contains(&self, path: &str) -> bool {
        let dir = format!("{path}/");
        path.is_empty() || self.files.contains_key(path) || self.paths().any(|file| file.starts_with(&dir))
    }
}

/// `None` without git, outside of a repository, or when git distrusts its owner.
fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = git.output().ok().filter(|output| output.status.success())?;
    let list = String::from_utf8(output.stdout).ok()?;
    Some(list.split_terminator('\0').map(str::to_owned).collect())
}

fn walk(root: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    let mut dirs = vec![String::new()];
    while let Some(dir) = dirs.pop() {
        let entries = fs::read_dir(root.join(&dir)).with_context(|| format!("cannot list `{dir}`"))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot list `{dir}`"))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if dir.is_empty() { name } else { format!("{dir}/{name}") };
            if entry.file_type().with_context(|| format!("cannot read `{path}`"))?.is_dir() {
                if !UNTRACKED_DIRS.contains(&path.as_str()) {
                    dirs.push(path);
                }
            } else {
                files.push(path);
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
impl Tree {
    /// A made-up tree.
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), Some((*text).to_owned())));
        Tree { files: files.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkout_without_git_is_walked_without_its_build_output() {
        let root = tempfile::tempdir().unwrap();
        for file in ["Cargo.toml", "crates/a/src/lib.rs", "target/debug/a.rs", "crates/a/target/kept.rs"] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let tree = Tree { files: walk(root.path()).unwrap().into_iter().map(|path| (path, None)).collect() };
        assert_eq!(
            tree.paths().collect::<Vec<_>>(),
            ["Cargo.toml", "crates/a/src/lib.rs", "crates/a/target/kept.rs"]
        );
        assert!(tree.contains("crates/a") && !tree.contains("crates/b"));
    }

    #[test]
    fn the_checkout_has_this_file_and_no_build_output() {
        let tree = Tree::read(crate::workspace::root()).unwrap();
        assert!(tree.text("xtask/src/tidy/tree.rs").is_some());
        assert!(!tree.paths().any(|path| path.starts_with("target/")));
    }
}
