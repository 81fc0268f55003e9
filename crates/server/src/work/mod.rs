//! What sessions want done, done: prompts, model calls, tools, hooks, questions.
//!
//! Work runs beside its session, on a copy of what it needs ([`Bench`]), and reports back by mail. It decides nothing:
//! what its result means is the core's business. Work that panics fails; it never takes its session along.

mod aside;
mod ask;
mod capture;
mod citations;
mod compact;
mod delegate;
mod drive;
mod engine_room;
mod hooks;
mod offer;
pub(crate) mod own_command;
mod person;
mod prompt;
mod question;
mod tools;
mod trust;
mod window;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use baton_core::{Prepared, PreparedPrompt, Session, Work, WorkId, WorkResult};
use baton_engines::Control;
use baton_protocol::event::{Body, SessionError};
use baton_protocol::permission::Approval;
use baton_protocol::tool::ToolResult;
use baton_protocol::{AgentId, Author, ClientId};
use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub(crate) use self::aside::ask_aside;
pub(crate) use self::compact::{Wish, compact, compact_now};
pub(crate) use self::delegate::{delegation, status as agent_status};
pub(crate) use self::engine_room::EngineRoom;
pub(crate) use self::offer::offered;
pub(crate) use self::tools::ToolRoom;
pub(crate) use self::window::{Window, window};
use crate::Server;
use crate::locations::Location;
use crate::session::actor::transcript::Conversation;
use crate::session::{Failure, Handle, Hub, Mail, Responder, Settings};

/// What work may use of its session.
pub(crate) struct Bench {
    pub(crate) server: Arc<Server>,
    pub(crate) session: Session,
    pub(crate) settings: Settings,
    pub(crate) hub: Arc<Hub>,
    pub(crate) mailbox: mpsc::UnboundedSender<Mail>,
    pub(crate) conversation: Conversation,
    pub(crate) tools: Arc<ToolRoom>,
    pub(crate) engine: Arc<EngineRoom>,
    /// The sub-agent that the work is for; none for the main conversation.
    pub(crate) agent: Option<AgentId>,
    /// What is said to an engine while it works.
    pub(crate) control: Option<mpsc::UnboundedReceiver<Control>>,
    /// Cancelled when nobody wants the result any more.
    pub(crate) cancel: CancellationToken,
}

impl Bench {
    /// A way to talk to the session that the work is for.
    fn handle(&self) -> Handle {
        Handle::new(self.session.id.clone(), self.hub.clone(), self.mailbox.clone())
    }

    /// Shows something to everybody, as long as the work is wanted.
    fn show(&self, body: impl Into<Body>) {
        self.show_all([body.into()]);
    }

    /// The same, of things that happened at once.
    fn show_all(&self, bodies: impl IntoIterator<Item = Body>) {
        self.hub.show_for(self.agent.as_ref(), bodies, &self.cancel);
    }

    /// Puts something into the history.
    fn note(&self, body: impl Into<Body>) {
        self.note_for(None, body);
    }

    /// Puts something into the history of a conversation: the main one, or a sub-agent's.
    fn note_for(&self, agent: Option<AgentId>, body: impl Into<Body>) {
        drop(self.mailbox.send(Mail::Note(agent, Box::new(body.into()))));
    }
}

/// Starts a piece of work.
pub(crate) fn spawn(bench: Bench, mailbox: mpsc::UnboundedSender<Mail>, id: WorkId, work: Work) {
    let tasks = bench.server.tasks.clone();
    tasks.spawn(async move {
        let cancel = bench.cancel.clone();
        // Tools, commands and engines end themselves when they are cancelled, and take what they started along.
        // Everything else can just be dropped.
        let ends_itself = matches!(work, Work::RunTool { .. } | Work::RunCommand { .. } | Work::Drive { .. });
        let failed = failure_of(&work);
        let perform = AssertUnwindSafe(perform(bench, id, work)).catch_unwind();
        let result = if ends_itself {
            perform.await
        } else {
            tokio::select! {
                () = cancel.cancelled() => return,
                result = perform => result,
            }
        };
        let result = result.unwrap_or_else(|_| {
            tracing::error!("a piece of work panicked");
            failed
        });
        drop(mailbox.send(Mail::Finished(id, Box::new(result))));
    });
}

/// Tells hooks that the session ends, and then ends it. Hooks that do not answer in time are not waited for.
pub(crate) fn say_farewell(bench: Bench, client: ClientId, respond: Responder) {
    const PATIENCE: Duration = Duration::from_secs(5);
    let tasks = bench.server.tasks.clone();
    tasks.spawn(async move {
        let input = serde_json::json!({ "reason": "user_exit" });
        // Whatever the hook says, or that it says nothing: the session ends.
        let _ = tokio::time::timeout(PATIENCE, hooks::invoke(&bench, "sessionEnd", input)).await;
        if let Err(unsent) = bench.mailbox.send(Mail::Close(client, respond)) {
            unsent.0.refuse(Failure::NotFound(bench.session.id.clone()));
        }
    });
}

async fn perform(bench: Bench, id: WorkId, work: Work) -> WorkResult {
    match work {
        Work::PreparePrompt { prompt, tools_gone } => {
            WorkResult::PreparePrompt(prompt::prepare(&bench, prompt, &tools_gone).await)
        }
        Work::RunCommand { command } => {
            WorkResult::RunCommand(own_command::run_queued(&bench, command).await)
        }
        Work::Ask { .. } => ask::ask(&bench).await,
        Work::PrepareCall { call } => WorkResult::PrepareCall(tools::prepare(&bench, &call).await),
        Work::RunTool { call } => WorkResult::RunTool(tools::run(&bench, &call).await),
        Work::FinishCall { call, result, .. } => {
            WorkResult::RunTool(tools::finish(&bench, &call, result).await)
        }
        Work::DeliverQuestion { client, request } => question::deliver(&bench, client, &request).await,
        Work::SaveGrant { location_key, approval, by, .. } => {
            WorkResult::SaveGrant(save_grant(&bench, location_key, &approval, by).await)
        }
        Work::Review => WorkResult::Review(hooks::review(&bench).await),
        Work::Drive { engine, prompt, token } => drive::drive(bench, id, &engine, prompt, token).await,
    }
}

/// Stores a grant for the location where the session works. A client that names another location was shown something else.
async fn save_grant(bench: &Bench, named: String, approval: &Approval, by: Author) -> Result<(), String> {
    let Location { key, .. } = Location::of(prompt::cwd(bench)).await?;
    if !named.is_empty() && named != key {
        return Err(format!("{named} is not the location of this session; its location is {key}"));
    }
    bench.server.locations.grant(key, approval, by).await
}

/// The result of work that failed from within.
fn failure_of(work: &Work) -> WorkResult {
    const WHY: &str = "Something inside the server failed; its log says what.";
    match work {
        Work::PreparePrompt { .. } => WorkResult::PreparePrompt(PreparedPrompt::default()),
        Work::RunCommand { .. } => WorkResult::RunCommand(Err(WHY.into())),
        Work::Ask { .. } => {
            let error_type = "internal".into();
            let error = SessionError { error_type, message: WHY.into(), ..SessionError::default() };
            WorkResult::AskFailed(Box::new(error.into()))
        }
        Work::PrepareCall { .. } => WorkResult::PrepareCall(Prepared::Finished(ToolResult::failure(WHY))),
        Work::RunTool { .. } | Work::FinishCall { .. } => WorkResult::RunTool(ToolResult::failure(WHY)),
        Work::DeliverQuestion { .. } => WorkResult::Undelivered,
        Work::SaveGrant { .. } => WorkResult::SaveGrant(Err(WHY.into())),
        Work::Review => WorkResult::Review(None),
        Work::Drive { .. } => WorkResult::Drive(Err(drive::failure(WHY.into()))),
    }
}
