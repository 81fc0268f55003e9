//! Checkpoints of a session: summaries that compactions wrote, as files with an index. Users and the model can read them;
//! the conversation does not depend on them.
#![allow(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::io;
use std::path::{Path, PathBuf};

use baton_disk::beneath::Directory;
use serde::{Deserialize, Serialize};

const DIRECTORY: &str = "checkpoints";
const INDEX: &str = "index.md";
/// Size limit for reading a file.
const LARGEST: u64 = 16 << 20;
/// First line of the index.
const HEAD: &str = "# Checkpoints\n";
/// Length of the title in a file name, in characters.
const SLUG: usize = 40;

/// A checkpoint, as listed in the index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Number, from 1 on.
    pub number: u64,
    /// Title of the summary.
    pub title: String,
    /// Name of its file in the directory of checkpoints.
    pub filename: String,
}

impl Checkpoint {
    fn line(&self) -> String {
        format!("{}. [{}]({})", self.number, self.title, self.filename)
    }

    /// Parses a line of the index. Returns none for any other line, and for a file name that leaves the directory.
    fn parse(line: &str) -> Option<Self> {
        let (number, rest) = line.split_once(". [")?;
        let (title, filename) = rest.strip_suffix(')')?.rsplit_once("](")?;
        let plain = Path::new(filename).file_name().is_some_and(|name| name == filename);
        plain.then_some(())?;
        Some(Self { number: number.parse().ok()?, title: title.to_owned(), filename: filename.to_owned() })
    }
}

/// Checkpoints of one session. All methods block. No link is followed: commands of the session can create links here.
pub struct Checkpoints {
    session: PathBuf,
}

impl Checkpoints {
    /// Opens the checkpoints in a session directory. Touches no file.
    pub(crate) fn of(session: &Path) -> Self {
        Self { session: session.to_owned() }
    }

    fn read_file(&self, name: &str) -> io::Result<Option<String>> {
        let session = Directory::trusted(&self.session);
        absent_as_none(session.and_then(|session| session.read_to_string(&below(name), LARGEST)))
    }

    fn write_file(&self, name: &str, content: &str) -> io::Result<()> {
        baton_disk::private::create_dir_all(&self.session)?;
        let session = Directory::trusted(&self.session)?.private();
        session.write(&below(name), content.as_bytes()).map(drop)
    }

    /// Returns the path of a checkpoint's file.
    pub fn path(&self, checkpoint: &Checkpoint) -> PathBuf {
        self.session.join(below(&checkpoint.filename))
    }

    /// Lists the checkpoints, oldest first.
    ///
    /// # Errors
    /// When the index cannot be read. A missing index lists nothing.
    pub fn list(&self) -> io::Result<Vec<Checkpoint>> {
        let index = self.read_file(INDEX)?.unwrap_or_default();
        Ok(index.lines().filter_map(Checkpoint::parse).collect())
    }

    /// Reads the text of a checkpoint; none if there is no such checkpoint.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn read(&self, number: u64) -> io::Result<Option<String>> {
        let known = self.list()?.into_iter().find(|checkpoint| checkpoint.number == number);
        known.map_or(Ok(None), |known| self.read_file(&known.filename))
    }

    /// Writes a checkpoint, and adds it to the index under the next number.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub fn add(&self, title: &str, content: &str) -> io::Result<Checkpoint> {
        let mut known = self.list()?;
        let number = known.last().map_or(1, |last| last.number.saturating_add(1));
        let title = title.replace(['[', ']', '\n', '\r'], " ").trim().to_owned();
        let checkpoint = Checkpoint { number, filename: format!("{number:03}-{}.md", slug(&title)), title };
        self.write_file(&checkpoint.filename, content)?;
        known.push(checkpoint.clone());
        self.write_index(&known)?;
        Ok(checkpoint)
    }

    /// Deletes all checkpoints but the first `count`.
    ///
    /// # Errors
    /// When a file cannot be read, written or deleted.
    pub fn keep(&self, count: usize) -> io::Result<()> {
        let mut known = self.list()?;
        if known.len() <= count {
            return Ok(());
        }
        let session = Directory::trusted(&self.session)?;
        for checkpoint in known.split_off(count) {
            absent_as_none(session.remove(&below(&checkpoint.filename)))?;
        }
        self.write_index(&known)
    }

    fn write_index(&self, known: &[Checkpoint]) -> io::Result<()> {
        let lines = known.iter().map(|checkpoint| checkpoint.line() + "\n");
        self.write_file(INDEX, &std::iter::once(format!("{HEAD}\n")).chain(lines).collect::<String>())
    }
}

/// Returns the path of a checkpoint file, relative to the session directory.
fn below(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(name)
}

fn absent_as_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the form of a title for a file name.
fn slug(title: &str) -> String {
    let words = title.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let joined = words.map(str::to_lowercase).collect::<Vec<_>>().join("-");
    let short: String = joined.chars().take(SLUG).collect();
    if short.is_empty() { "checkpoint".into() } else { short.trim_end_matches('-').to_owned() }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn checkpoints_are_added_read_and_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::of(dir.path());
        assert_eq!((checkpoints.list().unwrap(), checkpoints.read(1).unwrap()), (vec![], None));
        let first = checkpoints.add("Fixed [the] ../bug", "one").unwrap();
        assert_eq!((first.number, first.filename.as_str()), (1, "001-fixed-the-bug.md"));
        checkpoints.add("", "two").unwrap();
        assert_eq!(checkpoints.read(2).unwrap().as_deref(), Some("two"));
        checkpoints.keep(1).unwrap();
        assert_eq!(checkpoints.list().unwrap(), [first]);
        assert!(!dir.path().join("checkpoints/002-checkpoint.md").exists());
        assert_eq!(checkpoints.add("again", "three").unwrap().number, 2);
    }

    #[test]
    fn index_entries_outside_the_directory_are_ignored() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("checkpoints")).unwrap();
        fs::write(dir.path().join("secret"), "s").unwrap();
        let lines = "1. [x](../secret)\nx. [y](a)\n2. [ok](a.md)\n3. [";
        fs::write(dir.path().join("checkpoints/index.md"), lines).unwrap();
        let known = Checkpoints::of(dir.path()).list().unwrap();
        assert_eq!(known.iter().map(|c| c.number).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("secret"), "s").unwrap();
        let checkpoints = Checkpoints::of(&dir.path().join("session"));
        let added = checkpoints.add("one", "first").unwrap();
        fs::remove_file(checkpoints.path(&added)).unwrap();
        std::os::unix::fs::symlink(dir.path().join("secret"), checkpoints.path(&added)).unwrap();
        assert!(checkpoints.read(added.number).is_err());
        let next = dir.path().join("session/checkpoints/002-two.md");
        std::os::unix::fs::symlink(dir.path().join("secret"), next).unwrap();
        assert!(checkpoints.add("two", "second").is_err());
        assert_eq!(fs::read_to_string(dir.path().join("secret")).unwrap(), "s");
    }
}
