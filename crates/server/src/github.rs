//! Whom a GitHub token belongs to. Asked only where the server was told of a GitHub API to ask; without one a token is
//! taken as it is, and nobody is named.

use std::time::Duration;

use baton_model::http::{HttpClient, HttpRequest, Method, Transport, Url};
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::Value;

/// How long the answer may take: a session waits for it.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// No account takes more words to describe.
const LARGEST_ANSWER: usize = 1 << 20;

/// Somebody who is known, in the words of the protocol.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Identity {
    /// What proves it: `token`, `user`, `env` and the like.
    pub(crate) kind: String,
    pub(crate) host: String,
    pub(crate) login: Option<String>,
    /// What GitHub says about the account.
    pub(crate) account: Value,
}

impl Identity {
    pub(crate) const GITHUB: &str = "https://github.com";

    /// Whoever has this token, when nobody can be asked who that is.
    pub(crate) fn unnamed() -> Self {
        Self { kind: "token".into(), host: Self::GITHUB.into(), login: None, account: Value::Null }
    }

    pub(crate) fn plan(&self) -> Option<&str> {
        self.account.get("copilot_plan")?.as_str()
    }
}

/// Asks the API at `api` whose token this is. The error says why it cannot be used.
pub(crate) async fn identify(client: &HttpClient, api: &str, token: &str) -> Result<Identity, String> {
    let asked = tokio::time::timeout(TIME_LIMIT, ask(client, api, token)).await;
    let account = asked.unwrap_or_else(|_| Err(format!("{api} did not answer in time")))?;
    let login = account.get("login").and_then(Value::as_str).map(str::to_owned);
    Ok(Identity { login, account, ..Identity::unnamed() })
}

async fn ask(client: &HttpClient, api: &str, token: &str) -> Result<Value, String> {
    let url = format!("{}/copilot_internal/user", api.trim_end_matches('/'));
    let failed = |error: &dyn std::fmt::Display| format!("{url}: {error}");
    let request = HttpRequest {
        method: Method::Get,
        url: Url::parse(&url).map_err(|error| failed(&error))?,
        headers: vec![
            ("authorization".into(), format!("Bearer {token}")),
            ("accept".into(), "application/json".into()),
        ],
        body: Bytes::new(),
    };
    let response = client.send(request).await.map_err(|error| failed(&error))?;
    match response.status {
        200 => {}
        401 | 403 => {
            return Err(format!(
                "{} Unauthorized: GitHub does not accept this token. Check it, or leave `gitHubToken` out.",
                response.status
            ));
        }
        status => return Err(failed(&format_args!("answered with status {status}"))),
    }
    let mut body = Vec::new();
    let mut pieces = response.body;
    while let Some(piece) = pieces.next().await {
        body.extend_from_slice(&piece.map_err(|error| failed(&error))?);
        if body.len() > LARGEST_ANSWER {
            return Err(failed(&"the answer is too large"));
        }
    }
    serde_json::from_slice(&body).map_err(|error| failed(&error))
}
