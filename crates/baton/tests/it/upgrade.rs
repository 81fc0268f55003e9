//! Homes of older versions: opened with everything in them, and the way back to the older version.
//!
//! `fixtures/make-home` wrote the homes, with the programs of these versions.

use std::path::{Path, PathBuf};
use std::process::Command;

use baton_testkit::http::Http;
use baton_testkit::program::Program;
use serde_json::{Value, json};

use crate::baton;

/// Unpacks a home that an older version wrote.
fn unpack(name: &str, home: &Path) {
    std::fs::create_dir_all(home).unwrap();
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let done = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(home).status().unwrap();
    assert!(done.success());
}

fn format_of(database: &Path) -> i64 {
    let connection = rusqlite::Connection::open(database).unwrap();
    connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}

async fn json_of(program: &Program, line: &str) -> Value {
    let done = program.run(&line.split(' ').collect::<Vec<_>>()).await;
    assert_eq!(done.code(), Some(0), "{line}: {done:?}");
    serde_json::from_str(&done.stdout).unwrap()
}

/// Names of the sessions in a list.
fn ids(list: &Value) -> Vec<&str> {
    let sessions = list["sessions"].as_array().unwrap();
    let mut ids: Vec<&str> = sessions.iter().map(|session| session["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids
}

#[tokio::test]
async fn home_of_format_1_continues_where_it_was_killed() {
    let program = baton();
    unpack("home-format-1.tar.gz", program.home());
    let server = program.serve_http(&["--demo"]).await;
    let http = Http::new(&program, &server);

    // Turns that were waiting for an answer still do, and continue with it.
    for session in ["pending", "long"] {
        http.post(&format!("/api/sessions/{session}/resume"), json!({})).await;
        let request = http.pending(session).await;
        assert_eq!(request["kind"], "permission", "{request}");
        let path = format!("/api/sessions/{session}/requests/{}", request["requestId"].as_str().unwrap());
        let _ = http.post(&path, json!({"kind": "permission", "decision": "reject"})).await.expect(200);
    }
    let mut events = http.events("pending", 0).await;
    let queued = events.until(|event| event.event["data"]["content"] == "and then this").await;
    assert_eq!(queued.event["type"], "user.message", "the queue is worked off");

    // A grant for a session and one for a location still cover what they were given for.
    for session in ["done", "located"] {
        let prompt = http.prompt(session, "run echo again").await;
        assert_eq!(http.outcome(session, &prompt).await, "completed");
    }
    let requests = http.get("/api/requests").await.expect(200);
    assert_eq!(requests["requests"], json!([]), "nothing was asked");

    let log = server.stderr();
    assert!(!log.contains("unreadable snapshot"), "{log}");
    assert_eq!(ids(&json_of(&program, "sessions list --json").await), ["done", "located", "long", "pending"]);
    let grants = json_of(&program, "grants list --json").await;
    assert_eq!(grants["sessions"].as_array().unwrap().len(), 2, "{grants}");
    assert_eq!(grants["locations"][0]["location"], "/tmp", "{grants}");
    let found = json_of(&program, "sessions search three --json").await;
    assert_eq!(ids(&found), ["located"], "old histories are indexed");
}

#[tokio::test]
async fn copy_before_a_migration_is_the_way_back() {
    let program = baton();
    unpack("home-format-1.tar.gz", program.home());
    let before = std::fs::read(program.database()).unwrap();
    json_of(&program, "sessions list --json").await;
    let copy: PathBuf = program.home().join("baton.db.format-1.bak");
    assert!(format_of(&program.database()) > 1);
    assert_eq!(format_of(&copy), 1);

    // As docs/operations.md says; what the older program then opens is what it wrote.
    std::fs::rename(&copy, program.database()).unwrap();
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(program.database().with_extension(format!("db{suffix}")));
    }
    let dump = |path: &Path| {
        let connection = rusqlite::Connection::open(path).unwrap();
        let mut rows = connection.prepare("SELECT hex(body) FROM events ORDER BY session, seq").unwrap();
        let rows = rows.query_map([], |row| row.get::<_, String>(0)).unwrap();
        rows.map(Result::unwrap).collect::<Vec<String>>()
    };
    let original = program.home().join("original.db");
    std::fs::write(&original, before).unwrap();
    assert!(!dump(&original).is_empty());
    assert_eq!(dump(&program.database()), dump(&original));
}
