//! Shell commands of users, and background commands.
//!
//! Users' commands start at once, without a permission request, and run like those of the model. Stopping one ends all
//! processes that it started; all commands end with the session.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_agent::tools::ToolContext;
use baton_agent::tools::shell::Background;
use baton_ask::CommandRun;
use baton_core::Session;
use baton_files::locations::resolved;
use baton_protocol::sandbox::SandboxChoice;
use baton_protocol::tool::ToolResult;
use baton_protocol::{Json, ToolCallId};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::session_tools::SessionTools;

/// How long a user's command is awaited, in seconds.
const MAX_WAIT: u64 = 600;

/// Running commands of users, by the names under which they can be stopped.
pub(super) struct UserCommands {
    running: Mutex<HashMap<String, CancellationToken>>,
    /// Cancelled when the server stops. All commands are stopped then: the server waits for their tasks.
    stopping: CancellationToken,
}

/// A command of a user.
pub(crate) struct UserCommand {
    /// Working directory.
    pub(crate) cwd: PathBuf,
    /// The command line.
    pub(crate) line: String,
    /// The sandbox that it runs in.
    pub(crate) sandbox: SandboxChoice,
}

impl UserCommand {
    /// Creates a command of a session's user. It runs in the sandbox only if somebody chose one for the session: users run what
    /// they like, unless that was taken from them.
    pub(crate) fn new(session: &Session, cwd: PathBuf, line: String) -> Self {
        let choice = session.sandbox();
        let sandbox = if choice.chosen { choice.clone() } else { SandboxChoice::of_applications() };
        Self { cwd, line, sandbox }
    }

    /// Whether the command would open another directory than the session's to what runs in the sandbox.
    pub(crate) async fn leaves_workspace(&self, session: &Session) -> bool {
        if !self.sandbox.policy.level.is_inside() {
            return false;
        }
        let workspace = PathBuf::from(&session.durable.facts.context.cwd);
        let (cwd, workspace) = tokio::join!(resolved(self.cwd.clone()), resolved(workspace));
        !cwd.starts_with(workspace)
    }
}

impl UserCommands {
    pub(super) fn new(stopping: CancellationToken) -> Self {
        Self { running: Mutex::default(), stopping }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, CancellationToken>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a command. Returns its cancellation token, or `None` if one of that name is running.
    fn register(&self, name: &str) -> Option<CancellationToken> {
        match self.lock().entry(name.to_owned()) {
            Entry::Occupied(_) => None,
            Entry::Vacant(vacant) => Some(vacant.insert(self.stopping.child_token()).clone()),
        }
    }
}

/// Separates the output in a tool result from the note about the exit code.
fn command_run(result: &ToolResult) -> CommandRun {
    const NOTE: &str = "<exited with exit code ";
    let text = &result.text_result_for_llm;
    let exit: Option<Value> = result.contents.as_ref().and_then(|contents| contents.parse().ok());
    let code = exit.as_ref().and_then(|exit| exit.pointer("/0/exitCode")).and_then(Value::as_i64);
    let Some(code) = code.and_then(|code| i32::try_from(code).ok()) else {
        return CommandRun { output: text.clone(), exit_code: None };
    };
    let output = text.rsplit_once(NOTE).map_or(text.as_str(), |(output, _)| output);
    CommandRun { output: output.strip_suffix('\n').unwrap_or(output).to_owned(), exit_code: Some(code) }
}

impl SessionTools {
    /// Runs a command that `end_named` can stop meanwhile. Returns `None` if one of that name is running.
    pub(crate) async fn run_named(&self, name: &str, command: UserCommand) -> Option<CommandRun> {
        let token = self.user_commands.register(name)?;
        let ran = self.run_until(command, token).await;
        self.user_commands.lock().remove(name);
        Some(ran)
    }

    /// Starts a command without waiting for it. It is stopped after `limit`.
    pub(crate) fn start_named(self: &Arc<Self>, name: String, command: UserCommand, limit: Option<Duration>) {
        let Some(token) = self.user_commands.register(&name) else { return };
        let tools = Arc::clone(self);
        let task = async move {
            let run = tools.run_until(command, token.clone());
            let ran = match limit {
                Some(limit) => tokio::time::timeout(limit, run).await.ok(),
                None => Some(run.await),
            };
            // A command that exceeded its wait continues in the background, and can still be stopped by its name.
            let is_running = ran.is_some_and(|ran| ran.exit_code.is_none()) && !token.is_cancelled();
            if !is_running {
                tools.user_commands.lock().remove(&name);
            }
        };
        self.tasks.spawn(task.in_current_span());
    }

    /// Stops a command, with all processes that it started. Returns whether one of that name was running.
    pub(crate) fn end_named(&self, name: &str) -> bool {
        let token = self.user_commands.lock().remove(name);
        token.is_some_and(|token| {
            token.cancel();
            true
        })
    }

    /// Returns the background commands: the running ones, and those that have exited and were not removed.
    pub(crate) fn background(&self) -> Vec<Background> {
        self.opened().map(|services| services.shells.background()).unwrap_or_default()
    }

    /// Stops a background command. Returns whether it was running.
    pub(crate) async fn end_background(&self, id: &str) -> bool {
        match self.opened() {
            Some(services) => services.shells.end(id).await,
            None => false,
        }
    }

    /// Removes a background command that has exited from the list. Returns whether it was listed.
    pub(crate) fn forget_background(&self, id: &str) -> bool {
        self.opened().is_some_and(|services| services.shells.forget_ended(id))
    }

    async fn run_until(&self, command: UserCommand, cancel: CancellationToken) -> CommandRun {
        let UserCommand { cwd, line, sandbox } = command;
        let Some(bash) = self.toolbox().get("bash") else {
            return CommandRun { output: "No shell is available.".into(), exit_code: None };
        };
        let context = ToolContext {
            cwd,
            session_dir: self.files().path().to_owned(),
            home: None,
            exact_pages: true,
            services: self.services().await,
            sandbox,
            placed: None,
            call: ToolCallId("user".into()),
            cancel,
            progress: Arc::new(|_| {}),
        };
        let arguments = json!({ "command": line, "description": "", "initial_wait": MAX_WAIT });
        command_run(&bash.run(&context, &Json::from(arguments)).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_code_note_is_not_part_of_the_output() {
        let ran = |text: &str, code: Option<i64>| {
            let contents = code.map(|code| Json::from(json!([{ "type": "shell_exit", "exitCode": code }])));
            let ran = command_run(&ToolResult { contents, ..ToolResult::success(text) });
            (ran.output, ran.exit_code)
        };
        assert_eq!(ran("a\nb\n<exited with exit code 3>", Some(3)), ("a\nb".into(), Some(3)));
        assert_eq!(ran("<exited with exit code 0>", Some(0)), (String::new(), Some(0)));
        assert_eq!(ran("still running", None), ("still running".into(), None));
        assert_eq!(ran("<exited with exit code 0>", None).1, None, "a command can print the note itself");
    }
}
