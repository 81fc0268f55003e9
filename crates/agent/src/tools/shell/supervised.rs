//! A program that somebody else talks to, with all that it starts: another agent, a server of tools.
//!
//! Unlike a command of the model, its pipes belong to whoever started it, and nobody watches over it but its owner. What
//! is shared with commands is the one thing that must not be done twice: that ending it ends all of it (see `tree`).

use std::io;
use std::process::ExitStatus;
use std::sync::Mutex;
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessSession};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

use super::process_log::{Processes, StartedGroup};
use super::process_table::Identity;
use super::tree::{self, TAG_VARIABLE, Tree};
use crate::tools::lock;

/// A program in a session of its own. Dropping it kills it and all that it started, at once.
#[derive(Debug)]
pub struct Supervised {
    child: Box<dyn ChildWrapper>,
    tree: Mutex<Tree>,
    log: Processes,
    /// Nothing of it is left.
    gone: bool,
}

impl Supervised {
    /// Starts it. `tag` must be its own: whatever carries it, or begins with it, is taken to be part of the program.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(command: Command, tag: String) -> io::Result<Self> {
        Self::spawn_logged(command, tag, Processes::default())
    }

    /// The same, with somebody who is told of its processes, for the case that this one is killed.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn_logged(mut command: Command, tag: String, log: Processes) -> io::Result<Self> {
        command.env(TAG_VARIABLE, &tag).kill_on_drop(true);
        let mut command = CommandWrap::from(command);
        command.wrap(ProcessSession);
        let child = command.spawn()?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).ok_or(io::ErrorKind::NotFound)?;
        let group = StartedGroup { leader: Identity::of(pid), tag };
        log.0.started(&group);
        Ok(Self { child, tree: Mutex::new(Tree::new(group)), log, gone: false })
    }

    /// Its pipes, as far as they were asked for and not taken yet.
    pub fn pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdin().take(), self.child.stdout().take(), self.child.stderr().take())
    }

    /// Waits until the program itself has ended, whatever it left running. May be dropped and called again.
    ///
    /// # Errors
    /// When the system does not say.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        let mut tree = lock(&self.tree);
        tree.leader_reaped();
        if tree.has_known() {
            self.log.0.left(&tree.group, &tree.known());
        }
        Ok(status)
    }

    /// Ends the program and all that it started, politely at first, and says whether it is gone.
    pub async fn end(&mut self, grace: Duration) -> bool {
        if !self.gone {
            self.gone = tree::end(&self.tree, self.child.as_mut(), grace).await;
            if self.gone {
                self.log.0.ended(&lock(&self.tree).group);
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
            // What could not be ended stays in the log, for whoever cleans up later.
            if tree.is_empty() {
                self.log.0.ended(&tree.group);
            }
        }
    }
}
