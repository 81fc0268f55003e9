//! MCP apps: pages of MCP servers that a client shows, and what such a page may ask of the server that it came from.
//!
//! Only sessions whose client shows apps (`requestMcpApps`) have them. Only deny rules apply to calls of a page, because its
//! user caused them.

use baton_protocol::Json;
use baton_runtime::mcp::McpRequest;
use baton_runtime::session::ask::Mcp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handled, void};
use crate::errors::CallError;

const NO_APPS: &str = "The \"mcp-apps\" capability is not available in this session";

/// Calls the handler of a method about apps; none if there is no such method.
pub(super) fn route(call: &Call<'_>) -> Option<Handled> {
    Some(match call.method {
        "session.mcp.apps.setHostContext" => set_context(call),
        "session.mcp.apps.getHostContext" => context(call),
        "session.mcp.apps.diagnose" => diagnose(call),
        "session.mcp.apps.listTools" => list_tools(call),
        "session.mcp.apps.callTool" => call_tool(call),
        "session.mcp.apps.readResource" => read_resource(call),
        _ => return None,
    })
}

#[derive(Deserialize)]
struct Context {
    context: Json,
}

fn set_context(call: &Call<'_>) -> Handled {
    let Context { context } = call.parse()?;
    let handle = call.session()?;
    let request = Box::new(McpRequest::AppContext { set: Some(context) });
    call.ask_later(&handle, Mcp { request }, |_| void())
}

fn context(call: &Call<'_>) -> Handled {
    let handle = call.session()?;
    call.ask_later(&handle, Mcp { request: Box::new(McpRequest::AppContext { set: None }) }, |reply| reply)
}

/// Parameters of a method that a page of the origin calls on a server.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FromPage {
    server_name: String,
    origin_server_name: Option<String>,
    tool_name: Option<String>,
    arguments: Option<Json>,
    uri: Option<String>,
}

impl FromPage {
    /// Checks that the page came from the server.
    fn check_origin(&self, method: &str, does: &str) -> Result<(), CallError> {
        let server = &self.server_name;
        match &self.origin_server_name {
            Some(origin) if origin == server => Ok(()),
            None => Err(CallError::invalid("missing field `originServerName`")),
            Some(origin) => Err(CallError::failed(format_args!(
                "Cross-server MCP App {method} is not allowed: app loaded from \"{origin}\" cannot {does} tools on \"{server}\""
            ))),
        }
    }
}

fn diagnose(call: &Call<'_>) -> Handled {
    let FromPage { server_name: server, .. } = call.parse()?;
    let handle = call.session()?;
    call.later(async move {
        let has_apps = handle.inspect().await?.settings.mcp_apps;
        let mut reply = handle.ask(Mcp { request: Box::new(McpRequest::Diagnose { server }) }).await?;
        reply["capability"] =
            json!({ "sessionHasMcpApps": has_apps, "featureFlagEnabled": true, "advertised": false });
        Ok(reply)
    })
}

/// Lists the tools that a page of the same server may call.
fn list_tools(call: &Call<'_>) -> Handled {
    let page: FromPage = call.parse()?;
    let request = McpRequest::ListTools { server: page.server_name.clone() };
    ask(
        call,
        move || page.check_origin("tools/list", "list").map(|()| request),
        |mut reply| {
            if let Some(tools) = reply["tools"].as_array_mut() {
                tools.retain(is_for_apps);
            }
            reply
        },
    )
}

fn is_for_apps(tool: &Value) -> bool {
    let visibility = tool.pointer("/_meta/ui/visibility").and_then(Value::as_array);
    visibility.is_none_or(|places| places.iter().any(|place| place == "app"))
}

/// Calls a tool for a page of the same server.
fn call_tool(call: &Call<'_>) -> Handled {
    let page: FromPage = call.parse()?;
    let Some(tool) = page.tool_name.clone() else {
        return Err(CallError::invalid("missing field `toolName`"));
    };
    let arguments = page.arguments.clone().unwrap_or_else(Json::empty_object);
    let request = McpRequest::CallTool { server: page.server_name.clone(), tool, arguments };
    ask(call, move || page.check_origin("tools/call", "call").map(|()| request), |reply| reply)
}

fn read_resource(call: &Call<'_>) -> Handled {
    let FromPage { server_name: server, uri, .. } = call.parse()?;
    let params = Json::from(json!({ "uri": uri }));
    let request = McpRequest::Send { server, method: "resources/read".into(), params };
    ask(call, move || Ok(request), |reply| reply)
}

/// Asks the session, if it has apps. The request is checked after that.
fn ask(
    call: &Call<'_>,
    request: impl FnOnce() -> Result<McpRequest, CallError> + Send + 'static,
    encode: fn(Value) -> Value,
) -> Handled {
    let handle = call.session()?;
    call.later(async move {
        if !handle.inspect().await?.settings.mcp_apps {
            return Err(CallError::failed(NO_APPS));
        }
        let request = Box::new(request()?);
        Ok(encode(handle.ask(Mcp { request }).await?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_see_tools_that_are_for_them() {
        let tool = |places: Value| json!({ "name": "a", "_meta": { "ui": { "visibility": places } } });
        assert!(is_for_apps(&json!({ "name": "a" })));
        assert!(is_for_apps(&tool(json!(["model", "app"]))));
        assert!(!is_for_apps(&tool(json!(["model"]))));
    }
}
