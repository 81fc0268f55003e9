//! A client inside the process: how the program's own commands use a session.

use std::sync::Arc;

use baton_core::policy::{self, Offer};
use baton_core::{Answer, Profile, Reply};
use baton_protocol::event::{AbortReason, Event, Prompt};
use baton_protocol::params::SessionParams;
use baton_protocol::permission::{PermissionRequest, Verdict};
use baton_protocol::{Author, ClientId, PromptId, RequestId, SessionId};
use bytes::Bytes;
use tokio::sync::mpsc;

use crate::Server;
use crate::session::{Batch, CallFailed, Calling, Handle, How, Joining, Mail, Port, Published};

/// Something that a session could not do, in words for people.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LocalError(String);

impl<E: std::error::Error> From<&E> for LocalError {
    fn from(error: &E) -> Self {
        Self(error.to_string())
    }
}

/// How to come to a session.
#[derive(Debug, Clone)]
pub enum Joint {
    /// Make a new one.
    Create(SessionParams),
    /// Come back to one.
    Resume(SessionId, SessionParams),
}

/// A session, as seen by a client inside the process.
pub struct LocalSession {
    handle: Handle,
    client: ClientId,
    events: mpsc::UnboundedReceiver<Arc<Published>>,
}

/// An event as it arrives.
#[derive(Debug, Clone)]
pub struct Arrived {
    /// Its place in the session's sequence; none if it is ephemeral.
    pub seq: Option<u64>,
    /// The event.
    pub event: Event,
    /// The same as JSON, exactly as stored.
    pub json: Bytes,
}

struct Ear(mpsc::UnboundedSender<Arc<Published>>);

impl Port for Ear {
    fn deliver(&self, _: &SessionId, events: &Arc<Batch>) {
        events.events().iter().for_each(|event| drop(self.0.send(event.clone())));
    }

    fn call(&self, _: &'static str, _: serde_json::Value) -> Calling {
        // A local client has no hooks and declares no questions; there is nothing that it could be asked.
        Box::pin(async { Err(CallFailed::Gone) })
    }
}

impl Server {
    /// Comes to a session.
    ///
    /// # Errors
    /// When the session cannot be made or opened.
    pub async fn join(self: &Arc<Self>, joint: Joint) -> Result<LocalSession, LocalError> {
        self.reap();
        let (sender, events) = mpsc::unbounded_channel();
        let client = self.new_client();
        let (id, params, how) = match joint {
            Joint::Create(params) => {
                (params.session_id.clone().unwrap_or_else(SessionId::random), params, How::Made)
            }
            Joint::Resume(id, params) => (id, params, How::Resumed),
        };
        let joining = Joining {
            client,
            port: Arc::new(Ear(sender)),
            profile: Profile::default(),
            params: Box::new(params),
            legacy: false,
            how,
        };
        let handle = match how {
            How::Made => self.registry.create(self, &id, joining).await.map_err(|e| LocalError::from(&e))?.0,
            How::Resumed => {
                let handle = self.registry.open(self, &id);
                handle.join(joining).await.map_err(|e| LocalError::from(&e))?;
                handle
            }
        };
        Ok(LocalSession { handle, client, events })
    }
}

impl LocalSession {
    /// The session's name.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.handle.id
    }

    /// The next event; none when the session is gone.
    pub async fn next(&mut self) -> Option<Arrived> {
        loop {
            let published = self.events.recv().await?;
            let text = std::str::from_utf8(&published.json).unwrap_or_default();
            if let Ok(event) = Event::parse(text) {
                return Some(Arrived {
                    seq: published.seq.map(|seq| seq.0),
                    event,
                    json: published.json.clone(),
                });
            }
        }
    }

    /// Sends a prompt, and returns when it is accepted for good.
    ///
    /// # Errors
    /// When it is not.
    pub async fn prompt(&self, prompt: Prompt) -> Result<PromptId, LocalError> {
        match self.ask(|respond| Mail::Prompt(Box::new(prompt), respond)).await? {
            Reply::Accepted(id) => Ok(id),
            other => Err(LocalError(format!("unexpected answer {other:?}"))),
        }
    }

    /// The grants that can be given with an answer to a permission request, the default first.
    ///
    /// # Errors
    /// When the session is gone.
    pub async fn offers(&self, wants: &PermissionRequest) -> Result<Vec<Offer>, LocalError> {
        let wants = wants.clone();
        let offers = self.handle.look(move |view| {
            let territory = view.session.durable.territory(&view.session.live, None);
            policy::offers(&wants, &territory)
        });
        offers.await.map_err(|failure| LocalError::from(&failure))
    }

    /// Approves a request without asking a person. `false` if a deny rule may be meant: then a person has to decide.
    ///
    /// # Errors
    /// When the session is gone.
    pub async fn approve_unattended(&self, request: RequestId) -> Result<bool, LocalError> {
        let answer = Box::new(Answer::ApproveUnattended);
        let reply = self.ask(|respond| Mail::Answer(request, answer, respond)).await?;
        Ok(!matches!(reply, Reply::Refused(_)))
    }

    /// Decides about a permission. `false` if somebody else was faster.
    ///
    /// # Errors
    /// When the session is gone.
    pub async fn decide(&self, request: RequestId, verdict: Verdict) -> Result<bool, LocalError> {
        let answer = Box::new(Answer::Permission(verdict, Author::terminal()));
        Ok(self.ask(|respond| Mail::Answer(request, answer, respond)).await? == Reply::Counted)
    }

    /// Cancels what runs and what waits.
    ///
    /// # Errors
    /// When the session is gone.
    pub async fn abort(&self) -> Result<(), LocalError> {
        self.ask(|respond| Mail::Abort(AbortReason::UserInitiated, respond)).await.map(drop)
    }

    /// Leaves the session; it ends here if nobody else is attached.
    ///
    /// # Errors
    /// When the session is gone already.
    pub async fn close(self) -> Result<(), LocalError> {
        let client = self.client;
        self.ask(|respond| Mail::Close(client, respond)).await.map(drop)
    }

    async fn ask(&self, mail: impl FnOnce(crate::session::Responder) -> Mail) -> Result<Reply, LocalError> {
        self.handle.ask(mail).await.map_err(|failure| LocalError::from(&failure))
    }
}
