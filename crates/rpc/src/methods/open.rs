//! `sessions.open`: one method to create, resume or attach to a session.

use baton_protocol::SessionId;
use baton_protocol::event::WorkContext;
use baton_protocol::params::SessionParams;
use baton_protocol::rpc::RpcError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handled, session_list, sessions};
use crate::errors::CallError;
use baton_runtime::session::{Failure, JoinKind};
use baton_service::sessions::ListSessions;
use baton_service::{Caller, OperationError, Service};

/// What the call asks for.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum OpenKind {
    Create,
    Resume,
    ResumeLast,
    Attach,
    #[serde(alias = "cloud", alias = "handoff")]
    Remote,
}

/// Parameters of all kinds. Not an enum with a variant for each: serde would first copy all settings of a session,
/// with code of its own.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Open {
    kind: OpenKind,
    session_id: Option<String>,
    options: Option<Box<SessionParams>>,
    resume: Option<bool>,
    context: Option<WorkContext>,
}

impl Open {
    fn session_id(&mut self, call: &Call<'_>) -> Result<String, CallError> {
        let missing = || RpcError::bad_params(format!("{}: missing field `sessionId`", call.method));
        Ok(self.session_id.take().ok_or_else(missing)?)
    }
}

pub(super) fn open(call: &Call<'_>) -> Handled {
    let mut open: Open = call.parse()?;
    let mut params = *open.options.take().unwrap_or_default();
    match open.kind {
        OpenKind::Create => {
            params.session_id = None;
            let created = sessions::create_session(call, params);
            call.later(async move { Ok(opened("created", created.await?)) })
        }
        OpenKind::Resume => {
            params.disable_resume = params.disable_resume.or(open.resume.map(|resume| !resume));
            resume_target(call, Target::Named(open.session_id(call)?), params)
        }
        OpenKind::ResumeLast => resume_target(call, Target::Last(open.context.unwrap_or_default()), params),
        OpenKind::Attach => {
            let id = open.session_id(call)?.parse().ok();
            let live = id.filter(|id| call.service().live(&call.caller(), id).is_some());
            let Some(id) = live else { return call.now(json!({ "status": "not_found" })) };
            let params = SessionParams { disable_resume: Some(true), ..SessionParams::default() };
            resume_target(call, Target::Live(id), params)
        }
        OpenKind::Remote => Err(CallError::failed("This server has no remote sessions.")),
    }
}

/// The session to resume.
enum Target {
    /// By its id, or a prefix of it.
    Named(String),
    /// The last one of a directory.
    Last(WorkContext),
    Live(SessionId),
}

impl Target {
    async fn find(self, service: &Service, caller: &Caller) -> Result<Option<SessionId>, CallError> {
        match self {
            Self::Live(id) => Ok(Some(id)),
            Self::Last(context) => {
                Ok(session_list::last_in(&service.perform(caller, ListSessions).await?, &context))
            }
            Self::Named(name) => {
                if let Ok(id) = name.parse::<SessionId>() {
                    match service.open(caller, &id).await {
                        Ok(_) => return Ok(Some(id)),
                        Err(OperationError::Failed(Failure::NotFound(_))) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                Ok(session_list::only_with_prefix(&service.perform(caller, ListSessions).await?, &name))
            }
        }
    }
}

fn resume_target(call: &Call<'_>, target: Target, params: SessionParams) -> Handled {
    let warnings = super::ignored_options::describe(&call.params);
    let joining = sessions::joining(call, params, JoinKind::Resume);
    let connection = call.connection.clone();
    call.later(async move {
        let found = target.find(&connection.service, &connection.caller()).await?;
        let Some(id) = found else { return Ok(json!({ "status": "not_found" })) };
        Ok(opened("resumed", sessions::resume_session(connection, id, joining, warnings).await?))
    })
}

fn opened(status: &str, mut session: Value) -> Value {
    session["status"] = json!(status);
    session
}
