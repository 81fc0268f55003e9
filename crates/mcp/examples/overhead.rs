//! Measures what Baton adds to a call of a stdio server: the same call written to the pipes of a process by hand and made
//! through [`Host`], alternating, each with a process of its own. Prints both medians in microseconds. Started by
//! `bench/run mcp`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement that cannot continue fails")]

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_mcp::{
    Declared, Host, HostOptions, Http, HttpError, HttpRequest, HttpResponse, McpClient, Notice, Origin,
    Server, ServerCall, Working, merge,
};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};
use tokio_util::task::TaskTracker;

const WARM_UP: usize = 200;
const CALLS: usize = 3000;

struct Nobody;

impl McpClient for Nobody {
    fn place(&self) -> baton_mcp::Working<'_, Result<baton_sandbox::Place, String>> {
        Box::pin(async { Ok(baton_sandbox::Place::Outside) })
    }

    fn notice(&self, _: &str, _: Notice) {}
}

impl Http for Nobody {
    fn send(&self, _: HttpRequest) -> Working<'_, Result<HttpResponse, HttpError>> {
        Box::pin(async { Err(HttpError("nobody".into())) })
    }
}

/// The least that a client does: writes a request and parses the next line.
struct Bare(ChildStdin, Lines<BufReader<ChildStdout>>);

impl Bare {
    async fn request(&mut self, id: usize, method: &str, params: Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.0.write_all(format!("{request}\n").as_bytes()).await.unwrap();
        serde_json::from_str(&self.1.next_line().await.unwrap().unwrap()).unwrap()
    }
}

#[tokio::main]
async fn main() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/odd_server.py");
    let mut command = tokio::process::Command::new("python3");
    command.args([script, "well"]).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut bare = Bare(child.stdin.take().unwrap(), output);
    bare.request(0, "initialize", json!({ "protocolVersion": "2025-11-25" })).await;

    let options = HostOptions {
        client: Arc::new(Nobody),
        http: Arc::new(Nobody),
        ledger: Default::default(),
        tasks: TaskTracker::new(),
        environment: vec![("PATH".into(), std::env::var_os("PATH").unwrap())],
        cwd: std::env::temp_dir(),
        session: "bench".into(),
        pool: Arc::default(),
        tag: "bench/".into(),
    };
    let config = json!({ "command": "python3", "args": [script, "well"] });
    let servers = merge([Declared::parse("odd", &config, Origin::Session)]);
    let host = Host::new(options, servers, BTreeSet::new());
    let server = host.server("odd").unwrap();

    let (mut alone, mut through) = (Vec::new(), Vec::new());
    for round in 0..WARM_UP + CALLS {
        let arguments = Map::from_iter([("text".to_owned(), json!("hello"))]);
        let begun = Instant::now();
        bare.request(round + 1, "tools/call", json!({ "name": "echo", "arguments": arguments })).await;
        let first = begun.elapsed();
        let begun = Instant::now();
        let call = ServerCall {
            tool: "echo".into(),
            approved: None,
            arguments,
            meta: None,
            patience: Server::patience(),
            cancel: Default::default(),
            progress: Arc::new(|_| {}),
        };
        server.call(call).await.unwrap();
        if round >= WARM_UP {
            alone.push(first);
            through.push(begun.elapsed());
        }
    }
    println!("{{\"bare\": {}, \"baton\": {}}}", median(&mut alone), median(&mut through));
    host.close().await;
}

fn median(samples: &mut [Duration]) -> u128 {
    samples.sort();
    samples[samples.len() / 2].as_micros()
}
