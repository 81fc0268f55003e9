//! Malformed input on the JSON-RPC port: bytes that are not frames, frames that are not messages, messages that are not calls.

use baton_testkit::chat::Chat;
use baton_testkit::client::{Client, frame, frame_of};
use baton_testkit::program::Running;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::scripted;

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;

/// Sends bytes on a new connection, and expects one error and the end of the connection.
async fn check_closes(server: &Running, bytes: &[u8], expected: &str) {
    let client = server.greetless().await;
    let sent = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
    // The server may close the connection before it has read everything.
    let _ = client.send_bytes(bytes).await;
    client.closed().await;
    let frames = client.frames();
    let error = &frames.first().unwrap_or_else(|| panic!("{sent:?} was not answered"))["error"];
    assert_eq!((frames.len(), &error["code"]), (1, &json!(PARSE_ERROR)), "{sent:?}: {frames:?}");
    assert!(error["message"].as_str().unwrap().contains(expected), "{sent:?}: {error}");
}

/// Sends a body, and expects an error with this code and id on a connection that stays open.
async fn check_refuses(client: &Client, body: &[u8], code: i64, id: Value) {
    let from = client.count();
    client.send_bytes(&frame_of(body)).await.unwrap();
    let shown = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
    let (_, answer) = client
        .find(&format!("an answer to {shown:?}"), from, |frame| frame.get("error").map(|_| frame.clone()))
        .await;
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id), "{shown:?}: {answer}");
    assert!(answer["error"]["message"].as_str().is_some_and(|text| text.len() > 10), "{answer}");
}

#[tokio::test]
async fn malformed_frames_close_only_their_connection() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let bystander = server.connect().await;
    let chat = Chat::create(&bystander, json!({})).await;
    for (bytes, expected) in [
        (&b"Content-Length: 1073741824\r\n\r\n{"[..], "1073741824 bytes is larger than the limit"),
        (b"Content-Length: -1\r\n\r\n{}", "\"-1\" is not a number"),
        (b"Content-Length: 99999999999999999999999999\r\n\r\n{}", "is not a number"),
        (b"Content-Length: 0x10\r\n\r\n{}", "\"0x10\" is not a number"),
        (b"Content-Length:\r\n\r\n{}", "\"\" is not a number"),
        (b"Content-Type: application/json\r\n\r\n{}", "without a Content-Length"),
        (b"\r\n\r\n{}", "without a Content-Length"),
        (b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}\n", "more than one Content-Length"),
        (&[0xff; 16 * 1024], "not a Content-Length framed stream"),
        (&[b'{'; 16 * 1024], "not a Content-Length framed stream"),
    ] {
        check_closes(&server, bytes, expected).await;
    }
    chat.assert_usable().await;
}

/// A web page can make a browser send such a request to a local port. It has a Content-Length and a call as its body, but must
/// not be treated as a call.
#[tokio::test]
async fn http_request_on_the_rpc_port_is_refused() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let call =
        r#"{"jsonrpc":"2.0","id":1,"method":"session.create","params":{"sessionId":"from-a-web-page"}}"#;
    for first in ["POST / HTTP/1.1", "POST /a:b HTTP/1.1", "GET / HTTP/1.1"] {
        let request = format!(
            "{first}\r\nHost: 127.0.0.1\r\nOrigin: https://example.com\r\nContent-Length: {}\r\n\r\n{call}",
            call.len()
        );
        check_closes(&server, request.as_bytes(), "not a header").await;
    }
    let client = server.connect().await;
    assert_eq!(
        client.ok("session.list", json!({})).await["sessions"],
        json!([]),
        "a web page created a session"
    );
}

#[tokio::test]
async fn frames_without_a_valid_call_are_answered_with_an_error() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({})).await;
    let deep = |id: u32, open: &str, close: &str, levels: usize| {
        format!(r#"{{"id":{id},"method":"ping","params":{}{}}}"#, open.repeat(levels), close.repeat(levels))
    };
    for (body, code, id) in [
        (b"".to_vec(), PARSE_ERROR, Value::Null),
        (b"{".to_vec(), PARSE_ERROR, Value::Null),
        (b"nonsense".to_vec(), PARSE_ERROR, Value::Null),
        (b"{} {}".to_vec(), PARSE_ERROR, Value::Null),
        (b"{\"id\":1,\"method\":\"ping\xff\"}".to_vec(), PARSE_ERROR, Value::Null),
        (b"\xef\xbb\xbf{}".to_vec(), PARSE_ERROR, Value::Null),
        (b"{}".to_vec(), INVALID_REQUEST, Value::Null),
        (b"[]".to_vec(), INVALID_REQUEST, Value::Null),
        (br#"[{"id":1,"method":"ping"}]"#.to_vec(), INVALID_REQUEST, Value::Null),
        (b"7".to_vec(), INVALID_REQUEST, Value::Null),
        (b"null".to_vec(), INVALID_REQUEST, Value::Null),
        (br#"{"id":503,"method":7}"#.to_vec(), INVALID_REQUEST, json!(503)),
        (br#"{"id":"x","method":null,"error":7}"#.to_vec(), INVALID_REQUEST, json!("x")),
        (deep(500, "[", "]", 500).into_bytes(), INVALID_REQUEST, json!(500)),
        (deep(501, "{\"a\":", "}", 500).into_bytes(), PARSE_ERROR, Value::Null),
        (deep(502, "[", "]", 2_000_000).into_bytes(), INVALID_REQUEST, json!(502)),
    ] {
        check_refuses(&client, &body, code, id).await;
    }
    chat.assert_usable().await;
}

#[tokio::test]
async fn request_id_is_returned_byte_for_byte() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let (huge, long) = ("9".repeat(400), "x".repeat(100_000));
    for id in [
        r#""text""#,
        r#""""#,
        "0",
        "-7",
        "3.50",
        "1e400",
        "true",
        r#"{"a":[1,2]}"#,
        r#""\u0000\ud83d\ude00""#,
        &huge,
        &format!("\"{long}\""),
    ] {
        let call = format!(r#"{{"id":{id},"method":"ping","params":{{"message":"m"}}}}"#);
        let mut stream = server.dial().await;
        stream.write_all(&frame_of(call.as_bytes())).await.unwrap();
        let mut answer = Vec::new();
        while !answer.windows(6).any(|window| window == b"pong: ") {
            assert!(stream.read_buf(&mut answer).await.unwrap() > 0, "no answer to {call}");
        }
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.contains(&format!(r#""id":{id},"#)), "{} in {answer}", &id[..id.len().min(40)]);
    }
    // JSON-RPC: a call without an id, or with the id null, gets no answer.
    client.send(&json!({"method": "ping", "params": {"message": "unheard"}})).await;
    client.send(&json!({"id": null, "method": "ping", "params": {"message": "unheard"}})).await;
    client.send(&json!({"method": "$/cancelRequest", "params": {"id": 1}})).await;
    client.ok("ping", json!({})).await;
    assert!(!client.digest().contains("unheard"), "{}", client.digest());
}

#[tokio::test]
async fn unexpected_responses_are_ignored() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({"requestUserInput": true})).await;
    for id in [json!(0), json!(1), json!(-1), json!("1"), json!(1.5), json!(u64::MAX), json!([1])] {
        client.send(&json!({"id": id, "result": {"answer": "unasked", "wasFreeform": true}})).await;
        client.send(&json!({"id": id, "error": {"code": 1, "message": "unasked"}})).await;
    }
    // Nor do they answer a question that is asked later.
    let from = client.count();
    chat.send(r#"[[tool:ask_user {"question":"which colour?"}]]"#).await;
    let (id, params) = client.asked("userInput.request", from).await;
    assert_eq!(params["question"], "which colour?");
    client.send(&json!({"id": id, "result": {"answer": "blue", "wasFreeform": true}})).await;
    assert!(chat.until_idle(from).await.text().contains("User responded: blue"));
}

#[tokio::test]
async fn question_that_its_client_cannot_ask_does_not_block_the_turn() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({"requestUserInput": true})).await;
    for answer in [
        json!({"error": {"code": -32603, "message": "the terminal is gone"}}),
        json!({"result": "not an answer"}),
    ] {
        let from = client.count();
        chat.send(r#"[[tool:ask_user {"question":"which colour?"}]]"#).await;
        let (id, _) = client.asked("userInput.request", from).await;
        let mut reply = answer;
        reply["id"] = id;
        client.send(&reply).await;
        assert!(chat.until_idle(from).await.text().contains("The user could not be asked"));
    }
}

#[tokio::test]
async fn client_may_disconnect_in_the_middle_of_a_frame() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let bystander = server.connect().await;
    let chat = Chat::create(&bystander, json!({})).await;
    chat.assert_usable().await;
    let (before, call) = (server.sockets(), frame(&json!({"id": 1, "method": "ping", "params": {}})));
    let mut silent = Vec::new();
    for cut in [0, 1, 10, call.len() - 1, call.len()] {
        let mut stream = server.dial().await;
        stream.write_all(&call[..cut]).await.unwrap();
        // One connection stays silent, and one closes.
        silent.push(stream);
        let mut leaving = server.dial().await;
        leaving.write_all(&call[..cut]).await.unwrap();
        leaving.shutdown().await.unwrap();
        let mut rest = Vec::new();
        leaving.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest.is_empty(), cut < call.len(), "only a whole frame is answered: {cut}");
    }
    chat.assert_usable().await;
    drop(silent);
    server.until_sockets(before).await;
}

#[tokio::test]
async fn two_hundred_connections_are_opened_and_closed() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let bystander = server.connect().await;
    let chat = Chat::create(&bystander, json!({})).await;
    chat.assert_usable().await;
    let before = server.sockets();
    let mut open = Vec::new();
    for number in 0..200 {
        let mut stream = server.dial().await;
        stream.write_all(&frame(&json!({"id": number, "method": "ping"}))).await.unwrap();
        open.push(stream);
    }
    chat.assert_usable().await;
    drop(open);
    server.until_sockets(before).await;
    chat.assert_usable().await;
}

#[tokio::test]
async fn frames_are_read_byte_by_byte_and_many_at_once() {
    let (program, _model) = scripted().await;
    let (_server, client) = program.pipes().await;
    for byte in frame(&json!({"id": "slow", "method": "ping", "params": {"message": "ü"}})) {
        client.send_bytes(&[byte]).await.unwrap();
    }
    assert_eq!(client.answer_to(&json!("slow")).await.unwrap()["message"], "pong: ü");
    let many: Vec<u8> =
        (0..5000).flat_map(|n| frame(&json!({"id": format!("m{n}"), "method": "ping"}))).collect();
    client.send_bytes(&many).await.unwrap();
    for n in 0..5000 {
        assert_eq!(client.answer_to(&json!(format!("m{n}"))).await.unwrap()["message"], "pong");
    }
}
