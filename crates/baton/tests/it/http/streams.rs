//! Event streams: each event arrives exactly once, across reconnects and restarts.

use baton_testkit::http::{Events, Streamed};
use serde_json::{Value, json};

use super::TestServer;

/// Reads this many durable events, and skips ephemeral ones.
async fn durable(events: &mut Events, count: usize) -> Vec<Streamed> {
    let mut found = Vec::new();
    while found.len() < count {
        found.push(events.until(|streamed| streamed.id.is_some()).await);
    }
    found
}

fn numbered(events: &[Streamed]) -> Vec<(u64, Value)> {
    events.iter().map(|streamed| (streamed.id.unwrap(), streamed.event.clone())).collect()
}

#[tokio::test]
async fn reconnecting_reader_gets_each_event_once() {
    let test = TestServer::start().await;
    test.http.create("s", json!({})).await;
    let mut seen: Vec<Streamed> = Vec::new();
    for round in 0..4 {
        let mut events = test.http.events("s", seen.last().map_or(0, |last| last.id.unwrap())).await;
        let prompt = test.http.prompt("s", "[[slow:5:1]]").await;
        // Disconnects in the middle of a turn, at a different event each time.
        seen.extend(durable(&mut events, 1 + round).await);
        drop(events);
        assert_eq!(test.http.outcome("s", &prompt).await, "completed");
    }
    let history = test.history("s").await;
    let mut rest = test.http.events("s", seen.last().unwrap().id.unwrap()).await;
    seen.extend(durable(&mut rest, history.len() - seen.len()).await);
    assert_eq!(numbered(&seen), history, "the streams add up to the history");
    let positions: Vec<u64> = history.iter().map(|(seq, _)| *seq).collect();
    assert_eq!(positions, (1..=history.len() as u64).collect::<Vec<_>>(), "without gaps");
}

#[tokio::test]
async fn cursor_is_valid_across_restarts_and_kills() {
    let mut test = TestServer::start().await;
    test.http.create("s", json!({})).await;
    let mut seen: Vec<Streamed> = Vec::new();
    for round in 0..4 {
        let mut events = test.http.events("s", seen.last().map_or(0, |last| last.id.unwrap())).await;
        test.http.prompt("s", &format!("[[slow:5:1]] number {round}")).await;
        seen.extend(durable(&mut events, 2).await);
        if round % 2 == 0 {
            test.kill_and_restart().await;
        } else {
            assert!(test.server.stop().await.success());
            // A graceful stop ends its streams.
            while let Some(streamed) = events.next().await {
                seen.extend(streamed.id.is_some().then_some(streamed));
            }
            test.restart().await;
        }
    }
    test.assert_usable("s").await;
    let history = test.history("s").await;
    let mut rest = test.http.events("s", seen.last().unwrap().id.unwrap()).await;
    seen.extend(durable(&mut rest, history.len() - seen.len()).await);
    assert_eq!(numbered(&seen), history);
    let settled = history.iter().filter(|(_, event)| event["type"] == "baton.turn_settled").count();
    assert_eq!(settled, 5, "every accepted prompt has its outcome");
}

#[tokio::test]
async fn reader_of_a_closed_session_gets_events_once_it_is_opened() {
    let mut test = TestServer::start().await;
    test.http.create("s", json!({})).await;
    test.assert_usable("s").await;
    test.kill_and_restart().await;
    let head = test.history("s").await.len() as u64;
    let mut events = test.http.events("s", head).await;
    test.http.prompt("s", "[[text:good morning]]").await;
    let said = events.kind("assistant.message").await;
    assert_eq!(said.event["data"]["content"], "good morning");
}

#[tokio::test]
async fn slow_reader_misses_nothing_and_delays_no_other() {
    let test = TestServer::start().await;
    test.http.create("s", json!({})).await;
    let mut slow = test.http.events("s", 0).await;
    let mut fast = test.http.events("s", 0).await;
    // More than all buffers on the way hold, so that the server has to queue for the slow reader.
    let much = format!("[[slow:3:1]] {}", "x".repeat(512 << 10));
    for _ in 0..30 {
        test.http.prompt("s", &much).await;
        fast.kind("session.idle").await;
    }
    let history = test.history("s").await;
    assert_eq!(numbered(&durable(&mut slow, history.len()).await), history);
    let prompt = test.http.prompt("s", "[[text:and now]]").await;
    assert_eq!(test.http.outcome("s", &prompt).await, "completed");
    assert_eq!(slow.kind("assistant.message").await.event["data"]["content"], "and now");
    assert_eq!(slow.kind("session.idle").await.id, None, "it gets ephemeral events, too");
}

#[tokio::test]
async fn ephemeral_events_have_no_position() {
    let test = TestServer::start().await;
    test.http.create("s", json!({})).await;
    let mut events = test.http.events("s", 0).await;
    test.http.prompt("s", "[[slow:3:1]]").await;
    let piece = events.kind("assistant.message_delta").await;
    assert_eq!((piece.id, &piece.event["ephemeral"]), (None, &json!(true)));
    assert!(events.kind("assistant.message").await.id.is_some());
    assert_eq!(events.kind("session.idle").await.id, None);
    let kinds: Vec<Value> = test.history("s").await.into_iter().map(|(_, e)| e["type"].clone()).collect();
    assert!(!kinds.contains(&json!("assistant.message_delta")), "{kinds:?}");
}

/// The list of requests is read between `ready` and the answer, as a client does whose user answers at once.
#[tokio::test]
async fn feed_tells_of_the_answer_to_a_request_of_before_a_restart() {
    let mut test = TestServer::start().await;
    test.http.create("s", json!({"cwd": test.program.work()})).await;
    test.http.prompt("s", r#"[[tool:bash {"command":"echo done > made"}]]"#).await;
    let request = test.http.pending("s").await["requestId"].as_str().unwrap().to_owned();
    test.kill_and_restart().await;
    let mut feed = test.http.feed().await;
    feed.kind("ready").await;
    let listed = test.http.get("/api/requests").await.expect(200);
    assert_eq!(listed["requests"][0]["requestId"], request);
    let head = listed["heads"]["s"].as_u64().unwrap();
    let yes = json!({"kind": "permission", "decision": "approve"});
    let _ = test.http.post(&format!("/api/sessions/s/requests/{request}"), yes).await.expect(200);
    // What is not newer than the list may list the request; the first change that is newer does not.
    let newer = |change: &Streamed| change.kind == "session" && change.event["head"].as_u64() > Some(head);
    assert_eq!(feed.until(newer).await.event["requests"], json!([]));
}

#[tokio::test]
async fn invalid_cursors_are_refused() {
    let test = TestServer::start().await;
    test.http.create("s", json!({})).await;
    let stream = |cursor: &'static str| {
        let http = test.http.clone();
        async move {
            let headers = [("Accept", "text/event-stream"), ("Last-Event-ID", cursor)];
            http.send("GET", "/api/sessions/s/events", &headers, None).await
        }
    };
    assert_eq!(stream("99").await.refused(409), "cursor_ahead");
    for nonsense in ["", "x", "-1", "1.5", "99999999999999999999999"] {
        assert_eq!(stream(nonsense).await.refused(400), "bad_request", "{nonsense:?}");
    }
    assert_eq!(test.http.get("/api/sessions/s/events?after=x").await.refused(400), "bad_request");
    assert_eq!(test.http.get("/api/sessions/nobody/events").await.refused(404), "not_found");
}

#[tokio::test]
async fn stream_of_a_deleted_session_ends() {
    let test = TestServer::start().await;
    test.http.create("s", json!({})).await;
    let mut events = test.http.events("s", 0).await;
    events.kind("session.start").await;
    let _ = test.http.send("DELETE", "/api/sessions/s", &[], None).await.expect(204);
    while events.next().await.is_some() {}
    assert_eq!(test.http.get("/api/sessions/s").await.refused(404), "not_found");
}

#[tokio::test]
async fn prompt_can_have_attachments() {
    let test = TestServer::start().await;
    test.http.create("s", json!({})).await;
    let marked =
        json!({"type": "selection", "filePath": "a.rs", "displayName": "a.rs", "text": "fn marked() {}"});
    let body = json!({"text": "what is this?", "attachments": [marked]});
    let sent = test.http.post("/api/sessions/s/prompts", body).await.expect(202);
    test.http.outcome("s", sent["promptId"].as_str().unwrap()).await;
    assert!(test.model.requests().last().unwrap().body.to_string().contains("fn marked()"));
    for nonsense in [json!([]), json!([null]), json!("text"), json!({"text": "x", "attachments": [[1, 2]]})] {
        let refused = test.http.post("/api/sessions/s/prompts", nonsense.clone()).await;
        assert!(matches!(refused.status, 400 | 422), "{nonsense}: {refused:?}");
    }
}

#[tokio::test]
async fn idempotency_key_of_a_different_prompt_is_refused() {
    let mut test = TestServer::start().await;
    test.http.create("s", json!({})).await;
    let key = [("Idempotency-Key", "one-key")];
    let file = json!({"type": "selection", "filePath": "a.rs", "displayName": "a.rs", "text": "fn a() {}"});
    let first = json!({"text": "[[text:first]]", "attachments": [file]});
    let path = "/api/sessions/s/prompts";
    let sent = test.http.send("POST", path, &key, Some(&first)).await.expect(202);
    for restart in [false, true] {
        if restart {
            test.kill_and_restart().await;
        }
        for other in [
            json!({"text": "[[text:second]]", "attachments": [file]}),
            json!({"text": "[[text:first]]"}),
            json!({"text": "[[text:first]]", "attachments": [file], "immediate": true}),
        ] {
            let refused = test.http.send("POST", path, &key, Some(&other)).await;
            assert_eq!(refused.refused(422), "key_reused", "{other}");
        }
        let again = test.http.send("POST", path, &key, Some(&first)).await.expect(202);
        assert_eq!(again["promptId"], sent["promptId"]);
    }
    test.http.outcome("s", sent["promptId"].as_str().unwrap()).await;
    let accepted = test.history("s").await.iter().filter(|(_, e)| e["type"] == "user.message").count();
    assert_eq!(accepted, 1);
}

#[tokio::test]
async fn prompt_with_an_idempotency_key_is_accepted_once() {
    let mut test = TestServer::start().await;
    test.http.create("s", json!({})).await;
    let body = json!({"text": "[[text:once]]"});
    let mut names = Vec::new();
    for restart in [false, false, true] {
        if restart {
            test.kill_and_restart().await;
        }
        let key = [("Idempotency-Key", "my-own-name-for-it")];
        let sent = test.http.send("POST", "/api/sessions/s/prompts", &key, Some(&body)).await;
        names.push(sent.expect(202)["promptId"].as_str().unwrap().to_owned());
    }
    assert!(names.iter().all(|name| *name == names[0]), "{names:?}");
    let path = format!("/api/sessions/s/prompts/{}", names[0]);
    assert_eq!(test.http.outcome("s", &names[0]).await, "completed");
    assert_eq!(test.http.get(&path).await.expect(200)["state"], "completed");
    let accepted = test.history("s").await.iter().filter(|(_, e)| e["type"] == "user.message").count();
    assert_eq!(accepted, 1);
    let other = [("Idempotency-Key", "another")];
    let sent = test.http.send("POST", "/api/sessions/s/prompts", &other, Some(&body)).await.expect(202);
    assert_ne!(sent["promptId"], names[0].as_str());
    for bad in ["", &"x".repeat(257), "caf\u{e9}"] {
        let key = [("Idempotency-Key", bad)];
        let sent = test.http.send("POST", "/api/sessions/s/prompts", &key, Some(&body)).await;
        assert_eq!(sent.refused(400), "bad_request", "{bad:?}");
    }
}
