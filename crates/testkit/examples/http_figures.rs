//! Measures the HTTP API of a built program: `http_figures BATON [posters|subscribers]`. Started by
//! `bench/run http`.
//!
//! Prints one line of JSON for each part. Runs on one thread, to leave the rest of the machine to the
//! measured program.

#![allow(clippy::disallowed_methods, reason = "a measuring tool may block")]
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a measuring tool prints, and panics on errors"
)]

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use baton_testkit::figures::{find, percentile};
use baton_testkit::http::Http;
use baton_testkit::model_server::ModelServer;
use baton_testkit::program::{Program, Running};
use rusqlite::{Connection, params};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const POSTERS: usize = 64;
const SUBSCRIBERS: usize = 1000;
const TURNS: usize = 6;
const TURN: Duration = Duration::from_secs(1);
const PROMPT: usize = 1024;
const WORDS: usize = 200;
/// Number of streamed answers. A shared machine stalls now and then; the median answer counts.
const ANSWERS: usize = 5;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let program = arguments.next().expect("the program to be measured");
    let part = arguments.next();
    if part.as_deref().is_none_or(|part| part == "posters") {
        posters(&program).await;
    }
    if part.as_deref().is_none_or(|part| part == "subscribers") {
        subscribers(&program).await;
    }
}

struct House {
    program: Program,
    server: Running,
    http: Http,
    model: ModelServer,
}

impl House {
    async fn open(executable: &str) -> Self {
        let model = ModelServer::start().await;
        let program = Program::new(executable).with_model(&model);
        let config = program.work().join("config.toml");
        std::fs::write(&config, "[http]\nrequests_per_second = 1000000").unwrap();
        let server = program.serve_http(&["--config", config.to_str().unwrap()]).await;
        let http = Http::new(&program, &server);
        Self { program, server, http, model }
    }

    async fn commits(&self) -> u64 {
        let metrics = self.http.get("/api/metrics").await.body;
        let line = metrics.lines().find_map(|line| line.strip_prefix("baton_store_commits_total "));
        line.expect("the number of commits").parse().unwrap()
    }
}

/// Many concurrent prompts, alternating with plain SQLite writing the same rows in the same batches: the
/// speed of a shared disk changes from second to second.
async fn posters(executable: &str) {
    let house = House::open(executable).await;
    let mut connections = Vec::new();
    for number in 0..POSTERS {
        let session = format!("session-{number}");
        house.http.create(&session, json!({})).await;
        // Every session is busy, so that a prompt is only queued: its turn would write further rows.
        house.http.prompt(&session, "[[hold:gate]]").await;
        let body = json!({"text": "x".repeat(PROMPT)}).to_string();
        let path = format!("/api/sessions/{session}/prompts");
        let head = house.http.head("POST", &path, &[("Content-Type", "application/json")]);
        let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        let stream = TcpStream::connect(house.server.http.unwrap()).await.unwrap();
        connections.push((stream, request));
    }
    house.model.wait_for_hold("gate").await;
    let mut plain: Option<PlainSqlite> = None;
    let (mut times, mut spent, mut commits) = (Vec::new(), Duration::ZERO, 0);
    for _ in 0..TURNS {
        let (before, start) = (house.commits().await, Instant::now());
        let mut posting = JoinSet::new();
        for (stream, request) in connections.drain(..) {
            posting.spawn(post_for_a_while(stream, request));
        }
        for (stream, request, taken) in posting.join_all().await {
            connections.push((stream, request));
            times.extend(taken);
        }
        spent += start.elapsed();
        commits += house.commits().await - before;
        let row = row_bytes(&house.http).await;
        let plain = plain.get_or_insert_with(|| PlainSqlite::new(house.program.home(), row));
        plain.run((times.len() as f64 / commits as f64).round() as usize);
    }
    let rate = times.len() as f64 / spent.as_secs_f64();
    let plain = plain.unwrap();
    println!(
        "{}",
        json!({
            "part": "posters", "posters": POSTERS, "accepted_per_second": rate,
            "rows_in_a_batch": times.len() as f64 / commits as f64, "row_bytes": plain.body.len(),
            "p50_ms": percentile(&mut times, 50.0), "p99_ms": percentile(&mut times, 99.0),
            "sqlite_per_second": plain.rate(), "ratio": rate / plain.rate(),
        })
    );
}

async fn post_for_a_while(mut stream: TcpStream, request: String) -> (TcpStream, String, Vec<f64>) {
    let (start, mut times, mut buffer) = (Instant::now(), Vec::new(), vec![0; 4096]);
    while start.elapsed() < TURN {
        let before = Instant::now();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut read = 0;
        // The response is short and ends with its only closing brace.
        while read == 0 || buffer[read - 1] != b'}' {
            read += stream.read(&mut buffer[read..]).await.unwrap();
        }
        assert!(buffer.starts_with(b"HTTP/1.1 202"), "{}", String::from_utf8_lossy(&buffer[..read]));
        times.push(before.elapsed().as_secs_f64() * 1000.0);
    }
    (stream, request, times)
}

/// Returns the size of the row of an accepted prompt.
async fn row_bytes(http: &Http) -> usize {
    let page = http.get("/api/sessions/session-0/events?limit=1000").await.expect(200);
    let mut rows = page["events"].as_array().unwrap().iter().map(|entry| &entry["event"]);
    rows.rfind(|event| event["type"] == "baton.prompt_accepted").unwrap().to_string().len()
}

/// The lower bound for the same rows: SQLite in one loop, one statement, no sessions, no replies.
struct PlainSqlite {
    file: Connection,
    body: Vec<u8>,
    count: i64,
    spent: Duration,
}

impl PlainSqlite {
    fn new(directory: &Path, row: usize) -> Self {
        let file = Connection::open(directory.join("plain.db")).unwrap();
        file.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -1024;
             CREATE TABLE events (session INTEGER NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL,
                                  body BLOB NOT NULL, PRIMARY KEY (session, seq)) STRICT;",
        )
        .unwrap();
        Self { file, body: vec![b'x'; row], count: 0, spent: Duration::ZERO }
    }

    fn run(&mut self, batch: usize) {
        let start = Instant::now();
        while start.elapsed() < TURN {
            self.file.execute_batch("BEGIN IMMEDIATE").unwrap();
            for _ in 0..batch {
                let sql = "INSERT INTO events VALUES (?1, ?2, 'baton.prompt_accepted', ?3)";
                let mut insert = self.file.prepare_cached(sql).unwrap();
                insert.execute(params![self.count % 64, self.count / 64, self.body]).unwrap();
                self.count += 1;
            }
            self.file.execute_batch("COMMIT").unwrap();
        }
        self.spent += start.elapsed();
    }

    fn rate(&self) -> f64 {
        self.count as f64 / self.spent.as_secs_f64()
    }
}

/// Many subscribers of one session with a streamed answer: latency and cost of each.
async fn subscribers(executable: &str) {
    let house = House::open(executable).await;
    house.http.create("s", json!({})).await;
    let prompt = house.http.prompt("s", "[[text:warm]]").await;
    house.http.outcome("s", &prompt).await;
    let before = house.server.memory();
    let request =
        house.http.head("GET", "/api/sessions/s/events", &[("Accept", "text/event-stream")]) + "\r\n";
    let mut readers = JoinSet::new();
    for _ in 0..SUBSCRIBERS {
        let mut stream = TcpStream::connect(house.server.http.unwrap()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        readers.spawn(read_answers(stream));
    }
    let connected = format!("baton_http_streams {SUBSCRIBERS}\n");
    while !house.http.get("/api/metrics").await.body.contains(&connected) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let idle = house.server.memory();
    for _ in 0..ANSWERS {
        let prompt = house.http.prompt("s", &format!("[[slow:{WORDS}:25]]")).await;
        house.http.outcome("s", &prompt).await;
    }
    let times = readers.join_all().await;
    let after = house.server.memory();
    let each = |memory: u64| memory.saturating_sub(before) as f64 / 1024.0 / SUBSCRIBERS as f64;
    let delivered = times.iter().map(Vec::len).sum::<usize>();
    let of_answer = |number: usize, percent: f64| {
        let of_reader = |times: &Vec<f64>| times[number * WORDS..][..WORDS].to_vec();
        percentile(&mut times.iter().flat_map(of_reader).collect::<Vec<_>>(), percent)
    };
    let middle = |percent: f64| {
        let mut answers: Vec<f64> = (0..ANSWERS).map(|number| of_answer(number, percent)).collect();
        percentile(&mut answers, 50.0)
    };
    println!(
        "{}",
        json!({
            "part": "subscribers", "subscribers": SUBSCRIBERS, "answers": ANSWERS, "delivered": delivered,
            "p50_ms": middle(50.0), "p99_ms": middle(99.0), "max_ms": middle(100.0),
            "all_p99_ms": (0..ANSWERS).map(|number| of_answer(number, 99.0)).collect::<Vec<_>>(),
            "idle_kb_each": each(idle), "kb_each": each(after),
        })
    );
}

/// Reads until all answers are complete. Returns the age of each delta on arrival, in milliseconds.
async fn read_answers(mut stream: TcpStream) -> Vec<f64> {
    let (mut text, mut times) = (Vec::new(), Vec::with_capacity(WORDS * ANSWERS));
    loop {
        assert!(stream.read_buf(&mut text).await.unwrap() > 0, "the stream ended");
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64() * 1000.0;
        while let Some(end) = find(&text, b"\n\n") {
            if find(&text[..end], b"event: assistant.message_delta").is_some() {
                times.push(now - written(&text[..end]));
            }
            // The first answer in the history is a previous one.
            let is_over =
                find(&text[..end], b"event: session.idle").is_some() && times.len() >= WORDS * ANSWERS;
            text.drain(..end + 2);
            if is_over {
                return times;
            }
        }
    }
}

/// Returns the creation time of an event in milliseconds since 1970. Whole milliseconds, rounded down: ages
/// come out too large, not too small.
fn written(event: &[u8]) -> f64 {
    let at = find(event, b"\"timestamp\":\"").expect("a time") + 13;
    let text = std::str::from_utf8(&event[at..at + 24]).unwrap();
    let number = |from: usize, to: usize| text[from..to].parse::<i64>().unwrap();
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    // Days since 1970, counting years from March, so that a leap day is the last day of a year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    let seconds = days * 86_400 + number(11, 13) * 3600 + number(14, 16) * 60 + number(17, 19);
    (seconds * 1000 + number(20, 23)) as f64
}
