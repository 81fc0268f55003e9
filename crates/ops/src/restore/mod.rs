//! Restore of a home from a backup.
//!
//! The archive is unpacked into a directory of its own inside the home ([`mod@unpack`]), checked there as a whole, and only
//! then put in place ([`mod@apply`]). The moment of truth is one rename: before it, the home is as it was; after it, the
//! restore is completed, if need be by the next server that opens the home ([`finish`]).

mod apply;
mod people;
mod unpack;

use std::path::{Path, PathBuf};

use baton_protocol::Timestamp;
use baton_store::Owner;
use baton_store::sqlite::backup as database;

use crate::OpsError;
use crate::archive::HomeFile;

/// Restores a backup to a home.
#[derive(Debug, Clone)]
pub struct RestoreOptions<'a> {
    /// The home; created if missing.
    pub home: &'a Path,
    /// The backup.
    pub file: &'a Path,
    /// Whether to replace the sessions of a home that has some. They are moved aside.
    pub replace: bool,
    /// Whether a process still runs. Asked about the holders of sessions.
    pub is_alive: fn(&Owner) -> bool,
}

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreReport {
    /// Number of sessions.
    pub sessions: u64,
    /// Number of files beside the database.
    pub files: u64,
    /// Time of the backup.
    pub created: Timestamp,
    /// Version of the Baton that wrote it.
    pub baton: String,
    /// Directory with the replaced state, if there was any.
    pub moved_aside: Option<PathBuf>,
    /// People whose tokens are valid again. Their logins and links have ended.
    pub people: Vec<RestoredPerson>,
    /// Whether the backup has set the token of the owner.
    pub token: bool,
}

/// A person of a restored home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredPerson {
    /// Name, printable.
    pub name: String,
    /// Role, printable.
    pub role: String,
}

/// Restores a backup. `progress` is called with the number of bytes that are unpacked, and of all bytes.
///
/// # Errors
/// When the archive is not intact, the home is in use or not empty, or a file cannot be written. The home is then as it was.
pub fn restore(
    options: &RestoreOptions<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<RestoreReport, OpsError> {
    let home = options.home;
    std::fs::metadata(options.file).map_err(OpsError::file("read", options.file))?;
    finish(home)?;
    check_home(options)?;
    baton_disk::private::create_dir_all(home).map_err(OpsError::file("create", home))?;
    let staging = tempfile::Builder::new()
        .prefix(apply::STAGING)
        .tempdir_in(home)
        .map_err(OpsError::file("write to", home))?;
    let unpacked = unpack::unpack(options.file, staging.path(), progress)?;
    let _lock = database::lock(&home.join(HomeFile::Database.name()))?;
    // Again: unpacking may have taken minutes, and now no server can open the database.
    check_home(options)?;
    apply::commit(home, staging.path())?;
    let moved_aside = apply::complete(home)?;
    Ok(RestoreReport {
        sessions: unpacked.sessions,
        files: unpacked.files,
        created: unpacked.manifest.created,
        baton: unpacked.manifest.baton,
        moved_aside,
        people: unpacked.people,
        token: unpacked.token,
    })
}

/// Completes a restore that was interrupted after its moment of truth. Costs one system call if there is none. To be called
/// before a home is used.
///
/// # Errors
/// When a file cannot be moved.
pub fn finish(home: &Path) -> Result<(), OpsError> {
    if !apply::is_committed(home) {
        return Ok(());
    }
    let _lock = database::lock(&home.join(HomeFile::Database.name()))?;
    if apply::is_committed(home) {
        apply::complete(home)?;
        tracing::warn!(home = %home.display(), "completed a restore that had been interrupted");
    }
    Ok(())
}

/// Refuses a home that a process uses, or that has state which must not be replaced.
fn check_home(options: &RestoreOptions<'_>) -> Result<(), OpsError> {
    let path = options.home.join(HomeFile::Database.name());
    if path.exists() {
        // A database that cannot be read is a reason to restore one.
        let holders = database::holders(&path).unwrap_or_default();
        if let Some(holder) = holders.iter().find(|holder| (options.is_alive)(holder)) {
            let Owner { pid, host, .. } = holder;
            return Err(OpsError::InUse(format!(
                "sessions of this home are open in process {pid} on {host}"
            )));
        }
    }
    if !options.replace && apply::has_state(options.home) {
        return Err(OpsError::NotEmpty(options.home.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
