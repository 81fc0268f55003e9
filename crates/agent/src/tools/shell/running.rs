//! One command: started, watched over, ended.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_protocol::Timestamp;
use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessSession};
use tokio::net::unix::pipe;
use tokio::process::{ChildStdin, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::output::{Output, Progress};
use super::process_log::{ProcessLog, StartedGroup};
use super::process_table::Identity;
use super::pump::pump;
use super::tree::{self, TAG_VARIABLE, Tree};
use crate::tools::lock;

/// How long a command may take to end by itself after being asked to.
const TERM_GRACE: Duration = Duration::from_millis(500);
/// How long the output of a command that has ended may still be under way.
const DRAIN: Duration = Duration::from_millis(100);
/// How often it is looked whether what a command left running has ended.
const LEFTOVER_CHECK: Duration = Duration::from_secs(1);

/// What makes commands ask nobody anything and page nothing: there is no terminal, and nobody at it. A repository's
/// own configuration can name a program that even `git status` runs (`core.fsmonitor`); it does not here.
const QUIET: [(&str, &str); 12] = [
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_EDITOR", ":"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("TERM", "dumb"),
    // Looking at a repository writes no index, which would run a hook.
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_CONFIG_COUNT", "2"),
    ("GIT_CONFIG_KEY_0", "core.fsmonitor"),
    ("GIT_CONFIG_VALUE_0", "false"),
    // A write grant must not be enough to turn a directory into a repository with a configuration of its own.
    ("GIT_CONFIG_KEY_1", "safe.bareRepository"),
    ("GIT_CONFIG_VALUE_1", "explicit"),
];

/// What is to be run, and how.
pub(crate) struct Launch {
    pub(crate) id: String,
    pub(crate) program: PathBuf,
    pub(crate) command: String,
    pub(crate) cwd: PathBuf,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) tag: String,
    /// Whether somebody may type into it.
    pub(crate) interactive: bool,
    pub(crate) progress: Option<Progress>,
    /// Where a large output is stored.
    pub(crate) output_dir: PathBuf,
    /// Ends it, like [`Shell::stop`].
    pub(crate) cancel: CancellationToken,
    pub(crate) log: Arc<dyn ProcessLog>,
}

/// How a command is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Running,
    Exited {
        code: i32,
        /// Processes that it started are still there.
        left_running: bool,
    },
    /// Ended by us, with all it started.
    Stopped,
}

impl Status {
    /// Whether nothing is left of the command but what it printed.
    pub(crate) fn is_over(self) -> bool {
        matches!(self, Self::Exited { left_running: false, .. } | Self::Stopped)
    }
}

/// A command that was started.
pub(crate) struct Shell {
    pub(crate) id: String,
    pub(crate) command: String,
    pub(crate) cwd: PathBuf,
    pub(crate) pid: i32,
    pub(crate) started: Timestamp,
    pub(crate) output: Arc<Output>,
    pub(crate) stdin: tokio::sync::Mutex<Option<ChildStdin>>,
    pub(crate) tree: Mutex<Tree>,
    status: watch::Receiver<Status>,
    stop: CancellationToken,
}

impl Shell {
    pub(crate) fn status(&self) -> Status {
        *self.status.borrow()
    }

    /// Whether nothing is left of it but what it printed.
    pub(crate) fn is_over(&self) -> bool {
        self.status().is_over()
    }

    /// Waits until the command itself has ended, whatever it left running.
    pub(crate) async fn ended(&self) -> Status {
        self.wait_until(|status| status != Status::Running).await
    }

    /// Ends the command and all it started, and waits for that.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.wait_until(Status::is_over).await;
    }

    /// Ends the command and all it started soon, without waiting.
    pub(crate) fn stop_soon(&self) {
        self.stop.cancel();
    }

    async fn wait_until(&self, done: impl Fn(Status) -> bool) -> Status {
        let mut status = self.status.clone();
        // Without its supervisor, which means that the server is ending, nothing is known any more.
        status.wait_for(|status| done(*status)).await.map_or(Status::Stopped, |status| *status)
    }
}

/// Starts a command. It is watched over by a task of its own until nothing of it is left.
pub(crate) fn start(launch: Launch) -> io::Result<Arc<Shell>> {
    let (mut child, source) = spawn(&launch)?;
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).ok_or(io::ErrorKind::NotFound)?;
    let group = StartedGroup { leader: Identity::of(pid), tag: launch.tag };
    launch.log.started(&group);

    let (publish, status) = watch::channel(Status::Running);
    let shell = Arc::new(Shell {
        id: launch.id,
        command: launch.command,
        cwd: launch.cwd,
        pid,
        started: Timestamp::now(),
        output: Arc::new(Output::new(launch.progress)),
        stdin: tokio::sync::Mutex::new(child.stdin().take()),
        tree: Mutex::new(Tree::new(group)),
        status,
        stop: CancellationToken::new(),
    });
    let pump = tokio::spawn(pump(source, Arc::clone(&shell.output), launch.output_dir));
    let supervisor = Supervisor {
        shell: Arc::clone(&shell),
        child,
        pump,
        publish,
        cancel: launch.cancel,
        log: launch.log,
    };
    tokio::spawn(supervisor.watch());
    Ok(shell)
}

fn spawn(launch: &Launch) -> io::Result<(Box<dyn ChildWrapper>, pipe::Receiver)> {
    // One pipe for both streams keeps what is printed in the order in which it is printed.
    let (reader, writer) = io::pipe()?;
    let source = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
    let mut command = Command::new(&launch.program);
    command
        .arg("-c")
        .arg(&launch.command)
        .current_dir(&launch.cwd)
        .env_clear()
        .envs(launch.environment.iter().map(|(name, value)| (name, value)))
        .envs(QUIET)
        .env("PWD", &launch.cwd)
        .env(TAG_VARIABLE, &launch.tag)
        .stdin(if launch.interactive { Stdio::piped() } else { Stdio::null() })
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .kill_on_drop(true);
    // A session of its own, not just a group: a program that opens the terminal to ask for a password must
    // fail, not be stopped for ever or disturb whoever started the server.
    let mut command = CommandWrap::from(command);
    command.wrap(ProcessSession);
    Ok((command.spawn()?, source))
}

struct Supervisor {
    shell: Arc<Shell>,
    child: Box<dyn ChildWrapper>,
    pump: JoinHandle<()>,
    publish: watch::Sender<Status>,
    cancel: CancellationToken,
    log: Arc<dyn ProcessLog>,
}

impl Supervisor {
    async fn watch(mut self) {
        let stop = self.shell.stop.clone();
        let exit = tokio::select! {
            status = self.child.wait() => Some(status),
            () = stop.cancelled() => None,
            () = self.cancel.cancelled() => None,
        };
        let all_gone = match exit {
            Some(status) => self.exited(exit_code(status)).await,
            None => self.end(Status::Stopped).await,
        };
        // What could not be ended stays in the log, for whoever cleans up later.
        if all_gone {
            let group = lock(&self.shell.tree).group.clone();
            self.log.ended(&group);
        }
    }

    /// The command has ended by itself. What it left running keeps its pipe and stays under watch. Says
    /// whether nothing is left in the end.
    async fn exited(&mut self, code: i32) -> bool {
        {
            let mut tree = lock(&self.shell.tree);
            tree.leader_reaped();
            if tree.has_known() {
                self.log.left(&tree.group, &tree.known());
            }
        }
        let drained = self.drain().await;
        let suspicious = !drained || lock(&self.shell.tree).has_known();
        let left_running = suspicious && !lock(&self.shell.tree).is_empty();
        let over = Status::Exited { code, left_running: false };
        if !left_running {
            // Somebody who is not ours may hold the pipe; nobody will read what they write.
            self.pump.abort();
            self.publish.send_replace(over);
            return true;
        }
        self.publish.send_replace(Status::Exited { code, left_running });
        let stop = self.shell.stop.clone();
        let shell = Arc::clone(&self.shell);
        let gone = async {
            while !lock(&shell.tree).is_empty() {
                sleep(LEFTOVER_CHECK).await;
            }
        };
        tokio::select! {
            () = gone => {}
            () = stop.cancelled() => {}
            () = self.cancel.cancelled() => {}
        }
        self.end(over).await
    }

    async fn end(&mut self, status: Status) -> bool {
        let all_gone = tree::end(&self.shell.tree, self.child.as_mut(), TERM_GRACE).await;
        if !self.drain().await {
            self.pump.abort();
        }
        self.publish.send_replace(status);
        all_gone
    }

    /// Waits a moment for output that is still under way; says whether all of it has come.
    async fn drain(&mut self) -> bool {
        self.pump.is_finished() || timeout(DRAIN, &mut self.pump).await.is_ok()
    }
}

/// The exit code as a shell would say it.
fn exit_code(status: io::Result<ExitStatus>) -> i32 {
    status.map_or(-1, |status| status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(-1))
}
