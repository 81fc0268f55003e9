//! Network access of a session's tools.
//!
//! Resolved addresses are filtered: a host name may resolve to public addresses, and to private ones that the user has
//! approved. So a grant for a host name does not reach this machine or its network (DNS rebinding).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use baton_agent::tools::Working;
use baton_agent::tools::web::{AllowedAddresses, Fetch, FetchError, FetchedPage};
use baton_core::policy::address;
use baton_model::http::{HttpClient, HttpRequest, Method, Transport, TransportError, Url};
use bytes::Bytes;
use futures_util::StreamExt;

/// Time limit for a page.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Fetches pages for one session.
pub(crate) struct NetworkFetch {
    /// The server's client for model calls, which does not filter addresses.
    anywhere: Arc<HttpClient>,
    /// Client that connects to public addresses only.
    public: HttpClient,
}

impl NetworkFetch {
    pub(crate) fn new(anywhere: Arc<HttpClient>) -> Self {
        Self { anywhere, public: HttpClient::reaching(address::is_public) }
    }

    async fn fetch(
        &self,
        url: &str,
        limit: usize,
        reach: &AllowedAddresses,
    ) -> Result<FetchedPage, FetchError> {
        match reach {
            AllowedAddresses::Anywhere => fetch(&self.anywhere, url, limit).await,
            AllowedAddresses::Public(also) if also.is_empty() => fetch(&self.public, url, limit).await,
            AllowedAddresses::Public(also) => {
                // A separate client: its connections must not be reused by calls without this approval.
                let also = also.clone();
                let reaches = move |at: IpAddr| address::is_public(at) || also.contains(&at);
                fetch(&HttpClient::reaching(reaches), url, limit).await
            }
        }
    }
}

impl Fetch for NetworkFetch {
    fn get<'a>(
        &'a self,
        url: &'a str,
        limit: usize,
        reach: &'a AllowedAddresses,
    ) -> Working<'a, Result<FetchedPage, FetchError>> {
        Box::pin(async move {
            let fetch = self.fetch(url, limit, reach);
            let late = || {
                let why = format!("{url} did not respond within {} seconds", TIME_LIMIT.as_secs());
                FetchError::Failed(why)
            };
            tokio::time::timeout(TIME_LIMIT, fetch).await.unwrap_or_else(|_| Err(late()))
        })
    }
}

async fn fetch(client: &HttpClient, url: &str, limit: usize) -> Result<FetchedPage, FetchError> {
    let failed = |error: &dyn std::fmt::Display| FetchError::Failed(format!("{url}: {error}"));
    let request = HttpRequest {
        method: Method::Get,
        url: Url::parse(url).map_err(|error| failed(&error))?,
        headers: vec![("accept".into(), "text/html,text/plain,application/json;q=0.9,*/*;q=0.8".into())],
        body: Bytes::new(),
    };
    let response = client.send(request).await.map_err(|error| match error {
        TransportError::Closed(addresses) => FetchError::Private(addresses),
        other => failed(&other),
    })?;
    let header = |name: &str| response.headers.get(name).map(str::to_owned);
    let (status, content_type, location) = (response.status, header("content-type"), header("location"));
    let mut body = Vec::new();
    let mut chunks = response.body;
    while let Some(chunk) = chunks.next().await {
        body.extend_from_slice(&chunk.map_err(|error| failed(&error))?);
        if body.len() >= limit {
            body.truncate(limit);
            break;
        }
    }
    Ok(FetchedPage { status, content_type, location, body })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn host_name_reaches_this_machine_only_with_approval() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://localhost:{}/", listener.local_addr().unwrap().port());
        let serve = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                drop(stream.read(&mut [0; 1024]).await);
                drop(stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello").await);
            }
        });
        let fetch = NetworkFetch::new(Arc::new(HttpClient::new()));
        let refused = fetch.get(&url, 100, &AllowedAddresses::Public(Vec::new())).await;
        let Err(FetchError::Private(addresses)) = refused else { panic!("{refused:?}") };
        for reach in [AllowedAddresses::Public(addresses), AllowedAddresses::Anywhere] {
            assert_eq!(fetch.get(&url, 100, &reach).await.unwrap().body, b"hello");
        }
        let again = fetch.get(&url, 100, &AllowedAddresses::Public(Vec::new())).await;
        assert!(matches!(again, Err(FetchError::Private(_))), "no connection may be reused");
        serve.abort();
    }
}
