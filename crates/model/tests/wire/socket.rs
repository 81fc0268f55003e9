//! The Responses API over a WebSocket: the same answers and failures as over HTTP.

use std::sync::Arc;
use std::time::Duration;

use baton_model::http::{HttpClient, Patience};
use baton_model::responses::ResponsesModel;
use baton_model::{Carrier, Delta, ErrorKind, Message, ModelResponse, Part, Request};
use baton_testkit::model_server::{End, ModelServer, ReplyAction, ScriptedReply};
use serde_json::json;

use crate::common::{Wire, ask, endpoint, request, streamed, whole};

fn model(server: &ModelServer) -> ResponsesModel {
    model_with_stall(server, Duration::from_secs(20))
}

fn model_with_stall(server: &ModelServer, stall: Duration) -> ResponsesModel {
    let mut endpoint = endpoint(server);
    endpoint.patience = Patience { head: Duration::from_secs(20), stall };
    ResponsesModel::new(endpoint, Carrier::WebSocket, Arc::new(HttpClient::new()))
}

#[tokio::test]
async fn request_is_one_message_without_stream_options() {
    let server = ModelServer::start().await;
    let asked = Request { headers: vec![("x-mine".to_owned(), "1".to_owned())], ..streamed("hi") };
    let (answer, deltas) = ask(&model(&server), &asked).await;
    assert_eq!(answer.unwrap().text, "echo 1: hi");
    assert_eq!(deltas, ["echo ", "1: ", "hi"].map(|word| Delta::Text(word.to_owned())));
    let sent = &server.requests()[0];
    assert_eq!((sent.method.as_str(), sent.path.as_str()), ("WS", "/v1/responses"));
    let header = |name| sent.header(name).unwrap_or_default();
    assert_eq!((header("authorization"), header("x-mine")), ("Bearer sk-geheim", "1"));
    assert_eq!(sent.header("content-type"), None);
    let message =
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]});
    let expected =
        json!({"type": "response.create", "model": "scripted", "input": [message], "store": false});
    assert_eq!(sent.body, expected);
}

#[tokio::test]
async fn answer_is_the_same_as_over_http() {
    let prompt = r#"[[think:hm]][[text:I look. ]][[tools:bash {"a":"ä", "n":1.0};;view {oops]]"#;
    for stream in [true, false] {
        let server = ModelServer::start().await;
        let (over_socket, deltas) = ask(&model(&server), &request(prompt, stream)).await;
        let (over_http, expected_deltas) =
            ask(&*Wire::Responses.model(endpoint(&server)), &request(prompt, stream)).await;
        let (mut over_socket, mut over_http) = (over_socket.unwrap(), over_http.unwrap());
        assert_eq!(server.requests().iter().map(|r| r.method.as_str()).collect::<Vec<_>>(), ["WS", "POST"]);
        assert_eq!(deltas.len(), expected_deltas.len());
        for answer in [&mut over_socket, &mut over_http] {
            (answer.id, answer.request_id) = (None, None);
            answer.tool_calls.iter_mut().for_each(|call| call.id.clear());
        }
        assert_eq!(over_socket, ModelResponse { carrier: Carrier::WebSocket, ..over_http });
    }
}

#[tokio::test]
async fn refused_websocket_falls_back_to_http() {
    let server = ModelServer::start().await;
    server.refuse_sockets();
    let answer = ask(&model(&server), &streamed("hi")).await.0.unwrap();
    assert_eq!((answer.text.as_str(), answer.carrier), ("echo 1: hi", Carrier::Http));
    assert_eq!(server.requests().iter().map(|r| r.method.as_str()).collect::<Vec<_>>(), ["GET", "POST"]);
    let error = ask(&model(&server), &streamed("[[error:401]]")).await.0.unwrap_err();
    assert_eq!((error.kind, error.status), (ErrorKind::Auth, Some(401)), "{error}");
}

#[tokio::test]
async fn every_failure_yields_one_clear_error() {
    for (prompt, kind, message, partial) in [
        ("[[error:400]]", ErrorKind::BadRequest, "(400 Bad Request): scripted failure 400", ""),
        ("[[error:401]]", ErrorKind::Auth, "Check the API key", ""),
        ("[[error:404]]", ErrorKind::NotFound, "the name of the model", ""),
        ("[[error:429]]", ErrorKind::RateLimited, "Try again in a moment.", ""),
        ("[[error:429:retry=7]]", ErrorKind::RateLimited, "Try again in 7 s.", ""),
        ("[[error:503]]", ErrorKind::Server, "failed (503", ""),
        ("[[drop]]", ErrorKind::Network, "broke off", "half an "),
        ("[[truncate]]", ErrorKind::Network, "the answer is incomplete", "half an "),
        ("[[hang]]", ErrorKind::Stalled, "sent nothing for 0.25 s", "half an "),
        ("[[garbage]]", ErrorKind::Protocol, "sent something other than an answer", ""),
        ("[[badjson]]", ErrorKind::Protocol, "sent something other than an answer", ""),
    ] {
        for stream in [true, false] {
            let server = ModelServer::start().await;
            let stall = Duration::from_millis(if prompt == "[[hang]]" { 250 } else { 20_000 });
            let asked = ask(&model_with_stall(&server, stall), &request(prompt, stream)).await;
            let error = asked.0.expect_err(prompt);
            assert_eq!((error.kind, &*error.partial), (kind, partial), "{prompt}: {error}");
            assert!(error.message.contains(message) && error.message.contains(&*error.endpoint), "{error}");
        }
    }
}

#[tokio::test]
async fn first_message_has_the_time_limit_of_a_response_head() {
    let server = ModelServer::start().await;
    let mut endpoint = endpoint(&server);
    endpoint.patience = Patience { head: Duration::from_millis(250), stall: Duration::from_secs(20) };
    let model = ResponsesModel::new(endpoint, Carrier::WebSocket, Arc::new(HttpClient::new()));
    server.push(ScriptedReply::new([ReplyAction::Hang]));
    let error = ask(&model, &whole("hi")).await.0.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Stalled, "{error}");
}

#[tokio::test]
async fn dropping_the_future_closes_the_socket() {
    let server = ModelServer::start().await;
    let model = model(&server);
    let asking = tokio::spawn(async move { ask(&model, &streamed("[[text:one ]][[hold:x]]")).await });
    server.wait_for_hold("x").await;
    asking.abort();
    assert_eq!(server.wait_for_end(0).await, End::ClientLeft);
}

#[tokio::test]
async fn refused_connection_is_a_network_error() {
    let server = ModelServer::start().await;
    let model = model(&server);
    drop(server);
    let error = ask(&model, &streamed("hi")).await.0.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Network, "{error}");
}

#[tokio::test]
async fn message_can_have_megabytes() {
    let server = ModelServer::start().await;
    let long = "ä".repeat(1 << 20);
    let message = Message::User(vec![Part::Text(format!("[[text:{long}]]"))]);
    let asked = Request { messages: vec![Arc::new(message)], ..streamed("") };
    assert_eq!(ask(&model(&server), &asked).await.0.unwrap().text, long);
}
