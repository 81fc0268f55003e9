//! Streams of events: nothing is missed and nothing comes twice, however often a reader or the server goes away.

use baton_testkit::http::{Events, Streamed};
use serde_json::{Value, json};

use super::House;

/// Reads durable events until so many have come; ephemeral ones are passed over.
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
async fn a_reader_that_comes_and_goes_gets_each_event_once() {
    let house = House::open().await;
    house.http.create("s", json!({})).await;
    let mut seen: Vec<Streamed> = Vec::new();
    for round in 0..4 {
        let mut events = house.http.events("s", seen.last().map_or(0, |last| last.id.unwrap())).await;
        let prompt = house.http.prompt("s", "[[slow:5:1]]").await;
        // Somewhere in the middle, another place each time.
        seen.extend(durable(&mut events, 1 + round).await);
        drop(events);
        assert_eq!(house.http.outcome("s", &prompt).await, "completed");
    }
    let history = house.history("s").await;
    let mut rest = house.http.events("s", seen.last().unwrap().id.unwrap()).await;
    seen.extend(durable(&mut rest, history.len() - seen.len()).await);
    assert_eq!(numbered(&seen), history, "what the streams said, in order, is the history");
    let places: Vec<u64> = history.iter().map(|(seq, _)| *seq).collect();
    assert_eq!(places, (1..=history.len() as u64).collect::<Vec<_>>(), "without gaps");
}

#[tokio::test]
async fn a_cursor_holds_across_restarts_and_kills() {
    let mut house = House::open().await;
    house.http.create("s", json!({})).await;
    let mut seen: Vec<Streamed> = Vec::new();
    for round in 0..4 {
        let mut events = house.http.events("s", seen.last().map_or(0, |last| last.id.unwrap())).await;
        house.http.prompt("s", &format!("[[slow:5:1]] number {round}")).await;
        seen.extend(durable(&mut events, 2).await);
        if round % 2 == 0 {
            house.kill_and_restart().await;
        } else {
            assert!(house.server.stop().await.success());
            // A server that stops properly ends its streams properly.
            while let Some(streamed) = events.next().await {
                seen.extend(streamed.id.is_some().then_some(streamed));
            }
            house.restart().await;
        }
    }
    house.usable("s").await;
    let history = house.history("s").await;
    let mut rest = house.http.events("s", seen.last().unwrap().id.unwrap()).await;
    seen.extend(durable(&mut rest, history.len() - seen.len()).await);
    assert_eq!(numbered(&seen), history);
    let settled = history.iter().filter(|(_, event)| event["type"] == "baton.turn_settled").count();
    assert_eq!(settled, 5, "every accepted prompt has its outcome");
}

#[tokio::test]
async fn a_reader_of_a_session_that_sleeps_hears_it_wake_up() {
    let mut house = House::open().await;
    house.http.create("s", json!({})).await;
    house.usable("s").await;
    house.kill_and_restart().await;
    let head = house.history("s").await.len() as u64;
    let mut events = house.http.events("s", head).await;
    house.http.prompt("s", "[[text:good morning]]").await;
    let said = events.kind("assistant.message").await;
    assert_eq!(said.event["data"]["content"], "good morning");
}

#[tokio::test]
async fn a_reader_that_stops_reading_for_a_while_misses_nothing_and_hinders_nobody() {
    let house = House::open().await;
    house.http.create("s", json!({})).await;
    let mut slow = house.http.events("s", 0).await;
    let mut fast = house.http.events("s", 0).await;
    // More than any buffer on the way takes, so that the server has to hold back what the slow reader does not read.
    let much = format!("[[slow:3:1]] {}", "x".repeat(512 << 10));
    for _ in 0..30 {
        house.http.prompt("s", &much).await;
        fast.kind("session.idle").await;
    }
    let history = house.history("s").await;
    assert_eq!(numbered(&durable(&mut slow, history.len()).await), history);
    let prompt = house.http.prompt("s", "[[text:and now]]").await;
    assert_eq!(house.http.outcome("s", &prompt).await, "completed");
    assert_eq!(slow.kind("assistant.message").await.event["data"]["content"], "and now");
    assert_eq!(slow.kind("session.idle").await.id, None, "it hears what is not recorded, too");
}

#[tokio::test]
async fn streamed_pieces_have_no_place_in_the_sequence() {
    let house = House::open().await;
    house.http.create("s", json!({})).await;
    let mut events = house.http.events("s", 0).await;
    house.http.prompt("s", "[[slow:3:1]]").await;
    let piece = events.kind("assistant.message_delta").await;
    assert_eq!((piece.id, &piece.event["ephemeral"]), (None, &json!(true)));
    assert!(events.kind("assistant.message").await.id.is_some());
    assert_eq!(events.kind("session.idle").await.id, None);
    let kinds: Vec<Value> = house.history("s").await.into_iter().map(|(_, e)| e["type"].clone()).collect();
    assert!(!kinds.contains(&json!("assistant.message_delta")), "{kinds:?}");
}

#[tokio::test]
async fn cursors_that_make_no_sense_are_refused_with_a_reason() {
    let house = House::open().await;
    house.http.create("s", json!({})).await;
    let stream = |cursor: &'static str| {
        let http = house.http.clone();
        async move {
            let headers = [("Accept", "text/event-stream"), ("Last-Event-ID", cursor)];
            http.send("GET", "/api/sessions/s/events", &headers, None).await
        }
    };
    assert_eq!(stream("99").await.refused(409), "cursor_ahead");
    for nonsense in ["", "x", "-1", "1.5", "99999999999999999999999"] {
        assert_eq!(stream(nonsense).await.refused(400), "bad_request", "{nonsense:?}");
    }
    assert_eq!(house.http.get("/api/sessions/s/events?after=x").await.refused(400), "bad_request");
    assert_eq!(house.http.get("/api/sessions/nobody/events").await.refused(404), "not_found");
}

#[tokio::test]
async fn the_stream_of_a_session_that_is_deleted_ends() {
    let house = House::open().await;
    house.http.create("s", json!({})).await;
    let mut events = house.http.events("s", 0).await;
    events.kind("session.start").await;
    let _ = house.http.send("DELETE", "/api/sessions/s", &[], None).await.expect(204);
    while events.next().await.is_some() {}
    assert_eq!(house.http.get("/api/sessions/s").await.refused(404), "not_found");
}

#[tokio::test]
async fn a_prompt_may_carry_more_than_words() {
    let house = House::open().await;
    house.http.create("s", json!({})).await;
    let marked =
        json!({"type": "selection", "filePath": "a.rs", "displayName": "a.rs", "text": "fn marked() {}"});
    let body = json!({"text": "what is this?", "attachments": [marked]});
    let sent = house.http.post("/api/sessions/s/prompts", body).await.expect(202);
    house.http.outcome("s", sent["promptId"].as_str().unwrap()).await;
    assert!(house.model.requests().last().unwrap().body.to_string().contains("fn marked()"));
    for nonsense in [json!([]), json!([null]), json!("text"), json!({"text": "x", "attachments": [[1, 2]]})] {
        let refused = house.http.post("/api/sessions/s/prompts", nonsense.clone()).await;
        assert!(matches!(refused.status, 400 | 422), "{nonsense}: {refused:?}");
    }
}

#[tokio::test]
async fn a_prompt_that_is_sent_again_with_its_key_is_accepted_once() {
    let mut house = House::open().await;
    house.http.create("s", json!({})).await;
    let body = json!({"text": "[[text:once]]"});
    let mut names = Vec::new();
    for restart in [false, false, true] {
        if restart {
            house.kill_and_restart().await;
        }
        let key = [("Idempotency-Key", "my-own-name-for-it")];
        let sent = house.http.send("POST", "/api/sessions/s/prompts", &key, Some(&body)).await;
        names.push(sent.expect(202)["promptId"].as_str().unwrap().to_owned());
    }
    assert!(names.iter().all(|name| *name == names[0]), "{names:?}");
    let path = format!("/api/sessions/s/prompts/{}", names[0]);
    assert_eq!(house.http.outcome("s", &names[0]).await, "completed");
    assert_eq!(house.http.get(&path).await.expect(200)["state"], "completed");
    let accepted = house.history("s").await.iter().filter(|(_, e)| e["type"] == "user.message").count();
    assert_eq!(accepted, 1);
    let other = [("Idempotency-Key", "another")];
    let sent = house.http.send("POST", "/api/sessions/s/prompts", &other, Some(&body)).await.expect(202);
    assert_ne!(sent["promptId"], names[0].as_str());
    for bad in ["", &"x".repeat(257), "caf\u{e9}"] {
        let key = [("Idempotency-Key", bad)];
        let sent = house.http.send("POST", "/api/sessions/s/prompts", &key, Some(&body)).await;
        assert_eq!(sent.refused(400), "bad_request", "{bad:?}");
    }
}
