use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_mcp::{Notice, ServerStatus, ToolCallError, contents};
use serde_json::json;

use super::support::{LIMIT, World, call};

fn text(result: &serde_json::Value) -> String {
    contents(result).text
}

#[tokio::test]
async fn server_is_started_on_first_use_and_ended_with_the_host() {
    let world = World::odd("well");
    assert_eq!(world.ledger.running(), []);
    let result = world.call("echo", json!({ "text": "hello" })).await.unwrap();
    assert_eq!(text(&result), "hello");
    assert_eq!(world.server().status(), ServerStatus::Connected);
    assert_eq!(world.ledger.running().len(), 1);
    world.host.close().await;
    assert_eq!(world.ledger.running(), []);
    assert_eq!(world.server().status(), ServerStatus::Stopped);
    let refused = world.call("echo", json!({})).await.unwrap_err();
    assert!(matches!(refused, ToolCallError::Unavailable(_)), "{refused}");
}

#[tokio::test]
async fn environment_is_complete_and_expanded() {
    let world = World::odd("well");
    let get = async |name: &str| text(&world.call("env", json!({ "name": name })).await.unwrap());
    assert_eq!(get("GREETING").await, "hi!");
    assert_eq!(get("COPILOT_AGENT_SESSION_ID").await, "the-session");
    assert_eq!(get("HOME").await, "(unset)", "nothing is inherited");
}

#[tokio::test]
async fn tools_are_offered_with_prefixed_names() {
    let world = World::odd("well");
    assert_eq!(world.host.offered().len(), 0);
    assert_eq!(world.started().await, ServerStatus::Connected);
    let tool = world.host.find("odd-echo").unwrap();
    assert!(tool.tool.read_only_hint && !tool.is_trusted());
    let names: Vec<_> = world.host.offered().into_iter().map(|tool| tool.name).collect();
    assert!(names.is_sorted() && names.len() == 16, "{names:?}");
}

#[tokio::test]
async fn tool_that_changes_when_its_server_is_connected_again_is_not_called() {
    let world = World::odd("shifty");
    world.started().await;
    let approved = Some(world.host.find("odd-echo").unwrap().tool);
    let echo =
        || baton_mcp::ServerCall { approved: approved.clone(), ..call("echo", json!({ "text": "x" })) };
    assert_eq!(text(&world.server().call(echo()).await.unwrap()), "x");
    drop(world.call("die", json!({})).await);
    world.noticed(|notice| matches!(notice, Notice::Status(ServerStatus::Failed(_)))).await;
    assert_eq!(world.server().call(echo()).await, Err(ToolCallError::Changed));
    assert_eq!(world.server().status(), ServerStatus::Connected);
}

#[tokio::test]
async fn unusable_entries_do_not_hide_the_other_tools() {
    let world = World::odd("lies");
    assert_eq!(world.started().await, ServerStatus::Connected);
    assert_eq!(world.host.offered().len(), 17);
    let log = world.server().log().lines().join("\n");
    assert!(log.contains("cannot be offered") && log.len() < 10_000, "{log}");
}

#[tokio::test]
async fn server_without_a_handshake_is_used() {
    let world = World::odd("stateless");
    assert_eq!(world.started().await, ServerStatus::Connected);
    assert_eq!(world.ledger.running().len(), 1, "the refused attempt leaves no process");
    let result = world.call("echo", json!({ "text": "hello" })).await.unwrap();
    assert_eq!(text(&result), "hello");
    let asked = world.call("ask", json!({})).await.unwrap_err();
    assert!(asked.to_string().contains("not supported"), "{asked}");
}

#[tokio::test]
async fn updates_of_a_subscribed_resource_are_noticed() {
    let world = World::odd("well");
    assert_eq!(world.started().await, ServerStatus::Connected);
    world.server().request("resources/subscribe", json!({ "uri": "file:///a" })).await.unwrap();
    world.noticed(|notice| *notice == Notice::ResourceUpdated("file:///a".into())).await;
}

#[tokio::test]
async fn protocol_versions_are_negotiated() {
    assert_eq!(World::odd("old").started().await, ServerStatus::Connected);
    let ServerStatus::Failed(reason) = World::odd("future").started().await else { panic!() };
    assert!(reason.contains("1999-01-01"), "{reason}");
}

#[tokio::test]
async fn failures_to_start_are_explained() {
    let reason = async |world: World| match world.started().await {
        ServerStatus::Failed(reason) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        reason(World::odd("exit")).await,
        "MCP server process exited before completing the MCP initialize handshake (exit code 3); last stderr: \
         no configuration"
    );
    let missing = reason(World::with(json!({ "command": "/nowhere/at/all" }))).await;
    assert!(missing.starts_with("failed to spawn MCP server process: "), "{missing}");
    assert!(reason(World::with(json!({ "command": 7, "args": {} }))).await.contains("args"));
    assert!(reason(World::odd("refuse")).await.contains("not today"));
    assert!(reason(World::odd("wrong-list")).await.contains("tools/list"));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nobody = reason(World::with(json!({ "url": format!("http://127.0.0.1:{port}/mcp") }))).await;
    assert!(nobody.contains("refused"), "{nobody}");
}

#[tokio::test]
async fn noise_floods_and_endless_lists_do_no_harm() {
    for mode in ["noise", "flood", "endless", "no-tools"] {
        let world = World::odd(mode);
        assert_eq!(world.started().await, ServerStatus::Connected, "{mode}");
        let result = world.call("echo", json!({ "text": mode })).await.unwrap();
        assert_eq!(text(&result), mode);
        world.host.close().await;
        assert_eq!(world.ledger.running(), [], "{mode}");
        world.tasks.close();
        tokio::time::timeout(LIMIT, world.tasks.wait()).await.expect("all tasks end");
    }
}

#[tokio::test]
async fn crash_fails_the_call_and_the_next_one_starts_the_server_again() {
    let world = World::odd("well");
    assert_eq!(world.call("die", json!({})).await, Err(ToolCallError::Closed));
    world.noticed(|notice| matches!(notice, Notice::Status(ServerStatus::Failed(_)))).await;
    let ServerStatus::Failed(reason) = world.server().status() else { panic!() };
    assert!(reason.contains("exit code 7"), "{reason}");
    assert_eq!(world.host.offered().len(), 0);
    assert!(world.server().log().lines().contains(&"dying".to_owned()));
    assert_eq!(text(&world.call("echo", json!({ "text": "again" })).await.unwrap()), "again");
    assert_eq!(world.server().status(), ServerStatus::Connected);
}

#[tokio::test]
async fn server_that_keeps_failing_is_not_started_at_once() {
    let world = World::odd("exit");
    world.started().await;
    world.call("echo", json!({})).await.unwrap_err();
    let before = world.session.notices.borrow().len();
    let refused = world.call("echo", json!({})).await.unwrap_err();
    assert!(refused.to_string().contains("no configuration"), "{refused}");
    assert_eq!(world.session.notices.borrow().len(), before, "no third attempt");
}

#[tokio::test]
async fn silent_call_times_out_and_the_server_stays() {
    let world = World::odd("well");
    world.started().await;
    let silent = baton_mcp::ServerCall { patience: Duration::from_millis(50), ..call("slow", json!({})) };
    assert_eq!(world.server().call(silent).await, Err(ToolCallError::TimedOut));
    assert_eq!(text(&world.call("echo", json!({ "text": "x" })).await.unwrap()), "x");
}

#[tokio::test]
async fn call_can_be_cancelled() {
    let world = World::odd("well");
    world.started().await;
    let slow = call("slow", json!({}));
    let cancel = slow.cancel.clone();
    let server = world.server();
    let running = tokio::spawn(async move { server.call(slow).await });
    tokio::task::yield_now().await;
    cancel.cancel();
    assert_eq!(running.await.unwrap(), Err(ToolCallError::Cancelled));
}

#[tokio::test]
async fn progress_is_reported() {
    let world = World::odd("well");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = seen.clone();
    let progress = Arc::new(move |progress: baton_mcp::Progress| note.lock().unwrap().push(progress.message));
    let steps = baton_mcp::ServerCall { progress, ..call("steps", json!({})) };
    assert_eq!(text(&world.server().call(steps).await.unwrap()), "done");
    let mut seen = seen.lock().unwrap().clone();
    seen.sort();
    assert_eq!(seen, [Some("step 1".to_owned()), Some("step 2".to_owned())]);
}

#[tokio::test]
async fn changed_tools_are_offered_after_a_refresh() {
    let world = World::odd("well");
    world.started().await;
    world.call("grow", json!({})).await.unwrap();
    world.noticed(|notice| *notice == Notice::ToolsChanged).await;
    assert!(world.host.find("odd-grown").is_none());
    world.host.refresh().await;
    assert!(world.host.find("odd-grown").is_some());
}

#[tokio::test]
async fn tools_that_changed_and_cannot_be_listed_are_not_offered() {
    let world = World::odd("well");
    world.started().await;
    assert!(world.host.find("odd-echo").is_some());
    world.call("hide", json!({})).await.unwrap();
    world.noticed(|notice| *notice == Notice::ToolsChanged).await;
    // Two at the same time: neither goes on with the old list.
    let server = world.server();
    tokio::join!(server.refresh(), async {
        server.refresh().await;
        assert!(world.host.find("odd-echo").is_none());
    });
    assert_eq!(world.host.offered().len(), 0);
}

#[tokio::test]
async fn results_and_errors_are_passed_on() {
    let world = World::odd("well");
    let failed = world.call("fail", json!({})).await.unwrap();
    assert!(contents(&failed).is_error);
    let refused = world.call("refuse", json!({})).await.unwrap_err();
    assert_eq!(refused.to_string(), "McpError: MCP error -32602: bad [31marguments");
    let parts = contents(&world.call("parts", json!({})).await.unwrap());
    assert_eq!((parts.text.as_str(), parts.images.len(), parts.parts.len()), ("a\n\n{\"n\":1}", 1, 3));
    assert_eq!(parts.parts[2]["type"], "hologram");
}

#[tokio::test]
async fn answer_that_is_too_large_costs_the_connection_only() {
    let world = World::odd("well");
    assert_eq!(world.call("huge", json!({})).await, Err(ToolCallError::Closed));
    assert_eq!(text(&world.call("echo", json!({ "text": "x" })).await.unwrap()), "x");
}

#[tokio::test]
async fn answer_that_is_not_understood_fails_its_call() {
    let world = World::odd("well");
    let error = world.call("garble", json!({})).await.unwrap_err();
    assert!(error.to_string().contains("cannot be used"), "{error}");
    assert_eq!(text(&world.call("echo", json!({ "text": "x" })).await.unwrap()), "x");
}

#[tokio::test]
async fn form_of_a_server_is_answered() {
    let world = World::odd("well");
    let result = world.call("ask", json!({})).await.unwrap();
    assert_eq!(text(&result), r#"{"action":"accept","content":{"name":"Ada"}}"#);
    assert_eq!(world.session.questions.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn directory_of_the_session_is_the_root() {
    let world = World::odd("well");
    let roots = text(&world.call("roots", json!({})).await.unwrap());
    assert!(roots.contains("file:///"), "{roots}");
}

#[tokio::test]
async fn hanging_start_is_ended_by_stopping_the_server() {
    let world = World::odd("hang");
    world.host.start();
    world.noticed(|notice| *notice == Notice::Status(ServerStatus::Pending)).await;
    world.host.stop(super::support::NAME).await;
    world.host.settle().await;
    assert_eq!(world.server().status(), ServerStatus::Stopped);
    world.host.start();
    assert_eq!(world.server().status(), ServerStatus::Stopped);
    // The end of a process sends no event.
    let all_ended = async {
        while !world.ledger.running().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, all_ended).await.expect("the server's processes end");
}

#[tokio::test]
async fn all_processes_and_tasks_of_a_server_end_with_it() {
    for mode in ["child", "ignores-eof"] {
        let world = World::odd(mode);
        assert_eq!(world.started().await, ServerStatus::Connected);
        world.host.close().await;
        assert_eq!(world.ledger.running(), [], "{mode}");
        world.tasks.close();
        tokio::time::timeout(LIMIT, world.tasks.wait()).await.expect("all tasks end");
    }
}

#[tokio::test]
async fn disabled_server_is_never_started() {
    let world = World::odd("well");
    world.host.disable(super::support::NAME).await;
    assert_eq!(world.started().await, ServerStatus::Disabled);
    assert_eq!(world.ledger.running(), []);
    world.host.enable(super::support::NAME).await;
    assert_eq!(world.server().status(), ServerStatus::Connected);
    world.host.disable("unknown").await;
    let listed: Vec<_> = world.host.list().into_iter().map(|server| (server.name, server.status)).collect();
    assert_eq!(listed, [("odd".into(), ServerStatus::Connected), ("unknown".into(), ServerStatus::Disabled)]);
    world.host.reload().await;
    assert_eq!(world.server().status(), ServerStatus::Connected);
}
