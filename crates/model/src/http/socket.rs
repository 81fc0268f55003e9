//! WebSockets over the network.
//!
//! The handshake is an HTTP request through the same library, so that proxies, certificates and time limits
//! are those of all requests. The frames are left to `tungstenite`.

use futures_util::{SinkExt, StreamExt};
use reqwest::header::SEC_WEBSOCKET_ACCEPT;
use reqwest::{Client, StatusCode, Upgraded};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::client::classify;
use super::{HttpRequest, Socket, Transferring, TransportError};

/// Maximum size of a message: that of the longest event of a stream.
const LONGEST_MESSAGE: usize = 16 << 20;

/// Requests a WebSocket. Returns `None` if it is refused.
pub(super) async fn open(
    client: &Client,
    request: HttpRequest,
) -> Result<Option<Box<dyn Socket>>, TransportError> {
    let key = generate_key();
    let mut builder = client
        .get(request.url.into_inner())
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", &key);
    for (name, value) in request.headers {
        builder = builder.header(name, value);
    }
    let response = builder.send().await.map_err(classify)?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(None);
    }
    let accepted = response.headers().get(SEC_WEBSOCKET_ACCEPT);
    if accepted.is_none_or(|accepted| accepted.as_bytes() != derive_accept_key(key.as_bytes()).as_bytes()) {
        return Err(TransportError::Broken("the WebSocket handshake is invalid".to_owned()));
    }
    let stream = response.upgrade().await.map_err(classify)?;
    let config = WebSocketConfig::default()
        .max_message_size(Some(LONGEST_MESSAGE))
        .max_frame_size(Some(LONGEST_MESSAGE));
    Ok(Some(Box::new(NetworkSocket(
        WebSocketStream::from_raw_socket(stream, Role::Client, Some(config)).await,
    ))))
}

struct NetworkSocket(WebSocketStream<Upgraded>);

impl NetworkSocket {
    async fn message(&mut self) -> Result<Option<String>, TransportError> {
        while let Some(message) = self.0.next().await {
            match message.map_err(failed)? {
                Message::Text(text) => return Ok(Some(text.as_str().to_owned())),
                Message::Binary(bytes) => return Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
                Message::Close(Some(why)) if !why.reason.is_empty() => {
                    return Err(TransportError::Broken(format!("{} ({})", why.reason, why.code)));
                }
                Message::Close(_) => return Ok(None),
                // `tungstenite` answers pings.
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
        Ok(None)
    }
}

impl Socket for NetworkSocket {
    fn send(&mut self, message: String) -> Transferring<'_, ()> {
        Box::pin(async move { self.0.send(Message::text(message)).await.map_err(failed) })
    }

    fn next(&mut self) -> Transferring<'_, Option<String>> {
        Box::pin(self.message())
    }
}

fn failed(error: Error) -> TransportError {
    match error {
        Error::Capacity(_) => TransportError::TooLong(LONGEST_MESSAGE),
        other => TransportError::Broken(other.to_string()),
    }
}
