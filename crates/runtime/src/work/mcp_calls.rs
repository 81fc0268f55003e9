//! Calls of tools of MCP servers.

use std::sync::Arc;

use baton_agent::tools;
use baton_core::policy::Advice;
use baton_core::{Call, Prepared, Route};
use baton_mcp::{OfferedTool, Progress, Server, ToolCallError, contents};
use baton_protocol::event::{ToolProgress, ToolRequest};
use baton_protocol::permission::PermissionRequest;
use baton_protocol::tool::{BinaryResult, ToolResult};
use baton_protocol::{Json, ToolCallId};
use serde_json::{Map, Value, json};

use super::{WorkScope, hooks, prompt, sub_agents};

/// Bytes of parts that the history records as the server sent them.
const RECORDED: usize = 1024 * 1024;
/// Bytes of all images of a result.
const IMAGES: usize = 8 * 1024 * 1024;

/// Completes the request of a call with the server and the tool that it names.
pub(super) fn named(scope: &WorkScope, request: &mut ToolRequest) {
    if let Some(tool) = scope.mcp_tool(&request.name) {
        request.mcp_server_name = Some(tool.server.name().to_owned());
        request.mcp_tool_name = Some(tool.tool.name.clone());
        request.tool_title = Some(tool.tool.title.clone());
    }
}

/// Describes a call for a permission request. A tool that has changed since it was last called is asked about again: a
/// grant was given for what it was.
pub(super) async fn prepare(
    scope: &WorkScope,
    call: &Call,
    tool: &OfferedTool,
    arguments: &Json,
) -> Prepared {
    let mut wants = wanted(Some(&call.id), tool.server.name(), &tool.tool.name, arguments);
    let bound = tool.binding();
    if let PermissionRequest::Mcp { tool_title, read_only, binding, .. } = &mut wants {
        binding.clone_from(&bound);
        tool_title.clone_from(&tool.tool.title);
        // A hint of a stranger: shown, and believed only where the configuration says so.
        *read_only = tool.tool.read_only_hint;
    }
    let has_changed = match &bound {
        Some(binding) => scope.runtime.tool_digests.has_changed(&tool.tool.name, binding).await,
        None => false,
    };
    let advice = match (has_changed, tool.is_trusted()) {
        (true, _) => Advice::EachTime,
        (false, true) => Advice::Allow,
        (false, false) => Advice::None,
    };
    Prepared::Runnable { route: Route::BuiltIn, wants: Some(wants), advice, cwd: None, arguments: None }
}

/// Returns the permission request of a call.
pub(super) fn wanted(
    call: Option<&ToolCallId>,
    server: &str,
    tool: &str,
    arguments: &Json,
) -> PermissionRequest {
    PermissionRequest::Mcp {
        tool_call_id: call.cloned(),
        server_name: server.to_owned(),
        tool_name: tool.to_owned(),
        tool_title: tool.to_owned(),
        args: Some(arguments.clone()),
        read_only: false,
        binding: None,
    }
}

/// Finds the tool of a call. Starts the servers if a call that was approved before a restart needs them. `None` if it is
/// not the tool that the binding names, also if the server has changed it while the answer was awaited.
pub(super) async fn approved(scope: &WorkScope, name: &str, binding: &str) -> Option<OfferedTool> {
    match scope.mcp_tool(name) {
        Some(tool) => tool.server.refresh().await,
        None => {
            if let Some(agent) = scope.delegate() {
                sub_agents::ready_servers(scope, &agent.kind).await;
            }
            scope.tools.mcp().ready(&scope.settings, prompt::cwd(scope), true).await;
        }
    }
    scope.mcp_tool(name).filter(|tool| tool.binding().as_deref() == Some(binding))
}

/// Calls a tool.
pub(super) async fn run(scope: &WorkScope, call: &Call, tool: &OfferedTool, arguments: &Json) -> ToolResult {
    let (server, name) = (tool.server.name(), &tool.tool.name);
    if let Some(binding) = tool.binding() {
        scope.runtime.tool_digests.remember(name, &binding).await;
    }
    let input = json!({
        "serverName": server,
        "toolName": name,
        "arguments": arguments,
        "toolCallId": call.id,
    });
    let output = hooks::invoke(scope, "preMcpToolCall", input).await;
    let meta = output.and_then(|output| output.object("metaToUse"));
    let Ok(arguments) = arguments.parse::<Map<String, Value>>() else {
        return failure(server, "the arguments are not an object");
    };
    let (hub, cancel, id, agent) =
        (scope.hub.clone(), scope.cancel.clone(), call.id.clone(), scope.agent.clone());
    let runtime = scope.runtime.clone();
    let show = move |progress: Progress| {
        let progress_message = runtime.secrets.hide_in(&described(&progress));
        let shown = ToolProgress { tool_call_id: id.clone(), progress_message };
        hub.show_for(agent.as_ref(), [shown.into()], &cancel);
    };
    let request = baton_mcp::ServerCall {
        tool: name.clone(),
        approved: Some(tool.tool.clone()),
        arguments,
        meta,
        patience: Server::patience(),
        cancel: scope.cancel.clone(),
        progress: Arc::new(show),
    };
    match tool.server.call(request).await {
        Ok(result) => converted(server, &result),
        Err(ToolCallError::Cancelled) => tools::interrupted(),
        Err(error) => failure(server, &error.to_string()),
    }
}

fn failure(server: &str, problem: &str) -> ToolResult {
    let text = format!("MCP server '{server}': {problem}");
    ToolResult { error: Some(text.clone()), ..ToolResult::failure(text) }
}

/// Converts the result of a server.
fn converted(server: &str, result: &Value) -> ToolResult {
    let contents = contents(result);
    let mut converted = match contents.is_error {
        true => failure(server, &contents.text),
        false => ToolResult::success(contents.text),
    };

    let mut room = IMAGES;
    for (data, mime_type) in contents.images {
        match room.checked_sub(data.len()) {
            Some(rest) => {
                room = rest;
                let image = BinaryResult { kind: "image".into(), data, mime_type, description: None };
                converted.binary_results_for_llm.push(image);
            }
            None => converted.text_result_for_llm.push_str("\n[an image that was too large]"),
        }
    }
    converted.contents = recorded(&Value::Array(contents.parts));
    converted.structured_content = contents.structured.as_ref().and_then(recorded);
    converted
}

/// Returns what the history records of a value; nothing if it is too large, because the model's text is recorded anyway.
fn recorded(value: &Value) -> Option<Json> {
    let json = Json::from(value.clone());
    (json.as_str().len() <= RECORDED).then_some(json)
}

/// Describes progress for people: `1.0/2.0 (50%): message`.
fn described(progress: &Progress) -> String {
    let done = progress.progress;
    let share = match progress.total {
        Some(total) if total > 0.0 => format!("{done:?}/{total:?} ({:.0}%)", done / total * 100.0),
        _ => format!("{done:?}"),
    };
    match &progress.message {
        Some(message) => format!("{share}: {message}"),
        None => share,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_described() {
        let progress = |progress, total, message: Option<&str>| {
            described(&Progress { progress, total, message: message.map(str::to_owned) })
        };
        assert_eq!(progress(1.0, Some(2.0), Some("half")), "1.0/2.0 (50%): half");
        assert_eq!(progress(3.0, None, None), "3.0");
        assert_eq!(progress(3.0, Some(0.0), None), "3.0");
    }

    #[test]
    fn results_are_converted() {
        let result = json!({ "isError": true, "content": [
            { "type": "text", "text": "no" },
            { "type": "image", "data": "AAAA", "mimeType": "image/png" },
            { "type": "image", "data": "A".repeat(IMAGES), "mimeType": "image/png" },
        ]});
        let converted = converted("s", &result);
        assert_eq!(converted.error.as_deref(), Some("MCP server 's': no"));
        assert_eq!(converted.result_type, baton_protocol::tool::ResultType::Failure);
        assert_eq!(converted.binary_results_for_llm.len(), 1);
        assert!(converted.text_result_for_llm.ends_with("[an image that was too large]"));
        assert_eq!(converted.contents, None, "too large to be recorded");
    }
}
