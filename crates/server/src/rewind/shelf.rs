//! Copies of files, in the directory of their session, named by what is in them: so a copy that is torn is recognised, and
//! the same contents are kept once.
#![expect(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use baton_agent::tools::beneath::{Directory, Unusable};
use baton_protocol::event::Preimage;
use ring::digest::{Context, SHA256};

/// The largest file that is kept.
const LARGEST: u64 = 8 << 20;
/// How much is kept for one session.
const CAPACITY: u64 = 256 << 20;

/// See the module. All of it may block.
#[derive(Debug, Clone)]
pub(crate) struct Shelf {
    pub(super) directory: PathBuf,
}

/// What a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Now {
    Absent,
    /// A plain file, by the digest of what is in it.
    File(String),
    /// Something else, or something that cannot be read.
    Other,
}

impl Now {
    pub(crate) fn of(path: &Path) -> Self {
        match open(path) {
            Err(error) if is_absent(&error) => Self::Absent,
            opened => opened.and_then(digest_of).map_or(Self::Other, Self::File),
        }
    }

    /// Whether that is what the file was then.
    pub(crate) fn is(&self, before: &Preimage) -> bool {
        match (self, before) {
            (Self::Absent, Preimage::Absent) => true,
            (Self::File(now), Preimage::Kept { digest, .. }) => now == digest,
            _ => false,
        }
    }
}

impl Shelf {
    /// The one of the session whose directory this is.
    pub(crate) fn of(session: &Path) -> Self {
        Self { directory: session.join("rewind") }
    }

    /// Keeps a file as it is now. What cannot be kept is said to be so: that is no reason not to work on it. A copy that was
    /// not there before is added to those that were made.
    pub(crate) fn keep(&self, path: &Path, made: &mut BTreeSet<String>) -> Preimage {
        self.try_keep(path, made).unwrap_or_else(|error| Preimage::NotKept { why: error.to_string() })
    }

    fn try_keep(&self, path: &Path, made: &mut BTreeSet<String>) -> io::Result<Preimage> {
        let file = match open(path) {
            Err(error) if is_absent(&error) => return Ok(Preimage::Absent),
            Err(error) if Unusable::of(&error).is_some() => {
                return Err(io::Error::other("it is not a plain file"));
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
        self.put(&digest, &contents)?;
        if is_new {
            made.insert(digest.clone());
        }
        let mode = metadata.permissions().mode() & 0o7777;
        Ok(Preimage::Kept { digest, size: contents.len() as u64, mode })
    }

    /// Stores a copy so that it is there as a whole or not at all, whatever happens to the machine.
    fn put(&self, digest: &str, contents: &[u8]) -> io::Result<()> {
        let path = self.directory.join(digest);
        if fs::metadata(&path).is_ok_and(|known| known.len() == contents.len() as u64) {
            return Ok(());
        }
        baton_private::create_dir_all(&self.directory)?;
        if self.size()?.saturating_add(contents.len() as u64) > CAPACITY {
            let full = format!("this session keeps {} MiB of earlier files already", CAPACITY >> 20);
            return Err(io::Error::other(full));
        }
        let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
        file.write_all(contents)?;
        file.as_file().sync_data()?;
        file.persist(path)?;
        File::open(&self.directory)?.sync_all()
    }

    fn size(&self) -> io::Result<u64> {
        let entries = fs::read_dir(&self.directory)?;
        Ok(entries.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len())).sum())
    }

    /// What was kept, if it is still there as it was.
    pub(crate) fn get(&self, digest: &str) -> Option<Vec<u8>> {
        // A name from a history that came from elsewhere must not lead out of here.
        if !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut contents = Vec::new();
        let copy = Directory::trusted(&self.directory).and_then(|shelf| shelf.open(Path::new(digest)));
        copy.ok()?.take(LARGEST + 1).read_to_end(&mut contents).ok()?;
        (digest_of(contents.as_slice()).ok()? == digest).then_some(contents)
    }

    /// Forgets a copy that nobody can come back to.
    pub(crate) fn forget(&self, digest: &str) -> io::Result<()> {
        if self.get(digest).is_none() {
            return Ok(());
        }
        fs::remove_file(self.directory.join(digest))
    }
}

/// What was in a file, if it was text; nothing, if there was none.
pub(crate) fn text_of(shelf: &Shelf, before: &Preimage) -> Option<String> {
    match before {
        Preimage::Absent => Some(String::new()),
        Preimage::Kept { digest, .. } => String::from_utf8(shelf.get(digest)?).ok(),
        Preimage::NotKept { .. } => None,
    }
}

/// What is in a file now, if it is text and not too much of it; nothing, if there is none.
pub(crate) fn text_now(path: &Path) -> Option<String> {
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

/// How many lines came and went since then; none, where it is not about text.
pub(crate) fn lines_between(shelf: &Shelf, before: &Preimage, path: &Path) -> (u64, u64) {
    match (text_of(shelf, before), text_now(path)) {
        (Some(old), Some(new)) => baton_agent::tools::line_counts(&old, &new),
        _ => (0, 0),
    }
}

/// Where a path leads in the end, so that a file is known by one name; also one that does not exist yet.
pub(crate) fn resolve(path: &Path) -> PathBuf {
    let through_parent = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(through_parent).unwrap_or_else(|| path.to_owned())
}

/// Opens a plain file without following links: the paths that are kept have none.
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
    fn what_is_kept_comes_back_and_what_is_torn_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let (shelf, file) = (Shelf::of(dir.path()), dir.path().join("a.bin"));
        let mut made = BTreeSet::new();
        assert_eq!(shelf.keep(&file, &mut made), Preimage::Absent);
        fs::write(&file, [0, 159, 146, 150]).unwrap();
        let Preimage::Kept { digest, size: 4, .. } = shelf.keep(&file, &mut made) else { panic!("not kept") };
        assert_eq!(shelf.get(&digest).unwrap(), [0, 159, 146, 150]);
        fs::write(shelf.directory.join(&digest), [0, 159]).unwrap();
        assert_eq!(shelf.get(&digest), None, "a torn copy is no copy");
        assert_eq!(made, BTreeSet::from([digest.clone()]));
        made.clear();
        shelf.keep(&file, &mut made);
        assert!(shelf.get(&digest).is_some() && made.is_empty(), "and is made again, for who needed it");
        assert_eq!(shelf.get("../a.bin"), None);
    }

    #[test]
    fn what_is_no_plain_file_or_too_large_is_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (shelf, large) = (Shelf::of(dir.path()), dir.path().join("large"));
        File::create(&large).unwrap().set_len(LARGEST + 1).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        for path in [dir.path(), &large, &link] {
            assert!(matches!(shelf.keep(path, &mut BTreeSet::new()), Preimage::NotKept { .. }), "{path:?}");
        }
        assert_eq!(resolve(&dir.path().join("new")), dir.path().canonicalize().unwrap().join("new"));
    }
}
