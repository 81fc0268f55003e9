//! The network, as the tools of a session reach it.
//!
//! Names of the internet are resolved behind a gate: they may lead to public addresses, and to those that somebody has
//! been asked about. So what was allowed for a name does not reach this machine or its network (DNS rebinding).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use baton_agent::tools::Working;
use baton_agent::tools::web::{Fetch, FetchError, Page, Reach};
use baton_core::policy::address;
use baton_model::http::{HttpClient, HttpRequest, Method, Transport, TransportError, Url};
use bytes::Bytes;
use futures_util::StreamExt;

/// How long a page may take.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Fetches pages, for one session.
pub(crate) struct NetworkFetch {
    /// The client that asks models, which goes anywhere.
    anywhere: Arc<HttpClient>,
    public: HttpClient,
}

impl NetworkFetch {
    pub(crate) fn new(anywhere: Arc<HttpClient>) -> Self {
        Self { anywhere, public: HttpClient::reaching(address::is_public) }
    }

    async fn fetch(&self, url: &str, limit: usize, reach: &Reach) -> Result<Page, FetchError> {
        match reach {
            Reach::Anywhere => fetch(&self.anywhere, url, limit).await,
            Reach::Public(also) if also.is_empty() => fetch(&self.public, url, limit).await,
            Reach::Public(also) => {
                // A client of its own: its connections must not be there for a call that nobody was asked about.
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
        reach: &'a Reach,
    ) -> Working<'a, Result<Page, FetchError>> {
        Box::pin(async move {
            let fetch = self.fetch(url, limit, reach);
            let late = || {
                let why = format!("{url} did not answer within {} seconds", TIME_LIMIT.as_secs());
                FetchError::Failed(why)
            };
            tokio::time::timeout(TIME_LIMIT, fetch).await.unwrap_or_else(|_| Err(late()))
        })
    }
}

async fn fetch(client: &HttpClient, url: &str, limit: usize) -> Result<Page, FetchError> {
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
    let mut pieces = response.body;
    while let Some(piece) = pieces.next().await {
        body.extend_from_slice(&piece.map_err(|error| failed(&error))?);
        if body.len() >= limit {
            body.truncate(limit);
            break;
        }
    }
    Ok(Page { status, content_type, location, body })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_name_leads_to_this_machine_only_if_somebody_was_asked() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://localhost:{}/", listener.local_addr().unwrap().port());
        let serve = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                drop(stream.read(&mut [0; 1024]).await);
                drop(stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello").await);
            }
        });
        let fetch = NetworkFetch::new(Arc::new(HttpClient::new()));
        let refused = fetch.get(&url, 100, &Reach::Public(Vec::new())).await;
        let Err(FetchError::Private(addresses)) = refused else { panic!("{refused:?}") };
        for reach in [Reach::Public(addresses), Reach::Anywhere] {
            assert_eq!(fetch.get(&url, 100, &reach).await.unwrap().body, b"hello");
        }
        let again = fetch.get(&url, 100, &Reach::Public(Vec::new())).await;
        assert!(matches!(again, Err(FetchError::Private(_))), "no connection is left open for it");
        serve.abort();
    }
}
