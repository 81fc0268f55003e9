//! Putting unpacked state in place of the old one, so that a crash at any moment leaves the one or the other.
//!
//! The home cannot be replaced as a whole: it may be a mount point, and other programs may use it. So a plan is written into
//! the unpacked directory, and the directory gets the name that commits the restore. Completing it takes two phases: move
//! everything of the plan aside, then move the new state in. A mark separates the two, and each can be repeated.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use baton_protocol::Timestamp;
use baton_store::sqlite::backup as database;
use serde::{Deserialize, Serialize};

use crate::OpsError;
use crate::archive::{HomeFile, SESSIONS};

/// Prefix of the directory that an archive is unpacked to.
pub(super) const STAGING: &str = ".restore-";
/// Name of that directory once the restore is committed.
const COMMITTED: &str = "restoring";
/// Files of a database beside it.
const LOGS: [&str; 2] = ["baton.db-wal", "baton.db-shm"];

const PLAN: &str = ".plan.json";
const MARK: &str = ".moved";
const OLD: &str = ".old";

/// What to move aside before the new state is moved in: paths in the home.
#[derive(Debug, Serialize, Deserialize)]
struct Plan {
    aside: BTreeSet<PathBuf>,
}

/// Whether a home has state that a restore would replace.
pub(super) fn has_state(home: &Path) -> bool {
    let kept = HomeFile::ALL.iter().filter(|file| **file != HomeFile::Token);
    kept.map(|file| file.name()).any(|name| home.join(name).exists())
        || fs::read_dir(home.join(SESSIONS)).is_ok_and(|mut entries| entries.next().is_some())
}

pub(super) fn is_committed(home: &Path) -> bool {
    home.join(COMMITTED).exists()
}

/// Writes the plan and commits the restore.
pub(super) fn commit(home: &Path, staging: &Path) -> Result<(), OpsError> {
    let failed = || OpsError::file("write to", home);
    let plan = serde_json::to_vec(&plan(home, staging)).map_err(io::Error::other).map_err(failed())?;
    baton_disk::private::replace_synced(staging.join(PLAN), plan).map_err(failed())?;
    fs::rename(staging, home.join(COMMITTED)).map_err(failed())?;
    sync(home).map_err(failed())
}

/// Lists the old state. Session directories by the ids in both databases: others may be another program's.
fn plan(home: &Path, staging: &Path) -> Plan {
    let mut aside: BTreeSet<PathBuf> = LOGS.iter().map(PathBuf::from).collect();
    let kept =
        HomeFile::ALL.iter().filter(|file| **file != HomeFile::Token || staging.join(file.name()).exists());
    aside.extend(kept.map(|file| PathBuf::from(file.name())));
    for directory in [home, staging] {
        let sessions = database::sessions(&directory.join(HomeFile::Database.name())).unwrap_or_default();
        aside.extend(sessions.iter().map(|session| Path::new(SESSIONS).join(session.as_str())));
    }
    Plan { aside }
}

/// Completes a committed restore. Returns the directory with the old state, if there was any.
pub(super) fn complete(home: &Path) -> Result<Option<PathBuf>, OpsError> {
    let failed = |error| OpsError::file("complete the restore in", home)(error);
    let staging = home.join(COMMITTED);
    if !staging.join(MARK).exists() {
        move_aside(home, &staging).map_err(failed)?;
    }
    move_in(home, &staging).map_err(failed)?;
    let moved_aside = keep_old(home, &staging).map_err(failed)?;
    fs::remove_dir_all(&staging).map_err(failed)?;
    remove_leftovers(home);
    sync(home).map_err(failed)?;
    Ok(moved_aside)
}

fn move_aside(home: &Path, staging: &Path) -> io::Result<()> {
    let plan: Plan = serde_json::from_slice(&fs::read(staging.join(PLAN))?).map_err(io::Error::other)?;
    for path in &plan.aside {
        let old = staging.join(OLD).join(path);
        if let Some(parent) = old.parent() {
            baton_disk::private::create_dir_all(parent)?;
        }
        unless_missing(fs::rename(home.join(path), old))?;
    }
    baton_disk::private::replace_synced(staging.join(MARK), "")
}

/// Moves the new state into the home, the database last.
fn move_in(home: &Path, staging: &Path) -> io::Result<()> {
    let sessions = staging.join(SESSIONS);
    if sessions.exists() {
        baton_disk::private::create_dir_all(home.join(SESSIONS))?;
        for entry in fs::read_dir(&sessions)? {
            let entry = entry?;
            fs::rename(entry.path(), home.join(SESSIONS).join(entry.file_name()))?;
        }
        sync(&home.join(SESSIONS))?;
    }
    for file in HomeFile::ALL.iter().rev() {
        unless_missing(fs::rename(staging.join(file.name()), home.join(file.name())))?;
    }
    sync(home)
}

/// Moves the old state to a directory that says when it was replaced.
fn keep_old(home: &Path, staging: &Path) -> io::Result<Option<PathBuf>> {
    let old = staging.join(OLD);
    // An empty directory of sessions alone is nothing to keep.
    let _ = fs::remove_dir(old.join(SESSIONS));
    if fs::remove_dir(&old).is_ok() || !old.exists() {
        return Ok(None);
    }
    let when: String = Timestamp::now().to_string().replace([':', '.'], "-");
    let kept = home.join(format!("before-restore-{when}"));
    fs::rename(old, &kept)?;
    Ok(Some(kept))
}

/// Removes what killed restores have unpacked and not committed. No other restore is running: the caller has the lock, or
/// the other one finds its directory gone and fails.
fn remove_leftovers(home: &Path) {
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(STAGING) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn unless_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
