//! Lists of models and tools.

use baton_ask::ListTools;
use baton_protocol::tool::ToolSpec;
use baton_service::OperationError;
use baton_service::server::{ListAllModels, ListBuiltInTools};
use serde_json::{Value, json};

use super::{Call, Handled};
use crate::errors::CallError;

/// Lists the models of the server.
pub(super) fn models(call: &Call<'_>) -> Handled {
    let (service, caller) = (call.service().clone(), call.caller());
    call.later(async move {
        let models = service.perform(&caller, ListAllModels).await?;
        Ok(json!({ "models": models }))
    })
}

/// Lists the models of a session: those of its clients' providers, and those of the server.
pub(super) fn session_models(call: &Call<'_>) -> Handled {
    let (handle, service, caller) = (call.session()?, call.service().clone(), call.caller());
    call.later(async move {
        let view = handle.inspect().await?;
        let server_models = match service.perform(&caller, ListAllModels).await {
            Err(OperationError::Denied(denied)) => return Err(denied.into()),
            Err(OperationError::Failed(error)) => Err(error),
            Ok(models) => Ok(models),
        };
        let models = baton_providers::with_client_models(&view.settings.models, server_models)
            .map_err(CallError::failed)?;
        Ok(json!({ "list": models }))
    })
}

/// Lists the built-in tools.
pub(super) fn tools(call: &Call<'_>) -> Handled {
    let described = |tool: &ToolSpec| json!({ "name": tool.name, "description": tool.description, "parameters": tool.parameters });
    let tools = call.service().perform_now(&call.caller(), ListBuiltInTools)?;
    let tools: Vec<Value> = tools.iter().map(described).collect();
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
