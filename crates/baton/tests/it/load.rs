//! Many calls, many bytes, and clients that do not read.

use baton_testkit::chat::Chat;
use baton_testkit::client::{Client, event_of, frame};
use baton_testkit::model_server::{ReplyAction, ScriptedReply};
use baton_testkit::program::Running;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::scripted;

const MB: u64 = 1 << 20;

#[tokio::test]
async fn five_thousand_concurrent_calls_get_one_answer_each() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({})).await;
    let methods = ["session.metadata.snapshot", "session.name.get", "nope", "session.list", "ping"];
    let call =
        |n: usize| json!({"id": format!("c{n}"), "method": methods[n % 5], "params": {"sessionId": chat.id}});
    let calls: Vec<u8> = (0..5000).flat_map(|n| frame(&call(n))).collect();
    client.send_bytes(&calls).await.unwrap();
    for n in 0..5000 {
        match client.answer_to(&json!(format!("c{n}"))).await {
            Ok(result) => assert!(n % 5 != 2, "{result}"),
            // Calls over the limit of open calls are refused.
            Err(error) if n % 5 != 2 => {
                assert!(error["message"].as_str().unwrap().contains("under way"), "{error}");
            }
            Err(error) => assert_eq!(error["message"], "Unhandled method nope"),
        }
    }
    assert!(server.peak_memory() < 200 * MB, "{} MB", server.peak_memory() / MB);
    chat.assert_usable().await;
}

#[tokio::test]
async fn thousand_concurrent_prompts_are_accepted_and_settled() {
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({})).await;
    let from = client.count();
    let first = chat.send("[[hold:gate]]").await;
    model.wait_for_hold("gate").await;
    let send = |n: usize| json!({"id": format!("p{n}"), "method": "session.send", "params": {"sessionId": chat.id, "prompt": "waits"}});
    let calls: Vec<u8> = (0..1000).flat_map(|n| frame(&send(n))).collect();
    client.send_bytes(&calls).await.unwrap();
    let mut accepted = vec![first];
    for n in 0..1000 {
        let answer = client.answer_to(&json!(format!("p{n}"))).await.unwrap();
        accepted.push(answer["messageId"].as_str().unwrap().to_owned());
    }
    chat.ok("session.abort", json!({})).await;
    chat.until_idle(from).await;
    let history = chat.history().await;
    let recorded: Vec<&str> = history.iter().filter_map(|e| e["data"]["messageId"].as_str()).collect();
    for id in &accepted {
        assert_eq!(
            recorded.iter().filter(|recorded| *recorded == id).count(),
            1,
            "prompt {id} is in the history once"
        );
    }
    chat.assert_usable().await;
}

/// A connection that resumes a session and then reads nothing.
async fn unread_connection(server: &Running, session: &str) -> TcpStream {
    let mut unread = server.dial().await;
    let resume = json!({"sessionId": session, "streaming": true});
    for call in [
        json!({"id": 1, "method": "connect"}),
        json!({"id": 2, "method": "session.resume", "params": resume}),
    ] {
        unread.write_all(&frame(&call)).await.unwrap();
    }
    unread
}

const ANSWER: usize = 4 << 20;

/// Four megabytes in 64 pieces.
fn large_answer() -> ScriptedReply {
    ScriptedReply::new([ReplyAction::Text(("x".repeat(64 * 1024 - 1) + " ").repeat(64))])
}

/// The client requests more and more without reading. It is disconnected, other clients go on, and memory stays bounded.
#[tokio::test]
async fn client_that_never_reads_is_disconnected_without_slowing_others() {
    let (program, model) = scripted().await;
    let mut server = program.serve().await;
    let (watcher, other) = (server.connect().await, server.connect().await);
    let chat = Chat::create(&watcher, json!({"streaming": true, "sessionId": "busy"})).await;
    let elsewhere = Chat::create(&other, json!({})).await;
    elsewhere.assert_usable().await;
    let sockets = server.sockets();
    let mut unread = unread_connection(&server, "busy").await;
    chat.event("session.resume", 0).await;
    model.push(large_answer());
    assert_eq!(chat.turn("stream").await.text().len(), ANSWER, "a client that reads gets everything");
    // The whole history, again and again; then large answers that take no time.
    let history = json!({"id": 10, "method": "session.getMessages", "params": {"sessionId": "busy"}});
    let echo = json!({"id": 11, "method": "ping", "params": {"message": "x".repeat(4 << 20)}});
    let flood = tokio::spawn(async move {
        for _ in 0..40 {
            unread.write_all(&frame(&history)).await.unwrap();
        }
        for _ in 0..30 {
            if unread.write_all(&frame(&echo)).await.is_err() {
                break;
            }
        }
        unread
    });
    for _ in 0..5 {
        elsewhere.assert_usable().await;
    }
    let unread = flood.await.unwrap();
    server.until_sockets(sockets).await;
    assert!(server.peak_memory() < 400 * MB, "{} MB", server.peak_memory() / MB);
    chat.assert_usable().await;
    // Nothing of the connection keeps the server from stopping.
    assert!(server.stop().await.success());
    drop(unread);
}

/// The client reads late. It gets every durable event once and in order, and `session.idle` after each turn.
#[tokio::test]
async fn client_that_falls_behind_gets_every_durable_event() {
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let watcher = server.connect().await;
    let chat = Chat::create(&watcher, json!({"streaming": true, "sessionId": "busy"})).await;
    let before = chat.history().await.len();
    let unread = unread_connection(&server, "busy").await;
    chat.event("session.resume", 0).await;
    for _ in 0..3 {
        model.push(large_answer());
        assert_eq!(chat.turn("stream").await.text().len(), ANSWER);
    }
    let (reader, writer) = unread.into_split();
    let late = Client::new(reader, writer);
    let mut from = 0;
    for turn in 0..3 {
        let (at, idle) = late.event("busy", "session.idle", from).await;
        let events = late.frames();
        let mut earlier = events[..at].iter().rev().filter_map(|f| event_of(f, "busy"));
        let last = earlier.find(|event| event["ephemeral"] != true).unwrap();
        assert_eq!(last["type"], "assistant.turn_end", "turn {turn} is over before it is said to be");
        assert_eq!(idle["parentId"], last["id"]);
        from = at + 1;
    }
    let durable: Vec<Value> =
        late.events("busy").into_iter().filter(|event| event["ephemeral"] != true).collect();
    let history = chat.history().await;
    assert_eq!(durable.len(), history.len() - before);
    assert!(durable == history[before..], "the same events in the same order");
}

#[tokio::test]
async fn client_that_never_reads_does_not_block_shutdown() {
    let (program, _model) = scripted().await;
    let mut server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({"sessionId": "s"})).await;
    chat.ok("session.log", json!({"message": "x".repeat(16 << 20)})).await;
    let mut unread = server.dial().await;
    for call in [
        json!({"id": 1, "method": "session.resume", "params": {"sessionId": "s"}}),
        json!({"id": 2, "method": "session.getMessages", "params": {"sessionId": "s"}}),
    ] {
        unread.write_all(&frame(&call)).await.unwrap();
    }
    // Once the answer has begun, the kernel's buffers are full, and the server holds the rest.
    let mut some = Vec::new();
    while !some.windows(7).any(|window| window == b"\"id\":2,") {
        assert!(unread.read_buf(&mut some).await.unwrap() > 0);
    }
    assert!(server.stop().await.success());
}
