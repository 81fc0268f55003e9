//! Rewinds with files: they restore what the session's tools changed, and nothing else.

use std::fs;
use std::path::PathBuf;

use baton_testkit::chat::Chat;
use baton_testkit::client::Client;
use baton_testkit::model_server::ModelServer;
use baton_testkit::program::Program;
use serde_json::{Value, json};

use crate::scripted;

const TRACKED: &str = "enableFileChangeTracking";

/// A session whose files are tracked, and whose tools are allowed.
async fn tracked<'a>(program: &Program, client: &'a Client) -> Chat<'a> {
    Chat::trusting(client, json!({TRACKED: true, "workingDirectory": program.work()})).await
}

async fn points(chat: &Chat<'_>) -> Vec<Value> {
    let list = chat.ok("session.history.listRewindPoints", json!({})).await;
    assert_eq!(
        (&list["fileChangeTrackingEnabled"], &list["unavailableReason"]),
        (&json!(true), &Value::Null)
    );
    list["points"].as_array().unwrap().clone()
}

async fn rewind(chat: &Chat<'_>, point: &Value) -> Value {
    let params = json!({"eventId": point["eventId"], "mode": "conversation-and-files"});
    chat.ok("session.history.rewind", params).await
}

fn names(files: &Value) -> Vec<&str> {
    let paths = files.as_array().unwrap().iter().map(|file| file["path"].as_str().or(file.as_str()).unwrap());
    paths.map(|path| path.rsplit('/').next().unwrap()).collect()
}

#[tokio::test]
async fn rewind_restores_files_and_conversation_after_a_kill() {
    let (program, _model) = scripted().await;
    let work = program.work();
    fs::write(work.join("old.txt"), "one\ntwo\n").unwrap();
    fs::write(work.join("gone.txt"), "precious\n").unwrap();
    let mut server = program.serve().await;
    let id = {
        let client = server.connect().await;
        let chat = tracked(&program, &client).await;
        chat.turn("hello").await;
        chat.turn(r#"[[tool:create {"path":"new.txt","file_text":"a\nb\n"}]]"#).await;
        chat.turn(r#"[[tool:edit {"path":"old.txt","old_str":"two","new_str":"2"}]][[tool:bash {"command":"rm gone.txt; echo x > made.txt"}]]"#).await;
        chat.id.clone()
    };
    server.kill().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::resume(&client, &id, json!({})).await;
    let all = points(&chat).await;
    let values = |name: &str| all.iter().map(|point| point[name].clone()).collect::<Vec<_>>();
    assert_eq!(values("fileCount"), [4, 4, 3]);
    assert_eq!(values("turnChangedFiles"), [false, true, true]);
    assert_eq!(values("linesAdded"), [0, 2, 2], "a, b; then 2 and x");
    assert_eq!(values("linesRemoved"), [0, 0, 2], "two and precious");

    let diff = chat.ok("session.workspaces.diff", json!({"mode": "session"})).await;
    assert_eq!(names(&diff["changes"]), ["gone.txt", "made.txt", "new.txt", "old.txt"]);
    assert!(diff["changes"][3]["diff"].as_str().unwrap().contains("-two\n+2"), "{diff}");
    let preview = chat.ok("session.history.previewRewind", json!({"eventId": all[2]["eventId"]})).await;
    assert_eq!(names(&preview["files"]), ["gone.txt", "made.txt", "old.txt"]);
    let kinds: Vec<_> =
        preview["files"].as_array().unwrap().iter().map(|f| f["changeType"].clone()).collect();
    assert_eq!(kinds, ["deleted", "created", "modified"]);

    let done = rewind(&chat, &all[2]).await;
    assert_eq!((&done["outcome"], names(&done["restoredFiles"]).len()), (&json!("success"), 3), "{done}");
    assert_eq!(fs::read_to_string(work.join("old.txt")).unwrap(), "one\ntwo\n");
    assert_eq!(fs::read_to_string(work.join("gone.txt")).unwrap(), "precious\n");
    assert!(!work.join("made.txt").exists() && work.join("new.txt").exists());
    assert_eq!(points(&chat).await.len(), 2);

    fs::write(work.join("new.txt"), "the user's own").unwrap();
    let done = rewind(&chat, &all[0]).await;
    assert_eq!(done["skippedFiles"][0]["reason"], "user-modified", "{done}");
    assert_eq!(fs::read_to_string(work.join("new.txt")).unwrap(), "the user's own");
    assert!(points(&chat).await.is_empty());
    chat.assert_usable().await;
}

#[tokio::test]
async fn files_are_tracked_only_if_enabled_at_creation() {
    let (program, _model) = scripted().await;
    let work = program.work();
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::trusting(&client, json!({"workingDirectory": work})).await;
    chat.turn(r#"[[tool:create {"path":"new.txt","file_text":"a"}]]"#).await;
    let chat = Chat::resume(&client, &chat.id, json!({TRACKED: true})).await;
    let list = chat.ok("session.history.listRewindPoints", json!({})).await;
    assert_eq!(
        (&list["fileChangeTrackingEnabled"], &list["points"][0]["fileCount"]),
        (&json!(false), &json!(0))
    );
    let preview = json!({"eventId": list["points"][0]["eventId"]});
    let preview = chat.ok("session.history.previewRewind", preview).await;
    assert_eq!(preview["reason"], "file-change-tracking-disabled");
    assert_eq!(rewind(&chat, &list["points"][0]).await["outcome"], "file-change-tracking-disabled");
    assert!(work.join("new.txt").exists());
}

#[tokio::test]
async fn busy_session_refuses_to_rewind() {
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = tracked(&program, &client).await;
    chat.turn("hello").await;
    let point = points(&chat).await[0].clone();
    let from = client.count();
    chat.send("[[hold:door]]").await;
    model.wait_for_hold("door").await;
    let list = chat.ok("session.history.listRewindPoints", json!({})).await;
    assert_eq!((&list["unavailableReason"], &list["points"]), (&json!("session-busy"), &json!([])));
    assert_eq!(rewind(&chat, &point).await["outcome"], "session-busy");
    model.release("door");
    chat.until_idle(from).await;
    assert_eq!(rewind(&chat, &point).await["outcome"], "success");
}

/// The number of file snapshots of a session.
fn snapshots(program: &Program, chat: &Chat<'_>) -> usize {
    let directory = program.home().join("session-state").join(&chat.id).join("rewind");
    fs::read_dir(directory).map_or(0, Iterator::count)
}

/// A program with a file in its working directory.
async fn with_a_file() -> (Program, ModelServer, PathBuf) {
    let (program, model) = scripted().await;
    let file = program.work().join("a.txt");
    fs::write(&file, "one\n").unwrap();
    (program, model, file)
}

#[tokio::test]
async fn files_that_were_only_read_are_neither_restored_nor_stored() {
    let (program, _model) = scripted().await;
    let work = program.work();
    fs::write(work.join("read.txt"), "secret\n").unwrap();
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = tracked(&program, &client).await;
    chat.turn(r#"[[tool:bash {"command":"cp read.txt made.txt; expr notes : n"}]]"#).await;
    assert_eq!(snapshots(&program, &chat), 0, "the file was only read");
    fs::write(work.join("read.txt"), "the user's").unwrap();
    fs::write(work.join("notes"), "the user's, too").unwrap();
    let diff = chat.ok("session.workspaces.diff", json!({"mode": "session"})).await;
    assert_eq!(names(&diff["changes"]), ["made.txt"]);
    let all = points(&chat).await;
    let done = rewind(&chat, &all[0]).await;
    assert_eq!(names(&done["restoredFiles"]), ["made.txt"], "{done}");
    assert_eq!(done["skippedFiles"], json!([]), "unchanged files are not reported");
    assert_eq!(fs::read_to_string(work.join("read.txt")).unwrap(), "the user's");
    assert_eq!(fs::read_to_string(work.join("notes")).unwrap(), "the user's, too");
}

#[tokio::test]
async fn rewind_skips_files_that_the_user_changed() {
    let (program, _model, file) = with_a_file().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = tracked(&program, &client).await;
    chat.turn(r#"[[tool:edit {"path":"a.txt","old_str":"one","new_str":"two"}]]"#).await;
    fs::write(&file, "two\nthe user's\n").unwrap();
    chat.turn(r#"[[tool:edit {"path":"a.txt","old_str":"two","new_str":"three"}]]"#).await;
    let all = points(&chat).await;
    let done = rewind(&chat, &all[0]).await;
    assert_eq!((&done["outcome"], &done["restoredFiles"]), (&json!("success"), &json!([])), "{done}");
    assert_eq!(done["skippedFiles"][0]["reason"], "user-modified");
    assert_eq!(fs::read_to_string(&file).unwrap(), "three\nthe user's\n");
    assert_eq!(snapshots(&program, &chat), 0, "no file can be restored any more");
}

#[tokio::test]
async fn rewind_without_files_deletes_their_snapshots() {
    let (program, _model, _) = with_a_file().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = tracked(&program, &client).await;
    for method in ["session.history.rewind", "session.history.truncate"] {
        chat.turn(&format!(r#"[[tool:bash {{"command":"echo {method} >> a.txt"}}]]"#)).await;
        assert_eq!(snapshots(&program, &chat), 1);
        let point = points(&chat).await[0]["eventId"].clone();
        chat.ok(method, json!({"eventId": point, "mode": "conversation"})).await;
        assert_eq!(snapshots(&program, &chat), 0, "{method}");
    }
}
