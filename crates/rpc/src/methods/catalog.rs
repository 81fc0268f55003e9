//! Lists of models and tools.

use baton_ask::ListTools;
use baton_protocol::tool::ToolSpec;
use baton_providers as providers;
use baton_runtime::engines;
use serde_json::{Value, json};

use super::{Call, Handled};
use crate::errors::CallError;

/// Lists the models of the server.
pub(super) fn models(call: &Call<'_>) -> Handled {
    let runtime = call.runtime().clone();
    call.later(async move {
        let models = engines::all_models(&runtime).await.map_err(CallError::failed)?;
        Ok(json!({ "models": models }))
    })
}

/// Lists the models of a session: those of its clients' providers, and those of the server.
pub(super) fn session_models(call: &Call<'_>) -> Handled {
    let (handle, runtime) = (call.session()?, call.runtime().clone());
    call.later(async move {
        let view = handle.inspect().await?;
        let server_models = engines::all_models(&runtime).await;
        let models =
            providers::with_client_models(&view.settings.models, server_models).map_err(CallError::failed)?;
        Ok(json!({ "list": models }))
    })
}

/// Lists the built-in tools.
pub(super) fn tools(call: &Call<'_>) -> Handled {
    let described = |tool: &ToolSpec| json!({ "name": tool.name, "description": tool.description, "parameters": tool.parameters });
    let tools: Vec<Value> = call.runtime().toolbox.specs().map(described).collect();
    call.now(json!({ "tools": tools }))
}

/// Lists the tools that the session's model can call now.
pub(super) fn session_tools(call: &Call<'_>) -> Handled {
    let described = |tool: &ToolSpec| json!({ "name": tool.name, "description": tool.description, "input_schema": tool.parameters });
    call.ask(
        &call.session()?,
        ListTools {},
        move |tools| json!({ "tools": tools.iter().map(described).collect::<Vec<_>>() }),
    )
}
