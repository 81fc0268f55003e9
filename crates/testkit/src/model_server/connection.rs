//! One connection: a minimal HTTP/1.1 server that can misbehave in every way a test needs.

use std::io;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::answer::{After, Api, Outlet};
use super::chat::Chat;
use super::messages::Messages;
use super::responses::Responses;
use super::state::{End, Recorded, State};
use super::{answer, script, socket};

/// Accepts connections until it is dropped; then closes all of them.
pub(super) async fn accept(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        state.note_connection();
        let _ = stream.set_nodelay(true);
        let state = Arc::clone(&state);
        connections.spawn(async move { Connection { stream: BufReader::new(stream) }.run(&state).await });
    }
}

/// A connection to a client.
pub(super) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Answers requests until either side closes the connection.
    async fn run(mut self, state: &State) {
        while let Ok(Some(request)) = self.read_request().await {
            if socket::is_wanted(&request) && state.has_sockets() {
                return socket::run(self.stream, &request, state).await;
            }
            let index = state.record(request.clone());
            let done = self.answer(&request, state).await;
            state.end(index, if done.is_ok() { End::Answered } else { End::ClientLeft });
            if !matches!(done, Ok(After::KeepAlive)) {
                return;
            }
        }
    }

    async fn answer(&mut self, request: &Recorded, state: &State) -> io::Result<After> {
        let path = request.path.split('?').next().unwrap_or_default();
        match (request.method.as_str(), path) {
            ("GET", "/_requests") => self.json(200, &state.requests_as_json()).await,
            ("POST", path) if path.starts_with("/_release/") => {
                state.release(&path["/_release/".len()..]);
                self.json(200, &json!({"released": true})).await
            }
            ("GET", path) if path.ends_with("/models") => self.json(200, &state.models()).await,
            ("POST", path) if path.ends_with("/count_tokens") => {
                self.json(200, &json!({"input_tokens": 10})).await
            }
            ("POST", path) if path.ends_with("/chat/completions") => {
                self.speak(request, state, Box::new(Chat::new(&request.body))).await
            }
            ("POST", path) if path.ends_with("/responses") => {
                self.speak(request, state, Box::new(Responses::new(&request.body))).await
            }
            ("POST", path) if path.ends_with("/messages") => {
                self.speak(request, state, Box::new(Messages::new(&request.body))).await
            }
            _ => self.json(404, &json!({"error": {"message": format!("no route for {path}")}})).await,
        }
    }

    async fn speak(&mut self, request: &Recorded, state: &State, api: Box<dyn Api>) -> io::Result<After> {
        let reply = state.next_reply().unwrap_or_else(|| script::reply(&request.body, state));
        answer::answer(self, request.body["stream"] == true, &reply, state, api).await
    }

    async fn json(&mut self, status: u16, body: &Value) -> io::Result<After> {
        self.head(status, &[("content-type".to_owned(), "application/json".to_owned())]).await?;
        self.chunk(body.to_string().as_bytes()).await?;
        self.finish(true).await
    }

    async fn read_request(&mut self) -> io::Result<Option<Recorded>> {
        let Some(first) = self.line().await? else { return Ok(None) };
        let mut words = first.split_whitespace();
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut headers = Vec::new();
        while let Some(line) = self.line().await?.filter(|line| !line.is_empty()) {
            if let Some((name, value)) = line.split_once(':') {
                headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
            }
        }
        let mut request = Recorded {
            method: method.to_owned(),
            path: path.to_owned(),
            headers,
            body: Value::Null,
            end: None,
        };
        let body = self.body(&request).await?;
        request.body = serde_json::from_slice(&body).unwrap_or_default();
        Ok(Some(request))
    }

    async fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        let length = self.stream.read_line(&mut line).await?;
        Ok((length > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned()))
    }

    async fn body(&mut self, request: &Recorded) -> io::Result<Vec<u8>> {
        if request.header("transfer-encoding") == Some("chunked") {
            return self.chunked_body().await;
        }
        let length = request.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await?;
        Ok(body)
    }

    async fn chunked_body(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line().await?.unwrap_or_default();
            let length = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
            let mut chunk = vec![0; length];
            self.stream.read_exact(&mut chunk).await?;
            self.line().await?;
            if length == 0 {
                return Ok(body);
            }
            body.extend_from_slice(&chunk);
        }
    }
}

impl Outlet for Connection {
    /// Starts a response with a chunked body.
    async fn head(&mut self, status: u16, headers: &[(String, String)]) -> io::Result<()> {
        let mut head = format!("HTTP/1.1 {status} Scripted\r\ntransfer-encoding: chunked\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        self.stream.write_all(head.as_bytes()).await
    }

    /// Sends a chunk of the body. Skips an empty one, which would end the body.
    async fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        self.stream.write_all(&chunk).await
    }

    async fn finish(&mut self, _is_complete: bool) -> io::Result<After> {
        self.stream.write_all(b"0\r\n\r\n").await?;
        Ok(After::KeepAlive)
    }

    fn reset(&self) -> io::Result<After> {
        self.stream.get_ref().set_zero_linger()?;
        Ok(After::Close)
    }

    /// An HTTP/1.1 client sends nothing while it waits, so any readable event is the end of the connection.
    async fn client_left(&mut self) -> io::Error {
        let _ = self.stream.read(&mut [0; 64]).await;
        io::Error::new(io::ErrorKind::BrokenPipe, "the client disconnected")
    }
}
