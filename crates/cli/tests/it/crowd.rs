//! Many calls, many bytes, and a client that does not read.

use std::time::{Duration, Instant};

use baton_testkit::chat::Chat;
use baton_testkit::client::{Client, event_of, frame};
use baton_testkit::model_server::{Action, Reply};
use baton_testkit::program::Running;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::scripted;

const MB: u64 = 1 << 20;

#[tokio::test]
async fn five_thousand_calls_at_once_get_one_answer_each() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({})).await;
    let methods = ["session.metadata.snapshot", "session.name.get", "nope", "session.list", "ping"];
    let call =
        |n: usize| json!({"id": format!("c{n}"), "method": methods[n % 5], "params": {"sessionId": chat.id}});
    let calls: Vec<u8> = (0..5000).flat_map(|n| frame(&call(n))).collect();
    let begun = Instant::now();
    client.send_bytes(&calls).await.unwrap();
    for n in 0..5000 {
        match client.answer_to(&json!(format!("c{n}"))).await {
            Ok(result) => assert!(n % 5 != 2, "{result}"),
            // More than is good for the server is refused, with a reason.
            Err(error) if n % 5 != 2 => {
                assert!(error["message"].as_str().unwrap().contains("under way"), "{error}");
            }
            Err(error) => assert_eq!(error["message"], "Unhandled method nope"),
        }
    }
    println!("5000 calls: {:?}, peak memory {} MB", begun.elapsed(), server.peak_memory() / MB);
    assert!(server.peak_memory() < 200 * MB, "{} MB", server.peak_memory() / MB);
    chat.assert_usable().await;
}

#[tokio::test]
async fn a_thousand_prompts_at_once_are_all_accepted_and_all_get_their_outcome() {
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
    let heard: Vec<&str> = history.iter().filter_map(|e| e["data"]["messageId"].as_str()).collect();
    for id in &accepted {
        assert_eq!(
            heard.iter().filter(|heard| *heard == id).count(),
            1,
            "prompt {id} is in the history once"
        );
    }
    chat.assert_usable().await;
}

/// A connection that says hello, resumes a session, and then reads nothing.
async fn mute_watcher(server: &Running, session: &str) -> TcpStream {
    let mut mute = server.dial().await;
    let resume = json!({"sessionId": session, "streaming": true});
    for call in [
        json!({"id": 1, "method": "connect"}),
        json!({"id": 2, "method": "session.resume", "params": resume}),
    ] {
        mute.write_all(&frame(&call)).await.unwrap();
    }
    mute
}

const ANSWER: usize = 4 << 20;

/// Four megabytes in 64 pieces.
fn large_answer() -> Reply {
    Reply::new([Action::Text(("x".repeat(64 * 1024 - 1) + " ").repeat(64))])
}

/// Never reads, and asks for more and more: it is cut off, nobody else waits, and the server stays small.
#[tokio::test]
async fn a_client_that_never_reads_is_cut_off_and_costs_others_nothing() {
    let (program, model) = scripted().await;
    let mut server = program.serve().await;
    let (watcher, other) = (server.connect().await, server.connect().await);
    let chat = Chat::create(&watcher, json!({"streaming": true, "sessionId": "busy"})).await;
    let elsewhere = Chat::create(&other, json!({})).await;
    elsewhere.assert_usable().await;
    let (idle_memory, sockets) = (server.memory(), server.sockets());
    let mut mute = mute_watcher(&server, "busy").await;
    chat.event("session.resume", 0).await;
    model.push(large_answer());
    assert_eq!(chat.turn("stream").await.text().len(), ANSWER, "who reads is told everything");
    let streamed_memory = server.memory();
    // And now it asks for the whole history, again and again; and at last for what takes no time to answer.
    let history = json!({"id": 10, "method": "session.getMessages", "params": {"sessionId": "busy"}});
    let echo = json!({"id": 11, "method": "ping", "params": {"message": "x".repeat(4 << 20)}});
    let flood = tokio::spawn(async move {
        for _ in 0..40 {
            mute.write_all(&frame(&history)).await.unwrap();
        }
        for _ in 0..30 {
            if mute.write_all(&frame(&echo)).await.is_err() {
                break;
            }
        }
        mute
    });
    let slowest = slowest_turn(&elsewhere).await;
    let mute = flood.await.unwrap();
    server.until_sockets(sockets).await;
    println!(
        "slow reader: {} MB idle, {} MB after 4 MB streamed, {} MB at the peak; another's slowest turn took {slowest:?}",
        idle_memory / MB,
        streamed_memory / MB,
        server.peak_memory() / MB
    );
    assert!(server.peak_memory() < 400 * MB, "{} MB", server.peak_memory() / MB);
    chat.assert_usable().await;
    // Nothing of it is left that could keep the server from stopping.
    assert!(server.stop().await.success());
    drop(mute);
}

/// Reads late: every durable event once and in order, and after each turn the news that it is over.
#[tokio::test]
async fn a_client_that_falls_behind_is_caught_up() {
    let (program, model) = scripted().await;
    let server = program.serve().await;
    let watcher = server.connect().await;
    let chat = Chat::create(&watcher, json!({"streaming": true, "sessionId": "busy"})).await;
    let before = chat.history().await.len();
    let mute = mute_watcher(&server, "busy").await;
    chat.event("session.resume", 0).await;
    for _ in 0..3 {
        model.push(large_answer());
        assert_eq!(chat.turn("stream").await.text().len(), ANSWER);
    }
    let (reader, writer) = mute.into_split();
    let late = Client::new(reader, writer);
    let mut place = 0;
    for turn in 0..3 {
        let (at, idle) = late.event("busy", "session.idle", place).await;
        let events = late.frames();
        let mut earlier = events[..at].iter().rev().filter_map(|f| event_of(f, "busy"));
        let last = earlier.find(|event| event["ephemeral"] != true).unwrap();
        assert_eq!(last["type"], "assistant.turn_end", "turn {turn} is over before it is said to be");
        assert_eq!(idle["parentId"], last["id"]);
        place = at + 1;
    }
    let durable: Vec<Value> =
        late.events("busy").into_iter().filter(|event| event["ephemeral"] != true).collect();
    let history = chat.history().await;
    assert_eq!(durable.len(), history.len() - before);
    assert!(durable == history[before..], "the same events in the same order");
}

async fn slowest_turn(chat: &Chat<'_>) -> Duration {
    let mut slowest = Duration::ZERO;
    for _ in 0..5 {
        let begun = Instant::now();
        chat.assert_usable().await;
        slowest = slowest.max(begun.elapsed());
    }
    slowest
}

/// A server that is asked to stop must not wait for a client that does not read.
#[tokio::test]
async fn a_client_that_never_reads_does_not_keep_the_server_alive() {
    let (program, _model) = scripted().await;
    let mut server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({"sessionId": "s"})).await;
    chat.ok("session.log", json!({"message": "x".repeat(16 << 20)})).await;
    let mut mute = server.dial().await;
    for call in [
        json!({"id": 1, "method": "session.resume", "params": {"sessionId": "s"}}),
        json!({"id": 2, "method": "session.getMessages", "params": {"sessionId": "s"}}),
    ] {
        mute.write_all(&frame(&call)).await.unwrap();
    }
    // Until the answer has begun: the kernel has taken what it can, and the rest waits in the server.
    let mut some = Vec::new();
    while !some.windows(7).any(|window| window == b"\"id\":2,") {
        assert!(mute.read_buf(&mut some).await.unwrap() > 0);
    }
    assert!(server.stop().await.success());
}
