//! What there is: models and tools.

use baton_protocol::tool::ToolSpec;
use serde_json::{Value, json};

use super::{Call, Handling};
use crate::models;
use crate::rpc::errors;
use crate::work;

/// The models that can be chosen from.
pub(super) fn models(call: &Call<'_>) -> Handling {
    let (server, method) = (call.connection.server.clone(), call.method.to_owned());
    call.later(async move {
        let models =
            crate::engines::all_models(&server).await.map_err(|error| errors::failed(&method, error))?;
        Ok(json!({ "models": models }))
    })
}

/// The same, as a session sees them.
pub(super) fn session_models(call: &Call<'_>) -> Handling {
    let handle = call.session()?;
    let (server, method) = (call.connection.server.clone(), call.method.to_owned());
    call.later(async move {
        let brought = handle.look(|view| view.settings.models.clone()).await;
        let brought = brought.map_err(|failure| errors::of(&method, &failure))?;
        let ours = crate::engines::all_models(&server).await;
        let models = models::with_brought(&brought, ours).map_err(|error| errors::failed(&method, error))?;
        Ok(json!({ "list": models }))
    })
}

/// The built-in tools.
pub(super) fn tools(call: &Call<'_>) -> Handling {
    let tools: Vec<Value> = call.connection.server.toolbox.specs().map(described).collect();
    call.now(json!({ "tools": tools }))
}

fn described(tool: &ToolSpec) -> Value {
    json!({ "name": tool.name, "description": tool.description, "parameters": tool.parameters })
}

/// The tools that a session's model is offered right now.
pub(super) fn offered_tools(call: &Call<'_>) -> Handling {
    call.view(|view| {
        let tools = work::offered(view.session, view.settings, view.tools);
        let tools: Vec<Value> = tools
            .iter()
            .map(|tool| {
                json!({ "name": tool.name, "description": tool.description, "input_schema": tool.parameters })
            })
            .collect();
        json!({ "tools": tools })
    })
}
