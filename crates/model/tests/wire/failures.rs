//! Everything that can go wrong between a model and us: one clear error each, and nothing that was said is
//! lost.

use std::time::Duration;

use crate::common::{ask, ask_for, chat_model, endpoint, events, request, streamed, whole};
use baton_model::endpoint::Endpoint;
use baton_model::http::Patience;
use baton_model::{Answer, Delta, ErrorKind, ModelError};
use baton_testkit::model_server::{Action, ModelServer, Reply};
use tokio::net::TcpListener;

/// What must be true of every error, and what is expected of this one. The host is left out of the message.
fn check(result: Result<Answer, ModelError>, kind: ErrorKind, message: &str, partial: &str) {
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

/// Asks a scripted server for this prompt, streamed and whole.
async fn scripted(prompt: &str) -> [Result<Answer, ModelError>; 2] {
    scripted_with_stall(prompt, Duration::from_secs(10)).await
}

async fn scripted_with_stall(prompt: &str, stall: Duration) -> [Result<Answer, ModelError>; 2] {
    let server = ModelServer::start().await;
    let mut endpoint = endpoint(&server);
    endpoint.patience = Patience { head: Duration::from_secs(10), stall };
    let model = chat_model(endpoint);
    [ask(&model, &streamed(prompt)).await.0, ask(&model, &whole(prompt)).await.0]
}

#[tokio::test]
async fn a_connection_that_ends_in_the_middle() {
    for (prompt, partial) in [("[[drop]]", "half an "), ("[[reset]]", "half an ")] {
        let [stream, whole] = scripted(prompt).await;
        for (result, partial) in [(stream, partial), (whole, "")] {
            let error = result.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Network, "{error}");
            // A reset may overtake what was sent before it.
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
async fn a_body_that_ends_too_early() {
    let [stream, whole] = scripted("[[truncate]]").await;
    let message =
        format!("The connection to HOST broke off: the answer ended in the middle. {CHECK_NETWORK}");
    check(stream, ErrorKind::Network, &message, "half an ");
    let error = whole.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
    assert!(error.message.contains("sent something else than an answer"), "{error}");
}

#[tokio::test]
async fn an_event_that_is_cut_off() {
    let begin = r#"data: {"choices":[{"delta":{"content":"half"}}]}"#;
    for rest in ["data: {\"choi", "data: {\"choi\n"] {
        let reply = Reply::raw("text/event-stream", [format!("{begin}\n\n"), rest.to_owned()]);
        let message =
            format!("The connection to HOST broke off: the answer ended in the middle. {CHECK_NETWORK}");
        check(ask_for(reply, &streamed("hi")).await.0, ErrorKind::Network, &message, "half");
    }
}

#[tokio::test]
async fn somebody_who_falls_silent() {
    let message = format!("HOST has said nothing for 0.25 s. {WAIT_LONGER}");
    let [stream, whole] = scripted_with_stall("[[hang]]", Duration::from_millis(250)).await;
    check(stream, ErrorKind::Stalled, &message, "half an ");
    check(whole, ErrorKind::Stalled, &message, "");
}

#[tokio::test]
async fn somebody_who_never_begins() {
    let server = ModelServer::start().await;
    let mut endpoint = endpoint(&server);
    endpoint.patience = Patience { head: Duration::from_millis(50), stall: Duration::from_secs(5) };
    let (result, _) = ask(&chat_model(endpoint), &streamed("[[hold:ever]]")).await;
    let message = format!("HOST has said nothing for 0.05 s. {WAIT_LONGER}");
    check(result, ErrorKind::Stalled, &message, "");
}

#[tokio::test]
async fn garbage() {
    let [stream, whole] = scripted("[[garbage]]").await;
    let message = format!("HOST sent something else than a stream of events: this is no answer. {CHECK_URL}");
    check(stream, ErrorKind::Protocol, &message, "");
    let message = format!(
        "HOST sent something else than an answer (expected value at line 1 column 1): this is no answer. \
         {CHECK_URL}"
    );
    check(whole, ErrorKind::Protocol, &message, "");
}

#[tokio::test]
async fn json_that_is_none() {
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
async fn a_web_page_of_a_login() {
    let message = format!("HOST sent a web page (“Please log in”) instead of an answer. {CHECK_URL}");
    for result in scripted("[[html]]").await {
        check(result, ErrorKind::Protocol, &message, "");
    }
}

#[tokio::test]
async fn an_empty_body() {
    for stream in [true, false] {
        for content_type in ["text/event-stream", "application/json", "text/plain"] {
            let reply = Reply::raw(content_type, ["\n"]);
            let error = ask_for(reply, &request("hi", stream)).await.0.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
        }
        let message = format!("HOST sent an empty answer. {CHECK_URL}");
        let reply = Reply::new([Action::Raw("".into())]);
        check(ask_for(reply, &request("hi", stream)).await.0, ErrorKind::Protocol, &message, "");
    }
}

#[tokio::test]
async fn an_answer_in_which_nothing_is_said() {
    let message = format!("HOST sent a stream in which nothing is said. {CHECK_URL}");
    check(ask_for(events(["[DONE]"]), &streamed("hi")).await.0, ErrorKind::Protocol, &message, "");
    let message = format!("HOST sent an answer in which nothing is said. {CHECK_URL}");
    for body in ["{}", r#"{"choices":[]}"#, r#"{"choices":null}"#] {
        let reply = Reply::raw("application/json", [body]);
        check(ask_for(reply, &whole("hi")).await.0, ErrorKind::Protocol, &message, "");
    }
}

#[tokio::test]
async fn an_error_inside_of_a_success() {
    let begin = r#"{"choices":[{"delta":{"content":"half"}}]}"#;
    let limited = r#"{"error":{"message":"Slow down","type":"rate_limit_error"}}"#;
    let message = "HOST wants to be asked less often: Slow down. Try again in a moment.";
    check(
        ask_for(events([begin, limited]), &streamed("hi")).await.0,
        ErrorKind::RateLimited,
        message,
        "half",
    );

    let overloaded = r#"{"error":{"message":"Overloaded","code":503}}"#;
    let message = "HOST failed (503 Service Unavailable): Overloaded. Try again in a moment.";
    check(ask_for(events([begin, overloaded]), &streamed("hi")).await.0, ErrorKind::Server, message, "half");

    let named = Reply::raw("text/event-stream", ["event: error\ndata: {\"message\":\"Boom\"}\n\n"]);
    let message = "HOST failed: Boom. Try again in a moment.";
    check(ask_for(named, &streamed("hi")).await.0, ErrorKind::Server, message, "");

    let flat = r#"{"object":"error","message":"Prompt is too long","code":400}"#;
    let reply = Reply::raw("application/json", [flat]);
    let message = "The conversation is too long for this model of HOST (400 Bad Request): \
                   Prompt is too long. Compact the conversation, or start a new one.";
    check(ask_for(reply, &whole("hi")).await.0, ErrorKind::ContextTooLong, message, "");
}

#[tokio::test]
async fn a_status_that_is_no_success() {
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
async fn an_error_whose_body_never_ends() {
    let reply = Reply { status: 500, ..Reply::new([Action::Raw("oops".into()), Action::Drop]) };
    let message = "HOST failed (500 Internal Server Error): oops. Try again in a moment.";
    check(ask_for(reply, &streamed("hi")).await.0, ErrorKind::Server, message, "");
}

#[tokio::test]
async fn nobody_there() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Endpoint::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    drop(listener);
    let error = ask(&chat_model(endpoint), &streamed("hi")).await.0.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Network);
    assert!(error.message.contains("cannot be reached: Connection refused"), "{error}");
    assert!(error.message.ends_with(CHECK_NETWORK), "{error}");
}

#[tokio::test]
async fn somebody_who_hangs_up_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Endpoint::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let hang_up = tokio::spawn(async move { drop(listener.accept().await) });
    let error = ask(&chat_model(endpoint), &streamed("hi")).await.0.unwrap_err();
    hang_up.await.unwrap();
    assert_eq!(error.kind, ErrorKind::Network, "{error}");
}

#[tokio::test]
async fn a_header_that_cannot_be_sent() {
    let server = ModelServer::start().await;
    let mut endpoint = endpoint(&server);
    endpoint.headers = vec![("x-bad".to_owned(), "two\nlines".to_owned())];
    let error = ask(&chat_model(endpoint), &streamed("hi")).await.0.unwrap_err();
    assert_eq!(error.kind, ErrorKind::BadRequest, "{error}");
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn a_redirect_is_reported_and_not_followed() {
    let server = ModelServer::start().await;
    server.push(
        Reply { status: 307, ..Reply::text("x") }.header("location", "https://elsewhere.example.com/v2"),
    );
    let error = ask(&chat_model(endpoint(&server)), &whole("hi")).await.0.unwrap_err();
    assert_eq!((error.kind, error.status), (ErrorKind::NotFound, Some(307)));
    assert!(error.message.contains("https://elsewhere.example.com/v2"), "{error}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn an_event_without_end() {
    let piece = "data: ".to_owned() + &"x".repeat(1 << 20);
    let error =
        ask_for(Reply::raw("text/event-stream", vec![piece; 17]), &streamed("hi")).await.0.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
    assert!(error.message.contains("more than 16777216 bytes"), "{error}");
}

#[tokio::test]
async fn a_failure_on_the_way_is_tried_again_from_the_start() {
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
