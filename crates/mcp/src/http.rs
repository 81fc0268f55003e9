//! The HTTP client for remote servers. The program supplies it, so that proxies, certificates and the HTTP library are the
//! same as for models.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::Stream;
use url::Url;

use crate::Working;

/// A request method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// GET
    Get,
    /// POST
    Post,
    /// DELETE
    Delete,
}

/// A request.
#[derive(Debug, Clone)]
pub struct HttpRequest {
    /// Its method.
    pub method: Method,
    /// Where it goes.
    pub url: Url,
    /// Its headers, in order.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Bytes,
}

/// A stream of bytes.
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, HttpError>> + Send>>;

/// A response, with a body that is still being received.
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// The headers, in order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: ByteStream,
}

impl HttpResponse {
    /// Returns the first header with this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Whether the body is of a media type.
    #[must_use]
    pub fn is_of_type(&self, media_type: &str) -> bool {
        let essence = self.header("content-type").and_then(|value| value.split(';').next());
        essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case(media_type))
    }
}

/// Error for a request that got no complete response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HttpError(pub String);

/// Sends requests. Redirects are not followed.
pub trait Http: Send + Sync {
    /// Sends a request and returns the head of the response.
    fn send(&self, request: HttpRequest) -> Working<'_, Result<HttpResponse, HttpError>>;
}

/// Whether an address is that of a web page. Others (`javascript:`, `file:`) would do something in the client that opens
/// them.
#[must_use]
pub fn is_web_page(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}

#[cfg(test)]
mod tests {
    use super::is_web_page;

    #[test]
    fn only_http_and_https_are_web_pages() {
        assert!(is_web_page("https://x.example/a?b") && is_web_page("http://127.0.0.1:1/"));
        for url in
            ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "vscode://x", "x", "", " "]
        {
            assert!(!is_web_page(url), "{url}");
        }
        assert!(!is_web_page(" java\nscript:alert(1)"), "what a browser reads as javascript:");
    }
}
