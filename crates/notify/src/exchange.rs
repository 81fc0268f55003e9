//! One HTTP exchange with limits.

use std::time::Duration;

use baton_model::http::{HttpRequest, Method, Transport, TransportError, Url};
use bytes::Bytes;
use futures_util::StreamExt as _;

/// Time limit of an exchange, but for the time that a long poll adds.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(15);
/// Maximum size of a response.
const MAX_RESPONSE: usize = 1 << 20;

/// A response, read to its end.
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Pause that the server asks for (`Retry-After` in seconds).
    pub(crate) pause: Option<Duration>,
    pub(crate) body: Vec<u8>,
}

/// Posts a body, and reads the response.
pub(crate) async fn post(
    transport: &dyn Transport,
    url: Url,
    headers: Vec<(String, String)>,
    body: Bytes,
    time: Duration,
) -> Result<Response, TransportError> {
    let request = HttpRequest { method: Method::Post, url, headers, body };
    let exchange = async {
        let mut response = transport.send(request).await?;
        let mut body = Vec::new();
        while let Some(chunk) = response.body.next().await.transpose()? {
            if body.len() + chunk.len() > MAX_RESPONSE {
                return Err(TransportError::TooLong(MAX_RESPONSE));
            }
            body.extend_from_slice(&chunk);
        }
        let pause = response.headers.get("retry-after").and_then(|value| value.trim().parse().ok());
        let pause = pause.map(|seconds: u64| Duration::from_secs(seconds.min(3600)));
        Ok(Response { status: response.status, pause, body })
    };
    tokio::time::timeout(time, exchange).await.unwrap_or(Err(TransportError::Stalled(time)))
}
