//! All workspaces, and who claims them. One lock over both: a workspace is either there for whoever comes, or gone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use baton_core::Session;
use baton_protocol::SessionId;
use baton_store::Seq;
use tokio::sync::Notify;
use uuid::Uuid;

use super::claims::{Claims, Holds, NotAttached, Retired};
use super::telling;
use super::workspace::{Founding, Workspace, lock};
use crate::lifecycle::Witness;
use crate::{Server, context};

/// How many workspaces there may be.
const MOST_WORKSPACES: usize = 1024;

/// How long workspaces live without anybody, and what becomes of their runs.
#[derive(Debug, Clone)]
pub struct WorkspaceOptions {
    /// How long a workspace waits for the client that created it.
    pub create_grace: Duration,
    /// How long it waits for a client whose stream has ended.
    pub detach_grace: Duration,
    /// Whether runs go on when the last client has left.
    pub keep_running: bool,
    /// Whether tools run without asking in a run that a script waits for, which nobody sits in front of.
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

/// Why there is no workspace for a client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Retired,
    /// The workspace is there, with other channels.
    OtherChannels,
    TooMany,
}

/// See the module.
pub(crate) struct Workspaces {
    server: Arc<Server>,
    state: Mutex<State>,
    /// Something has changed about when the next claim runs out.
    changed: Notify,
    /// The task that lets claims run out is started with the first workspace.
    sweeping: OnceLock<()>,
}

struct State {
    claims: Claims,
    by_id: HashMap<Uuid, Arc<Workspace>>,
}

impl Workspaces {
    pub(crate) fn new(server: &Arc<Server>, options: &WorkspaceOptions) -> Arc<Self> {
        let holds = Holds { create: options.create_grace, detach: options.detach_grace };
        let state = State { claims: Claims::new(holds), by_id: HashMap::new() };
        let workspaces = Arc::new(Self {
            server: server.clone(),
            state: Mutex::new(state),
            changed: Notify::new(),
            sweeping: OnceLock::new(),
        });
        let witness: Arc<dyn Witness> = workspaces.clone();
        server.lifecycle.add_witness(Arc::downgrade(&witness));
        workspaces
    }

    pub(crate) fn get(&self, id: Uuid) -> Option<Arc<Workspace>> {
        lock(&self.state).by_id.get(&id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Workspace>> {
        lock(&self.state).by_id.values().cloned().collect()
    }

    /// The workspace of a directory, claimed for a client. The first one to ask decides what it is like.
    pub(crate) async fn create(
        self: &Arc<Self>,
        client: Uuid,
        founding: Founding,
    ) -> Result<Arc<Workspace>, Refusal> {
        let key = context::resolved((&founding.path).into()).await.to_string_lossy().into_owned();
        let (workspace, is_new) = {
            let mut state = lock(&self.state);
            let known = state.by_id.values().find(|workspace| workspace.key == key).cloned();
            if known.as_ref().is_some_and(|known| known.founding.channels != founding.channels) {
                return Err(Refusal::OtherChannels);
            }
            let is_new = known.is_none();
            if is_new && state.by_id.len() >= MOST_WORKSPACES {
                return Err(Refusal::TooMany);
            }
            let workspace = known.unwrap_or_else(|| Arc::new(Workspace::new(&self.server, key, founding)));
            state.claims.create(workspace.id, client, Instant::now()).map_err(|Retired| Refusal::Retired)?;
            state.by_id.insert(workspace.id, workspace.clone());
            (workspace, is_new)
        };
        self.claims_changed();
        if is_new {
            self.server.tasks.spawn(discover(workspace.clone()));
        }
        Ok(workspace)
    }

    /// A stream begins. None if the workspace has gone in the meantime.
    pub(crate) fn attach(self: &Arc<Self>, workspace: Uuid, client: Uuid) -> Option<Attached> {
        let mut state = lock(&self.state);
        if !state.by_id.contains_key(&workspace) {
            return None;
        }
        state.claims.attach(workspace, client);
        Some(Attached { workspaces: self.clone(), workspace, client })
    }

    pub(crate) fn release(self: &Arc<Self>, workspace: Uuid, client: Uuid) {
        let claimed = lock(&self.state).claims.release(workspace, client);
        self.take_down_unless(claimed, workspace);
    }

    pub(crate) fn retire(self: &Arc<Self>, client: Uuid) {
        let left = lock(&self.state).claims.retire(client);
        left.into_iter().for_each(|workspace| self.take_down_unless(false, workspace));
    }

    pub(crate) fn look_at(
        &self,
        workspace: Uuid,
        client: Uuid,
        session: Option<SessionId>,
    ) -> Result<(), NotAttached> {
        lock(&self.state).claims.look_at(workspace, client, session)
    }

    /// How many clients look at a session.
    pub(crate) fn lookers(&self, workspace: Uuid, session: &SessionId) -> usize {
        lock(&self.state).claims.lookers(workspace, session)
    }

    fn claims_changed(self: &Arc<Self>) {
        self.sweeping.get_or_init(|| {
            let workspaces = self.clone();
            self.server.tasks.spawn(async move { workspaces.sweep().await });
        });
        self.changed.notify_one();
    }

    /// Lets claims run out, until the server stops.
    async fn sweep(self: Arc<Self>) {
        loop {
            let deadline = lock(&self.state).claims.next_deadline();
            let run_out = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.server.stopping.cancelled() => return,
                () = self.changed.notified() => {}
                () = run_out => {
                    let left = lock(&self.state).claims.expire(Instant::now());
                    left.into_iter().for_each(|workspace| self.take_down_unless(false, workspace));
                }
            }
        }
    }

    fn take_down_unless(self: &Arc<Self>, claimed: bool, workspace: Uuid) {
        self.claims_changed();
        if claimed {
            return;
        }
        let mut state = lock(&self.state);
        // Somebody may have claimed it since.
        if state.claims.is_claimed(workspace) {
            return;
        }
        if let Some(workspace) = state.by_id.remove(&workspace) {
            self.server.tasks.spawn(async move { workspace.close().await });
        }
    }
}

/// A stream of a client, for as long as it lasts.
pub(crate) struct Attached {
    workspaces: Arc<Workspaces>,
    workspace: Uuid,
    client: Uuid,
}

impl Drop for Attached {
    fn drop(&mut self) {
        let claimed = lock(&self.workspaces.state).claims.detach(self.workspace, self.client, Instant::now());
        self.workspaces.take_down_unless(claimed, self.workspace);
    }
}

impl Witness for Workspaces {
    fn recorded(&self, session: &Session, after: Seq) {
        let cwd = &session.durable.facts.context.cwd;
        let workspace = lock(&self.state).by_id.values().find(|workspace| workspace.is_at(cwd)).cloned();
        if let Some(workspace) = workspace {
            workspace.follow(&session.id, after, Some(session.is_busy()));
        }
    }

    fn deleted(&self, session: &SessionId) {
        // Whose directory it was is not known any more; a name that a client does not know means nothing to it.
        let piece = telling::deleted(session);
        self.all().iter().for_each(|workspace| workspace.feed.tell(&piece));
    }
}

/// Follows what goes on in the directory already: sessions of other doors, and what waits since before a restart.
async fn discover(workspace: Arc<Workspace>) {
    for handle in workspace.server.registry.all() {
        let look = handle
            .look(|view| (view.session.durable.facts.context.cwd.clone(), view.head, view.session.is_busy()));
        if let Ok((cwd, head, true)) = look.await
            && workspace.is_at(&cwd)
        {
            workspace.follow(&handle.id, head, Some(true));
        }
    }
    let Ok(stored) = workspace.server.store.list().await else { return };
    for summary in stored {
        if workspace.holds(&summary) && summary.holder.as_ref().is_some_and(|holder| holder.busy) {
            workspace.follow(&summary.session, summary.head, None);
        }
    }
}
