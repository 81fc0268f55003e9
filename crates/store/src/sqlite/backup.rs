//! Copies of the database file, while it is in use or not.
//!
//! A copy is one state of the whole file. The connection that reads it holds a read transaction for the whole time: without
//! it, SQLite starts the copy again after each write of another process, and under load it would never end. Writers are not
//! blocked; only the write-ahead log is not shortened before the copy is complete.
#![expect(clippy::disallowed_methods, reason = "blocking by design; callers run it on a thread of their own")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use baton_protocol::SessionId;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::error::Fault;
use super::file::{Database, parent_of, sync};
use super::{Durability, schema};
use crate::{Owner, StoreError};

/// Number of pages to copy at a time: 256 KB. Small, because a commit of a running server waits for what is being synced.
const STEP: i32 = 64;

/// Number of steps after which the copied pages are written to disk. Written all at once at the end, they would delay the
/// commits of a running server.
const SYNC_EVERY: u32 = 4;

/// Pause before another attempt to read a file that is locked, and the number of attempts.
const LOCKED_PAUSE: Duration = Duration::from_millis(50);
const LOCKED_ATTEMPTS: u32 = 200;

/// Number of copies from before migrations that are kept.
const KEPT: usize = 2;

/// How much of the machine a copy may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// All of it: nobody else can work.
    Full,
    /// At most a fifth of the time of one core and of the disk: a server is running.
    Shared,
}

impl Pace {
    /// Pauses after a piece of work that began at `begun`, as long as the pace demands.
    pub fn pause(self, begun: Instant) {
        if self == Self::Shared {
            std::thread::sleep(begun.elapsed() * 4);
        }
    }
}

/// Progress of a copy, in pages of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyProgress {
    /// Pages that are copied.
    pub done: u64,
    /// All pages.
    pub total: u64,
}

/// Properties of a database that was copied or checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseSummary {
    /// Number of sessions.
    pub sessions: u64,
    /// Version of the file format.
    pub format: u64,
}

/// Copies the database at `source` to the new file `target`, which only its owner can read. In the copy, no session is held
/// by a server. The copy is not synced: syncing it would delay the commits of a running server, and the caller may only need it
/// for a moment. `progress` is called after each step. On failure, `target` is removed.
///
/// # Errors
/// When there is no database, `target` exists, or one of them cannot be read or written.
pub fn copy(
    source: &Path,
    target: &Path,
    pace: Pace,
    progress: &mut dyn FnMut(CopyProgress),
) -> Result<DatabaseSummary, StoreError> {
    let database = at(source);
    if database.identity().is_none() {
        return Err(database.failed("copy", Fault::Unusable("there is no such file".to_owned())));
    }
    let copied = schema::open_reader(&database)
        .and_then(|source| copy_open(&source, target, pace, progress))
        .and_then(|()| released(target).inspect_err(|_| drop(fs::remove_file(target))));
    copied.map_err(|fault| fault.explain("copy", source))
}

/// Checks a database that someone else may have written: its kind, its format, its tables, its integrity.
///
/// # Errors
/// When a server could not use it, or must not.
pub fn check(path: &Path) -> Result<DatabaseSummary, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let checked = Connection::open_with_flags(path, flags).map_err(Fault::from).and_then(|file| {
        schema::check_foreign(&file)?;
        contents(&file)
    });
    checked.map_err(|fault| fault.explain("use", path))
}

/// Edits a document of the database at `path`, which nobody else uses. `edit` returns the new body; none leaves it as it is.
///
/// # Errors
/// When the file cannot be read or written.
pub fn edit_document(
    path: &Path,
    name: &str,
    edit: &mut dyn FnMut(&[u8]) -> Option<Vec<u8>>,
) -> Result<(), StoreError> {
    let mut run = || -> Result<(), Fault> {
        let file = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        file.execute_batch("PRAGMA trusted_schema = OFF")?;
        // Older formats have no documents.
        let tables = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'documents'";
        if file.query_row(tables, [], |row| row.get::<_, i64>(0))? == 0 {
            return Ok(());
        }
        let mut bodies = file.prepare("SELECT body FROM documents WHERE name = ?1")?;
        let body = bodies.query_map([name], |row| row.get::<_, Vec<u8>>(0))?.next().transpose()?;
        drop(bodies);
        if let Some(body) = body.and_then(|body| edit(&body)) {
            let update = "UPDATE documents SET version = version + 1, body = ?2 WHERE name = ?1";
            file.execute(update, rusqlite::params![name, body])?;
        }
        file.close().map_err(|(_, error)| error)?;
        Ok(())
    };
    run().map_err(|fault| fault.explain("edit", path))
}

/// Lists the ids of all sessions in the database at `path`. Waits for no lock.
///
/// # Errors
/// When the file cannot be read.
pub fn sessions(path: &Path) -> Result<Vec<SessionId>, StoreError> {
    let rows = rows(path, "SELECT id FROM sessions ORDER BY id", |row| row.get::<_, String>(0))?;
    Ok(rows.iter().filter_map(|id| id.parse().ok()).collect())
}

/// Lists the processes that hold sessions of the database at `path`, alive or not. Waits for no lock.
///
/// # Errors
/// When the file cannot be read.
pub fn holders(path: &Path) -> Result<Vec<Owner>, StoreError> {
    rows(path, "SELECT DISTINCT owner FROM sessions WHERE owner IS NOT NULL", |row| row.get(0))
}

fn rows<T>(
    path: &Path,
    sql: &str,
    parse: impl Fn(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, StoreError> {
    let read = || -> Result<Vec<T>, Fault> {
        let file = schema::open_reader(&at(path))?;
        let mut statement = file.prepare(sql)?;
        Ok(statement.query_map([], parse)?.collect::<Result<_, _>>()?)
    };
    read().map_err(|fault| fault.explain("read", path))
}

/// Keeps every server from opening the database at `path` until the returned guard is dropped. Servers that have it open
/// are not affected.
///
/// # Errors
/// When its directory cannot be created or locked.
pub fn lock(path: &Path) -> Result<impl Sized + use<>, StoreError> {
    let database = at(path);
    database.lock().map_err(|error| database.failed("lock", Fault::Create(error)))
}

/// Copies the file before its format is changed, to `NAME.format-N.bak` beside it, and removes older copies. The caller
/// keeps others from writing. Fails if there is no room: a migration without a way back is not done.
pub(super) fn before_migration(database: &Database, format: usize) -> Result<(), Fault> {
    let name = |ending: &str| {
        let mut name = database.path().as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    let (partial, kept) = (name(".bak.partial"), name(&format!(".format-{format}.bak")));
    // Left by a server that was killed while it copied.
    let _ = fs::remove_file(&partial);
    let source = schema::open_reader(database)?;
    let copied = copy_open(&source, &partial, Pace::Full, &mut |_| {})
        .and_then(|()| File::open(&partial).and_then(|copy| copy.sync_all()).map_err(Fault::Create))
        .map_err(|fault| fault.explain("copy", &partial).to_string())
        .and_then(|()| fs::rename(&partial, &kept).map_err(|error| error.to_string()));
    copied.map_err(|cause| {
        let _ = fs::remove_file(&partial);
        Fault::Unusable(format!(
            "cannot copy it before changing its format: {cause}. Nothing was changed; free some space beside it"
        ))
    })?;
    sync(parent_of(database.path())).map_err(Fault::Create)?;
    tracing::info!(copy = %kept.display(), format, "copied the session store before changing its format");
    for old in (1..=format.saturating_sub(KEPT)).rev() {
        let _ = fs::remove_file(name(&format!(".format-{old}.bak")));
    }
    Ok(())
}

fn at(path: &Path) -> Database {
    Database::new(path.to_owned(), Durability::Full, None)
}

/// Copies an open database to a new file, which is not synced. An incomplete copy is removed.
fn copy_open(
    source: &Connection,
    target: &Path,
    pace: Pace,
    progress: &mut dyn FnMut(CopyProgress),
) -> Result<(), Fault> {
    let file = baton_disk::private::create_new(target).map_err(Fault::Create)?;
    fill(source, target, &file, pace, progress).inspect_err(|_| drop(fs::remove_file(target)))
}

fn fill(
    source: &Connection,
    target: &Path,
    file: &File,
    pace: Pace,
    progress: &mut dyn FnMut(CopyProgress),
) -> Result<(), Fault> {
    let snapshot = source.unchecked_transaction()?;
    // The transaction begins with the first read.
    snapshot.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))?;
    let mut copy = Connection::open_with_flags(target, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // A copy that is interrupted is thrown away.
    copy.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -2048;")?;
    run(&Backup::new(&snapshot, &mut copy)?, file, pace, progress)?;
    copy.close().map_err(|(_, error)| error)?;
    Ok(())
}

fn run(
    backup: &Backup<'_, '_>,
    target: &File,
    pace: Pace,
    progress: &mut dyn FnMut(CopyProgress),
) -> Result<(), Fault> {
    let (mut locked, mut steps) = (0, 0);
    loop {
        let begun = Instant::now();
        match backup.step(STEP)? {
            StepResult::Done => break,
            StepResult::More => {}
            _ if locked < LOCKED_ATTEMPTS => {
                locked += 1;
                std::thread::sleep(LOCKED_PAUSE);
            }
            _ => return Err(Fault::Unusable("another process keeps it locked. Try again".to_owned())),
        }
        steps += 1;
        if pace == Pace::Shared && steps % SYNC_EVERY == 0 {
            target.sync_data().map_err(Fault::Create)?;
        }
        pace.pause(begun);
        progress(state_of(backup));
    }
    progress(state_of(backup));
    Ok(())
}

fn state_of(backup: &Backup<'_, '_>) -> CopyProgress {
    let state = backup.progress();
    let natural = |pages: i32| u64::try_from(pages).unwrap_or(0);
    CopyProgress {
        done: natural(state.pagecount.saturating_sub(state.remaining)),
        total: natural(state.pagecount),
    }
}

/// Removes all leases from a copy, which would name processes of another time or machine, and makes it one file without a
/// log.
fn released(path: &Path) -> Result<DatabaseSummary, Fault> {
    let file = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    file.execute_batch("PRAGMA synchronous = OFF")?;
    file.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get::<_, String>(0))?;
    file.execute("UPDATE sessions SET owner = NULL, instance = NULL, busy = 0 WHERE owner IS NOT NULL", [])?;
    let contents = contents(&file)?;
    file.close().map_err(|(_, error)| error)?;
    Ok(contents)
}

fn contents(file: &Connection) -> Result<DatabaseSummary, Fault> {
    let number = |sql| file.query_row(sql, [], |row| row.get::<_, i64>(0));
    Ok(DatabaseSummary {
        sessions: u64::try_from(number("SELECT count(*) FROM sessions")?).unwrap_or(0),
        format: u64::try_from(number("PRAGMA user_version")?).unwrap_or(0),
    })
}
