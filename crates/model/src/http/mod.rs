//! HTTP for the rest of the crate: a request is sent, a response with a streamed body is returned.
//!
//! All callers use the [`Transport`] trait. [`HttpClient`] implements it over the network; a Baton client
//! that carries model requests itself is another implementation. Nothing here depends on models.
//!
//! Dropping a future or a response cancels the request.

mod certificate;
mod client;
mod dial;
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

pub use certificate::{CertificateProblem, certificate_problem};
pub use client::HttpClient;
pub use tls::{config as tls_config, config_trusting as tls_config_trusting};
pub use url::{BadUrl, Url};

/// Sends requests.
pub trait Transport: Send + Sync {
    /// Sends a request and waits for the head of the response.
    fn send(&self, request: HttpRequest) -> Sending<'_>;

    /// Opens a WebSocket. Returns `None` if the server or this transport does not support them.
    fn open(&self, _request: HttpRequest) -> Opening<'_> {
        Box::pin(async { Ok(None) })
    }
}

/// A connection for messages in both directions. Dropping it closes it.
pub trait Socket: Send {
    /// Sends a message.
    fn send(&mut self, message: String) -> Transferring<'_, ()>;

    /// Receives the next message. Returns `None` after the peer has closed.
    fn next(&mut self) -> Transferring<'_, Option<String>>;
}

/// A pending operation of a transport.
pub type Transferring<'a, T> = Pin<Box<dyn Future<Output = Result<T, TransportError>> + Send + 'a>>;

/// A WebSocket that is being opened.
pub type Opening<'a> = Transferring<'a, Option<Box<dyn Socket>>>;

/// A response that is being waited for.
pub type Sending<'a> = Transferring<'a, HttpResponse>;

/// A body, as a stream of chunks.
pub type BodyStream = Pin<Box<dyn Stream<Item = Result<Bytes, TransportError>> + Send>>;

/// An HTTP method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// GET.
    Get,
    /// POST.
    Post,
    /// DELETE.
    Delete,
}

impl Method {
    /// Returns the name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }
}

/// A complete request.
#[derive(Clone)]
pub struct HttpRequest {
    /// The method.
    pub method: Method,
    /// The URL.
    pub url: Url,
    /// Headers, including credentials: this is why the type has no `Debug`.
    pub headers: Vec<(String, String)>,
    /// The body, possibly empty.
    pub body: Bytes,
}

/// A response whose body has not been read yet.
pub struct HttpResponse {
    /// The status, such as 200.
    pub status: u16,
    /// All headers.
    pub headers: Headers,
    /// The body.
    pub body: BodyStream,
}

/// Headers of a response. Lookup ignores case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(pub Vec<(String, String)>);

impl Headers {
    /// Returns the first value of a header.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Whether the content type is this media type, such as `text/html`.
    #[must_use]
    pub fn is_of_type(&self, media_type: &str) -> bool {
        let announced = self.get("content-type").unwrap_or_default();
        announced.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(media_type)
    }
}

/// Time limits for a provider that does not respond. There is no limit for a whole answer: one that keeps
/// arriving is alive, however long it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For the head of the response. Longer than `stall`, because an answer that is not streamed, or a local
    /// model that is still reading the prompt, sends nothing until it is ready.
    pub head: Duration,
    /// Between two chunks of the body.
    pub stall: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { head: Duration::from_secs(600), stall: Duration::from_secs(120) }
    }
}

/// The failure of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The request could not be built.
    #[error("the request cannot be sent: {0}")]
    Invalid(String),
    /// The server is unreachable.
    #[error("cannot connect: {0}")]
    Unreachable(String),
    /// Nothing listens at the address: its machine refused the connection.
    #[error("cannot connect: {0}")]
    Refused(String),
    /// The server's certificate is not trusted.
    #[error("the connection is not trusted: {0}")]
    Untrusted(String),
    /// The host has these addresses, which are not allowed.
    #[error("the host has an address that is not allowed")]
    Closed(Vec<IpAddr>),
    /// The connection broke.
    #[error("the connection broke off: {0}")]
    Broken(String),
    /// Nothing arrived for this long.
    #[error("nothing was received for {} s", .0.as_secs_f32())]
    Stalled(Duration),
    /// The body exceeds the limit.
    #[error("the response is longer than {0} bytes")]
    TooLong(usize),
}

/// Sends a request and waits for the head of the response, with a time limit.
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
    /// Returns the next chunk of the body, or `None` at its end.
    pub(crate) async fn chunk(&mut self, stall: Duration) -> Result<Option<Bytes>, TransportError> {
        match tokio::time::timeout(stall, self.body.next()).await {
            Ok(chunk) => chunk.transpose(),
            Err(_) => Err(TransportError::Stalled(stall)),
        }
    }

    /// Reads the whole body, up to `limit` bytes.
    pub(crate) async fn whole(&mut self, stall: Duration, limit: usize) -> Result<Bytes, TransportError> {
        let mut body = BytesMut::new();
        while let Some(chunk) = self.chunk(stall).await? {
            if body.len() + chunk.len() > limit {
                return Err(TransportError::TooLong(limit));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }

    /// Reads the rest of a body whose content is no longer needed. The rest usually follows at once, and a
    /// connection whose response was read to its end can be reused without a new handshake.
    pub(crate) async fn settle(&mut self) {
        let _ = self.chunk(Duration::from_millis(50)).await;
    }

    /// Returns the start of the body, up to about `limit` bytes, ignoring failures after it.
    pub(crate) async fn beginning(&mut self, stall: Duration, limit: usize) -> Vec<u8> {
        let mut body = Vec::new();
        while body.len() < limit {
            let Ok(Some(chunk)) = self.chunk(stall).await else { break };
            body.extend_from_slice(&chunk);
        }
        body.truncate(limit);
        body
    }
}

/// Returns the reason phrase of a status, such as `Not Found`.
pub(crate) fn reason(status: u16) -> &'static str {
    reqwest::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    fn response(chunks: &'static [&'static str]) -> HttpResponse {
        let body =
            Box::pin(stream::iter(chunks.iter().map(|chunk| Ok(Bytes::from_static(chunk.as_bytes())))));
        HttpResponse { status: 200, headers: Headers::default(), body }
    }

    #[tokio::test]
    async fn body_is_read_up_to_a_limit() {
        let stall = Duration::from_secs(1);
        assert_eq!(response(&["ab", "cd"]).whole(stall, 4).await, Ok(Bytes::from_static(b"abcd")));
        assert_eq!(response(&["ab", "cd", "e"]).whole(stall, 4).await, Err(TransportError::TooLong(4)));
        assert_eq!(response(&["ab", "cd"]).beginning(stall, 3).await, b"abc");
    }

    #[test]
    fn header_lookup_ignores_case() {
        let headers = Headers(vec![("Content-Type".to_owned(), "Text/HTML; charset=utf-8".to_owned())]);
        assert!(headers.is_of_type("text/html") && !headers.is_of_type("text/plain"));
        assert_eq!(headers.get("x"), None);
    }
}
