//! Failures that all wire formats must handle, streamed and whole. Each yields one clear error with the text
//! received before it.

use std::time::Duration;

use baton_model::http::Patience;
use baton_model::{ErrorKind, Finish, ModelError, ModelResponse, ToolCall, Usage};
use baton_testkit::model_server::{ModelServer, ScriptedReply};

use crate::common::{Wire, ask, endpoint, request, streamed, whole};

/// Sends a prompt to a scripted server.
async fn scripted(wire: Wire, prompt: &str, stream: bool) -> Result<ModelResponse, ModelError> {
    let server = ModelServer::start().await;
    let mut endpoint = endpoint(&server);
    // Only the hanging prompt reaches this limit.
    let stall = if prompt.contains("hang") { Duration::from_millis(250) } else { Duration::from_secs(20) };
    endpoint.patience = Patience { head: Duration::from_secs(20), stall };
    ask(&*wire.model(endpoint), &request(prompt, stream)).await.0
}

/// An expected failure, streamed and whole.
struct Failing {
    prompt: &'static str,
    kind: ErrorKind,
    /// Part of the message for people.
    message: &'static str,
    /// Text received before the failure, in a stream.
    partial: &'static str,
}

const fn failing(
    prompt: &'static str,
    kind: ErrorKind,
    message: &'static str,
    partial: &'static str,
) -> Failing {
    Failing { prompt, kind, message, partial }
}

const FAILURES: [Failing; 14] = [
    failing("[[error:400]]", ErrorKind::BadRequest, "rejected the request (400 Bad Request)", ""),
    failing("[[error:401]]", ErrorKind::Auth, "Check the API key or token of this provider.", ""),
    failing("[[error:403]]", ErrorKind::Auth, "refused the credentials (403 Forbidden)", ""),
    failing("[[error:404]]", ErrorKind::NotFound, "Check the base URL and the name of the model.", ""),
    failing("[[error:429]]", ErrorKind::RateLimited, "Try again in a moment.", ""),
    failing("[[error:429:retry=7]]", ErrorKind::RateLimited, "Try again in 7 s.", ""),
    failing("[[error:500]]", ErrorKind::Server, "failed (500 Internal Server Error)", ""),
    failing("[[error:529]]", ErrorKind::Server, "failed (529", ""),
    failing("[[drop]]", ErrorKind::Network, "broke off", "half an "),
    failing("[[hang]]", ErrorKind::Stalled, "sent nothing for 0.25 s", "half an "),
    failing("[[html]]", ErrorKind::Protocol, "sent a web page (“Please log in”) instead of an answer", ""),
    failing("[[garbage]]", ErrorKind::Protocol, "sent something other than a", ""),
    failing("[[badjson]]", ErrorKind::Protocol, "sent something other than an answer", ""),
    failing("[[text:half an ]] [[truncate]]", ErrorKind::Network, "broke off", "half an half an "),
];

#[tokio::test]
async fn every_failure_yields_one_clear_error() {
    for wire in Wire::ALL {
        for failure in &FAILURES {
            for stream in [true, false] {
                let at = format!("{wire:?} {} streamed: {stream}", failure.prompt);
                let error = scripted(wire, failure.prompt, stream).await.expect_err(&at);
                let truncated_json = !stream && failure.prompt.contains("truncate");
                if !truncated_json {
                    assert_eq!(error.kind, failure.kind, "{at}: {error}");
                    assert!(error.message.contains(failure.message), "{at}: {error}");
                }
                assert_eq!(&*error.partial, if stream { failure.partial } else { "" }, "{at}: {error}");
                assert!(error.message.contains(&*error.endpoint), "{at}: {error}");
                assert!(!error.message.contains("sk-geheim"), "{at}: {error}");
            }
        }
    }
}

#[tokio::test]
async fn connection_reset_yields_the_partial_text() {
    for wire in Wire::ALL {
        for stream in [true, false] {
            let error = scripted(wire, "[[reset]]", stream).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Network, "{wire:?}: {error}");
            assert!("half an ".starts_with(&*error.partial), "a reset may discard sent bytes: {error}");
        }
    }
}

#[tokio::test]
async fn retry_after_is_reported() {
    for wire in Wire::ALL {
        let retry_after = async |prompt| scripted(wire, prompt, true).await.unwrap_err().retry_after;
        assert_eq!(retry_after("[[error:429:retry=7]]").await, Some(Duration::from_secs(7)), "{wire:?}");
        assert_eq!(retry_after("[[error:429]]").await, None, "{wire:?}");
    }
}

#[tokio::test]
async fn answer_is_the_same_on_every_wire_streamed_or_whole() {
    let prompt = r#"[[think:hm]][[text:I look. ]][[tools:bash {"a":"ä", "n":1.0};;view {}]]"#;
    for wire in Wire::ALL {
        for stream in [true, false] {
            let mut answer = scripted(wire, prompt, stream).await.unwrap();
            assert!(answer.id.take().is_some() && answer.request_id.take().is_some());
            let mut ids: Vec<String> =
                answer.tool_calls.iter_mut().map(|call| std::mem::take(&mut call.id)).collect();
            ids.dedup();
            assert_eq!(ids.len(), 2, "{wire:?}");
            // Chat completions return no opaque reasoning, and the scripted one of Responses is not
            // encrypted.
            assert_eq!(answer.reasoning_opaque.take().is_some(), wire == Wire::Messages);
            let call = |name: &str, arguments: &str| ToolCall {
                id: String::new(),
                name: name.into(),
                arguments: arguments.into(),
            };
            // Where arguments are a JSON object on the wire, white space between tokens is not significant.
            let spelt = answer.tool_calls[0].arguments.replace(", ", ",");
            assert_eq!(spelt, r#"{"a":"ä","n":1.0}"#, "{wire:?}");
            answer.tool_calls[0].arguments = spelt.clone();
            let reasoning = if wire == Wire::Messages { 0 } else { 5 };
            let expected = ModelResponse {
                text: "I look. ".into(),
                reasoning: Some("hm".into()),
                tool_calls: vec![call("bash", &spelt), call("view", "{}")],
                finish: Finish::ToolCalls,
                usage: Some(Usage { input: 100, output: 20, cache_read: 40, cache_write: 0, reasoning }),
                model: Some("scripted".into()),
                ..ModelResponse::default()
            };
            assert_eq!(answer, expected, "{wire:?} streamed: {stream}");
        }
    }
}

#[tokio::test]
async fn invalid_arguments_are_preserved() {
    for wire in Wire::ALL {
        let answer = scripted(wire, "[[tool:bash {oops]]", true).await.unwrap();
        assert_eq!(answer.tool_calls[0].arguments, "{oops", "{wire:?}");
    }
}

/// The events of a short answer with text, and two calls with the same id.
fn odd_stream(wire: Wire) -> String {
    let events: &[&str] = match wire {
        Wire::Chat => &[
            r#"{"id":"1","choices":[{"index":0,"delta":{"content":"käse 世界"}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"{\"a\":1}"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"x","function":{"name":"g","arguments":"{}"}}]}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
            "[DONE]",
        ],
        Wire::Responses => &[
            r#"{"type":"response.created","response":{"id":"1"}}"#,
            r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"message"}}"#,
            r#"{"type":"response.output_text.delta","output_index":0,"delta":"käse 世界"}"#,
            r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","call_id":"x","name":"f"}}"#,
            r#"{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"a\":1}"}"#,
            r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","call_id":"x","name":"f","arguments":"{\"a\":1}"}}"#,
            r#"{"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","call_id":"x","name":"g","arguments":"{}"}}"#,
            r#"{"type":"response.completed","response":{"id":"1","status":"completed"}}"#,
        ],
        Wire::Messages => &[
            r#"{"type":"message_start","message":{"id":"1"}}"#,
            r#"{"type":"ping"}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"käse 世界"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"x","name":"f","input":{}}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}}"#,
            r#"{"type":"content_block_stop","index":1}"#,
            r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"x","name":"g","input":{}}}"#,
            r#"{"type":"content_block_stop","index":2}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#,
            r#"{"type":"message_stop"}"#,
        ],
    };
    events.iter().map(|event| format!("data: {event}\r\n\r\n")).collect()
}

#[tokio::test]
async fn split_characters_and_duplicate_ids_are_handled() {
    for wire in Wire::ALL {
        for content_type in ["text/event-stream; charset=utf-8", "text/plain", "application/octet-stream"] {
            let bytes: Vec<Vec<u8>> = odd_stream(wire).bytes().map(|byte| vec![byte]).collect();
            let (answer, _) = wire.ask_for(ScriptedReply::raw(content_type, bytes), &streamed("hi")).await;
            let answer = answer.unwrap();
            let calls: Vec<_> = answer
                .tool_calls
                .iter()
                .map(|c| (c.id.as_str(), c.name.as_str(), c.arguments.as_str()))
                .collect();
            assert_eq!(calls, [("x", "f", r#"{"a":1}"#), ("x_2", "g", "{}")], "{wire:?}");
            assert_eq!((answer.text.as_str(), answer.finish), ("käse 世界", Finish::ToolCalls), "{wire:?}");
        }
    }
}

#[tokio::test]
async fn truncated_stream_is_an_error_with_the_partial_text() {
    for wire in Wire::ALL {
        let stream = odd_stream(wire);
        let events: Vec<&str> = stream.split_inclusive("\r\n\r\n").collect();
        // The last event of each may be missing: the content is complete before it, except in Responses.
        let complete_without = if wire == Wire::Responses { 0 } else { 1 };
        for count in 1..events.len() - complete_without {
            let reply =
                ScriptedReply::raw("text/event-stream", events[..count].iter().map(|e| (*e).to_owned()));
            let error = wire.ask_for(reply, &streamed("hi")).await.0.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Network, "{wire:?} {count}: {error}");
            let has_text = events[..count].concat().contains("käse");
            assert_eq!(&*error.partial, if has_text { "käse 世界" } else { "" }, "{wire:?} {count}");
        }
    }
}

#[tokio::test]
async fn answer_without_content_is_an_error() {
    for wire in Wire::ALL {
        let empty = match wire {
            Wire::Chat => vec!["{}", r#"{"choices":[]}"#, r#"{"choices":null}"#],
            Wire::Responses => vec!["{}", r#"{"output":[]}"#, r#"{"output":null}"#],
            Wire::Messages => vec!["{}", r#"{"content":[]}"#, r#"{"content":null}"#],
        };
        for body in empty {
            let reply = ScriptedReply::raw("application/json", [body]);
            let error = wire.ask_for(reply, &whole("hi")).await.0.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Protocol, "{wire:?} {body}: {error}");
            assert!(error.message.contains("without content"), "{wire:?} {body}: {error}");
        }
        for (content_type, stream) in [("text/event-stream", true), ("application/json", false)] {
            let error = wire
                .ask_for(ScriptedReply::raw(content_type, ["\n"]), &request("hi", stream))
                .await
                .0
                .unwrap_err();
            assert_eq!(error.kind, ErrorKind::Protocol, "{wire:?} {content_type}: {error}");
        }
    }
}

#[tokio::test]
async fn error_inside_a_stream_is_reported() {
    for wire in Wire::ALL {
        let stream = odd_stream(wire);
        let begin = stream.split_inclusive("\r\n\r\n").take_while(|event| !event.contains("\"f\"")).collect();
        let error = match wire {
            Wire::Chat => r#"{"error":{"message":"Slow down","type":"rate_limit_error"}}"#,
            Wire::Responses => {
                r#"{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"Slow down"}}}"#
            }
            Wire::Messages => r#"{"type":"error","error":{"type":"rate_limit_error","message":"Slow down"}}"#,
        };
        let pieces: [String; 2] = [begin, format!("event: error\ndata: {error}\n\n")];
        let error = wire
            .ask_for(ScriptedReply::raw("text/event-stream", pieces), &streamed("hi"))
            .await
            .0
            .unwrap_err();
        assert_eq!((error.kind, &*error.partial), (ErrorKind::RateLimited, "käse 世界"), "{wire:?}: {error}");
        assert!(error.message.contains("Slow down"), "{error}");
    }
}
