//! The database file: its path, its identity and its creation.
#![expect(clippy::disallowed_methods, reason = "runs on the store's own threads")]

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::error::Fault;
use super::{Durability, Migration, MigrationWatcher};
use crate::StoreError;

/// The database: its path, and the state shared by its writer and readers.
pub(super) struct Database {
    path: PathBuf,
    durability: Durability,
    watcher: Option<MigrationWatcher>,
    /// Marks in the file which sessions are held through this store. A random number instead of the owner,
    /// because two stores in one process may have the same owner.
    instance: i64,
    opened: Mutex<Option<FileIdentity>>,
    commits: AtomicU64,
}

/// Identifies the file at a path. The inode number of an open file is not reused, so a new file has a different
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileIdentity(u64, u64);

impl FileIdentity {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self(metadata.dev(), metadata.ino())
    }

    /// On other systems an open file cannot be removed, so its identity cannot change.
    #[cfg(not(unix))]
    fn of(_: &Metadata) -> Self {
        Self(0, 0)
    }
}

impl Database {
    pub(super) fn new(path: PathBuf, durability: Durability, watcher: Option<MigrationWatcher>) -> Self {
        let (instance, _) = uuid::Uuid::new_v4().as_u64_pair();
        Self {
            path,
            durability,
            watcher,
            instance: instance.cast_signed(),
            opened: Mutex::default(),
            commits: AtomicU64::new(0),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn durability(&self) -> Durability {
        self.durability
    }

    /// Reports a stage of a migration.
    pub(super) fn report_migration(&self, stage: Migration) {
        if let Some(watcher) = &self.watcher {
            watcher(stage);
        }
    }

    pub(super) fn instance(&self) -> i64 {
        self.instance
    }

    /// Returns the identity of the file at the path. Blocks for one system call.
    pub(super) fn identity(&self) -> Option<FileIdentity> {
        fs::metadata(&self.path).ok().map(|metadata| FileIdentity::of(&metadata))
    }

    /// Returns the identity of the file that the writer has open. Readers open no other.
    pub(super) fn opened(&self) -> Option<FileIdentity> {
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_opened(&self, identity: FileIdentity) {
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = Some(identity);
    }

    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    pub(super) fn count_commit(&self) {
        self.commits.fetch_add(1, Ordering::Relaxed);
    }

    /// Converts a fault into an error for users.
    pub(super) fn failed(&self, doing: &'static str, fault: Fault) -> StoreError {
        fault.explain(doing, &self.path)
    }

    pub(super) fn closed(&self) -> StoreError {
        self.failed("use", Fault::Unusable("it was closed, because the server is shutting down".to_owned()))
    }

    /// Locks out other servers that would open and migrate the file at the same time, until the returned guard
    /// is dropped. SQLite's own locks cannot do this: they are in the file that does not exist yet.
    pub(super) fn lock(&self) -> io::Result<impl Sized + use<>> {
        let parent = parent_of(&self.path);
        create_directories(parent)?;
        lock(parent)
    }

    /// Returns the identity of the file at the path; creates the file if needed. Needs [`Self::lock`].
    pub(super) fn find_or_create(&self) -> io::Result<FileIdentity> {
        if let Some(identity) = self.identity() {
            return Ok(identity);
        }
        // The file may have been removed without its log. A process that has the log open keeps it, but SQLite
        // must not apply it to the new file.
        for suffix in ["-wal", "-shm"] {
            let mut leftover = self.path.clone().into_os_string();
            leftover.push(suffix);
            let _ = fs::remove_file(leftover);
        }
        // SQLite gives the log files the same mode.
        let file = baton_disk::private::append(&self.path)?;
        sync(parent_of(&self.path))?;
        Ok(FileIdentity::of(&file.metadata()?))
    }
}

pub(super) fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates directories that only their owner can read: conversations are private.
fn create_directories(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = parent_of(path);
    create_directories(parent)?;
    match baton_disk::private::create_dir_all(path) {
        // Another server may have created it meanwhile.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        result => result.and_then(|()| sync(parent)),
    }
}

#[cfg(unix)]
fn lock(directory: &Path) -> io::Result<File> {
    let directory = File::open(directory)?;
    directory.lock()?;
    Ok(directory)
}

#[cfg(not(unix))]
fn lock(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Makes a new directory entry durable. SQLite does so for its logs but not for the database file, and after a
/// power loss a log without its file is useless.
#[cfg(unix)]
pub(super) fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(not(unix))]
pub(super) fn sync(_: &Path) -> io::Result<()> {
    Ok(())
}
