//! 15 MB of JSON from outside, in every place where a stranger can put it: the memory of the program stays in proportion.

use baton_testkit::client::frame_of;
use baton_testkit::http::Http;
use baton_testkit::model_server::{ReplyAction, ScriptedReply};
use baton_testkit::program::{Program, Running};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::{baton, eventually, scripted};

const SIZE: usize = 15_000_000;
/// How much more memory a message of that size may take.
const MORE: u64 = 150_000_000;
/// How much of it a server may keep: two copies, such as the buffer of a connection and an event of the session.
const KEPT: u64 = 2 * SIZE as u64;

/// Two texts of that size: one with far too many values, one with nearly as many as are accepted.
fn bulks() -> [String; 2] {
    let deep = "[".repeat(90) + &"]".repeat(90) + ",";
    let deep = format!("[{}0]", deep.repeat(SIZE / deep.len()));
    let dense = format!(r#"[{}"{}"]"#, "[],".repeat(45_000), "x".repeat(SIZE - 135_000));
    [deep, dense]
}

/// Measures the memory that a server takes more than at the beginning.
struct Watched<'a> {
    server: &'a Running,
    before: u64,
}

impl<'a> Watched<'a> {
    fn new(server: &'a Running) -> Self {
        Self { server, before: server.memory() }
    }

    /// Checks the peak, and waits until the memory has been given back.
    async fn check(&self, place: &str) {
        let peak = self.server.peak_memory().saturating_sub(self.before);
        assert!(peak < MORE, "{place}: {} MB more", peak / 1_000_000);
        assert!(peak > SIZE as u64 / 2, "{place}: the message has not arrived");
        eventually(&format!("memory to be given back after {place}"), async || {
            (self.server.memory() < self.before + KEPT).then_some(())
        })
        .await;
    }
}

fn configure(program: &Program, place: &str, shape: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/bulky_server.py");
    let bulky = json!({ "command": "python3", "args": [script, place, shape] });
    std::fs::create_dir_all(program.home()).unwrap();
    let file = json!({ "mcpServers": { "bulky": bulky } });
    std::fs::write(program.home().join("mcp-config.json"), file.to_string()).unwrap();
}

#[tokio::test]
async fn messages_of_mcp_servers_take_memory_in_proportion() {
    for place in ["initialize", "notification", "result", "sampling"] {
        for shape in ["deep", "dense"] {
            let (program, _model) = scripted().await;
            configure(&program, place, shape);
            let server = program.serve_http(&[]).await;
            let watched = Watched::new(&server);
            let http = Http::new(&program, &server);
            http.create("s", json!({ "questions": true, "allowAllTools": true })).await;
            let prompt = http.prompt("s", "[[tool:bulky-bulk {}]]").await;
            if (place, shape) == ("sampling", "deep") {
                // A request that cannot be read has no answer, and the call waits for its server.
                eventually("the request", async || {
                    (server.peak_memory() > watched.before + SIZE as u64).then_some(())
                })
                .await;
            } else {
                assert_eq!(http.outcome("s", &prompt).await, "completed", "{place} {shape}");
            }
            watched.check(&format!("{place} {shape}")).await;
        }
    }
}

#[tokio::test]
async fn answers_of_providers_take_memory_in_proportion() {
    for bulk in bulks() {
        let usage = format!(r#"{{"choices":[],"usage":{bulk}}}"#);
        let error = format!(r#"{{"error":{bulk}}}"#);
        let content = format!(r#"{{"choices":[{{"index":0,"delta":{{"content":{bulk}}}}}]}}"#);
        for (place, data) in [("usage", usage), ("an error", error), ("content", content)] {
            let streamed = ScriptedReply::raw("text/event-stream", [format!("data: {data}\n\n")]);
            let failed = ScriptedReply { status: 400, ..ScriptedReply::raw("application/json", [data]) };
            answer_takes_little(place, [streamed, failed]).await;
        }
        let call = ReplyAction::Call { name: "view".into(), arguments: bulk };
        answer_takes_little("arguments of a tool", [ScriptedReply::new([call])]).await;
    }
}

async fn answer_takes_little(place: &str, replies: impl IntoIterator<Item = ScriptedReply>) {
    let (program, model) = scripted().await;
    let server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    http.create("s", json!({})).await;
    let watched = Watched::new(&server);
    for reply in replies {
        model.push(reply);
        let prompt = http.prompt("s", "hello").await;
        let _ = http.outcome("s", &prompt).await;
    }
    watched.check(place).await;
}

/// At 128 levels, the reader of arguments and that of events once disagreed, and the session ended in a panic.
#[tokio::test]
async fn deeply_nested_arguments_fail_only_their_call() {
    let (program, model) = scripted().await;
    let server = program.serve_http(&[]).await;
    let http = Http::new(&program, &server);
    http.create("s", json!({ "allowAllTools": true })).await;
    for depth in [100, 101, 126, 127, 128, 129] {
        let arguments = format!(r#"{{"path":{}{}}}"#, "[".repeat(depth - 1), "]".repeat(depth - 1));
        model.push(ScriptedReply::new([ReplyAction::Call { name: "view".into(), arguments }]));
        let prompt = http.prompt("s", "hello").await;
        assert_eq!(http.outcome("s", &prompt).await, "completed", "{depth}");
    }
}

/// Answers every HTTP request with a body.
async fn answering(body: String) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let _ = connection.read(&mut [0; 4096]).await;
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            let _ = connection.write_all(head.as_bytes()).await;
            let _ = connection.write_all(body.as_bytes()).await;
        }
    });
    address
}

#[tokio::test]
async fn lists_of_models_take_memory_in_proportion() {
    for bulk in bulks() {
        let address = answering(format!(r#"{{"data":{bulk}}}"#)).await;
        let program =
            baton().env("OPENAI_BASE_URL", format!("http://{address}/v1")).env("OPENAI_API_KEY", "sk-test");
        let server = program.serve_http(&[]).await;
        let http = Http::new(&program, &server);
        let watched = Watched::new(&server);
        let _ = http.get("/api/models").await;
        watched.check("a list of models").await;
    }
}

#[tokio::test]
async fn messages_of_clients_take_memory_in_proportion() {
    for bulk in bulks() {
        let (program, _model) = scripted().await;
        let server = program.serve_http(&[]).await;
        let http = Http::new(&program, &server);
        let watched = Watched::new(&server);
        let body = format!(r#"{{"id":"s","provider":{bulk}}}"#);
        let length = body.len().to_string();
        let headers =
            [("content-type", "application/json"), ("content-length", &length), ("connection", "close")];
        let head = http.head("POST", "/api/sessions", &headers);
        let refused = http.exchange(format!("{head}\r\n{body}").as_bytes()).await;
        assert!(matches!(refused.status, 413 | 422), "{refused:?}");
        watched.check("a body").await;
    }
    for bulk in bulks() {
        let (program, _model) = scripted().await;
        let server = program.serve().await;
        let client = server.connect().await;
        let watched = Watched::new(&server);
        let message =
            format!(r#"{{"jsonrpc":"2.0","method":"session.create","params":{{"tools":{bulk}}},"id":"b"}}"#);
        client.send_bytes(&frame_of(message.as_bytes())).await.unwrap();
        let answer = client.answer_to(&json!("b")).await;
        assert!(answer.is_err(), "{answer:?}");
        watched.check("a frame").await;
    }
}
