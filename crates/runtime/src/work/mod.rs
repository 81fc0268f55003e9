//! Work of sessions: prompt preparation, model calls, tool calls, hooks, questions to users, engine turns.
//!
//! Work runs beside its session on a copy of the state (`WorkScope`), and reports to the session's mailbox. It makes no
//! decisions: the core decides what a result means. Work that panics fails; its session continues.

pub(crate) mod beside;
mod capture;
mod compact;
mod engine_reports;
mod engine_tools;
mod engine_turn;
mod files;
mod hooks;
mod mcp_calls;
mod model_call;
mod model_failure;
mod model_stream;
mod plugin_hooks;
mod prompt;
mod provider_wait;
mod question;
mod sampling;
pub mod sandbox;
pub mod server_commands;
mod session_engine;
mod session_tools;
mod share;
mod side_question;
mod skills;
mod sub_agents;
mod tool_list;
mod tools;
mod trust;
mod user_commands;
mod window;
mod workflows;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use baton_core::{Prepared, PreparedPrompt, Session, Work, WorkId, WorkResult};
use baton_files::locations::{Location, NewGrant};
use baton_handle::{ActorMessage, FromWork, Publisher, Respond};
use baton_protocol::engine::EngineControl;
use baton_protocol::event::{Body, SessionError};
use baton_protocol::tool::ToolResult;
use baton_protocol::{AgentId, ClientId};
use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

pub(crate) use self::compact::compact;
pub use self::question::UserInput;
pub use self::server_commands as own_command;
pub(crate) use self::session_engine::SessionEngine;
pub(crate) use self::session_tools::{Parts, SessionTools};
pub(crate) use self::share::FileShare;
pub use self::sub_agents::status as agent_status;
use crate::Runtime;
use crate::session::actor::transcript::Transcripts;
use crate::session::{Handle, panics};
use baton_ask::Close;
pub use baton_ask::{CommandRun, CountedMessage, Window};
use baton_settings::Settings;

/// State and handles of a session that its work uses: copies, so that the session cannot change under it.
pub(crate) struct WorkScope {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) session: Session,
    pub(crate) settings: Arc<Settings>,
    pub(crate) hub: Publisher,
    pub(crate) mailbox: mpsc::UnboundedSender<ActorMessage>,
    pub(crate) conversation: Transcripts,
    pub(crate) tools: Arc<SessionTools>,
    pub(crate) engine: Arc<SessionEngine>,
    /// Sub-agent whose conversation the work belongs to; `None` for the main conversation.
    pub(crate) agent: Option<AgentId>,
    /// Messages to the engine that runs the turn.
    pub(crate) control: Option<mpsc::UnboundedReceiver<EngineControl>>,
    /// Cancelled when the result is no longer needed.
    pub(crate) cancel: CancellationToken,
}

impl WorkScope {
    /// Returns a handle of the session.
    fn handle(&self) -> Handle {
        Handle::new(self.session.id.clone(), &self.hub, self.mailbox.clone())
    }

    /// Shows an ephemeral event to all subscribers, unless the work has been cancelled.
    fn show(&self, body: impl Into<Body>) {
        let body = body.into();
        self.runtime.metrics.observe(&body);
        self.show_all([body]);
    }

    /// Shows several ephemeral events together, unless the work has been cancelled.
    fn show_all(&self, bodies: impl IntoIterator<Item = Body>) {
        self.hub.show_for(self.agent.as_ref(), bodies, &self.cancel);
    }

    /// Records an event in the history of the main conversation.
    fn note(&self, body: impl Into<Body>) {
        self.note_for(None, body);
    }

    /// Records an event in the history of a conversation: the main one, or a sub-agent's.
    fn note_for(&self, agent: Option<AgentId>, body: impl Into<Body>) {
        drop(self.mailbox.send(ActorMessage::Work(FromWork::Note(agent, Box::new(body.into())))));
    }
}

/// Starts work in a tracked task and the current span; the result goes to `mailbox`.
pub(crate) fn spawn(scope: WorkScope, mailbox: mpsc::UnboundedSender<ActorMessage>, id: WorkId, work: Work) {
    let tasks = scope.runtime.tasks.clone();
    let task = async move {
        let cancel = scope.cancel.clone();
        // Tools, commands and engines end the processes that they started when they are cancelled. Other work is dropped.
        let handles_cancel =
            matches!(work, Work::RunTool { .. } | Work::RunCommand { .. } | Work::Drive { .. });
        let failed = failure_of(&work);
        let perform = AssertUnwindSafe(perform(scope, id, work)).catch_unwind();
        let result = if handles_cancel {
            perform.await
        } else {
            tokio::select! {
                () = cancel.cancelled() => return,
                result = perform => result,
            }
        };
        let result = result.unwrap_or_else(|panic| {
            tracing::error!(panic = panics::text(&*panic), "work panicked; it counts as failed");
            failed
        });
        drop(mailbox.send(ActorMessage::Work(FromWork::Finished(id, Box::new(result)))));
    };
    tasks.spawn(task.in_current_span());
}

/// Invokes the `sessionEnd` hook, then closes the session. A hook that exceeds the time limit is abandoned.
pub(crate) fn close_after_hook(scope: WorkScope, client: ClientId, respond: Respond<Close>) {
    const TIME_LIMIT: Duration = Duration::from_secs(5);
    let tasks = scope.runtime.tasks.clone();
    let task = async move {
        let input = serde_json::json!({ "reason": "user_exit" });
        // The session is closed whatever the hook returns, even if it returns nothing.
        let _ = tokio::time::timeout(TIME_LIMIT, hooks::invoke(&scope, "sessionEnd", input)).await;
        respond.with(scope.handle().ask(Close { client }).await);
    };
    tasks.spawn(task.in_current_span());
}

async fn perform(mut scope: WorkScope, id: WorkId, work: Work) -> WorkResult {
    match work {
        Work::PreparePrompt { prompt, tools_gone } => {
            skills::ready(&mut scope).await;
            WorkResult::PreparePrompt(prompt::prepare(&scope, prompt, &tools_gone).await)
        }
        Work::RunCommand { command } => {
            WorkResult::RunCommand(server_commands::run_queued(&scope, command).await)
        }
        Work::CallModel { .. } => model_call::call(&mut scope).await,
        Work::PrepareCall { call } => WorkResult::PrepareCall(tools::prepare(&scope, &call).await),
        Work::RunTool { call, binding, placed } => {
            tools::run(&scope, &call, binding.as_deref(), placed).await
        }
        Work::Trust { call, term } => WorkResult::RunTool(tools::trust(&scope, &call, term).await),
        Work::FinishCall { call, result, .. } => {
            WorkResult::RunTool(tools::finish(&scope, &call, result).await)
        }
        Work::DeliverQuestion { client, request } => question::deliver(&scope, client, &request).await,
        Work::SaveGrant { location_key, approval, by, binding, .. } => {
            let grant = NewGrant { approval, by, binding };
            WorkResult::SaveGrant(save_grant(&scope, location_key, grant).await)
        }
        Work::RestoreFile { path, kept, .. } => {
            WorkResult::HeldFile(sandbox::restore_file(&scope, path, kept).await)
        }
        Work::DropFile { kept } => WorkResult::HeldFile(sandbox::drop_file(&scope, kept).await),
        Work::Review => WorkResult::Review(hooks::review(&scope).await),
        Work::Drive { engine, prompt, token } => engine_turn::run(scope, id, &engine, prompt, token).await,
    }
}

/// Stores a grant for the location of the session. Refuses one for a different location: what the user approved there is
/// not what this session asked for.
async fn save_grant(scope: &WorkScope, named: String, grant: NewGrant) -> Result<(), String> {
    let Location { key, .. } = Location::of(prompt::cwd(scope)).await?;
    if !named.is_empty() && named != key {
        return Err(format!("{named} is not the location of this session; its location is {key}"));
    }
    scope.runtime.locations.grant(key, grant).await
}

/// Returns the result of work that panicked.
fn failure_of(work: &Work) -> WorkResult {
    const WHY: &str = "internal error; see the server log";
    match work {
        Work::PreparePrompt { .. } => WorkResult::PreparePrompt(PreparedPrompt::default()),
        Work::RunCommand { .. } => WorkResult::RunCommand(Err(WHY.into())),
        Work::CallModel { .. } => {
            let error_type = "internal".into();
            let error = SessionError { error_type, message: WHY.into(), ..SessionError::default() };
            WorkResult::CallModelFailed(Box::new(error.into()))
        }
        Work::PrepareCall { .. } => WorkResult::PrepareCall(Prepared::Finished(ToolResult::failure(WHY))),
        Work::RunTool { .. } | Work::Trust { .. } | Work::FinishCall { .. } => {
            WorkResult::RunTool(ToolResult::failure(WHY))
        }
        Work::DeliverQuestion { .. } => WorkResult::Undelivered,
        Work::SaveGrant { .. } => WorkResult::SaveGrant(Err(WHY.into())),
        Work::RestoreFile { .. } | Work::DropFile { .. } => WorkResult::HeldFile(Err(WHY.into())),
        Work::Review => WorkResult::Review(None),
        Work::Drive { .. } => WorkResult::Drive(Err(engine_turn::failure(WHY.into()))),
    }
}
