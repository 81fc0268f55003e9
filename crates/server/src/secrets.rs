//! Values that must not be seen: clients name them, and what tools print is searched for them before anybody sees it.
//!
//! The keys and tokens that the server itself was given are among them from the start. They are held in memory only, and
//! for all sessions of this server.

use std::sync::{PoisonError, RwLock};

use baton_protocol::Json;
use baton_protocol::params::SessionParams;
use baton_protocol::provider::ProviderConfig;
use baton_protocol::tool::ToolResult;
use serde_json::Value;

use crate::options::{Endpoint, Options};

/// What stands in the place of a secret.
const HIDDEN: &str = "[REDACTED]";

/// Shorter values are no secrets, and would be found everywhere.
const SHORTEST: usize = 4;

/// A shorter key is a placeholder, such as those for local models, and may be a word of every text.
const SHORTEST_KEY: usize = 16;

/// See the module.
#[derive(Default)]
pub(crate) struct Secrets {
    values: RwLock<Vec<String>>,
}

impl Secrets {
    /// The credentials of the server itself.
    pub(crate) fn of(options: &Options) -> Self {
        let of_endpoint = match &options.endpoint {
            Endpoint::Copilot { token, .. } => token.iter().cloned().collect(),
            Endpoint::Provider { provider, .. } => keys_of(provider),
            Endpoint::Demo => Vec::new(),
        };
        let secrets = Self::default();
        secrets.add_keys(of_endpoint.into_iter().chain(options.connection_token.clone()));
        secrets
    }

    /// Adds the credentials that a client brings with a session.
    pub(crate) fn add_brought(&self, params: &SessionParams) {
        let providers = params.provider.iter().chain(params.providers.iter().flatten());
        self.add_keys(providers.flat_map(keys_of).chain(params.git_hub_token.clone()));
    }

    fn add_keys(&self, keys: impl Iterator<Item = String>) {
        let keys: Vec<String> = keys.filter(|key| key.len() >= SHORTEST_KEY).collect();
        if !keys.is_empty() {
            self.add(keys);
        }
    }

    pub(crate) fn add(&self, values: Vec<String>) {
        let mut known = self.values.write().unwrap_or_else(PoisonError::into_inner);
        known.extend(values.into_iter().filter(|value| value.len() >= SHORTEST));
        // The longest first: one that is part of another must not leave the rest of it standing.
        known.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        known.dedup();
    }

    /// A text without any of them.
    pub(crate) fn hide_in(&self, text: &str) -> String {
        let mut text = text.to_owned();
        hide(&self.values.read().unwrap_or_else(PoisonError::into_inner), &mut text);
        text
    }

    /// A result without any of them.
    pub(crate) fn hide(&self, mut result: ToolResult) -> ToolResult {
        let known = self.values.read().unwrap_or_else(PoisonError::into_inner);
        if !known.is_empty() {
            let texts =
                [Some(&mut result.text_result_for_llm), result.error.as_mut(), result.session_log.as_mut()];
            texts.into_iter().flatten().for_each(|text| hide(&known, text));
            if let Some(Ok(mut contents)) = result.contents.as_ref().map(Json::parse::<Value>) {
                hide_deep(&known, &mut contents);
                result.contents = Some(contents.into());
            }
        }
        result
    }
}

/// The credentials for a provider.
fn keys_of(provider: &ProviderConfig) -> Vec<String> {
    provider.api_key.iter().chain(&provider.bearer_token).cloned().collect()
}

fn hide(secrets: &[String], text: &mut String) {
    for secret in secrets {
        if text.contains(secret.as_str()) {
            *text = text.replace(secret.as_str(), HIDDEN);
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
    fn credentials_that_come_with_a_session_are_hidden_and_placeholders_are_not() {
        let secrets = Secrets::default();
        let params = serde_json::json!({
            "provider": {"baseUrl": "http://x", "apiKey": "sk-0123456789abcdef"},
            "providers": [{"name": "local", "baseUrl": "http://y", "apiKey": "ollama"}],
            "gitHubToken": "gho_0123456789abcdef",
        });
        secrets.add_brought(&serde_json::from_value(params).unwrap());
        let shown = secrets.hide_in("sk-0123456789abcdef ollama gho_0123456789abcdef");
        assert_eq!(shown, "[REDACTED] ollama [REDACTED]");
    }

    #[test]
    fn no_part_of_a_secret_is_left() {
        let secrets = Secrets::default();
        secrets.add(vec!["hunter".into(), "hunter2-long".into(), "x".into(), String::new()]);
        let result = secrets.hide(ToolResult {
            error: Some("hunter".into()),
            contents: Some(serde_json::json!([{"text": "a hunter"}, 1]).into()),
            ..ToolResult::success("x=hunter2-long; hunters".to_owned())
        });
        assert_eq!(result.text_result_for_llm, "x=[REDACTED]; [REDACTED]s");
        assert_eq!(result.error.as_deref(), Some("[REDACTED]"));
        assert_eq!(result.contents.unwrap().as_str(), r#"[{"text":"a [REDACTED]"},1]"#);
    }
}
