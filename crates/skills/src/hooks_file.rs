//! Hooks in files: commands that a plugin wants to run when something happens in a session.
//!
//! The file names hooks as clients do: `{"version":1,"hooks":{"preToolUse":[{"type":"command","bash":"./check.sh"}]}}`. A
//! command gets the hook's input as JSON on stdin, and prints its output as JSON. This module runs nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

/// How long a command may run, if the file does not say.
const DEFAULT_SECONDS: f64 = 30.0;
/// How long a command may run at most.
const MOST_SECONDS: f64 = 600.0;
/// Commands of a file.
const MOST_COMMANDS: usize = 100;

/// A command that runs for a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookCommand {
    /// Name of the hook, for example `preToolUse`.
    pub hook: String,
    /// Line for the shell.
    pub line: String,
    /// Working directory, relative to the plugin.
    pub cwd: Option<String>,
    /// Variables that it gets in addition.
    pub env: BTreeMap<String, String>,
    /// How long it may run.
    pub patience: Duration,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    hooks: BTreeMap<String, Vec<Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(alias = "command")]
    bash: String,
    cwd: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(alias = "timeout")]
    timeout_sec: Option<f64>,
}

/// Parses a file of hooks. Returns the commands, and the reasons why entries are not used.
///
/// # Errors
/// When the file as a whole cannot be used.
pub(crate) fn parse_hooks(text: &str) -> Result<(Vec<HookCommand>, Vec<String>), String> {
    let File { hooks } = baton_json::from_str(text).map_err(|error| error.to_string())?;
    let (mut commands, mut problems) = (Vec::new(), Vec::new());
    for (hook, entries) in hooks {
        for (n, entry) in entries.iter().enumerate() {
            match parse(&hook, entry) {
                Ok(_) if commands.len() == MOST_COMMANDS => {
                    return Err(format!("it has more than {MOST_COMMANDS} commands"));
                }
                Ok(command) => commands.push(command),
                Err(why) => problems.push(format!("hooks.{hook}[{n}] is not used: {why}")),
            }
        }
    }
    Ok((commands, problems))
}

fn parse(hook: &str, entry: &Value) -> Result<HookCommand, String> {
    let entry: Entry = baton_json::from_value(entry).map_err(|error| error.to_string())?;
    match entry.kind.as_deref() {
        None | Some("command") => {}
        Some(other) => return Err(format!("its type is {other:?}; only \"command\" is supported")),
    }
    if entry.bash.trim().is_empty() {
        return Err("its command is empty".into());
    }
    let seconds = entry.timeout_sec.unwrap_or(DEFAULT_SECONDS);
    if !(seconds > 0.0 && seconds <= MOST_SECONDS) {
        return Err(format!("timeoutSec must be more than 0 and at most {MOST_SECONDS}"));
    }
    Ok(HookCommand {
        hook: hook.to_owned(),
        line: entry.bash,
        cwd: entry.cwd,
        env: entry.env,
        patience: Duration::from_secs_f64(seconds),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_entry_does_not_affect_the_others() {
        let text = r#"{"version":1,"hooks":{"preToolUse":[{"type":"command","bash":"./a","timeoutSec":5},
            {"type":"http","bash":"x"},{"bash":" "},{"bash":7},{"bash":"x","timeoutSec":-1}],"sessionStart":[{"bash":"b"}]}}"#;
        let (commands, problems) = parse_hooks(text).unwrap();
        let names: Vec<(&str, &str, u64)> =
            commands.iter().map(|c| (c.hook.as_str(), c.line.as_str(), c.patience.as_secs())).collect();
        assert_eq!(names, [("preToolUse", "./a", 5), ("sessionStart", "b", 30)]);
        assert_eq!(problems.len(), 4, "{problems:?}");
        assert!(problems[0].contains("preToolUse[1]") && problems[0].contains("http"));
    }

    #[test]
    fn malformed_files_are_refused() {
        for text in ["", "[]", "{}", r#"{"hooks":[]}"#, r#"{"hooks":{"a":{}}}"#] {
            assert!(parse_hooks(text).is_err(), "{text}");
        }
        let many =
            format!(r#"{{"hooks":{{"a":[{}]}}}}"#, vec![r#"{"bash":"x"}"#; MOST_COMMANDS + 1].join(","));
        assert!(parse_hooks(&many).unwrap_err().contains("more than"));
    }
}
