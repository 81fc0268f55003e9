//! Commands of plugins that run for hooks.
//!
//! A command gets the input as JSON on stdin, and prints its output as JSON. It runs in the plugin's directory, with the
//! environment of commands, and ends with its whole process tree after its time limit or with the work that it belongs to.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use baton_addons::PluginHook;
use baton_files::locations::resolved;
use baton_process::{Pipes, Start};
use baton_sandbox::{Place, Ready};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{WorkScope, prompt};

/// Largest output of a command, in bytes.
const MAX_OUTPUT: u64 = 1 << 20;
/// Part of its diagnostics that an error quotes, in bytes.
const MAX_DIAGNOSTICS: u64 = 2000;
/// How long processes may take to exit after SIGTERM.
const TERM_GRACE: Duration = Duration::from_secs(2);

/// Runs a command, and returns its output; null if it printed none.
///
/// # Errors
/// With the reason, when it cannot be started, fails, or takes too long.
pub(super) async fn run(scope: &WorkScope, hook: &PluginHook, input: &Value) -> Result<Value, String> {
    let sandbox = place(scope, hook).await?;
    let start = Start { sandbox, ..start(scope, hook)? };
    let (ledger, tag) = (start.ledger.clone(), start.tag.clone());
    let (note, noted) = (ledger.clone(), tag.clone());
    // Before a process carries the tag: a killed server's successor ends what it finds there.
    drop(tokio::task::spawn_blocking(move || note.note(&noted)).await);
    let output = execute(scope, hook, start, input).await;
    drop(tokio::task::spawn_blocking(move || ledger.forget(&tag)).await);
    output
}

async fn execute(scope: &WorkScope, hook: &PluginHook, start: Start, input: &Value) -> Result<Value, String> {
    let (mut process, Pipes { mut stdin, stdout, stderr }) =
        start.start().map_err(|error| error.to_string())?;
    let input = input.to_string();
    let talk = async {
        let write = async {
            // A command that does not read its input is not at fault.
            let _ = stdin.write_all(input.as_bytes()).await;
            drop(stdin);
        };
        let (mut printed, mut said) = (Vec::new(), Vec::new());
        let (mut stdout, mut stderr) = (stdout.take(MAX_OUTPUT + 1), stderr.take(MAX_DIAGNOSTICS));
        let (_, read, _) =
            tokio::join!(write, stdout.read_to_end(&mut printed), stderr.read_to_end(&mut said));
        read.map_err(|error| error.to_string())?;
        if printed.len() as u64 > MAX_OUTPUT {
            return Err(format!("it printed more than {MAX_OUTPUT} bytes"));
        }
        let status = process.wait().await.map_err(|error| error.to_string())?;
        match status.success() {
            true => Ok(printed),
            false => Err(format!("{status}: {}", String::from_utf8_lossy(&said).trim())),
        }
    };
    let talked = tokio::select! {
        talked = tokio::time::timeout(hook.command.patience, talk) => {
            talked.unwrap_or_else(|_| Err(format!("it took longer than {:?}", hook.command.patience)))
        }
        () = scope.cancel.cancelled() => Err("it was cancelled".into()),
    };
    process.end(TERM_GRACE).await;
    parse(&talked?)
}

fn parse(printed: &[u8]) -> Result<Value, String> {
    if printed.trim_ascii().is_empty() {
        return Ok(Value::Null);
    }
    baton_json::from_slice(printed).map_err(|error| format!("its output is not JSON: {error}"))
}

/// Returns the sandbox that a hook runs in. A plugin that the user installed runs outside, and one that the repository contains
/// inside.
async fn place(scope: &WorkScope, hook: &PluginHook) -> Result<Option<Arc<Ready>>, String> {
    let (root, cwd) = tokio::join!(resolved(hook.root.clone()), resolved(prompt::cwd(scope)));
    if !root.starts_with(cwd) {
        return Ok(None);
    }
    match scope.tools.sandbox().place(&[]).await? {
        Place::Inside(ready) => Ok(Some(ready)),
        Place::Outside => Ok(None),
    }
}

fn start(scope: &WorkScope, hook: &PluginHook) -> Result<Start, String> {
    let mut environment = scope.runtime.options.environment.clone();
    let mut set = |name: &str, value: OsString| {
        environment.retain(|(known, _)| known != name);
        environment.push((name.into(), value));
    };
    for (name, value) in &hook.command.env {
        set(name, value.into());
    }
    for name in ["COPILOT_PLUGIN_ROOT", "CLAUDE_PLUGIN_ROOT"] {
        set(name, hook.root.clone().into());
    }
    set("COPILOT_AGENT_SESSION_ID", scope.session.id.as_str().into());
    Ok(Start {
        program: "bash".into(),
        args: vec!["-c".into(), hook.command.line.clone().into()],
        environment,
        cwd: directory(&hook.root, hook.command.cwd.as_deref())?,
        tag: format!("{}/", uuid::Uuid::new_v4()),
        ledger: scope.runtime.ledger.clone(),
        sandbox: None,
    })
}

/// Returns the working directory of a command: the plugin's, or one below it.
fn directory(root: &Path, below: Option<&str>) -> Result<PathBuf, String> {
    let below = Path::new(below.unwrap_or_default());
    let is_inside = below.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    match is_inside {
        true => Ok(root.join(below)),
        false => Err(format!("its cwd {} leads out of the plugin", below.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn working_directory_is_in_the_plugin() {
        let of = |below| directory(Path::new("/p"), below);
        assert_eq!(of(None), Ok("/p/".into()));
        assert_eq!(of(Some("./a/b")), Ok("/p/a/b".into()));
        for below in ["..", "a/../../b", "/etc"] {
            assert!(of(Some(below)).unwrap_err().contains("leads out"), "{below}");
        }
    }

    #[test]
    fn output_is_json_or_nothing() {
        assert_eq!(parse(b" \n"), Ok(Value::Null));
        assert_eq!(parse(b"{\"a\":1}\n").unwrap()["a"], 1);
        assert!(parse(b"ok").unwrap_err().contains("not JSON"));
    }
}
