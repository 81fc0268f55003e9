//! The life of a session: made, resumed, prompted, cancelled, left, deleted.

use std::sync::Arc;

use baton_core::{Profile, Reply};
use baton_protocol::event::{AbortReason, ShutdownType};
use baton_protocol::params::{OnlySession, SendParams, SessionParams};
use baton_protocol::rpc::RpcError;
use baton_protocol::{Json, SessionId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handled, Handling, identity, success, void};
use crate::Server;
use crate::crash::CrashPoint;
use crate::fork::{self, Fork};
use crate::github::Identity;
use crate::lifecycle::News;
use crate::owner;
use crate::preferences::Wishes;
use crate::rpc::attachment::Attachment;
use crate::rpc::connection::Connection;
use crate::rpc::errors;
use crate::session::{Failure, Handle, How, Joined, Joining, Mail, Responder};

pub(super) fn create(call: &Call<'_>) -> Handling {
    let params: SessionParams = call.parse()?;
    let made = make(call, params);
    call.later(made)
}

/// Makes a session. Its first event is on its way to the client before the answer is.
pub(super) fn make(
    call: &Call<'_>,
    params: SessionParams,
) -> impl Future<Output = Result<Value, RpcError>> + Send + use<> {
    let id = params.session_id.clone().unwrap_or_else(SessionId::random);
    let mut joining = joining(call, params, How::Made);
    let (connection, method) = (call.connection.clone(), call.method.to_owned());
    async move {
        let server = connection.server.clone();
        let newcomer = Newcomer::of(&server, &joining.params).await;
        let newcomer = newcomer.map_err(|why| errors::failed(&method, why))?;
        let config_dir = joining.params.config_dir.clone();
        joining.params.model = joining.params.model.or_else(|| newcomer.wishes.model.clone());
        let created = server.registry.create(&server, &id, joining).await;
        let (handle, joined) = created.map_err(|failure| errors::of(&method, &failure))?;
        let answer = described(&server, &handle, &joined, config_dir.as_deref());
        newcomer.introduce(&handle);
        connection.attach(handle);
        Ok(answer)
    }
}

/// What a session is told about whoever has come to it, besides what they say.
struct Newcomer {
    /// Whom the session acts for, and their token.
    identity: Option<(Identity, Option<String>)>,
    wishes: Wishes,
}

impl Newcomer {
    async fn of(server: &Arc<Server>, params: &SessionParams) -> Result<Self, String> {
        let brought = identity::of(server, params).await?.map(|identity| (identity, None));
        let logged_in = || server.accounts.current().map(|account| (account.identity, Some(account.token)));
        Ok(Self { identity: brought.or_else(logged_in), wishes: server.preferences.wishes().await })
    }

    fn introduce(self, handle: &Handle) {
        if self.identity.is_none() && !self.wishes.no_questions {
            return;
        }
        // A session that is gone again needs to know nobody.
        let _ = handle.send(Mail::Adjust(Box::new(move |settings| {
            settings.ask_user_disabled |= self.wishes.no_questions;
            if let Some((identity, token)) = self.identity {
                settings.identity = Some(identity);
                settings.github_token = token.or(settings.github_token.take());
            }
        })));
    }
}

pub(super) fn resume(call: &Call<'_>) -> Handling {
    let params: SessionParams = call.parse()?;
    let Some(id) = params.session_id.clone() else {
        return Err(RpcError::bad_params("session.resume: `sessionId` is missing"));
    };
    let joining = joining(call, params, How::Resumed);
    call.later(come_back(call.connection.clone(), call.method.to_owned(), id, joining))
}

/// Comes back to a session, in memory or not. History is not told again: the client asks for it.
pub(super) async fn come_back(
    connection: Arc<Connection>,
    method: String,
    id: SessionId,
    joining: Joining,
) -> Result<Value, RpcError> {
    let server = connection.server.clone();
    let config_dir = joining.params.config_dir.clone();
    let newcomer = Newcomer::of(&server, &joining.params).await;
    let newcomer = newcomer.map_err(|why| errors::failed(&method, why))?;
    let handle = server.registry.open(&server, &id);
    let joined = handle.join(joining).await.map_err(|failure| errors::of(&method, &failure))?;
    let answer = described(&server, &handle, &joined, config_dir.as_deref());
    newcomer.introduce(&handle);
    connection.attach(handle);
    Ok(answer)
}

pub(super) fn joining(call: &Call<'_>, params: SessionParams, how: How) -> Joining {
    let profile = Profile {
        tools: params.tools.clone().unwrap_or_default(),
        commands: params.commands.clone().unwrap_or_default(),
        user_input: params.request_user_input.unwrap_or(false),
        elicitation: params.request_elicitation.unwrap_or(false),
        plan_approval: params.request_exit_plan_mode.unwrap_or(false),
        model_switch: params.request_auto_mode_switch.unwrap_or(false),
        hooks: params.hooks.unwrap_or(false),
    };
    Joining {
        client: call.connection.client,
        port: Attachment::new(
            call.connection.clone(),
            params.include_sub_agent_streaming_events.unwrap_or(true),
        ),
        profile,
        params: Box::new(params),
        legacy: call.connection.dialect().is_legacy(),
        how,
    }
}

fn described(server: &Arc<Server>, handle: &Handle, joined: &Joined, config_dir: Option<&str>) -> Value {
    let directory = server.session_directory(&handle.id, config_dir.map(AsRef::as_ref));
    json!({
        "sessionId": handle.id,
        "workspacePath": directory,
        "capabilities": { "ui": { "elicitation": joined.elicitation, "mcpApps": false, "canvases": false } },
    })
}

/// Sends a prompt: answered as soon as it is accepted for good.
pub(super) fn send(call: &Call<'_>) -> Handling {
    let params: SendParams = call.parse()?;
    let handle = call.attached(&params.session_id)?;
    call.by_responder(
        &handle,
        |respond| Mail::Prompt(Box::new(params.into()), respond),
        |reply| match reply {
            Reply::Accepted(id) => Ok(json!({ "messageId": id })),
            other => Err(RpcError::failed(format!("unexpected answer {other:?}"))),
        },
    )
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AbortParams {
    session_id: SessionId,
    #[serde(default)]
    reason: Option<AbortReason>,
}

/// Cancels. Cancelling what is idle is fine, as often as one likes.
pub(super) fn abort(call: &Call<'_>) -> Handling {
    let params: AbortParams = call.parse()?;
    let handle = call.attached(&params.session_id)?;
    let reason = params.reason.unwrap_or_default();
    call.by_responder(&handle, |respond| Mail::Abort(reason, respond), |_| Ok(success()))
}

/// Leaves the session at rest: work is ended, nothing is pending, and whoever resumes it finds it so.
pub(super) fn suspend(call: &Call<'_>) -> Handling {
    let handle = call.session()?;
    call.by_responder(&handle, Mail::Suspend, |_| Ok(void()))
}

/// The client is done with the session; nobody else loses it. Doing it twice is fine. SDKs have two names for it: one of
/// the days when a session had one client, one of today.
pub(super) fn leave(call: &Call<'_>) -> Handling {
    leave_with(call, success())
}

/// The same, for those who do not mind whether they were attached.
pub(super) fn close(call: &Call<'_>) -> Handling {
    leave_with(call, json!({}))
}

fn leave_with(call: &Call<'_>, answer: Value) -> Handling {
    let session = call.parse::<OnlySession>()?.session_id;
    let Some(handle) = call.connection.detach(&session) else { return call.now(answer) };
    let (connection, id, method) = (call.connection.clone(), call.id.clone(), call.method.to_owned());
    let left = answer.clone();
    let respond: Responder = Box::new(move |closed| {
        let outcome = match closed {
            // A session that somebody else has shut down meanwhile is left already.
            Ok(_) | Err(Failure::NotFound(_)) => Ok(Json::from(left)),
            Err(failure) => Err(errors::of(&method, &failure)),
        };
        connection.answer(&id, &outcome);
    });
    match handle.send(Mail::Close(call.connection.client, respond)) {
        Ok(()) => Ok(Handled::ByResponder),
        Err(_) => call.now(answer),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ShutDown {
    session_id: SessionId,
    #[serde(rename = "type")]
    how: Option<ShutdownType>,
    reason: Option<String>,
}

/// Ends a session for everybody who is attached. Its history stays, and it can be resumed.
pub(super) fn shut_down(call: &Call<'_>) -> Handling {
    let params: ShutDown = call.parse()?;
    let handle = call.attached(&params.session_id)?;
    let how = params.how.unwrap_or(ShutdownType::Routine);
    let reason = params.reason.unwrap_or_else(|| "the session was shut down".into());
    call.connection.detach(&params.session_id);
    call.by_responder(&handle, |respond| Mail::ShutDown(how, reason, respond), |_| Ok(void()))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ForkParams {
    /// Not checked: an id that cannot exist is an id that does not exist.
    session_id: String,
    to_event_id: Option<String>,
    name: Option<String>,
}

/// Makes a session from another one's history.
pub(super) fn fork(call: &Call<'_>) -> Handling {
    let params: ForkParams = call.parse()?;
    let (store, method) = (call.connection.server.store.clone(), call.method.to_owned());
    let Ok(source) = params.session_id.parse() else {
        let why = format!("Session {} not found or has no persisted events", params.session_id);
        return Err(errors::failed(call.method, why));
    };
    let wanted = Fork { source, until: params.to_event_id, name: params.name };
    call.later(async move {
        let forked = fork::fork(&*store, wanted).await.map_err(|error| errors::failed(&method, error))?;
        Ok(json!({ "sessionId": forked.0, "name": forked.1 }))
    })
}

/// Deletes a session for everybody, with its files.
pub(super) fn delete(call: &Call<'_>) -> Handling {
    let id = call.parse::<OnlySession>()?.session_id;
    let (connection, method) = (call.connection.clone(), call.method.to_owned());
    call.later(async move {
        connection.detach(&id);
        let deleted = connection.server.delete(&id).await.map_err(|error| errors::failed(&method, error))?;
        Ok(match deleted {
            true => success(),
            false => json!({ "success": false, "error": format!("Session not found: {id}") }),
        })
    })
}

impl Server {
    /// Deletes a session. Whoever is attached to it finds it gone. A session that another server is in the middle of
    /// something with is that server's: it is refused, with the process named.
    pub(crate) async fn delete(&self, id: &SessionId) -> Result<bool, baton_store::StoreError> {
        let live = self.registry.get(id);
        if let Some(handle) = &live {
            handle.vanish().await;
        }
        self.crash_point(CrashPoint::BeforeDelete);
        let existed = owner::delete_session(&*self.store, id, Some(&self.owner)).await?;
        self.crash_point(CrashPoint::AfterDelete);
        let directory = self.session_directory(id, None);
        // The files are a copy; if they cannot be removed, the session is gone all the same.
        #[expect(clippy::disallowed_methods, reason = "runs on a blocking thread")]
        let removed = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(directory)).await;
        drop(removed);
        if existed {
            self.lifecycle.announce(News::Deleted, id, None);
        }
        Ok(existed)
    }
}
