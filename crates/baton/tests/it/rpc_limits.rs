//! Limits of JSON-RPC clients before they have sent the token.

use std::process::Stdio;

use baton_testkit::another_user::AnotherUser;
use baton_testkit::cannot_run;
use baton_testkit::client::{LIMIT, frame, frame_of};
use baton_testkit::http::Http;
use baton_testkit::program::Running;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::{eventually, scripted};

const TOKEN: &str = "COPILOT_CONNECTION_TOKEN";

/// Writes until the server closes the connection, and returns what it sent before.
async fn flood(mut connection: TcpStream, bytes: &[u8], times: usize) -> String {
    let (mut reader, mut writer) = connection.split();
    let write = async {
        for _ in 0..times {
            if writer.write_all(bytes).await.is_err() {
                return;
            }
        }
    };
    let mut said = Vec::new();
    let both = async { tokio::join!(write, reader.read_to_end(&mut said)) };
    let (_, _) = tokio::time::timeout(LIMIT, both).await.expect("the connection ends");
    String::from_utf8_lossy(&said).into_owned()
}

/// Sends a call as another user of this machine, and returns the answer.
fn call_as(user: AnotherUser, server: &Running, call: &[u8]) -> String {
    let call = String::from_utf8_lossy(call).replace('\'', "");
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{}; printf '%s' '{call}' >&3; \
         read -r _ length <&3; read -r _ <&3; head -c \"${{length%$'\\r'}}\" <&3",
        server.port
    );
    let mut bash = user.command("timeout");
    bash.args([&LIMIT.as_secs().to_string(), "bash", "-c", &script]).stdin(Stdio::null());
    String::from_utf8_lossy(&bash.output().expect("bash runs").stdout).into_owned()
}

#[tokio::test]
async fn client_without_a_token_is_limited_to_64_kilobytes() {
    let (program, _model) = scripted().await;
    let server = program.env(TOKEN, "secret").serve().await;
    let before = server.peak_memory();
    let announced = b"Content-Length: 250000000\r\n\r\n";
    let chunk = [b" ".as_slice(), &[b'x'; 1 << 20]].concat();
    for _ in 0..4 {
        let mut connection = server.dial().await;
        connection.write_all(announced).await.unwrap();
        let said = flood(connection, &chunk, 200).await;
        assert!(said.contains("larger than the limit of 65536 bytes"), "{said:?}");
    }
    let ping = frame(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}}));
    let said = flood(server.dial().await, &ping, 5000).await;
    assert!(said.contains("no connection token within the first 65536 bytes"), "{} bytes", said.len());
    let grown = server.peak_memory().saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes more");
    server.greetless().await.ok("connect", json!({"token": "secret"})).await;
}

#[tokio::test]
async fn limit_does_not_apply_after_the_token() {
    let (program, _model) = scripted().await;
    let server = program.env(TOKEN, "secret").serve().await;
    let client = server.greetless().await;
    // In one write: the limit no longer applies to what follows the token.
    let connect = json!({"jsonrpc": "2.0", "id": 1, "method": "connect", "params": {"token": "secret"}});
    let large =
        json!({"jsonrpc": "2.0", "id": 2, "method": "ping", "params": {"message": "x".repeat(300_000)}});
    client.send_bytes(&[frame(&connect), frame(&large)].concat()).await.unwrap();
    let answer = client.answer_to(&json!(2)).await.unwrap();
    assert!(answer["message"].as_str().unwrap().len() > 300_000);
}

#[tokio::test]
async fn missing_token_times_out() {
    let (program, _model) = scripted().await;
    let file = program.work().join("config.toml");
    std::fs::write(&file, "rpc.token_seconds = 1").unwrap();
    let arguments = ["--headless", "--config", file.to_str().unwrap()];
    let server = program.env(TOKEN, "secret").serve_with(&arguments).await;
    let (silent, wrong) = (server.greetless().await, server.greetless().await);
    wrong.refused("connect", json!({"token": "wrong"})).await;
    let authenticated = server.greetless().await;
    authenticated.ok("connect", json!({"token": "secret"})).await;
    silent.closed().await;
    wrong.closed().await;
    authenticated.ok("ping", json!({})).await;
}

#[tokio::test]
async fn unauthenticated_connections_are_limited_and_leave_http_usable() {
    let (program, _model) = scripted().await;
    let server = program.serve_http(&[]).await;
    let mut waiting = Vec::new();
    let refused = loop {
        let mut connection = server.dial().await;
        // An answered call shows that the server has counted this connection.
        connection.write_all(&frame_of(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)).await.unwrap();
        let mut said = vec![0; 4096];
        let count = tokio::time::timeout(LIMIT, connection.read(&mut said)).await.unwrap().unwrap();
        let said = String::from_utf8_lossy(&said[..count]).into_owned();
        if !said.contains("AUTHENTICATION_REQUIRED") {
            break said;
        }
        waiting.push(connection);
        assert!(waiting.len() <= 200, "there is no limit");
    };
    assert!(refused.contains("too many connections"), "{refused}");
    // One limit for the address, and one for the user behind it.
    assert_eq!(waiting.len(), 2 * 64);
    assert_eq!(Http::anonymous(&server).get("/api/health").await.status, 200);
    drop(waiting);
}

/// Opens connections and closes them at once, faster than their users can be identified.
async fn connect_and_close(server: &Running, times: usize) {
    for _ in 0..times {
        drop(server.dial().await);
    }
}

#[tokio::test]
async fn flood_of_connections_blocks_neither_rpc_nor_http() {
    let (program, _model) = scripted().await;
    let server = program.serve_http(&["--insecure-no-token"]).await;
    let http = Http::anonymous(&server);
    connect_and_close(&server, 1000).await;
    assert_eq!(http.get("/api/sessions").await.status, 200);
    server.connect().await.ok("session.list", json!({})).await;
}

#[tokio::test]
async fn flood_of_connections_does_not_lock_out_the_owner() {
    let (program, _model) = scripted().await;
    let server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    connect_and_close(&server, 1000).await;
    assert_eq!(http.get("/api/sessions").await.status, 200);
    // Until the server notices their end, the closed connections count as unauthenticated.
    let params = json!({"token": program.token()});
    let connect = frame(&json!({"jsonrpc": "2.0", "id": 1, "method": "connect", "params": params}));
    let admitted = async || first_response(&server, &connect).await.contains("protocolVersion").then_some(());
    eventually("the owner's connection", admitted).await;
}

/// Sends a call on a new connection, and returns the first bytes of the response; nothing if the connection is closed.
async fn first_response(server: &Running, call: &[u8]) -> String {
    let mut connection = server.dial().await;
    let mut said = vec![0; 4096];
    let count = match connection.write_all(call).await {
        Ok(()) => connection.read(&mut said).await.unwrap_or(0),
        Err(_) => 0,
    };
    String::from_utf8_lossy(&said[..count]).into_owned()
}

#[tokio::test]
async fn connections_of_a_refused_user_leave_room_for_the_owner() {
    let Ok(other) = AnotherUser::find().map_err(|why| cannot_run!(why)) else { return };
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    let script = format!(
        "for n in {{1..300}}; do exec {{fd}}<>/dev/tcp/127.0.0.1/{}; done; echo connected; read -r",
        server.port
    );
    let mut bash = tokio::process::Command::from(other.command("bash"));
    // As it belongs to somebody else, it can only be killed by root; at the end of its input, it ends.
    bash.args(["-c", &script]).kill_on_drop(true);
    let mut other = bash.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("bash runs");
    let mut line = [0; 9];
    let connected = other.stdout.as_mut().expect("a pipe").read_exact(&mut line);
    tokio::time::timeout(LIMIT, connected).await.unwrap().expect("the other user connects");
    server.connect().await.ok("session.list", json!({})).await;
}

#[tokio::test]
async fn server_without_a_token_serves_only_its_own_user() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    server.connect().await.ok("session.list", json!({})).await;
    let Ok(other) = AnotherUser::find().map_err(|why| cannot_run!(why)) else { return };
    let call = frame(&json!({"jsonrpc": "2.0", "id": 1, "method": "session.list", "params": {}}));
    let heard = call_as(other, &server, &call);
    assert!(heard.contains("AUTHENTICATION_REQUIRED") && !heard.contains("sessions\""), "{heard}");
}

#[tokio::test]
async fn another_user_is_served_with_the_token() {
    let Ok(other) = AnotherUser::find().map_err(|why| cannot_run!(why)) else { return };
    let (program, _model) = scripted().await;
    let server = program.env(TOKEN, "secret").serve().await;
    let call = frame(&json!({"jsonrpc": "2.0", "id": 1, "method": "connect", "params": {"token": "secret"}}));
    let heard = call_as(other, &server, &call);
    assert!(heard.contains("protocolVersion"), "{heard}");
}
