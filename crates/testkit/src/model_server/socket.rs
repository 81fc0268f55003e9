//! The Responses API over a WebSocket: each message is a request, and the events of the answer are messages.

use std::io;

use baton_protocol::sse;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::answer::{After, Outlet};
use super::responses::Responses;
use super::state::{End, Recorded, State};
use super::{answer, script};

/// Whether a request asks for a WebSocket.
pub(super) fn is_wanted(request: &Recorded) -> bool {
    let path = request.path.split('?').next().unwrap_or_default();
    request.header("upgrade") == Some("websocket") && path.ends_with("/responses")
}

/// Performs the handshake, and answers messages until either side closes the connection.
pub(super) async fn run(mut stream: BufReader<TcpStream>, request: &Recorded, state: &State) {
    let accept = derive_accept_key(request.header("sec-websocket-key").unwrap_or_default().as_bytes());
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-accept: {accept}\r\n\r\n"
    );
    if stream.write_all(head.as_bytes()).await.is_err() {
        return;
    }
    let mut outlet = SocketOutlet::new(WebSocketStream::from_raw_socket(stream, Role::Server, None).await);
    while let Some(Ok(Message::Text(message))) = outlet.socket.next().await {
        let body: Value = serde_json::from_str(&message).unwrap_or_default();
        let index = state.record(Recorded { method: "WS".to_owned(), body: body.clone(), ..request.clone() });
        let reply = state.next_reply().unwrap_or_else(|| script::reply(&body, state));
        let api = Box::new(Responses::new(&body));
        let done = answer::answer(&mut outlet, true, &reply, state, api).await;
        state.end(index, if done.is_ok() { End::Answered } else { End::ClientLeft });
        if !matches!(done, Ok(After::KeepAlive)) {
            return;
        }
    }
}

struct SocketOutlet {
    socket: WebSocketStream<BufReader<TcpStream>>,
    /// Status and headers of the current answer. An error is sent as an event that contains them.
    status: u16,
    headers: Map<String, Value>,
}

impl SocketOutlet {
    fn new(socket: WebSocketStream<BufReader<TcpStream>>) -> Self {
        Self { socket, status: 200, headers: Map::new() }
    }

    async fn say(&mut self, text: String) -> io::Result<()> {
        self.socket.send(Message::text(text)).await.map_err(io::Error::other)
    }
}

impl Outlet for SocketOutlet {
    async fn head(&mut self, status: u16, headers: &[(String, String)]) -> io::Result<()> {
        self.status = status;
        self.headers = headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        Ok(())
    }

    async fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        let text = String::from_utf8_lossy(bytes);
        if self.status >= 400 {
            let body: Value = serde_json::from_str(&text).unwrap_or_default();
            let (status, headers) = (self.status, &self.headers);
            let error =
                json!({"type": "error", "status": status, "error": body["error"], "headers": headers});
            return self.say(error.to_string()).await;
        }
        let mut events = Vec::new();
        let parsed = sse::Parser::new(usize::MAX).push(bytes, |event| events.push(event.data));
        if parsed.is_err() || events.is_empty() {
            return self.say(text.into_owned()).await;
        }
        for event in events {
            self.say(event).await?;
        }
        Ok(())
    }

    /// Only its last event ends an answer; an incomplete answer ends with the connection.
    async fn finish(&mut self, is_complete: bool) -> io::Result<After> {
        if is_complete {
            return Ok(After::KeepAlive);
        }
        self.socket.close(None).await.map_err(io::Error::other)?;
        Ok(After::Close)
    }

    fn reset(&self) -> io::Result<After> {
        self.socket.get_ref().get_ref().set_zero_linger()?;
        Ok(After::Close)
    }

    async fn client_left(&mut self) -> io::Error {
        while let Some(Ok(_)) = self.socket.next().await {}
        io::Error::new(io::ErrorKind::BrokenPipe, "the client disconnected")
    }
}
