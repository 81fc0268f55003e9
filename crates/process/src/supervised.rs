//! A program in its own session, with every process that it starts.
//!
//! Its pipes belong to the caller. Ending the program ends its whole tree.

use std::io;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessSession};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

use crate::end::end;
use crate::table::ProcessIdentity;
use crate::tree::{TAG_VARIABLE, Tree};
use crate::{Ledger, lock};

/// A running program and its process tree. Dropping it kills the tree.
#[derive(Debug)]
pub struct Supervised {
    child: Box<dyn ChildWrapper>,
    tree: Arc<Mutex<Tree>>,
    ledger: Ledger,
    /// No process of the tree is left.
    gone: bool,
}

/// Signals a process tree while its [`Supervised`] is in use elsewhere.
#[derive(Debug, Clone)]
pub struct TreeHandle(Arc<Mutex<Tree>>);

impl TreeHandle {
    /// Sends SIGINT to the program's process group, as Ctrl+C would.
    pub fn interrupt(&self) {
        lock(&self.0).interrupt();
    }

    /// Kills the tree. Blocks for some milliseconds.
    pub fn kill(&self) {
        lock(&self.0).kill();
    }
}

impl Supervised {
    /// Starts a program and records it in `ledger`.
    ///
    /// `tag` must be unique: every process whose tag begins with it is taken for part of the tree.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn spawn(mut command: Command, tag: String, ledger: Ledger) -> io::Result<Self> {
        command.env(TAG_VARIABLE, &tag).kill_on_drop(true);
        // A session, not just a group: a program that opens the terminal to ask for a password must fail, not be stopped
        // forever or disturb the terminal in which the server runs.
        let mut command = CommandWrap::from(command);
        command.wrap(ProcessSession);
        let starting = ledger.starting();
        let child = command.spawn()?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).ok_or(io::ErrorKind::NotFound)?;
        let leader = ProcessIdentity::of(pid);
        starting.started(leader);
        Ok(Self { child, tree: Arc::new(Mutex::new(Tree::new(leader, tag))), ledger, gone: false })
    }

    /// Returns the program's process.
    #[must_use]
    pub fn leader(&self) -> ProcessIdentity {
        lock(&self.tree).leader
    }

    /// Returns a handle for signals.
    #[must_use]
    pub fn handle(&self) -> TreeHandle {
        TreeHandle(Arc::clone(&self.tree))
    }

    /// Takes the program's pipes, those that were requested and not taken yet.
    pub fn pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdin().take(), self.child.stdout().take(), self.child.stderr().take())
    }

    /// Waits until the program has exited, whatever it left running. Cancel safe.
    ///
    /// # Errors
    /// When the exit status is not available.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        let mut tree = lock(&self.tree);
        tree.leader_reaped();
        if tree.has_known() {
            self.ledger.left(tree.leader, &tree.known());
        }
        Ok(status)
    }

    /// Returns whether processes are left after the program has exited.
    ///
    /// The process table is read only if the group had members when the program exited, or if `suspicious`: the caller
    /// knows of a reason, such as a pipe that is still open.
    pub fn has_leftovers(&mut self, suspicious: bool) -> bool {
        if self.gone {
            return false;
        }
        let mut tree = lock(&self.tree);
        if (suspicious || tree.has_known()) && !tree.is_empty() {
            return true;
        }
        self.ledger.ended(tree.leader);
        self.gone = true;
        false
    }

    /// Ends the tree: SIGTERM, then SIGKILL to processes that are left after `grace`. Returns whether all have ended.
    pub async fn end(&mut self, grace: Duration) -> bool {
        if !self.gone {
            self.gone = end(&self.tree, self.child.as_mut(), grace).await;
            if self.gone {
                self.ledger.ended(self.leader());
            }
        }
        self.gone
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        if !self.gone {
            let mut tree = lock(&self.tree);
            tree.kill();
            // Processes that could not be killed stay in the ledger, for the next server.
            if tree.is_empty() {
                self.ledger.ended(tree.leader);
            }
        }
    }
}
