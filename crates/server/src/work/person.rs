//! Commands that people run in a session, and what runs there in the background: started at once, asking nobody, in the
//! way the model's own commands are run. Ending one ends all that it started, and all of them end with the session.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_agent::tools::ToolContext;
use baton_agent::tools::shell::Background;
use baton_protocol::tool::ToolResult;
use baton_protocol::{Json, ToolCallId};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::tools::ToolRoom;

/// How long a command of a person is waited for, in seconds.
const LONGEST_WAIT: u64 = 600;

/// Commands of people that run, by the names under which they can be ended.
#[derive(Default)]
pub(super) struct People(Mutex<HashMap<String, CancellationToken>>);

impl People {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What came of a command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) output: String,
    /// None for one that was ended, or that has not ended in time.
    pub(crate) exit_code: Option<i32>,
}

impl Ran {
    /// Parts what a command printed from the note on how it ended.
    fn of(result: &ToolResult) -> Self {
        const NOTE: &str = "<exited with exit code ";
        let text = &result.text_result_for_llm;
        let exit: Option<Value> = result.contents.as_ref().and_then(|contents| contents.parse().ok());
        let code = exit.as_ref().and_then(|exit| exit.pointer("/0/exitCode")).and_then(Value::as_i64);
        let Some(code) = code.and_then(|code| i32::try_from(code).ok()) else {
            return Self { output: text.clone(), exit_code: None };
        };
        let output = text.rsplit_once(NOTE).map_or(text.as_str(), |(output, _)| output);
        Self { output: output.strip_suffix('\n').unwrap_or(output).to_owned(), exit_code: Some(code) }
    }
}

impl ToolRoom {
    /// Runs a command to its end. Dropping the future ends the command.
    pub(crate) async fn run_for_person(&self, cwd: PathBuf, command: &str) -> Ran {
        self.run_until(cwd, command, CancellationToken::new()).await
    }

    /// Runs a command that can be ended by its name meanwhile; none if one of that name runs already.
    pub(crate) async fn run_named(&self, name: &str, cwd: PathBuf, command: &str) -> Option<Ran> {
        let token = self.admit(name)?;
        let ran = self.run_until(cwd, command, token).await;
        self.people.lock().remove(name);
        Some(ran)
    }

    /// Starts a command under a name, and leaves it to itself, for no longer than `limit`.
    pub(crate) fn start_named(
        self: &Arc<Self>,
        name: String,
        cwd: PathBuf,
        command: String,
        limit: Option<Duration>,
    ) {
        let Some(token) = self.admit(&name) else { return };
        let room = Arc::clone(self);
        tokio::spawn(async move {
            let run = room.run_until(cwd, &command, token.clone());
            let ran = match limit {
                Some(limit) => tokio::time::timeout(limit, run).await.ok(),
                None => Some(run.await),
            };
            // One that nobody waits for any longer can still be ended by its name.
            let goes_on = ran.is_some_and(|ran| ran.exit_code.is_none()) && !token.is_cancelled();
            if !goes_on {
                room.people.lock().remove(&name);
            }
        });
    }

    /// Ends a command, with all that it started. Whether one of that name ran.
    pub(crate) fn end_named(&self, name: &str) -> bool {
        let token = self.people.lock().remove(name);
        token.is_some_and(|token| {
            token.cancel();
            true
        })
    }

    /// The commands that run in the background, or have, for as long as they are remembered.
    pub(crate) fn background(&self) -> Vec<Background> {
        self.opened().map(|services| services.shells.background()).unwrap_or_default()
    }

    /// Ends a command of the background. Whether it ran.
    pub(crate) async fn end_background(&self, id: &str) -> bool {
        match self.opened() {
            Some(services) => services.shells.end(id).await,
            None => false,
        }
    }

    /// Forgets a command of the background that has ended. Whether it was remembered.
    pub(crate) fn forget_background(&self, id: &str) -> bool {
        self.opened().is_some_and(|services| services.shells.forget_ended(id))
    }

    fn admit(&self, name: &str) -> Option<CancellationToken> {
        let mut people = self.people.lock();
        if people.contains_key(name) {
            return None;
        }
        Some(people.entry(name.to_owned()).or_default().clone())
    }

    async fn run_until(&self, cwd: PathBuf, command: &str, cancel: CancellationToken) -> Ran {
        let Some(bash) = self.toolbox().get("bash") else {
            return Ran { output: "There is no shell.".into(), exit_code: None };
        };
        let context = ToolContext {
            cwd,
            session_dir: self.directory().to_owned(),
            home: None,
            exact_pages: true,
            services: self.services().await,
            call: ToolCallId("person".into()),
            cancel,
            progress: Arc::new(|_| {}),
        };
        let arguments = json!({ "command": command, "description": "", "initial_wait": LONGEST_WAIT });
        Ran::of(&bash.run(&context, &Json::from(arguments)).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_not_output() {
        let ran = |text: &str, code: Option<i64>| {
            let contents = code.map(|code| Json::from(json!([{ "type": "shell_exit", "exitCode": code }])));
            let ran = Ran::of(&ToolResult { contents, ..ToolResult::success(text) });
            (ran.output, ran.exit_code)
        };
        assert_eq!(ran("a\nb\n<exited with exit code 3>", Some(3)), ("a\nb".into(), Some(3)));
        assert_eq!(ran("<exited with exit code 0>", Some(0)), (String::new(), Some(0)));
        assert_eq!(ran("still running", None), ("still running".into(), None));
        assert_eq!(
            ran("<exited with exit code 0>", None).1,
            None,
            "what a command prints is not how it ended"
        );
    }
}
