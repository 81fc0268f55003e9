//! Sessions: create, talk, stream, resume, disconnect.

use github_copilot_sdk::{SystemMessageConfig, SessionId};

use crate::world::{World, ask, config, of, resume, until};

#[tokio::test]
async fn a_session_is_created_and_disconnected() {
    let world = World::open().await;
    let served = world.serve().await;
    let session = served.client.create_session(config().with_model("claude-sonnet-4.5")).await.unwrap();
    let history = session.get_events().await.unwrap();
    assert_eq!(history[0].event_type, "session.start");
    assert_eq!(history[0].data["selectedModel"], "claude-sonnet-4.5");
    session.disconnect().await.unwrap();
    let error = session.get_events().await.unwrap_err().to_string();
    assert!(error.contains("session not found"), "{error}");
    served.client.stop().await.unwrap();
}

#[tokio::test]
async fn another_process_resumes_and_remembers() {
    let world = World::open().await;
    let first = world.serve().await;
    let session = first.client.create_session(config()).await.unwrap();
    assert_eq!(ask(&session, "What is 1+1? [[text:It is 2]]").await, "It is 2");
    let second = world.serve().await;
    let again = second.client.resume_session(resume(session.id())).await.unwrap();
    assert_eq!(ask(&again, "And twice that? [[text:That is 4]]").await, "That is 4");
    let requests = world.requests().await;
    assert!(requests[1]["messages"].to_string().contains("It is 2"));
}

#[tokio::test]
async fn what_never_was_cannot_be_resumed() {
    let world = World::open().await;
    let served = world.serve().await;
    let resumed = served.client.resume_session(resume(&SessionId::from("never-was"))).await;
    let error = resumed.err().unwrap().to_string();
    assert!(error.contains("session not found"), "{error}");
}

#[tokio::test]
async fn the_model_is_sent_what_the_client_configured() {
    let world = World::open().await;
    let served = world.serve().await;
    let message = SystemMessageConfig::new().with_mode("replace").with_content("You are Testy McTestface.");
    let config = config().with_system_message(message).with_available_tools(["view", "edit"]);
    let session = served.client.create_session(config).await.unwrap();
    ask(&session, "[[text:hello]]").await;
    let request = &world.requests().await[0];
    assert_eq!(request["messages"][0]["content"], "You are Testy McTestface.");
    assert_eq!(request["tools"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn the_pieces_of_a_streamed_answer_make_the_message() {
    let world = World::open().await;
    let served = world.serve().await;
    let session = served.client.create_session(config().with_streaming(true)).await.unwrap();
    let mut events = session.subscribe();
    session.send("[[text:one two three]]").await.unwrap();
    let seen = until(&mut events, "session.idle").await;
    let (pieces, messages) = (of(&seen, "assistant.message_delta"), of(&seen, "assistant.message"));
    assert!(pieces.len() > 1);
    let whole: String = pieces.iter().map(|piece| piece["deltaContent"].as_str().unwrap()).collect();
    assert_eq!(whole, messages[0]["content"].as_str().unwrap());
    assert!(pieces.iter().all(|piece| piece["messageId"] == messages[0]["messageId"]));
}

#[tokio::test]
async fn nothing_that_was_acknowledged_is_lost_when_the_server_is_killed() {
    let world = World::open().await;
    let mut first = world.serve().await;
    let session = first.client.create_session(config()).await.unwrap();
    ask(&session, "before [[text:hello]]").await;
    session.send("remember this [[hold:for ever]]").await.unwrap();
    first.server.kill().await.unwrap();
    let second = world.serve().await;
    let again = second.client.resume_session(resume(session.id())).await.unwrap();
    assert_eq!(ask(&again, "after [[text:here]]").await, "here");
    let history = again.get_events().await.unwrap();
    let prompts: Vec<&str> =
        of(&history, "user.message").iter().map(|data| data["content"].as_str().unwrap()).collect();
    assert_eq!(prompts, ["before [[text:hello]]", "remember this [[hold:for ever]]", "after [[text:here]]"]);
}
