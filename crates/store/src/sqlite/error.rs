//! Failures of the database file, and advice for users.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::StoreError;

/// The reason why an operation failed.
#[derive(Debug)]
pub(super) enum Fault {
    /// Refused by a rule of the store. The file is intact.
    Refused(StoreError),
    /// SQLite reported an error.
    Sqlite(rusqlite::Error),
    /// The file or its directory could not be created.
    Create(std::io::Error),
    /// The file cannot be used.
    Unusable(String),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl Fault {
    /// Whether damaged content of the file is the cause.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            Self::Sqlite(error) => is_damage(error),
            Self::Refused(_) | Self::Create(_) | Self::Unusable(_) => false,
        }
    }

    pub(super) fn explain(self, doing: &'static str, path: &Path) -> StoreError {
        let cause = match self {
            Self::Refused(error) => return error,
            Self::Sqlite(error) => explain_sqlite(&error, path),
            Self::Create(error) => {
                format!("{error}. Check that the directory can be created and written, or choose another one")
            }
            Self::Unusable(cause) => cause,
        };
        StoreError::Medium { doing: doing.into(), path: path.display().to_string(), cause }
    }
}

/// Whether the file is damaged, or contains what we never write: our statements check before they write, so on
/// an intact file they violate no constraint and miss no row.
fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => matches!(
            failure.code,
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::ConstraintViolation
        ),
        FromSqlConversionFailure(..)
        | IntegralValueOutOfRange(..)
        | InvalidColumnType(..)
        | Utf8Error(..) => true,
        rusqlite::Error::QueryReturnedNoRows => true,
        _ => false,
    }
}

fn explain_sqlite(error: &rusqlite::Error, path: &Path) -> String {
    if is_disk_full(error, path) {
        return "the disk is full. Free some space; nothing that was acknowledged is lost".to_owned();
    }
    match advice(error) {
        Some(advice) => format!("{error}. {advice}"),
        None => error.to_string(),
    }
}

/// Whether there is no space left for the file. SQLite reports this as a failure of the disk where it creates or maps its
/// other files.
fn is_disk_full(error: &rusqlite::Error, path: &Path) -> bool {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => true,
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => has_no_space(path),
        _ => false,
    }
}

/// Whether the file system of a file has less space than the smallest of SQLite's files needs.
fn has_no_space(path: &Path) -> bool {
    const NEEDED: u64 = 32 * 1024;
    let directory = path.parent().unwrap_or(path);
    rustix::fs::statvfs(directory).is_ok_and(|of| of.f_bavail.saturating_mul(of.f_frsize) < NEEDED)
}

fn advice(error: &rusqlite::Error) -> Option<&'static str> {
    if is_damage(error) {
        return Some(
            "The file is damaged. Move it away, together with its -wal and -shm files, and a new one is made; \
             the sessions can be imported again from their events.jsonl files with `baton sessions import`",
        );
    }
    match error.sqlite_error_code()? {
        ErrorCode::ReadOnly => Some(
            "The file, its directory or the whole disk is read-only. Make it writable, or choose another \
             directory",
        ),
        ErrorCode::PermissionDenied => {
            Some("Give this user the right to read and write the file and its directory")
        }
        ErrorCode::CannotOpen => Some(
            "Check that the directory exists and that this user may read and write the file and the directory",
        ),
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            Some("Another process keeps the file locked. Try again, or end the process that has it open")
        }
        ErrorCode::SystemIoFailure => Some(
            "The disk reported an error. Check its health and the system's log; local disks work, some \
             network file systems do not",
        ),
        ErrorCode::TooBig => Some("One record is larger than SQLite can store (about 1 GB)"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medium_failures_come_with_advice() {
        let check = |code: std::ffi::c_int, expected: &str| {
            let failure = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
            let text = Fault::from(failure).explain("write to", Path::new("/data/baton.db")).to_string();
            assert!(text.starts_with("cannot write to the session store at /data/baton.db: "), "{text}");
            assert!(text.contains(expected), "{text}");
        };
        check(rusqlite::ffi::SQLITE_FULL, "the disk is full. Free some space");
        check(rusqlite::ffi::SQLITE_READONLY, "Make it writable");
        check(rusqlite::ffi::SQLITE_READONLY_DIRECTORY, "Make it writable");
        check(rusqlite::ffi::SQLITE_PERM, "Give this user the right");
        check(rusqlite::ffi::SQLITE_CANTOPEN, "Check that the directory exists");
        check(rusqlite::ffi::SQLITE_BUSY, "Another process keeps the file locked");
        check(rusqlite::ffi::SQLITE_LOCKED, "Another process keeps the file locked");
        check(rusqlite::ffi::SQLITE_IOERR_FSYNC, "The disk reported an error");
        check(rusqlite::ffi::SQLITE_CORRUPT, "baton sessions import");
        check(rusqlite::ffi::SQLITE_NOTADB, "Move it away");
        check(rusqlite::ffi::SQLITE_CONSTRAINT_NOTNULL, "Move it away");
        check(rusqlite::ffi::SQLITE_TOOBIG, "1 GB");
    }

    #[test]
    fn refusal_is_passed_on_unchanged() {
        let session = "s".parse().unwrap();
        let error = Fault::from(StoreError::Exists(session)).explain("write to", Path::new("x"));
        assert!(matches!(error, StoreError::Exists(_)));
    }
}
