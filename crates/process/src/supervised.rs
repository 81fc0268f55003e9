//! A program in its own session, with every process that it starts.
//!
//! Its pipes belong to the caller. Ending the program ends its whole tree.

use std::io;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_sandbox::{Control, Enclosed, Ended, Ready};
use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessSession};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

use crate::end::end;
use crate::inside::Inside;
use crate::table::ProcessIdentity;
use crate::tree::{TAG_VARIABLE, Tree};
use crate::{Ledger, lock};

/// A running program and its process tree. Dropping it kills the tree.
#[derive(Debug)]
pub struct Supervised {
    child: Box<dyn ChildWrapper>,
    tree: Arc<Mutex<Tree>>,
    ledger: Ledger,
    /// Reports of the helper, if the program is in a sandbox.
    inside: Option<Inside>,
    /// The input of a program in a sandbox; `stdin` of the process is the socket of its helper.
    stdin: Option<ChildStdin>,
    /// Where it runs, if that is a sandbox: kept as long as the program runs.
    place: Option<Arc<Ready>>,
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
        command.env(TAG_VARIABLE, &tag);
        Self::start(command, tag, ledger, None)
    }

    /// Starts a program in a sandbox. Its processes are those of its PID namespace; `tag` is for the ledger.
    ///
    /// # Errors
    /// When the helper cannot be started. Whether the program was, [`wait`](Self::wait) tells.
    pub fn spawn_enclosed(enclosed: Enclosed, tag: String, ledger: Ledger) -> io::Result<Self> {
        let Enclosed { command, control, stdin } = enclosed;
        let inside = Inside::new(&control)?;
        let stdin = stdin.map(ChildStdin::from_std).transpose()?;
        let mut started = Self::start(command.into(), tag, ledger, Some(control))?;
        (started.inside, started.stdin) = (Some(inside), stdin);
        Ok(started)
    }

    fn start(
        mut command: Command,
        tag: String,
        ledger: Ledger,
        control: Option<Control>,
    ) -> io::Result<Self> {
        command.kill_on_drop(true);
        // A session, not just a group: a program that opens the terminal to ask for a password must fail, not be stopped
        // forever or disturb the terminal in which the server runs.
        let mut command = CommandWrap::from(command);
        command.wrap(ProcessSession);
        let starting = ledger.starting();
        let child = command.spawn()?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).ok_or(io::ErrorKind::NotFound)?;
        let leader = ProcessIdentity::of(pid);
        starting.started(leader);
        let tree = Arc::new(Mutex::new(Tree::new(leader, tag, control)));
        Ok(Self { child, tree, ledger, inside: None, stdin: None, place: None, gone: false })
    }

    /// Keeps the sandbox that the program runs in, as long as the program runs.
    pub(crate) fn within(mut self, sandbox: Arc<Ready>) -> Self {
        self.place = Some(sandbox);
        self
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
        let stdin = self.stdin.take().or_else(|| self.child.stdin().take());
        (stdin, self.child.stdout().take(), self.child.stderr().take())
    }

    /// Waits until the program has exited, whatever it left running. Cancel safe.
    ///
    /// # Errors
    /// When the exit status is not available.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = match &mut self.inside {
            None => self.child.wait().await?,
            Some(inside) => inside.wait(self.child.as_mut()).await?,
        };
        let mut tree = lock(&self.tree);
        if self.child.id().is_some() {
            return Ok(status);
        }
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
        if self.inside.as_ref().is_some_and(|inside| inside.has_left)
            && matches!(self.child.try_wait(), Ok(None))
        {
            return true;
        }
        let mut tree = lock(&self.tree);
        if (suspicious || tree.has_known()) && !tree.is_empty() {
            return true;
        }
        self.ledger.ended(tree.leader);
        self.gone = true;
        false
    }

    /// Returns the limit of the sandbox that ended the program.
    #[must_use]
    pub fn ended_by(&self) -> Option<Ended> {
        self.inside.as_ref()?.ended
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
