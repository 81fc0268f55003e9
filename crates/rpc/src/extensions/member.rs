//! One extension of a session: its status, its process and its connection.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use baton_protocol::SessionId;
use baton_runtime::extensions::{Available, Process};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::lock;
use crate::connection::Connection;

/// An extension as a member of a session.
pub(crate) struct Membership {
    pub(super) found: Available,
    id: String,
    session: SessionId,
    state: Mutex<State>,
    /// Cancelled when it has joined the session.
    joined: CancellationToken,
    /// Number of questions about it that no user has answered.
    questions: watch::Sender<usize>,
}

/// A question about an extension. Dropping it notes that the question is closed.
pub(super) struct Question<'a>(&'a watch::Sender<usize>);

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

impl std::fmt::Debug for Membership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Membership").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Status of an extension, as SDKs know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Starting,
    Running,
    Disabled,
    Failed,
}

struct State {
    status: Status,
    process: Option<Arc<Process>>,
    connection: Weak<Connection>,
}

impl Membership {
    pub(super) fn new(found: Available, session: &SessionId) -> Arc<Self> {
        let state = State { status: Status::Starting, process: None, connection: Weak::new() };
        Arc::new(Self {
            id: found.id(),
            found,
            session: session.clone(),
            state: Mutex::new(state),
            joined: CancellationToken::new(),
            questions: watch::Sender::new(0),
        })
    }

    /// Returns the id of the extension.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the extension.
    pub(crate) fn found(&self) -> &Available {
        &self.found
    }

    /// Returns the only session that the extension may use.
    pub(crate) fn session(&self) -> &SessionId {
        &self.session
    }

    /// Records that the extension has joined its session.
    pub(crate) fn join(&self) {
        let mut state = lock(&self.state);
        if state.status == Status::Starting {
            state.status = Status::Running;
        }
        self.joined.cancel();
    }

    /// Waits until the extension has joined its session.
    pub(super) async fn joined(&self) {
        self.joined.cancelled().await;
    }

    /// Notes that a user is asked about it.
    pub(super) fn question(&self) -> Question<'_> {
        self.questions.send_modify(|open| *open += 1);
        Question(&self.questions)
    }

    /// Waits until a question has been open for this long.
    pub(super) async fn undecided(&self, grace: Duration) {
        let mut open = self.questions.subscribe();
        loop {
            // The sender lives as long as this.
            let _ = open.wait_for(|open| *open > 0).await;
            tokio::select! {
                () = tokio::time::sleep(grace) => return,
                _ = open.wait_for(|open| *open == 0) => {}
            }
        }
    }

    /// Waits until no question is open.
    pub(super) async fn decided(&self) {
        let _ = self.questions.subscribe().wait_for(|open| *open == 0).await;
    }

    /// Whether a question is open.
    pub(super) fn is_undecided(&self) -> bool {
        *self.questions.borrow() > 0
    }

    pub(super) fn set_status(&self, status: Status) {
        lock(&self.state).status = status;
    }

    pub(super) fn run(&self, process: &Arc<Process>, connection: &Arc<Connection>) {
        let mut state = lock(&self.state);
        state.process = Some(process.clone());
        state.connection = Arc::downgrade(connection);
    }

    /// Closes its connection and ends its processes, without waiting for them.
    pub(super) fn stop(&self) {
        let (process, connection) = {
            let state = lock(&self.state);
            (state.process.clone(), state.connection.upgrade())
        };
        if let Some(connection) = connection {
            connection.close();
        }
        if let Some(process) = process {
            process.end();
        }
    }

    /// Waits until its processes are gone.
    pub(super) async fn gone(&self) {
        let process = lock(&self.state).process.clone();
        if let Some(process) = process {
            process.gone().await;
        }
    }

    /// Describes it for clients.
    pub(super) fn describe(&self) -> Value {
        let state = lock(&self.state);
        let status = match state.status {
            Status::Starting => "starting",
            Status::Running => "running",
            Status::Disabled => "disabled",
            Status::Failed => "failed",
        };
        let mut shown = json!({
            "id": self.id,
            "name": self.found.extension.name,
            "source": self.found.source.as_str(),
            "status": status,
        });
        let is_alive = matches!(state.status, Status::Starting | Status::Running);
        if let Some(process) = state.process.as_ref().filter(|_| is_alive) {
            shown["pid"] = process.pid.into();
        }
        shown
    }
}
