//! `sessions.open`: one method to create, resume or attach to a session.

use std::sync::Arc;

use baton_protocol::SessionId;
use baton_protocol::event::WorkContext;
use baton_protocol::params::SessionParams;
use baton_store::StoreError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handled, session_list, sessions};
use crate::errors::CallError;
use baton_runtime::Runtime;
use baton_runtime::session::JoinKind;

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Open {
    Create {
        options: Option<Box<SessionParams>>,
    },
    Resume {
        session_id: String,
        options: Option<Box<SessionParams>>,
        resume: Option<bool>,
    },
    ResumeLast {
        context: Option<WorkContext>,
        options: Option<Box<SessionParams>>,
    },
    Attach {
        session_id: String,
    },
    #[serde(alias = "cloud", alias = "handoff")]
    Remote {},
}

pub(super) fn open(call: &Call<'_>) -> Handled {
    match call.parse()? {
        Open::Create { options } => {
            let params = SessionParams { session_id: None, ..*options.unwrap_or_default() };
            let created = sessions::create_session(call, params);
            call.later(async move { Ok(opened("created", created.await?)) })
        }
        Open::Resume { session_id, options, resume } => {
            let mut params = *options.unwrap_or_default();
            params.disable_resume = params.disable_resume.or(resume.map(|resume| !resume));
            resume_target(call, Target::Named(session_id), params)
        }
        Open::ResumeLast { context, options } => {
            resume_target(call, Target::Last(context.unwrap_or_default()), *options.unwrap_or_default())
        }
        Open::Attach { session_id } => {
            let live = session_id.parse().ok().filter(|id| call.runtime().registry.get(id).is_some());
            let Some(id) = live else { return call.now(json!({ "status": "not_found" })) };
            let params = SessionParams { disable_resume: Some(true), ..SessionParams::default() };
            resume_target(call, Target::Live(id), params)
        }
        Open::Remote {} => Err(CallError::failed("This server has no remote sessions.")),
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
    async fn find(self, runtime: &Arc<Runtime>) -> Result<Option<SessionId>, StoreError> {
        match self {
            Self::Live(id) => Ok(Some(id)),
            Self::Last(context) => Ok(session_list::last_in(&runtime.store.list().await?, &context)),
            Self::Named(name) => {
                if let Ok(id) = name.parse::<SessionId>()
                    && (runtime.registry.get(&id).is_some() || runtime.store.summary(&id).await?.is_some())
                {
                    return Ok(Some(id));
                }
                Ok(session_list::only_with_prefix(&runtime.store.list().await?, &name))
            }
        }
    }
}

fn resume_target(call: &Call<'_>, target: Target, params: SessionParams) -> Handled {
    let warnings = super::ignored_options::describe(&call.params);
    let joining = sessions::joining(call, params, JoinKind::Resume);
    let connection = call.connection.clone();
    call.later(async move {
        let found = target.find(&connection.runtime).await?;
        let Some(id) = found else { return Ok(json!({ "status": "not_found" })) };
        Ok(opened("resumed", sessions::resume_session(connection, id, joining, warnings).await?))
    })
}

fn opened(status: &str, mut session: Value) -> Value {
    session["status"] = json!(status);
    session
}
