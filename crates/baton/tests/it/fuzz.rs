//! Mutated JSON-RPC frames and HTTP requests: the server stays up, its memory stays bounded, and valid requests are
//! answered.
//!
//! Runs for a few seconds. To run longer: `BATON_FUZZ_SECONDS=3600 cargo test -p baton --test it fuzz::`. The seed
//! is printed; `BATON_FUZZ_SEED=N` repeats a run.

#![allow(clippy::print_stdout, reason = "the printed seed repeats a failed run")]

use std::time::{Duration, Instant};

use baton_testkit::client::frame;
use baton_testkit::http::Http;
use baton_testkit::program::Running;
use futures_util::future::join_all;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::scripted;

const TOKEN: &str = "COPILOT_CONNECTION_TOKEN";

/// Number of concurrent connections.
const CONCURRENT: usize = 8;

/// Limit for the growth of the server's memory: frames of clients with the token are buffered until they are complete.
const MEMORY_GROWTH: u64 = 256 << 20;

/// Pseudo-random numbers (xorshift).
struct Random(u64);

impl Random {
    fn seeded(what: &str) -> Self {
        let given = std::env::var("BATON_FUZZ_SEED").ok().and_then(|seed| seed.parse().ok());
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let seed = given.unwrap_or_else(|| now.map_or(1, |now| now.as_nanos() as u64)) | 1;
        println!("{what}: BATON_FUZZ_SEED={seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: usize) -> usize {
        (self.next() % most.max(1) as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most)).map(|_| self.next() as u8).collect()
    }

    /// Replaces, removes or inserts a few bytes.
    fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            if bytes.is_empty() {
                return;
            }
            let at = self.below(bytes.len());
            match self.below(4) {
                0 => bytes[at] = self.next() as u8,
                1 => drop(bytes.remove(at)),
                2 => bytes.truncate(at),
                _ => {
                    let more = self.bytes(40);
                    bytes.splice(at..at, more);
                }
            }
        }
    }

    /// Splits bytes into chunks of one size.
    fn pieces(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let size = 1 + self.below(bytes.len().max(1));
        bytes.chunks(size).map(<[u8]>::to_vec).collect()
    }
}

fn duration() -> Duration {
    let given = std::env::var("BATON_FUZZ_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(given.unwrap_or(3))
}

/// Writes the chunks and disconnects, at once or after reading the response.
async fn exchange(
    mut connection: impl AsyncRead + AsyncWrite + Unpin,
    pieces: Vec<Vec<u8>>,
    reads_response: bool,
) {
    let talk = async {
        for piece in pieces {
            if connection.write_all(&piece).await.is_err() {
                return;
            }
            tokio::task::yield_now().await;
        }
        if reads_response {
            drop(connection.shutdown().await);
            drop(connection.read_to_end(&mut Vec::new()).await);
        }
    };
    // The server may wait for the rest of a request that never comes.
    drop(tokio::time::timeout(Duration::from_millis(100), talk).await);
}

fn call_body(random: &mut Random) -> Vec<u8> {
    let method = random.pick(&[
        "ping",
        "connect",
        "session.create",
        "session.resume",
        "session.send",
        "session.abort",
        "session.list",
        "session.getMessages",
        "session.permissions.handlePendingPermissionRequest",
        "sessions.fork",
        "tools.list",
        "models.list",
        "nope",
        "",
    ]);
    let nested = "[".repeat(random.below(300)) + &"]".repeat(random.below(300));
    let long = format!("{{\"prompt\":\"{}\"}}", "é".repeat(random.below(3000)));
    let params = random.pick(&[
        "{}",
        "[]",
        "null",
        "{\"sessionId\":\"f\"}",
        "{\"sessionId\":\"../f\",\"tools\":[{}]}",
        "{\"sessionId\":1e999}",
        "{\"token\":\"secret\"}",
        "{\"token\":{\"a\":[\"\\ud800\"]}}",
        &*nested,
        &*long,
    ]);
    let id = random.pick(&["1", "\"x\"", "null", "-1", "1e400", "{}", "[[]]"]);
    let mut body = match random.below(6) {
        0 => format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{params}}}"),
        1 => format!("[{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\"}}]"),
        2 => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{params}}}"),
        3 => format!("{{\"jsonrpc\":\"1.0\",\"id\":{id},\"method\":{id},\"params\":{params}}}"),
        _ => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}"),
    }
    .into_bytes();
    if random.one_in(3) {
        random.damage(&mut body);
    }
    body
}

fn frames(random: &mut Random, admitted: bool) -> Vec<u8> {
    let mut stream = Vec::new();
    if admitted {
        stream.extend(frame(
            &json!({"jsonrpc": "2.0", "id": 0, "method": "connect", "params": {"token": "secret"}}),
        ));
    }
    for _ in 0..=random.below(12) {
        let body = call_body(random);
        let length = match random.below(12) {
            0 => (body.len() + 1 + random.below(100)).to_string(),
            1 => body.len().saturating_sub(1).to_string(),
            2 => random.next().to_string(),
            3 => format!("{}{}", random.next(), random.next()),
            4 => random.pick(&["-1", "", "0x10", "1e3", "+5", " ", "0", "065536", "268435457"]).to_owned(),
            _ => body.len().to_string(),
        };
        let header = match random.below(10) {
            0 => format!("content-LENGTH:{length}\n\n"),
            1 => format!("X: y\r\nContent-Length: {length}\r\nContent-Type: z\r\n\r\n"),
            2 => format!("Content-Length: {length}\r\nContent-Length: {length}\r\n\r\n"),
            3 => format!("POST / HTTP/1.1\r\nContent-Length: {length}\r\n\r\n"),
            4 => format!("{}\r\n\r\n", "x".repeat(random.below(9000))),
            _ => format!("Content-Length: {length}\r\n\r\n"),
        };
        stream.extend(header.into_bytes());
        stream.extend(body);
    }
    if random.one_in(4) {
        random.damage(&mut stream);
    }
    stream
}

fn request(random: &mut Random, http: &Http) -> Vec<u8> {
    let path = random.pick(&[
        "/",
        "/api/health",
        "/api/ready",
        "/api/sessions",
        "/api/sessions/f",
        "/api/sessions/f/prompts",
        "/api/sessions/f/events",
        "/api/sessions/%2e%2e%2ff",
        "/api/requests",
        "/v1/workspaces",
        "/v1/workspaces/x/sessions",
        "/nowhere?a=b&&=",
        "*",
        "http://localhost/api/health",
        "//evil.example/",
    ]);
    let method =
        random.pick(&["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "BREW", "get", ""]);
    let mut body = match random.below(4) {
        0 => random.bytes(2000),
        1 => b"{\"id\":\"f\"}".to_vec(),
        2 => format!("{}1{}", "[".repeat(random.below(5000)), "]".repeat(random.below(5000))).into_bytes(),
        _ => b"{\"text\":\"[[text:x]]\"}".to_vec(),
    };
    let host =
        random.pick(&["localhost", "127.0.0.1:1", "[::1]", "evil.example", "127.0.0.1:evil.com", "a@b", ""]);
    let mut head = http.head(method, path, &[("Host", if random.one_in(4) { host } else { "localhost" })]);
    if random.one_in(2) {
        head += "Content-Type: application/json\r\n";
    }
    head += &match random.below(9) {
        0 => format!("Content-Length: {}\r\n", body.len() + random.below(1000)),
        1 => format!("Content-Length: {}\r\n", random.next()),
        2 => "Content-Length: -5\r\n".to_owned(),
        3 => format!("Content-Length: {0}\r\nTransfer-Encoding: chunked\r\n", body.len()),
        4 => {
            body = [format!("{:x}\r\n", body.len()).as_bytes(), &body, b"\r\n0\r\n\r\n"].concat();
            "Transfer-Encoding: chunked\r\n".to_owned()
        }
        5 => format!("Expect: 100-continue\r\nContent-Length: {}\r\n", body.len()),
        6 => format!("X: {}\r\n", "y".repeat(random.below(100_000))),
        _ => format!("Content-Length: {}\r\n", body.len()),
    };
    if random.one_in(5) {
        head += random.pick(&[
            "Origin: null\r\n",
            "Accept: text/event-stream\r\n",
            "Connection: close\r\n",
            ": \r\n",
        ]);
    }
    let mut bytes = [head.as_bytes(), b"\r\n", &body].concat();
    if random.one_in(3) {
        random.damage(&mut bytes);
    }
    if random.one_in(4) {
        bytes.extend(http.head("GET", "/api/health", &[]).into_bytes());
        bytes.extend(b"\r\n");
    }
    bytes
}

fn assert_bounded(server: &mut Running, before: u64, rounds: usize) {
    println!("{rounds} connections, {} MB at most", server.peak_memory() >> 20);
    assert!(server.is_alive(), "{}", server.stderr());
    let grown = server.peak_memory().saturating_sub(before);
    assert!(grown < MEMORY_GROWTH, "{grown} bytes more");
    assert!(!server.stderr().contains("panicked"), "{}", server.stderr());
}

#[tokio::test]
async fn mutated_frames_do_no_harm() {
    let mut random = Random::seeded("frames");
    let (program, _model) = scripted().await;
    let mut server = program.env(TOKEN, "secret").serve().await;
    let (before, begun, mut rounds) = (server.peak_memory(), Instant::now(), 0);
    while begun.elapsed() < duration() {
        let mut round = Vec::new();
        for _ in 0..CONCURRENT {
            let admitted = random.one_in(2);
            let stream = frames(&mut random, admitted);
            let (pieces, reads_response) = (random.pieces(&stream), random.one_in(2));
            round.push(exchange(server.dial().await, pieces, reads_response));
        }
        rounds += join_all(round).await.len();
        let client = server.greetless().await;
        client.ok("connect", json!({"token": "secret"})).await;
        client.ok("ping", json!({})).await;
    }
    assert_bounded(&mut server, before, rounds);
}

#[tokio::test]
async fn mutated_requests_do_no_harm() {
    let mut random = Random::seeded("requests");
    let (program, _model) = scripted().await;
    // Short limits: the server closes what is left within LIMIT.
    let file = program.work().join("config.toml");
    std::fs::write(&file, "[http]\nheader_seconds = 1\nbody_seconds = 1").unwrap();
    let mut server = program.serve_http(&["--config", file.to_str().unwrap()]).await;
    let (authenticated, anonymous) = (Http::new(&program, &server), Http::anonymous(&server));
    let (before, sockets) = (server.peak_memory(), server.sockets());
    let (begun, mut rounds) = (Instant::now(), 0);
    while begun.elapsed() < duration() {
        let mut round = Vec::new();
        for _ in 0..CONCURRENT {
            let http = if random.one_in(3) { &anonymous } else { &authenticated };
            let bytes = request(&mut random, http);
            let (pieces, reads_response) = (random.pieces(&bytes), random.one_in(2));
            round.push(exchange(http.dial().await, pieces, reads_response));
        }
        rounds += join_all(round).await.len();
        assert_eq!(authenticated.get("/api/health").await.status, 200);
    }
    server.until_sockets(sockets).await;
    authenticated.create("after", json!({})).await;
    assert_bounded(&mut server, before, rounds);
}
