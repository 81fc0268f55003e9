//! Providers of sessions that are created over HTTP.

use std::path::{Path, PathBuf};

use baton_testkit::model_server::ModelServer;
use serde_json::{Value, json};

use super::TestServer;

const KEY: &str = "sk-of-one-session-only";

fn provider(model: &ModelServer) -> Value {
    json!({"type": "openai", "baseUrl": model.base_url(), "apiKey": KEY})
}

/// The authorization of the last request to a model server.
fn authorization(model: &ModelServer) -> String {
    let last = model.requests().pop().expect("a request");
    last.header("authorization").unwrap_or_default().to_owned()
}

/// All files below a directory that contain a text.
fn files_with(directory: &Path, text: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let found = entries.flat_map(|path| match path.is_dir() {
        true => files_with(&path, text),
        false => {
            let content = std::fs::read(&path).unwrap_or_default();
            let contains = content.windows(text.len()).any(|part| part == text.as_bytes());
            contains.then_some(path).into_iter().collect()
        }
    });
    found.collect()
}

#[tokio::test]
async fn session_uses_the_provider_that_it_was_created_with() {
    let test = TestServer::start().await;
    let other = ModelServer::start().await;
    test.http.create("mine", json!({"model": "m", "provider": provider(&other)})).await;
    test.http.create("theirs", json!({"model": "m"})).await;
    for session in ["mine", "theirs"] {
        test.assert_usable(session).await;
    }
    assert_eq!(authorization(&other), format!("Bearer {KEY}"));
    let ours = test.model.requests();
    assert!(!ours.is_empty() && ours.iter().all(|request| request.header("authorization") != Some(KEY)));
    assert_eq!(other.requests().iter().filter(|r| r.path.ends_with("/completions")).count(), 1);
    assert_eq!(ours.iter().filter(|r| r.path.ends_with("/completions")).count(), 1);
}

#[tokio::test]
async fn provider_is_not_stored_and_its_session_does_not_use_the_servers_after_a_restart() {
    let mut test = TestServer::start().await;
    let other = ModelServer::start().await;
    test.http.create("s", json!({"model": "m", "provider": provider(&other)})).await;
    test.assert_usable("s").await;
    test.kill_and_restart().await;

    let prompt = test.http.prompt("s", "[[text:where to?]]").await;
    assert_eq!(test.http.outcome("s", &prompt).await, "failed");
    let history = test.history("s").await;
    let error = history.iter().rev().find(|(_, event)| event["type"] == "session.error").unwrap();
    assert!(error.1["data"]["message"].as_str().unwrap().contains("PATCH /api/sessions/s"), "{error:?}");
    assert!(test.model.requests().is_empty(), "the server's endpoint is not a substitute");

    let set = json!({"provider": provider(&other)});
    let _ = test.http.send("PATCH", "/api/sessions/s", &[], Some(&set)).await.expect(200);
    test.assert_usable("s").await;
    assert_eq!(authorization(&other), format!("Bearer {KEY}"));
    assert_eq!(files_with(test.program.home(), KEY), Vec::<PathBuf>::new(), "credentials are never stored");
}

#[tokio::test]
async fn invalid_providers_and_missing_directories_are_unprocessable() {
    let test = TestServer::start().await;
    let wrong = [
        (json!({"provider": {"baseUrl": "nowhere"}}), "invalid_provider"),
        (json!({"cwd": "/there/is/no/such/directory"}), "no_such_directory"),
    ];
    for (body, code) in wrong {
        assert_eq!(test.http.post("/api/sessions", body).await.refused(422), code);
    }
    assert_eq!(test.http.get("/api/sessions").await.expect(200)["sessions"], json!([]));
}

#[tokio::test]
async fn installed_engines_are_listed_although_the_endpoint_cannot_be_reached() {
    // Nothing listens on port 1.
    let program = crate::baton().env("OPENAI_BASE_URL", "http://127.0.0.1:1/v1");
    let programs = program.home().join("programs");
    std::fs::create_dir_all(&programs).unwrap();
    let search_path = format!("{}:/usr/bin:/bin", programs.display());
    let program = program.env("PATH", search_path);
    let server = program.serve_http(&[]).await;
    let http = baton_testkit::http::Http::new(&program, &server);
    assert_eq!(http.get("/api/models").await.refused(502), "model", "no engine is installed");

    let codex = programs.join("codex");
    std::fs::write(&codex, "#!/bin/sh\necho codex-cli 0.99.0\n").unwrap();
    std::fs::set_permissions(&codex, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let listed = http.get("/api/models").await.expect(200);
    let ids: Vec<_> = listed["models"].as_array().unwrap().iter().map(|model| &model["id"]).collect();
    assert_eq!(ids, ["codex"], "{listed}");
    assert!(!listed["endpointError"].as_str().unwrap().is_empty(), "{listed}");
}
