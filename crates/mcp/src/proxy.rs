//! A server of our own: offers the tools of a session to a program that speaks MCP, such as an engine.
//!
//! It speaks lines of JSON-RPC on a stream, and knows tools only. What a call does, and whether it may, is up to the
//! [`Toolset`]: nothing here decides. The program is as much a stranger as a server is: messages and parallel calls are
//! bounded, and a message that makes no sense is refused or ignored.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use crate::Working;
use crate::wire::lines::{LONGEST, OutputLine, OutputLines};

/// Calls that may run at the same time.
const MAX_CALLS: usize = 32;
/// Versions of the protocol that are spoken, the newest first. Tools are the same in all of them.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
const PARSE_ERROR: i64 = -32700;
const UNKNOWN_METHOD: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const BUSY: i64 = -32000;

/// The tools that are offered.
pub trait Toolset: Send + Sync + 'static {
    /// Lists the tools, as entries of `tools/list`.
    fn list(&self) -> Vec<Value>;

    /// Calls a tool. Returns its result, as that of `tools/call`. Dropped if the program cancels the call or disconnects.
    fn call(&self, name: String, arguments: Map<String, Value>) -> Working<'_, Value>;
}

/// Serves a program until it disconnects. Its calls end with it.
pub async fn serve<R, W>(read: R, write: W, tools: Arc<dyn Toolset>)
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
{
    let (sender, outgoing) = mpsc::channel(MAX_CALLS);
    let mut connection = Connection { tools, sender, calls: JoinSet::new(), running: HashMap::new() };
    tokio::select! {
        () = connection.read(OutputLines::new(read, LONGEST)) => {}
        () = send_all(write, outgoing) => {}
    }
}

async fn send_all<W: AsyncWrite + Unpin>(mut write: W, mut outgoing: mpsc::Receiver<Value>) {
    while let Some(message) = outgoing.recv().await {
        let mut line = message.to_string();
        line.push('\n');
        if write.write_all(line.as_bytes()).await.is_err() || write.flush().await.is_err() {
            return;
        }
    }
}

struct Connection {
    tools: Arc<dyn Toolset>,
    sender: mpsc::Sender<Value>,
    /// Calls, which return the id of their request.
    calls: JoinSet<String>,
    running: HashMap<String, AbortHandle>,
}

impl Connection {
    async fn read<R: AsyncRead + Unpin>(&mut self, mut lines: OutputLines<R>) {
        loop {
            let line = tokio::select! {
                line = lines.next() => line,
                Some(done) = self.calls.join_next() => {
                    if let Ok(id) = done {
                        self.running.remove(&id);
                    }
                    continue;
                }
            };
            match line {
                None => return,
                Some(OutputLine::TooLong) => {
                    self.refuse(&Value::Null, PARSE_ERROR, "the message is too long").await;
                }
                Some(OutputLine::Text(text)) => match baton_json::from_slice::<Value>(&text) {
                    Ok(message) => self.receive(message).await,
                    Err(_) => self.refuse(&Value::Null, PARSE_ERROR, "not JSON").await,
                },
            }
        }
    }

    async fn receive(&mut self, mut message: Value) {
        let Some(method) = message["method"].as_str().map(str::to_owned) else { return };
        let params = message["params"].take();
        let id = message["id"].take();
        if id.is_null() {
            if method == "notifications/cancelled"
                && let Some(call) = self.running.remove(&params["requestId"].to_string())
            {
                call.abort();
            }
            return;
        }
        match method.as_str() {
            "initialize" => self.answer(&id, greeting(&params)).await,
            "ping" => self.answer(&id, json!({})).await,
            "tools/list" => self.answer(&id, json!({ "tools": self.tools.list() })).await,
            "tools/call" => self.call(id, params).await,
            _ => self.refuse(&id, UNKNOWN_METHOD, "only tools are offered").await,
        }
    }

    async fn call(&mut self, id: Value, mut params: Value) {
        let Some(name) = params["name"].as_str().map(str::to_owned) else {
            return self.refuse(&id, INVALID_PARAMS, "`name` is missing").await;
        };
        let arguments = match params["arguments"].take() {
            Value::Object(arguments) => arguments,
            Value::Null => Map::new(),
            _ => return self.refuse(&id, INVALID_PARAMS, "`arguments` is not an object").await,
        };
        let key = id.to_string();
        if self.running.len() >= MAX_CALLS || self.running.contains_key(&key) {
            return self.refuse(&id, BUSY, "too many calls, or an id that is in use").await;
        }
        let (tools, sender, done) = (self.tools.clone(), self.sender.clone(), key.clone());
        let call = self.calls.spawn(async move {
            let result = tools.call(name, arguments).await;
            // The program has gone away.
            drop(sender.send(json!({ "jsonrpc": "2.0", "id": id, "result": result })).await);
            done
        });
        self.running.insert(key, call);
    }

    async fn answer(&self, id: &Value, result: Value) {
        // The writer ends the connection when it fails.
        drop(self.sender.send(json!({ "jsonrpc": "2.0", "id": id, "result": result })).await);
    }

    async fn refuse(&self, id: &Value, code: i64, message: &str) {
        let error = json!({ "code": code, "message": message });
        drop(self.sender.send(json!({ "jsonrpc": "2.0", "id": id, "error": error })).await);
    }
}

/// Answers `initialize`, in the version of the program if it is known.
fn greeting(params: &Value) -> Value {
    let wanted = params["protocolVersion"].as_str();
    let version = VERSIONS.into_iter().find(|known| Some(*known) == wanted).unwrap_or(VERSIONS[0]);
    json!({
        "protocolVersion": version,
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "baton", "title": "Baton", "version": env!("CARGO_PKG_VERSION") },
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use tokio::io::{AsyncBufReadExt, BufReader, DuplexStream};

    use super::*;
    use crate::lock;

    /// What happened to a call that never returns.
    #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
    enum Hanging {
        #[default]
        Unknown,
        Called,
        Dropped,
    }

    /// Echoes its arguments; `hang` never returns.
    #[derive(Default)]
    struct Echo {
        hanging: Arc<Mutex<Hanging>>,
    }

    struct Told(Arc<Mutex<Hanging>>);

    impl Drop for Told {
        fn drop(&mut self) {
            *lock(&self.0) = Hanging::Dropped;
        }
    }

    impl Toolset for Echo {
        fn list(&self) -> Vec<Value> {
            vec![json!({ "name": "echo", "inputSchema": { "type": "object" } })]
        }

        fn call(&self, name: String, arguments: Map<String, Value>) -> Working<'_, Value> {
            Box::pin(async move {
                if name == "hang" {
                    *lock(&self.hanging) = Hanging::Called;
                    let _told = Told(self.hanging.clone());
                    std::future::pending::<()>().await;
                }
                json!({ "content": arguments })
            })
        }
    }

    struct Program {
        stream: BufReader<DuplexStream>,
        hanging: Arc<Mutex<Hanging>>,
    }

    impl Program {
        fn start() -> Self {
            let (ours, theirs) = tokio::io::duplex(1 << 16);
            let echo = Echo::default();
            let hanging = echo.hanging.clone();
            let (read, write) = tokio::io::split(theirs);
            tokio::spawn(serve(read, write, Arc::new(echo)));
            Self { stream: BufReader::new(ours), hanging }
        }

        async fn send(&mut self, line: &str) {
            self.stream.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        }

        async fn until(&self, state: Hanging) {
            while *lock(&self.hanging) != state {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }

        async fn next(&mut self) -> Value {
            let mut line = String::new();
            self.stream.read_line(&mut line).await.unwrap();
            baton_json::from_str(&line).unwrap()
        }
    }

    #[tokio::test]
    async fn tools_are_listed_and_called() {
        let mut program = Program::start();
        program
            .send(
                r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05"}}"#,
            )
            .await;
        assert_eq!(program.next().await["result"]["protocolVersion"], "2024-11-05");
        program.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        program.send(r#"{"jsonrpc":"2.0","id":"a","method":"tools/list"}"#).await;
        assert_eq!(program.next().await["result"]["tools"][0]["name"], "echo");
        program.send(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"x":1}}}"#).await;
        assert_eq!(
            program.next().await,
            json!({ "jsonrpc": "2.0", "id": 2, "result": { "content": { "x": 1 } } })
        );
    }

    #[tokio::test]
    async fn cancelled_call_is_dropped_and_has_no_answer() {
        let mut program = Program::start();
        program.send(r#"{"id":1,"method":"tools/call","params":{"name":"hang"}}"#).await;
        program.until(Hanging::Called).await;
        program.send(r#"{"method":"notifications/cancelled","params":{"requestId":1}}"#).await;
        program.send(r#"{"id":2,"method":"ping"}"#).await;
        assert_eq!(program.next().await["id"], 2);
        program.until(Hanging::Dropped).await;
    }

    #[tokio::test]
    async fn nonsense_is_refused_and_the_connection_stays() {
        let mut program = Program::start();
        for (line, code) in [
            ("nonsense", PARSE_ERROR),
            (r#"{"id":1,"method":"resources/list"}"#, UNKNOWN_METHOD),
            (r#"{"id":1,"method":"tools/call","params":{}}"#, INVALID_PARAMS),
            (r#"{"id":1,"method":"tools/call","params":{"name":"echo","arguments":[]}}"#, INVALID_PARAMS),
        ] {
            program.send(line).await;
            assert_eq!(program.next().await["error"]["code"], code, "{line}");
        }
        program.send(r#"{"id":1,"result":{}}"#).await;
        for id in 0..=MAX_CALLS {
            program.send(&format!(r#"{{"id":{id},"method":"tools/call","params":{{"name":"hang"}}}}"#)).await;
        }
        assert_eq!(program.next().await["error"]["code"], BUSY, "one call too many");
    }
}
