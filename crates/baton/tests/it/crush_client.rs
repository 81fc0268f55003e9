//! A client of crush's workspace API: it has a client id, sends requests on the socket file, and reads an event stream.

use std::path::PathBuf;

use baton_testkit::client::LIMIT;
use baton_testkit::model_server::ModelServer;
use baton_testkit::program::{Program, Running};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;

use crate::{eventually, scripted};

/// A server with a socket file, and a port for SDK clients.
pub(crate) struct CrushServer {
    pub(crate) program: Program,
    pub(crate) model: ModelServer,
    pub(crate) running: Running,
    config: &'static str,
}

impl CrushServer {
    pub(crate) async fn start() -> Self {
        Self::configured("").await
    }

    /// Starts with this configuration file.
    pub(crate) async fn configured(config: &'static str) -> Self {
        let (program, model) = scripted().await;
        let running = run(&program, config).await;
        Self { program, model, running, config }
    }

    /// Starts without a grace period after the last client has left.
    pub(crate) async fn without_grace() -> Self {
        Self::configured("[workspaces]\ndetach_grace_seconds = 0").await
    }

    /// Starts the server again after a kill.
    pub(crate) async fn restart(&mut self) {
        self.running = run(&self.program, self.config).await;
    }

    /// The bodies of all requests to the model, oldest first, without those for the list of models.
    pub(crate) fn model_requests(&self) -> Vec<Value> {
        self.model
            .requests()
            .into_iter()
            .filter(|request| request.method == "POST")
            .map(|request| request.body)
            .collect()
    }

    /// Waits until the first request to the model has ended.
    pub(crate) async fn first_model_request_ended(&self) {
        let at =
            self.model.requests().iter().position(|request| request.method == "POST").expect("a request");
        self.model.wait_for_end(at).await;
    }

    fn socket(&self) -> PathBuf {
        socket_of(&self.program)
    }

    pub(crate) async fn client(&self) -> Crush {
        Crush::new(self.socket(), uuid())
    }

    /// A client with a claim on the workspace of the directory, and its event stream.
    pub(crate) async fn attached(&self) -> (Crush, Stream) {
        let mut client = self.client().await;
        client.create(json!({})).await;
        let stream = client.stream().await;
        (client, stream)
    }
}

fn socket_of(program: &Program) -> PathBuf {
    program.home().join("b.sock")
}

async fn run(program: &Program, config: &str) -> Running {
    std::fs::create_dir_all(program.home()).unwrap();
    let file = program.home().join("config.toml");
    std::fs::write(&file, config).unwrap();
    let socket = socket_of(program);
    let (file, path) = (file.to_str().unwrap(), socket.to_str().unwrap());
    let arguments = [
        "serve",
        "--config",
        file,
        "--port",
        "0",
        "--socket",
        path,
        "--insecure-no-token",
        "--log-level",
        "info",
    ];
    let running = program.serve_with(&arguments).await;
    eventually("the socket", async || UnixStream::connect(&socket).await.ok().map(drop)).await;
    running
}

/// A random client id.
pub(crate) fn uuid() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap().trim().to_owned()
}

/// The status and the body of a response; null without a body.
pub(crate) type Response = (u16, Value);

/// A client.
#[derive(Clone)]
pub(crate) struct Crush {
    socket: PathBuf,
    pub(crate) id: String,
    /// Path of the workspace.
    pub(crate) workspace: String,
}

impl Crush {
    fn new(socket: PathBuf, id: String) -> Self {
        Self { socket, id, workspace: String::new() }
    }

    /// Claims the workspace of the program's working directory.
    pub(crate) async fn create(&mut self, extra: Value) -> Value {
        let work = self.socket.parent().unwrap().parent().unwrap().join("work").canonicalize().unwrap();
        let mut body = json!({"path": work, "client_id": self.id, "env": ["SECRET=not-to-be-seen"]});
        body.as_object_mut().unwrap().extend(extra.as_object().cloned().unwrap_or_default());
        let (status, made) = self.request("POST", "/v1/workspaces", Some(&body)).await;
        assert_eq!(status, 200, "{made}");
        self.workspace = format!("/v1/workspaces/{}", made["id"].as_str().unwrap());
        made
    }

    /// Sends a request and reads the response.
    pub(crate) async fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Response {
        Self::read(self.send(method, path, body).await).await
    }

    /// Sends a request with a content type, as clients of the session API do.
    pub(crate) async fn request_json(&self, method: &str, path: &str, body: &Value) -> Response {
        Self::read(self.send_with("Content-Type: application/json\r\n", method, path, Some(body)).await).await
    }

    async fn read(mut stream: UnixStream) -> Response {
        let mut answer = Vec::new();
        tokio::time::timeout(LIMIT, stream.read_to_end(&mut answer)).await.expect("an answer").unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    /// Sends a request without reading the response.
    pub(crate) async fn send(&self, method: &str, path: &str, body: Option<&Value>) -> UnixStream {
        // As crush does: with a made-up host name, and without a content type.
        self.send_with("", method, path, body).await
    }

    async fn send_with(&self, header: &str, method: &str, path: &str, body: Option<&Value>) -> UnixStream {
        let body = body.map(ToString::to_string).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: api.crush.localhost\r\nConnection: close\r\n{header}Content-Length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = UnixStream::connect(&self.socket).await.unwrap();
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        stream
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, answer) = self.request("GET", &format!("{}{path}", self.workspace), None).await;
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Response {
        self.request("POST", &format!("{}{path}", self.workspace), Some(&body)).await
    }

    pub(crate) async fn ok(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.post(path, body).await;
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
        answer
    }

    /// Creates a session.
    pub(crate) async fn session(&self) -> String {
        self.ok("/sessions", json!({"title": "New Session"})).await["id"].as_str().unwrap().to_owned()
    }

    /// Sends a prompt, and fails unless it is accepted.
    pub(crate) async fn prompt(&self, session: &str, text: &str, run: Option<&str>) {
        let mut body = json!({"session_id": session, "prompt": text});
        if let Some(run) = run {
            body["run_id"] = json!(run);
        }
        assert_eq!(self.post("/agent", body).await.0, 202, "{text}");
    }

    pub(crate) async fn cancel(&self, session: &str) {
        self.ok(&format!("/agent/sessions/{session}/cancel"), json!({})).await;
    }

    /// The messages of a session, each summarised by [`short`].
    pub(crate) async fn messages(&self, session: &str) -> Vec<String> {
        let messages = self.get(&format!("/sessions/{session}/messages")).await;
        messages.as_array().unwrap().iter().map(short).collect()
    }

    /// Opens the event stream.
    pub(crate) async fn stream(&self) -> Stream {
        self.try_stream().await.expect("the workspace is there")
    }

    /// Opens the event stream; none if the workspace is gone.
    pub(crate) async fn try_stream(&self) -> Option<Stream> {
        let path = format!("{}/events?client_id={}", self.workspace, self.id);
        let mut lines = BufReader::new(self.send("GET", &path, None).await).lines();
        let head = lines.next_line().await.unwrap().unwrap();
        if head.contains(" 404 ") {
            return None;
        }
        assert!(head.contains(" 200 "), "{head}");
        while let Some(header) = lines.next_line().await.unwrap().filter(|line| !line.is_empty()) {
            // Crush does not notice when a chunked stream breaks off, as after a kill of the server.
            assert!(!header.to_lowercase().contains("chunked"), "{header}");
        }
        Some(Stream { lines, seen: Vec::new() })
    }

    pub(crate) async fn retire(&self) {
        assert_eq!(self.request("DELETE", &format!("/v1/clients/{}", self.id), None).await.0, 200);
    }

    /// Waits until the workspace is gone.
    pub(crate) async fn until_gone(&self) {
        let gone = async || (self.request("GET", &self.workspace, None).await.0 == 404).then_some(());
        eventually("the end of the workspace", gone).await;
    }
}

/// An open event stream. Dropping it closes the connection.
pub(crate) struct Stream {
    lines: Lines<BufReader<UnixStream>>,
    pub(crate) seen: Vec<Value>,
}

impl Stream {
    /// Waits for the next event for which `pick` returns a value.
    pub(crate) async fn find<T>(&mut self, what: &str, pick: impl Fn(&str, &Value) -> Option<T>) -> T {
        let searching = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                let Some(data) = line.strip_prefix("data: ") else { continue };
                let event: Value = serde_json::from_str(data).unwrap();
                let (kind, object) =
                    (event["type"].as_str().unwrap().to_owned(), event["payload"]["payload"].clone());
                self.seen.push(event);
                if let Some(found) = pick(&kind, &object) {
                    return Some(found);
                }
            }
            None
        };
        let found = tokio::time::timeout(LIMIT, searching).await.unwrap_or(None);
        found.unwrap_or_else(|| panic!("no {what} among {:#?}", self.seen))
    }

    /// Waits for the next event of a type.
    pub(crate) async fn next(&mut self, kind: &str) -> Value {
        self.find(kind, |k, object| (k == kind).then(|| object.clone())).await
    }

    /// Waits for the completion of a run.
    pub(crate) async fn run_complete(&mut self, run: &str) -> Value {
        self.find(run, |kind, object| {
            (kind == "run_complete" && object["run_id"] == run).then(|| object.clone())
        })
        .await
    }

    /// Waits for the next message with this finish reason.
    pub(crate) async fn finished(&mut self, reason: &str) -> Value {
        self.find(reason, |kind, object| {
            (kind == "message" && finish(object) == reason).then(|| object.clone())
        })
        .await
    }

    /// The error events so far.
    pub(crate) fn errors(&self) -> Vec<&Value> {
        let is_error =
            |event: &&Value| event["type"] == "agent_event" && event["payload"]["payload"]["type"] == "error";
        self.seen.iter().filter(is_error).collect()
    }

    /// The number of events of a type so far.
    pub(crate) fn count(&self, kind: &str) -> usize {
        self.seen.iter().filter(|event| event["type"] == kind).count()
    }

    /// Waits for the end of the stream.
    pub(crate) async fn ended(&mut self) {
        let ending = async { while let Ok(Some(_)) = self.lines.next_line().await {} };
        tokio::time::timeout(LIMIT, ending).await.expect("the stream ends");
    }
}

/// The finish reason of an assistant message; empty while it is unfinished.
pub(crate) fn finish(message: &Value) -> &str {
    let parts = message["parts"].as_array().unwrap();
    let finish = parts.iter().find(|part| part["type"] == "finish");
    finish
        .filter(|_| message["role"] == "assistant")
        .and_then(|part| part["data"]["reason"].as_str())
        .unwrap_or("")
}

/// Summarises a message: role, text, finish reason, as in `assistant hi end_turn`.
pub(crate) fn short(message: &Value) -> String {
    let mut words = vec![message["role"].as_str().unwrap()];
    for part in message["parts"].as_array().unwrap() {
        let data = &part["data"];
        let word =
            ["text", "name", "content", "command", "reason"].iter().find_map(|name| data[*name].as_str());
        words.extend(word);
    }
    words.join(" ")
}
