//! Many calls, many bytes, and a client that does not read.

use std::time::{Duration, Instant};

use baton_testkit::chat::Chat;
use baton_testkit::client::frame;
use baton_testkit::model_server::{Action, Reply};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

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
                assert!(error["message"].as_str().unwrap().contains("under way"), "{error}")
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

/// Asks for ever and never reads: it is cut off, nobody else waits, and the server stays small.
#[tokio::test]
async fn a_client_that_never_reads_is_cut_off_and_costs_others_nothing() {
    let (program, model) = scripted().await;
    let mut server = program.serve().await;
    let watcher = server.connect().await;
    let chat = Chat::create(&watcher, json!({"streaming": true, "sessionId": "busy"})).await;
    let other = server.connect().await;
    let elsewhere = Chat::create(&other, json!({})).await;
    let (idle_memory, descriptors) = (server.memory(), server.descriptors());
    // It is attached to the session, so it is sent everything that is streamed there.
    let mut mute = server.dial().await;
    mute.write_all(&frame(&json!({"id": 1, "method": "connect"}))).await.unwrap();
    mute.write_all(&frame(
        &json!({"id": 2, "method": "session.resume", "params": {"sessionId": "busy", "streaming": true}}),
    ))
    .await
    .unwrap();
    let from = watcher.count();
    chat.event("session.resume", 0).await;
    let word = "x".repeat(64 * 1024) + " ";
    model.push(Reply::new([Action::Text(word.repeat(128))]));
    chat.send("stream eight megabytes").await;
    let turn = chat.until_idle(from).await;
    assert_eq!(turn.of("assistant.message_delta").len(), 128, "who reads gets every piece");
    let streamed_memory = server.memory();
    // And now it asks for the whole history, again and again.
    let ask =
        |n: usize| json!({"id": 10 + n, "method": "session.getMessages", "params": {"sessionId": "busy"}});
    let flood = tokio::spawn(async move {
        for n in 0..40 {
            if mute.write_all(&frame(&ask(n))).await.is_err() {
                break;
            }
        }
        mute
    });
    let slowest = slowest_turn(&elsewhere).await;
    let mute = flood.await.unwrap();
    until_cut_off(&server, descriptors).await;
    println!(
        "slow reader: {} MB idle, {} MB after 8 MB streamed, {} MB at the peak; the slowest turn of another took {slowest:?}",
        idle_memory / MB,
        streamed_memory / MB,
        server.peak_memory() / MB
    );
    assert!(server.peak_memory() < 320 * MB, "{} MB", server.peak_memory() / MB);
    assert!(slowest < Duration::from_secs(3), "others had to wait {slowest:?}");
    chat.assert_usable().await;
    // Nothing of it is left that could keep the server from stopping.
    assert!(server.stop().await.success());
    drop(mute);
}

async fn slowest_turn(chat: &Chat<'_>) -> Duration {
    let mut slowest = Duration::ZERO;
    for _ in 0..10 {
        let begun = Instant::now();
        chat.assert_usable().await;
        slowest = slowest.max(begun.elapsed());
    }
    slowest
}

async fn until_cut_off(server: &baton_testkit::program::Running, descriptors: usize) {
    for _ in 0..2000 {
        if server.descriptors() <= descriptors {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the connection of the client that does not read is still open");
}

/// A server that is asked to stop must not wait for a client that does not read.
#[tokio::test]
async fn a_client_that_never_reads_does_not_keep_the_server_alive() {
    let (program, _model) = scripted().await;
    let mut server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({"sessionId": "s"})).await;
    chat.ok("session.log", json!({"message": "x".repeat(32 << 20)})).await;
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

/// A reader that is slow but steady is served, however large one answer is.
#[tokio::test]
async fn one_large_answer_is_no_reason_to_cut_a_client_off() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({})).await;
    let large = "x".repeat(9 << 20);
    for _ in 0..4 {
        chat.ok("session.plan.update", json!({"content": "x"})).await;
        chat.ok("session.log", json!({"message": large})).await;
        chat.ok("session.log", json!({"message": large})).await;
    }
    let history = chat.history().await;
    let bytes: usize = history.iter().map(|e| e["data"]["message"].as_str().map_or(0, str::len)).sum();
    assert_eq!(bytes, 8 * large.len(), "72 MB in one answer");
    let kinds: Vec<&Value> = history.iter().map(|event| &event["type"]).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "session.info").count(), 8);
}
