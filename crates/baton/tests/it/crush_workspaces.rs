//! Workspaces of crush's API: claims, lifetime, contents, and secrets in responses.

use baton_testkit::chat::Chat;
use baton_testkit::program::MODEL_KEY;
use serde_json::{Value, json};

use crate::crush_client::{Crush, CrushServer, uuid};
use crate::eventually;

#[tokio::test]
async fn requests_need_a_client_id() {
    let server = CrushServer::start().await;
    let (a, _a_events) = server.attached().await;
    let at = a.workspace.clone();
    let work = server.program.work();
    for name in ["", "?client_id=", "?client_id=me", "?client_id=../x"] {
        for (method, path) in [("GET", "events"), ("POST", "current-session")] {
            let (status, error) = a.request(method, &format!("{at}/{path}{name}"), Some(&json!({}))).await;
            assert_eq!(status, 400, "{method} {path}{name}: {error}");
        }
        assert_eq!(a.request("DELETE", &format!("{at}{name}"), None).await.0, 400, "{name}");
    }
    for body in [
        json!({"path": work}),
        json!({"path": work, "client_id": "me"}),
        json!({"client_id": uuid()}),
        json!(7),
    ] {
        let (status, error) = a.request("POST", "/v1/workspaces", Some(&body)).await;
        assert_eq!(status, 400, "{body}");
        assert!(error["message"].as_str().is_some_and(|text| text.len() > 10), "{error}");
    }
    assert_eq!(a.request("DELETE", "/v1/clients/me", None).await.0, 400);
}

#[tokio::test]
async fn unknown_resources_are_not_found() {
    let server = CrushServer::start().await;
    let (a, _a_events) = server.attached().await;
    let (nowhere, me) = (format!("/v1/workspaces/{}", uuid()), &a.id);
    for (method, path) in [
        ("GET", nowhere.clone()),
        ("GET", "/v1/workspaces/..%2f..%2fetc".to_owned()),
        ("GET", format!("{nowhere}/events?client_id={me}")),
        ("GET", format!("{nowhere}/sessions")),
        ("POST", format!("{nowhere}/current-session?client_id={me}")),
        ("POST", format!("{nowhere}/agent")),
        ("GET", format!("{}/sessions/no-such", a.workspace)),
        ("GET", format!("{}/sessions/..%2f..%2fx/messages", a.workspace)),
        ("GET", "/v1/nothing".to_owned()),
    ] {
        let (status, error) =
            a.request(method, &path, Some(&json!({"session_id": "s", "prompt": "x"}))).await;
        assert_eq!(status, 404, "{method} {path}: {error}");
        assert!(error["message"].is_string(), "{error}");
    }
    assert_eq!(
        a.request("DELETE", &format!("{nowhere}?client_id={me}"), None).await.0,
        200,
        "deleting twice is fine"
    );
    assert_eq!(a.request("PATCH", "/v1/workspaces", None).await.0, 405);
}

#[tokio::test]
async fn clients_cannot_stop_the_server_and_its_version_is_its_own() {
    let server = CrushServer::start().await;
    let a = server.client().await;
    assert_eq!(a.request("GET", "/v1/health", None).await.0, 200);
    let (_, version) = a.request("GET", "/v1/version", None).await;
    assert!(
        version["version"].as_str().unwrap().starts_with("baton-") && version["build_id"].is_string(),
        "{version}"
    );
    for (command, status) in [("shutdown", 409), ("shutdown_if_idle", 409), ("dance", 400)] {
        assert_eq!(
            a.request("POST", "/v1/control", Some(&json!({"command": command}))).await.0,
            status,
            "{command}"
        );
    }
    assert_eq!(a.request("GET", "/v1/workspaces", None).await, (200, json!([])));
}

#[tokio::test]
async fn directory_has_one_workspace_with_the_options_of_the_first_client() {
    let server = CrushServer::start().await;
    let (mut a, mut b) = (server.client().await, server.client().await);
    let made = a.create(json!({"yolo": true})).await;
    let link = server.program.home().join("link");
    std::os::unix::fs::symlink(server.program.work(), &link).unwrap();
    let same = b.create(json!({"path": link, "yolo": false})).await;
    assert_eq!((&same["id"], &same["yolo"]), (&made["id"], &json!(true)));
    let other = b.create(json!({"path": server.program.home()})).await;
    assert_ne!(other["id"], made["id"]);
    let refused = json!({"path": server.program.work(), "client_id": uuid(), "channels": ["x"]});
    assert_eq!(a.request("POST", "/v1/workspaces", Some(&refused)).await.0, 409);
    let all = a.request("GET", "/v1/workspaces", None).await.1;
    assert_eq!(all.as_array().unwrap().len(), 2);
}

/// Clients send their whole environment, and the server's configuration has keys.
#[tokio::test]
async fn responses_contain_no_secret() {
    let server = CrushServer::start().await;
    let (a, _a_events) = server.attached().await;
    for path in ["", "/config", "/providers", "/agent"] {
        let said = a.get(path).await.to_string();
        assert!(!said.contains("not-to-be-seen") && !said.contains("api_key"), "{path}: {said}");
        assert!(!said.contains(MODEL_KEY), "{path}: {said}");
    }
    let config = a.get("/config").await;
    assert!(config["options"].is_object() && config["providers"].is_object(), "{config}");
    assert_eq!(config["models"]["large"]["model"], "scripted");
    let key = json!({"scope": 0, "provider_id": "baton", "kind": "string", "api_key": "k"});
    assert_eq!(a.post("/config/provider-key", key).await.0, 400);
}

#[tokio::test]
async fn workspace_lives_as_long_as_a_client_claims_it() {
    let server = CrushServer::without_grace().await;
    let (a, a_events) = server.attached().await;
    let (b, b_events) = server.attached().await;
    drop(a_events);
    a.retire().await;
    assert_eq!(a.request("GET", &a.workspace, None).await.0, 200, "the other client holds it");
    drop(b_events);
    b.until_gone().await;
    let (status, _) =
        a.request("POST", "/v1/workspaces", Some(&json!({"path": "/tmp", "client_id": a.id}))).await;
    assert_eq!(status, 409, "a retired client cannot come back");
    assert_eq!(b.request("GET", &format!("{}/events?client_id={}", b.workspace, b.id), None).await.0, 404);
}

#[tokio::test]
async fn claim_without_a_stream_expires_and_a_short_disconnect_does_not_matter() {
    let server =
        CrushServer::configured("[workspaces]\ncreate_grace_seconds = 0.05\ndetach_grace_seconds = 60").await;
    let mut a = server.client().await;
    a.create(json!({})).await;
    a.until_gone().await;
    // The grace period is short, and the machine may be slow: retry until the stream is opened in time.
    let mut b = server.client().await;
    let stream = eventually("a stream", async || {
        b.create(json!({})).await;
        b.try_stream().await
    })
    .await;
    drop(stream);
    let _again = b.stream().await;
    assert_eq!(b.request("GET", &b.workspace, None).await.0, 200);
}

#[tokio::test]
async fn retired_client_ends_its_stream_and_workspace() {
    let server = CrushServer::start().await;
    let (a, mut a_events) = server.attached().await;
    let release = format!("{}?client_id={}", a.workspace, a.id);
    assert_eq!(a.request("DELETE", &release, None).await.0, 200);
    assert_eq!(a.request("GET", &a.workspace, None).await.0, 200, "its stream keeps it");
    a.retire().await;
    a_events.ended().await;
    a.until_gone().await;
}

#[tokio::test]
async fn clients_of_a_current_session_are_counted() {
    let server = CrushServer::start().await;
    let mut a = server.client().await;
    a.create(json!({})).await;
    let session = a.session().await;
    let look = |client: &Crush| format!("{}/current-session?client_id={}", client.workspace, client.id);
    let body = json!({"session_id": session});
    assert_eq!(a.request("POST", &look(&a), Some(&body)).await.0, 409, "a claim without a stream");
    let _a_events = a.stream().await;
    assert_eq!(a.request("POST", &look(&a), Some(&body)).await.0, 200);
    assert_eq!(a.request("POST", &look(&a), Some(&json!("x"))).await.0, 400);
    assert_eq!(a.get("/sessions").await[0]["attached_clients"], 1);
    assert_eq!(a.get(&format!("/sessions/{session}")).await["attached_clients"], 1);
    assert_eq!(a.request("POST", &look(&a), Some(&json!({"session_id": ""}))).await.0, 200);
    assert_eq!(a.get("/sessions").await[0]["attached_clients"], 0);
}

#[tokio::test]
async fn sessions_are_listed_renamed_and_deleted() {
    let server = CrushServer::start().await;
    let (a, mut a_events) = server.attached().await;
    let session = a.session().await;
    a_events
        .find("the new one", |kind, object| {
            (kind == "session" && object["id"] == json!(session)).then_some(())
        })
        .await;
    a.prompt(&session, "[[hold:go]][[text:x]]what is this about?", Some("r")).await;
    server.model.wait_for_hold("go").await;
    assert_eq!(a.get("/sessions").await[0]["is_busy"], true);
    assert_eq!(a.get("/agent").await["is_busy"], true);
    server.model.release("go");
    a_events.run_complete("r").await;
    let shown = a.get(&format!("/sessions/{session}")).await;
    assert_eq!((&shown["is_busy"], &shown["message_count"]), (&json!(false), &json!(2)), "{shown}");
    assert!(shown["title"].as_str().unwrap().contains("what is this about?"), "{shown}");
    let at = format!("{}/sessions/{session}", a.workspace);
    let (_, saved) = a.request("PUT", &at, Some(&json!({"id": session, "title": "A name"}))).await;
    assert_eq!(saved["title"], "A name");
    assert_eq!(a.get("/messages/user").await.as_array().unwrap().len(), 1);
    assert_eq!(a.get(&format!("/sessions/{session}/messages/user")).await.as_array().unwrap().len(), 1);
    // Sessions of other directories are not part of the workspace.
    let sdk = server.running.connect().await;
    let elsewhere = Chat::create(&sdk, json!({"workingDirectory": "/tmp"})).await;
    assert_eq!(a.request("GET", &format!("{}/sessions/{}", a.workspace, elsewhere.id), None).await.0, 404);
    assert_eq!(a.get("/sessions").await.as_array().unwrap().len(), 1);
    assert_eq!(a.request("DELETE", &at, None).await.0, 200);
    let deleted = |kind: &str, object: &Value| {
        (kind == "session" && object["title"].is_null()).then(|| object["id"].clone())
    };
    assert_eq!(a_events.find("its end", deleted).await, json!(session));
    assert_eq!(a.get("/sessions").await, json!([]));
}

#[tokio::test]
async fn chosen_model_is_announced_and_used() {
    let server = CrushServer::start().await;
    let (a, mut a_events) = server.attached().await;
    let choice =
        json!({"scope": 0, "model_type": "large", "model": {"model": "bigger", "provider": "baton"}});
    a.ok("/config/model", choice).await;
    let changed = a_events.next("config_changed").await;
    assert!(a.workspace.ends_with(changed["workspace_id"].as_str().unwrap()));
    assert_eq!(a.get("").await["config"]["models"]["large"]["model"], "bigger");
    assert_eq!(a.get("/agent").await["model_cfg"]["model"], "bigger");
    let session = a.session().await;
    a.prompt(&session, "[[text:x]]", Some("r")).await;
    a_events.run_complete("r").await;
    assert_eq!(server.model_requests()[0]["model"], "bigger");
    a.ok("/config/compact", json!({"scope": 0, "enabled": true})).await;
    assert_eq!(a.get("/config").await["options"]["tui"]["compact_mode"], true);
    a.ok("/config/set", json!({"scope": 0, "key": "options.progress", "value": false})).await;
    assert_eq!(a.get("/config").await["options"]["progress"], false);
    a.ok("/config/remove", json!({"scope": 0, "key": "options.progress"})).await;
    assert_eq!(a.get("/config").await["options"]["progress"], Value::Null);
    for (path, body) in [
        ("/config/set", json!({"key": "providers.baton.base_url", "value": "http://evil"})),
        ("/config/set", json!({"key": "options..x", "value": 1})),
        ("/config/model", json!({"model_type": "huge", "model": {"model": "x"}})),
        ("/config/model", json!({"model_type": "large", "model": {"model": ""}})),
    ] {
        assert_eq!(a.post(path, body.clone()).await.0, 400, "{body}");
    }
}

/// Features of crush that Baton does not have: their empty answers satisfy the terminal UI.
#[tokio::test]
async fn absent_features_are_empty() {
    let server = CrushServer::start().await;
    let (a, _a_events) = server.attached().await;
    let session = a.session().await;
    for path in ["/skills", "/mcp/prompts", "/mcp/pending-auth"] {
        assert_eq!(a.get(path).await, json!([]), "{path}");
    }
    for path in ["/mcp/states", "/lsps"] {
        assert_eq!(a.get(path).await, json!({}), "{path}");
    }
    for path in ["history", "filetracker/files"] {
        assert_eq!(a.get(&format!("/sessions/{session}/{path}")).await, json!([]), "{path}");
    }
    assert_eq!(a.get("/project/needs-init").await["needs_init"], false);
    assert!(
        a.get("/filetracker/lastread?session_id=s&path=p").await.as_str().unwrap().starts_with("0001-01-01T")
    );
    a.ok("/agent/init", json!({"interactive": false})).await;
    a.ok("/agent/update", json!({})).await;
}
