//! Limits of the process, and of its connection to the database.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::TIME_LIMIT;
use crate::LARGEST_QUERY;

/// Memory limit of SQLite, in bytes.
pub(crate) const MEMORY_LIMIT: u64 = 48 << 20;
/// Memory of the process beside that of SQLite.
const OTHER_MEMORY: u64 = 32 << 20;
/// In pages of 4 KiB. Servers that share sessions copy files of up to 32 MiB.
const LARGEST_FILE: u32 = 28 * 256;
/// In bytes. Earlier versions made databases of up to 64 MiB.
const LARGEST_WRITE: u64 = 72 << 20;
const LARGEST_VALUE: i32 = 4 << 20;
/// Seconds of processor time. The server ends the process earlier, unless it was killed itself.
const PROCESSOR_TIME: u64 = TIME_LIMIT.as_secs() + 2;
/// `PRAGMA temp_store = MEMORY`: temporary tables count as memory, and no other file is written.
const IN_MEMORY: u32 = 2;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS todos (
        id TEXT PRIMARY KEY,
        title TEXT NOT NULL,
        description TEXT,
        status TEXT DEFAULT 'pending' CHECK (status IN ('pending', 'in_progress', 'done', 'blocked')),
        created_at TEXT DEFAULT (datetime('now')),
        updated_at TEXT DEFAULT (datetime('now'))
    );
    CREATE TABLE IF NOT EXISTS todo_deps (
        todo_id TEXT NOT NULL REFERENCES todos (id),
        depends_on TEXT NOT NULL REFERENCES todos (id),
        PRIMARY KEY (todo_id, depends_on)
    );";

/// Read-only pragmas.
const PRAGMAS: &[&str] = &[
    "table_info",
    "table_xinfo",
    "table_list",
    "index_list",
    "index_info",
    "foreign_key_list",
    "foreign_key_check",
    "quick_check",
    "user_version",
];

/// Limits memory, processor time and files of this process.
pub(super) fn limit_process() -> io::Result<()> {
    lower(Resource::Data, MEMORY_LIMIT + OTHER_MEMORY)?;
    lower(Resource::Cpu, PROCESSOR_TIME)?;
    lower(Resource::Fsize, LARGEST_WRITE)?;
    lower(Resource::Core, 0)
}

fn lower(resource: Resource, limit: u64) -> io::Result<()> {
    let limit = Some(getrlimit(resource).maximum.map_or(limit, |maximum| maximum.min(limit)));
    Ok(setrlimit(resource, Rlimit { current: limit, maximum: limit })?)
}

/// Opens the database, restricted to its file, and limits time and size. `touches_todos` becomes true when a statement is
/// prepared that changes the todo list.
pub(super) fn open(path: &Path, touches_todos: &Arc<AtomicBool>) -> rusqlite::Result<Connection> {
    // The session's directory may not exist yet. If it cannot be created, opening the file fails with the error that is
    // reported. SQLite would make the file readable for others.
    drop(path.parent().map(baton_disk::private::create_dir_all));
    drop(baton_disk::private::ensure(path));
    let mut connection = Connection::open(path)?;
    connection.pragma_update(None, "hard_heap_limit", MEMORY_LIMIT.cast_signed())?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, LARGEST_VALUE)?;
    connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, LARGEST_QUERY as i32)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    connection.set_limit(Limit::SQLITE_LIMIT_WORKER_THREADS, 0)?;
    connection.busy_timeout(TIME_LIMIT)?;
    let end = Instant::now() + TIME_LIMIT;
    connection.progress_handler(1000, Some(move || Instant::now() > end))?;
    connection.pragma_update(None, "temp_store", IN_MEMORY)?;
    connection.pragma_update(None, "max_page_count", LARGEST_FILE)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.execute_batch(TABLES)?;
    let touches_todos = Arc::clone(touches_todos);
    connection.authorizer(Some(move |context: AuthContext<'_>| {
        if let AuthAction::Insert { table_name }
        | AuthAction::Update { table_name, .. }
        | AuthAction::Delete { table_name }
        | AuthAction::DropTable { table_name } = context.action
            && is_among(&["todos", "todo_deps"], table_name)
        {
            touches_todos.store(true, Ordering::Relaxed);
        }
        authorize(&context.action)
    }))?;
    Ok(connection)
}

fn authorize(action: &AuthAction<'_>) -> Authorization {
    match action {
        // VACUUM INTO attaches the file that it writes.
        AuthAction::Attach { .. } | AuthAction::Detach { .. } => Authorization::Deny,
        AuthAction::Pragma { pragma_name, .. } if !is_among(PRAGMAS, pragma_name) => Authorization::Deny,
        // `fts3_tokenizer` reveals memory addresses of this process.
        AuthAction::Function { function_name }
            if is_among(&["load_extension", "fts3_tokenizer"], function_name) =>
        {
            Authorization::Deny
        }
        _ => Authorization::Allow,
    }
}

/// Whether a name is one of `names`, as SQLite compares names.
fn is_among(names: &[&str], name: &str) -> bool {
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}
