//! A running command and its supervision.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use baton_process::{Ledger, Supervised, TreeHandle};
use baton_protocol::Timestamp;
use tokio::net::unix::pipe;
use tokio::process::{ChildStdin, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::environment::CommandEnvironment;
use super::output::{CommandOutput, OutputCallback};
use super::place::Inside;
use super::pump::pump;

/// Time between SIGTERM and SIGKILL.
const TERM_GRACE: Duration = Duration::from_millis(500);
/// How long to wait for the rest of the output after a command has ended.
const DRAIN: Duration = Duration::from_millis(100);
/// How often processes that a command left running are checked.
const LEFTOVER_CHECK: Duration = Duration::from_secs(1);

/// A command to start.
pub(crate) struct CommandLaunch {
    pub(crate) id: String,
    pub(crate) program: PathBuf,
    pub(crate) command: String,
    pub(crate) cwd: PathBuf,
    /// Its variables, without those of its directory and its tag.
    pub(crate) environment: CommandEnvironment,
    pub(crate) tag: String,
    /// The sandbox that it runs in; outside without one.
    pub(crate) inside: Option<Inside>,
    /// Whether it has an input.
    pub(crate) interactive: bool,
    pub(crate) progress: Option<OutputCallback>,
    /// Directory for large output.
    pub(crate) output_dir: PathBuf,
    /// Ends the command, like [`Shell::stop`].
    pub(crate) cancel: CancellationToken,
    pub(crate) ledger: Ledger,
    /// Tracks the tasks that supervise the command.
    pub(crate) tasks: TaskTracker,
}

/// State of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandStatus {
    Running,
    Exited {
        code: i32,
        /// Processes that it started are still running.
        left_running: bool,
    },
    /// Ended by a tool or a cancel, with all its processes.
    Stopped,
}

impl CommandStatus {
    /// Whether no process is left.
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
    pub(crate) output: Arc<CommandOutput>,
    pub(crate) stdin: tokio::sync::Mutex<Option<ChildStdin>>,
    pub(crate) tree: TreeHandle,
    /// The sandbox that it runs in.
    pub(crate) inside: Option<Inside>,
    status: watch::Receiver<CommandStatus>,
    stop: CancellationToken,
}

impl Shell {
    pub(crate) fn status(&self) -> CommandStatus {
        *self.status.borrow()
    }

    /// Whether no process is left.
    pub(crate) fn is_over(&self) -> bool {
        self.status().is_over()
    }

    /// Waits until the command itself has exited, whatever it left running.
    pub(crate) async fn ended(&self) -> CommandStatus {
        self.wait_until(|status| status != CommandStatus::Running).await
    }

    /// Ends the command with all its processes, and waits for that.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.wait_until(CommandStatus::is_over).await;
    }

    /// Ends the command with all its processes, without waiting.
    pub(crate) fn stop_soon(&self) {
        self.stop.cancel();
    }

    async fn wait_until(&self, done: impl Fn(CommandStatus) -> bool) -> CommandStatus {
        let mut status = self.status.clone();
        // The supervisor is gone only when the server is ending.
        status.wait_for(|status| done(*status)).await.map_or(CommandStatus::Stopped, |status| *status)
    }
}

/// Starts a command. A task supervises it until no process is left.
pub(crate) fn start(launch: CommandLaunch) -> io::Result<Arc<Shell>> {
    let (mut process, source) = spawn(&launch)?;
    let (publish, status) = watch::channel(CommandStatus::Running);
    let shell = Arc::new(Shell {
        id: launch.id,
        command: launch.command,
        cwd: launch.cwd,
        pid: process.leader().pid,
        started: Timestamp::now(),
        output: Arc::new(CommandOutput::new(launch.progress)),
        stdin: tokio::sync::Mutex::new(process.pipes().0),
        tree: process.handle(),
        inside: launch.inside,
        status,
        stop: CancellationToken::new(),
    });
    let pump = launch.tasks.spawn(pump(source, Arc::clone(&shell.output), launch.output_dir));
    let supervisor = Supervisor { shell: Arc::clone(&shell), process, pump, publish, cancel: launch.cancel };
    launch.tasks.spawn(supervisor.watch());
    Ok(shell)
}

fn spawn(launch: &CommandLaunch) -> io::Result<(Supervised, pipe::Receiver)> {
    // One pipe for both streams keeps their order.
    let (reader, writer) = io::pipe()?;
    let source = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
    if let Some(inside) = &launch.inside {
        let mut enclosed = inside.enclose(launch)?;
        enclosed.command.stdout(writer.try_clone()?).stderr(writer);
        let process = Supervised::spawn_enclosed(enclosed, launch.tag.clone(), launch.ledger.clone())?;
        return Ok((process, source));
    }
    let mut command = Command::new(&launch.program);
    command
        .arg("-c")
        .arg(&launch.command)
        .current_dir(&launch.cwd)
        .env_clear()
        .envs(launch.environment.in_directory(&launch.cwd).variables())
        .stdin(if launch.interactive { Stdio::piped() } else { Stdio::null() })
        .stdout(writer.try_clone()?)
        .stderr(writer);
    Ok((Supervised::spawn(command, launch.tag.clone(), launch.ledger.clone())?, source))
}

struct Supervisor {
    shell: Arc<Shell>,
    process: Supervised,
    pump: JoinHandle<()>,
    publish: watch::Sender<CommandStatus>,
    cancel: CancellationToken,
}

impl Supervisor {
    async fn watch(mut self) {
        let stop = self.shell.stop.clone();
        let exit = tokio::select! {
            status = self.process.wait() => Some(status),
            () = stop.cancelled() => None,
            () = self.cancel.cancelled() => None,
        };
        match exit {
            Some(status) => {
                if let Err(error) = &status {
                    self.note(&format!("<the command could not be started: {error}>"));
                }
                self.exited(exit_code(status)).await;
            }
            None => self.end(CommandStatus::Stopped).await,
        }
    }

    /// Handles the exit of the command. Processes that it left running keep its pipe and stay supervised.
    async fn exited(&mut self, code: i32) {
        let drained = self.drain().await;
        self.look_at_files().await;
        let over = CommandStatus::Exited { code, left_running: false };
        if !self.process.has_leftovers(!drained) {
            // A process outside the tree may hold the pipe; its output is not read any more.
            self.pump.abort();
            self.publish.send_replace(over);
            return;
        }
        self.publish.send_replace(CommandStatus::Exited { code, left_running: true });
        let stop = self.shell.stop.clone();
        let gone = async {
            while self.process.has_leftovers(true) {
                sleep(LEFTOVER_CHECK).await;
            }
        };
        tokio::select! {
            () = gone => {}
            () = stop.cancelled() => {}
            () = self.cancel.cancelled() => {}
        }
        self.end(over).await;
    }

    async fn end(&mut self, status: CommandStatus) {
        self.process.end(TERM_GRACE).await;
        if !self.drain().await {
            self.pump.abort();
        }
        self.look_at_files().await;
        self.publish.send_replace(status);
    }

    /// Lets the sandbox move files away that the command should not have created, before anybody acts on them.
    async fn look_at_files(&self) {
        if let Some(ended) = self.process.ended_by() {
            self.note(&format!("<{}>", ended.sentence()));
        }
        if let Some(inside) = &self.shell.inside
            && let Some(note) = inside.after().await
        {
            self.note(&note);
        }
    }

    /// Adds a line of our own to the output.
    fn note(&self, text: &str) {
        self.shell.output.push(format!("\n{}\n", text.trim()).as_bytes());
    }

    /// Waits briefly for the rest of the output; returns whether all of it has been read.
    async fn drain(&mut self) -> bool {
        self.pump.is_finished() || timeout(DRAIN, &mut self.pump).await.is_ok()
    }
}

/// Returns the exit code in the convention of shells.
fn exit_code(status: io::Result<ExitStatus>) -> i32 {
    status.map_or(-1, |status| status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(-1))
}
