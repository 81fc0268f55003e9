//! Helpers of the tests: the programs under test, and functions that wait for events instead of sleeping.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use github_copilot_sdk::handler::ApproveAllHandler;
use github_copilot_sdk::session::Session;
use github_copilot_sdk::tool::ToolHandler;
use github_copilot_sdk::{
    Client, Error, EventSubscription, MessageOptions, ResumeSessionConfig, SessionConfig, SessionEvent,
    SessionId, Tool, ToolInvocation, ToolResult,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// How long to wait for an event. Only failing tests wait that long.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The private environment of one test.
pub struct World {
    directory: TempDir,
    model: Child,
    model_address: String,
}

/// A server and the SDK's client, connected by pipes.
pub struct PipedServer {
    pub client: Client,
    pub server: Child,
}

/// A server on a port.
pub struct TcpServer {
    pub server: Child,
    port: u16,
    directory: PathBuf,
}

impl TcpServer {
    /// Connects a client with a token.
    pub async fn client(&self, token: &str) -> Result<Client, Error> {
        let (reader, writer) = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap().into_split();
        let token = Some(token.to_owned());
        let client =
            Client::from_streams_with_connection_token(reader, writer, self.directory.clone(), token)
                .unwrap();
        client.verify_protocol_version().await.map(|()| client)
    }
}

impl World {
    pub async fn open() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("work")).unwrap();
        let mut model = Command::new(program("baton-scripted-model"))
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let model_address = first_line(&mut model).await.split_whitespace().last().unwrap().to_owned();
        Self { directory, model, model_address }
    }

    pub fn work(&self) -> PathBuf {
        self.directory.path().join("work").canonicalize().unwrap()
    }

    fn baton(&self) -> Command {
        let mut command = Command::new(program("baton"));
        command
            .args(["--server", "--no-auto-update", "--log-level", "info"])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("COPILOT_HOME", self.directory.path().join("home"))
            .env("COPILOT_API_URL", format!("http://{}", self.model_address))
            .current_dir(self.work())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Starts a server on a port that requires a token.
    pub async fn listen(&self, token: &str) -> TcpServer {
        let mut server =
            self.baton().env("COPILOT_CONNECTION_TOKEN", token).stdin(Stdio::null()).spawn().unwrap();
        let port = first_line(&mut server).await.split_whitespace().last().unwrap().parse().unwrap();
        TcpServer { server, port, directory: self.work() }
    }

    /// Starts a server and connects a client through pipes.
    pub async fn serve(&self) -> PipedServer {
        let mut server = self.baton().arg("--stdio").stdin(Stdio::piped()).spawn().unwrap();
        let (reader, writer) = (server.stdout.take().unwrap(), server.stdin.take().unwrap());
        let client = Client::from_streams(reader, writer, self.work()).unwrap();
        client.verify_protocol_version().await.unwrap();
        PipedServer { client, server }
    }

    /// Returns the bodies of all chat requests so far.
    pub async fn requests(&self) -> Vec<Value> {
        let mut stream = TcpStream::connect(&self.model_address).await.unwrap();
        stream.write_all(b"GET /_requests HTTP/1.1\r\nHost: model\r\n\r\n").await.unwrap();
        let mut response = Vec::new();
        while !response.ends_with(b"0\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut response).await.unwrap(), 0, "the model closed the connection");
        }
        let response = String::from_utf8(response).unwrap();
        // The body is one chunk: its length on one line, its content on the next.
        let body = response.split("\r\n").skip_while(|line| !line.is_empty()).nth(2).unwrap();
        let all: Vec<Value> = serde_json::from_str(body).unwrap();
        let is_chat = |request: &&Value| request["path"].as_str().unwrap().ends_with("/chat/completions");
        all.iter().filter(is_chat).map(|request| request["body"].clone()).collect()
    }

    /// Returns the tool results in the last model request.
    pub async fn tool_results(&self) -> Vec<String> {
        let requests = self.requests().await;
        let messages = requests.last().unwrap()["messages"].as_array().unwrap();
        let results = messages.iter().filter(|message| message["role"] == "tool");
        results.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.model.start_kill();
    }
}

/// Reads the first line of a program, which has its address.
async fn first_line(program: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
    line
}

/// Returns a program that `scripts/test` has built.
fn program(name: &str) -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/debug");
    std::env::var_os("BATON_BIN_DIR").map_or(built, PathBuf::from).join(name)
}

/// Settings of a session that approves everything.
pub fn config() -> SessionConfig {
    SessionConfig::default().with_permission_handler(Arc::new(ApproveAllHandler))
}

pub fn resume(id: &SessionId) -> ResumeSessionConfig {
    ResumeSessionConfig::new(id.clone()).with_permission_handler(Arc::new(ApproveAllHandler))
}

/// Sends a prompt, waits for the end of its turn, and returns the assistant's last message.
pub async fn ask(session: &Session, prompt: &str) -> String {
    let reply = session.send_and_wait(MessageOptions::new(prompt).with_wait_timeout(TIMEOUT)).await.unwrap();
    reply.unwrap().data["content"].as_str().unwrap().to_owned()
}

/// Waits for the first event of a type, and returns all events up to it.
pub async fn until(events: &mut EventSubscription, kind: &str) -> Vec<SessionEvent> {
    let mut seen = Vec::new();
    let wait = async {
        while seen.last().is_none_or(|event: &SessionEvent| event.event_type != kind) {
            seen.push(events.recv().await.unwrap());
        }
    };
    let waited = tokio::time::timeout(TIMEOUT, wait).await;
    let types: Vec<&String> = seen.iter().map(|event| &event.event_type).collect();
    assert!(waited.is_ok(), "timed out waiting for {kind}; saw {types:?}");
    seen
}

/// Returns the data of all events of a type.
pub fn of<'a>(events: &'a [SessionEvent], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event.event_type == kind).map(|event| &event.data).collect()
}

/// Returns the directive that makes the model call a tool.
pub fn call(name: &str, arguments: Value) -> String {
    format!("[[tool:{name} {arguments}]]")
}

/// A client tool that returns its argument.
pub struct Lookup;

#[async_trait]
impl ToolHandler for Lookup {
    async fn call(&self, invocation: ToolInvocation) -> Result<ToolResult, Error> {
        Ok(ToolResult::Text(format!("found {}", invocation.arguments["value"].as_str().unwrap_or("nothing"))))
    }
}

/// The declaration of the tool, without a handler.
pub fn lookup() -> Tool {
    Tool::new("lookup").with_description("Looks something up").with_parameters(json!({
        "type": "object", "properties": { "value": { "type": "string" } }
    }))
}
