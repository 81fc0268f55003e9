//! Providers: adding those of a client to a live session, and the endpoint in use.

use baton_ask::{Configure, RevealEndpoint};
use baton_protocol::provider::{ProviderConfig, ProviderModel};
use baton_providers::client_model_entry;
use baton_settings::SettingsEdit;
use serde::Deserialize;
use serde_json::json;

use super::{Call, Handled};
use crate::errors::CallError;

#[derive(Deserialize)]
struct Add {
    providers: Option<Vec<ProviderConfig>>,
    models: Option<Vec<ProviderModel>>,
}

/// Adds providers and their models to a session.
pub(super) fn add(call: &Call<'_>) -> Handled {
    let (handle, Add { providers, models }) = call.parse_for_session()?;
    let client = call.connection.client;
    let entries: Vec<_> = models.iter().flatten().map(client_model_entry).collect();
    let edit = Box::new(SettingsEdit::AddProviders { client, providers, models });
    call.ask(&handle, Configure { edit }, move |()| json!({ "models": entries }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GetEndpoint {
    model_id: Option<String>,
}

/// Returns the endpoint of the session's next model call, with its credentials.
pub(super) fn endpoint(call: &Call<'_>) -> Handled {
    let (handle, GetEndpoint { model_id }) = call.parse_for_session()?;
    if !call.service().reveals_endpoints() {
        return Err(CallError::failed(
            "provider endpoints are not disclosed; start the server with COPILOT_ALLOW_GET_PROVIDER_ENDPOINT=true",
        ));
    }
    call.ask(&handle, RevealEndpoint { model: model_id }, |endpoint| endpoint)
}
