//! Login settings in the configuration of a server.

use serde_json::Value;

use crate::config::ServerConfig;

/// Who gets a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GrantType {
    /// A person, who logs in.
    #[default]
    Person,
    /// The client itself (`client_credentials`).
    Client,
}

/// The client of a configuration.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct OAuthConfig {
    /// Its id (`oauthClientId`); without one, a client is registered.
    pub client: Option<String>,
    /// Its secret (`oauthClientSecret`), unless it is a public client.
    pub secret: Option<String>,
    /// Who gets a token (`oauthGrantType`).
    pub grant: GrantType,
}

impl OAuthConfig {
    /// Reads the fields of a server's configuration.
    #[must_use]
    pub fn of(config: &ServerConfig) -> Self {
        let text = |name: &str| {
            let text = config.raw.get(name).and_then(Value::as_str);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let is_public = config.raw.get("oauthPublicClient") == Some(&Value::Bool(true));
        Self {
            client: text("oauthClientId"),
            secret: text("oauthClientSecret").filter(|_| !is_public),
            grant: match text("oauthGrantType").as_deref() {
                Some("client_credentials") => GrantType::Client,
                _ => GrantType::Person,
            },
        }
    }

    /// Whether tokens of a client belong to this configuration. A registered client belongs to one without a client.
    #[must_use]
    pub fn is_of(&self, client: &str, was_registered: bool) -> bool {
        match &self.client {
            Some(own) => own == client,
            None => was_registered,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn public_client_has_no_secret() {
        let read = |extra: Value| {
            let mut value =
                json!({ "url": "https://x.example/", "oauthClientId": "me", "oauthClientSecret": "s" });
            value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            OAuthConfig::of(&ServerConfig::parse("s", &value).unwrap())
        };
        assert_eq!(read(json!({})).secret.as_deref(), Some("s"));
        assert_eq!(read(json!({ "oauthPublicClient": true })).secret, None);
        assert_eq!(read(json!({ "oauthGrantType": "client_credentials" })).grant, GrantType::Client);
        assert!(read(json!({})).is_of("me", false) && !read(json!({})).is_of("other", true));
        assert!(OAuthConfig::default().is_of("any", true) && !OAuthConfig::default().is_of("me", false));
    }
}
