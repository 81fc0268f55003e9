//! How little a client of the JSON-RPC port can do before it is trusted.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use baton_testkit::client::{LIMIT, frame, frame_of};
use baton_testkit::http::Http;
use baton_testkit::program::Running;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::scripted;

const TOKEN: &str = "COPILOT_CONNECTION_TOKEN";
const NOBODY: u32 = 65534;

/// Writes until the server has had enough; returns all that it said before it closed the connection.
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

/// Sends a call as another user of this machine, and returns what that user heard. Needs root.
fn call_as_nobody(server: &Running, call: &[u8]) -> String {
    let call = String::from_utf8_lossy(call).replace('\'', "");
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{}; printf '%s' '{call}' >&3; cat <&3", server.port);
    let mut bash = Command::new("timeout");
    bash.args(["10", "bash", "-c", &script]).uid(NOBODY).gid(NOBODY).current_dir("/").stdin(Stdio::null());
    String::from_utf8_lossy(&bash.output().expect("bash runs").stdout).into_owned()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[tokio::test]
async fn client_without_a_token_gets_64_kilobytes() {
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
async fn limit_ends_with_the_token() {
    let (program, _model) = scripted().await;
    let server = program.env(TOKEN, "secret").serve().await;
    let client = server.greetless().await;
    // In one write: what follows the token is read under its protection.
    let connect = json!({"jsonrpc": "2.0", "id": 1, "method": "connect", "params": {"token": "secret"}});
    let large =
        json!({"jsonrpc": "2.0", "id": 2, "method": "ping", "params": {"message": "x".repeat(300_000)}});
    client.send_bytes(&[frame(&connect), frame(&large)].concat()).await.unwrap();
    let answer = client.answer_to(&json!(2)).await.unwrap();
    assert!(answer["message"].as_str().unwrap().len() > 300_000);
}

#[tokio::test]
async fn token_that_does_not_come_is_not_waited_for() {
    let (program, _model) = scripted().await;
    let server = program.env(TOKEN, "secret").serve().await;
    let (silent, wrong) = (server.greetless().await, server.greetless().await);
    wrong.refused("connect", json!({"token": "wrong"})).await;
    let guest = server.greetless().await;
    guest.ok("connect", json!({"token": "secret"})).await;
    silent.closed().await;
    wrong.closed().await;
    guest.ok("ping", json!({})).await;
}

#[tokio::test]
async fn connections_that_wait_for_their_token_are_few_and_leave_the_http_door_open() {
    let (program, _model) = scripted().await;
    let server = program.serve_http(&[]).await;
    let mut waiting = Vec::new();
    let refused = loop {
        let mut connection = server.dial().await;
        // A call that is answered at once, so that the server has seen this one before the next comes.
        connection.write_all(&frame_of(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)).await.unwrap();
        let mut said = vec![0; 4096];
        let count = tokio::time::timeout(LIMIT, connection.read(&mut said)).await.unwrap().unwrap();
        let said = String::from_utf8_lossy(&said[..count]).into_owned();
        if !said.contains("AUTHENTICATION_REQUIRED") {
            break said;
        }
        waiting.push(connection);
        assert!(waiting.len() <= 200, "nobody stops us");
    };
    assert!(refused.contains("too many connections"), "{refused}");
    // As many for the address, and then as many for the user, who is told apart from others at that address.
    assert_eq!(waiting.len(), 2 * 64);
    assert_eq!(Http::anonymous(&server).get("/api/health").await.status, 200);
    drop(waiting);
}

/// Makes connections and closes them at once, faster than anybody could be identified.
async fn connect_and_close(server: &Running, times: usize) {
    for _ in 0..times {
        drop(server.dial().await);
    }
}

#[tokio::test]
async fn flood_of_connections_stops_neither_door() {
    let (program, _model) = scripted().await;
    let server = program.serve_http(&["--insecure-no-token"]).await;
    let http = Http::anonymous(&server);
    connect_and_close(&server, 1000).await;
    assert_eq!(http.get("/api/sessions").await.status, 200);
    server.connect().await.ok("session.list", json!({})).await;
}

#[tokio::test]
async fn flood_of_connections_does_not_stop_a_server_with_a_token() {
    let (program, _model) = scripted().await;
    let server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    connect_and_close(&server, 1000).await;
    assert_eq!(http.get("/api/sessions").await.status, 200);
    // Until the server has seen that they left, the flood's connections count as waiting for their token.
    let params = json!({"token": program.token()});
    let connect = frame(&json!({"jsonrpc": "2.0", "id": 1, "method": "connect", "params": params}));
    let admitted = async { while !first_words(&server, &connect).await.contains("protocolVersion") {} };
    tokio::time::timeout(LIMIT, admitted).await.expect("the owner is admitted");
}

/// Sends a call on a new connection; returns the first that the server says, or nothing if it closes the connection.
async fn first_words(server: &Running, call: &[u8]) -> String {
    let mut connection = server.dial().await;
    let mut said = vec![0; 4096];
    let count = match connection.write_all(call).await {
        Ok(()) => connection.read(&mut said).await.unwrap_or(0),
        Err(_) => 0,
    };
    String::from_utf8_lossy(&said[..count]).into_owned()
}

#[tokio::test]
async fn refused_users_connections_leave_room_for_the_owner() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    if !is_root() {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let script = format!(
        "for n in {{1..300}}; do exec {{fd}}<>/dev/tcp/127.0.0.1/{}; done; echo connected; read -r",
        server.port
    );
    let mut bash = tokio::process::Command::new("bash");
    bash.args(["-c", &script]).uid(NOBODY).gid(NOBODY).current_dir("/").kill_on_drop(true);
    let mut other = bash.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("bash runs");
    let mut line = [0; 9];
    let connected = other.stdout.as_mut().expect("a pipe").read_exact(&mut line);
    tokio::time::timeout(LIMIT, connected).await.unwrap().expect("the other user connects");
    server.connect().await.ok("session.list", json!({})).await;
}

#[tokio::test]
async fn without_a_token_only_the_own_user_is_served() {
    let (program, _model) = scripted().await;
    let server = program.serve().await;
    server.connect().await.ok("session.list", json!({})).await;
    if !is_root() {
        eprintln!("skipped the other user: only root can become one");
        return;
    }
    let call = frame(&json!({"jsonrpc": "2.0", "id": 1, "method": "session.list", "params": {}}));
    let heard = call_as_nobody(&server, &call);
    assert!(heard.contains("AUTHENTICATION_REQUIRED") && !heard.contains("sessions\""), "{heard}");
}

#[tokio::test]
async fn with_a_token_another_user_may_come() {
    let (program, _model) = scripted().await;
    let server = program.env(TOKEN, "secret").serve().await;
    if !is_root() {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let call = frame(&json!({"jsonrpc": "2.0", "id": 1, "method": "connect", "params": {"token": "secret"}}));
    let server = &server;
    let heard = call_as_nobody(server, &call);
    assert!(heard.contains("protocolVersion"), "{heard}");
}
