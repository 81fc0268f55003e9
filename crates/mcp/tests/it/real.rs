//! Real servers from package registries, over every transport. `scripts/test mcp` installs them.

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_mcp::{Progress, ServerCall, ServerStatus, contents};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::support::{LIMIT, World, call};

const FASTMCP: &str = r#"
import sys
from fastmcp import FastMCP

server = FastMCP("calculator")

@server.tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b

@server.tool
def divide(a: int, b: int) -> float:
    """Divides two numbers."""
    return a / b

if sys.argv[1] == "stdio":
    server.run(show_banner=False)
else:
    server.run(transport=sys.argv[1], host="127.0.0.1", port=int(sys.argv[2]), show_banner=False)
"#;

fn everything() -> String {
    let modules = std::env::var("BATON_MCP_NODE").expect("the directory of node packages");
    format!("{modules}/@modelcontextprotocol/server-everything/dist/index.js")
}

fn python() -> String {
    std::env::var("BATON_MCP_PYTHON").expect("a Python with fastmcp")
}

/// A server that listens on a port, until it is dropped.
struct Listening(#[allow(dead_code, reason = "dropping it ends the server")] Child, u16);

/// Returns a free port that the system does not give to programs that listen on any: a test that runs at the same time would
/// get it before the server has started.
fn free_port() -> u16 {
    let mut numbers = std::iter::repeat_with(|| uuid::Uuid::new_v4().as_u64_pair().0 % 10_000);
    numbers
        .find_map(|number| {
            let port = 20_000 + u16::try_from(number).ok()?;
            std::net::TcpListener::bind(("127.0.0.1", port)).ok().map(|_| port)
        })
        .unwrap()
}

/// Starts a server that listens, and waits until its port is open.
async fn listening(program: &str, args: &[&str], port_in_environment: bool) -> Listening {
    let port = free_port();
    let mut command = Command::new(program);
    command.args(args).kill_on_drop(true).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    match port_in_environment {
        true => command.env("PORT", port.to_string()),
        false => command.arg(port.to_string()),
    };
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    let listening = async {
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            assert!(child.try_wait().unwrap().is_none(), "the server exited");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LIMIT, listening).await.expect("the server listens");
    Listening(child, port)
}

/// Uses the tools of `server-everything`.
async fn exercise(world: &World) {
    assert_eq!(world.started().await, ServerStatus::Connected, "{:?}", world.server().log().lines());
    let names: Vec<String> = world.host.offered().into_iter().map(|tool| tool.name).collect();
    assert!(names.contains(&"odd-echo".to_owned()), "{names:?}");
    let echoed = world.call("echo", json!({ "message": "hello" })).await.unwrap();
    assert!(contents(&echoed).text.contains("hello"), "{echoed}");
    let image = contents(&world.call("get-tiny-image", json!({})).await.unwrap());
    assert_eq!(image.images.len(), 1);
    let weather = json!({ "location": "New York" });
    let structured = contents(&world.call("get-structured-content", weather).await.unwrap());
    assert!(structured.structured.is_some(), "{structured:?}");
    let seen: Arc<Mutex<Vec<Option<f64>>>> = Arc::default();
    let note = seen.clone();
    let long = ServerCall {
        progress: Arc::new(move |progress: Progress| note.lock().unwrap().push(progress.total)),
        ..call("trigger-long-running-operation", json!({ "duration": 1, "steps": 2 }))
    };
    world.server().call(long).await.unwrap();
    assert!(seen.lock().unwrap().contains(&Some(2.0)), "{seen:?}");
    let resources = world.server().request("resources/list", json!({})).await.unwrap();
    assert!(resources["resources"].as_array().is_some_and(|list| !list.is_empty()));
    world.host.close().await;
    assert_eq!(world.ledger.running(), []);
}

#[tokio::test]
#[ignore = "needs servers from registries: scripts/test mcp"]
async fn everything_over_stdio() {
    exercise(&World::with(json!({ "command": "node", "args": [everything(), "stdio"] }))).await;
}

#[tokio::test]
#[ignore = "needs servers from registries: scripts/test mcp"]
async fn everything_over_streamable_http() {
    let server = listening("node", &[&everything(), "streamableHttp"], true).await;
    exercise(&World::with(json!({ "type": "http", "url": format!("http://127.0.0.1:{}/mcp", server.1) })))
        .await;
}

#[tokio::test]
#[ignore = "needs servers from registries: scripts/test mcp"]
async fn everything_over_sse() {
    let server = listening("node", &[&everything(), "sse"], true).await;
    exercise(&World::with(json!({ "type": "sse", "url": format!("http://127.0.0.1:{}/sse", server.1) })))
        .await;
}

async fn calculate(world: &World) {
    assert_eq!(world.started().await, ServerStatus::Connected, "{:?}", world.server().log().lines());
    let sum = world.call("add", json!({ "a": 2, "b": 3 })).await.unwrap();
    assert_eq!(contents(&sum).structured, Some(json!({ "result": 5 })));
    let failed: Value = world.call("divide", json!({ "a": 1, "b": 0 })).await.unwrap();
    assert!(contents(&failed).is_error, "{failed}");
    world.host.close().await;
}

#[tokio::test]
#[ignore = "needs servers from registries: scripts/test mcp"]
async fn fastmcp_over_stdio() {
    calculate(&World::with(json!({ "command": python(), "args": ["-c", FASTMCP, "stdio"] }))).await;
}

#[tokio::test]
#[ignore = "needs servers from registries: scripts/test mcp"]
async fn fastmcp_over_streamable_http() {
    let server = listening(&python(), &["-c", FASTMCP, "http"], false).await;
    calculate(&World::with(json!({ "url": format!("http://127.0.0.1:{}/mcp", server.1) }))).await;
}

#[tokio::test]
#[ignore = "needs servers from registries: scripts/test mcp"]
async fn http_server_that_vanishes_fails_the_call() {
    let server = listening(&python(), &["-c", FASTMCP, "http"], false).await;
    let world = World::with(json!({ "url": format!("http://127.0.0.1:{}/mcp", server.1) }));
    assert_eq!(world.started().await, ServerStatus::Connected);
    drop(server);
    world.call("add", json!({ "a": 2, "b": 3 })).await.unwrap_err();
    world.host.close().await;
}
