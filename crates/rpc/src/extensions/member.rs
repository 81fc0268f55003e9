//! One extension of a session: its status, its process and its connection.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use baton_addons::extensions::{Available, Process};
use baton_ask::extensions::{ExtensionEntry, ExtensionStatus};
use baton_protocol::SessionId;
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

struct State {
    status: ExtensionStatus,
    process: Option<Arc<Process>>,
    connection: Weak<Connection>,
}

impl Membership {
    pub(super) fn new(found: Available, session: &SessionId) -> Arc<Self> {
        let state = State { status: ExtensionStatus::Starting, process: None, connection: Weak::new() };
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
        if state.status == ExtensionStatus::Starting {
            state.status = ExtensionStatus::Running;
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

    pub(super) fn set_status(&self, status: ExtensionStatus) {
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
    pub(super) fn describe(&self) -> ExtensionEntry {
        let state = lock(&self.state);
        let is_alive = matches!(state.status, ExtensionStatus::Starting | ExtensionStatus::Running);
        ExtensionEntry {
            id: self.id.clone(),
            name: self.found.extension.name.clone(),
            source: self.found.source.as_str().to_owned(),
            status: state.status,
            pid: state.process.as_ref().filter(|_| is_alive).map(|process| process.pid),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use baton_addons::extensions::{Extension, Source};
    use tokio::time::{Instant, sleep, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn answered_question_is_not_undecided() {
        let grace = Duration::from_secs(1);
        let (root, entry) = (PathBuf::from("/e"), PathBuf::from("/e/extension.mjs"));
        let extension = Extension { name: "e".into(), root, entry, digest: String::new() };
        let found = Available { source: Source::User, extension };
        let member = Membership::new(found, &SessionId::random());
        let asking = async {
            drop(member.question());
            let question = member.question();
            sleep(grace / 2).await;
            drop(question);
            sleep(10 * grace).await;
            let _open = member.question();
            assert!(member.is_undecided());
            sleep(2 * grace).await;
        };
        let begun = Instant::now();
        let undecided = async {
            member.undecided(grace).await;
            begun.elapsed()
        };
        let (elapsed, ()) = tokio::join!(undecided, asking);
        assert_eq!(elapsed, grace / 2 + 10 * grace + grace);
        assert!(timeout(grace, member.decided()).await.is_ok());
    }
}
