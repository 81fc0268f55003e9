//! What can go wrong with the file, and what people can do about it.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::StoreError;

/// Why an operation was not done.
#[derive(Debug)]
pub(super) enum Fault {
    /// A rule of the store forbids it. The file is fine.
    Refused(StoreError),
    /// SQLite could not do it.
    Sqlite(rusqlite::Error),
    /// The file or its directory could not be made.
    Create(std::io::Error),
    /// The file is not one that we can work with.
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
    /// Whether the content of the file is to blame, rather than the circumstances.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            Self::Sqlite(error) => is_damage(error),
            Self::Refused(_) | Self::Create(_) | Self::Unusable(_) => false,
        }
    }

    pub(super) fn explain(self, doing: &'static str, path: &Path) -> StoreError {
        let cause = match self {
            Self::Refused(error) => return error,
            Self::Sqlite(error) => explain_sqlite(&error),
            Self::Create(error) => {
                format!("{error}. Check that the directory can be created and written, or choose another one")
            }
            Self::Unusable(cause) => cause,
        };
        StoreError::Medium { doing, place: path.display().to_string(), cause }
    }
}

/// SQLite found the file damaged, or there is something in it that we never write: our statements check
/// before they write, so they break no constraint and miss no row of a sound file.
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

fn explain_sqlite(error: &rusqlite::Error) -> String {
    match advice(error) {
        Some(advice) => format!("{error}. {advice}"),
        None => error.to_string(),
    }
}

fn advice(error: &rusqlite::Error) -> Option<&'static str> {
    if is_damage(error) {
        return Some(
            "The file is damaged. Move it away, together with its -wal and -shm files, and a new one is made; \
             the sessions can be imported again from their events.jsonl files with `baton sessions import`",
        );
    }
    match error.sqlite_error_code()? {
        ErrorCode::DiskFull => {
            Some("The disk is full. Free some space; nothing that was acknowledged is lost")
        }
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
            Some("Another process keeps the file locked. Try again, or end whatever has it open")
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
    fn every_failure_of_the_medium_says_what_to_do() {
        let check = |code: std::ffi::c_int, expected: &str| {
            let failure = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
            let text = Fault::from(failure).explain("write to", Path::new("/data/baton.db")).to_string();
            assert!(text.starts_with("cannot write to the session store at /data/baton.db: "), "{text}");
            assert!(text.contains(expected), "{text}");
        };
        check(rusqlite::ffi::SQLITE_FULL, "Free some space");
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
    fn a_refusal_stays_what_it_is() {
        let session = "s".parse().unwrap();
        let error = Fault::from(StoreError::Exists(session)).explain("write to", Path::new("x"));
        assert!(matches!(error, StoreError::Exists(_)));
    }
}
