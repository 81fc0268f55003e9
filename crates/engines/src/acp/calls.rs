//! Calls of an agent's tools. Agents tell of them in pieces, and each leaves out others: a call may first be heard of when
//! it is announced, when it asks for permission, or when it is done.

use std::collections::{HashMap, HashSet};

use agent_client_protocol_schema::v1::{ToolCall, ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolKind};
use baton_protocol::tool::{ResultType, ToolResult};
use serde_json::{Value, json};

use super::updates::words;
use crate::Report;
use crate::dialect::Steps;
use crate::json::text;

#[derive(Debug, Default)]
pub(super) struct Calls {
    /// What is known of each.
    known: HashMap<String, ToolCall>,
    /// Calls that somebody did not allow.
    denied: HashSet<String>,
    /// What was told of the output of those that run.
    outputs: HashMap<String, String>,
}

impl Calls {
    pub(super) fn deny(&mut self, id: String) {
        self.denied.insert(id);
    }

    /// The prompt is done. Some do not speak of a call again that was not allowed.
    pub(super) fn end(&mut self, steps: &mut Steps) {
        for id in self.denied.drain() {
            let result_type = ResultType::Denied;
            let said = "It was not allowed.".to_owned();
            steps.call_finished(
                &id,
                ToolResult { text_result_for_llm: said, result_type, ..ToolResult::default() },
            );
        }
    }

    /// A call was announced, with its arguments or before they are known.
    pub(super) fn begun(&mut self, call: ToolCall, steps: &mut Steps) {
        let id = call.tool_call_id.0.to_string();
        self.known.insert(id.clone(), call);
        self.tell(&id, steps);
    }

    pub(super) fn updated(&mut self, update: &ToolCallUpdate, steps: &mut Steps) {
        self.learn(update);
        self.tell(&update.tool_call_id.0, steps);
    }

    /// Somebody must decide about a call, so it has begun.
    pub(super) fn wanted(&mut self, update: &ToolCallUpdate, steps: &mut Steps) -> ToolCall {
        let call = self.learn(update).clone();
        start(&call, steps);
        call
    }

    fn learn(&mut self, update: &ToolCallUpdate) -> &ToolCall {
        let id = update.tool_call_id.clone();
        let call = self.known.entry(id.0.to_string()).or_insert_with(|| ToolCall::new(id, ""));
        let mut fields = update.fields.clone();
        // Some know less when they ask than when they began.
        if fields.kind == Some(ToolKind::Other) {
            fields.kind = None;
        }
        call.update(fields);
        call
    }

    fn tell(&mut self, id: &str, steps: &mut Steps) {
        let Some(call) = self.known.get(id) else { return };
        match call.status {
            ToolCallStatus::InProgress => {
                start(call, steps);
                let all = output(call);
                let told = self.outputs.entry(id.to_owned()).or_default();
                if let Some(new) = all.strip_prefix(told.as_str()) {
                    steps.report(Report::CallOutput { id: id.to_owned(), output: new.to_owned() });
                    *told = all;
                }
            }
            ToolCallStatus::Completed | ToolCallStatus::Failed => {
                start(call, steps);
                let result_type = match call.status {
                    _ if self.denied.remove(id) => ResultType::Denied,
                    ToolCallStatus::Completed if exit_code(call).unwrap_or(0) == 0 => ResultType::Success,
                    _ => ResultType::Failure,
                };
                let said = output(call);
                steps.call_finished(
                    id,
                    ToolResult { text_result_for_llm: said, result_type, ..ToolResult::default() },
                );
            }
            // Its arguments may still be under way.
            _ => {}
        }
    }
}

fn start(call: &ToolCall, steps: &mut Steps) {
    let arguments = call.raw_input.clone().filter(Value::is_object);
    let arguments = arguments.unwrap_or_else(|| match call.kind {
        ToolKind::Execute => json!({"command": call.title}),
        _ => json!({"title": call.title, "locations": call.locations}),
    });
    steps.call_started(&call.tool_call_id.0, tool(call), arguments);
}

/// The name of a tool as our own tools are called.
fn tool(call: &ToolCall) -> &str {
    match call.kind {
        ToolKind::Execute => "bash",
        ToolKind::Edit => "edit",
        ToolKind::Read => "view",
        ToolKind::Search => "grep",
        ToolKind::Fetch => "web_fetch",
        ToolKind::Delete => "delete",
        ToolKind::Move => "move",
        ToolKind::Think => "think",
        _ => call.name.as_deref().or(call.title.split_whitespace().next()).unwrap_or("tool"),
    }
}

/// What a tool has said: as it said it, if the agent tells us that, else as the agent shows it.
fn output(call: &ToolCall) -> String {
    if let Some(raw) = call.raw_output.as_ref().and_then(Value::as_str) {
        return raw.to_owned();
    }
    let content = call.content.iter().filter_map(|content| match content {
        ToolCallContent::Content(content) => Some(words(content.content.clone())),
        ToolCallContent::Diff(diff) => Some(diff.path.display().to_string()),
        _ => None,
    });
    let content = content.collect::<Vec<_>>().join("\n");
    if !content.is_empty() {
        return content;
    }
    let raw = call.raw_output.as_ref();
    let said = raw.and_then(|raw| text(raw, "/output").or(text(raw, "/error")));
    said.unwrap_or_default().to_owned()
}

fn exit_code(call: &ToolCall) -> Option<i64> {
    call.raw_output.as_ref()?.pointer("/metadata/exit")?.as_i64()
}
