//! Headers that a client of the session supplies for a remote server, and renews: `headersRefreshTtlMs`.
//!
//! The client is asked before the first request, when the headers have expired, and when the server rejects them. All
//! requests of the server wait for that one answer. Without an answer, the earlier headers are used.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use tokio::sync::Mutex;
use tokio::time::Instant;
use url::Url;

use crate::client::{HeadersReason, McpClient};
use crate::credentials::{in_headers, without_credentials};

/// Supplied headers of one server.
pub(crate) struct SuppliedHeaders {
    client: Arc<dyn McpClient>,
    server: String,
    /// Its address, without credentials.
    url: String,
    ttl: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    headers: Vec<(String, String)>,
    /// When the client was asked last; none if it was not.
    asked: Option<Instant>,
    /// Counts the answers, so that of several rejected requests only one asks again.
    answers: u64,
}

/// Version of the headers that a request was sent with: the number of answers of the client so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeadersVersion(u64);

impl SuppliedHeaders {
    pub(crate) fn new(client: Arc<dyn McpClient>, server: String, url: &Url, ttl: Duration) -> Self {
        let url = without_credentials(url).to_string();
        Self { client, server, url, ttl, state: Mutex::default() }
    }

    /// Puts the headers into a request, in place of configured ones.
    pub(super) async fn add_to(&self, request: &mut Vec<(String, String)>) -> HeadersVersion {
        let mut state = self.state.lock().await;
        match state.asked {
            None => self.ask(&mut state, HeadersReason::Startup).await,
            Some(asked) if asked.elapsed() >= self.ttl => {
                self.ask(&mut state, HeadersReason::Expired).await;
            }
            Some(_) => {}
        }
        for (name, value) in &state.headers {
            request.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
            request.push((name.clone(), value.clone()));
        }
        HeadersVersion(state.answers)
    }

    /// Asks for other headers, because the server rejected a request. Returns whether there are some since that request.
    pub(super) async fn replace(&self, rejected: HeadersVersion) -> bool {
        let mut state = self.state.lock().await;
        if state.answers == rejected.0 {
            self.ask(&mut state, HeadersReason::Rejected).await;
        }
        state.answers != rejected.0
    }

    async fn ask(&self, state: &mut State, reason: HeadersReason) {
        let supplied = self.client.headers(&self.server, &self.url, reason).await;
        state.asked = Some(Instant::now());
        if let Some(headers) = supplied {
            state.headers = headers.into_iter().filter(is_valid).collect();
            state.answers += 1;
            let values = state.headers.iter().cloned();
            self.client.keep_secret(in_headers(values));
        }
    }
}

fn is_valid((name, value): &(String, String)) -> bool {
    HeaderName::from_bytes(name.as_bytes()).is_ok() && HeaderValue::from_str(value).is_ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex as SyncMutex;

    use super::*;
    use crate::Working;
    use crate::client::Notice;

    /// A client that supplies a number, and records why it was asked.
    #[derive(Default)]
    struct Supplier(SyncMutex<Vec<HeadersReason>>);

    impl McpClient for Supplier {
        fn place(&self) -> crate::Working<'_, Result<baton_sandbox::Place, String>> {
            Box::pin(async { Ok(baton_sandbox::Place::Outside) })
        }

        fn notice(&self, _: &str, _: Notice) {}

        fn headers(
            &self,
            _: &str,
            _: &str,
            reason: HeadersReason,
        ) -> Working<'_, Option<Vec<(String, String)>>> {
            let mut asked = self.0.lock().unwrap();
            asked.push(reason);
            let number = asked.len().to_string();
            let odd = ("x-odd".to_owned(), "a\r\nb: c".to_owned());
            Box::pin(async move { (number != "4").then(|| vec![("X-Key".to_owned(), number), odd]) })
        }
    }

    async fn value(headers: &SuppliedHeaders) -> (String, HeadersVersion) {
        let mut request = vec![("x-key".to_owned(), "configured".to_owned())];
        let answer = headers.add_to(&mut request).await;
        assert_eq!(request.len(), 1, "{request:?}");
        (request.remove(0).1, answer)
    }

    #[tokio::test(start_paused = true)]
    async fn client_is_asked_at_the_start_after_the_ttl_and_after_a_rejection() {
        let client = Arc::new(Supplier::default());
        let url = Url::parse("https://x.example/mcp").unwrap();
        let headers = SuppliedHeaders::new(client.clone(), "s".into(), &url, Duration::from_secs(60));
        let (first, answer) = value(&headers).await;
        assert_eq!((first.as_str(), value(&headers).await.0.as_str()), ("1", "1"));
        assert!(headers.replace(answer).await);
        assert!(headers.replace(answer).await, "another request of the same headers does not ask again");
        assert_eq!(value(&headers).await.0, "2");
        tokio::time::advance(Duration::from_secs(60)).await;
        let (third, answer) = value(&headers).await;
        assert_eq!(third, "3");
        assert!(!headers.replace(answer).await, "the client has no other headers");
        assert_eq!(value(&headers).await.0, "3", "the earlier ones stay");
        let reasons = [HeadersReason::Startup, HeadersReason::Rejected, HeadersReason::Expired];
        assert_eq!(client.0.lock().unwrap()[..3], reasons);
        assert_eq!(client.0.lock().unwrap().len(), 4);
    }
}
