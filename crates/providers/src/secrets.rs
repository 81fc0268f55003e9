//! Secrets: values that clients register, and that are redacted in the output of tools.
//!
//! They include the keys and tokens of the server itself and of sessions' providers. They are in memory only, and apply to
//! all sessions of the server.

use std::sync::{PoisonError, RwLock};

use baton_protocol::Json;
use baton_protocol::params::SessionParams;
use baton_protocol::provider::ProviderConfig;
use baton_protocol::tool::ToolResult;
use serde_json::Value;

use crate::ServerEndpoint;
use crate::endpoint::keys_of;

/// Replacement of a secret.
const REDACTED: &str = "[REDACTED]";

/// Minimum length of a secret: shorter values occur in every text.
const MIN_LENGTH: usize = 4;

/// Minimum length of a key: shorter ones are placeholders, as for local models, and may be ordinary words.
const MIN_KEY_LENGTH: usize = 16;

/// Secrets of the server and its sessions.
#[derive(Default)]
pub struct Secrets {
    values: RwLock<Vec<String>>,
}

impl Secrets {
    /// Creates the list, with the credentials of the server's endpoint, and other ones of the server.
    #[must_use]
    pub fn new(endpoint: &ServerEndpoint, others: &[String]) -> Self {
        let secrets = Self::default();
        secrets.add_keys(endpoint.keys().into_iter().chain(others.iter().cloned()));
        secrets
    }

    /// Adds the credentials in the parameters of a session.
    pub fn add_client_credentials(&self, params: &SessionParams) {
        let providers = params.provider.iter().chain(params.providers.iter().flatten());
        self.add_keys(providers.flat_map(keys_of).chain(params.git_hub_token.clone()));
    }

    /// Adds the credentials of providers.
    pub fn add_keys_of<'a>(&self, providers: impl Iterator<Item = &'a ProviderConfig>) {
        self.add_keys(providers.flat_map(keys_of));
    }

    /// Adds credentials. Those that are too short are ignored: they are placeholders, and may be ordinary words.
    pub fn add_keys(&self, keys: impl Iterator<Item = String>) {
        let keys: Vec<String> = keys.filter(|key| key.len() >= MIN_KEY_LENGTH).collect();
        if !keys.is_empty() {
            self.add(keys);
        }
    }

    /// Adds secrets. Values that are too short are ignored.
    pub fn add(&self, values: Vec<String>) {
        let mut known = self.values.write().unwrap_or_else(PoisonError::into_inner);
        known.extend(values.into_iter().filter(|value| value.len() >= MIN_LENGTH));
        // Longest first: replacing a secret that is part of a longer one would leave the rest of that visible.
        known.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        known.dedup();
    }

    /// Returns the text with all secrets redacted.
    #[must_use]
    pub fn hide_in(&self, text: &str) -> String {
        let mut text = text.to_owned();
        hide(&self.values.read().unwrap_or_else(PoisonError::into_inner), &mut text);
        text
    }

    /// Redacts all secrets in a text.
    pub fn hide_in_place(&self, text: &mut String) {
        hide(&self.values.read().unwrap_or_else(PoisonError::into_inner), text);
    }

    /// Redacts all secrets in the texts of a value.
    pub fn hide_in_value(&self, value: &mut Value) {
        hide_deep(&self.values.read().unwrap_or_else(PoisonError::into_inner), value);
    }

    /// Returns the tool result with all secrets redacted.
    #[must_use]
    pub fn hide(&self, mut result: ToolResult) -> ToolResult {
        let known = self.values.read().unwrap_or_else(PoisonError::into_inner);
        if !known.is_empty() {
            let texts =
                [Some(&mut result.text_result_for_llm), result.error.as_mut(), result.session_log.as_mut()];
            texts.into_iter().flatten().for_each(|text| hide(&known, text));
            for json in [&mut result.contents, &mut result.structured_content] {
                if let Some(Ok(mut value)) = json.as_ref().map(Json::parse::<Value>) {
                    hide_deep(&known, &mut value);
                    *json = Some(value.into());
                }
            }
        }
        result
    }
}

fn hide(secrets: &[String], text: &mut String) {
    for secret in secrets {
        if text.contains(secret.as_str()) {
            *text = text.replace(secret.as_str(), REDACTED);
        }
    }
}

fn hide_deep(secrets: &[String], value: &mut Value) {
    match value {
        Value::String(text) => hide(secrets, text),
        Value::Array(items) => items.iter_mut().for_each(|item| hide_deep(secrets, item)),
        Value::Object(fields) => fields.values_mut().for_each(|field| hide_deep(secrets, field)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_of_a_session_are_redacted_and_placeholders_are_not() {
        let secrets = Secrets::default();
        let params = serde_json::json!({
            "provider": {"baseUrl": "http://x", "apiKey": "sk-0123456789abcdef"},
            "providers": [{"name": "local", "baseUrl": "http://y", "apiKey": "ollama"}],
            "gitHubToken": "gho_0123456789abcdef",
        });
        secrets.add_client_credentials(&baton_json::from_value(&params).unwrap());
        let shown = secrets.hide_in("sk-0123456789abcdef ollama gho_0123456789abcdef");
        assert_eq!(shown, "[REDACTED] ollama [REDACTED]");
    }

    #[test]
    fn longer_secrets_are_redacted_first() {
        let secrets = Secrets::default();
        secrets.add(vec!["hunter".into(), "hunter2-long".into(), "x".into(), String::new()]);
        let result = secrets.hide(ToolResult {
            error: Some("hunter".into()),
            contents: Some(serde_json::json!([{"text": "a hunter"}, 1]).into()),
            structured_content: Some(serde_json::json!({"text": "a hunter"}).into()),
            ..ToolResult::success("x=hunter2-long; hunters".to_owned())
        });
        assert_eq!(result.text_result_for_llm, "x=[REDACTED]; [REDACTED]s");
        assert_eq!(result.error.as_deref(), Some("[REDACTED]"));
        assert_eq!(result.contents.unwrap().as_str(), r#"[{"text":"a [REDACTED]"},1]"#);
        assert_eq!(result.structured_content.unwrap().as_str(), r#"{"text":"a [REDACTED]"}"#);
    }
}
