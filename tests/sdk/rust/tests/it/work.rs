//! Client tools, permissions, abort.

use std::sync::Arc;

use async_trait::async_trait;
use github_copilot_sdk::handler::{PermissionHandler, PermissionResult};
use github_copilot_sdk::{PermissionRequestData, RequestId, SessionConfig, SessionId};
use serde_json::json;

use crate::world::{Lookup, World, ask, call, config, lookup, of, until};

struct RejectAll;

#[async_trait]
impl PermissionHandler for RejectAll {
    async fn handle(&self, _: SessionId, _: RequestId, _: PermissionRequestData) -> PermissionResult {
        PermissionResult::reject(None)
    }
}

#[tokio::test]
async fn client_tool_is_called() {
    let world = World::open().await;
    let piped = world.serve().await;
    let tools = [lookup().with_handler(Arc::new(Lookup))];
    let session = piped.client.create_session(config().with_tools(tools)).await.unwrap();
    let prompt = call("lookup", json!({ "value": "tea" })) + "[[text:Done]]";
    assert_eq!(ask(&session, &prompt).await, "Done");
    assert_eq!(world.tool_results().await, ["found tea"]);
}

#[tokio::test]
async fn approved_action_is_executed() {
    let world = World::open().await;
    let piped = world.serve().await;
    let session = piped.client.create_session(config()).await.unwrap();
    let mut events = session.subscribe();
    let path = world.work().join("hello.txt");
    session
        .send(call("create", json!({ "path": path, "file_text": "hello" })) + "[[text:Done]]")
        .await
        .unwrap();
    let seen = until(&mut events, "session.idle").await;
    assert_eq!(std::fs::read_to_string(path).unwrap(), "hello");
    assert_eq!(of(&seen, "permission.requested")[0]["permissionRequest"]["kind"], "write");
    assert_eq!(of(&seen, "permission.completed")[0]["result"]["kind"], "approved");
}

#[tokio::test]
async fn rejected_action_is_not_executed() {
    let world = World::open().await;
    let piped = world.serve().await;
    let config = SessionConfig::default().with_permission_handler(Arc::new(RejectAll));
    let session = piped.client.create_session(config).await.unwrap();
    let mut events = session.subscribe();
    let path = world.work().join("hello.txt");
    session.send(call("create", json!({ "path": path, "file_text": "hello" }))).await.unwrap();
    let seen = until(&mut events, "session.idle").await;
    assert!(!path.exists());
    let decisions = of(&seen, "permission.completed");
    assert_eq!(decisions[0]["result"]["kind"], "denied-interactively-by-user");
}

#[tokio::test]
async fn abort_ends_a_command_and_the_session_continues() {
    let world = World::open().await;
    let piped = world.serve().await;
    let session = piped.client.create_session(config()).await.unwrap();
    let mut events = session.subscribe();
    session.send(call("bash", json!({ "command": "sleep 100", "description": "sleep" }))).await.unwrap();
    until(&mut events, "tool.execution_start").await;
    session.abort().await.unwrap();
    until(&mut events, "session.idle").await;
    assert_eq!(ask(&session, "What is 2+2? [[text:It is 4]]").await, "It is 4");
    assert_eq!(of(&session.get_events().await.unwrap(), "abort").len(), 1);
}
