//! Extensions: the methods of clients about them, and how an extension joins its session.

use baton_addons::extensions::Available;
use baton_ask::extensions::{EnableExtension, ListExtensions, ReloadExtensions};
use baton_core::Change;
use baton_core::ask::Amend;
use baton_protocol::event::Body;
use baton_protocol::params::SessionParams;
use baton_protocol::rpc::RpcError;
use baton_protocol::tool::ToolSpec;
use baton_protocol::{Json, SessionId};
use baton_runtime::session::JoinKind;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handled, sessions, void};
use crate::errors::CallError;
use crate::extensions::granted_variables;
use baton_service::extensions::{EnableExtensions, ListExtensions as ListAllExtensions};

#[derive(Deserialize)]
struct Named {
    id: String,
}

#[derive(Deserialize)]
struct ManyNamed {
    ids: Vec<String>,
}

/// Calls the handler of a method about the extensions of a session.
pub(super) fn session(call: &Call<'_>) -> Handled {
    let handle = call.session()?;
    if call.method == "session.extensions.sendAttachmentsToMessage" {
        return push_attachments(call);
    }
    let named = || call.parse::<Named>().map(|named| named.id);
    match call.method {
        "session.extensions.list" => {
            call.ask_later(&handle, ListExtensions {}, |extensions| json!({ "extensions": extensions }))
        }
        "session.extensions.reload" => call.ask_later(&handle, ReloadExtensions {}, |()| void()),
        "session.extensions.enable" => {
            call.ask_later(&handle, EnableExtension { id: named()?, enabled: true }, |()| void())
        }
        "session.extensions.disable" => {
            call.ask_later(&handle, EnableExtension { id: named()?, enabled: false }, |()| void())
        }
        unknown => Err(RpcError::unknown_method(unknown).into()),
    }
}

/// Calls the handler of a method about the user's extensions.
pub(super) fn user(call: &Call<'_>) -> Handled {
    let (service, caller) = (call.service().clone(), call.caller());
    let enabled = match call.method {
        "extensions.discover" => {
            return call.later(async move {
                let found = service.perform(&caller, ListAllExtensions).await?;
                let shown: Vec<Value> =
                    found.iter().map(|(found, enabled)| discovered(found, *enabled)).collect();
                Ok(json!({ "extensions": shown, "mode": "enabled" }))
            });
        }
        "extensions.enable" => true,
        "extensions.disable" => false,
        unknown => return Err(RpcError::unknown_method(unknown).into()),
    };
    let ids = call.parse::<ManyNamed>()?.ids;
    call.later(async move {
        service.perform(&caller, EnableExtensions { ids, enabled }).await?;
        Ok(void())
    })
}

fn discovered(found: &Available, enabled: bool) -> Value {
    let mut shown = json!({
        "id": found.id(),
        "name": found.extension.name,
        "path": found.extension.entry,
        "source": found.source.as_str(),
        "enabled": enabled,
    });
    if let Some(plugin) = found.plugin() {
        shown["plugin"] = plugin.into();
    }
    shown
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pushed {
    instance_id: Option<String>,
    attachments: Vec<Value>,
}

/// Offers attachments for the next prompt to the session's clients.
fn push_attachments(call: &Call<'_>) -> Handled {
    let Some(member) = &call.connection.extension else {
        let reason = "may only be called from an extension-owned connection.";
        return Err(RpcError::failed(format!("{} {reason}", call.method)).into());
    };
    let (handle, pushed): (_, Pushed) = call.parse_for_session()?;
    let mut data = json!({ "extensionId": member.id(), "attachments": pushed.attachments });
    if let Some(instance) = pushed.instance_id {
        data["instanceId"] = instance.into();
    }
    let kind = "session.extensions.attachments_pushed".into();
    let shown = Change::Shown(Box::new(Body::Unknown { kind, data: Json::from(data) }));
    // A session that has ended meanwhile has no clients.
    let _ = handle.tell(Amend::unsigned(shown));
    call.now(void())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Requested {
    #[serde(default)]
    requested_environment_variables: Vec<String>,
}

/// Lets an extension join its session, with its tools, commands, hooks and workflows and nothing else.
pub(super) fn join(call: &Call<'_>, id: SessionId, params: SessionParams) -> Handled {
    let Some(member) = call.connection.extension.clone() else {
        return Err(CallError::failed("only an extension joins this way"));
    };
    let requested = call.parse::<Requested>()?.requested_environment_variables;
    let mut joining = sessions::joining(call, permitted(id.clone(), params), JoinKind::Resume);
    let connection = call.connection.clone();
    call.later(async move {
        let session = connection.service.open_existing(&connection.caller(), &id);
        let granted = granted_variables(&connection.door, &member, &requested).await;
        let granted = granted.map_err(|why| CallError::Rpc(RpcError::failed(why)))?;
        // The last client to join decides about streaming; an extension leaves it as it is.
        joining.params.streaming = Some(session.inspect().await?.settings.streaming);
        let mut joined = sessions::resume_session(connection.clone(), id, joining, Vec::new()).await?;
        if !granted.is_empty() {
            joined["grantedEnvironmentVariables"] = json!(granted);
        }
        member.join();
        Ok(joined)
    })
}

/// Returns the parameters that an extension may set. Settings of the session are the user's, and its tools go through the
/// policy like those of strangers.
fn permitted(id: SessionId, params: SessionParams) -> SessionParams {
    let restrain =
        |tool: ToolSpec| ToolSpec { skip_permission: false, overrides_built_in_tool: false, ..tool };
    SessionParams {
        session_id: Some(id),
        tools: params.tools.map(|tools| tools.into_iter().map(restrain).collect()),
        commands: params.commands,
        hooks: params.hooks,
        factories: params.factories,
        workflows: params.workflows,
        include_sub_agent_streaming_events: params.include_sub_agent_streaming_events,
        disable_resume: Some(true),
        ..SessionParams::default()
    }
}
