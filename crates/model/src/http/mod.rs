//! HTTP as the rest of the crate sees it: a request goes out, a response with a body in pieces comes back.
//!
//! Everything above works on the [`Transport`] trait. [`HttpClient`] is the one that uses the network; a
//! client of Baton that wants to carry model requests itself becomes another. Nothing here knows what a model
//! is.
//!
//! Dropping a future or a response cancels the request.

mod client;
mod gate;
mod socket;
mod tls;
mod url;

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};

pub use client::HttpClient;
pub use tls::config as tls_config;
pub use url::{BadUrl, Url};

/// Sends requests.
pub trait Transport: Send + Sync {
    /// Sends one request and waits for the head of the response.
    fn send(&self, request: HttpRequest) -> Sending<'_>;

    /// Opens a WebSocket at an address; `None` if the other side, or this way to it, has none.
    fn open(&self, _request: HttpRequest) -> Opening<'_> {
        Box::pin(async { Ok(None) })
    }
}

/// A connection for messages in both directions. Dropping it closes it.
pub trait Socket: Send {
    /// Sends a message.
    fn send(&mut self, message: String) -> Transferring<'_, ()>;

    /// The next message; `None` when the other side has closed.
    fn next(&mut self) -> Transferring<'_, Option<String>>;
}

/// Something that goes over a socket, to be awaited.
pub type Transferring<'a, T> = Pin<Box<dyn Future<Output = Result<T, TransportError>> + Send + 'a>>;

/// A WebSocket, to be awaited.
pub type Opening<'a> = Transferring<'a, Option<Box<dyn Socket>>>;

/// The head of a response, to be awaited.
pub type Sending<'a> = Transferring<'a, HttpResponse>;

/// A body, as its pieces arrive.
pub type Body = Pin<Box<dyn Stream<Item = Result<Bytes, TransportError>> + Send>>;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Something to read.
    Get,
    /// Something to be done with a body.
    Post,
}

impl Method {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
        }
    }
}

/// A request, complete.
#[derive(Clone)]
pub struct HttpRequest {
    /// What is asked for.
    pub method: Method,
    /// Where.
    pub url: Url,
    /// Headers, credentials among them: this is why the type has no `Debug`.
    pub headers: Vec<(String, String)>,
    /// The body, possibly empty.
    pub body: Bytes,
}

/// A response whose body is still to come.
pub struct HttpResponse {
    /// The status, such as 200.
    pub status: u16,
    /// All headers.
    pub headers: Headers,
    /// The body.
    pub body: Body,
}

/// Headers of a response, found by name whatever its case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(pub Vec<(String, String)>);

impl Headers {
    /// The first value of a header.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Whether the body is announced to be of this media type, such as `text/html`.
    #[must_use]
    pub fn is_of_type(&self, media_type: &str) -> bool {
        let announced = self.get("content-type").unwrap_or_default();
        announced.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(media_type)
    }
}

/// How long to wait for somebody who does not speak. There is no limit for a whole answer: one that keeps
/// coming is alive, however long it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For the head of the response. Longer than `stall`, because an answer that is not streamed, or a local
    /// model that is still reading the prompt, says nothing at all until it is ready.
    pub head: Duration,
    /// Between two pieces of the body.
    pub stall: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { head: Duration::from_secs(600), stall: Duration::from_secs(120) }
    }
}

/// Why a request did not get through.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// It could not even be written down.
    #[error("the request cannot be sent: {0}")]
    Invalid(String),
    /// Nobody was reached.
    #[error("no connection could be made: {0}")]
    Unreachable(String),
    /// Somebody was reached whose certificate is not trusted.
    #[error("the connection is not trusted: {0}")]
    Untrusted(String),
    /// The name leads to these addresses only, and none of them may be reached.
    #[error("the name leads to an address that must not be reached")]
    Closed(Vec<IpAddr>),
    /// The connection ended in the middle.
    #[error("the connection broke off: {0}")]
    Broken(String),
    /// Nothing came for so long.
    #[error("nothing was received for {} s", .0.as_secs_f32())]
    Stalled(Duration),
    /// The body is longer than anybody needs.
    #[error("the response is longer than {0} bytes")]
    TooLong(usize),
}

/// Sends a request and waits for the head of the response, but not for ever.
pub(crate) async fn send(
    transport: &dyn Transport,
    request: HttpRequest,
    patience: Patience,
) -> Result<HttpResponse, TransportError> {
    match tokio::time::timeout(patience.head, transport.send(request)).await {
        Ok(result) => result,
        Err(_) => Err(TransportError::Stalled(patience.head)),
    }
}

impl HttpResponse {
    /// The next piece of the body; `None` at its end.
    pub(crate) async fn chunk(&mut self, stall: Duration) -> Result<Option<Bytes>, TransportError> {
        match tokio::time::timeout(stall, self.body.next()).await {
            Ok(piece) => piece.transpose(),
            Err(_) => Err(TransportError::Stalled(stall)),
        }
    }

    /// The whole body, if it is no longer than `limit`.
    pub(crate) async fn whole(&mut self, stall: Duration, limit: usize) -> Result<Bytes, TransportError> {
        let mut body = BytesMut::new();
        while let Some(piece) = self.chunk(stall).await? {
            if body.len() + piece.len() > limit {
                return Err(TransportError::TooLong(limit));
            }
            body.extend_from_slice(&piece);
        }
        Ok(body.freeze())
    }

    /// Reads the end of a body of which nothing more is wanted. It mostly follows at once, and a connection
    /// whose response was read to its end can be used again; the next request then needs no new handshake.
    pub(crate) async fn settle(&mut self) {
        let _ = self.chunk(Duration::from_millis(50)).await;
    }

    /// The beginning of the body, up to about `limit` bytes, whatever goes wrong after it.
    pub(crate) async fn beginning(&mut self, stall: Duration, limit: usize) -> Vec<u8> {
        let mut body = Vec::new();
        while body.len() < limit {
            let Ok(Some(piece)) = self.chunk(stall).await else { break };
            body.extend_from_slice(&piece);
        }
        body.truncate(limit);
        body
    }
}

/// The usual words for a status, such as `Not Found`.
pub(crate) fn reason(status: u16) -> &'static str {
    reqwest::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    fn response(pieces: &'static [&'static str]) -> HttpResponse {
        let body =
            Box::pin(stream::iter(pieces.iter().map(|piece| Ok(Bytes::from_static(piece.as_bytes())))));
        HttpResponse { status: 200, headers: Headers::default(), body }
    }

    #[tokio::test]
    async fn a_body_is_read_up_to_a_limit() {
        let stall = Duration::from_secs(1);
        assert_eq!(response(&["ab", "cd"]).whole(stall, 4).await, Ok(Bytes::from_static(b"abcd")));
        assert_eq!(response(&["ab", "cd", "e"]).whole(stall, 4).await, Err(TransportError::TooLong(4)));
        assert_eq!(response(&["ab", "cd"]).beginning(stall, 3).await, b"abc");
    }

    #[test]
    fn headers_are_found_in_any_case() {
        let headers = Headers(vec![("Content-Type".to_owned(), "Text/HTML; charset=utf-8".to_owned())]);
        assert!(headers.is_of_type("text/html") && !headers.is_of_type("text/plain"));
        assert_eq!(headers.get("x"), None);
    }
}
