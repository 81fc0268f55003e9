//! Copies held sessions from a file that was removed from its path but is still open in this process.
//!
//! People and test harnesses empty the directory of a running server. Sessions that are not in use are then
//! gone, as intended; a session in use continues under the same lease.

use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, Savepoint, TransactionBehavior, params, params_from_iter};

use super::error::Fault;

/// Copies the sessions that are held through this instance and returns their number. An unreadable session is
/// left behind: the old file may have been moved away because it is damaged.
pub(super) fn carry_over(old: &Connection, new: &mut Connection, instance: i64) -> Result<usize, Fault> {
    let Some((last_epoch, held)) = unless_damaged(live(old, instance))? else { return Ok(0) };
    let mut transaction = new.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute("UPDATE epochs SET last = max(last, ?1)", [last_epoch])?;
    let mut carried = 0;
    for key in held {
        let savepoint = transaction.savepoint()?;
        if unless_damaged(copy_session(old, &savepoint, key))? == Some(true) {
            savepoint.commit()?;
            carried += 1;
        }
    }
    transaction.commit()?;
    Ok(carried)
}

fn unless_damaged<T>(result: Result<T, Fault>) -> Result<Option<T>, Fault> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(fault) if fault.is_damage() => {
            tracing::error!(?fault, "lost a session in use: it cannot be read from the old file");
            Ok(None)
        }
        Err(fault) => Err(fault),
    }
}

/// Returns the last epoch, and the keys of the sessions that are held through this instance.
fn live(old: &Connection, instance: i64) -> Result<(i64, Vec<i64>), Fault> {
    let last_epoch = old.query_row("SELECT last FROM epochs", [], |row| row.get(0))?;
    let mut statement = old.prepare("SELECT key FROM sessions WHERE instance = ?1")?;
    let keys = statement.query_map([instance], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok((last_epoch, keys))
}

/// Copies one session. Returns `false` if the new file has a session with this id, whose holder then fences
/// this one.
fn copy_session(old: &Connection, new: &Savepoint<'_>, key: i64) -> Result<bool, Fault> {
    let inserted = copy(
        old,
        new,
        "SELECT id, created, modified, head, size, epoch, owner, instance, busy, meta FROM sessions WHERE key = ?1",
        "INSERT INTO sessions (id, created, modified, head, size, epoch, owner, instance, busy, meta)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (id) DO NOTHING",
        key,
    )?;
    if inserted == 0 {
        return Ok(false);
    }
    let new_key = new.last_insert_rowid();
    copy(
        old,
        new,
        &format!("SELECT {new_key}, seq, kind, body FROM events WHERE session = ?1 ORDER BY seq"),
        "INSERT INTO events (session, seq, kind, body) VALUES (?1, ?2, ?3, ?4)",
        key,
    )?;
    copy(
        old,
        new,
        &format!("SELECT {new_key}, seq, body FROM snapshots WHERE session = ?1"),
        "INSERT INTO snapshots (session, seq, body) VALUES (?1, ?2, ?3)",
        key,
    )?;
    Ok(true)
}

/// Copies the rows of a query, holding only one row in memory.
fn copy(old: &Connection, new: &Connection, select: &str, insert: &str, key: i64) -> Result<usize, Fault> {
    let mut select = old.prepare(select)?;
    let mut insert = new.prepare_cached(insert)?;
    let columns = select.column_count();
    let mut rows = select.query(params![key])?;
    let mut inserted = 0;
    while let Some(row) = rows.next()? {
        let values = (0..columns).map(|column| row.get_ref(column).map(ToSqlOutput::Borrowed));
        inserted += insert.execute(params_from_iter(values.collect::<Result<Vec<_>, _>>()?))?;
    }
    Ok(inserted)
}
