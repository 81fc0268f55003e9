//! Hooks: points at which a client may look, advise or refuse. One client is asked, the newest that has hooks.

use std::collections::BTreeMap;

use baton_protocol::event::{HookEnd, HookStart};
use baton_protocol::{Json, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

use super::Bench;
use crate::session::{CallFailed, Port};

/// What a hook said.
#[derive(Debug, Clone)]
pub(super) struct HookOutput(Value);

impl HookOutput {
    /// One of its fields, if it is a text with something in it.
    pub(super) fn text(&self, field: &str) -> Option<String> {
        self.0.get(field)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// One of its fields, as JSON.
    pub(super) fn json(&self, field: &str) -> Option<Json> {
        self.0.get(field).filter(|value| !value.is_null()).map(|value| Json::from(value.clone()))
    }
}

#[derive(Deserialize)]
struct Answer {
    output: Option<Value>,
}

fn client_with_hooks(bench: &Bench) -> Option<Arc<dyn Port>> {
    let mut clients = bench.session.live.clients.iter().rev().filter(|(_, profile)| profile.hooks);
    clients.find_map(|(client, _)| bench.hub.port(*client))
}

/// Asks the hook, if a client has hooks. A hook that fails, or says nothing, is as good as none: it is noted in the
/// history and changes nothing.
pub(super) async fn invoke(bench: &Bench, hook: &'static str, extra: Value) -> Option<HookOutput> {
    let port = client_with_hooks(bench)?;
    let session = &bench.session;
    // A sub-agent is a session to hooks, so that they can tell its calls from the main conversation's.
    let speaker = bench.agent.as_ref().map_or(session.id.as_str(), |agent| agent.as_str());
    let mut input = json!({
        "sessionId": speaker,
        "timestamp": Timestamp::now().as_millis(),
        "cwd": session.durable.facts.context.cwd,
    });
    if let (Some(input), Value::Object(extra)) = (input.as_object_mut(), extra) {
        input.extend(extra);
    }
    let hook_invocation_id = uuid::Uuid::new_v4().to_string();
    bench.note(HookStart {
        hook_invocation_id: hook_invocation_id.clone(),
        hook_type: hook.to_owned(),
        input: Some(Json::from(input.clone())),
    });
    let params = json!({ "sessionId": session.id, "hookType": hook, "input": input });
    let answer = port.call("hooks.invoke", params).await;
    let output = match &answer {
        Ok(json) => json.parse::<Answer>().ok().and_then(|answer| answer.output).filter(Value::is_object),
        Err(_) => None,
    };
    let error = answer.err().map(|failed: CallFailed| Json::from(json!({ "message": failed.to_string() })));
    bench.note(HookEnd {
        hook_invocation_id,
        hook_type: hook.to_owned(),
        success: error.is_none(),
        output: output.clone().map(Json::from),
        error,
    });
    output.map(HookOutput)
}

/// Asks whether the turn may end. A hook that blocks says what the model should go on with.
pub(super) async fn review(bench: &Bench) -> Option<String> {
    let again = bench.conversation.transcript().ends_with_hook();
    let transcript = bench.tools.directory().join("events.jsonl");
    let input = json!({ "stopReason": "end_turn", "transcriptPath": transcript, "stop_hook_active": again });
    let output = invoke(bench, "agentStop", input).await?;
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

/// Has the client that set up the system prompt rewrite sections of it. Without an answer they stay as they are.
pub(super) async fn transform(bench: &Bench, sections: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let given: serde_json::Map<String, Value> =
        sections.into_iter().map(|(name, content)| (name, json!({ "content": content }))).collect();
    let params = json!({ "sessionId": bench.session.id, "sections": given });
    for client in bench.session.live.clients.keys().rev() {
        let Some(port) = bench.hub.port(*client) else { continue };
        if let Ok(answer) = port.call("systemMessage.transform", params.clone()).await
            && let Ok(transformed) = answer.parse::<Transformed>()
        {
            return transformed.sections.into_iter().map(|(name, section)| (name, section.content)).collect();
        }
    }
    BTreeMap::new()
}
