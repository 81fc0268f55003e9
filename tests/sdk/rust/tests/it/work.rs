//! Work: tools of the client, permissions, abort, and pending work that somebody else finishes.

use std::sync::Arc;

use async_trait::async_trait;
use github_copilot_sdk::handler::{PermissionHandler, PermissionResult};
use github_copilot_sdk::rpc::HandlePendingToolCallRequest;
use github_copilot_sdk::{PermissionRequestData, RequestId, SessionConfig, SessionId};
use serde_json::json;

use crate::world::{Lookup, World, ask, call, config, lookup, of, resume, until};

struct RejectAll;

#[async_trait]
impl PermissionHandler for RejectAll {
    async fn handle(&self, _: SessionId, _: RequestId, _: PermissionRequestData) -> PermissionResult {
        PermissionResult::reject(None)
    }
}

#[tokio::test]
async fn a_tool_of_the_client_is_called() {
    let world = World::open().await;
    let served = world.serve().await;
    let tools = [lookup().with_handler(Arc::new(Lookup))];
    let session = served.client.create_session(config().with_tools(tools)).await.unwrap();
    let prompt = call("lookup", json!({ "value": "tea" })) + "[[text:Done]]";
    assert_eq!(ask(&session, &prompt).await, "Done");
    assert_eq!(world.tool_results().await, ["found tea"]);
}

#[tokio::test]
async fn what_is_rejected_does_not_happen() {
    let world = World::open().await;
    let served = world.serve().await;
    let config = SessionConfig::default().with_permission_handler(Arc::new(RejectAll));
    let session = served.client.create_session(config).await.unwrap();
    let mut events = session.subscribe();
    let path = world.work().join("hello.txt");
    session.send(call("create", json!({ "path": path, "file_text": "hello" }))).await.unwrap();
    let seen = until(&mut events, "session.idle").await;
    assert!(!path.exists());
    let decisions = of(&seen, "permission.completed");
    assert_eq!(decisions[0]["result"]["kind"], "denied-interactively-by-user");
}

#[tokio::test]
async fn a_command_is_aborted_and_the_session_goes_on() {
    let world = World::open().await;
    let served = world.serve().await;
    let session = served.client.create_session(config()).await.unwrap();
    let mut events = session.subscribe();
    session.send(call("bash", json!({ "command": "sleep 100", "description": "sleep" }))).await.unwrap();
    until(&mut events, "tool.execution_start").await;
    session.abort().await.unwrap();
    until(&mut events, "session.idle").await;
    assert_eq!(ask(&session, "What is 2+2? [[text:It is 4]]").await, "It is 4");
    assert_eq!(of(&session.get_events().await.unwrap(), "abort").len(), 1);
}

#[tokio::test]
async fn an_open_tool_call_survives_the_death_of_the_server() {
    let world = World::open().await;
    let mut first = world.serve().await;
    let session = first.client.create_session(config().with_tools([lookup()])).await.unwrap();
    let mut events = session.subscribe();
    session.send(call("lookup", json!({ "value": "tea" })) + "[[text:Done]]").await.unwrap();
    let seen = until(&mut events, "external_tool.requested").await;
    let request_id = of(&seen, "external_tool.requested")[0]["requestId"].as_str().unwrap().into();
    first.server.kill().await.unwrap();

    let second = world.serve().await;
    let resumed = resume(session.id()).with_tools([lookup()]).with_continue_pending_work(true);
    let again = second.client.resume_session(resumed).await.unwrap();
    let mut events = again.subscribe();
    let answer = HandlePendingToolCallRequest { request_id, result: Some(json!("LATE BUT THERE")), error: None };
    assert!(again.rpc().tools().handle_pending_tool_call(answer).await.unwrap().success);
    until(&mut events, "session.idle").await;
    assert_eq!(world.tool_results().await, ["LATE BUT THERE"]);
}
