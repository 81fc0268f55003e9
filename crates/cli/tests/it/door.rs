//! What comes in at the door: bytes that are no frames, frames that are no messages, messages that are no calls.

use baton_testkit::chat::Chat;
use baton_testkit::client::{Client, frame, frame_of};
use baton_testkit::program::Running;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::scripted;

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;

/// Sends bytes on a fresh connection and expects one error and the end of the connection.
async fn check_closes(server: &Running, bytes: &[u8], expected: &str) {
    let client = server.greetless().await;
    let sent = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
    // The server may hang up before it has read everything.
    let _ = client.send_bytes(bytes).await;
    client.closed().await;
    let frames = client.frames();
    let error = &frames.first().unwrap_or_else(|| panic!("{sent:?} was not answered"))["error"];
    assert_eq!((frames.len(), &error["code"]), (1, &json!(PARSE_ERROR)), "{sent:?}: {frames:?}");
    assert!(error["message"].as_str().unwrap().contains(expected), "{sent:?}: {error}");
}

/// Sends a body and expects an error with this code and id; the connection goes on.
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
async fn bytes_that_are_no_frames_end_the_connection_and_nothing_else() {
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

/// Any web page can have a browser send such a request to a local port. Its headers have a length, and its body may be a
/// call; it must not be taken for one.
#[tokio::test]
async fn a_browser_is_not_a_client() {
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
        "a web page made a session"
    );
}

#[tokio::test]
async fn frames_that_are_no_calls_are_answered_and_passed_over() {
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
async fn an_id_comes_back_as_it_was() {
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
    // JSON-RPC: a call without an id, or with null for one, wants no answer.
    client.send(&json!({"method": "ping", "params": {"message": "unheard"}})).await;
    client.send(&json!({"id": null, "method": "ping", "params": {"message": "unheard"}})).await;
    client.send(&json!({"method": "$/cancelRequest", "params": {"id": 1}})).await;
    client.ok("ping", json!({})).await;
    assert!(!client.digest().contains("unheard"), "{}", client.digest());
}

#[tokio::test]
async fn answers_that_nobody_waits_for_are_ignored() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let client = server.connect().await;
    let chat = Chat::create(&client, json!({"requestUserInput": true})).await;
    for id in [json!(0), json!(1), json!(-1), json!("1"), json!(1.5), json!(u64::MAX), json!([1])] {
        client.send(&json!({"id": id, "result": {"answer": "unasked", "wasFreeform": true}})).await;
        client.send(&json!({"id": id, "error": {"code": 1, "message": "unasked"}})).await;
    }
    // Nor do they count as the answer to a question that is asked later.
    let from = client.count();
    chat.send(r#"[[tool:ask_user {"question":"which colour?"}]]"#).await;
    let (id, params) = client.asked("userInput.request", from).await;
    assert_eq!(params["question"], "which colour?");
    client.send(&json!({"id": id, "result": {"answer": "blue", "wasFreeform": true}})).await;
    assert!(chat.until_idle(from).await.text().contains("User responded: blue"));
}

#[tokio::test]
async fn a_question_that_its_client_cannot_put_does_not_stop_the_turn() {
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
async fn a_client_may_stop_in_the_middle_of_anything() {
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
        // One that says no more, and one that leaves.
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
async fn two_hundred_connections_come_and_go() {
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
async fn a_frame_may_come_byte_by_byte_and_many_at_once() {
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
