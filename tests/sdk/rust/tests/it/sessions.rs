//! Sessions: create, prompt, stream, resume, disconnect.

use github_copilot_sdk::{SessionId, SystemMessageConfig};

use crate::world::{World, ask, config, of, resume, until};

#[tokio::test]
async fn session_is_created_and_disconnected() {
    let world = World::open().await;
    let piped = world.serve().await;
    let session = piped.client.create_session(config().with_model("claude-sonnet-4.5")).await.unwrap();
    let history = session.get_events().await.unwrap();
    assert_eq!(history[0].event_type, "session.start");
    assert_eq!(history[0].data["selectedModel"], "claude-sonnet-4.5");
    session.disconnect().await.unwrap();
    let error = session.get_events().await.unwrap_err().to_string();
    assert!(error.contains("session not found"), "{error}");
    piped.client.stop().await.unwrap();
}

#[tokio::test]
async fn new_process_resumes_a_session_with_its_conversation() {
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
async fn unknown_session_cannot_be_resumed() {
    let world = World::open().await;
    let piped = world.serve().await;
    let resumed = piped.client.resume_session(resume(&SessionId::from("unknown"))).await;
    let error = resumed.err().unwrap().to_string();
    assert!(error.contains("session not found"), "{error}");
}

#[tokio::test]
async fn settings_of_the_client_reach_the_model() {
    let world = World::open().await;
    let piped = world.serve().await;
    let message = SystemMessageConfig::new().with_mode("replace").with_content("You are Testy McTestface.");
    let config = config().with_system_message(message).with_available_tools(["view", "edit"]);
    let session = piped.client.create_session(config).await.unwrap();
    ask(&session, "[[text:hello]]").await;
    let request = &world.requests().await[0];
    assert_eq!(request["messages"][0]["content"], "You are Testy McTestface.");
    assert_eq!(request["tools"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn pieces_of_a_streamed_answer_add_up_to_the_message() {
    let world = World::open().await;
    let piped = world.serve().await;
    let session = piped.client.create_session(config().with_streaming(true)).await.unwrap();
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
async fn acknowledged_prompts_survive_a_killed_server() {
    let world = World::open().await;
    let mut first = world.serve().await;
    let session = first.client.create_session(config()).await.unwrap();
    ask(&session, "before [[text:hello]]").await;
    session.send("remember this [[hold:forever]]").await.unwrap();
    first.server.kill().await.unwrap();
    let second = world.serve().await;
    let again = second.client.resume_session(resume(session.id())).await.unwrap();
    assert_eq!(ask(&again, "after [[text:here]]").await, "here");
    let history = again.get_events().await.unwrap();
    let prompts: Vec<&str> =
        of(&history, "user.message").iter().map(|data| data["content"].as_str().unwrap()).collect();
    assert_eq!(prompts, ["before [[text:hello]]", "remember this [[hold:forever]]", "after [[text:here]]"]);
}
