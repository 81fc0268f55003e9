//! Stored sessions: listing, searching, reading, creating, copying and deleting them.

use std::sync::Arc;
use std::time::Duration;

use baton_ask::RewindOutcome;
use baton_ask::files::PreviewUndo;
use baton_files::rewind::{FileHistory, Undone};
use baton_history::fork::{Fork, ForkError, fork};
use baton_history::search::{Results, search};
use baton_history::{metadata, owner};
use baton_protocol::params::SessionMetadata;
use baton_protocol::{SessionId, Timestamp};
use baton_runtime::session::{Failure, JoinRequest, Port};
use baton_store::{Owner, Page, Seq, Span, StoreError, Summary};

use crate::{Action, AskError, LiveSession, Operation, OperationError, Permitted, Service};

/// Longest time that a search indexes new records before it answers.
const PATIENCE: Duration = Duration::from_secs(1);

/// Lists all sessions, last changed first.
#[derive(Debug, Clone, Copy)]
pub struct ListSessions;

impl Action for ListSessions {
    const OPERATION: Operation = Operation::ListSessions;
    type Reply = Vec<Summary>;
    type Error = StoreError;

    async fn run(self, permitted: Permitted<'_>) -> Result<Vec<Summary>, StoreError> {
        permitted.service.runtime().store.list().await
    }
}

/// Shows a session.
#[derive(Debug, Clone)]
pub struct ShowSession {
    /// The session.
    pub id: SessionId,
}

impl Action for ShowSession {
    const OPERATION: Operation = Operation::ShowSession;
    type Reply = Summary;
    type Error = Failure;

    async fn run(self, permitted: Permitted<'_>) -> Result<Summary, Failure> {
        let found = permitted.service.runtime().store.summary(&self.id).await?;
        found.ok_or(Failure::NotFound(self.id))
    }
}

/// Reads stored events of a session.
#[derive(Debug, Clone)]
pub struct ReadEvents {
    /// The session.
    pub id: SessionId,
    /// Which events.
    pub span: Span,
    /// Size after which the page is cut, in bytes.
    pub max_bytes: usize,
}

impl Action for ReadEvents {
    const OPERATION: Operation = Operation::ReadEvents;
    type Reply = Page;
    type Error = StoreError;

    async fn run(self, permitted: Permitted<'_>) -> Result<Page, StoreError> {
        permitted.service.runtime().store.read_page(&self.id, self.span, self.max_bytes).await
    }
}

/// Reads the next events of an export.
#[derive(Debug, Clone)]
pub struct ExportSession {
    /// The session.
    pub id: SessionId,
    /// The last event that was read.
    pub after: Seq,
    /// Size after which the page is cut, in bytes.
    pub max_bytes: usize,
}

impl Action for ExportSession {
    const OPERATION: Operation = Operation::ExportSession;
    type Reply = Page;
    type Error = StoreError;

    async fn run(self, permitted: Permitted<'_>) -> Result<Page, StoreError> {
        let span = Span::After { after: self.after, limit: 200 };
        permitted.service.runtime().store.read_page(&self.id, span, self.max_bytes).await
    }
}

/// Searches titles and conversations.
#[derive(Debug, Clone)]
pub struct SearchSessions {
    /// Words to find, each as the beginning of a word.
    pub text: String,
    /// Maximum number of sessions.
    pub limit: usize,
}

impl Action for SearchSessions {
    const OPERATION: Operation = Operation::SearchSessions;
    type Reply = Results;
    type Error = StoreError;

    async fn run(self, Permitted { service, caller }: Permitted<'_>) -> Result<Results, StoreError> {
        let _turn = service.shared.scans.turn(caller.person()).await;
        search(&*service.runtime().store, &self.text, self.limit, PATIENCE).await
    }
}

/// Creates a session. The client that creates it is attached.
pub struct CreateSession {
    /// Its id.
    pub id: SessionId,
    /// The client, with the settings of the session.
    pub joining: JoinRequest,
    /// Where the client's events go.
    pub port: Arc<dyn Port>,
}

impl Action for CreateSession {
    const OPERATION: Operation = Operation::CreateSession;
    type Reply = (LiveSession, baton_runtime::session::JoinReply);
    type Error = Failure;

    async fn run(self, Permitted { service, caller }: Permitted<'_>) -> Result<Self::Reply, Failure> {
        let runtime = service.runtime();
        let (handle, joined) = runtime.registry.create(runtime, &self.id, self.joining, self.port).await?;
        Ok((LiveSession::new(caller.clone(), handle), joined))
    }
}

/// Copies a session. Replies with the id and name of the copy.
pub struct ForkSession(pub Fork);

impl Action for ForkSession {
    const OPERATION: Operation = Operation::ForkSession;
    type Reply = (SessionId, String);
    type Error = ForkError;

    async fn run(self, permitted: Permitted<'_>) -> Result<(SessionId, String), ForkError> {
        fork(&*permitted.service.runtime().store, self.0).await
    }
}

/// Deletes a session and its files. Replies whether it existed.
#[derive(Debug, Clone)]
pub struct DeleteSession {
    /// The session.
    pub id: SessionId,
}

impl Action for DeleteSession {
    const OPERATION: Operation = Operation::DeleteSession;
    type Reply = bool;
    type Error = StoreError;

    async fn run(self, permitted: Permitted<'_>) -> Result<bool, StoreError> {
        permitted.service.runtime().delete(&self.id).await
    }
}

/// Deletes sessions that have not changed for long. Skips sessions in use.
#[derive(Debug, Clone, Default)]
pub struct PruneSessions {
    /// How long, in days.
    pub older_than_days: u64,
    /// Whether to delete nothing, and only say what would be deleted.
    pub dry_run: bool,
    /// Ids of sessions to skip.
    pub exclude: Vec<String>,
    /// Whether to delete sessions with a name, too.
    pub include_named: bool,
}

/// Result of [`PruneSessions`].
#[derive(Debug, Clone, Default)]
pub struct PrunedSessions {
    /// What was deleted.
    pub deleted: Vec<SessionId>,
    /// What was or would be deleted.
    pub candidates: Vec<SessionId>,
    /// Old sessions that were skipped.
    pub skipped: Vec<SessionId>,
    /// Bytes that were or would be freed.
    pub freed_bytes: u64,
}

impl Action for PruneSessions {
    const OPERATION: Operation = Operation::PruneSessions;
    type Reply = PrunedSessions;
    type Error = StoreError;

    async fn run(self, permitted: Permitted<'_>) -> Result<PrunedSessions, StoreError> {
        const DAY_MS: u64 = 24 * 60 * 60 * 1000;
        let runtime = permitted.service.runtime();
        let age = i64::try_from(self.older_than_days.saturating_mul(DAY_MS)).unwrap_or(i64::MAX);
        let newest = Timestamp::now().as_millis().saturating_sub(age);
        let all = runtime.store.list().await?;
        let old = all.into_iter().filter(|summary| summary.modified.as_millis() <= newest);
        let (candidates, skipped): (Vec<_>, Vec<_>) = old.partition(|summary| {
            let excluded = self.exclude.iter().any(|id| id == summary.session.as_str());
            let held = summary.holder.as_ref().is_some_and(|holder| owner::is_alive(&holder.owner));
            let named = metadata::decode(&summary.meta).name.is_some() && !self.include_named;
            !(excluded || held || named)
        });
        let mut pruned = PrunedSessions::default();
        for summary in &candidates {
            if !self.dry_run && !runtime.delete(&summary.session).await? {
                continue;
            }
            pruned.freed_bytes += summary.size;
            if !self.dry_run {
                pruned.deleted.push(summary.session.clone());
            }
        }
        let ids = |list: Vec<Summary>| list.into_iter().map(|summary| summary.session).collect();
        Ok(PrunedSessions { candidates: ids(candidates), skipped: ids(skipped), ..pruned })
    }
}

/// Reads which files the tools of a session have changed.
#[derive(Debug, Clone)]
pub struct ReadFileHistory {
    /// The session.
    pub id: SessionId,
    /// Its head.
    pub head: Seq,
}

impl Action for ReadFileHistory {
    const OPERATION: Operation = Operation::PreviewRewind;
    type Reply = FileHistory;
    type Error = StoreError;

    async fn run(self, permitted: Permitted<'_>) -> Result<FileHistory, StoreError> {
        FileHistory::read(&*permitted.service.runtime().store, &self.id, self.head).await
    }
}

/// Shows what a rewind to before a prompt would do.
#[derive(Debug, Clone)]
pub struct PreviewRewind {
    /// The session.
    pub id: SessionId,
    /// Id of the event of the prompt.
    pub event: String,
}

/// What a rewind would do.
#[derive(Debug)]
pub struct RewindPreview {
    /// Why the conversation cannot be rewound now.
    pub obstacle: Option<RewindOutcome>,
    /// Whether files can be restored.
    pub can_restore_files: bool,
    /// What would happen to each file.
    pub files: Vec<Undone>,
}

/// Why there is no preview.
#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    /// There is no such prompt.
    #[error("no such prompt in session {session}: {event}")]
    NoSuchPrompt {
        /// The session.
        session: SessionId,
        /// The event that was named.
        event: String,
    },
    /// The session failed.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl From<StoreError> for PreviewError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

impl Action for PreviewRewind {
    const OPERATION: Operation = Operation::PreviewRewind;
    type Reply = RewindPreview;
    type Error = PreviewError;

    async fn run(self, Permitted { service, caller }: Permitted<'_>) -> Result<RewindPreview, PreviewError> {
        let Self { id, event } = self;
        let failed = |error: AskError| match error {
            OperationError::Failed(failure) => PreviewError::Failed(failure),
            // Whoever may preview may read the state.
            OperationError::Denied(denied) => PreviewError::Failed(Failure::Refused(denied.to_string())),
        };
        let view = service.open(caller, &id).await.map_err(failed)?.inspect().await.map_err(failed)?;
        let _turn = service.shared.scans.turn(caller.person()).await;
        let history = FileHistory::read(&*service.runtime().store, &id, view.head).await?;
        let Some(from) = event.parse().ok().and_then(|event| history.place_of(event)) else {
            return Err(PreviewError::NoSuchPrompt { session: id, event });
        };
        let obstacle = view.session.rewind_obstacle(false).map(RewindOutcome::from);
        let can_restore_files = view.session.rewind_obstacle(true).is_none();
        let files = if can_restore_files {
            // Compared where the files are.
            let touched = history.touched_since(from);
            service.ask(caller, &id, PreviewUndo { touched }).await.map_err(failed)?
        } else {
            Vec::new()
        };
        Ok(RewindPreview { obstacle, can_restore_files, files })
    }
}

/// What lists of sessions show.
#[derive(Debug, Clone)]
pub struct SessionOverview {
    /// Title and directory.
    pub metadata: SessionMetadata,
    /// Model of the session.
    pub model: Option<String>,
    /// Cost of the model calls in US dollars, if the price of each model is configured.
    pub cost: Option<f64>,
    /// Whether a turn runs or a prompt is queued.
    pub busy: bool,
    /// A different, living server that holds the session.
    pub held_by: Option<Owner>,
    /// Number of clients that receive the session's events from this server.
    pub watching: usize,
}

impl Service {
    /// Describes a session that was listed or found.
    #[must_use]
    pub fn describe(&self, summary: &Summary) -> SessionOverview {
        let runtime = self.runtime();
        let stored = metadata::decode(&summary.meta);
        SessionOverview {
            metadata: metadata::of(summary),
            cost: runtime.options.prices.cost(&stored.usage),
            model: stored.model,
            busy: metadata::is_unfinished(summary),
            held_by: self.other_holder(summary).cloned(),
            watching: runtime.registry.get(&summary.session).map_or(0, |handle| handle.hub.clients()),
        }
    }

    /// Returns the different, living server that holds a session, if any.
    #[must_use]
    pub fn other_holder<'a>(&self, summary: &'a Summary) -> Option<&'a Owner> {
        let holder = summary.holder.as_ref().map(|holder| &holder.owner);
        holder.filter(|holder| holder.server != self.runtime().owner.server && owner::is_alive(holder))
    }
}
