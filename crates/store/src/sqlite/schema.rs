//! What is in the file, how it came to be so, and the settings of every connection to it.

use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::error::Fault;
use super::file::{Identity, Place};
use super::{Durability, Migration};

/// The history of the schema; `user_version` in the file counts how many of these it has been through. What
/// is in a released migration is in people's files: **never edit one, append the next**.
const MIGRATIONS: &[&str] = &[include_str!("migrations/1.sql")];

/// "BATN", in the header of every file of ours; see `migrations/1.sql`.
const APPLICATION_ID: i64 = 0x4241_544E;

/// How long to wait for another process to finish its commit. A commit takes milliseconds, so this is a stuck
/// process.
const PATIENCE: Duration = Duration::from_secs(10);

/// Statements kept prepared; more than there are.
const STATEMENTS: usize = 32;

/// No connection creates the file (we do, with the right permissions), and none is used by two threads at
/// once, so SQLite need not guard against that.
fn connect(place: &Place) -> Result<Connection, Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(place.path(), flags)?;
    connection.busy_timeout(PATIENCE)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

/// Opens the file for the one connection that writes, creating and migrating it if need be.
pub(super) fn open_writer(place: &Place) -> Result<(Connection, Identity), Fault> {
    let _exclusively = place.lock().map_err(Fault::Create)?;
    // Asked before opening: should the file be replaced in between, we believe to have the old one and look
    // again.
    let identity = place.find_or_create().map_err(Fault::Create)?;
    let mut connection = connect(place)?;
    check_kind(&connection)?;
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(Fault::Unusable(format!(
            "its file system cannot share memory between processes (journal mode {mode}). Use a local disk"
        )));
    }
    let synchronous = match place.durability() {
        Durability::Full => "FULL",
        Durability::Relaxed => "NORMAL",
    };
    // The cache is small because the hot pages are few (the end of each table). The log is folded into the
    // file every 4 MB, and cut back after a burst instead of keeping its largest size for ever.
    connection.execute_batch(&format!(
        "PRAGMA synchronous = {synchronous};
         PRAGMA cache_size = -1024;
         PRAGMA wal_autocheckpoint = 1000;
         PRAGMA journal_size_limit = 8388608;
         PRAGMA temp_store = MEMORY;"
    ))?;
    migrate(&mut connection, place)?;
    Ok((connection, identity))
}

/// Opens the file for reading only.
pub(super) fn open_reader(place: &Place) -> Result<Connection, Fault> {
    let connection = connect(place)?;
    connection.execute_batch(
        "PRAGMA query_only = ON;
         PRAGMA cache_size = -256;
         PRAGMA temp_store = MEMORY;",
    )?;
    leave_log_alone(&connection)?;
    Ok(connection)
}

/// Keeps a connection from folding the log into the file when it is closed: that is the writer's business,
/// and for a file that is gone from its path the log found there may be somebody else's.
pub(super) fn leave_log_alone(connection: &Connection) -> Result<(), Fault> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(())
}

/// Refuses files that are not ours before anything in them is changed.
fn check_kind(connection: &Connection) -> Result<(), Fault> {
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let kind: i64 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    if tables > 0 && kind != APPLICATION_ID {
        return Err(Fault::Unusable(
            "it is a database of some other program. Move it away or choose another directory".to_owned(),
        ));
    }
    let version = version(connection)?;
    if version <= MIGRATIONS.len() {
        return Ok(());
    }
    Err(Fault::Unusable(format!(
        "it was written by a newer Baton (format {version}, this one knows up to {}). Update Baton, or use another \
         directory",
        MIGRATIONS.len()
    )))
}

fn version(connection: &Connection) -> Result<usize, Fault> {
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    // A negative number was never written by us and is larger than any version that was.
    Ok(usize::try_from(version).unwrap_or(usize::MAX))
}

fn migrate(connection: &mut Connection, place: &Place) -> Result<(), Fault> {
    let done = version(connection)?;
    if done == MIGRATIONS.len() {
        return Ok(());
    }
    place.migration_is(Migration::Begins);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for (number, migration) in MIGRATIONS.iter().enumerate().skip(done) {
        transaction.execute_batch(migration)?;
        transaction.execute_batch(&format!("PRAGMA user_version = {}", number + 1))?;
    }
    place.migration_is(Migration::Written);
    transaction.commit()?;
    place.migration_is(Migration::Done);
    Ok(())
}
