//! `read_bash`, `write_bash`, `stop_bash`, `list_bash`: the tools for background commands.

use std::sync::Arc;
use std::time::Duration;

use baton_protocol::Json;
use baton_protocol::permission::PermissionRequest;
use baton_protocol::tool::{ToolResult, ToolSpec};
use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::bash::report;
use super::keys::{self, Keystroke};
use super::place::Inside;
use super::running::{CommandStatus, Shell};
use crate::tools::arguments::{self, Seconds};
use crate::tools::text::clip;
use crate::tools::{Prepared, Tool, ToolContext, ToolRefusal, Working, either, schema, spec};

const READ: &str = "read_bash";
const WRITE: &str = "write_bash";
const STOP: &str = "stop_bash";
const LIST: &str = "list_bash";

/// How long a command may take to accept input.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
struct ShellRef {
    #[serde(rename = "shellId", alias = "shell_id", alias = "sessionId", alias = "session_id", alias = "id")]
    shell_id: Id,
    delay: Option<Seconds>,
}

/// Id of a shell. Most are numbers, and models send those as numbers.
#[derive(Deserialize)]
#[serde(untagged)]
enum Id {
    Text(String),
    Number(u64),
}

impl ShellRef {
    fn find(&self, context: &ToolContext) -> Result<Arc<Shell>, ToolRefusal> {
        context.services.shells.find(&match &self.shell_id {
            Id::Text(text) => text.clone(),
            Id::Number(number) => number.to_string(),
        })
    }

    /// Waits up to `delay` for the end of the command, then returns the result.
    async fn report(
        &self,
        context: &ToolContext,
        shell: &Shell,
        by_default: Duration,
    ) -> Result<ToolResult, ToolRefusal> {
        let delay = self.delay.map_or(by_default, |seconds| seconds.0);
        tokio::select! {
            _ = timeout(delay, shell.ended()) => {}
            () = context.cancel.cancelled() => return Err(ToolRefusal::interrupted()),
        }
        let result = report(shell);
        if shell.is_over() {
            context.services.shells.forget(shell);
        }
        Ok(result)
    }
}

fn shell_id_schema() -> serde_json::Value {
    schema::string("The shellId that bash returned.")
}

/// Reads the output of a command.
pub(crate) struct ReadBash;

impl Tool for ReadBash {
    fn spec(&self) -> ToolSpec {
        spec(
            READ,
            "Returns what a background command has printed since you last read it, and whether it still \
             runs. Waits up to `delay` seconds for it to end: choose a long delay if you need the result, a \
             short one to look how it is doing.",
            schema::object(
                &json!({
                    "shellId": shell_id_schema(),
                    "delay": schema::number("Seconds to wait for the end, at most 600."),
                }),
                &["shellId", "delay"],
            ),
        )
    }

    fn prepare<'a>(&'a self, _: &'a ToolContext, _: &'a Json) -> Working<'a, Prepared> {
        Box::pin(async { Prepared::Harmless })
    }

    fn run<'a>(&'a self, context: &'a ToolContext, arguments: &'a Json) -> Working<'a, ToolResult> {
        Box::pin(async move {
            let read = async {
                let shell_ref: ShellRef = arguments::read(READ, arguments)?;
                let shell = shell_ref.find(context)?;
                shell_ref.report(context, &shell, Duration::ZERO).await
            };
            either(read.await)
        })
    }
}

#[derive(Deserialize)]
struct WriteArguments {
    #[serde(flatten)]
    shell_ref: ShellRef,
    #[serde(alias = "text")]
    input: String,
}

/// Writes to the input of a command.
pub(crate) struct WriteBash;

impl Tool for WriteBash {
    fn spec(&self) -> ToolSpec {
        spec(
            WRITE,
            "Types into a command that was started with bash in mode \"async\", then waits up to `delay` \
             seconds and returns what it has printed. Keys are written in braces: {enter}, {tab}, {up}, \
             {down}, {left}, {right}, {backspace}, {escape}, {ctrl+c} to interrupt, {ctrl+d} to end the \
             input. Input is not sent until {enter}.",
            schema::object(
                &json!({
                    "shellId": shell_id_schema(),
                    "input": schema::string("What to type, for example \"y{enter}\"."),
                    "delay": schema::number("Seconds to wait before reading. Default 1."),
                }),
                &["shellId", "input"],
            ),
        )
    }

    fn prepare<'a>(&'a self, context: &'a ToolContext, arguments: &'a Json) -> Working<'a, Prepared> {
        Box::pin(async move {
            let request = || {
                let input: WriteArguments = arguments::read(WRITE, arguments)?;
                let shell = input.shell_ref.find(context)?;
                context.services.shells.name(&context.call, &shell);
                Ok(typing_request(context, &shell, &input.input))
            };
            request().into()
        })
    }

    fn run<'a>(&'a self, context: &'a ToolContext, arguments: &'a Json) -> Working<'a, ToolResult> {
        Box::pin(async move {
            let write = async {
                let input: WriteArguments = arguments::read(WRITE, arguments)?;
                let shell = input.shell_ref.find(context)?;
                // The id may belong to another command by now, also after a restart.
                if !context.services.shells.is_named(&context.call, &shell) {
                    let text = format!(
                        "The command that this call was approved for has ended; shellId {:?} is another one now. \
                         Call again to type into that.",
                        shell.id
                    );
                    return Err(ToolRefusal::new(text).in_short("Command has changed"));
                }
                for key in keys::parse(&input.input) {
                    type_key(context, &shell, key).await?;
                }
                input.shell_ref.report(context, &shell, Duration::from_secs(1)).await
            };
            either(write.await)
        })
    }
}

/// Builds the request to type into a running command. The effect of the text is unknown, so the request names no commands
/// and no grant covers it.
fn typing_request(context: &ToolContext, shell: &Shell, input: &str) -> PermissionRequest {
    PermissionRequest::Shell {
        tool_call_id: Some(context.call.clone()),
        full_command_text: input.to_owned(),
        intention: format!("Type into the running command: {}", clip(&shell.command, 200)),
        commands: Vec::new(),
        possible_paths: Vec::new(),
        possible_urls: Vec::new(),
        has_write_file_redirection: false,
        can_offer_session_approval: false,
        warning: None,
        input_to: Some(shell.id.clone()),
        repository_runs: None,
        sandbox: shell.inside.as_ref().map(Inside::level),
        request_sandbox_bypass: None,
        request_sandbox_bypass_reason: None,
    }
}

async fn type_key(context: &ToolContext, shell: &Shell, key: Keystroke) -> Result<(), ToolRefusal> {
    let gone = || {
        ToolRefusal::new(format!(
            "The command with shellId {:?} takes no more input: it has ended, its input was closed, or it \
             was not started in mode \"async\".",
            shell.id
        ))
    };
    let mut stdin = shell.stdin.lock().await;
    match key {
        Keystroke::Interrupt => {
            if shell.status() != CommandStatus::Running {
                return Err(gone());
            }
            shell.tree.interrupt();
        }
        Keystroke::EndOfInput => drop(stdin.take().ok_or_else(gone)?),
        Keystroke::Text(text) => {
            let input = stdin.as_mut().ok_or_else(gone)?;
            let written = tokio::select! {
                written = timeout(WRITE_TIMEOUT, input.write_all(text.as_bytes())) => written,
                () = context.cancel.cancelled() => return Err(ToolRefusal::interrupted()),
            };
            match written {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(gone()),
                Err(_) => return Err(ToolRefusal::new("The command does not read its input.")),
            }
        }
    }
    Ok(())
}

/// Ends a command.
pub(crate) struct StopBash;

impl Tool for StopBash {
    fn spec(&self) -> ToolSpec {
        spec(
            STOP,
            "Ends a background command and every process that it started, and returns what it printed since \
             you last read it.",
            schema::object(&json!({"shellId": shell_id_schema()}), &["shellId"]),
        )
    }

    fn prepare<'a>(&'a self, _: &'a ToolContext, _: &'a Json) -> Working<'a, Prepared> {
        Box::pin(async { Prepared::Harmless })
    }

    fn run<'a>(&'a self, context: &'a ToolContext, arguments: &'a Json) -> Working<'a, ToolResult> {
        Box::pin(async move {
            let stop = async {
                let shell_ref: ShellRef = arguments::read(STOP, arguments)?;
                let shell = shell_ref.find(context)?;
                shell.stop().await;
                context.services.shells.forget(&shell);
                Ok(report(&shell))
            };
            either(stop.await)
        })
    }
}

/// Lists the commands.
pub(crate) struct ListBash;

impl Tool for ListBash {
    fn spec(&self) -> ToolSpec {
        spec(
            LIST,
            "Lists the background commands of this session: shellId, state, process id, whether there is \
             output that you have not read, and the command.",
            schema::object(&json!({}), &[]),
        )
    }

    fn prepare<'a>(&'a self, _: &'a ToolContext, _: &'a Json) -> Working<'a, Prepared> {
        Box::pin(async { Prepared::Harmless })
    }

    fn run<'a>(&'a self, context: &'a ToolContext, _: &'a Json) -> Working<'a, ToolResult> {
        Box::pin(async move {
            let lines: Vec<String> =
                context.services.shells.all().iter().map(|shell| describe(shell)).collect();
            ToolResult::success(if lines.is_empty() {
                "There are no shells.".into()
            } else {
                lines.join("\n")
            })
        })
    }
}

fn describe(shell: &Shell) -> String {
    let state = match shell.status() {
        CommandStatus::Running => "running".to_owned(),
        CommandStatus::Stopped => "stopped".to_owned(),
        CommandStatus::Exited { code, left_running: false } => format!("exited with exit code {code}"),
        CommandStatus::Exited { code, left_running: true } => {
            format!("exited with exit code {code}, processes that it started still running")
        }
    };
    let unread = if shell.output.has_unread() { ", unread output" } else { "" };
    let command = clip(shell.command.lines().next().unwrap_or_default(), 200);
    format!("shellId: {}, {state}, pid {}{unread}, command: {command}", shell.id, shell.pid)
}
