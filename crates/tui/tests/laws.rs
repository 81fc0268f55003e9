//! Laws of the fold: whoever joins, however the text was cut and wherever the connection broke, sees the same conversation.
#![allow(clippy::disallowed_methods, reason = "tests may block")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot continue fails at once"
)]

mod common;

use baton_protocol::event::Event as SessionEvent;
use baton_tui::conversation::{Conversation, Kind};
use baton_tui::draw::draw;
use baton_tui::event::{Event, Net};
use proptest::prelude::*;
use serde_json::json;

use self::common::{Person, event, text};

/// A turn with reasoning, a tool and an answer; streamed parts have no number.
fn story(cuts: &[usize]) -> Vec<(Option<u64>, SessionEvent)> {
    let (answer, thought, output) =
        ("Done: **all** tests pass.\n\n- a\n- b", "I look at the tests.", "ok 1\nok 2\n");
    let mut all: Vec<(Option<u64>, SessionEvent)> = Vec::new();
    let durable = |all: &mut Vec<(Option<u64>, SessionEvent)>, kind: &str, data: serde_json::Value| {
        let seq = all.iter().filter_map(|(seq, _)| *seq).max().unwrap_or(0) + 1;
        all.push((Some(seq), event(seq, kind, &data)));
    };
    let streamed = |all: &mut Vec<(Option<u64>, SessionEvent)>, kind: &str, data: serde_json::Value| {
        all.push((None, event(900, kind, &data)));
    };
    let pieces = |text: &str| -> Vec<String> {
        let mut at = 0;
        let mut pieces = Vec::new();
        for cut in cuts.iter().cycle().take(text.len()) {
            let end = text.ceil_char_boundary((at + 1 + cut % 7).min(text.len()));
            pieces.push(text[at..end].to_owned());
            at = end;
            if at == text.len() {
                break;
            }
        }
        if at < text.len() {
            pieces.push(text[at..].to_owned());
        }
        pieces
    };
    let prompt = "00000000-0000-4000-8000-000000000077";
    durable(
        &mut all,
        "baton.prompt_accepted",
        json!({ "promptId": prompt, "prompt": { "text": "go", "by": "anna" } }),
    );
    durable(&mut all, "user.message", json!({ "content": "go", "messageId": prompt }));
    durable(&mut all, "assistant.turn_start", json!({ "turnId": "t", "interactionId": "i", "model": "m" }));
    for piece in pieces(thought) {
        streamed(&mut all, "assistant.reasoning_delta", json!({ "reasoningId": "r", "deltaContent": piece }));
    }
    durable(&mut all, "assistant.reasoning", json!({ "reasoningId": "r", "content": thought }));
    durable(
        &mut all,
        "assistant.message",
        json!({ "messageId": "m0", "content": "", "reasoningText": thought }),
    );
    durable(
        &mut all,
        "tool.execution_start",
        json!({ "toolCallId": "c", "toolName": "bash", "arguments": { "command": "make test" } }),
    );
    for piece in pieces(output) {
        streamed(
            &mut all,
            "tool.execution_partial_result",
            json!({ "toolCallId": "c", "partialOutput": piece }),
        );
    }
    durable(
        &mut all,
        "tool.execution_complete",
        json!({ "toolCallId": "c", "success": true, "result": { "content": output } }),
    );
    streamed(&mut all, "assistant.message_start", json!({ "messageId": "m1" }));
    for piece in pieces(answer) {
        streamed(&mut all, "assistant.message_delta", json!({ "messageId": "m1", "deltaContent": piece }));
    }
    durable(&mut all, "assistant.message", json!({ "messageId": "m1", "content": answer }));
    durable(
        &mut all,
        "baton.turn_settled",
        json!({ "promptIds": [prompt], "outcome": "completed", "reason": "" }),
    );
    all
}

fn kinds(conversation: &Conversation) -> Vec<(Option<u64>, Kind)> {
    conversation.items().iter().map(|item| (item.seq, item.kind.clone())).collect()
}

fn folded(events: &[(Option<u64>, SessionEvent)]) -> Conversation {
    let mut conversation = Conversation::default();
    for (seq, event) in events {
        conversation.apply(*seq, event);
    }
    conversation
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pieces_do_not_matter(cuts in prop::collection::vec(0_usize..7, 1..20)) {
        let durable: Vec<_> = story(&[0]).into_iter().filter(|(seq, _)| seq.is_some()).collect();
        prop_assert_eq!(kinds(&folded(&story(&cuts))), kinds(&folded(&durable)));
    }

    /// The connection breaks somewhere; the stream goes on behind the last durable event, with or without the streamed parts.
    #[test]
    fn reconnecting_anywhere_gives_the_same(cuts in prop::collection::vec(0_usize..7, 1..9), at in 0_usize..200) {
        let all = story(&cuts);
        let at = at % all.len();
        let mut conversation = folded(&all[..at]);
        conversation.lose();
        let cursor = conversation.cursor();
        for (seq, event) in all.iter().filter(|(seq, _)| seq.is_some_and(|seq| seq > cursor)) {
            conversation.apply(*seq, event);
        }
        prop_assert_eq!(kinds(&conversation), kinds(&folded(&all)));
    }

    /// Pages that are read backwards, cut anywhere, add up to the whole.
    #[test]
    fn earlier_pages_complete_the_conversation(cut in 1_usize..9) {
        let all: Vec<(u64, SessionEvent)> =
            story(&[3]).into_iter().filter_map(|(seq, event)| Some((seq?, event))).collect();
        let cut = cut.min(all.len() - 1);
        let mut conversation = Conversation::default();
        conversation.open(&all[cut..], 0);
        conversation.prepend(&all[..cut]);
        let mut whole = Conversation::default();
        whole.open(&all, 0);
        let shown = |conversation: &Conversation| -> Vec<Kind> {
            conversation.items().iter().map(|item| item.kind.clone()).collect()
        };
        // The author of a prompt is known if its acceptance is on the same page or an earlier one.
        let plain = |kinds: Vec<Kind>| -> Vec<Kind> {
            kinds.into_iter().map(|kind| match kind {
                Kind::Prompt { text, attachments, event, .. } => Kind::Prompt { text, by: None, attachments, event },
                Kind::Reasoning(_) => Kind::Reasoning(String::new()),
                kind => kind,
            }).collect()
        };
        let (mut one, mut other) = (plain(shown(&conversation)), plain(shown(&whole)));
        one.dedup();
        other.dedup();
        prop_assert_eq!(one, other);
    }

    /// Whatever models, tools and files contain, a frame is drawn at any size, and hidden characters reach no cell.
    #[test]
    fn any_text_is_drawn(
        text in "(\\PC|[\\x00-\\x1f\\x7f-\\u{9f}\\u{200b}-\\u{202e}`*_|>#\\[\\]()-]){0,120}",
        size in (1_u16..130, 1_u16..50),
        unfolded in any::<bool>(),
    ) {
        let mut person = Person::at(size.0, size.1);
        person.tell(1, "user.message", json!({ "content": text }));
        person.tell(2, "assistant.message", json!({ "messageId": "m", "content": text, "reasoningText": text }));
        person.tell(3, "tool.execution_start", json!({ "toolCallId": text, "toolName": text, "arguments": { "command": text } }));
        person.tell(4, "tool.execution_partial_result", json!({ "toolCallId": text, "partialOutput": text }));
        person.tell(5, "session.error", json!({ "errorType": "x", "message": text }));
        person.tell(6, "assistant.message_delta", json!({ "messageId": "n", "deltaContent": text }));
        person.asks(&[common::command("r", &text)]);
        person.happens(Event::Paste(text));
        if unfolded {
            person.presses(baton_tui::keys::Key::ctrl('o'));
        }
        for _ in 0..3 {
            let frame = person.sees();
            for cell in frame.buffer.content() {
                let hidden = |c: char| baton_markup::visible::is_hidden(c) && !matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}');
                prop_assert!(!cell.symbol().chars().any(hidden), "{:?}", cell.symbol());
            }
            person.presses(baton_tui::keys::Key::plain(baton_tui::keys::Code::PageUp));
        }
    }

    /// What is remembered of earlier frames changes nothing.
    #[test]
    fn cached_rows_are_the_rows(cuts in prop::collection::vec(0_usize..7, 1..9), widths in prop::collection::vec(40_u16..120, 1..5)) {
        let mut person = Person::at(80, 24);
        for (number, (seq, event)) in story(&cuts).into_iter().enumerate() {
            person.happens(Event::Net(Net::Event(seq, Box::new(event))));
            if number % 3 == 0 {
                let width = widths[number % widths.len()];
                person.happens(Event::Resize(width, 24));
            }
            let cached = draw(&person.state);
            *person.state.rows.borrow_mut() = Default::default();
            let fresh = draw(&person.state);
            prop_assert_eq!(text(&cached), text(&fresh));
            prop_assert_eq!(cached.buffer, fresh.buffer);
        }
    }
}

#[test]
fn rewound_parts_are_gone() {
    let mut events = story(&[1]);
    let rewound = json!({ "fromEventId": "00000000-0000-4000-8000-000000000002", "fromSeq": 2, "eventsRemoved": 5, "hasPrompts": false });
    events.push((Some(50), event(50, "baton.history_truncated", &rewound)));
    let conversation = folded(&events);
    assert!(matches!(&kinds(&conversation)[..], [(Some(50), Kind::Note { .. })]));
}

#[test]
fn text_so_far_replaces_what_was_missed() {
    let mut person = Person::at(80, 24);
    person.tell(0, "assistant.message_delta", json!({ "messageId": "m", "deltaContent": "the end" }));
    assert!(person.screen().contains("the beginning of this answer"));
    person.tell(0, "baton.stream_so_far", json!({ "messageId": "m", "text": "all of the end" }));
    person.tell(0, "assistant.message_delta", json!({ "messageId": "m", "deltaContent": " and more" }));
    assert!(person.screen().contains("all of the end and more"));
}
