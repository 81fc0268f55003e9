//! The directory of a session as a copy of files that servers share.
//!
//! Tools and users work on real files, so a session has a directory wherever it runs. Where servers share sessions, a
//! [`SharedFiles`] has the truth: the directory is filled from it when the session is acquired, and its changes are sent
//! back before the events that tell of them are recorded. Files that a client keeps would be one more implementation of
//! [`SharedFiles`].
//!
//! The mirror is not copied, because it is written from the history; nor is anything but regular files.
#![allow(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use baton_disk::beneath::Directory;
use baton_protocol::SessionId;
use baton_store::shared_files::{FileChange, SharedFile, SharedFiles};
use baton_store::{Lease, StoreError};
use bytes::Bytes;
use ring::digest::{SHA256, digest};

/// Size limit of a shared file. The largest snapshot, and the largest database of the session's tools, are smaller.
const LARGEST: u64 = 32 << 20;
/// Limit of the number of shared files.
const MOST: usize = 4096;
/// Changes are sent in groups of about this many bytes.
const GROUP: usize = 8 << 20;

/// The database of the session's tools.
const DATABASE: &str = "session.db";
/// Journals of the database.
const JOURNALS: [&str; 3] = ["session.db-journal", "session.db-wal", "session.db-shm"];
/// Other names in the directory that are not shared: the mirror.
const MIRROR: [&str; 2] = ["events.jsonl", "workspace.yaml"];

/// What is known about the directory of one session: which files are shared, with which content.
#[derive(Debug, Default)]
pub struct SharedDirectory {
    path: PathBuf,
    known: BTreeMap<String, Known>,
}

/// A file that was shared.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    digest: String,
    /// How the file looked on disk: only a file that looks different is read.
    look: Look,
}

/// What changes whenever a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    size: u64,
    inode: u64,
    changed: (i64, i64),
}

impl Look {
    /// The look of a file that has to be read. No file has the inode 0.
    const UNKNOWN: Self = Self { size: 0, inode: 0, changed: (0, 0) };

    fn of(metadata: &Metadata) -> Self {
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        Self { size: metadata.len(), inode: metadata.ino(), changed }
    }
}

impl SharedDirectory {
    /// Starts with a directory whose files are not shared yet.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), known: BTreeMap::new() }
    }

    /// Makes the directory equal to the shared files. If none are shared, what is in the directory stays, and is shared with
    /// the next change: earlier versions did not share files.
    ///
    /// # Errors
    /// When the store cannot be read, or the directory cannot be written.
    pub async fn fetch(
        path: &Path,
        shared: &dyn SharedFiles,
        session: &SessionId,
    ) -> Result<Self, StoreError> {
        let mut directory = Self::new(path);
        let wanted = shared.list_files(session).await?;
        if wanted.is_empty() {
            return Ok(directory);
        }
        let (root, names) = (path.to_owned(), wanted.clone());
        let missing = blocking(path, move || prune(&root, &names)).await?;
        for file in missing {
            let Some(body) = shared.read_file(session, &file.path).await? else { continue };
            let root = path.to_owned();
            blocking(path, move || put(&root, &file.path, &body)).await?;
        }
        let root = path.to_owned();
        let found = blocking(path, move || scan(&root)).await?;
        let digests: BTreeMap<String, String> =
            wanted.into_iter().map(|file| (file.path, file.digest)).collect();
        directory.known = found
            .into_iter()
            .filter_map(|(path, look)| {
                Some((path.clone(), Known { digest: digests.get(&path)?.clone(), look }))
            })
            .collect();
        Ok(directory)
    }

    /// Starts with a directory whose files replace the shared ones with the next [`push`](Self::push).
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn replacing(
        path: &Path,
        shared: &dyn SharedFiles,
        session: &SessionId,
    ) -> Result<Self, StoreError> {
        let known = |file: SharedFile| (file.path, Known { digest: file.digest, look: Look::UNKNOWN });
        let known = shared.list_files(session).await?.into_iter().map(known).collect();
        Ok(Self { path: path.to_owned(), known })
    }

    /// Makes one directory equal to another, as far as files are shared.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub async fn copy(from: &Path, to: &Path) -> Result<(), StoreError> {
        let (source, target) = (from.to_owned(), to.to_owned());
        blocking(to, move || {
            let names = scan(&source)?.into_keys().collect::<Vec<_>>();
            let mut wanted = Vec::new();
            for path in names {
                let digest = digest_of(&read(&source, &path)?);
                wanted.push(SharedFile { path, digest });
            }
            prune(&target, &wanted)?
                .iter()
                .try_for_each(|file| put(&target, &file.path, &read(&source, &file.path)?))
        })
        .await
    }

    /// Shares what has changed in the directory.
    ///
    /// # Errors
    /// When the store cannot be written, or another server has acquired the session.
    pub async fn push(&mut self, shared: &dyn SharedFiles, lease: &Lease) -> Result<(), StoreError> {
        let (root, known) = (self.path.clone(), self.known.clone());
        let (now, changes) = blocking(&self.path, move || changes(&root, known)).await?;
        for group in grouped(changes) {
            shared.change_files(lease, group).await?;
        }
        self.known = now;
        Ok(())
    }
}

async fn blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await.map_err(io::Error::other).flatten();
    done.map_err(|error| StoreError::Medium {
        doing: "copy files of the session in".into(),
        path: path.display().to_string(),
        cause: error.to_string(),
    })
}

/// Removes files that are not shared, and returns the shared ones that are missing or different.
fn prune(root: &Path, wanted: &[SharedFile]) -> io::Result<Vec<SharedFile>> {
    let found = scan(root)?;
    let is_current = |file: &SharedFile| {
        let body = found.contains_key(&file.path).then(|| read(root, &file.path).ok()).flatten();
        body.is_some_and(|body| digest_of(&body) == file.digest)
    };
    let (current, missing): (Vec<&SharedFile>, Vec<&SharedFile>) =
        wanted.iter().partition(|file| is_current(file));
    if let Ok(directory) = Directory::trusted(root) {
        for path in found.keys().filter(|path| !wanted.iter().any(|file| file.path == **path)) {
            absent_is_fine(directory.remove(Path::new(path)))?;
        }
        // A journal that a killed server left belongs to the database that is replaced. SQLite would apply it to the new one.
        if !current.iter().any(|file| file.path == DATABASE) {
            JOURNALS.iter().try_for_each(|name| absent_is_fine(directory.remove(Path::new(name))))?;
        }
    }
    Ok(missing.into_iter().cloned().collect())
}

fn put(root: &Path, path: &str, body: &[u8]) -> io::Result<()> {
    if !is_plain(path) {
        return Err(io::Error::other(format!("{path:?} is not a path below the directory of a session")));
    }
    baton_disk::private::create_dir_all(root)?;
    let directory = Directory::trusted(root)?.private();
    // A command may have left a link or a directory in its place.
    drop(directory.remove(Path::new(path)));
    directory.write(Path::new(path), body).map(drop)
}

/// Compares the directory with what is known. Returns what is known next, and the changes.
fn changes(
    root: &Path,
    mut known: BTreeMap<String, Known>,
) -> io::Result<(BTreeMap<String, Known>, Vec<FileChange>)> {
    let mut now = BTreeMap::new();
    let mut changes = Vec::new();
    for (path, look) in scan(root)? {
        let before = known.remove(&path);
        if let Some(same) = before.as_ref().filter(|before| before.look == look) {
            now.insert(path, same.clone());
            continue;
        }
        // A file that vanishes meanwhile is noticed next time.
        let Ok(body) = read(root, &path) else { continue };
        let digest = digest_of(&body);
        if before.is_none_or(|before| before.digest != digest) {
            let file = SharedFile { path: path.clone(), digest: digest.clone() };
            changes.push(FileChange::Put { file, body: body.into() });
        }
        now.insert(path, Known { digest, look });
    }
    changes.extend(known.into_keys().map(|path| FileChange::Delete { path }));
    Ok((now, changes))
}

/// Divides changes into groups of limited size.
fn grouped(changes: Vec<FileChange>) -> Vec<Vec<FileChange>> {
    let mut groups: Vec<(usize, Vec<FileChange>)> = Vec::new();
    for change in changes {
        let size = match &change {
            FileChange::Put { body, .. } => Bytes::len(body),
            FileChange::Delete { .. } => 0,
        };
        match groups.last_mut().filter(|(total, _)| total + size <= GROUP) {
            Some((total, group)) => {
                *total += size;
                group.push(change);
            }
            None => groups.push((size, vec![change])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Lists the files that are to be shared. Links are not followed.
fn scan(root: &Path) -> io::Result<BTreeMap<String, Look>> {
    let mut found = BTreeMap::new();
    let directory = match Directory::trusted(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        opened => opened?,
    };
    let mut left = vec![PathBuf::new()];
    while let Some(below) = left.pop() {
        let listed = if below.as_os_str().is_empty() { Path::new(".") } else { &below };
        let Ok(entries) = directory.list(listed) else { continue };
        for entry in entries.filter_map(Result::ok) {
            let Ok(name) = entry.file_name().to_str() else { continue };
            if matches!(name, "." | "..") || (below.as_os_str().is_empty() && is_local(name)) {
                continue;
            }
            let path = below.join(name);
            match directory.kind(&path) {
                Ok(kind) if kind.is_dir() => left.push(path),
                Ok(kind) if kind.is_file() => {
                    let Ok(metadata) = directory.open(&path).and_then(|file| file.metadata()) else {
                        continue;
                    };
                    let name = path.to_string_lossy().into_owned();
                    if metadata.len() > LARGEST || found.len() >= MOST {
                        tracing::warn!(
                            file = name,
                            "session file is not shared with other servers: it is too large, or there are too many"
                        );
                        continue;
                    }
                    found.insert(name, Look::of(&metadata));
                }
                _ => {}
            }
        }
    }
    Ok(found)
}

fn read(root: &Path, path: &str) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    Directory::trusted(root)?.open(Path::new(path))?.take(LARGEST).read_to_end(&mut body)?;
    Ok(body)
}

/// Whether a name in the directory is not shared.
fn is_local(name: &str) -> bool {
    MIRROR.contains(&name) || JOURNALS.contains(&name)
}

fn is_plain(path: &str) -> bool {
    let parts = Path::new(path).components();
    !path.is_empty() && parts.into_iter().all(|part| matches!(part, std::path::Component::Normal(_)))
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn digest_of(body: &[u8]) -> String {
    digest(&SHA256, body).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;

    use baton_protocol::Timestamp;
    use baton_store::memory::MemoryStore;
    use baton_store::{NewSession, Owner, Store};

    use super::*;

    /// Creates the session `s1`.
    pub(crate) async fn session(store: &MemoryStore) -> Lease {
        let owner = Owner { server: "s".into(), host: "h".into(), boot: "b".into(), pid: 1, started: 1 };
        let new = NewSession {
            session: "s1".parse().unwrap(),
            owner,
            created: Timestamp(0),
            records: Vec::new(),
            meta: Bytes::new(),
            busy: false,
        };
        store.create(new).await.unwrap()
    }

    #[tokio::test]
    async fn directory_is_the_same_at_the_next_server() {
        let (store, dir) = (MemoryStore::default(), tempfile::tempdir().unwrap());
        let lease = session(&store).await;
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        fs::create_dir_all(one.join("files/a")).unwrap();
        fs::write(one.join("plan.md"), "1. think").unwrap();
        fs::write(one.join("files/a/b.txt"), "\u{0}x").unwrap();
        fs::write(one.join("events.jsonl"), "mirror").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", one.join("files/link")).unwrap();
        let mut directory = SharedDirectory::new(&one);
        directory.push(&store, &lease).await.unwrap();

        fs::create_dir_all(&two).unwrap();
        fs::write(two.join("stale"), "from an earlier stay").unwrap();
        SharedDirectory::fetch(&two, &store, &lease.session).await.unwrap();
        assert_eq!(fs::read_to_string(two.join("plan.md")).unwrap(), "1. think");
        assert_eq!(fs::read_to_string(two.join("files/a/b.txt")).unwrap(), "\u{0}x");
        let others = ["stale", "events.jsonl", "files/link"];
        assert!(others.iter().all(|name| fs::symlink_metadata(two.join(name)).is_err()), "nothing else");
    }

    #[tokio::test]
    async fn journal_of_another_database_is_removed() {
        let (store, dir) = (MemoryStore::default(), tempfile::tempdir().unwrap());
        let lease = session(&store).await;
        let (database, journal) = (dir.path().join("session.db"), dir.path().join("session.db-journal"));
        fs::write(&database, "shared").unwrap();
        SharedDirectory::new(dir.path()).push(&store, &lease).await.unwrap();
        fs::write(&journal, "undoes a transaction of this database").unwrap();
        SharedDirectory::fetch(dir.path(), &store, &lease.session).await.unwrap();
        assert!(journal.exists(), "the database is the shared one");
        fs::write(&database, "half of a transaction").unwrap();
        SharedDirectory::fetch(dir.path(), &store, &lease.session).await.unwrap();
        assert_eq!(fs::read_to_string(&database).unwrap(), "shared");
        assert!(!journal.exists());
    }

    #[tokio::test]
    async fn only_changes_are_sent() {
        let (store, dir) = (MemoryStore::default(), tempfile::tempdir().unwrap());
        let lease = session(&store).await;
        fs::write(dir.path().join("plan.md"), "one").unwrap();
        fs::write(dir.path().join("other"), "x").unwrap();
        let mut directory = SharedDirectory::new(dir.path());
        directory.push(&store, &lease).await.unwrap();
        let mut again = SharedDirectory::fetch(dir.path(), &store, &lease.session).await.unwrap();
        let (_, none) = changes(dir.path(), again.known.clone()).unwrap();
        assert_eq!(none, []);
        fs::write(dir.path().join("plan.md"), "two").unwrap();
        fs::remove_file(dir.path().join("other")).unwrap();
        again.push(&store, &lease).await.unwrap();
        assert_eq!(store.list_files(&lease.session).await.unwrap().len(), 1);
        let plan = store.read_file(&lease.session, "plan.md").await.unwrap();
        assert_eq!(plan.as_deref(), Some(&b"two"[..]));
    }

    #[tokio::test]
    async fn path_from_the_store_cannot_lead_out_of_the_directory() {
        let (store, dir) = (MemoryStore::default(), tempfile::tempdir().unwrap());
        let lease = session(&store).await;
        let file = SharedFile { path: "../out".into(), digest: "0".into() };
        let change = FileChange::Put { file, body: Bytes::from_static(b"x") };
        store.change_files(&lease, vec![change]).await.unwrap();
        let fetched = SharedDirectory::fetch(&dir.path().join("in"), &store, &lease.session).await;
        assert!(fetched.is_err() && !dir.path().join("out").exists());
    }
}
