//! Accounts of GitHub tokens. They are looked up only if the server has a GitHub API configured; without one, tokens are
//! accepted as they are, for an unnamed account.

use std::time::Duration;

use baton_model::http::{HttpClient, HttpRequest, Method, Transport, Url};
use bytes::Bytes;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Time limit of a lookup: a session waits for it.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// Maximum size of a response.
const MAX_RESPONSE: usize = 1 << 20;

/// Account of a user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GithubIdentity {
    /// How the user authenticated: `token`, `user`, `env` and the like.
    pub kind: String,
    /// URL of the GitHub host.
    pub host: String,
    /// Login name, if it is known.
    pub login: Option<String>,
    /// GitHub's description of the account; null if it was not looked up.
    pub account: Value,
}

impl GithubIdentity {
    /// Default host.
    pub const GITHUB: &str = "https://github.com";

    /// Returns the identity for a token whose account is not looked up.
    #[must_use]
    pub fn unnamed() -> Self {
        Self { kind: "token".into(), host: Self::GITHUB.into(), login: None, account: Value::Null }
    }

    /// Returns the Copilot plan of the account.
    #[must_use]
    pub fn plan(&self) -> Option<&str> {
        self.account.get("copilot_plan")?.as_str()
    }
}

/// Looks up the account of a token at the API `api`.
///
/// # Errors
/// When the API cannot be reached, or does not accept the token; the message says which.
pub async fn identify(client: &HttpClient, api: &str, token: &str) -> Result<GithubIdentity, String> {
    let looked_up = tokio::time::timeout(TIME_LIMIT, look_up(client, api, token)).await;
    let account = looked_up.unwrap_or_else(|_| Err(format!("{api} did not respond in time")))?;
    let login = account.get("login").and_then(Value::as_str).map(str::to_owned);
    Ok(GithubIdentity { login, account, ..GithubIdentity::unnamed() })
}

async fn look_up(client: &HttpClient, api: &str, token: &str) -> Result<Value, String> {
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
        status => return Err(failed(&format_args!("responded with status {status}"))),
    }
    let mut body = Vec::new();
    let mut chunks = response.body;
    while let Some(chunk) = chunks.next().await {
        body.extend_from_slice(&chunk.map_err(|error| failed(&error))?);
        if body.len() > MAX_RESPONSE {
            return Err(failed(&"the response is too large"));
        }
    }
    baton_json::from_slice(&body).map_err(|error| failed(&error))
}
