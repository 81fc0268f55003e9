//! JSON on the hot paths: events that are stored and streamed, JSON-RPC messages of clients.
//! `cargo bench -p baton-protocol --bench json`
#![allow(clippy::expect_used, reason = "a benchmark panics on errors")]

use baton_protocol::event::{Body, Event};
use baton_protocol::frame::{Decoder, encode};
use baton_protocol::rpc::Incoming;
use bytes::BytesMut;
use divan::counter::BytesCount;
use divan::{Bencher, black_box};

/// Events of a turn: a piece of a streamed answer, an answer with a tool call, a request for permission.
const EVENTS: [(&str, &str); 3] = [
    (
        "delta",
        r#"{"type":"assistant.message_delta","data":{"messageId":"m1","deltaContent":" entries"},"id":"0190c2f0-0000-7000-8000-000000000001","timestamp":"2026-11-15T20:30:53.223Z","parentId":"0190c2f0-0000-7000-8000-000000000000","ephemeral":true}"#,
    ),
    (
        "message",
        r#"{"type":"assistant.message","data":{"messageId":"m1","model":"gpt-5","content":"I look at the directory first, then at the manifest, and tell you what the project is.","toolRequests":[{"toolCallId":"call-1","name":"bash","arguments":{"command":"ls -la src","description":"List the sources"}}],"turnId":"0","outputTokens":42},"id":"0190c2f0-0000-7000-8000-000000000001","timestamp":"2026-11-15T20:30:53.223Z","parentId":"0190c2f0-0000-7000-8000-000000000000"}"#,
    ),
    (
        "request",
        r#"{"type":"permission.requested","data":{"requestId":"r","permissionRequest":{"kind":"shell","toolCallId":"call-1","fullCommandText":"git status --short && ls -la src | head -20","intention":"Look around","commands":[{"identifier":"git status","readOnly":true},{"identifier":"ls","readOnly":true}],"possiblePaths":["/work/src"],"possibleUrls":[],"hasWriteFileRedirection":false,"canOfferSessionApproval":true}},"id":"0190c2f0-0000-7000-8000-000000000001","timestamp":"2026-11-15T20:30:53.223Z","parentId":null}"#,
    ),
];

fn main() {
    divan::main();
}

/// Name of an event, as an argument of benchmarks.
const NAMES: [&str; EVENTS.len()] = [EVENTS[0].0, EVENTS[1].0, EVENTS[2].0];

fn event(name: &str) -> (&'static str, Event) {
    let (_, text) = EVENTS.into_iter().find(|(known, _)| *known == name).expect("an event of the list");
    let event = Event::parse(text).expect("an event");
    assert!(!matches!(event.body, Body::Unknown { .. }), "{name} is measured as an event of unknown type");
    (text, event)
}

#[divan::bench(args = NAMES, sample_size = 100)]
fn encode_event(bencher: Bencher<'_, '_>, name: &str) {
    let (text, event) = event(name);
    bencher
        .counter(BytesCount::of_str(text))
        .bench_local(|| serde_json::to_vec(black_box(&event)).expect("an event"));
}

#[divan::bench(args = NAMES, sample_size = 100)]
fn parse_event(bencher: Bencher<'_, '_>, name: &str) {
    let (text, _) = event(name);
    bencher
        .counter(BytesCount::of_str(text))
        .bench_local(|| Event::parse(black_box(text)).expect("an event"));
}

/// A frame of a client, from its bytes to its parts; `length` is that of the prompt.
#[divan::bench(args = [100, 100_000])]
fn parse_frame(bencher: Bencher<'_, '_>, length: usize) {
    let prompt = "What is in \\\"here\\\"? ".repeat(length / 20);
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"session.send","params":{{"sessionId":"0190c2f0","prompt":"{prompt}"}}}}"#
    );
    let frame = encode(body.as_bytes());
    bencher
        .counter(BytesCount::of_slice(&frame))
        .with_inputs(|| (Decoder::new(frame.len()), BytesMut::from(&frame[..])))
        .bench_local_values(|(mut decoder, mut buffer)| {
            let body = decoder.decode(&mut buffer).expect("a frame").expect("a whole frame");
            Incoming::parse(&body).expect("a message")
        });
}
