//! Failures between a provider and us: one clear error each, with the text received so far.

use std::time::Duration;

use crate::common::{ask, ask_for, chat_model, endpoint, events, request, streamed, whole};
use baton_model::endpoint::Endpoint;
use baton_model::http::Patience;
use baton_model::retry::Policy;
use baton_model::{Delta, ErrorKind, ModelError, ModelResponse};
use baton_testkit::model_server::{ModelServer, ReplyAction, ScriptedReply};
use tokio::net::TcpListener;

/// Asserts what holds for every error, and the expectation for this one. The host is replaced in the message.
fn check(result: Result<ModelResponse, ModelError>, kind: ErrorKind, message: &str, partial: &str) {
    let error = result.unwrap_err();
    let shown = error.to_string();
    assert!(shown.contains(&*error.endpoint), "{shown}");
    assert_eq!((error.kind, &*error.partial), (kind, partial), "{shown}");
    assert_eq!(shown.replace(&*error.endpoint, "HOST"), message);
    assert!(!shown.contains("sk-geheim") && !shown.contains("  "), "{shown}");
}

const CHECK_URL: &str = "Check that the base URL is that of an API, and that no proxy or login page answers.";
const WAIT_LONGER: &str = "Try again; if it happens often, ask for less at once or wait longer.";
const CHECK_NETWORK: &str = "Check the address, the network and the proxy settings, and try again.";

/// Sends this prompt to a scripted server, streamed and whole.
async fn scripted(prompt: &str) -> [Result<ModelResponse, ModelError>; 2] {
    scripted_with_stall(prompt, Duration::from_secs(10)).await
}

async fn scripted_with_stall(prompt: &str, stall: Duration) -> [Result<ModelResponse, ModelError>; 2] {
    let server = ModelServer::start().await;
    let mut endpoint = endpoint(&server);
    endpoint.patience = Patience { head: Duration::from_secs(10), stall };
    let model = chat_model(endpoint);
    [ask(&model, &streamed(prompt)).await.0, ask(&model, &whole(prompt)).await.0]
}

#[tokio::test]
async fn broken_connection_yields_the_partial_text() {
    for (prompt, partial) in [("[[drop]]", "half an "), ("[[reset]]", "half an ")] {
        let [stream, whole] = scripted(prompt).await;
        for (result, partial) in [(stream, partial), (whole, "")] {
            let error = result.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Network, "{error}");
            // A reset may discard bytes sent before it.
            assert!(partial.starts_with(&*error.partial), "{error}");
            assert!(prompt == "[[reset]]" || *error.partial == *partial, "{error}");
            assert!(
                error.message.starts_with(&format!("The connection to {} broke off: ", error.endpoint)),
                "{error}"
            );
            assert!(error.message.ends_with(CHECK_NETWORK), "{error}");
        }
    }
}

#[tokio::test]
async fn truncated_body_is_an_error() {
    let [stream, whole] = scripted("[[truncate]]").await;
    let message = format!("The connection to HOST broke off: the answer is incomplete. {CHECK_NETWORK}");
    check(stream, ErrorKind::Network, &message, "half an ");
    let error = whole.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
    assert!(error.message.contains("sent something other than an answer"), "{error}");
}

#[tokio::test]
async fn truncated_event_is_an_error() {
    let begin = r#"data: {"choices":[{"delta":{"content":"half"}}]}"#;
    for rest in ["data: {\"choi", "data: {\"choi\n"] {
        let reply = ScriptedReply::raw("text/event-stream", [format!("{begin}\n\n"), rest.to_owned()]);
        let message = format!("The connection to HOST broke off: the answer is incomplete. {CHECK_NETWORK}");
        check(ask_for(reply, &streamed("hi")).await.0, ErrorKind::Network, &message, "half");
    }
}

#[tokio::test]
async fn stalled_answer_times_out() {
    let message = format!("HOST sent nothing for 0.25 s. {WAIT_LONGER}");
    let [stream, whole] = scripted_with_stall("[[hang]]", Duration::from_millis(250)).await;
    check(stream, ErrorKind::Stalled, &message, "half an ");
    check(whole, ErrorKind::Stalled, &message, "");
}

#[tokio::test]
async fn silent_provider_times_out() {
    let server = ModelServer::start().await;
    let mut endpoint = endpoint(&server);
    endpoint.patience = Patience { head: Duration::from_millis(50), stall: Duration::from_secs(5) };
    let (result, _) = ask(&chat_model(endpoint), &streamed("[[hold:ever]]")).await;
    let message = format!("HOST sent nothing for 0.05 s. {WAIT_LONGER}");
    check(result, ErrorKind::Stalled, &message, "");
}

#[tokio::test]
async fn garbage_is_an_error() {
    let [stream, whole] = scripted("[[garbage]]").await;
    let message =
        format!("HOST sent something other than a stream of events: this is no answer. {CHECK_URL}");
    check(stream, ErrorKind::Protocol, &message, "");
    let message = format!(
        "HOST sent something other than an answer (expected value at line 1 column 1): this is no answer. \
         {CHECK_URL}"
    );
    check(whole, ErrorKind::Protocol, &message, "");
}

#[tokio::test]
async fn malformed_json_is_an_error() {
    for result in scripted("[[badjson]]").await {
        let error = result.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Protocol);
        assert!(error.message.contains("[oops"), "{error}");
    }
    let pieces = [r#"{"choices":[{"delta":{"content":"half"}}]}"#, "{oops"];
    let error = ask_for(events(pieces), &streamed("hi")).await.0.unwrap_err();
    assert_eq!((error.kind, &*error.partial), (ErrorKind::Protocol, "half"));
}

#[tokio::test]
async fn login_page_is_an_error() {
    let message = format!("HOST sent a web page (“Please log in”) instead of an answer. {CHECK_URL}");
    for result in scripted("[[html]]").await {
        check(result, ErrorKind::Protocol, &message, "");
    }
}

#[tokio::test]
async fn empty_body_is_an_error() {
    for stream in [true, false] {
        for content_type in ["text/event-stream", "application/json", "text/plain"] {
            let reply = ScriptedReply::raw(content_type, ["\n"]);
            let error = ask_for(reply, &request("hi", stream)).await.0.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
        }
        let message = format!("HOST sent an empty answer. {CHECK_URL}");
        let reply = ScriptedReply::new([ReplyAction::Raw("".into())]);
        check(ask_for(reply, &request("hi", stream)).await.0, ErrorKind::Protocol, &message, "");
    }
}

#[tokio::test]
async fn answer_without_content_is_an_error() {
    let message = format!("HOST sent an answer without content. {CHECK_URL}");
    check(ask_for(events(["[DONE]"]), &streamed("hi")).await.0, ErrorKind::Protocol, &message, "");
    let message = format!("HOST sent an answer without content. {CHECK_URL}");
    for body in ["{}", r#"{"choices":[]}"#, r#"{"choices":null}"#] {
        let reply = ScriptedReply::raw("application/json", [body]);
        check(ask_for(reply, &whole("hi")).await.0, ErrorKind::Protocol, &message, "");
    }
}

#[tokio::test]
async fn error_inside_an_answer_is_reported() {
    let begin = r#"{"choices":[{"delta":{"content":"half"}}]}"#;
    let limited = r#"{"error":{"message":"Slow down","type":"rate_limit_error"}}"#;
    let message = "HOST reports that the rate limit is exceeded: Slow down. Try again in a moment.";
    check(
        ask_for(events([begin, limited]), &streamed("hi")).await.0,
        ErrorKind::RateLimited,
        message,
        "half",
    );

    let overloaded = r#"{"error":{"message":"Overloaded","code":503}}"#;
    let message = "HOST failed (503 Service Unavailable): Overloaded. Try again in a moment.";
    check(ask_for(events([begin, overloaded]), &streamed("hi")).await.0, ErrorKind::Server, message, "half");

    let named = ScriptedReply::raw("text/event-stream", ["event: error\ndata: {\"message\":\"Boom\"}\n\n"]);
    let message = "HOST failed: Boom. Try again in a moment.";
    check(ask_for(named, &streamed("hi")).await.0, ErrorKind::Server, message, "");

    let flat = r#"{"object":"error","message":"Prompt is too long","code":400}"#;
    let reply = ScriptedReply::raw("application/json", [flat]);
    let message = "The conversation is too long for this model of HOST (400 Bad Request): \
                   Prompt is too long. Compact the conversation, or start a new one.";
    check(ask_for(reply, &whole("hi")).await.0, ErrorKind::ContextTooLong, message, "");
}

#[tokio::test]
async fn unsuccessful_status_is_an_error() {
    for (status, kind) in [
        (400, ErrorKind::BadRequest),
        (401, ErrorKind::Auth),
        (402, ErrorKind::Quota),
        (404, ErrorKind::NotFound),
        (408, ErrorKind::Server),
        (413, ErrorKind::ContextTooLong),
        (429, ErrorKind::RateLimited),
        (500, ErrorKind::Server),
        (529, ErrorKind::Server),
    ] {
        for result in scripted(&format!("[[error:{status}]]")).await {
            let error = result.unwrap_err();
            assert_eq!(
                (error.kind, error.status, error.code.as_deref()),
                (kind, Some(status), Some("scripted"))
            );
            assert!(error.message.contains(&format!("scripted failure {status}")), "{error}");
            assert!(error.request_id.is_some_and(|id| id.starts_with("req-")));
        }
    }
    let [stream, _] = scripted("[[error:429:retry=7]]").await;
    assert_eq!(stream.unwrap_err().retry_after, Some(Duration::from_secs(7)));
}

#[tokio::test]
async fn error_with_an_unfinished_body_is_reported() {
    let reply = ScriptedReply {
        status: 500,
        ..ScriptedReply::new([ReplyAction::Raw("oops".into()), ReplyAction::Drop])
    };
    let message = "HOST failed (500 Internal Server Error): oops. Try again in a moment.";
    check(ask_for(reply, &streamed("hi")).await.0, ErrorKind::Server, message, "");
}

#[tokio::test]
async fn refused_connection_on_this_machine_is_not_worth_a_retry() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Endpoint::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    drop(listener);
    let error = ask(&chat_model(endpoint), &streamed("hi")).await.0.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotRunning);
    assert_eq!(Policy::default().pause_after(&error, 1, 0.0), None);
    assert!(error.message.contains("cannot be reached: Connection refused"), "{error}");
    assert!(error.message.ends_with("Start the model server, or check the port."), "{error}");
}

#[tokio::test]
async fn immediate_hangup_is_a_network_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Endpoint::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let hang_up = tokio::spawn(async move { drop(listener.accept().await) });
    let error = ask(&chat_model(endpoint), &streamed("hi")).await.0.unwrap_err();
    hang_up.await.unwrap();
    assert_eq!(error.kind, ErrorKind::Network, "{error}");
}

#[tokio::test]
async fn invalid_header_is_refused_before_sending() {
    let server = ModelServer::start().await;
    let mut endpoint = endpoint(&server);
    endpoint.headers = vec![("x-bad".to_owned(), "two\nlines".to_owned())];
    let error = ask(&chat_model(endpoint), &streamed("hi")).await.0.unwrap_err();
    assert_eq!(error.kind, ErrorKind::BadRequest, "{error}");
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn redirect_is_reported_and_not_followed() {
    let server = ModelServer::start().await;
    server.push(
        ScriptedReply { status: 307, ..ScriptedReply::text("x") }
            .header("location", "https://elsewhere.example.com/v2"),
    );
    let error = ask(&chat_model(endpoint(&server)), &whole("hi")).await.0.unwrap_err();
    assert_eq!((error.kind, error.status), (ErrorKind::NotFound, Some(307)));
    assert!(error.message.contains("https://elsewhere.example.com/v2"), "{error}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn endless_event_is_an_error() {
    let piece = "data: ".to_owned() + &"x".repeat(1 << 20);
    let error = ask_for(ScriptedReply::raw("text/event-stream", vec![piece; 17]), &streamed("hi"))
        .await
        .0
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
    assert!(error.message.contains("more than 16777216 bytes"), "{error}");
}

#[tokio::test]
async fn failed_stream_is_retried_from_the_start() {
    use baton_model::retry::{Policy, RealPauses, Retries, ask_with_retries};
    let server = ModelServer::start().await;
    let policy = Policy { first_pause: Duration::from_millis(1), ..Policy::default() };
    let retries = Retries { policy, pauses: std::sync::Arc::new(RealPauses) };
    let (mut deltas, mut failures) = (Vec::new(), Vec::new());
    let answer = ask_with_retries(
        &retries,
        &crate::common::model(&server),
        &streamed("[[drop*1]] [[error:503*1]] [[text:whole]]"),
        &mut |delta| deltas.push(delta),
        |error, attempt, _| failures.push((attempt, error.kind, error.partial.to_string())),
    )
    .await;
    assert_eq!(answer.unwrap().text, "whole");
    assert_eq!(failures, [(1, ErrorKind::Network, "half an ".into()), (2, ErrorKind::Server, String::new())]);
    deltas.retain(|delta| !matches!(delta, Delta::Progress { .. }));
    let text = |text: &str| Delta::Text(text.into());
    assert_eq!(deltas, [text("half "), text("an "), Delta::Restart, text("whole")]);
}
