//! Clients of authorization servers, and how they authenticate.

use base64::Engine as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use super::fetch::Fetch;
use super::{LoginTarget, OAuthError};
use crate::http::Http;
use crate::text::clean;

/// The longest id or secret of a client.
const LONGEST: usize = 4096;

/// Authentication of a client at the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Authentication {
    /// None: a public client.
    #[default]
    None,
    /// With its secret in the form.
    ClientSecretPost,
    /// With its secret in a header.
    ClientSecretBasic,
}

/// A client of an authorization server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientIdentity {
    /// Its id.
    pub id: String,
    /// Its secret, if it has one.
    pub secret: Option<String>,
    /// How it authenticates.
    pub authentication: Authentication,
}

// Not derived: a secret must not reach a log.
impl std::fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientIdentity").field("id", &self.id).finish_non_exhaustive()
    }
}

impl ClientIdentity {
    /// Returns the client of a configuration.
    #[must_use]
    pub fn configured(id: String, secret: Option<String>, found: &LoginTarget) -> Self {
        let supports = |method: &str| found.authentication.iter().any(|known| known == method);
        let authentication = match &secret {
            None => Authentication::None,
            Some(_) if supports("client_secret_post") && !supports("client_secret_basic") => {
                Authentication::ClientSecretPost
            }
            // What servers support that list nothing (RFC 8414).
            Some(_) => Authentication::ClientSecretBasic,
        };
        Self { id, secret, authentication }
    }

    /// Returns the fields and the header of a request to the token endpoint.
    pub(super) fn proof(&self) -> (Vec<(&str, &str)>, Option<String>) {
        match (self.authentication, &self.secret) {
            (Authentication::ClientSecretBasic, Some(secret)) => {
                let encode =
                    |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
                let pair = format!("{}:{}", encode(&self.id), encode(secret));
                let basic = base64::engine::general_purpose::STANDARD.encode(pair);
                (Vec::new(), Some(format!("Basic {basic}")))
            }
            (Authentication::ClientSecretPost, Some(secret)) => {
                (vec![("client_id", &*self.id), ("client_secret", secret)], None)
            }
            _ => (vec![("client_id", &*self.id)], None),
        }
    }
}

/// Registers a client whose logins return to `redirect` (RFC 7591).
///
/// # Errors
/// When the authorization server registers none, or refuses.
pub async fn register(
    http: &dyn Http,
    server: &Url,
    found: &LoginTarget,
    redirect: &str,
) -> Result<ClientIdentity, OAuthError> {
    let endpoint = found.registration_endpoint.clone().ok_or(OAuthError::NoRegistration)?;
    let asked = json!({
        "client_name": "Baton",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    });
    let fetched = Fetch::new(http, server).post_json(endpoint, &asked).await?;
    let body = fetched.body.unwrap_or_default();
    let text = |name: &str| {
        let text = body.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        text.filter(|text| text.len() <= LONGEST).map(str::to_owned)
    };
    match (fetched.status, text("client_id")) {
        (200 | 201, Some(id)) => {
            let secret = text("client_secret");
            let authentication = match (text("token_endpoint_auth_method").as_deref(), &secret) {
                (_, None) | (Some("none"), _) => Authentication::None,
                (Some("client_secret_post"), _) => Authentication::ClientSecretPost,
                _ => Authentication::ClientSecretBasic,
            };
            Ok(ClientIdentity { id, secret, authentication })
        }
        (200 | 201, None) => Err(OAuthError::Unusable("the registration has no client_id".into())),
        (status, _) => Err(refused(status, &body)),
    }
}

/// Returns the error of a response.
pub(super) fn refused(status: u16, body: &Value) -> OAuthError {
    let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
    match text("error") {
        "" => OAuthError::Unusable(format!("the authorization server answered HTTP {status}")),
        code => {
            OAuthError::Refused { code: clean(code, 100), description: clean(text("error_description"), 300) }
        }
    }
}
