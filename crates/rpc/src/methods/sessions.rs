//! The life of a session: creating, resuming, prompting, cancelling, detaching, deleting.

use std::path::PathBuf;
use std::sync::Arc;

use baton_ask::extensions::StartExtensions;
use baton_ask::{self as ask, Close, Configure};
use baton_core::ask::{Abort, Amend, Change, SendPrompt, Suspend};
use baton_core::{Profile, Registered};
use baton_history::fork::Fork;
use baton_protocol::SessionId;
use baton_protocol::attachment::InvalidAttachment;
use baton_protocol::event::{AbortReason, Prompt, ShutdownType};
use baton_protocol::params::{OnlySession, SendParams, SessionParams};
use baton_runtime::session::{Failure, JoinKind, JoinReply, JoinRequest};
use baton_service::accounts::Introduction;
use baton_service::sessions::{CreateSession, DeleteSession, ForkSession};
use baton_service::{LiveSession, Service};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handled, extensions, ignored_options, sandbox, success, void, workflows};
use crate::attachment::Attachment;
use crate::connection::Connection;
use crate::errors::CallError;

pub(super) fn create(call: &Call<'_>) -> Handled {
    let params: SessionParams = call.parse()?;
    call.later(create_session(call, params))
}

/// Creates a session. Its first events are sent to the client before the reply.
pub(super) fn create_session(
    call: &Call<'_>,
    params: SessionParams,
) -> impl Future<Output = Result<Value, CallError>> + Send + use<> {
    let id = params.session_id.clone().unwrap_or_else(SessionId::random);
    let mut joining = joining(call, params, JoinKind::Create);
    let connection = call.connection.clone();
    let mut warnings = ignored_options::describe(&call.params);
    let (name, by) = (chosen_name(&joining.params), call.author());
    async move {
        let name = name?;
        workflows::check_declared(&joining.params)?;
        joining.params.sandbox = Some(sandbox::of_new_session(&joining.params)?);
        let service = connection.service.clone();
        let introduction = service.introduce(&joining.params).await.map_err(CallError::failed)?;
        warnings.extend(ignored_options::missing_directory(&joining.params).await);
        let wanted = Wanted::of(&joining.params);
        joining.params.model = joining.params.model.or_else(|| introduction.model().cloned());
        let joining_asks_for_sandbox = joining.params.sandbox_config.is_some();
        let port = Attachment::new(&connection, &joining.params);
        let create = CreateSession { id, joining, port };
        let (handle, joined) = service.perform(&connection.caller(), create).await?;
        let result = described(&service, &handle, &joined, &wanted);
        introduce(&handle, introduction);
        if let Some(name) = name {
            // A session that has ended meanwhile needs no name.
            let _ = handle.tell(Amend::by(by, Change::Name { name, by_user: true }));
        }
        if joining_asks_for_sandbox {
            warnings.extend(sandbox::warning(&handle).await);
        }
        ignored_options::warn(&handle, warnings, JoinKind::Create);
        connection.attach(handle.clone());
        wanted.start_extensions(&connection, &handle).await;
        Ok(result)
    }
}

/// Returns the name that the client chose for the session.
fn chosen_name(params: &SessionParams) -> Result<Option<String>, CallError> {
    let name = params.name.as_ref().map(|name| name.trim().to_owned());
    match name.as_deref() {
        Some("") => Err(CallError::invalid("the name must not be empty")),
        _ => Ok(name),
    }
}

/// Applies what comes from the client's account and the user's preferences.
fn introduce(session: &LiveSession, introduction: Introduction) {
    if let Some(edit) = introduction.into_edit() {
        // A session that has ended meanwhile has no settings.
        let _ = session.tell(Configure { edit: Box::new(edit) });
    }
}

pub(super) fn resume(call: &Call<'_>) -> Handled {
    let params: SessionParams = call.parse()?;
    let Some(id) = params.session_id.clone() else {
        return Err(CallError::invalid("`sessionId` is missing"));
    };
    if call.connection.extension.is_some() {
        return extensions::join(call, id, params);
    }
    let joining = joining(call, params, JoinKind::Resume);
    let warnings = ignored_options::describe(&call.params);
    let connection = call.connection.clone();
    call.later(resume_session(connection, id, joining, warnings))
}

/// Attaches the client to a session, live or not, and shows the warnings. Its history is not sent: the client reads it.
pub(super) async fn resume_session(
    connection: Arc<Connection>,
    id: SessionId,
    joining: JoinRequest,
    mut warnings: Vec<String>,
) -> Result<Value, CallError> {
    workflows::check_declared(&joining.params)?;
    let service = connection.service.clone();
    let wanted = Wanted::of(&joining.params);
    let introduction = service.introduce(&joining.params).await.map_err(CallError::failed)?;
    warnings.extend(ignored_options::missing_directory(&joining.params).await);
    let handle = service.open_existing(&connection.caller(), &id);
    let port = Attachment::new(&connection, &joining.params);
    let asked = sandbox::asked_for(joining.params.sandbox_config.as_ref())?;
    // Extensions, and clients that only attach, resume nothing.
    let resumes = !joining.profile.is_extension && joining.params.disable_resume != Some(true);
    let joined = handle.join(joining, port).await?;
    if resumes || asked.is_some() {
        let wants = asked.is_some();
        sandbox::settle(&service, &connection.caller(), &handle, asked).await?;
        if wants {
            warnings.extend(sandbox::warning(&handle).await);
        }
    }
    let result = described(&service, &handle, &joined, &wanted);
    introduce(&handle, introduction);
    ignored_options::warn(&handle, warnings, JoinKind::Resume);
    connection.attach(handle.clone());
    wanted.start_extensions(&connection, &handle).await;
    Ok(result)
}

pub(super) fn joining(call: &Call<'_>, params: SessionParams, kind: JoinKind) -> JoinRequest {
    let profile = Profile {
        user: Some(call.author()),
        tools: params.tools.clone().unwrap_or_default(),
        commands: params.commands.clone().unwrap_or_default(),
        user_input: params.request_user_input.unwrap_or(false),
        elicitation: params.request_elicitation.unwrap_or(false),
        plan_approval: params.request_exit_plan_mode.unwrap_or(false),
        model_switch: params.request_auto_mode_switch.unwrap_or(false),
        hooks: params.hooks.unwrap_or(false),
        is_extension: call.connection.extension.is_some(),
        registered: Registered::default(),
    };
    JoinRequest {
        client: call.connection.client,
        profile,
        params: Box::new(params),
        legacy: call.connection.dialect().is_legacy(),
        kind,
        returning: None,
    }
}

/// Parts of a client's parameters that the reply to it depends on.
struct Wanted {
    config_dir: Option<String>,
    mcp_apps: bool,
    extensions: bool,
    sdk: Option<PathBuf>,
}

impl Wanted {
    fn of(params: &SessionParams) -> Self {
        Self {
            config_dir: params.config_dir.clone(),
            mcp_apps: params.request_mcp_apps.unwrap_or(false),
            extensions: params.request_extensions.unwrap_or(false),
            sdk: params.extension_sdk_path.clone().map(PathBuf::from),
        }
    }

    async fn start_extensions(self, connection: &Arc<Connection>, handle: &LiveSession) {
        if self.extensions && connection.extension.is_none() {
            let start = StartExtensions { client: connection.client, sdk: self.sdk };
            // A session that has ended meanwhile has none.
            let _ = handle.ask(start).await;
        }
    }
}

fn described(service: &Service, handle: &LiveSession, joined: &JoinReply, wanted: &Wanted) -> Value {
    let files = service.session_directory(handle.id(), wanted.config_dir.as_deref().map(AsRef::as_ref));
    let directory = if handle.hub().is_elsewhere() { &joined.files } else { &files };
    let ui = json!({ "elicitation": joined.elicitation, "mcpApps": wanted.mcp_apps, "canvases": false });
    let mut capabilities = json!({ "ui": ui });
    if wanted.extensions {
        capabilities["extensions"] = json!(true);
    }
    json!({ "sessionId": handle.id(), "workspacePath": directory, "capabilities": capabilities })
}

/// Sends a prompt. Replies when its acceptance is durable.
pub(super) fn send(call: &Call<'_>) -> Handled {
    let (handle, prompt) = prompt(call)?;
    let ask = SendPrompt { prompt: Box::new(prompt) };
    call.ask(&handle, ask, |id| json!({ "messageId": id }))
}

/// Returns the prompt that a call sends, and its session.
pub(super) fn prompt(call: &Call<'_>) -> Result<(LiveSession, Prompt), CallError> {
    let params: SendParams = call.parse()?;
    if params.response_format.is_some() {
        // The client would take whatever the model answers for data of its schema.
        return Err(CallError::invalid("`responseFormat` is not supported; ask for JSON in the prompt"));
    }
    let handle = call.attached(&params.session_id)?;
    Ok((handle, prompt_of(call, params)?))
}

/// Returns the prompt of a client. Attachments of a type that this version does not know are passed on: a newer SDK may know
/// it. Those that no SDK can read are refused, because every client of the session would fail to read the event.
pub(super) fn prompt_of(call: &Call<'_>, params: SendParams) -> Result<Prompt, CallError> {
    for attachment in params.attachments.iter().flatten() {
        match attachment.check() {
            Ok(()) | Err(InvalidAttachment::UnknownType(_)) => {}
            Err(invalid) => return Err(CallError::invalid(format_args!("attachments: {invalid}"))),
        }
    }
    Ok(Prompt { by: Some(call.author()), ..params.into() })
}

#[derive(Deserialize)]
struct AbortParams {
    reason: Option<AbortReason>,
}

/// Cancels the running turn and everything accepted before. Cancelling an idle session succeeds.
pub(super) fn abort(call: &Call<'_>) -> Handled {
    let (handle, AbortParams { reason }) = call.parse_for_session()?;
    let by = Some(call.author());
    call.ask(&handle, Abort { reason: reason.unwrap_or_default(), by }, |_| success())
}

/// Suspends a session: ends its work, so that nothing is pending when it is resumed.
pub(super) fn suspend(call: &Call<'_>) -> Handled {
    call.ask(&call.session()?, Suspend {}, |()| void())
}

/// Detaches the client from a session, which stays open for its other clients. Detaching twice succeeds. Two methods do this:
/// `session.destroy` is from the time when a session had one client.
pub(super) fn detach(call: &Call<'_>) -> Handled {
    detach_with(call, success())
}

/// Detaches the client from a session, with an empty reply.
pub(super) fn close(call: &Call<'_>) -> Handled {
    detach_with(call, json!({}))
}

fn detach_with(call: &Call<'_>, result: Value) -> Handled {
    let session = call.parse::<OnlySession>()?.session_id;
    let Some(handle) = call.connection.detach(&session) else { return call.now(result) };
    let detached = result.clone();
    let asked = call.try_ask(&handle, Close { client: call.connection.client }, move |closed| match closed {
        // Another client may have shut the session down meanwhile.
        Ok(()) | Err(Failure::NotFound(_)) => Ok(detached),
        Err(failure) => Err(failure.into()),
    });
    asked.or_else(|_| call.now(result))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ShutDown {
    session_id: SessionId,
    #[serde(rename = "type")]
    how: Option<ShutdownType>,
    reason: Option<String>,
}

/// Shuts a session down for all of its clients. Its history stays, and it can be resumed.
pub(super) fn shut_down(call: &Call<'_>) -> Handled {
    let params: ShutDown = call.parse()?;
    let handle = call.attached(&params.session_id)?;
    let how = params.how.unwrap_or(ShutdownType::Routine);
    let reason = params.reason.unwrap_or_else(|| "the session was shut down".into());
    call.connection.detach(&params.session_id);
    call.ask(&handle, ask::ShutDown { how, reason }, |()| void())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ForkParams {
    /// Any text: an invalid id is an unknown session.
    session_id: String,
    to_event_id: Option<String>,
    name: Option<String>,
}

/// Creates a session with a copy of another's history.
pub(super) fn fork(call: &Call<'_>) -> Handled {
    let params: ForkParams = call.parse()?;
    let (service, caller) = (call.service().clone(), call.caller());
    let Ok(source) = params.session_id.parse() else {
        let reason = format!("Session {} not found or has no persisted events", params.session_id);
        return Err(CallError::failed(reason));
    };
    let fork = Fork { source, until: params.to_event_id, name: params.name };
    call.later(async move {
        let (id, name) = service.perform(&caller, ForkSession(fork)).await?;
        Ok(json!({ "sessionId": id, "name": name }))
    })
}

/// Deletes a session and its files, also for its other clients.
pub(super) fn delete(call: &Call<'_>) -> Handled {
    let id = call.parse::<OnlySession>()?.session_id;
    let connection = call.connection.clone();
    call.later(async move {
        connection.detach(&id);
        let delete = DeleteSession { id: id.clone() };
        let deleted = connection.service.perform(&connection.caller(), delete).await?;
        Ok(match deleted {
            true => success(),
            false => json!({ "success": false, "error": format!("Session not found: {id}") }),
        })
    })
}
