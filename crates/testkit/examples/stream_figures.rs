//! Measures the latency that Baton adds to a streamed answer: `stream_figures BATON`. Started by `bench/run
//! stream`.
//!
//! The model is a server in a thread of this program. Each delta of its answer is the time at which it was
//! written, in nanoseconds, so that a reader can compute its latency. Prints one line of JSON for each part.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a measuring tool prints, and panics on errors"
)]

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

use baton_testkit::figures::{find, percentile};
use baton_testkit::program::{Program, Running};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Length of the long answer, and of the answers whose deltas are timed.
const LONG: usize = 2000;
const TIMED: usize = 200;
/// Number of timed answers. A shared machine stalls now and then; the median answer counts.
const ANSWERS: usize = 5;
const ROUNDS: usize = 9;
const CLIENTS: [usize; 2] = [1, 50];

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let program = std::env::args().nth(1).expect("the program to be measured");
    // A thousand tokens a second is more than models produce; all at once is what a cache in front of one may
    // do.
    for pause in [Duration::from_millis(1), Duration::ZERO] {
        overhead(&program, pause).await;
    }
    for clients in CLIENTS {
        delivery(&program, clients).await;
    }
}

/// The same stream, read by curl and by a client of Baton, alternating.
async fn overhead(executable: &str, pause: Duration) {
    let model = serve_model(LONG, pause);
    let (_program, server) = start(executable, model).await;
    let mut client = Reader::join(&server, "s", true).await;
    let (mut alone, mut through) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let start = Instant::now();
        curl(model).await;
        let between = Instant::now();
        client.prompt("s").await;
        let ages = client.until_idle().await;
        assert_eq!(ages.len(), LONG, "pieces of the answer");
        // The first round is a warm-up.
        if round > 0 {
            alone.push((between - start).as_secs_f64() * 1000.0);
            through.push(between.elapsed().as_secs_f64() * 1000.0);
        }
    }
    let (alone, through) = (percentile(&mut alone, 50.0), percentile(&mut through, 50.0));
    println!(
        "{}",
        json!({
            "part": "overhead", "pieces": LONG, "pause_ms": pause.as_millis(), "curl_ms": alone, "baton_ms": through,
            "ratio": through / alone,
        })
    );
}

/// Latency of a delta from the model to each of this many clients.
async fn delivery(executable: &str, clients: usize) {
    let model = serve_model(TIMED, Duration::from_millis(10));
    let (_program, server) = start(executable, model).await;
    let mut first = Reader::join(&server, "s", true).await;
    let mut others = Vec::new();
    for _ in 1..clients {
        others.push(Reader::join(&server, "s", false).await);
    }
    let (mut p50, mut p99) = (Vec::new(), Vec::new());
    for _ in 0..ANSWERS {
        let mut readers = JoinSet::new();
        for mut reader in others.drain(..) {
            readers.spawn(async move { (reader.until_idle().await, reader) });
        }
        first.prompt("s").await;
        let mut ages = first.until_idle().await;
        for (of_reader, reader) in readers.join_all().await {
            ages.extend(of_reader);
            others.push(reader);
        }
        assert_eq!(ages.len(), TIMED * clients, "pieces of the answer");
        p50.push(percentile(&mut ages, 50.0));
        p99.push(percentile(&mut ages, 99.0));
    }
    println!(
        "{}",
        json!({
            "part": "delivery", "clients": clients, "pieces": TIMED * clients * ANSWERS, "all_p50_ms": p50,
            "p50_ms": percentile(&mut p50.clone(), 50.0), "p99_ms": percentile(&mut p99, 50.0),
        })
    );
}

async fn start(executable: &str, model: SocketAddr) -> (Program, Running) {
    let program = Program::new(executable)
        .env("OPENAI_BASE_URL", format!("http://{model}/v1"))
        .env("OPENAI_API_KEY", "a-key")
        .env("OPENAI_MODEL", "clock");
    let server = program.serve().await;
    (program, server)
}

async fn curl(model: SocketAddr) {
    let status = tokio::process::Command::new("curl")
        .args(["--silent", "--no-buffer", "--data", "{}", &format!("http://{model}/v1/chat/completions")])
        .stdout(Stdio::null())
        .status();
    assert!(status.await.expect("curl is there").success(), "curl reads the stream");
}

/// A client that reads frames as bytes, because the cost of parsing is not measured.
struct Reader {
    stream: TcpStream,
    text: Vec<u8>,
}

impl Reader {
    async fn join(server: &Running, session: &str, make: bool) -> Self {
        let stream = server.dial().await;
        stream.set_nodelay(true).unwrap();
        let mut reader = Self { stream, text: Vec::new() };
        reader.call("connect", json!({})).await;
        let method = if make { "session.create" } else { "session.resume" };
        reader.call(method, json!({"sessionId": session, "streaming": true})).await;
        reader
    }

    async fn call(&mut self, method: &str, params: Value) {
        self.send(method, params).await;
        while !self.frame().await.windows(8).any(|window| window == b"\"result\"") {}
    }

    async fn prompt(&mut self, session: &str) {
        self.send("session.send", json!({"sessionId": session, "prompt": "What time is it?"})).await;
    }

    async fn send(&mut self, method: &str, params: Value) {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let frame = format!("Content-Length: {}\r\n\r\n{body}", body.len());
        self.stream.write_all(frame.as_bytes()).await.unwrap();
    }

    /// Reads to the end of a turn. Returns the age of each delta on arrival, in milliseconds. Parses only
    /// afterwards, because other clients share this thread.
    async fn until_idle(&mut self) -> Vec<f64> {
        let mut arrivals = Vec::new();
        loop {
            let before = self.text.len();
            assert!(self.stream.read_buf(&mut self.text).await.unwrap() > 0, "the connection ended");
            arrivals.push((self.text.len(), now()));
            if find(&self.text[before.saturating_sub(20)..], b"\"session.idle\"").is_some() {
                break;
            }
        }
        let (mut ages, mut at) = (Vec::new(), 0);
        while let Some(found) = find(&self.text[at..], b"\"deltaContent\":\"") {
            at += found + 16;
            let digits = self.text[at..].split(|byte| !byte.is_ascii_digit()).next().unwrap();
            let written: u128 = std::str::from_utf8(digits).unwrap().parse().expect("a time");
            let (_, arrived) = arrivals.iter().find(|(end, _)| *end >= at).expect("a time of arrival");
            ages.push((arrived - written) as f64 / 1e6);
        }
        self.text.clear();
        ages
    }

    async fn frame(&mut self) -> Vec<u8> {
        loop {
            if let Some(head) = find(&self.text, b"\r\n\r\n") {
                let length: usize = std::str::from_utf8(&self.text[16..head]).unwrap().parse().unwrap();
                if self.text.len() >= head + 4 + length {
                    let rest = self.text.split_off(head + 4 + length);
                    return std::mem::replace(&mut self.text, rest).split_off(head + 4);
                }
            }
            assert!(self.stream.read_buf(&mut self.text).await.unwrap() > 0, "the connection ended");
        }
    }
}

/// A model whose answer is the current time, delta by delta.
fn serve_model(pieces: usize, pause: Duration) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                tokio::spawn(answer(BufReader::new(stream), pieces, pause));
            }
        });
    });
    address
}

async fn answer(mut stream: BufReader<TcpStream>, pieces: usize, pause: Duration) {
    loop {
        let (mut request, mut length) = (String::new(), 0);
        if stream.read_line(&mut request).await.unwrap_or(0) == 0 {
            return;
        }
        let mut line = String::new();
        while stream.read_line(&mut line).await.is_ok() && line != "\r\n" {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            line.clear();
        }
        stream.read_exact(&mut vec![0; length]).await.unwrap();
        if !request.contains("chat/completions") {
            stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}").await.unwrap();
            continue;
        }
        let head =
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head).await.unwrap();
        let mut clock = (!pause.is_zero()).then(|| tokio::time::interval(pause));
        for _ in 0..pieces {
            if let Some(clock) = &mut clock {
                clock.tick().await;
            }
            say(&mut stream, json!({"content": format!("{} ", now())}), None).await;
        }
        say(&mut stream, json!({}), Some("stop")).await;
        chunk(&mut stream, "data: [DONE]\n\n").await;
        stream.write_all(b"0\r\n\r\n").await.unwrap();
    }
}

async fn say(stream: &mut BufReader<TcpStream>, delta: Value, finish: Option<&str>) {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
    let body = json!({"id": "c", "object": "chat.completion.chunk", "model": "clock", "choices": [choice]});
    chunk(stream, &format!("data: {body}\n\n")).await;
}

async fn chunk(stream: &mut BufReader<TcpStream>, text: &str) {
    stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await.unwrap();
}

fn now() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos()
}
