//! `bash`: runs a command.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use baton_protocol::Json;
use baton_protocol::tool::{ToolResult, ToolSpec};
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use super::assess;
use super::place::{self, Wish};
use super::registry::NewCommand;
use super::running::{CommandStatus, Shell};
use crate::tools::arguments::{self, Seconds};
use crate::tools::text::clip;
use crate::tools::{Prepared, Tool, ToolContext, ToolRefusal, Working, either, schema, spec};

const NAME: &str = "bash";

/// Default time that a call waits for the end of the command.
const DEFAULT_WAIT: Duration = Duration::from_secs(30);
/// Bytes of the output that are repeated in `contents`, for programs.
const PREVIEW: usize = 1000;

#[derive(Debug, Deserialize)]
struct Arguments {
    #[serde(alias = "cmd", alias = "script")]
    command: String,
    description: Option<String>,
    mode: Option<Mode>,
    #[serde(rename = "shellId", alias = "shell_id", alias = "sessionId", alias = "session_id")]
    shell_id: Option<String>,
    #[serde(alias = "initial_wait_seconds", alias = "initialWait")]
    initial_wait: Option<Seconds>,
    #[serde(rename = "requestSandboxBypass", alias = "request_sandbox_bypass")]
    bypass: Option<bool>,
    #[serde(rename = "requestSandboxBypassReason", alias = "request_sandbox_bypass_reason")]
    bypass_reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[serde(alias = "foreground")]
    Sync,
    #[serde(alias = "background", alias = "detached")]
    Async,
}

impl Arguments {
    fn read(arguments: &Json) -> Result<Self, ToolRefusal> {
        let parsed: Self = arguments::read(NAME, arguments)?;
        if parsed.command.trim().is_empty() {
            return Err(ToolRefusal::arguments(NAME, "command: must not be empty"));
        }
        if parsed.shell_id.as_ref().is_some_and(|id| id.is_empty() || id.contains('\0') || id.len() > 100) {
            return Err(ToolRefusal::arguments(NAME, "shellId: must have 1 to 100 characters"));
        }
        Ok(parsed)
    }

    fn wish(&self) -> Wish {
        Wish { bypass: self.bypass == Some(true), reason: self.bypass_reason.clone() }
    }

    fn intention(&self) -> &str {
        match self.description.as_deref().map(str::trim) {
            Some(description) if !description.is_empty() => description,
            _ => "Run a command",
        }
    }
}

/// Runs a command.
pub(crate) struct Bash;

impl Tool for Bash {
    fn spec(&self) -> ToolSpec {
        spec(
            NAME,
            "Runs a command with bash in the working directory and returns what it prints (both output \
             streams together) and its exit code.\n\
             * Each call is a new shell: `cd` and variables do not carry over. Chain commands with `&&`.\n\
             * There is no terminal. Pass options that avoid questions, such as --yes.\n\
             * A command that has not ended after `initial_wait` seconds goes on in the background; you get \
             what it has printed so far and a shellId for read_bash and stop_bash.\n\
             * Use mode \"async\" for servers, watchers and programs you want to type into with write_bash. \
             Everything is ended with the session.",
            schema::object(
                &json!({
                    "command": schema::string("The command line."),
                    "description": schema::string(
                        "What the command does, in at most 100 characters, for the person who allows it."
                    ),
                    "mode": schema::choice(
                        &["sync", "async"],
                        "sync (default): wait for the end. async: return at once, run in the background.",
                    ),
                    "initial_wait": schema::number(
                        "In sync mode: how many seconds to wait for the end. Default 30, at most 600."
                    ),
                    "shellId": schema::string("A name for this command. Default: a number."),
                }),
                &["command", "description"],
            ),
        )
    }

    fn prepare<'a>(&'a self, context: &'a ToolContext, arguments: &'a Json) -> Working<'a, Prepared> {
        Box::pin(async move {
            let request = async {
                let arguments = Arguments::read(arguments)?;
                let request =
                    assess::request(&context.call, &context.cwd, &arguments.command, arguments.intention());
                place::requested(context, &arguments.wish(), request).await
            };
            request.await.into()
        })
    }

    fn touches(&self, context: &ToolContext, arguments: &Json) -> Vec<PathBuf> {
        Arguments::read(arguments).map_or_else(|_| Vec::new(), |a| assess::files_in(&context.cwd, &a.command))
    }

    fn run<'a>(&'a self, context: &'a ToolContext, arguments: &'a Json) -> Working<'a, ToolResult> {
        Box::pin(async move { either(run(context, arguments).await) })
    }
}

async fn run(context: &ToolContext, arguments: &Json) -> Result<ToolResult, ToolRefusal> {
    let arguments = Arguments::read(arguments)?;
    if context.cancel.is_cancelled() {
        return Err(ToolRefusal::interrupted());
    }
    let inside = place::decided(context, &arguments.wish()).await?;
    let background = arguments.mode == Some(Mode::Async);
    let shells = &context.services.shells;
    let shell = shells.start(
        context,
        NewCommand {
            command: arguments.command,
            id: arguments.shell_id,
            inside,
            interactive: background,
            progress: (!background).then(|| Arc::clone(&context.progress)),
        },
    )?;
    if background {
        return Ok(ToolResult::success(format!(
            "The command runs in the background with shellId: {}. Use read_bash to read what it prints, \
             write_bash to type into it, stop_bash to end it.",
            shell.id
        )));
    }
    let wait = arguments.initial_wait.map_or(DEFAULT_WAIT, |seconds| seconds.0);
    let guard = EndOnDrop(Some(&shell));
    let ended = timeout(wait, shell.ended()).await;
    guard.disarm();
    shell.output.stop_progress();
    match ended {
        Ok(CommandStatus::Stopped) => {
            shells.forget(&shell);
            Err(ToolRefusal::interrupted())
        }
        Ok(_) if shell.is_over() => {
            shells.forget(&shell);
            Ok(report(&shell))
        }
        _ => Ok(report(&shell)),
    }
}

/// Ends the command of a call that is dropped while it waits: a dropped call must leave no process.
struct EndOnDrop<'a>(Option<&'a Shell>);

impl EndOnDrop<'_> {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(shell) = self.0 {
            shell.stop_soon();
        }
    }
}

/// Returns the result for a command: its new output and its state.
pub(super) fn report(shell: &Shell) -> ToolResult {
    let output = shell.output.take();
    let preview = clip(&output, PREVIEW).to_owned();
    let mut text = output;
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let id = &shell.id;
    match shell.status() {
        CommandStatus::Running => {
            text += &format!(
                "<the command is still running with shellId: {id}. Use read_bash to read more, stop_bash to \
                 end it>"
            );
            ToolResult::success(text)
        }
        CommandStatus::Stopped => {
            text += "<stopped>";
            ToolResult::success(text)
        }
        CommandStatus::Exited { code, left_running } => {
            // The wording is compared byte for byte by the replay suite of the SDKs.
            text += &format!("<exited with exit code {code}>");
            if left_running {
                text += &format!(
                    "\n<processes that it started are still running with shellId: {id}. Use stop_bash to end \
                     them>"
                );
            }
            // Newer SDKs have a different type for this and accept this one too; older ones drop events with the newer one.
            let mut exit = json!({
                "type": "terminal", "text": preview, "exitCode": code, "cwd": shell.cwd.display().to_string(),
            });
            if let Some(inside) = &shell.inside {
                exit["sandbox"] = json!(inside.level());
            }
            ToolResult { contents: Some(json!([exit]).into()), ..ToolResult::success(text) }
        }
    }
}
