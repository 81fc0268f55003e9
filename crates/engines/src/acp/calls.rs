//! Tool calls of an agent. Agents report them in pieces, and each omits different ones: the first report of a call may
//! be its announcement, its permission request or its result.

use std::collections::{HashMap, HashSet};

use baton_protocol::tool::ResultType;
use serde_json::{Value, json};

use super::tool_call::{ToolCall, ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolKind};
use crate::adapter::{Steps, tool_result};
use crate::fragments::CallOutputs;
use crate::json::text;

#[derive(Debug, Default)]
pub(super) struct Calls {
    /// The reports of each call so far.
    known: HashMap<String, ToolCall>,
    /// Calls that were denied.
    denied: HashSet<String>,
    outputs: CallOutputs,
}

impl Calls {
    pub(super) fn deny(&mut self, id: String) {
        self.denied.insert(id);
    }

    /// Ends the prompt. Some agents do not report a denied call again, so its result is made here.
    pub(super) fn end(&mut self, steps: &mut Steps) {
        for id in self.denied.drain() {
            steps.call_finished(&id, tool_result("Permission denied.".to_owned(), ResultType::Denied));
        }
    }

    /// Handles the announcement of a call, which may lack its arguments.
    pub(super) fn announced(&mut self, call: ToolCall, steps: &mut Steps) {
        let id = call.id.clone();
        self.known.insert(id.clone(), call);
        self.report(&id, steps);
    }

    pub(super) fn updated(&mut self, update: ToolCallUpdate, steps: &mut Steps) {
        let id = self.merge(update).id.clone();
        self.report(&id, steps);
    }

    /// Handles the permission request of a call. Reports the call as started.
    pub(super) fn permission_requested(&mut self, update: ToolCallUpdate, steps: &mut Steps) -> ToolCall {
        let call = self.merge(update).clone();
        start(&call, steps);
        call
    }

    fn merge(&mut self, update: ToolCallUpdate) -> &ToolCall {
        let id = update.id.clone();
        let call = self.known.entry(id.clone()).or_insert_with(|| ToolCall { id, ..ToolCall::default() });
        call.update(update);
        call
    }

    /// Reports what is new about a call.
    fn report(&mut self, id: &str, steps: &mut Steps) {
        let Some(call) = self.known.get(id) else { return };
        match call.status {
            ToolCallStatus::InProgress => {
                start(call, steps);
                self.outputs.update(id, output(call), steps);
            }
            ToolCallStatus::Completed | ToolCallStatus::Failed => {
                start(call, steps);
                let result_type = match call.status {
                    _ if self.denied.remove(id) => ResultType::Denied,
                    ToolCallStatus::Completed if exit_code(call).unwrap_or(0) == 0 => ResultType::Success,
                    _ => ResultType::Failure,
                };
                steps.call_finished(id, tool_result(output(call), result_type));
                // Its output may be long, and there may be many calls.
                self.outputs.remove(id);
                let status = call.status;
                self.known
                    .insert(id.to_owned(), ToolCall { id: id.to_owned(), status, ..ToolCall::default() });
            }
            ToolCallStatus::Pending => {}
        }
    }
}

fn start(call: &ToolCall, steps: &mut Steps) {
    let arguments = call.raw_input.clone().filter(Value::is_object);
    let arguments = arguments.unwrap_or_else(|| match call.kind {
        ToolKind::Execute => json!({"command": call.title}),
        _ => json!({"title": call.title, "locations": call.locations}),
    });
    steps.call_started(&call.id, tool(call), arguments);
}

/// Returns the name of the built-in tool that does the same, if there is one.
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
        ToolKind::Other => call.name.as_deref().or(call.title.split_whitespace().next()).unwrap_or("tool"),
    }
}

/// Returns the output of a call: the raw output if the agent reports it as text, else the content that the agent
/// displays.
fn output(call: &ToolCall) -> String {
    if let Some(raw) = call.raw_output.as_ref().and_then(Value::as_str) {
        return raw.to_owned();
    }
    let content = call.content.iter().map(|content| match content {
        ToolCallContent::Text(text) => text.clone(),
        ToolCallContent::Diff(diff) => diff.path.display().to_string(),
    });
    let content = content.collect::<Vec<_>>().join("\n");
    if !content.is_empty() {
        return content;
    }
    let raw = call.raw_output.as_ref();
    let output = raw.and_then(|raw| text(raw, "/output").or(text(raw, "/error")));
    output.unwrap_or_default().to_owned()
}

fn exit_code(call: &ToolCall) -> Option<i64> {
    call.raw_output.as_ref()?.pointer("/metadata/exit")?.as_i64()
}
