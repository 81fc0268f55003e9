//! Hooks: callbacks of clients, and commands of plugins, that see or change prompts, tool calls and results.
//!
//! Commands of plugins come first, then extensions, and the newest other client with hooks last. Each sees what those before
//! it have changed, so the application's hook decides about exactly what would run. Plugins and extensions can forbid a
//! call or have it asked about, and cannot approve one.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_core::Profile;
use baton_protocol::event::{HookEnd, HookStart};
use baton_protocol::{ClientId, Json, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{WorkScope, plugin_hooks};
use crate::session::{CallFailed, Port};

/// Output of a hook.
#[derive(Debug, Clone)]
pub(super) struct HookOutput(Value);

impl HookOutput {
    /// Returns a field that is a string and not empty.
    pub(super) fn text(&self, field: &str) -> Option<String> {
        self.0.get(field)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// Returns a field that is an object.
    pub(super) fn object(&self, field: &str) -> Option<serde_json::Map<String, Value>> {
        self.0.get(field)?.as_object().cloned()
    }

    /// Returns a field that is not null.
    pub(super) fn json(&self, field: &str) -> Option<Json> {
        self.0.get(field).filter(|value| !value.is_null()).map(|value| Json::from(value.clone()))
    }
}

#[derive(Deserialize)]
struct HookReply {
    output: Option<Value>,
}

/// Returns the ports of clients with hooks, in the order in which they are called: all extensions, and the newest other
/// client. The flag says whether it is an extension.
fn ports_with_hooks(scope: &WorkScope) -> Vec<(bool, Arc<dyn Port>)> {
    let with_hooks = || scope.session.live.clients.iter().filter(|(_, profile)| profile.hooks);
    let port = |(client, profile): (&ClientId, &Arc<Profile>)| {
        Some((profile.is_extension, scope.hub.port(*client)?))
    };
    let extensions = with_hooks().filter(|(_, profile)| profile.is_extension).filter_map(port);
    let other = with_hooks().rev().filter(|(_, profile)| !profile.is_extension).find_map(port);
    extensions.chain(other).collect()
}

/// Invokes a hook. One that fails, or returns no output, changes nothing; but a plugin's guard of tool calls that
/// fails denies the call. The history records all.
pub(super) async fn invoke(scope: &WorkScope, hook: &'static str, extra: Value) -> Option<HookOutput> {
    let (commands, ports) = (scope.tools.skills().current().hooks(hook), ports_with_hooks(scope));
    if commands.is_empty() && ports.is_empty() {
        return None;
    }
    let mut input = input(scope, extra);
    let mut outputs = Vec::new();
    for command in &commands {
        let running = async {
            let output = plugin_hooks::run(scope, command, &input).await;
            output.map_err(|why| format!("hook of the plugin {} failed: {why}", command.plugin))
        };
        let output = match recorded(scope, hook, &input, running).await {
            Ok(output) => output.map(without_approval),
            Err(why) if hook == "preToolUse" => {
                Some(json!({ "permissionDecision": "deny", "permissionDecisionReason": why }))
            }
            Err(_) => None,
        };
        outputs.extend(output.inspect(|output| apply_to(&mut input, output)));
    }
    for (is_extension, port) in ports {
        let params = json!({ "sessionId": scope.session.id, "hookType": hook, "input": input });
        let calling = async {
            let reply = port.call("hooks.invoke", params).await;
            let output = |json: Json| json.parse::<HookReply>().ok().and_then(|reply| reply.output);
            reply
                .map(|json| output(json).unwrap_or_default())
                .map_err(|failed: CallFailed| failed.to_string())
        };
        let output = recorded(scope, hook, &input, calling).await.ok().flatten();
        let output = if is_extension { output.map(without_approval) } else { output };
        outputs.extend(output.inspect(|output| apply_to(&mut input, output)));
    }
    outputs.into_iter().reduce(combined).map(HookOutput)
}

fn input(scope: &WorkScope, extra: Value) -> Value {
    let session = &scope.session;
    // Hooks see a sub-agent as a session, so that they can distinguish its calls from those of the main conversation.
    let conversation = scope.agent.as_ref().map_or(session.id.as_str(), |agent| agent.as_str());
    let mut input = json!({
        "sessionId": conversation,
        "timestamp": Timestamp::now().as_millis(),
        "cwd": session.durable.facts.context.cwd,
    });
    if let (Some(input), Value::Object(extra)) = (input.as_object_mut(), extra) {
        input.extend(extra);
    }
    input
}

/// Runs a hook, and records its start and end. Returns its output, if that is an object.
async fn recorded(
    scope: &WorkScope,
    hook: &'static str,
    input: &Value,
    running: impl Future<Output = Result<Value, String>>,
) -> Result<Option<Value>, String> {
    let hook_invocation_id = uuid::Uuid::new_v4().to_string();
    scope.note(HookStart {
        hook_invocation_id: hook_invocation_id.clone(),
        hook_type: hook.to_owned(),
        input: Some(Json::from(input.clone())),
    });
    let output = running.await.map(|output| Some(output).filter(Value::is_object));
    let error = output.as_ref().err().map(|why| Json::from(json!({ "message": why })));
    scope.note(HookEnd {
        hook_invocation_id,
        hook_type: hook.to_owned(),
        success: error.is_none(),
        output: output.as_ref().ok().cloned().flatten().map(Json::from),
        error,
    });
    output
}

/// Fields of outputs that replace fields of the input.
const REPLACEMENTS: [(&str, &str); 4] = [
    ("modifiedArgs", "toolArgs"),
    ("modifiedPrompt", "prompt"),
    ("modifiedTransformedPrompt", "transformedPrompt"),
    ("modifiedResult", "toolResult"),
];

/// Changes the input of the next hook as the output of this one says.
fn apply_to(input: &mut Value, output: &Value) {
    for (replacement, field) in REPLACEMENTS {
        let replacement = output.get(replacement).filter(|replacement| !replacement.is_null());
        if let (Some(replacement), Some(field)) = (replacement, input.get_mut(field)) {
            *field = replacement.clone();
        }
    }
}

/// Removes an approval: a plugin or an extension can forbid a call or have it asked about, and cannot allow it in place of the user.
fn without_approval(mut output: Value) -> Value {
    if let Some(fields) = output.as_object_mut()
        && fields.get("permissionDecision").is_none_or(|decision| decision != "deny" && decision != "ask")
    {
        fields.remove("permissionDecision");
    }
    output
}

/// Combines the outputs of two hooks: contexts are joined, the stricter decision counts, and other fields of the later one.
fn combined(earlier: Value, later: Value) -> Value {
    let (Value::Object(mut combined), Value::Object(later)) = (earlier, later) else { return Value::Null };
    let rank = |decision: Option<&Value>| match decision.and_then(Value::as_str) {
        Some("deny") => 3,
        Some("ask") => 2,
        Some("allow") => 1,
        _ => 0,
    };
    let keeps = rank(combined.get("permissionDecision")) > rank(later.get("permissionDecision"));
    for (name, value) in later {
        match (name.as_str(), combined.get(&name).and_then(Value::as_str), value.as_str()) {
            ("permissionDecision" | "permissionDecisionReason", ..) if keeps => {}
            // Not a change: the later hook has seen the earlier one's, and decided about that.
            _ if value.is_null() && combined.contains_key(&name) => {}
            ("additionalContext", Some(known), Some(more)) => {
                let joined = json!(format!("{known}\n\n{more}"));
                combined.insert(name, joined);
            }
            _ => drop(combined.insert(name, value)),
        }
    }
    Value::Object(combined)
}

/// Invokes the `agentStop` hook. Returns its reason if it does not let the turn end: the next prompt for the model.
pub(super) async fn review(scope: &WorkScope) -> Option<String> {
    let again = scope.conversation.transcript().ends_with_hook();
    let transcript = scope.tools.files().events();
    let input = json!({ "stopReason": "end_turn", "transcriptPath": transcript, "stop_hook_active": again });
    let output = invoke(scope, "agentStop", input).await?;
    (output.text("decision").as_deref() == Some("block")).then(|| output.text("reason").unwrap_or_default())
}

#[derive(Deserialize)]
struct Transformed {
    sections: BTreeMap<String, Section>,
}

#[derive(Deserialize)]
struct Section {
    content: String,
}

/// Lets a client that is no extension rewrite sections of the system prompt. Returns the changed sections: none if no client replies.
pub(super) async fn transform(
    scope: &WorkScope,
    sections: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let given: serde_json::Map<String, Value> =
        sections.into_iter().map(|(name, content)| (name, json!({ "content": content }))).collect();
    let params = json!({ "sessionId": scope.session.id, "sections": given });
    let clients = scope.session.live.clients.iter().rev();
    for (client, _) in clients.filter(|(_, profile)| !profile.is_extension) {
        let Some(port) = scope.hub.port(*client) else { continue };
        if let Ok(reply) = port.call("systemMessage.transform", params.clone()).await
            && let Ok(transformed) = reply.parse::<Transformed>()
        {
            return transformed.sections.into_iter().map(|(name, section)| (name, section.content)).collect();
        }
    }
    BTreeMap::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stricter_decision_counts_whatever_the_order() {
        let decision =
            |decision: &str| json!({ "permissionDecision": decision, "permissionDecisionReason": decision });
        for (a, b, counts) in [("deny", "allow", "deny"), ("ask", "deny", "deny"), ("allow", "ask", "ask")] {
            for (earlier, later) in [(a, b), (b, a)] {
                let output = combined(decision(earlier), decision(later));
                assert_eq!(output["permissionDecision"], counts);
                assert_eq!(output["permissionDecisionReason"], counts);
            }
        }
        let both = combined(
            json!({ "additionalContext": "a", "x": 1 }),
            json!({ "additionalContext": "b", "x": 2 }),
        );
        assert_eq!(both, json!({ "additionalContext": "a\n\nb", "x": 2 }));
    }

    #[test]
    fn later_hook_sees_what_an_earlier_one_changed_and_decides_about_that() {
        let mut input = json!({ "toolName": "bash", "toolArgs": { "command": "ls" } });
        let earlier = json!({ "modifiedArgs": { "command": "rm -r ." }, "modifiedPrompt": "no such field" });
        apply_to(&mut input, &earlier);
        assert_eq!(input, json!({ "toolName": "bash", "toolArgs": { "command": "rm -r ." } }));
        let both = combined(earlier, json!({ "permissionDecision": "allow", "modifiedArgs": null }));
        assert_eq!(both["modifiedArgs"], input["toolArgs"], "what was allowed is what runs");
    }

    #[test]
    fn plugins_cannot_approve() {
        let allowed = json!({ "permissionDecision": "allow", "additionalContext": "x" });
        assert_eq!(without_approval(allowed), json!({ "additionalContext": "x" }));
        assert_eq!(without_approval(json!({ "permissionDecision": "ask" }))["permissionDecision"], "ask");
    }
}
