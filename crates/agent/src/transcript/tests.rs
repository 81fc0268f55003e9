//! Tests of the transcript: what the model is given of a conversation.

use baton_core::INTERRUPTED;
use baton_model::Part;

use super::*;

fn transcript(events: &[(&str, &str)]) -> Transcript {
    let line = |(kind, data): &(&str, &str)| {
        let id = "0190c2f0-0000-7000-8000-000000000001";
        format!(
            r#"{{"type":"{kind}","data":{data},"id":"{id}","timestamp":"2026-11-15T20:30:53.223Z","parentId":null}}"#
        )
    };
    let events: Vec<Event> = events.iter().map(|e| Event::parse(&line(e)).unwrap()).collect();
    Transcript::of(&events)
}

fn rendered(transcript: &Transcript, vision: bool) -> Vec<String> {
    let one = |message: &Arc<Message>| match &**message {
        Message::System(text) => format!("system: {text}"),
        Message::User(parts) => {
            let part = |part: &Part| match part {
                Part::Text(text) => text.clone(),
                Part::Image { .. } => "[image]".into(),
                Part::Document { title, .. } => format!("[document {title:?}]"),
            };
            format!("user: {}", parts.iter().map(part).collect::<Vec<_>>().join("|"))
        }
        Message::Assistant { text, tool_calls, .. } => {
            let calls: Vec<String> =
                tool_calls.iter().map(|c| format!("{}{}", c.name, c.arguments)).collect();
            format!("assistant: {text}{}", calls.join(" "))
        }
        Message::Tool { call_id, content, .. } => format!("tool {call_id}: {content}"),
    };
    transcript.messages(vision, u64::MAX).iter().map(one).collect()
}

const CALLS: (&str, &str) = (
    "assistant.message",
    r#"{"messageId":"m","content":"","toolRequests":[{"toolCallId":"a","name":"view","arguments":{"z":1,"a":2}},{"toolCallId":"b","name":"bash"}]}"#,
);

#[test]
fn results_follow_their_calls_in_the_order_of_the_calls() {
    let transcript = transcript(&[
        ("user.message", r#"{"content":"hi","transformedContent":"<date> hi"}"#),
        CALLS,
        ("tool.execution_complete", r#"{"toolCallId":"b","success":false,"error":{"message":"no"}}"#),
        ("tool.execution_complete", r#"{"toolCallId":"a","success":true,"result":{"content":"one"}}"#),
        ("assistant.message", r#"{"messageId":"n","content":"done"}"#),
    ]);
    let expected = [
        "user: <date> hi",
        r#"assistant: view{"z":1,"a":2} bash{}"#,
        "tool a: one",
        "tool b: no",
        "assistant: done",
    ];
    assert_eq!(rendered(&transcript, true), expected);
}

#[test]
fn unfinished_calls_get_a_result() {
    let transcript = transcript(&[
        ("user.message", r#"{"content":"hi"}"#),
        CALLS,
        ("user.message", r#"{"content":"again"}"#),
    ]);
    let text = rendered(&transcript, true);
    assert_eq!(
        text[2..],
        [format!("tool a: {INTERRUPTED}"), format!("tool b: {INTERRUPTED}"), "user: again".into()]
    );
}

#[test]
fn images_are_included_for_models_with_vision() {
    let transcript = transcript(&[
        (
            "user.message",
            r#"{"content":"look","attachments":[{"type":"blob","data":"AAAA","mimeType":"image/png","displayName":"p.png"}]}"#,
        ),
        CALLS,
        (
            "tool.execution_complete",
            r#"{"toolCallId":"a","success":true,"result":{"content":"seen","binaryResultsForLlm":[{"type":"image","data":"AAAA","mimeType":"image/png","description":"Image file at path /p"}]}}"#,
        ),
    ]);
    assert_eq!(rendered(&transcript, true)[0], "user: look|p.png|[image]");
    assert_eq!(rendered(&transcript, true).last().unwrap(), "user: Image file at path /p|[image]");
    assert_eq!(rendered(&transcript, false)[0], "user: look|p.png");
    assert_eq!(rendered(&transcript, false).len(), 4);
}

#[test]
fn prompt_cancelled_before_the_model_call_is_left_out() {
    let id = "0190c2f0-0000-7000-8000-00000000000";
    let transcript = transcript(&[
        ("user.message", &format!(r#"{{"content":"sent","transformedContent":"sent","messageId":"{id}1"}}"#)),
        ("baton.turn_settled", &format!(r#"{{"promptIds":["{id}1"],"outcome":"cancelled","reason":""}}"#)),
        ("user.message", &format!(r#"{{"content":"unsent","messageId":"{id}2"}}"#)),
        ("baton.turn_settled", &format!(r#"{{"promptIds":["{id}2"],"outcome":"cancelled","reason":""}}"#)),
    ]);
    assert_eq!(rendered(&transcript, true), ["user: sent"]);
}

#[test]
fn summary_replaces_messages_before_the_start_of_compaction() {
    let message = |text: &str, n: u8| {
        let id = format!("0190c2f0-0000-7000-8000-00000000000{n}");
        format!(r#"{{"content":"{text}","transformedContent":"<date> {text}","messageId":"{id}"}}"#)
    };
    let complete = |ok: bool| format!(r#"{{"success":{ok},"summaryContent":"in short"}}"#);
    let (one, two, three) = (message("one", 1), message("two", 2), message("three", 3));
    let events = [
        ("user.message", one.as_str()),
        ("assistant.message", r#"{"messageId":"m","content":"first answer"}"#),
        ("user.message", two.as_str()),
        ("session.compaction_start", "{}"),
        ("assistant.message", r#"{"messageId":"n","content":"second answer"}"#),
    ];
    let with = |more: &[(&str, &str)]| rendered(&transcript(&[&events[..], more].concat()), true);
    assert_eq!(with(&[("session.compaction_complete", &complete(false))]).len(), 4, "compaction failed");
    let short = with(&[("session.compaction_complete", &complete(true))]);
    assert_eq!(short.len(), 2, "{short:?}");
    for part in ["<user_message>\none\n", "<user_message>\ntwo\n", "<summary>\nin short\n</summary>"] {
        assert!(short[0].contains(part), "{part}: {}", short[0]);
    }
    assert_eq!(short[1], "assistant: second answer");
    let again = with(&[
        ("session.compaction_complete", &complete(true)),
        ("user.message", three.as_str()),
        ("session.compaction_start", "{}"),
        ("session.compaction_complete", &complete(true)),
    ]);
    assert_eq!(again.len(), 1);
    assert!(again[0].contains("one") && again[0].contains("three"), "no prompt is lost: {}", again[0]);
}

#[test]
fn conversation_over_budget_starts_at_a_later_user_message() {
    let long = "word ".repeat(2_000);
    let transcript = transcript(&[
        ("user.message", &format!(r#"{{"content":"{long}"}}"#)),
        ("assistant.message", r#"{"messageId":"m","content":"first answer"}"#),
        ("user.message", r#"{"content":"second"}"#),
        ("assistant.message", r#"{"messageId":"n","content":"second answer"}"#),
    ]);
    let text = |budget| transcript.messages(true, budget).len();
    assert_eq!((text(u64::MAX), text(200), text(1)), (4, 2, 2));
}
