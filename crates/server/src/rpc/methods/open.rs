//! One method for all ways to come to a session.

use std::sync::Arc;

use baton_protocol::SessionId;
use baton_protocol::event::WorkContext;
use baton_protocol::params::SessionParams;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handling, lists, sessions};
use crate::Server;
use crate::rpc::errors;
use crate::session::How;

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

pub(super) fn open(call: &Call<'_>) -> Handling {
    match call.parse()? {
        Open::Create { options } => {
            let params = SessionParams { session_id: None, ..*options.unwrap_or_default() };
            let made = sessions::make(call, params);
            call.later(async move { Ok(opened("created", made.await?)) })
        }
        Open::Resume { session_id, options, resume } => {
            let mut params = *options.unwrap_or_default();
            params.disable_resume = params.disable_resume.or(resume.map(|record| !record));
            come_to(call, Which::Named(session_id), params)
        }
        Open::ResumeLast { context, options } => {
            come_to(call, Which::Last(context.unwrap_or_default()), *options.unwrap_or_default())
        }
        Open::Attach { session_id } => {
            let live = session_id.parse().ok().filter(|id| call.connection.server.registry.get(id).is_some());
            let Some(id) = live else { return call.now(json!({ "status": "not_found" })) };
            let params = SessionParams { disable_resume: Some(true), ..SessionParams::default() };
            come_to(call, Which::Live(id), params)
        }
        Open::Remote {} => Err(errors::failed(call.method, "This server has no remote sessions.")),
    }
}

/// The session that is meant.
enum Which {
    /// By its name, or the beginning of it.
    Named(String),
    /// The last one in a place.
    Last(WorkContext),
    Live(SessionId),
}

impl Which {
    async fn find(self, server: &Arc<Server>) -> Result<Option<SessionId>, baton_store::StoreError> {
        match self {
            Self::Live(id) => Ok(Some(id)),
            Self::Last(context) => Ok(lists::last_in(&server.store.list().await?, &context)),
            Self::Named(name) => {
                if let Ok(id) = name.parse::<SessionId>()
                    && (server.registry.get(&id).is_some() || server.store.summary(&id).await?.is_some())
                {
                    return Ok(Some(id));
                }
                Ok(lists::only_with_prefix(&server.store.list().await?, &name))
            }
        }
    }
}

fn come_to(call: &Call<'_>, which: Which, params: SessionParams) -> Handling {
    let joining = sessions::joining(call, params, How::Resumed);
    let (connection, method) = (call.connection.clone(), call.method.to_owned());
    call.later(async move {
        let found = which.find(&connection.server).await.map_err(|error| errors::failed(&method, error))?;
        let Some(id) = found else { return Ok(json!({ "status": "not_found" })) };
        Ok(opened("resumed", sessions::come_back(connection, method, id, joining).await?))
    })
}

fn opened(status: &str, mut session: Value) -> Value {
    session["status"] = json!(status);
    session
}
