//! The file itself: where it is, whether it is still the same one, and how it comes to be.
#![expect(clippy::disallowed_methods, reason = "runs on the threads of the store")]

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::error::Fault;
use super::{Durability, Migration, MigrationWatcher};
use crate::StoreError;

/// Where the store is, and what its writer and its readers must agree on.
pub(super) struct Place {
    path: PathBuf,
    durability: Durability,
    watcher: Option<MigrationWatcher>,
    /// Marks in the file which sessions are held through this store. A number of its own rather than the
    /// owner's name, because two stores in one process may well be given the same owner.
    instance: i64,
    opened: Mutex<Option<Identity>>,
    commits: AtomicU64,
}

/// Which file a path leads to. A file that is still open somewhere keeps its number, so a new one gets
/// another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity(u64, u64);

impl Identity {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self(metadata.dev(), metadata.ino())
    }

    /// Elsewhere an open file cannot be removed, so there is only one that it can be.
    #[cfg(not(unix))]
    fn of(_: &Metadata) -> Self {
        Self(0, 0)
    }
}

impl Place {
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

    /// A migration has come so far.
    pub(super) fn migration_is(&self, stage: Migration) {
        if let Some(watcher) = &self.watcher {
            watcher(stage);
        }
    }

    pub(super) fn instance(&self) -> i64 {
        self.instance
    }

    /// Which file is there now. Blocks, if only for a system call.
    pub(super) fn identity(&self) -> Option<Identity> {
        fs::metadata(&self.path).ok().map(|metadata| Identity::of(&metadata))
    }

    /// Which file the writer has open; readers open no other.
    pub(super) fn opened(&self) -> Option<Identity> {
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_opened(&self, identity: Identity) {
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = Some(identity);
    }

    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    pub(super) fn count_commit(&self) {
        self.commits.fetch_add(1, Ordering::Relaxed);
    }

    /// A failure here, told to people.
    pub(super) fn failed(&self, doing: &'static str, fault: Fault) -> StoreError {
        fault.explain(doing, &self.path)
    }

    pub(super) fn closed(&self) -> StoreError {
        self.failed("use", Fault::Unusable("it was closed, because the server is shutting down".to_owned()))
    }

    /// Keeps other servers from opening the file, and so from preparing it at the same time, until the answer
    /// is dropped. SQLite's own locks cannot do this: they are in the file that is still to be made.
    pub(super) fn lock(&self) -> io::Result<impl Sized + use<>> {
        let parent = parent_of(&self.path);
        create_directories(parent)?;
        lock(parent)
    }

    /// The file at the path, made if need be. Others must be kept out meanwhile.
    pub(super) fn find_or_create(&self) -> io::Result<Identity> {
        if let Some(identity) = self.identity() {
            return Ok(identity);
        }
        // Somebody may have removed the file but not its log. Whoever still has that open keeps it, but the
        // new file must not get it.
        for suffix in ["-wal", "-shm"] {
            let mut leftover = self.path.clone().into_os_string();
            leftover.push(suffix);
            let _ = fs::remove_file(leftover);
        }
        // SQLite gives the files beside it the same mode.
        let file = baton_private::append(&self.path)?;
        sync(parent_of(&self.path))?;
        Ok(Identity::of(&file.metadata()?))
    }
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Only its owner may read what is in there: conversations are private.
fn create_directories(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = parent_of(path);
    create_directories(parent)?;
    match baton_private::create_dir_all(path) {
        // Another server may be just as quick.
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

/// Makes a new name in this directory durable. SQLite does so for its logs but not for the file itself, and a
/// log without its file is worth nothing after a loss of power.
#[cfg(unix)]
fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(not(unix))]
fn sync(_: &Path) -> io::Result<()> {
    Ok(())
}
