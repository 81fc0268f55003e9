//! Snapshots of files, in the session directory, named by the digest of their content: a torn snapshot is recognised, and
//! equal content is stored once.
#![expect(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use baton_disk::beneath::{Directory, Unusable};
use baton_protocol::event::Preimage;
use ring::digest::{Context, SHA256};

/// Size limit of a snapshot.
const LARGEST: u64 = 8 << 20;
/// Size limit of all snapshots of a session.
const CAPACITY: u64 = 256 << 20;

/// Snapshots of one session. All methods block.
#[derive(Debug, Clone)]
pub struct Snapshots {
    pub(super) directory: PathBuf,
}

/// Current state of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileState {
    /// It does not exist.
    Absent,
    /// It is a regular file with this digest.
    File(String),
    /// It is not a regular file, or cannot be read.
    Other,
}

impl FileState {
    /// Reads the state of a file. Links are not followed.
    pub fn of(path: &Path) -> Self {
        match open(path) {
            Err(error) if is_absent(&error) => Self::Absent,
            opened => opened.and_then(digest_of).map_or(Self::Other, Self::File),
        }
    }

    /// Whether the file is as it was before a change.
    pub fn is(&self, before: &Preimage) -> bool {
        match (self, before) {
            (Self::Absent, Preimage::Absent) => true,
            (Self::File(now), Preimage::Kept { digest, .. }) => now == digest,
            _ => false,
        }
    }
}

impl Snapshots {
    /// Opens the snapshots in a session directory. Touches no file.
    pub(crate) fn of(session: &Path) -> Self {
        Self { directory: session.join("rewind") }
    }

    /// Takes a snapshot of a file, and adds its digest to `created` if it is new. A failure is part of the result: it must
    /// not keep a tool from working on the file.
    pub fn keep(&self, path: &Path, created: &mut BTreeSet<String>) -> Preimage {
        self.try_keep(path, created).unwrap_or_else(|error| Preimage::NotKept { why: error.to_string() })
    }

    fn try_keep(&self, path: &Path, created: &mut BTreeSet<String>) -> io::Result<Preimage> {
        let file = match open(path) {
            Err(error) if is_absent(&error) => return Ok(Preimage::Absent),
            Err(error) if Unusable::of(&error).is_some() => {
                return Err(io::Error::other("it is not a regular file"));
            }
            opened => opened?,
        };
        let metadata = file.metadata()?;
        let mut contents = Vec::new();
        file.take(LARGEST + 1).read_to_end(&mut contents)?;
        if contents.len() as u64 > LARGEST {
            return Err(io::Error::other(format!("it is larger than {} MiB", LARGEST >> 20)));
        }
        let digest = digest_of(contents.as_slice())?;
        let is_new = !self.directory.join(&digest).exists();
        self.write(&digest, &contents)?;
        if is_new {
            created.insert(digest.clone());
        }
        let mode = metadata.permissions().mode() & 0o7777;
        Ok(Preimage::Kept { digest, size: contents.len() as u64, mode })
    }

    /// Stores a snapshot atomically and durably.
    fn write(&self, digest: &str, contents: &[u8]) -> io::Result<()> {
        let path = self.directory.join(digest);
        if fs::metadata(&path).is_ok_and(|known| known.len() == contents.len() as u64) {
            return Ok(());
        }
        baton_disk::private::create_dir_all(&self.directory)?;
        if self.size()?.saturating_add(contents.len() as u64) > CAPACITY {
            let full = format!("the snapshots of this session exceed {} MiB", CAPACITY >> 20);
            return Err(io::Error::other(full));
        }
        baton_disk::private::replace_synced(path, contents)
    }

    fn size(&self) -> io::Result<u64> {
        let entries = fs::read_dir(&self.directory)?;
        Ok(entries.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len())).sum())
    }

    /// Reads a snapshot; none if it does not exist or is damaged.
    pub(crate) fn get(&self, digest: &str) -> Option<Vec<u8>> {
        // A digest from an imported history must not be a path that leads out of the directory.
        if !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut contents = Vec::new();
        let directory = Directory::trusted(&self.directory);
        let snapshot = directory.and_then(|directory| directory.open(Path::new(digest)));
        snapshot.ok()?.take(LARGEST + 1).read_to_end(&mut contents).ok()?;
        (digest_of(contents.as_slice()).ok()? == digest).then_some(contents)
    }

    /// Deletes a snapshot.
    ///
    /// # Errors
    /// When the file cannot be deleted.
    pub fn forget(&self, digest: &str) -> io::Result<()> {
        if self.get(digest).is_none() {
            return Ok(());
        }
        fs::remove_file(self.directory.join(digest))
    }
}

/// Returns the text of a file before a change; empty if the file did not exist, none if it was not text.
pub fn text_of(snapshots: &Snapshots, before: &Preimage) -> Option<String> {
    match before {
        Preimage::Absent => Some(String::new()),
        Preimage::Kept { digest, .. } => String::from_utf8(snapshots.get(digest)?).ok(),
        Preimage::NotKept { .. } => None,
    }
}

/// Reads the current text of a file; empty if the file does not exist, none if it is not text or too large.
pub fn text_now(path: &Path) -> Option<String> {
    let mut contents = Vec::new();
    match open(path) {
        Err(error) if is_absent(&error) => {}
        opened => drop(opened.ok()?.take(LARGEST + 1).read_to_end(&mut contents).ok()?),
    }
    if contents.len() as u64 > LARGEST {
        return None;
    }
    String::from_utf8(contents).ok()
}

/// Counts the lines that were added and removed since a change; none where either side is not text.
pub fn lines_between(snapshots: &Snapshots, before: &Preimage, path: &Path) -> (u64, u64) {
    match (text_of(snapshots, before), text_now(path)) {
        (Some(old), Some(new)) => baton_markup::diff::line_counts(&old, &new),
        _ => (0, 0),
    }
}

/// Opens a regular file without following links: the paths of snapshots are resolved.
pub(super) fn open(path: &Path) -> io::Result<File> {
    Directory::root()?.open(path)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn digest_of(mut contents: impl Read) -> io::Result<String> {
    let (mut context, mut buffer) = (Context::new(&SHA256), [0; 16 << 10]);
    loop {
        match contents.read(&mut buffer)? {
            0 => break,
            read => context.update(&buffer[..read]),
        }
    }
    Ok(context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_read_back_and_torn_ones_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (snapshots, file) = (Snapshots::of(dir.path()), dir.path().join("a.bin"));
        let mut created = BTreeSet::new();
        assert_eq!(snapshots.keep(&file, &mut created), Preimage::Absent);
        fs::write(&file, [0, 159, 146, 150]).unwrap();
        let Preimage::Kept { digest, size: 4, .. } = snapshots.keep(&file, &mut created) else {
            panic!("no snapshot")
        };
        assert_eq!(snapshots.get(&digest).unwrap(), [0, 159, 146, 150]);
        fs::write(snapshots.directory.join(&digest), [0, 159]).unwrap();
        assert_eq!(snapshots.get(&digest), None, "a torn snapshot does not count");
        assert_eq!(created, BTreeSet::from([digest.clone()]));
        created.clear();
        snapshots.keep(&file, &mut created);
        assert!(snapshots.get(&digest).is_some() && created.is_empty(), "it is replaced, and is not new");
        assert_eq!(snapshots.get("../a.bin"), None);
    }

    #[test]
    fn large_files_and_other_file_types_have_no_snapshots() {
        let dir = tempfile::tempdir().unwrap();
        let (snapshots, large) = (Snapshots::of(dir.path()), dir.path().join("large"));
        File::create(&large).unwrap().set_len(LARGEST + 1).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        for path in [dir.path(), &large, &link] {
            let before = snapshots.keep(path, &mut BTreeSet::new());
            assert!(matches!(before, Preimage::NotKept { .. }), "{path:?}");
        }
    }
}
