//! What can be sent to a live session.

use std::path::PathBuf;
use std::sync::Arc;

use baton_core::{
    Answer, Arrangement, Ask, Change, Delegation, EngineReport, Profile, Reply, Session, Withdrawn, WorkId,
    WorkResult,
};
use baton_protocol::event::{AbortReason, CompactionComplete, CompactionStart, Prompt, ShutdownType};
use baton_protocol::params::SessionParams;
use baton_protocol::{AgentId, Body, ClientId, RequestId, SessionId};
use baton_store::{Seq, StoreError};
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};

use super::hub::{Hub, Port};
use super::settings::Settings;
use crate::rewind::Skip;
use crate::work::{Bench, ToolRoom};

/// Why a session could not do what it was asked to.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Failure {
    #[error("Session not found: {0}")]
    NotFound(SessionId),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Refused(String),
}

/// Where an answer goes. Called once, from the actor, right when the answer holds: what it does must not wait.
pub(crate) type Responder = Box<dyn FnOnce(Result<Reply, Failure>) + Send>;

/// A client that makes or resumes a session, or joins to watch.
pub(crate) struct Joining {
    pub(crate) client: ClientId,
    pub(crate) port: Arc<dyn Port>,
    pub(crate) profile: Profile,
    pub(crate) params: Box<SessionParams>,
    pub(crate) legacy: bool,
    pub(crate) how: How,
}

/// How a client comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Made,
    Resumed,
}

/// A wish for a summary of the conversation.
pub(crate) struct Compact {
    pub(crate) start: CompactionStart,
    pub(crate) instructions: Option<String>,
    pub(crate) done: oneshot::Sender<Result<CompactionComplete, Failure>>,
}

/// A wish to go back to before an event.
pub(crate) struct Rewind {
    pub(crate) event: String,
    pub(crate) with_files: bool,
    pub(crate) done: oneshot::Sender<Result<Rewound, Failure>>,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Rewound {
    pub(crate) outcome: RewindOutcome,
    /// How many events that clients had seen were taken back, if any were.
    pub(crate) removed: Option<u64>,
    pub(crate) restored: Vec<PathBuf>,
    pub(crate) skipped: Vec<(PathBuf, Skip)>,
    pub(crate) error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RewindOutcome {
    #[default]
    Success,
    SessionBusy,
    FileChangeTrackingDisabled,
    FilesRolledBack,
    RollbackIncomplete,
    TruncationFailed,
    SnapshotPruneFailed,
}

/// What is known once a client has joined.
#[derive(Debug, Clone)]
pub(crate) struct Joined {
    pub(crate) elicitation: bool,
}

/// One message to a session.
pub(crate) enum Mail {
    Join(Box<Joining>, oneshot::Sender<Result<Joined, Failure>>),
    /// A client's connection is gone.
    Leave(ClientId),
    /// A client is done with the session. It ends here when no other client is attached.
    Close(ClientId, Responder),
    /// Somebody ends the session for everybody.
    ShutDown(ShutdownType, String, Responder),
    Prompt(Box<Prompt>, Responder),
    /// A slash command that waits for its turn among the prompts.
    Enqueue(String, Responder),
    /// Another order of what waits.
    Arrange(Box<Arrangement>, Responder),
    /// A client runs whatever commands come to their turn, or does not any more; with its name for that offer.
    Host(ClientId, String, bool),
    Withdraw(Withdrawn, Responder),
    Abort(AbortReason, Responder),
    Answer(RequestId, Box<Answer>, Responder),
    Ask(Box<Ask>, Responder),
    /// A client sees to offers of another model by itself.
    Listen(ClientId, Responder),
    /// It does not any more.
    StopListening(String, Responder),
    Suspend(Responder),
    /// Somebody starts a sub-agent.
    StartAgent(Box<Delegation>, Responder),
    /// Somebody stops one sub-agent.
    StopAgent(AgentId, Responder),
    Change(Box<Change>, Responder),
    /// Somebody goes back to before an event.
    Truncate(String, Responder),
    /// The same, of what a user said; with the files, if that is wanted.
    Rewind(Box<Rewind>),
    /// The conversation is to be summarised.
    Compact(Box<Compact>),
    /// It has been, or could not be.
    Compacted(Box<CompactionComplete>),
    /// Nobody wants the summary any more; told whether one was being written, of the kind that is meant.
    StopCompacting {
        manual: bool,
        told: oneshot::Sender<bool>,
    },
    /// Something for the record, from work.
    Note(Option<AgentId>, Box<Body>),
    /// An engine that works says what it does.
    Report(WorkId, Box<EngineReport>),
    /// Work has come back.
    Finished(WorkId, Box<WorkResult>),
    /// A look at the state.
    Look(Box<dyn FnOnce(View<'_>) + Send>),
    /// Somebody works beside the session, on a copy of what its own work would get.
    Borrow(oneshot::Sender<Result<Bench, Failure>>),
    /// A change of what is not history.
    Adjust(Box<dyn FnOnce(&mut Settings) + Send>),
    /// The session is about to be deleted: stop, write nothing more.
    Vanish(oneshot::Sender<()>),
    /// The server stops: let go of the session as it is.
    Stop(oneshot::Sender<()>),
}

impl Mail {
    /// Tells whoever sent this that it cannot be done.
    pub(crate) fn refuse(self, failure: Failure) {
        match self {
            Self::Join(_, answer) => drop(answer.send(Err(failure))),
            Self::Borrow(lend) => drop(lend.send(Err(failure))),
            Self::Rewind(rewind) => drop(rewind.done.send(Err(failure))),
            Self::Compact(compact) => drop(compact.done.send(Err(failure))),
            Self::StopCompacting { told, .. } => {
                let _ = told.send(false);
            }
            Self::Close(_, respond)
            | Self::ShutDown(_, _, respond)
            | Self::Prompt(_, respond)
            | Self::Enqueue(_, respond)
            | Self::Arrange(_, respond)
            | Self::Withdraw(_, respond)
            | Self::Abort(_, respond)
            | Self::Answer(_, _, respond)
            | Self::Ask(_, respond)
            | Self::Listen(_, respond)
            | Self::StopListening(_, respond)
            | Self::Suspend(respond)
            | Self::StartAgent(_, respond)
            | Self::StopAgent(_, respond)
            | Self::Truncate(_, respond)
            | Self::Change(_, respond) => respond(Err(failure)),
            Self::Stop(done) | Self::Vanish(done) => drop(done.send(())),
            Self::Compacted(_)
            | Self::Leave(_)
            | Self::Host(..)
            | Self::Note(..)
            | Self::Report(..)
            | Self::Finished(..)
            | Self::Look(_)
            | Self::Adjust(_) => {}
        }
    }
}

/// What can be seen of a live session.
pub(crate) struct View<'a> {
    pub(crate) session: &'a Session,
    pub(crate) settings: &'a Settings,
    pub(crate) head: Seq,
    pub(crate) tools: &'a Arc<ToolRoom>,
}

/// How to talk to a live session. Cheap to clone; holding one does not keep the session alive.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) id: SessionId,
    pub(crate) hub: Arc<Hub>,
    pub(super) mailbox: mpsc::UnboundedSender<Mail>,
}

impl Handle {
    pub(crate) fn new(id: SessionId, hub: Arc<Hub>, mailbox: mpsc::UnboundedSender<Mail>) -> Self {
        Self { id, hub, mailbox }
    }

    /// Whether both lead to the same stay of the session in memory.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.mailbox.same_channel(&other.mailbox)
    }

    /// Sends a message. Messages from one sender arrive in order.
    pub(crate) fn send(&self, mail: Mail) -> Result<(), Failure> {
        self.mailbox.send(mail).map_err(|_| self.gone())
    }

    /// Why the session is not in memory any more: what its store said, or else that it is not there.
    pub(crate) fn gone(&self) -> Failure {
        self.hub.failure().map_or_else(|| Failure::NotFound(self.id.clone()), Failure::Store)
    }

    /// Sends a message that is answered, at once, and waits for the answer when awaited.
    pub(crate) fn ask<M: FnOnce(Responder) -> Mail>(
        &self,
        mail: M,
    ) -> impl Future<Output = Result<Reply, Failure>> + Send + use<M> {
        let (sender, receiver) = oneshot::channel();
        let sent = self.send(mail(Box::new(move |answer| drop(sender.send(answer)))));
        let handle = self.clone();
        async move {
            sent?;
            receiver.await.unwrap_or_else(|_| Err(handle.gone()))
        }
    }

    /// Brings a client to the session.
    pub(crate) async fn join(&self, joining: Joining) -> Result<Joined, Failure> {
        let (sender, receiver) = oneshot::channel();
        self.send(Mail::Join(Box::new(joining), sender))?;
        receiver.await.unwrap_or_else(|_| Err(self.gone()))
    }

    /// Has the session stop without another word, because it is about to be deleted.
    pub(crate) async fn vanish(&self) {
        let (sender, receiver) = oneshot::channel();
        if self.send(Mail::Vanish(sender)).is_ok() {
            drop(receiver.await);
        }
    }

    /// A copy of what the session's own work would get, with the conversation.
    pub(crate) async fn borrow(&self) -> Result<Bench, Failure> {
        let (sender, receiver) = oneshot::channel();
        self.send(Mail::Borrow(sender))?;
        receiver.await.unwrap_or_else(|_| Err(self.gone()))
    }

    /// Looks at the state as it is after all that was sent before.
    pub(crate) fn look<T: Send + 'static, L: FnOnce(View<'_>) -> T + Send + 'static>(
        &self,
        look: L,
    ) -> impl Future<Output = Result<T, Failure>> + Send + use<T, L> {
        let (sender, receiver) = oneshot::channel();
        let sent = self.send(Mail::Look(Box::new(move |view| drop(sender.send(look(view))))));
        let handle = self.clone();
        async move {
            sent?;
            receiver.await.map_err(|_| handle.gone())
        }
    }
}
