//! The schema of the file, its migrations, and the settings of each connection.

use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::error::Fault;
use super::file::{Database, FileIdentity};
use super::{Durability, Migration, backup};

/// All migrations; `user_version` in the file is the number of those applied. Released migrations have been
/// applied to users' files: **never edit one, append the next**.
const MIGRATIONS: &[&str] =
    &[include_str!("migrations/1.sql"), include_str!("migrations/2.sql"), include_str!("migrations/3.sql")];

/// "BATN", in the header of every file; set by `migrations/1.sql`.
const APPLICATION_ID: i64 = 0x4241_544E;

/// How long to wait for a commit of another process. A commit takes milliseconds, so after this time that
/// process is stuck.
const PATIENCE: Duration = Duration::from_secs(10);

/// Capacity of the statement cache; larger than the number of statements.
const STATEMENTS: usize = 32;

/// Opens a connection. It does not create the file ([`Database::find_or_create`] does, with the right mode),
/// and needs no mutex, because only one thread uses it at a time.
fn connect(database: &Database) -> Result<Connection, Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database.path(), flags)?;
    connection.busy_timeout(PATIENCE)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

/// Opens the file for the writer; creates and migrates it if needed.
pub(super) fn open_writer(database: &Database) -> Result<(Connection, FileIdentity), Fault> {
    let _guard = database.lock().map_err(Fault::Create)?;
    // Read before the file is opened: if the file is replaced in between, the identity is outdated and the
    // writer opens the new file on its next write.
    let identity = database.find_or_create().map_err(Fault::Create)?;
    let mut connection = connect(database)?;
    check_kind(&connection)?;
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(Fault::Unusable(format!(
            "its file system cannot share memory between processes (journal mode {mode}). Use a local disk"
        )));
    }
    let synchronous = match database.durability() {
        Durability::Full => "FULL",
        Durability::Relaxed => "NORMAL",
    };
    // The cache is small because few pages are hot (the end of each table). The log is checkpointed every 4 MB,
    // and truncated after a burst instead of staying at its largest size.
    connection.execute_batch(&format!(
        "PRAGMA synchronous = {synchronous};
         PRAGMA cache_size = -1024;
         PRAGMA wal_autocheckpoint = 1000;
         PRAGMA journal_size_limit = 8388608;
         PRAGMA temp_store = MEMORY;"
    ))?;
    migrate(&mut connection, database, MIGRATIONS)?;
    Ok((connection, identity))
}

/// Opens the file for reading only.
pub(super) fn open_reader(database: &Database) -> Result<Connection, Fault> {
    let connection = connect(database)?;
    connection.execute_batch(
        "PRAGMA query_only = ON;
         PRAGMA cache_size = -256;
         PRAGMA temp_store = MEMORY;",
    )?;
    leave_log_alone(&connection)?;
    Ok(connection)
}

/// Prevents a connection from checkpointing the log when it is closed: that is the writer's task, and for a
/// file that was removed from its path, the log found there may belong to another file.
pub(super) fn leave_log_alone(connection: &Connection) -> Result<(), Fault> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(())
}

/// Refuses files of other programs and newer versions before changing anything in them.
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
    // A negative number was never written by Baton; treat it as newer than any version.
    Ok(usize::try_from(version).unwrap_or(usize::MAX))
}

fn migrate(connection: &mut Connection, database: &Database, migrations: &[&str]) -> Result<(), Fault> {
    if version(connection)? == migrations.len() {
        return Ok(());
    }
    database.report_migration(Migration::Begins);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Read again: nobody else can write from here on.
    let done = version(&transaction)?;
    // A new file has nothing to lose.
    if done > 0 {
        backup::before_migration(database, done)?;
    }
    for (number, migration) in migrations.iter().enumerate().skip(done) {
        transaction.execute_batch(migration)?;
        transaction.execute_batch(&format!("PRAGMA user_version = {}", number + 1))?;
    }
    database.report_migration(Migration::Written);
    transaction.commit()?;
    database.report_migration(Migration::Done);
    Ok(())
}

/// Checks a database of unknown origin: that it is Baton's, of a known format, intact, and has exactly the tables of that
/// format. A trigger or view would run with the first write of a server.
pub(super) fn check_foreign(connection: &Connection) -> Result<(), Fault> {
    connection.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;")?;
    check_kind(connection)?;
    let version = version(connection)?;
    let model = Connection::open_in_memory()?;
    for migration in &MIGRATIONS[..version] {
        model.execute_batch(migration)?;
    }
    if version == 0 || objects(connection)? != objects(&model)? {
        return Err(Fault::Unusable(format!(
            "its tables are not those of format {version}: it was not written by Baton"
        )));
    }
    let verdict: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if verdict == "ok" { Ok(()) } else { Err(Fault::Unusable(format!("it is damaged: {verdict}"))) }
}

/// Returns all tables, indexes, views and triggers, with their definitions.
fn objects(connection: &Connection) -> Result<Vec<[Option<String>; 4]>, Fault> {
    let mut statement =
        connection.prepare("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name")?;
    let rows = statement.query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::*;
    use crate::Seq;

    /// The current format.
    const NOW: usize = MIGRATIONS.len();
    const NEXT: &str = "CREATE TABLE added (x INTEGER) STRICT;";

    fn database(directory: &Path) -> Database {
        Database::new(directory.join("baton.db"), Durability::Full, None)
    }

    fn bak(directory: &Path, format: usize) -> std::path::PathBuf {
        directory.join(format!("baton.db.format-{format}.bak"))
    }

    fn count(path: &Path) -> i64 {
        let file = Connection::open(path).unwrap();
        file.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0)).unwrap()
    }

    /// Creates a database of the current format with one session.
    fn with_session(database: &Database) -> Connection {
        let (file, _) = open_writer(database).unwrap();
        file.execute(
            "INSERT INTO sessions (id, created, modified, head, size, epoch, owner, instance, busy, meta)
             VALUES ('s', 1, 1, 0, 0, 1, NULL, NULL, 0, x'')",
            [],
        )
        .unwrap();
        file
    }

    #[test]
    fn migration_leaves_a_private_copy_of_the_file_and_keeps_the_last_two() {
        let dir = tempfile::tempdir().unwrap();
        let database = database(dir.path());
        let mut file = with_session(&database);
        assert!(!bak(dir.path(), 0).exists(), "a new file has no copy");
        let mut migrations = MIGRATIONS.to_vec();
        for (format, sql) in [(NOW, NEXT), (NOW + 1, "DELETE FROM sessions"), (NOW + 2, "DROP TABLE added")] {
            migrations.push(sql);
            migrate(&mut file, &database, &migrations).unwrap();
            assert_eq!(version(&file).unwrap(), format + 1);
            let mode = std::fs::metadata(bak(dir.path(), format)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        let copies = [NOW, NOW + 1, NOW + 2].map(|format| bak(dir.path(), format).exists());
        assert_eq!(copies, [false, true, true], "older ones are pruned");
        assert_eq!(count(&bak(dir.path(), NOW + 1)), 1, "it is the state before the migration");
        assert_eq!(count(&bak(dir.path(), NOW + 2)), 0);
        migrate(&mut file, &database, &migrations).unwrap();
        let left = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(left, 5, "the database, its log, its index and two copies");
    }

    #[test]
    fn nothing_is_migrated_without_a_copy() {
        let dir = tempfile::tempdir().unwrap();
        let database = database(dir.path());
        let mut file = with_session(&database);
        // Stands for a full disk: the copy cannot be put in its place.
        std::fs::create_dir_all(bak(dir.path(), NOW).join("x")).unwrap();
        let migrations = [MIGRATIONS, &[NEXT]].concat();
        let error = migrate(&mut file, &database, &migrations).unwrap_err();
        let error = database.failed("open", error).to_string();
        assert!(error.contains("cannot copy it before changing its format"), "{error}");
        assert_eq!(version(&file).unwrap(), NOW);
        let names = std::fs::read_dir(dir.path()).unwrap();
        let partial = names.flatten().any(|entry| entry.file_name().to_string_lossy().contains(".partial"));
        assert!(!partial, "an incomplete copy is removed");
    }

    #[tokio::test]
    async fn sessions_of_a_store_without_an_index_are_unindexed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("baton.db");
        let old = Connection::open(&path).unwrap();
        for (number, migration) in MIGRATIONS[..2].iter().enumerate() {
            old.execute_batch(&format!("{migration}; PRAGMA user_version = {}", number + 1)).unwrap();
        }
        old.execute_batch(
            "INSERT INTO sessions (id, created, modified, head, size, epoch, busy, meta) VALUES ('s', 1, 1, 1, 2, 1, 0, x'');
             INSERT INTO events VALUES (1, 1, 'kind', x'7b7d');",
        )
        .unwrap();
        drop(old);
        let store = crate::sqlite::SqliteStore::new(&path, Durability::Full);
        let unindexed = crate::texts::TextIndex::unindexed(&store, 10).await.unwrap();
        let wanted = crate::texts::Unindexed { session: "s".parse().unwrap(), indexed: Seq(0), head: Seq(1) };
        assert_eq!(unindexed, [wanted]);
        assert!(bak(dir.path(), 2).exists(), "a copy of the old file is kept");
    }

    #[test]
    fn database_with_foreign_objects_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = with_session(&database(dir.path()));
        check_foreign(&file).unwrap();
        file.execute_batch("CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM sessions; END")
            .unwrap();
        let Err(Fault::Unusable(why)) = check_foreign(&file) else { panic!("it is accepted") };
        assert!(why.contains(&format!("not those of format {NOW}")), "{why}");
    }
}
