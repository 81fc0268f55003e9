//! Several clients of one server: tokens, shared sessions, pending work.

use std::sync::Arc;

use github_copilot_sdk::rpc::HandlePendingToolCallRequest;
use serde_json::json;

use crate::world::{Lookup, World, ask, call, config, lookup, of, resume, until};

const TOKEN: &str = "shared token";

#[tokio::test]
async fn only_the_correct_token_is_accepted() {
    let world = World::open().await;
    let server = world.listen(TOKEN).await;
    let refused = server.client("wrong").await.err().unwrap().to_string();
    assert!(refused.contains("AUTHENTICATION_FAILED"), "{refused}");
    let client = server.client(TOKEN).await.unwrap();
    let session = client.create_session(config()).await.unwrap();
    assert_eq!(ask(&session, "[[text:hello]]").await, "hello");
}

#[tokio::test]
async fn both_clients_see_the_same_order_of_events() {
    let world = World::open().await;
    let server = world.listen(TOKEN).await;
    let (one, two) = (server.client(TOKEN).await.unwrap(), server.client(TOKEN).await.unwrap());
    let mine =
        one.create_session(config().with_tools([lookup().with_handler(Arc::new(Lookup))])).await.unwrap();
    let yours = two.resume_session(resume(mine.id())).await.unwrap();
    let views = [mine.subscribe(), yours.subscribe()];
    mine.send(call("lookup", json!({ "value": "tea" })) + "[[text:Done]]").await.unwrap();
    let mut turns = Vec::new();
    for mut view in views {
        let seen = until(&mut view, "session.idle").await;
        let turn = seen.into_iter().skip_while(|event| event.event_type != "user.message");
        turns.push(turn.map(|event| event.id).collect::<Vec<_>>());
    }
    assert!(turns[0].len() > 5, "{turns:?}");
    assert_eq!(turns[0], turns[1]);
    assert_eq!(world.tool_results().await, ["found tea"]);
}

#[tokio::test]
async fn next_client_answers_an_open_tool_call_after_a_kill() {
    let world = World::open().await;
    let mut first = world.listen(TOKEN).await;
    let client = first.client(TOKEN).await.unwrap();
    let session = client.create_session(config().with_tools([lookup()])).await.unwrap();
    let mut events = session.subscribe();
    session.send(call("lookup", json!({ "value": "tea" })) + "[[text:Done]]").await.unwrap();
    let seen = until(&mut events, "external_tool.requested").await;
    let request_id = of(&seen, "external_tool.requested")[0]["requestId"].as_str().unwrap().into();
    first.server.kill().await.unwrap();

    let second = world.listen(TOKEN).await;
    let client = second.client(TOKEN).await.unwrap();
    let resumed = resume(session.id()).with_tools([lookup()]).with_continue_pending_work(true);
    let again = client.resume_session(resumed).await.unwrap();
    let mut events = again.subscribe();
    let answer =
        HandlePendingToolCallRequest { request_id, result: Some(json!("FROM THE NEXT CLIENT")), error: None };
    assert!(again.rpc().tools().handle_pending_tool_call(answer).await.unwrap().success);
    until(&mut events, "session.idle").await;
    assert_eq!(world.tool_results().await, ["FROM THE NEXT CLIENT"]);
}
