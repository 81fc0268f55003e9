//! The network, as the tools of a session reach it.

use std::sync::Arc;
use std::time::Duration;

use baton_agent::tools::Working;
use baton_agent::tools::web::{Fetch, FetchError, Page};
use baton_model::http::{HttpClient, HttpRequest, Method, Transport, Url};
use bytes::Bytes;
use futures_util::StreamExt;

/// How long a page may take.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Fetches pages with the same client that asks models.
pub(crate) struct NetworkFetch {
    client: Arc<HttpClient>,
}

impl NetworkFetch {
    pub(crate) fn new(client: Arc<HttpClient>) -> Self {
        Self { client }
    }
}

impl Fetch for NetworkFetch {
    fn get<'a>(&'a self, url: &'a str, limit: usize) -> Working<'a, Result<Page, FetchError>> {
        Box::pin(async move {
            let fetch = fetch(&self.client, url, limit);
            let late = || FetchError(format!("{url} did not answer within {} seconds", TIME_LIMIT.as_secs()));
            tokio::time::timeout(TIME_LIMIT, fetch).await.unwrap_or_else(|_| Err(late()))
        })
    }
}

async fn fetch(client: &HttpClient, url: &str, limit: usize) -> Result<Page, FetchError> {
    let failed = |error: &dyn std::fmt::Display| FetchError(format!("{url}: {error}"));
    let request = HttpRequest {
        method: Method::Get,
        url: Url::parse(url).map_err(|error| failed(&error))?,
        headers: vec![("accept".into(), "text/html,text/plain,application/json;q=0.9,*/*;q=0.8".into())],
        body: Bytes::new(),
    };
    let response = client.send(request).await.map_err(|error| failed(&error))?;
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
