//! Calls of the tool.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton_protocol::tool::ResultType;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::tools::testing::Bench;

async fn sql(bench: &Bench, query: &str) -> String {
    bench.run(&Sql, json!({"description": "test", "query": query})).await.text_result_for_llm
}

#[tokio::test]
async fn results_have_the_official_wording() {
    let bench = Bench::new();
    assert_eq!(
        sql(&bench, "CREATE TABLE items (id TEXT PRIMARY KEY, name TEXT)").await,
        "Schema operation completed successfully."
    );
    assert_eq!(
        sql(&bench, "INSERT INTO items (id, name) VALUES ('a1', 'Widget')").await,
        "1 row(s) inserted. Last inserted row ID: 1."
    );
    assert_eq!(
        sql(
            &bench,
            "INSERT INTO todos (id, title, status) VALUES ('alpha', 'First todo', 'pending');\n\
             INSERT INTO todos (id, title, status) VALUES ('beta', 'Second todo', 'done');\n\
             INSERT INTO todo_deps (todo_id, depends_on) VALUES ('beta', 'alpha');"
        )
        .await,
        "Executed 3 statement(s):\n\n1. INSERT\n   1 row(s) inserted. Last inserted row ID: 1.\n\n\
         2. INSERT\n   1 row(s) inserted. Last inserted row ID: 2.\n\n\
         3. INSERT\n   1 row(s) inserted. Last inserted row ID: 1."
    );
    assert_eq!(sql(&bench, "UPDATE todos SET status = 'done'").await, "2 row(s) updated.");
    assert_eq!(sql(&bench, "DELETE FROM items WHERE id = 'zz'").await, "0 row(s) deleted.");
    let (todos, dependencies) = bench.context.services.database.todos().unwrap();
    assert_eq!(todos.iter().map(|todo| todo.id.as_str()).collect::<Vec<_>>(), ["alpha", "beta"]);
    assert_eq!(dependencies, [Dependency { todo_id: "beta".into(), depends_on: "alpha".into() }]);
}

#[tokio::test]
async fn rows_are_shown_as_a_table() {
    let bench = Bench::new();
    assert_eq!(
        sql(&bench, "SELECT * FROM todo_deps").await,
        "| todo_id | depends_on |\n| --- | --- |\nNo rows."
    );
    assert_eq!(
        sql(&bench, "SELECT 1 AS n, 1.5 AS r, NULL AS none, x'00ff' AS b, 'a|b' || char(10) || 'c' AS t")
            .await,
        "| n | r | none | b | t |\n| --- | --- | --- | --- | --- |\n\
         | 1 | 1.5 | NULL | <2 bytes of binary data> | a\\|b\\nc |\n1 row(s)."
    );
    let inserted = sql(&bench, "INSERT INTO todos (id, title) VALUES ('x', 'y') RETURNING id").await;
    assert_eq!(inserted, "| id |\n| --- |\n| x |\n1 row(s).");
}

#[tokio::test]
async fn large_results_are_cut() {
    let bench = Bench::new();
    let counted = sql(
        &bench,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) SELECT i FROM n",
    )
    .await;
    assert!(counted.ends_with("| 500 |\nThe first 500 rows; there are more."), "{counted}");
    let wide = sql(
        &bench,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
         SELECT printf('%.*c', 5000, 'x') FROM n",
    )
    .await;
    assert!(
        wide.len() < crate::tools::spill::DEFAULT_LIMIT && wide.contains("Select less"),
        "{}",
        wide.len()
    );
    assert!(sql(&bench, &"SELECT 1;".repeat(1001)).await.contains("first 1000 statements"));
    assert!(sql(&bench, "SELECT length(randomblob(100000000))").await.contains("Error: "));
    let endless = sql(
        &bench,
        "CREATE TABLE big AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
         SELECT randomblob(1000000) FROM n",
    )
    .await;
    assert!(endless.contains("full"), "{endless}");
}

#[tokio::test]
async fn no_other_file_is_reached() {
    let bench = Bench::new();
    let other = bench.path("other.db");
    for query in [
        format!("ATTACH '{other}' AS other"),
        format!("ATTACH '{other}' AS other KEY ''"),
        format!("VACUUM INTO '{other}'"),
        "SELECT load_extension('x.so')".to_owned(),
        "PRAGMA temp_store_directory = '/tmp'".to_owned(),
        "PRAGMA max_page_count = 1000000000".to_owned(),
        "PRAGMA writable_schema = ON".to_owned(),
        "PRAGMA journal_mode = OFF".to_owned(),
    ] {
        let result = bench.run(&Sql, json!({"query": query})).await;
        assert_eq!(result.result_type, ResultType::Failure, "{query}: {}", result.text_result_for_llm);
        assert!(!std::path::Path::new(&other).exists(), "{query}");
    }
    assert!(sql(&bench, "PRAGMA table_info(todos)").await.contains("| title |"));
}

#[tokio::test]
async fn failed_statement_is_explained_and_earlier_ones_stay() {
    let bench = Bench::new();
    assert!(sql(&bench, "SELEKT 1").await.starts_with("Error: near \"SELEKT\": syntax error"));
    let partly =
        sql(&bench, "CREATE TABLE t (a); INSERT INTO nowhere VALUES (1); INSERT INTO t VALUES (2)").await;
    assert!(
        partly.starts_with("Executed 1 statement(s):\n\n1. CREATE\n   Schema")
            && partly.contains("no such table: nowhere"),
        "{partly}"
    );
    assert!(sql(&bench, "SELECT count(*) FROM t").await.contains("| 0 |"));
    let open = sql(&bench, "BEGIN; INSERT INTO t VALUES (3)").await;
    assert!(open.contains("not committed"), "{open}");
    assert!(sql(&bench, "SELECT count(*) FROM t").await.contains("| 0 |"));
    assert!(sql(&bench, "BEGIN; INSERT INTO t VALUES (3); COMMIT").await.starts_with("Executed 3"));
    for (arguments, hint) in [
        (json!({"query": "  -- nothing\n"}), "no statement"),
        (json!({"query": "INSERT INTO todos (id, title, status) VALUES ('a', 'b', 'odd')"}), "CHECK"),
        (json!({"query": "SELECT 1", "database": "other"}), "database"),
        (json!({}), "missing field `query`"),
        (json!({"query": "SELECT ?1"}), "Error"),
        (json!({"query": "SELECT 1\u{0}; DROP TABLE t"}), "NUL"),
    ] {
        let result = bench.run(&Sql, arguments).await;
        assert_eq!(result.result_type, ResultType::Failure, "{hint}: {}", result.text_result_for_llm);
        assert!(result.text_result_for_llm.contains(hint), "{}", result.text_result_for_llm);
    }
}

#[tokio::test]
async fn endless_query_ends_when_cancelled() {
    let bench = Bench::new();
    let cancel = bench.context.cancel.clone();
    let (started, asked) = (
        Instant::now(),
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            cancel.cancel();
        }),
    );
    let text =
        sql(&bench, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n")
            .await;
    asked.await.unwrap();
    assert!(text.contains("cancelled") && started.elapsed() < Duration::from_secs(5), "{text}");
}

#[test]
fn change_of_todos_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let database = SessionDatabase::new(
        dir.path().join("not/made/yet/session.db"),
        Arc::new(move || _ = counter.fetch_add(1, Ordering::SeqCst)),
    );
    assert_eq!(database.todos().unwrap(), (vec![], vec![]));
    for (query, changes) in [
        ("SELECT * FROM todos", 0),
        ("CREATE TABLE t (a); INSERT INTO t VALUES (1)", 0),
        ("INSERT INTO todos (id, title) VALUES ('a', 'b')", 1),
        ("INSERT INTO todos (id, title) VALUES ('a', 'b')", 0),
        ("UPDATE todos SET status = 'done'; INSERT INTO todo_deps VALUES ('a', 'a')", 1),
        ("DELETE FROM TODOS", 0),
        ("DELETE FROM todo_deps; DELETE FROM TODOS", 1),
    ] {
        count.store(0, Ordering::SeqCst);
        let run = database.run(query, &CancellationToken::new());
        assert_eq!(count.load(Ordering::SeqCst), changes, "{query}: {run:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_calls_are_serialised() {
    let bench = Arc::new(Bench::new());
    sql(&bench, "CREATE TABLE t (a)").await;
    let failures = Arc::new(Mutex::new(Vec::new()));
    let calls: Vec<_> = (0..16)
        .map(|i| {
            let (bench, failures) = (Arc::clone(&bench), Arc::clone(&failures));
            tokio::spawn(async move {
                let text = sql(&bench, &format!("INSERT INTO t VALUES ({i})")).await;
                if !text.contains("1 row(s) inserted") {
                    failures.lock().unwrap().push(text);
                }
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(*failures.lock().unwrap(), Vec::<String>::new());
    assert!(sql(&bench, "SELECT count(*) AS n FROM t").await.contains("| 16 |"));
}

#[tokio::test]
async fn reading_todos_ends_whatever_the_model_made_of_the_table() {
    let bench = Bench::new();
    let endless = "DROP TABLE todo_deps; DROP TABLE todos;
        CREATE VIEW todos AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
        SELECT i AS id, hex(zeroblob(1000000)) AS title, i AS description, i AS status, i AS created_at,
            i AS updated_at, i AS rowid FROM n";
    assert!(sql(&bench, endless).await.starts_with("Executed 3"));
    let (todos, _) = bench.context.services.database.todos().unwrap();
    assert_eq!(todos.len(), 1000);
    assert_eq!(todos[0].title.as_deref().map(str::len), Some(10_000));
}
