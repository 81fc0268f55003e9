//! Hooks: callbacks of a client that see or change prompts, tool calls and results. Only the newest client with hooks is
//! called.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_protocol::event::{HookEnd, HookStart};
use baton_protocol::{Json, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::WorkScope;
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

fn client_with_hooks(scope: &WorkScope) -> Option<Arc<dyn Port>> {
    let mut clients = scope.session.live.clients.iter().rev().filter(|(_, profile)| profile.hooks);
    clients.find_map(|(client, _)| scope.hub.port(*client))
}

/// Invokes a hook, if a client has hooks. A hook that fails, or returns no output, changes nothing; the history records it.
pub(super) async fn invoke(scope: &WorkScope, hook: &'static str, extra: Value) -> Option<HookOutput> {
    let port = client_with_hooks(scope)?;
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
    let hook_invocation_id = uuid::Uuid::new_v4().to_string();
    scope.note(HookStart {
        hook_invocation_id: hook_invocation_id.clone(),
        hook_type: hook.to_owned(),
        input: Some(Json::from(input.clone())),
    });
    let params = json!({ "sessionId": session.id, "hookType": hook, "input": input });
    let reply = port.call("hooks.invoke", params).await;
    let output = match &reply {
        Ok(json) => json.parse::<HookReply>().ok().and_then(|reply| reply.output).filter(Value::is_object),
        Err(_) => None,
    };
    let error = reply.err().map(|failed: CallFailed| Json::from(json!({ "message": failed.to_string() })));
    scope.note(HookEnd {
        hook_invocation_id,
        hook_type: hook.to_owned(),
        success: error.is_none(),
        output: output.clone().map(Json::from),
        error,
    });
    output.map(HookOutput)
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

/// Lets a client rewrite sections of the system prompt. Returns the changed sections: none if no client replies.
pub(super) async fn transform(
    scope: &WorkScope,
    sections: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let given: serde_json::Map<String, Value> =
        sections.into_iter().map(|(name, content)| (name, json!({ "content": content }))).collect();
    let params = json!({ "sessionId": scope.session.id, "sections": given });
    for client in scope.session.live.clients.keys().rev() {
        let Some(port) = scope.hub.port(*client) else { continue };
        if let Ok(reply) = port.call("systemMessage.transform", params.clone()).await
            && let Ok(transformed) = reply.parse::<Transformed>()
        {
            return transformed.sections.into_iter().map(|(name, section)| (name, section.content)).collect();
        }
    }
    BTreeMap::new()
}
