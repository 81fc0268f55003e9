//! A client inside the process, for the program's own commands.

use std::sync::Arc;

use baton_ask::{Ask, Close};
use baton_core::ask::{Abort, Amend, SendPrompt};
use baton_core::{Change, Profile};
use baton_protocol::event::{AbortReason, Event, Prompt};
use baton_protocol::params::SessionParams;
use baton_protocol::{Author, ClientId, PromptId, SessionId};
use bytes::Bytes;
use tokio::sync::mpsc;

use crate::Runtime;
use crate::session::{Batch, CallFailed, Calling, Handle, JoinKind, JoinRequest, Port, Published};

/// Failure of a call, with its message for users.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LocalError(String);

impl<E: std::error::Error> From<&E> for LocalError {
    fn from(error: &E) -> Self {
        Self(error.to_string())
    }
}

/// A session to create or resume.
#[derive(Debug, Clone)]
pub enum Join {
    /// Creates a session.
    Create(SessionParams),
    /// Resumes a stored session.
    Resume(SessionId, SessionParams),
}

/// A session with a client inside the process attached to it.
pub struct LocalSession {
    handle: Handle,
    client: ClientId,
    author: Author,
    events: mpsc::UnboundedReceiver<Arc<Published>>,
}

/// An event that a [`LocalSession`] received.
#[derive(Debug, Clone)]
pub struct ReceivedEvent {
    /// The event.
    pub event: Event,
    /// The event as JSON, exactly as stored.
    pub json: Bytes,
}

struct LocalPort(mpsc::UnboundedSender<Arc<Published>>);

impl Port for LocalPort {
    fn deliver(&self, _: &SessionId, events: &Arc<Batch>) {
        events.events().iter().for_each(|event| drop(self.0.send(event.clone())));
    }

    fn call(&self, _: &'static str, _: serde_json::Value) -> Calling {
        // A local client has no hooks and serves no requests, so there is nothing to call.
        Box::pin(async { Err(CallFailed::Gone) })
    }
}

impl Runtime {
    /// Attaches a client inside the process to a session, which is created or resumed by a user of a terminal.
    ///
    /// # Errors
    /// When the session cannot be created or opened.
    pub async fn join(self: &Arc<Self>, join: Join) -> Result<LocalSession, LocalError> {
        self.join_as(join, Author::terminal("")).await
    }

    /// Attaches a client inside the process, for an author.
    ///
    /// # Errors
    /// When the session cannot be created or opened.
    pub async fn join_as(self: &Arc<Self>, join: Join, author: Author) -> Result<LocalSession, LocalError> {
        self.reap();
        let (sender, events) = mpsc::unbounded_channel();
        let client = self.new_client();
        let (id, params, kind) = match join {
            Join::Create(params) => {
                (params.session_id.clone().unwrap_or_else(SessionId::random), params, JoinKind::Create)
            }
            Join::Resume(id, params) => (id, params, JoinKind::Resume),
        };
        let joining = JoinRequest {
            client,
            profile: Profile { user: Some(author.clone()), ..Profile::default() },
            params: Box::new(params),
            legacy: false,
            kind,
            returning: None,
        };
        let port = Arc::new(LocalPort(sender));
        let handle = match kind {
            JoinKind::Create => {
                self.registry.create(self, &id, joining, port).await.map_err(|e| LocalError::from(&e))?.0
            }
            JoinKind::Resume => {
                let handle = self.registry.open(self, &id);
                handle.join(joining, port).await.map_err(|e| LocalError::from(&e))?;
                handle
            }
        };
        Ok(LocalSession { handle, client, author, events })
    }
}

impl Runtime {
    /// Renames a session in the name of a user. It is loaded if it is not live.
    ///
    /// # Errors
    /// When another server is busy with it, or the store fails.
    pub async fn rename(self: &Arc<Self>, id: &SessionId, name: &str, by: Author) -> Result<(), LocalError> {
        let change = Change::Name { name: name.to_owned(), by_user: true };
        let handle = self.registry.open(self, id);
        handle.ask(Amend::by(by, change)).await.map(drop).map_err(|failure| LocalError::from(&failure))
    }
}

impl LocalSession {
    /// Returns the id of the session.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.handle.id
    }

    /// Waits for the next event; none when the session has ended.
    pub async fn next_event(&mut self) -> Option<ReceivedEvent> {
        loop {
            let published = self.events.recv().await?;
            let text = std::str::from_utf8(&published.json).unwrap_or_default();
            if let Ok(event) = Event::parse(text) {
                return Some(ReceivedEvent { event, json: published.json.clone() });
            }
        }
    }

    /// Sends a prompt, and returns when it is durable in the queue.
    ///
    /// # Errors
    /// When the prompt is refused, or the session has ended.
    pub async fn prompt(&self, prompt: Prompt) -> Result<PromptId, LocalError> {
        let prompt = Prompt { by: Some(self.author.clone()), ..prompt };
        self.ask(SendPrompt { prompt: Box::new(prompt) }).await
    }

    /// Returns the model that the session chose; none means the default of the endpoint.
    ///
    /// # Errors
    /// When the session has ended.
    pub async fn model(&self) -> Result<Option<String>, LocalError> {
        let view = self.handle.inspect().await.map_err(|failure| LocalError::from(&failure))?;
        Ok(view.session.durable.facts.model)
    }

    /// Cancels the running turn and everything queued.
    ///
    /// # Errors
    /// When the session has ended.
    pub async fn abort(&self) -> Result<(), LocalError> {
        let by = Some(self.author.clone());
        self.ask(Abort { reason: AbortReason::UserInitiated, by }).await.map(drop)
    }

    /// Detaches from the session, which continues.
    pub fn leave(self) {
        self.handle.leave(self.client);
    }

    /// Detaches from the session, and closes it if no other client is attached.
    ///
    /// # Errors
    /// When the session has ended already.
    pub async fn close(self) -> Result<(), LocalError> {
        let client = self.client;
        self.ask(Close { client }).await
    }

    async fn ask<A: Ask>(&self, ask: A) -> Result<A::Reply, LocalError> {
        self.handle.ask(ask).await.map_err(|failure| LocalError::from(&failure))
    }
}
