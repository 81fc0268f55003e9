//! Calls of the database, with the binary of these tests as the program that runs SQL.
#![allow(clippy::disallowed_methods, reason = "tests may block")]

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_process::{Ledger, ProcessIdentity};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::worker::Task;

/// A query without an end, in loops of SQLite.
const ENDLESS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
/// A query that spends minutes in one function.
const ONE_FUNCTION: &str = "SELECT instr(hex(zeroblob(2000000)), hex(zeroblob(1000000)) || '1')";

/// The worker, not a test.
#[test]
#[ignore = "run as a child process by the other tests of this module"]
fn worker_process() {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let arguments = arguments.last_chunk::<2>().unwrap();
    worker::run(arguments, std::io::stdin().lock(), &mut std::io::stdout().lock()).unwrap();
    // Before the harness prints more.
    std::process::exit(0);
}

/// A session's database in a temporary directory.
struct Bench {
    database: SessionDatabase,
    program: SqlProgram,
    path: PathBuf,
    changes: Arc<AtomicUsize>,
    cancel: CancellationToken,
    dir: TempDir,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("not/made/yet/session.db");
        let harness = ["--exact", "tests::worker_process", "--ignored", "--nocapture", "--test-threads=1"];
        let program = SqlProgram {
            program: std::env::current_exe().unwrap(),
            args: harness.map(OsString::from).to_vec(),
            ledger: Ledger::default(),
            placing: std::sync::Arc::new(|| Box::pin(async { Ok(baton_sandbox::Place::Outside) })),
        };
        let changes = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&changes);
        let changed = Arc::new(move || _ = counter.fetch_add(1, Ordering::SeqCst));
        let database = SessionDatabase::new(path.clone(), Some(program.clone()), changed);
        Self { database, program, path, changes, cancel: CancellationToken::new(), dir }
    }

    async fn query(&self, sql: &str) -> QueryResult {
        self.database.run(sql, &self.cancel).await
    }

    async fn sql(&self, sql: &str) -> String {
        self.query(sql).await.text
    }

    async fn todos(&self) -> (Vec<Todo>, Vec<Dependency>) {
        self.database.todos(&self.cancel).await.unwrap()
    }

    /// Waits until a worker runs.
    async fn until_running(&self) -> ProcessIdentity {
        loop {
            if let Some(process) = self.program.ledger.running().first() {
                return *process;
            }
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn results_have_the_official_wording() {
    let bench = Bench::new();
    assert_eq!(
        bench.sql("CREATE TABLE items (id TEXT PRIMARY KEY, name TEXT)").await,
        "Schema operation completed successfully."
    );
    assert_eq!(
        bench.sql("INSERT INTO items (id, name) VALUES ('a1', 'Widget')").await,
        "1 row(s) inserted. Last inserted row ID: 1."
    );
    assert_eq!(
        bench
            .sql(
                "INSERT INTO todos (id, title, status) VALUES ('alpha', 'First todo', 'pending');\n\
                 INSERT INTO todos (id, title, status) VALUES ('beta', 'Second todo', 'done');\n\
                 INSERT INTO todo_deps (todo_id, depends_on) VALUES ('beta', 'alpha');"
            )
            .await,
        "Executed 3 statement(s):\n\n1. INSERT\n   1 row(s) inserted. Last inserted row ID: 1.\n\n\
         2. INSERT\n   1 row(s) inserted. Last inserted row ID: 2.\n\n\
         3. INSERT\n   1 row(s) inserted. Last inserted row ID: 1."
    );
    assert_eq!(bench.sql("UPDATE todos SET status = 'done'").await, "2 row(s) updated.");
    assert_eq!(bench.sql("DELETE FROM items WHERE id = 'zz'").await, "0 row(s) deleted.");
    let (todos, dependencies) = bench.todos().await;
    assert_eq!(todos.iter().map(|todo| todo.id.as_str()).collect::<Vec<_>>(), ["alpha", "beta"]);
    assert_eq!(dependencies, [Dependency { todo_id: "beta".into(), depends_on: "alpha".into() }]);
}

#[tokio::test]
async fn rows_are_shown_as_a_table() {
    let bench = Bench::new();
    assert_eq!(
        bench.sql("SELECT * FROM todo_deps").await,
        "| todo_id | depends_on |\n| --- | --- |\nNo rows."
    );
    assert_eq!(
        bench.sql("SELECT 1 AS n, 1.5 AS r, NULL AS none, x'00ff' AS b, 'a|b' || char(10) || 'c' AS t").await,
        "| n | r | none | b | t |\n| --- | --- | --- | --- | --- |\n\
         | 1 | 1.5 | NULL | <2 bytes of binary data> | a\\|b\\nc |\n1 row(s)."
    );
    let inserted = bench.sql("INSERT INTO todos (id, title) VALUES ('x', 'y') RETURNING id").await;
    assert_eq!(inserted, "| id |\n| --- |\n| x |\n1 row(s).");
}

#[tokio::test]
async fn large_results_are_cut() {
    let bench = Bench::new();
    let counted =
        bench.sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n").await;
    assert!(counted.ends_with("| 500 |\nThe first 500 rows; there are more."), "{counted}");
    let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
        SELECT hex(zeroblob(1000000)) FROM n;";
    let names = format!("SELECT 1 AS \"{}\";", "x".repeat(500_000));
    let columns = format!("SELECT {};", vec!["hex(zeroblob(1000))"; 1900].join(","));
    for query in [rows.to_owned(), rows.repeat(400), names, columns] {
        let result = bench.query(&query).await;
        assert!(!result.failed && result.text.len() < 50_000, "{}", result.text.len());
        assert!(result.text.contains("longer than 40 KB. Select less"), "{}", result.text);
    }
    assert!(bench.sql(&"SELECT 1;".repeat(1001)).await.contains("first 1000 statements"));
    let returned = "CREATE TABLE t (a); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n \
        WHERE i < 2000) INSERT INTO t SELECT i FROM n RETURNING a; SELECT count(*) FROM t";
    assert!(bench.sql(returned).await.contains("| 2000 |"), "all rows take effect");
}

/// Each query, and the limit that it meets.
#[tokio::test]
async fn greedy_queries_meet_a_limit() {
    let bench = Bench::new();
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";
    // An aggregate fails at its end only.
    let many = format!("{endless} SELECT * FROM n LIMIT 1000");
    let memory = "needs more than 48 MB of memory";
    let (long, full) = ("too big", "full");
    let wide = |value: &str| format!("SELECT {}", vec![value; 1900].join(","));
    let text = |bytes: usize| format!("hex(zeroblob({}))", bytes / 2);
    for (query, limit) in [
        (wide("zeroblob(4000000)"), memory),
        (wide(&text(4_000_000)), memory),
        (wide("randomblob(4000000)"), memory),
        ("SELECT length(randomblob(1000000000))".into(), long),
        ("SELECT zeroblob(1000000000)".into(), long),
        ("SELECT printf('%1000000000d', 1)".into(), long),
        (format!("SELECT {}", text(5_000_000)), long),
        (format!("SELECT replace({}, '0', {})", text(1_000_000), text(10_000)), long),
        (format!("SELECT group_concat({}) FROM ({many})", text(100_000)), long),
        (format!("{endless} SELECT count(DISTINCT randomblob(100000)) FROM n"), memory),
        (format!("{endless} SELECT * FROM n ORDER BY randomblob(100000)"), memory),
        (format!("CREATE TEMP TABLE t AS {endless} SELECT randomblob(100000) FROM n"), memory),
        (format!("CREATE TABLE t AS {endless} SELECT randomblob(1000000) FROM n"), full),
        (format!("SELECT {}1{}", "(".repeat(5000), ")".repeat(5000)), "Recursion limit"),
        (format!("SELECT 1{}", "+1".repeat(5000)), "Expression tree is too large"),
    ] {
        let result = bench.query(&query).await;
        let shown = &query[..query.len().min(100)];
        assert!(result.failed && result.text.contains(limit), "{shown}: {}", result.text);
        assert!(result.text.starts_with("Error: ") && result.text.len() < 10_000, "{shown}");
    }
    let size = |name: &str| std::fs::metadata(bench.path.with_file_name(name)).map_or(0, |file| file.len());
    assert!(size("session.db") <= 28 << 20);
    assert_eq!(size("session.db-journal"), 0);
    let trigger = "CREATE TABLE a (n); CREATE TRIGGER again AFTER INSERT ON a \
        BEGIN INSERT INTO a SELECT n + 1 FROM a; END; INSERT INTO a VALUES (1); SELECT count(*) FROM a";
    assert!(bench.sql(trigger).await.contains("| 2 |"), "triggers do not recurse");
}

#[tokio::test]
async fn no_other_file_is_reached() {
    let bench = Bench::new();
    let other = bench.dir.path().join("other.db");
    let name = other.display();
    for query in [
        format!("ATTACH '{name}' AS other"),
        format!("ATTACH '{name}' AS other KEY ''"),
        format!("VACUUM INTO '{name}'"),
        format!("SELECT writefile('{name}', 'x')"),
        "SELECT readfile('/etc/passwd')".to_owned(),
        "SELECT load_extension('x.so')".to_owned(),
        "SELECT fts3_tokenizer('simple')".to_owned(),
        "PRAGMA temp_store_directory = '/tmp'".to_owned(),
        "PRAGMA temp_store = FILE".to_owned(),
        "PRAGMA max_page_count = 1000000000".to_owned(),
        "PRAGMA hard_heap_limit = 1000000000".to_owned(),
        "PRAGMA recursive_triggers = ON".to_owned(),
        "PRAGMA writable_schema = ON".to_owned(),
        "PRAGMA journal_mode = OFF".to_owned(),
    ] {
        let result = bench.query(&query).await;
        assert!(result.failed, "{query}: {}", result.text);
        assert!(!other.exists(), "{query}");
    }
    assert!(bench.sql("PRAGMA table_info(todos)").await.contains("| title |"));
}

#[tokio::test]
async fn failed_statement_is_explained_and_earlier_ones_stay() {
    let bench = Bench::new();
    assert!(bench.sql("SELEKT 1").await.starts_with("Error: near \"SELEKT\": syntax error"));
    let partly =
        bench.sql("CREATE TABLE t (a); INSERT INTO nowhere VALUES (1); INSERT INTO t VALUES (2)").await;
    assert!(
        partly.starts_with("Executed 1 statement(s):\n\n1. CREATE\n   Schema")
            && partly.contains("no such table: nowhere"),
        "{partly}"
    );
    assert!(bench.sql("SELECT count(*) FROM t").await.contains("| 0 |"));
    let open = bench.sql("BEGIN; INSERT INTO t VALUES (3)").await;
    assert!(open.contains("not committed"), "{open}");
    assert!(bench.sql("SELECT count(*) FROM t").await.contains("| 0 |"));
    assert!(bench.sql("BEGIN; INSERT INTO t VALUES (3); COMMIT").await.starts_with("Executed 3"));
    for (query, hint) in [
        ("  -- nothing\n", "no statement"),
        ("INSERT INTO todos (id, title, status) VALUES ('a', 'b', 'odd')", "CHECK"),
        ("SELECT ?1", "Error"),
    ] {
        let result = bench.query(query).await;
        assert!(result.failed && result.text.contains(hint), "{}", result.text);
    }
}

#[tokio::test]
async fn cancelled_query_leaves_no_process() {
    for query in [ENDLESS, ONE_FUNCTION] {
        let bench = Bench::new();
        let cancelled = async {
            let process = bench.until_running().await;
            bench.cancel.cancel();
            process
        };
        let (result, process) = tokio::join!(bench.query(query), cancelled);
        assert!(result.failed && result.text.contains("cancelled"), "{}", result.text);
        assert_ne!(ProcessIdentity::of(process.pid), process, "{query}");
        assert_eq!(bench.program.ledger.running(), []);
        assert!(bench.database.run("SELECT 1", &CancellationToken::new()).await.text.contains("| 1 |"));
    }
}

#[tokio::test]
async fn query_that_hangs_in_a_function_is_killed_at_the_time_limit() {
    let bench = Bench::new();
    let limit = Duration::from_millis(300);
    let ended = bench.program.call(Task::Query, &bench.path, ONE_FUNCTION, limit, &bench.cancel).await;
    assert!(matches!(ended, Err(Failure::TooLong)), "{ended:?}");
    assert_eq!(bench.program.ledger.running(), []);
}

#[tokio::test]
async fn dropped_call_leaves_no_process() {
    let bench = Bench::new();
    tokio::select! {
        _ = bench.query(ONE_FUNCTION) => panic!("it takes minutes"),
        _ = bench.until_running() => {}
    }
    assert_eq!(bench.program.ledger.running(), [], "the tree is empty");
}

/// The file alone is consistent afterwards: servers that share sessions copy it without its journal.
#[tokio::test]
async fn transaction_of_a_killed_query_is_rolled_back() {
    let bench = Bench::new();
    bench.sql("CREATE TABLE t (a); INSERT INTO t VALUES (1)").await;
    let before = std::fs::read(&bench.path).unwrap();
    let fill = "BEGIN; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 80)
        INSERT INTO t SELECT randomblob(100000) FROM n;";
    let query = format!("{fill} {ONE_FUNCTION}");
    let mut running = Box::pin(bench.query(&query));
    // More than the cache holds: pages of the open transaction are in the file.
    while std::fs::metadata(&bench.path).unwrap().len() < 4 << 20 {
        tokio::select! {
            result = &mut running => panic!("it ended before: {}", result.text),
            () = tokio::task::yield_now() => {}
        }
    }
    bench.cancel.cancel();
    let result = running.await;
    assert!(result.failed, "{}", result.text);
    assert!(!bench.path.with_file_name("session.db-journal").exists());
    assert!(std::fs::read(&bench.path).unwrap() == before, "the file is as it was");
}

#[tokio::test]
async fn change_of_todos_is_reported() {
    let bench = Bench::new();
    assert_eq!(bench.todos().await, (vec![], vec![]));
    for (query, changes) in [
        ("SELECT * FROM todos", 0),
        ("CREATE TABLE t (a); INSERT INTO t VALUES (1)", 0),
        ("INSERT INTO todos (id, title) VALUES ('a', 'b')", 1),
        ("INSERT INTO todos (id, title) VALUES ('a', 'b')", 0),
        ("UPDATE todos SET status = 'done'; INSERT INTO todo_deps VALUES ('a', 'a')", 1),
        ("DELETE FROM TODOS", 0),
        ("DELETE FROM todo_deps; DELETE FROM TODOS", 1),
    ] {
        bench.changes.store(0, Ordering::SeqCst);
        let run = bench.query(query).await;
        assert_eq!(bench.changes.load(Ordering::SeqCst), changes, "{query}: {run:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_calls_are_serialised() {
    let bench = Arc::new(Bench::new());
    bench.sql("CREATE TABLE t (a)").await;
    let failures = Arc::new(Mutex::new(Vec::new()));
    let calls: Vec<_> = (0..16)
        .map(|i| {
            let (bench, failures) = (Arc::clone(&bench), Arc::clone(&failures));
            tokio::spawn(async move {
                let text = bench.sql(&format!("INSERT INTO t VALUES ({i})")).await;
                if !text.contains("1 row(s) inserted") {
                    failures.lock().unwrap().push(text);
                }
                assert!(bench.program.ledger.running().len() <= 1);
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(*failures.lock().unwrap(), Vec::<String>::new());
    assert!(bench.sql("SELECT count(*) AS n FROM t").await.contains("| 16 |"));
}

#[tokio::test]
async fn reading_todos_ends_whatever_the_model_made_of_the_table() {
    let bench = Bench::new();
    let endless = "DROP TABLE todo_deps; DROP TABLE todos;
        CREATE VIEW todos AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
        SELECT i AS id, hex(zeroblob(1000000)) AS title, i AS description, i AS status, i AS created_at,
            i AS updated_at, i AS rowid FROM n";
    assert!(bench.sql(endless).await.starts_with("Executed 3"));
    let (todos, _) = bench.todos().await;
    assert_eq!(todos[0].title.as_deref().map(str::len), Some(10_000));
    let bytes: usize = todos.iter().filter_map(|todo| todo.title.as_deref()).map(str::len).sum();
    assert!(bytes > 500_000 && bytes <= 1 << 20, "{bytes}");
    let foreign = "DROP VIEW todos; CREATE TABLE todos (other)";
    assert!(bench.sql(foreign).await.starts_with("Executed 2"));
    let refused = bench.database.todos(&bench.cancel).await.unwrap_err().to_string();
    assert!(refused.contains("no such column"), "{refused}");
}

#[tokio::test]
async fn worker_has_no_environment() {
    let bench = Bench::new();
    let environment = async {
        let process = bench.until_running().await;
        let path = format!("/proc/{}/environ", process.pid);
        // Until the program is loaded, its environment is the one of this test.
        let read = loop {
            let read = std::fs::read_to_string(&path).unwrap();
            if read.starts_with("PWD=") || read.starts_with("BATON_SHELL=") {
                break read;
            }
            tokio::task::yield_now().await;
        };
        bench.cancel.cancel();
        read.split_terminator('\0').map(|entry| entry.split('=').next().unwrap().to_owned()).collect()
    };
    let (_, mut names): (_, Vec<String>) = tokio::join!(bench.query(ONE_FUNCTION), environment);
    names.sort();
    assert_eq!(names, ["BATON_SHELL", "PWD"]);
}
