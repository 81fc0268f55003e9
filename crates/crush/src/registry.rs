//! Registry of the workspaces and their claims. One lock guards both, so that a client never gets a workspace that is being
//! closed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use baton_core::Session;
use baton_protocol::SessionId;
use baton_store::Seq;
use tokio::sync::Notify;
use tracing::Instrument as _;
use uuid::Uuid;

use super::claims::{Claims, GracePeriods, NotAttached, Retired};
use super::sessions::is_busy;
use super::workspace::{Workspace, WorkspaceSettings};
use super::{events, lock};
use baton_files::context;
use baton_runtime::lifecycle::Observer;
use baton_service::Service;
use baton_service::sessions::ListSessions;

/// Maximum number of workspaces.
const MAX_WORKSPACES: usize = 1024;

/// Grace periods of workspaces, and settings of their runs.
#[derive(Debug, Clone)]
pub struct WorkspaceOptions {
    /// How long a workspace stays open until the client that created it streams events.
    pub create_grace: Duration,
    /// How long it stays open after the end of a client's last stream.
    pub detach_grace: Duration,
    /// Whether runs continue when the last client has disconnected.
    pub keep_running: bool,
    /// Whether tools run without permission requests in runs with a run id: a script waits for them, not a user.
    pub approve_runs: bool,
}

impl Default for WorkspaceOptions {
    fn default() -> Self {
        Self {
            create_grace: Duration::from_secs(30),
            detach_grace: Duration::from_secs(10),
            keep_running: false,
            approve_runs: false,
        }
    }
}

/// Error of a client that cannot get a workspace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CreateError {
    Retired,
    /// The workspace is open, with different channels.
    OtherChannels,
    TooMany,
}

/// The workspaces of a server.
pub(crate) struct Workspaces {
    service: Service,
    state: Mutex<State>,
    /// Notified when the deadline of the next claim may have changed.
    changed: Notify,
    /// Set when the task that expires claims has been started, with the first workspace.
    sweeper: OnceLock<()>,
}

struct State {
    claims: Claims,
    by_id: HashMap<Uuid, Arc<Workspace>>,
}

impl Workspaces {
    pub(crate) fn new(service: &Service, options: &WorkspaceOptions) -> Arc<Self> {
        let grace = GracePeriods { create: options.create_grace, detach: options.detach_grace };
        let state = State { claims: Claims::new(grace), by_id: HashMap::new() };
        let workspaces = Arc::new(Self {
            service: service.clone(),
            state: Mutex::new(state),
            changed: Notify::new(),
            sweeper: OnceLock::new(),
        });
        let witness: Arc<dyn Observer> = workspaces.clone();
        service.observe(Arc::downgrade(&witness));
        workspaces
    }

    pub(crate) fn get(&self, id: Uuid) -> Option<Arc<Workspace>> {
        lock(&self.state).by_id.get(&id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Workspace>> {
        lock(&self.state).by_id.values().cloned().collect()
    }

    /// Returns the workspace of a directory, with a claim of the client. The settings are those of the first client.
    pub(crate) async fn create(
        self: &Arc<Self>,
        client: Uuid,
        settings: WorkspaceSettings,
    ) -> Result<Arc<Workspace>, CreateError> {
        let key = context::resolved_in_time((&settings.path).into()).await.to_string_lossy().into_owned();
        let (workspace, is_new) = {
            let mut state = lock(&self.state);
            let known = state.by_id.values().find(|workspace| workspace.key == key).cloned();
            if known.as_ref().is_some_and(|known| known.settings.channels != settings.channels) {
                return Err(CreateError::OtherChannels);
            }
            let is_new = known.is_none();
            if is_new && state.by_id.len() >= MAX_WORKSPACES {
                return Err(CreateError::TooMany);
            }
            let workspace = known.unwrap_or_else(|| Arc::new(Workspace::new(&self.service, key, settings)));
            state
                .claims
                .create(workspace.id, client, Instant::now())
                .map_err(|Retired| CreateError::Retired)?;
            state.by_id.insert(workspace.id, workspace.clone());
            (workspace, is_new)
        };
        self.claims_changed();
        if is_new {
            self.service.tasks().spawn(watch_busy_sessions(workspace.clone()).instrument(workspace.span()));
        }
        Ok(workspace)
    }

    /// Claims a workspace for a stream that starts. `None` if the workspace has been closed.
    pub(crate) fn attach(self: &Arc<Self>, workspace: Uuid, client: Uuid) -> Option<StreamClaim> {
        let mut state = lock(&self.state);
        if !state.by_id.contains_key(&workspace) {
            return None;
        }
        state.claims.attach(workspace, client);
        Some(StreamClaim { workspaces: self.clone(), workspace, client })
    }

    /// Ends a client's claim without a grace period.
    pub(crate) fn release(self: &Arc<Self>, workspace: Uuid, client: Uuid) {
        let claimed = lock(&self.state).claims.release(workspace, client);
        self.claim_ended(claimed, workspace);
    }

    /// Ends all claims of a client, which cannot make new ones.
    pub(crate) fn retire(self: &Arc<Self>, client: Uuid) {
        let unclaimed = lock(&self.state).claims.retire(client);
        unclaimed.into_iter().for_each(|workspace| self.claim_ended(false, workspace));
    }

    /// Sets the session that a client shows.
    pub(crate) fn set_current_session(
        &self,
        workspace: Uuid,
        client: Uuid,
        session: Option<SessionId>,
    ) -> Result<(), NotAttached> {
        lock(&self.state).claims.set_current_session(workspace, client, session)
    }

    /// Counts the clients that show a session.
    pub(crate) fn viewers(&self, workspace: Uuid, session: &SessionId) -> usize {
        lock(&self.state).claims.viewers(workspace, session)
    }

    /// Returns the workspace of a session's directory.
    fn workspace_of(&self, session: &Session) -> Option<Arc<Workspace>> {
        let cwd = &session.durable.facts.context.cwd;
        lock(&self.state).by_id.values().find(|workspace| workspace.is_at(cwd)).cloned()
    }

    fn claims_changed(self: &Arc<Self>) {
        self.sweeper.get_or_init(|| {
            let workspaces = self.clone();
            self.service.tasks().spawn(async move { workspaces.sweep().await });
        });
        self.changed.notify_one();
    }

    /// Expires claims until the server stops.
    async fn sweep(self: Arc<Self>) {
        loop {
            let deadline = lock(&self.state).claims.next_deadline();
            let expired = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.service.stopping().cancelled() => return,
                () = self.changed.notified() => {}
                () = expired => {
                    let unclaimed = lock(&self.state).claims.expire(Instant::now());
                    unclaimed.into_iter().for_each(|workspace| self.claim_ended(false, workspace));
                }
            }
        }
    }

    /// Closes a workspace after the end of a claim, unless it is still claimed.
    fn claim_ended(self: &Arc<Self>, claimed: bool, workspace: Uuid) {
        self.claims_changed();
        if claimed {
            return;
        }
        let mut state = lock(&self.state);
        // A client may have claimed it since.
        if state.claims.is_claimed(workspace) {
            return;
        }
        if let Some(workspace) = state.by_id.remove(&workspace) {
            let span = workspace.span();
            self.service.tasks().spawn(async move { workspace.close().await }.instrument(span));
        }
    }
}

/// Claim of an open stream.
pub(crate) struct StreamClaim {
    workspaces: Arc<Workspaces>,
    workspace: Uuid,
    client: Uuid,
}

impl Drop for StreamClaim {
    fn drop(&mut self) {
        let claimed = lock(&self.workspaces.state).claims.detach(self.workspace, self.client, Instant::now());
        self.workspaces.claim_ended(claimed, self.workspace);
    }
}

impl Observer for Workspaces {
    fn recorded(&self, session: &Session, after: Seq) {
        if let Some(workspace) = self.workspace_of(session) {
            workspace.watch_after(&session.id, after, Some(session.is_busy()));
        }
    }

    fn heard(&self, session: &Session, after: Seq) {
        self.recorded(session, after);
    }

    fn missed(&self) {
        for workspace in self.all() {
            let span = workspace.span();
            self.service.tasks().spawn(watch_busy_sessions(workspace).instrument(span));
        }
    }

    fn deleted(&self, session: &SessionId) {
        // The directory of a deleted session is unknown; clients ignore ids that they do not know.
        let event = events::session_deleted(session);
        self.all().iter().for_each(|workspace| workspace.feed.publish(&event));
    }
}

/// Watches the busy sessions of a new workspace's directory: those of other doors, and pending work of a stopped server.
async fn watch_busy_sessions(workspace: Arc<Workspace>) {
    for session in workspace.service.all_live(&workspace.caller) {
        if let Ok(view) = session.inspect().await
            && view.session.is_busy()
            && workspace.is_at(view.cwd())
        {
            workspace.watch_after(session.id(), view.head, Some(true));
        }
    }
    let Ok(stored) = workspace.service.perform(&workspace.caller, ListSessions).await else { return };
    for summary in stored {
        if workspace.contains(&summary) && is_busy(&summary) {
            workspace.watch_after(&summary.session, summary.head, None);
        }
    }
}
