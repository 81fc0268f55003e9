//! Several clients of one server: who is let in, what they share, what they leave to each other.

use std::sync::Arc;

use github_copilot_sdk::rpc::HandlePendingToolCallRequest;
use serde_json::json;

use crate::world::{Lookup, World, ask, call, config, lookup, of, resume, until};

const TOKEN: &str = "a token that both sides know";

#[tokio::test]
async fn only_who_knows_the_token_is_let_in() {
    let world = World::open().await;
    let listening = world.listen(TOKEN).await;
    let refused = listening.client("wrong").await.err().unwrap().to_string();
    assert!(refused.contains("AUTHENTICATION_FAILED"), "{refused}");
    let client = listening.client(TOKEN).await.unwrap();
    let session = client.create_session(config()).await.unwrap();
    assert_eq!(ask(&session, "[[text:hello]]").await, "hello");
}

#[tokio::test]
async fn two_clients_see_the_same_turn() {
    let world = World::open().await;
    let listening = world.listen(TOKEN).await;
    let (one, two) = (listening.client(TOKEN).await.unwrap(), listening.client(TOKEN).await.unwrap());
    let mine = one.create_session(config().with_tools([lookup().with_handler(Arc::new(Lookup))])).await.unwrap();
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
async fn an_open_tool_call_is_left_to_the_next_client_of_the_next_server() {
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
    let answer = HandlePendingToolCallRequest { request_id, result: Some(json!("LATE BUT THERE")), error: None };
    assert!(again.rpc().tools().handle_pending_tool_call(answer).await.unwrap().success);
    until(&mut events, "session.idle").await;
    assert_eq!(world.tool_results().await, ["LATE BUT THERE"]);
}
