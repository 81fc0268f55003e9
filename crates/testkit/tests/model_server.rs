//! The scripted server from the point of view of a client in any language.

#![allow(clippy::disallowed_methods, reason = "tests may block")]
#![allow(clippy::unwrap_used, reason = "tests report by panicking")]

use std::net::SocketAddr;
use std::process::Stdio;

use baton_testkit::model_server::{End, ModelServer, ScriptedReply};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;

/// Sends a request and returns the response up to the end of its body, unparsed.
async fn http(address: SocketAddr, method: &str, path: &str, body: &Value) -> String {
    let body = body.to_string();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nX-Test: yes\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    let mut response = Vec::new();
    let mut buffer = [0; 1024];
    while !response.ends_with(b"0\r\n\r\n") {
        match stream.read(&mut buffer).await.unwrap() {
            0 => break,
            length => response.extend_from_slice(&buffer[..length]),
        }
    }
    String::from_utf8(response).unwrap()
}

fn prompt(text: &str, stream: bool) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": text}], "stream": stream})
}

async fn chat(server: &ModelServer, text: &str) -> String {
    http(server.address(), "POST", "/v1/chat/completions", &prompt(text, false)).await
}

#[tokio::test]
async fn queued_replies_come_before_scripts() {
    let server = ModelServer::start().await;
    server.push(ScriptedReply::text("queued"));
    server.push(ScriptedReply::error(418).header("x-more", "1"));
    assert!(chat(&server, "a").await.contains(r#""content":"queued""#));
    let failed = chat(&server, "b").await;
    assert!(failed.starts_with("HTTP/1.1 418 ") && failed.contains("x-more: 1"), "{failed}");
    assert!(chat(&server, "c").await.contains(r#""content":"echo 1: c""#));
}

#[tokio::test]
async fn requests_are_recorded_and_listed() {
    let server = ModelServer::start().await;
    chat(&server, "hi").await;
    let recorded = &server.requests()[0];
    assert_eq!((recorded.header("x-test"), recorded.end), (Some("yes"), Some(End::Answered)));
    assert_eq!(recorded.body, prompt("hi", false));
    let shown = http(server.address(), "GET", "/_requests", &Value::Null).await;
    assert!(
        shown.contains(r#""path":"/v1/chat/completions""#) && shown.contains(r#""x-test":"yes""#),
        "{shown}"
    );
}

#[tokio::test]
async fn hold_lasts_until_released() {
    let server = ModelServer::start().await;
    let release = async {
        server.wait_for_hold("gate").await;
        assert_eq!(server.requests()[0].end, None);
        http(server.address(), "POST", "/_release/gate", &Value::Null).await;
    };
    let (answer, ()) = tokio::join!(chat(&server, "[[hold:gate]][[text:through]]"), release);
    assert!(answer.contains(r#""content":"through""#), "{answer}");
}

#[tokio::test]
async fn stream_has_the_format_of_chat_completions() {
    let server = ModelServer::start().await;
    let path = "/anything/chat/completions?x=1";
    let body = http(server.address(), "POST", path, &prompt(r#"[[tool:bash {"a":1}]]"#, true)).await;
    assert!(body.contains("content-type: text/event-stream"), "{body}");
    let events: Vec<&str> = body.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(events.last(), Some(&"[DONE]"));
    let parsed: Vec<Value> =
        events[..events.len() - 1].iter().map(|e| serde_json::from_str(e).unwrap()).collect();
    let arguments = |event: &Value| {
        let text = &event["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"];
        text.as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(parsed.iter().map(arguments).collect::<String>(), r#"{"a":1}"#);
    assert_eq!(parsed.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");
}

#[tokio::test]
async fn program_prints_its_address() {
    let directory = std::env::temp_dir().join(format!("baton-scripted-model-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let port_file = directory.join("port");
    let mut program = Command::new(env!("CARGO_BIN_EXE_baton-scripted-model"))
        .arg("--port-file")
        .arg(&port_file)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
    let address: SocketAddr = line.trim().strip_prefix("listening ").unwrap().parse().unwrap();
    assert_eq!(std::fs::read_to_string(&port_file).unwrap(), address.port().to_string());
    let models = http(address, "GET", "/v1/models", &Value::Null).await;
    assert!(models.contains(r#""id":"scripted""#), "{models}");
    program.kill().await.unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
}
