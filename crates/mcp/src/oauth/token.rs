//! Requests to the token endpoint.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use super::fetch::Fetch;
use super::identity::refused;
use super::{ClientIdentity, Login, LoginTarget, OAuthError, discovery};
use crate::http::Http;

/// The longest token.
const LONGEST: usize = 16 * 1024;

/// Tokens for an MCP server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tokens {
    /// Access token, sent with each request to the server.
    pub access: String,
    /// Refresh token, if there is one.
    pub refresh: Option<String>,
    /// Seconds until the access token expires, when it was issued.
    pub expires_in: Option<u64>,
    /// Scopes of the access token; those that were asked for, if the server does not say.
    pub scopes: Vec<String>,
}

// Not derived: a token must not reach a log.
impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").field("expires_in", &self.expires_in).finish_non_exhaustive()
    }
}

/// Where tokens came from. A refresh token goes back there, and nowhere else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenOrigin {
    /// The authorization server.
    pub issuer: String,
    /// Its token endpoint.
    pub token_endpoint: String,
    /// The MCP server, as tokens name it.
    pub resource: String,
}

impl TokenOrigin {
    /// Returns the source of tokens of an authorization server.
    #[must_use]
    pub fn of(found: &LoginTarget) -> Self {
        Self {
            issuer: found.issuer.clone(),
            token_endpoint: found.token_endpoint.to_string(),
            resource: found.resource.clone(),
        }
    }
}

/// Exchanges the code of a login for tokens.
///
/// # Errors
/// When the authorization server refuses, or cannot be reached.
pub async fn exchange(
    http: &dyn Http,
    server: &Url,
    login: &Login,
    code: &str,
) -> Result<Tokens, OAuthError> {
    let fields = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", &*login.redirect),
        ("code_verifier", login.verifier()),
        ("resource", &*login.found.resource),
    ];
    request(http, server, &login.found.token_endpoint, &login.identity, &fields, &login.scopes).await
}

/// Gets new tokens. A response without a refresh token keeps the one that was used.
///
/// # Errors
/// When the authorization server refuses (`invalid_grant`: a new login is needed), or cannot be reached.
pub async fn refresh(
    http: &dyn Http,
    server: &Url,
    source: &TokenOrigin,
    identity: &ClientIdentity,
    used: &Tokens,
) -> Result<Tokens, OAuthError> {
    let token = used.refresh.as_deref().ok_or(OAuthError::Mismatch("there is no refresh token"))?;
    let fields = [("grant_type", "refresh_token"), ("refresh_token", token), ("resource", &*source.resource)];
    let endpoint = Url::parse(&source.token_endpoint)
        .map_err(|error| OAuthError::Address { what: "token_endpoint", why: error.to_string() })?;
    let mut tokens = request(http, server, &endpoint, identity, &fields, &used.scopes).await?;
    tokens.refresh.get_or_insert_with(|| token.to_owned());
    Ok(tokens)
}

/// Gets a token for the client itself, without a person.
///
/// # Errors
/// When the authorization server refuses, or cannot be reached.
pub async fn client_credentials(
    http: &dyn Http,
    server: &Url,
    found: &LoginTarget,
    identity: &ClientIdentity,
    scopes: &[String],
) -> Result<Tokens, OAuthError> {
    let scope = scopes.join(" ");
    let mut fields = vec![("grant_type", "client_credentials"), ("resource", &*found.resource)];
    if !scope.is_empty() {
        fields.push(("scope", &scope));
    }
    request(http, server, &found.token_endpoint, identity, &fields, scopes).await
}

async fn request(
    http: &dyn Http,
    server: &Url,
    endpoint: &Url,
    identity: &ClientIdentity,
    fields: &[(&str, &str)],
    scopes: &[String],
) -> Result<Tokens, OAuthError> {
    let (proof, authorization) = identity.proof();
    let form: Vec<(&str, &str)> = fields.iter().copied().chain(proof).collect();
    let fetched = Fetch::new(http, server).post_form(endpoint.clone(), &form, authorization).await?;
    let body = fetched.body.unwrap_or_default();
    match fetched.status {
        200 => tokens(&body, scopes),
        status => Err(refused(status, &body)),
    }
}

fn tokens(body: &Value, scopes: &[String]) -> Result<Tokens, OAuthError> {
    let unusable = |why: &str| OAuthError::Unusable(format!("the token response {why}"));
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    let access = text("access_token").ok_or_else(|| unusable("has no access_token"))?;
    // It becomes a header: a line break would add another one.
    let is_header = |token: &str| {
        !token.is_empty() && token.len() <= LONGEST && token.bytes().all(|b| b.is_ascii_graphic())
    };
    if !is_header(access) {
        return Err(unusable("has an access_token that cannot be sent"));
    }
    if !text("token_type").unwrap_or("bearer").eq_ignore_ascii_case("bearer") {
        return Err(unusable("has a token_type other than Bearer"));
    }
    let refresh = text("refresh_token").filter(|token| !token.is_empty() && token.len() <= LONGEST);
    let number = body.get("expires_in");
    let expires_in = number.and_then(|n| n.as_u64().or_else(|| n.as_str()?.parse().ok()));
    Ok(Tokens {
        access: access.to_owned(),
        refresh: refresh.map(str::to_owned),
        expires_in,
        scopes: text("scope").map_or_else(|| scopes.to_vec(), discovery::words),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_usable_tokens_are_accepted() {
        let read = |body: Value| tokens(&body, &["asked".into()]);
        let good = read(json!({ "access_token": "a", "token_type": "Bearer", "expires_in": 60 })).unwrap();
        assert_eq!((good.expires_in, &good.scopes[..]), (Some(60), &["asked".to_owned()][..]));
        assert_eq!(read(json!({ "access_token": "a", "scope": "x y" })).unwrap().scopes, ["x", "y"]);
        assert!(!format!("{good:?}").contains("\"a\""));
        for bad in [
            json!({}),
            json!({ "access_token": "" }),
            json!({ "access_token": "a\r\nX-Evil: 1" }),
            json!({ "access_token": "x".repeat(LONGEST + 1) }),
            json!({ "access_token": "a", "token_type": "mac" }),
            json!({ "access_token": 7 }),
        ] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
    }
}
