//! Endpoints that a session's client brings while it lives, and what it is told about the one in use.

use baton_protocol::SessionId;
use baton_protocol::provider::{ProviderConfig, ProviderModel};
use serde::Deserialize;
use serde_json::json;

use super::{Call, Handling};
use crate::models::{Asker, brought_entry};
use crate::rpc::errors;
use crate::session::{Mail, View};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Add {
    session_id: SessionId,
    providers: Option<Vec<ProviderConfig>>,
    models: Option<Vec<ProviderModel>>,
}

/// Adds endpoints and their models to those of the session.
pub(super) fn add(call: &Call<'_>) -> Handling {
    let Add { session_id, providers, models } = call.parse()?;
    let handle = call.attached(&session_id)?;
    let client = call.connection.client;
    let entries: Vec<_> = models.iter().flatten().map(brought_entry).collect();
    let adjust = Mail::Adjust(Box::new(move |settings| {
        settings.add_providers(providers.as_deref(), models.as_deref());
        settings.provider_owner = Some(client);
    }));
    handle.send(adjust).map_err(|failure| errors::of(call.method, &failure))?;
    call.now(json!({ "models": entries }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GetEndpoint {
    session_id: SessionId,
    model_id: Option<String>,
}

/// The endpoint that the session's next question goes to, with the credentials for it.
pub(super) fn endpoint(call: &Call<'_>) -> Handling {
    let GetEndpoint { session_id, model_id } = call.parse()?;
    let handle = call.attached(&session_id)?;
    let server = call.connection.server.clone();
    let method = call.method.to_owned();
    if !server.options.reveal_endpoint {
        return Err(errors::failed(
            &method,
            "telling endpoints is not enabled; start the server with COPILOT_ALLOW_GET_PROVIDER_ENDPOINT=true",
        ));
    }
    call.later(async move {
        let look = |view: View<'_>| (view.settings.clone(), view.session.durable.facts.model.clone());
        let (settings, current) = handle.look(look).await.map_err(|failure| errors::of(&method, &failure))?;
        let model = model_id.or(current);
        let asker = Asker {
            session: &handle.id,
            settings: &settings,
            hub: &handle.hub,
            agent: None,
            model: model.as_deref(),
        };
        let told = server.models.reveal(&asker).map_err(|error| errors::failed(&method, error))?;
        told.ok_or_else(|| errors::failed(&method, "the demo model has no endpoint"))
    })
}
