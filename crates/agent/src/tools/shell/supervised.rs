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

use super::process_log::StartedGroup;
use super::process_table::Identity;
use super::tree::{self, TAG_VARIABLE, Tree};
use crate::tools::lock;

/// A program in a session of its own. Dropping it kills it and all that it started, at once.
#[derive(Debug)]
pub struct Supervised {
    child: Box<dyn ChildWrapper>,
    tree: Mutex<Tree>,
    /// Nothing of it is left.
    gone: bool,
}

impl Supervised {
    /// Starts it. `tag` must be its own: whatever carries it, or begins with it, is taken to be part of the program.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(mut command: Command, tag: String) -> io::Result<Self> {
        command.env(TAG_VARIABLE, &tag).kill_on_drop(true);
        let mut command = CommandWrap::from(command);
        command.wrap(ProcessSession);
        let child = command.spawn()?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).ok_or(io::ErrorKind::NotFound)?;
        let tree = Tree::new(StartedGroup { leader: Identity::of(pid), tag });
        Ok(Self { child, tree: Mutex::new(tree), gone: false })
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
        lock(&self.tree).leader_reaped();
        Ok(status)
    }

    /// Ends the program and all that it started, politely at first, and says whether it is gone.
    pub async fn end(&mut self, grace: Duration) -> bool {
        if !self.gone {
            self.gone = tree::end(&self.tree, self.child.as_mut(), grace).await;
        }
        self.gone
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        if !self.gone {
            lock(&self.tree).kill();
        }
    }
}
