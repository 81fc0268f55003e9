//! Options of `session.create` and `session.resume` that have no effect here. The session says so in a `session.warning`,
//! because a client that asked for a limit or a remote session would otherwise believe that it got one.

mod table;

use std::collections::BTreeMap;

use baton_core::ask::{Amend, Change, LogLevel};
use baton_protocol::Json;
use baton_protocol::params::SessionParams;
use baton_runtime::session::JoinKind;
use baton_service::LiveSession;
use serde_json::Value;
use serde_json::value::RawValue;

use self::table::{Asks, FIXED, IGNORED, Ignored, ONLY_LATER};

/// Describes the options of a call that have no effect. `sessions.open` has them in its field `options`.
pub(super) fn describe(params: &Json) -> Vec<String> {
    described(params, IGNORED.iter())
}

/// Describes the options of `session.options.update` that have no effect.
pub(super) fn describe_update(params: &Json) -> Vec<String> {
    let ignored = IGNORED.iter().filter(|option| !ONLY_LATER.contains(&option.name));
    described(params, ignored.chain(FIXED))
}

fn described<'a>(params: &Json, ignored: impl Iterator<Item = &'a Ignored>) -> Vec<String> {
    // Fields are borrowed: the configurations of servers and tools among them can be large.
    let Some(mut fields) = fields(params.as_str()) else { return Vec::new() };
    if fields.contains_key("kind")
        && let Some(options) = fields.get("options").and_then(|options| self::fields(options.get()))
    {
        fields = options;
    }
    let value_of = |name: &str| {
        let value = fields.get(name).and_then(|value| baton_json::from_str::<Value>(value.get()).ok());
        value.unwrap_or_default()
    };
    let is_asked_for =
        |option: &&Ignored| asks(option.asks, &value_of(option.name), || value_of("mcpServers"));
    let asked_for = ignored.filter(is_asked_for);
    asked_for
        .map(|option| format!("The option {} has no effect: {}.", option.name, option.consequence))
        .collect()
}

fn fields(object: &str) -> Option<BTreeMap<String, &RawValue>> {
    baton_json::from_str(object).ok()
}

/// Whether an option with this value asks for something.
fn asks(asks: Asks, value: &Value, servers: impl Fn() -> Value) -> bool {
    match asks {
        Asks::WhenSet => is_set(value),
        Asks::Unless(obeyed) => is_set(value) && value != obeyed,
        Asks::WhenFalse => *value == Value::Bool(false),
        Asks::WhenPresent => !value.is_null(),
        Asks::WithServers(asking) => {
            value == asking && servers().as_object().is_some_and(|map| !map.is_empty())
        }
    }
}

/// Whether a value is on: SDKs also send options that are off or empty.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !matches!(text.as_str(), "" | "off" | "none" | "default"),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) if fields.get("enabled") == Some(&Value::Bool(false)) => false,
        Value::Object(fields) => fields.values().any(is_set),
        Value::Bool(true) | Value::Number(_) => true,
    }
}

/// Returns the warning for a working directory that does not exist.
pub(super) async fn missing_directory(params: &SessionParams) -> Option<String> {
    let directory = params.working_directory.as_ref().filter(|directory| !directory.is_empty())?;
    let exists = baton_files::context::is_directory(directory.into()).await;
    (!exists).then(|| {
        format!(
            "The working directory {directory} does not exist or is not a directory: tools will fail in it."
        )
    })
}

/// Shows warnings in a session, before the next call of the client is handled. The history has those of its creation only:
/// a client that resumes sends the same options each time.
pub(super) fn warn(handle: &LiveSession, warnings: Vec<String>, kind: JoinKind) {
    let ephemeral = kind == JoinKind::Resume;
    for message in warnings {
        let change = Change::Log { level: LogLevel::Warning, message, url: None, ephemeral };
        // A session that has ended meanwhile has nobody to warn.
        let _ = handle.tell(Amend::unsigned(change));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::table::HARMLESS;
    use super::*;

    fn described(params: Value) -> Vec<String> {
        describe(&Json::from(params))
    }

    /// The options that published SDKs can send.
    fn known_options() -> impl Iterator<Item = &'static str> {
        let lines = include_str!("../../../../../tests/sdk/session-options.txt").lines();
        lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
    }

    #[test]
    fn every_option_of_the_sdks_is_implemented_or_listed() {
        let implemented = serde_json::to_value(SessionParams::default()).unwrap();
        let listed = |name: &str| {
            IGNORED.iter().any(|option| option.name == name)
                || HARMLESS.iter().any(|(option, _)| *option == name)
        };
        let neither: Vec<_> =
            known_options().filter(|name| implemented.get(name).is_none() && !listed(name)).collect();
        assert_eq!(neither, Vec::<&str>::new(), "implement them, or list them in table.rs");
        let known: Vec<_> = known_options().collect();
        let unknown = |name: &&str| !known.contains(name);
        assert_eq!(IGNORED.iter().map(|option| option.name).find(unknown), None);
        assert_eq!(HARMLESS.iter().map(|(name, _)| *name).find(unknown), None);
        let both = HARMLESS.iter().find(|(name, _)| IGNORED.iter().any(|option| option.name == *name));
        assert_eq!(both, None);
    }

    #[test]
    fn values_that_ask_for_a_restriction_are_described() {
        for params in [
            json!({"allowTranscriptRecovery": false}),
            json!({"includedBuiltinAgents": []}),
            json!({"askUserVariant": "elicitation"}),
            json!({"envValueMode": "indirect"}),
            json!({"mcpOAuthTokenStorage": "in-memory", "mcpServers": {"s": {"type": "http"}}}),
            json!({"trustWorkingDirectory": "session"}),
            json!({"enableFileHooks": true}),
            json!({"options": {}, "enableFileHooks": true}),
        ] {
            assert_eq!(described(params.clone()).len(), 1, "{params}");
        }
        let update = |params| describe_update(&Json::from(params));
        assert_eq!(update(json!({"enableSkills": false})).len(), 1);
        assert_eq!(
            update(json!({"askUserDisabled": true, "skipCustomInstructions": true})),
            Vec::<String>::new()
        );
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
        for (warning, name) in warnings.iter().zip(["sessionLimits", "cloud", "enableSessionTelemetry"]) {
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
            "mcpServers": {}, "askUserVariant": "legacy", "allowTranscriptRecovery": true, "featureFlags": {},
            "toolSearch": {"enabled": false, "deferThreshold": 30}, "autopilot": {"continuationEnabled": false},
        }));
        assert_eq!(warnings, Vec::<String>::new());
        // Sent by SDKs in their mode "empty".
        let warnings = describe_update(&Json::from(json!({
            "sessionId": "s", "skipCustomInstructions": true, "customAgentsLocalOnly": true, "coauthorEnabled": false,
            "manageScheduleEnabled": false, "installedPlugins": [], "includedBuiltinSkills": [],
        })));
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
