//! What an agent asks for before it uses a tool.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use agent_client_protocol_schema::v1::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, SelectedPermissionOutcome, ToolCall, ToolCallContent, ToolKind,
};
use baton_agent::tools::unified_diff;
use baton_protocol::permission::{PermissionRequest, Verdict};
use serde_json::{Value, json};

use crate::Report;
use crate::dialect::Steps;
use crate::json::text;
use crate::wants::{self, Decision};

#[derive(Debug, Default)]
pub(super) struct Permissions {
    pub(super) cwd: PathBuf,
    /// What waits for a decision, by our reference.
    open: HashMap<String, Open>,
}

#[derive(Debug)]
struct Open {
    id: Value,
    call: String,
    options: Vec<PermissionOption>,
}

impl Permissions {
    pub(super) fn read(params: &Value) -> Option<RequestPermissionRequest> {
        serde_json::from_value(params.clone()).ok()
    }

    pub(super) fn forget(&mut self) {
        self.open.clear();
    }

    pub(super) fn asked(
        &mut self,
        id: &Value,
        call: &ToolCall,
        options: Vec<PermissionOption>,
        steps: &mut Steps,
    ) {
        let reference = id.to_string();
        let name = call.tool_call_id.0.to_string();
        let wants = Box::new(wanted(&name, &self.cwd, call));
        self.open.insert(reference.clone(), Open { id: id.clone(), call: name.clone(), options });
        steps.report(Report::Wants { reference, call: Some(name), wants });
    }

    /// Tells the agent what was decided. Returns the call, if it was not allowed.
    pub(super) fn decide(&mut self, reference: &str, verdict: Verdict, steps: &mut Steps) -> Option<String> {
        use PermissionOptionKind::{AllowOnce, RejectAlways, RejectOnce};
        let Open { id, call, options } = self.open.remove(reference)?;
        let (kinds, denied) = match Decision::from(verdict) {
            // Never "always", which for some agents is for ever: one that offers nothing else is told no.
            Decision::Once => (&[AllowOnce][..], None),
            Decision::No(_) => (&[RejectOnce, RejectAlways][..], Some(call)),
        };
        let chosen = kinds.iter().find_map(|kind| options.iter().find(|option| option.kind == *kind));
        match chosen {
            Some(option) => {
                let selected = SelectedPermissionOutcome::new(option.option_id.clone());
                respond(&id, RequestPermissionOutcome::Selected(selected), steps);
            }
            None => cancel(&id, steps),
        }
        denied
    }

    /// Nobody will decide any more.
    pub(super) fn cancel(&mut self, steps: &mut Steps) {
        for Open { id, .. } in std::mem::take(&mut self.open).into_values() {
            cancel(&id, steps);
        }
    }
}

pub(super) fn cancel(id: &Value, steps: &mut Steps) {
    respond(id, RequestPermissionOutcome::Cancelled, steps);
}

fn respond(id: &Value, outcome: RequestPermissionOutcome, steps: &mut Steps) {
    let result = RequestPermissionResponse::new(outcome);
    steps.say(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
}

/// Arguments of commands that change nothing about what is run.
const INERT: [&str; 6] =
    ["command", "description", "timeout", "is_background", "run_in_background", "background"];
/// Arguments that say where it is run.
const PLACES: [&str; 5] = ["cwd", "workdir", "directory", "dir_path", "dir"];

/// The line that a person is shown for a command: with the directory, if it is another one. None if the call has arguments
/// that nobody knows: then the line alone would not say what runs.
fn line(cwd: &Path, command: &str, input: &Value) -> Option<String> {
    let mut place = None;
    for (name, value) in input.as_object()? {
        match value.as_str() {
            _ if INERT.contains(&name.as_str()) || value.is_null() => {}
            Some("") if PLACES.contains(&name.as_str()) => {}
            Some(directory) if PLACES.contains(&name.as_str()) && place.is_none() => place = Some(directory),
            _ => return None,
        }
    }
    let place = place.map(|place| cwd.join(place)).filter(|place| place != cwd);
    Some(place.map_or_else(|| command.to_owned(), |place| wants::moved(&place, command)))
}

/// What the agent wants, in our words.
fn wanted(id: &str, cwd: &Path, call: &ToolCall) -> PermissionRequest {
    let nothing = Value::Null;
    let input = call.raw_input.as_ref().unwrap_or(&nothing);
    let diffs = call.content.iter().filter_map(|content| match content {
        ToolCallContent::Diff(diff) => Some(diff),
        _ => None,
    });
    let diffs: Vec<_> = diffs.collect();
    if !diffs.is_empty() {
        let located = call.locations.iter().map(|location| location.path.as_path());
        let files: BTreeSet<&Path> = diffs.iter().map(|diff| diff.path.as_path()).chain(located).collect();
        let files = wants::files(files.into_iter().map(Path::to_str));
        let texts = diffs
            .iter()
            .map(|diff| unified_diff(&cwd.join(&diff.path), diff.old_text.as_deref(), &diff.new_text));
        return wants::write(id, &files, texts.collect::<Vec<_>>().join("\n"), &call.title);
    }
    // All that it names: a file that is moved is at two places.
    let located = call.locations.iter().map(|location| location.path.as_path());
    let path = text(input, "/filepath").or(text(input, "/file_path")).or(text(input, "/path"));
    let paths: BTreeSet<&Path> = path.map(Path::new).into_iter().chain(located).collect();
    let path = wants::files(paths.into_iter().map(Path::to_str));
    match (call.kind, text(input, "/command")) {
        (ToolKind::Execute, Some(command)) => match line(cwd, command, input) {
            Some(line) => wants::shell(id, cwd, &line, text(input, "/description").unwrap_or("")),
            None => wants::ungrantable(id, call.name.as_deref().unwrap_or("execute"), &call.title, input),
        },
        (ToolKind::Execute, None) => wants::hidden_shell(id, cwd, &call.title),
        (ToolKind::Edit | ToolKind::Delete | ToolKind::Move, _) => {
            let diff = text(input, "/diff").unwrap_or_default().to_owned();
            wants::write(id, &path, diff, &call.title)
        }
        (ToolKind::Read | ToolKind::Search, _) => wants::read(id, &path, &call.title),
        (ToolKind::Fetch, _) => wants::url(id, text(input, "/url").unwrap_or(&call.title), ""),
        _ => wants::other(id, call.name.as_deref().unwrap_or(&call.title), &call.title, input),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_with_all_that_says_what_runs() {
        let shown = |input: Value| line(Path::new("/work"), "make", &input);
        assert_eq!(shown(json!({"command": "make", "description": "x", "timeout": 5})), Some("make".into()));
        assert_eq!(shown(json!({"command": "make", "workdir": "/work"})), Some("make".into()));
        assert_eq!(
            shown(json!({"command": "make", "cwd": "/tmp/evil"})),
            Some("cd '/tmp/evil' && make".into())
        );
        assert_eq!(
            shown(json!({"command": "make", "directory": "sub"})),
            Some("cd '/work/sub' && make".into())
        );
        for unknown in [
            json!({"command": "make", "args": ["-f", "x"]}),
            json!({"command": "make", "host": "prod"}),
            json!({"command": "make", "cwd": "/a", "workdir": "/b"}),
            json!({"command": "make", "cwd": 7}),
        ] {
            assert_eq!(shown(unknown.clone()), None, "{unknown}");
        }
    }
}
