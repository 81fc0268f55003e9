//! Properties of the wire formats, on a transport without a network: chunk boundaries do not matter, and no
//! input panics.

use std::sync::Arc;

use baton_model::endpoint::Endpoint;
use baton_model::http::{Headers, HttpRequest, HttpResponse, Sending, Transport};
use baton_model::{Delta, ErrorKind, ModelResponse};
use futures_util::stream;
use proptest::prelude::*;

use crate::common::{Wire, ask, request};

/// Answers every request with these chunks.
struct Canned {
    content_type: &'static str,
    pieces: Vec<Vec<u8>>,
}

impl Transport for Canned {
    fn send(&self, _: HttpRequest) -> Sending<'_> {
        let headers = Headers(vec![("Content-Type".to_owned(), self.content_type.to_owned())]);
        let body = Box::pin(stream::iter(self.pieces.clone().into_iter().map(|piece| Ok(piece.into()))));
        Box::pin(async { Ok(HttpResponse { status: 200, headers, body }) })
    }
}

/// The outcome for these bytes: the answer, or the kind of the error with the partial text; and all deltas.
type Outcome = (Result<ModelResponse, (ErrorKind, String)>, Vec<Delta>);

fn outcome(canned: Canned, wants_stream: bool) -> Outcome {
    outcome_on(Wire::Chat, canned, wants_stream)
}

fn outcome_on(wire: Wire, canned: Canned, wants_stream: bool) -> Outcome {
    let endpoint = Endpoint::new("http://model.invalid/v1").unwrap();
    let model = wire.model_over(Arc::new(canned), endpoint);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (result, deltas) = runtime.block_on(ask(&*model, &request("hi", wants_stream)));
    (result.map_err(|error| (error.kind, error.partial.into())), deltas)
}

fn text_of(deltas: &[Delta]) -> String {
    deltas
        .iter()
        .filter_map(|delta| if let Delta::Text(text) = delta { Some(text.as_str()) } else { None })
        .collect()
}

/// Asserts that the deltas add up to the text, or that there are none without a stream.
fn assert_consistent((result, deltas): &Outcome, wants_stream: bool) -> Result<(), TestCaseError> {
    let text = match result {
        Ok(answer) => &answer.text,
        Err((_, partial)) => partial,
    };
    if wants_stream {
        prop_assert_eq!(&text_of(deltas), text);
    } else {
        prop_assert!(deltas.is_empty());
    }
    Ok(())
}

const STREAM: &str = concat!(
    ": keep-alive\r\n\r\n",
    "data: {\"id\":\"1\",\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\"}}]}\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"käse 世界 \"}}]}\n\n",
    r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{"}}]}}]}"#,
    "\n\n",
    r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}}]}"#,
    "\n\n",
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}\n\n",
    "data: [DONE]\n\n",
);

/// Kinds of events, items and blocks.
const TYPES: [&str; 12] = [
    "response.output_item.added",
    "response.output_item.done",
    "response.output_text.delta",
    "response.function_call_arguments.delta",
    "response.completed",
    "message",
    "function_call",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "tool_use",
];

/// JSON with many names of the APIs, at wrong positions and with wrong types.
fn api_like_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        prop::sample::select(TYPES.to_vec()).prop_map(Into::into),
        prop_oneof!["", "stop", "[{}]{1,2}", "\\PC{0,8}"].prop_map(Into::into),
    ];
    let key = prop::sample::select(vec![
        "type",
        "item",
        "output",
        "output_index",
        "response",
        "summary",
        "annotations",
        "start_index",
        "end_index",
        "content_block",
        "text",
        "thinking",
        "partial_json",
        "citation",
        "citations",
        "stop_reason",
        "input_tokens",
        "output_tokens",
        "cache_read_input_tokens",
        "completion_tokens",
        "status",
        "headers",
        "choices",
        "delta",
        "message",
        "content",
        "tool_calls",
        "index",
        "id",
        "function",
        "name",
        "arguments",
        "finish_reason",
        "usage",
        "prompt_tokens",
        "error",
        "reasoning",
        "object",
    ]);
    leaf.prop_recursive(6, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::vec((key.clone(), inner), 0..5).prop_map(|fields| {
                fields
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect::<serde_json::Map<_, _>>()
                    .into()
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn answer_is_independent_of_chunk_boundaries(cuts in prop::collection::vec(0..=STREAM.len(), 0..12)) {
        let mut cuts = cuts;
        cuts.sort_unstable();
        cuts.push(STREAM.len());
        let mut begin = 0;
        let pieces = cuts.iter().map(|end| STREAM.as_bytes()[std::mem::replace(&mut begin, *end)..*end].to_vec());
        let cut = Canned { content_type: "text/event-stream", pieces: pieces.collect() };
        let uncut = Canned { content_type: "text/event-stream", pieces: vec![STREAM.as_bytes().to_vec()] };
        let expected = outcome(uncut, true);
        prop_assert!(expected.0.as_ref().is_ok_and(|answer| answer.text == "käse 世界 "));
        prop_assert_eq!(outcome(cut, true), expected);
    }

    #[test]
    fn truncated_answer_is_an_error_with_the_partial_text(end in 0..STREAM.len()) {
        let cut = Canned { content_type: "text/event-stream", pieces: vec![STREAM.as_bytes()[..end].to_vec()] };
        let (result, deltas) = outcome(cut, true);
        let text = text_of(&deltas);
        match result {
            Ok(answer) => prop_assert!(end > STREAM.find("finish_reason").unwrap() && answer.text == text),
            Err((kind, partial)) => {
                prop_assert!(matches!(kind, ErrorKind::Network | ErrorKind::Protocol));
                prop_assert_eq!(partial, text);
            }
        }
    }

    #[test]
    fn strange_json_yields_consistent_text_or_an_error(values in prop::collection::vec(api_like_json(), 1..4), wants_stream: bool) {
        for wire in Wire::ALL {
            let whole = values[0].to_string().into_bytes();
            let whole = Canned { content_type: "application/json", pieces: vec![whole] };
            assert_consistent(&outcome_on(wire, whole, wants_stream), wants_stream)?;
            let events = values.iter().map(|value| format!("data: {value}\n\n").into_bytes()).collect();
            let events = Canned { content_type: "text/event-stream", pieces: events };
            assert_consistent(&outcome_on(wire, events, wants_stream), wants_stream)?;
        }
    }

    #[test]
    fn arbitrary_bytes_are_an_error(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..4),
        wants_stream: bool,
    ) {
        for wire in Wire::ALL {
            for content_type in ["text/event-stream", "application/json", "text/html", ""] {
                let canned = Canned { content_type, pieces: pieces.clone() };
                prop_assert!(outcome_on(wire, canned, wants_stream).0.is_err());
            }
        }
    }
}
