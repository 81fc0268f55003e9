//! MCP apps: pages of MCP servers that a client shows, and what such a page may ask of the server that it came from.
//!
//! Only sessions whose client shows apps (`requestMcpApps`) have them. Only deny rules apply to calls of a page, because its
//! user caused them.

use baton_ask::mcp::{
    CallMcpTool, DiagnoseMcpServer, GetMcpAppContext, ListMcpTools, SendToMcpServer, SetMcpAppContext,
};
use baton_protocol::Json;
use baton_service::ClientAsk;
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
    call.ask_later(&call.session()?, SetMcpAppContext { context }, |()| void())
}

fn context(call: &Call<'_>) -> Handled {
    call.ask_later(&call.session()?, GetMcpAppContext {}, |context| json!({ "context": context }))
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
        let server = handle.ask(DiagnoseMcpServer { server }).await?;
        let capability =
            json!({ "sessionHasMcpApps": has_apps, "featureFlagEnabled": true, "advertised": false });
        Ok(json!({ "capability": capability, "server": server }))
    })
}

/// Lists the tools that a page of the same server may call.
fn list_tools(call: &Call<'_>) -> Handled {
    let page: FromPage = call.parse()?;
    let list = ListMcpTools { server: page.server_name.clone() };
    ask(
        call,
        move || page.check_origin("tools/list", "list").map(|()| list),
        |mut tools| {
            tools.retain(is_for_apps);
            json!({ "tools": tools })
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
    let request = CallMcpTool { server: page.server_name.clone(), tool, arguments };
    ask(call, move || page.check_origin("tools/call", "call").map(|()| request), |reply| reply)
}

fn read_resource(call: &Call<'_>) -> Handled {
    let FromPage { server_name: server, uri, .. } = call.parse()?;
    let params = Json::from(json!({ "uri": uri }));
    let request = SendToMcpServer { server, method: "resources/read".into(), params };
    ask(call, move || Ok(request), |reply| reply)
}

/// Asks the session, if it has apps. The ask is checked after that.
fn ask<A: ClientAsk>(
    call: &Call<'_>,
    check: impl FnOnce() -> Result<A, CallError> + Send + 'static,
    encode: fn(A::Reply) -> Value,
) -> Handled {
    let handle = call.session()?;
    call.later(async move {
        if !handle.inspect().await?.settings.mcp_apps {
            return Err(CallError::failed(NO_APPS));
        }
        Ok(encode(handle.ask(check()?).await?))
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
