//! Options of `session.create` and `session.resume` that have no effect here. The session says so in a `session.warning`,
//! because a client that asked for a limit or a remote session would otherwise believe that it got one.

use std::collections::BTreeMap;

use baton_core::ask::{Amend, Change, LogLevel};
use baton_protocol::Json;
use baton_protocol::params::SessionParams;
use baton_runtime::session::{Handle, JoinKind};
use serde_json::Value;
use serde_json::value::RawValue;

/// Options that this server accepts and ignores, with the consequence. Options that only switch off what this server does not
/// have are obeyed, and are not listed.
const IGNORED: &[(&str, &str)] = &[
    ("cloud", "sessions run on this server only"),
    ("remoteSession", "sessions run on this server only; other clients can attach to it"),
    ("enableSessionTelemetry", "this server sends no telemetry"),
    ("enableGitHubTelemetryForwarding", "this server has no GitHub telemetry to forward"),
    ("sessionLimits", "the model is informed of the limit, but nothing enforces it"),
    ("additionalDirectories", "add them with session.permissions.paths.add"),
    ("canvases", "this server has no canvases"),
    ("requestCanvasRenderer", "this server has no canvases"),
    ("managedSettings", "this server does not apply managed settings"),
    ("enableManagedSettings", "this server does not apply managed settings"),
    ("organizationCustomInstructions", "pass them in systemMessage instead"),
    ("reasoningSummary", "the model's default applies"),
    ("contextTier", "the model's default applies"),
    ("memory", "this server keeps no memory between sessions"),
];

/// Describes the options of a call that have no effect. `sessions.open` has them in its field `options`.
pub(super) fn describe(params: &Json) -> Vec<String> {
    // Fields are borrowed: the configurations of servers and tools among them can be large.
    let Some(mut fields) = fields(params.as_str()) else { return Vec::new() };
    if let Some(options) = fields.get("options").and_then(|options| self::fields(options.get())) {
        fields = options;
    }
    let asked_for = |name: &str| {
        let value = fields.get(name).and_then(|value| serde_json::from_str::<Value>(value.get()).ok());
        value.is_some_and(|value| is_set(&value))
    };
    let ignored = IGNORED.iter().filter(|(name, _)| asked_for(name));
    ignored.map(|(name, why)| format!("The option {name} has no effect: {why}.")).collect()
}

fn fields(object: &str) -> Option<BTreeMap<String, &RawValue>> {
    serde_json::from_str(object).ok()
}

/// Whether an option asks for something: SDKs also send options that are off or empty.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !matches!(text.as_str(), "" | "off" | "none" | "default"),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => fields.values().any(is_set),
        Value::Bool(true) | Value::Number(_) => true,
    }
}

/// Returns the warning for a working directory that does not exist.
pub(super) async fn missing_directory(params: &SessionParams) -> Option<String> {
    let directory = params.working_directory.as_ref().filter(|directory| !directory.is_empty())?;
    let exists = baton_runtime::context::is_directory(directory.into()).await;
    (!exists).then(|| {
        format!(
            "The working directory {directory} does not exist or is not a directory: tools will fail in it."
        )
    })
}

/// Shows warnings in a session, before the next call of the client is handled. The history has those of its creation only:
/// a client that resumes sends the same options each time.
pub(super) fn warn(handle: &Handle, warnings: Vec<String>, kind: JoinKind) {
    let ephemeral = kind == JoinKind::Resume;
    for message in warnings {
        let change = Change::Log { level: LogLevel::Warning, message, url: None, ephemeral };
        // A session that has ended meanwhile has nobody to warn.
        let _ = handle.tell(Amend { change: Box::new(change) });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn described(params: Value) -> Vec<String> {
        describe(&Json::from(params))
    }

    #[test]
    fn ignored_options_are_described() {
        let warnings = described(json!({
            "cloud": {"repository": {"owner": "o", "name": "n"}},
            "enableSessionTelemetry": true,
            "sessionLimits": {"maxAiCredits": 30},
            "model": "m",
        }));
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        for (warning, name) in warnings.iter().zip(["cloud", "enableSessionTelemetry", "sessionLimits"]) {
            assert!(warning.starts_with(&format!("The option {name} has no effect: ")), "{warning}");
        }
        let opened = described(json!({"kind": "create", "options": {"remoteSession": "on"}}));
        assert_eq!(opened.len(), 1, "{opened:?}");
    }

    #[test]
    fn options_that_sdks_send_by_default_are_not_described() {
        let warnings = described(json!({
            "sessionId": "s", "cloud": null, "enableSessionTelemetry": false, "remoteSession": "off",
            "sessionLimits": {"maxAiCredits": null}, "memory": {"enabled": false}, "canvases": [],
            "envValueMode": "direct", "includeSubAgentStreamingEvents": true, "requestPermission": true,
            "skipEmbeddingRetrieval": true, "customAgentsLocalOnly": true, "mcpOAuthTokenStorage": "in-memory",
        }));
        assert_eq!(warnings, Vec::<String>::new());
        assert_eq!(describe(&Json::null()), Vec::<String>::new());
    }

    #[tokio::test]
    async fn missing_working_directory_is_described() {
        let of = |directory: &str| SessionParams {
            working_directory: Some(directory.into()),
            ..SessionParams::default()
        };
        let warning = missing_directory(&of("/no/such/directory")).await.unwrap();
        assert!(warning.contains("/no/such/directory does not exist"), "{warning}");
        assert_eq!(missing_directory(&of("/")).await, None);
        assert_eq!(missing_directory(&SessionParams::default()).await, None);
    }
}
