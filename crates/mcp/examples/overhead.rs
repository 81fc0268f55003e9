//! Measures what Baton adds to a call of a stdio server: the same call through a bare `rmcp` client and through [`Host`],
//! alternating, each with a process of its own. Prints both medians in microseconds. Started by `bench/run mcp`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement that cannot continue fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_mcp::{
    AuthReason, Call, Challenge, Client, Host, HostOptions, Http, HttpError, Notice, Protected, Question,
    Request, Response, Server, ServerConfig, Working,
};
use rmcp::model::CallToolRequestParams;
use rmcp::serve_client;
use serde_json::{Map, Value, json};

const WARM_UP: usize = 200;
const CALLS: usize = 3000;

struct Nobody;

impl Client for Nobody {
    fn notice(&self, _: &str, _: Notice) {}

    fn answer(&self, _: &str, _: Question) -> Working<'_, Result<Value, String>> {
        Box::pin(async { Err("nobody".into()) })
    }

    fn token(&self, _: &Protected) -> Working<'_, Option<String>> {
        Box::pin(async { None })
    }

    fn renew(&self, _: &Protected, _: &Challenge, _: AuthReason) -> Working<'_, Option<String>> {
        Box::pin(async { None })
    }

    fn authorize(&self, _: &Protected, _: Challenge, _: AuthReason) -> Working<'_, Option<String>> {
        Box::pin(async { None })
    }

    fn samples(&self) -> bool {
        false
    }

    fn elicits(&self) -> bool {
        false
    }
}

impl Http for Nobody {
    fn send(&self, _: Request) -> Working<'_, Result<Response, HttpError>> {
        Box::pin(async { Err(HttpError("nobody".into())) })
    }
}

#[tokio::main]
async fn main() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/odd_server.py");
    let mut command = tokio::process::Command::new("python3");
    command.args([script, "well"]).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let pipes = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
    let bare = serve_client((), pipes).await.unwrap();

    let options = HostOptions {
        client: Arc::new(Nobody),
        http: Arc::new(Nobody),
        ledger: Default::default(),
        environment: vec![("PATH".into(), std::env::var_os("PATH").unwrap())],
        cwd: std::env::temp_dir(),
        session: "bench".into(),
        pool: Arc::default(),
        tag: "bench/".into(),
    };
    let config = ServerConfig::parse("odd", &json!({ "command": "python3", "args": [script, "well"] }));
    let host = Host::new(options, BTreeMap::from([("odd".to_owned(), config)]), BTreeSet::new());
    let server = host.server("odd").unwrap();

    let (mut alone, mut through) = (Vec::new(), Vec::new());
    for round in 0..WARM_UP + CALLS {
        let arguments = Map::from_iter([("text".to_owned(), json!("hello"))]);
        let begun = Instant::now();
        let params = CallToolRequestParams::new("echo").with_arguments(arguments.clone());
        bare.call_tool(params).await.unwrap();
        let first = begun.elapsed();
        let begun = Instant::now();
        let call = Call {
            tool: "echo".into(),
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
