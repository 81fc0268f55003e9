//! The commands of one session.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};

use baton_process::{Ledger, end_tagged};
use baton_protocol::{Timestamp, ToolCallId};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::environment::CommandEnvironment;
use super::output::OutputCallback;
use super::place::Inside;
use super::running::{CommandLaunch, CommandStatus, Shell, start};
use crate::tools::{ToolContext, ToolRefusal, lock};

/// Limit on the running commands of a session.
const MOST_RUNNING: usize = 64;
/// Number of ended commands whose output can still be read.
const MOST_ENDED: usize = 32;
/// Number of calls whose shells are remembered until they run. A call that was forgotten has to be made again.
const MOST_NAMED: usize = 256;
/// Longest command, in bytes: the longest single argument that Linux passes to a program.
const LONGEST_COMMAND: usize = 128 * 1024 - 1;

/// Settings for the commands of a session.
#[derive(Clone)]
pub struct ShellSettings {
    /// Environment of the commands, until another is set. Nothing is inherited from the server, whose environment holds secrets.
    pub environment: CommandEnvironment,
    /// Record of the running processes.
    pub ledger: Ledger,
    /// Tracks the tasks that supervise commands.
    pub tasks: TaskTracker,
}

/// The commands of one session. Dropping it kills all of them; [`Shells::end_all`] ends them gracefully.
pub struct Shells {
    settings: ShellSettings,
    /// Environment of the next commands.
    environment: Mutex<Arc<CommandEnvironment>>,
    program: PathBuf,
    /// Prefix of the tags of all processes of this session.
    tag: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    shells: Vec<Arc<Shell>>,
    /// Shells that requests of calls named, newest last. An id can be used again for another command, which is not the one
    /// that was approved.
    named: VecDeque<(ToolCallId, Weak<Shell>)>,
}

/// A command, for clients.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Background {
    /// Id that the model uses.
    pub id: String,
    /// The command line.
    pub command: String,
    /// Process id of the shell.
    pub pid: i32,
    /// Start time.
    pub started: Timestamp,
    /// State.
    pub progress: CommandProgress,
}

/// State of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum CommandProgress {
    /// The command, or a process that it started, is running.
    Running,
    /// The command has exited with this code.
    Exited(i32),
    /// The command was stopped.
    Ended,
}

impl Background {
    fn of(shell: &Shell) -> Self {
        let progress = match shell.status() {
            CommandStatus::Exited { code, left_running: false } => CommandProgress::Exited(code),
            CommandStatus::Stopped => CommandProgress::Ended,
            CommandStatus::Running | CommandStatus::Exited { .. } => CommandProgress::Running,
        };
        let (id, command) = (shell.id.clone(), shell.command.clone());
        Self { id, command, pid: shell.pid, started: shell.started, progress }
    }
}

/// A command that a tool starts.
pub(crate) struct NewCommand {
    pub(crate) command: String,
    /// Its id; by default the next number.
    pub(crate) id: Option<String>,
    /// The sandbox that it runs in; outside without one.
    pub(crate) inside: Option<Inside>,
    pub(crate) interactive: bool,
    pub(crate) progress: Option<OutputCallback>,
}

impl Shells {
    /// Creates the registry of a new session. Blocks: it looks for the shell.
    #[must_use]
    pub fn new(settings: ShellSettings) -> Self {
        let program = settings.environment.find_shell();
        let environment = Mutex::new(Arc::new(settings.environment.clone()));
        Self { environment, program, tag: format!("{}/", Uuid::new_v4()), settings, state: Mutex::default() }
    }

    /// Returns the prefix of the tags of all processes of this session, for [`end_tagged`].
    #[must_use]
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Returns the environment of the next commands.
    #[must_use]
    pub fn environment(&self) -> Arc<CommandEnvironment> {
        lock(&self.environment).clone()
    }

    /// Sets the environment of the next commands. Those that run keep theirs.
    pub fn set_environment(&self, environment: CommandEnvironment) {
        let mut current = lock(&self.environment);
        if **current != environment {
            *current = Arc::new(environment);
        }
    }

    /// Ends all commands with all their processes, and waits for that.
    pub async fn end_all(&self) {
        let shells = std::mem::take(&mut lock(&self.state).shells);
        shells.iter().for_each(|shell| shell.stop_soon());
        for shell in &shells {
            shell.stop().await;
        }
        let tag = self.tag.clone();
        let _ = tokio::task::spawn_blocking(move || end_tagged(&tag)).await;
    }

    /// Returns the running commands, and the last ones that ended.
    #[must_use]
    pub fn background(&self) -> Vec<Background> {
        self.all().iter().map(|shell| Background::of(shell)).collect()
    }

    /// Ends a command with all its processes, and waits for that. Returns whether it was running.
    pub async fn end(&self, id: &str) -> bool {
        let found = self.all().into_iter().find(|shell| shell.id == id && !shell.is_over());
        match found {
            Some(shell) => {
                shell.stop().await;
                true
            }
            None => false,
        }
    }

    /// Removes a command that has ended. Returns whether there was one.
    pub fn forget_ended(&self, id: &str) -> bool {
        let found = self.all().into_iter().find(|shell| shell.id == id && shell.is_over());
        found.is_some_and(|shell| {
            self.forget(&shell);
            true
        })
    }

    pub(crate) fn start(&self, context: &ToolContext, new: NewCommand) -> Result<Arc<Shell>, ToolRefusal> {
        if new.command.len() > LONGEST_COMMAND {
            return Err(ToolRefusal::new(format!(
                "The command has {} bytes, but the longest that can be run has {LONGEST_COMMAND}. Create a \
                 file with it and run that.",
                new.command.len()
            )));
        }
        let mut state = lock(&self.state);
        state.forget_old();
        let id = state.choose_id(new.id)?;
        let launch = CommandLaunch {
            tag: format!("{}{id}/", self.tag),
            id,
            program: self.program.clone(),
            command: new.command,
            cwd: context.cwd.clone(),
            environment: (*self.environment()).clone(),
            inside: new.inside,
            interactive: new.interactive,
            progress: new.progress,
            output_dir: context.session_dir.join("temp"),
            cancel: context.cancel.clone(),
            ledger: self.settings.ledger.clone(),
            tasks: self.settings.tasks.clone(),
        };
        let shell = start(launch).map_err(|error| cannot_start(context, &self.program, &error))?;
        state.shells.push(Arc::clone(&shell));
        Ok(shell)
    }

    pub(crate) fn find(&self, id: &str) -> Result<Arc<Shell>, ToolRefusal> {
        let state = lock(&self.state);
        state.shells.iter().find(|shell| shell.id == id).cloned().ok_or_else(|| {
            let ids: Vec<&str> = state.shells.iter().map(|shell| shell.id.as_str()).collect();
            let known = if ids.is_empty() {
                "There are none.".into()
            } else {
                format!("There are: {}.", ids.join(", "))
            };
            ToolRefusal::new(format!("There is no shell with shellId {id:?}. {known}"))
        })
    }

    /// Remembers the shell that the request of a call names.
    pub(crate) fn name(&self, call: &ToolCallId, shell: &Arc<Shell>) {
        let mut state = lock(&self.state);
        state.named.retain(|(named, _)| named != call);
        state.named.push_back((call.clone(), Arc::downgrade(shell)));
        if state.named.len() > MOST_NAMED {
            state.named.pop_front();
        }
    }

    /// Whether the request of a call named this shell.
    pub(crate) fn is_named(&self, call: &ToolCallId, shell: &Arc<Shell>) -> bool {
        let state = lock(&self.state);
        let is_it = |named: &Weak<Shell>| std::ptr::eq(named.as_ptr(), Arc::as_ptr(shell));
        state.named.iter().any(|(named, at)| named == call && is_it(at))
    }

    pub(crate) fn all(&self) -> Vec<Arc<Shell>> {
        lock(&self.state).shells.clone()
    }

    pub(crate) fn forget(&self, shell: &Shell) {
        lock(&self.state).shells.retain(|known| !std::ptr::eq(Arc::as_ptr(known), shell));
    }
}

impl State {
    fn forget_old(&mut self) {
        let ended = self.shells.iter().filter(|shell| shell.is_over()).count();
        let mut surplus = ended.saturating_sub(MOST_ENDED);
        self.shells.retain(|shell| {
            let forget = surplus > 0 && shell.is_over();
            surplus -= usize::from(forget);
            !forget
        });
    }

    fn choose_id(&mut self, requested: Option<String>) -> Result<String, ToolRefusal> {
        let running = self.shells.iter().filter(|shell| !shell.is_over()).count();
        if running >= MOST_RUNNING {
            return Err(ToolRefusal::new(format!(
                "{running} commands of this session are still running. Stop some with stop_bash first; \
                 list_bash shows them."
            )));
        }
        let Some(id) = requested else {
            loop {
                let id = self.next.to_string();
                self.next += 1;
                if self.shells.iter().all(|shell| shell.id != id) {
                    return Ok(id);
                }
            }
        };
        if self.shells.iter().any(|shell| shell.id == id && !shell.is_over()) {
            return Err(ToolRefusal::new(format!(
                "The shell {id:?} is still running a command. Use another shellId, or stop it with stop_bash \
                 first."
            )));
        }
        self.shells.retain(|shell| shell.id != id);
        Ok(id)
    }
}

impl Drop for Shells {
    fn drop(&mut self) {
        let state = std::mem::take(&mut *lock(&self.state));
        for shell in &state.shells {
            shell.stop_soon();
            shell.tree.kill();
        }
        if state.next > 0 || !state.shells.is_empty() {
            end_tagged(&self.tag);
        }
    }
}

fn cannot_start(context: &ToolContext, program: &std::path::Path, error: &std::io::Error) -> ToolRefusal {
    let cwd = context.cwd.display();
    // The shell existed when the session began, so the directory is missing.
    ToolRefusal::new(if error.kind() == std::io::ErrorKind::NotFound {
        format!("The command could not be started: the working directory {cwd} does not exist.")
    } else {
        format!("The command could not be started with {} in {cwd}: {error}.", program.display())
    })
}
