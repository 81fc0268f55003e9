//! Permission requests of claude, and the agent's questions to the user, which are a tool as well.

use std::path::{Path, PathBuf};

use baton_protocol::permission::{PermissionRequest, Verdict};
use serde_json::{Map, Value, json};

use super::messages::tool;
use crate::adapter::Steps;
use crate::json::{list, text};
use crate::pending::{OpenRequests, labelled_question};
use crate::permission::{self, SingleVerdict};

/// The open requests of claude, by its ids.
#[derive(Debug, Default)]
pub(super) struct Approvals {
    pub(super) cwd: PathBuf,
    /// The data of questions is the input of the tool.
    pending: OpenRequests<ToolUse, Value>,
}

/// A use of a tool that waits for a decision.
#[derive(Debug)]
struct ToolUse {
    call: String,
    input: Value,
}

impl Approvals {
    pub(super) fn clear(&mut self) {
        self.pending.clear();
    }

    /// Withdraws a request that claude no longer waits for.
    pub(super) fn withdraw(&mut self, id: &str, steps: &mut Steps) {
        self.pending.withdraw(id, steps);
    }

    /// Handles a request of claude. Unknown requests are refused, so that claude does not wait for an answer forever.
    pub(super) fn on_request(&mut self, id: &str, request: &Value, steps: &mut Steps) {
        if request["subtype"] != "can_use_tool" {
            let subtype = text(request, "/subtype").unwrap_or("this request");
            return refuse(id, &format!("Baton does not support {subtype}."), steps);
        }
        let name = text(request, "/tool_name").unwrap_or_default();
        let input = &request["input"];
        if name == "AskUserQuestion" && list(input, "/questions").next().is_some() {
            return self.ask(id, input, steps);
        }
        let call = text(request, "/tool_use_id").unwrap_or_default().to_owned();
        let wants = permission_request(&call, &self.cwd, name, request);
        let tool_use = ToolUse { call: call.clone(), input: input.clone() };
        self.pending.request_permission(id, &call, wants, tool_use, steps);
    }

    /// Sends a decision to claude. Returns the call if it was denied.
    pub(super) fn decide(&mut self, reference: &str, verdict: Verdict, steps: &mut Steps) -> Option<String> {
        let ToolUse { call, input } = self.pending.decided(reference)?;
        let (answer, denied) = match SingleVerdict::from(verdict) {
            SingleVerdict::Allow => (json!({"behavior": "allow", "updatedInput": input}), None),
            SingleVerdict::Deny(feedback) => {
                let message = feedback.unwrap_or_else(|| permission::DENIED.to_owned());
                (json!({"behavior": "deny", "message": message}), Some(call))
            }
        };
        respond(reference, &answer, steps);
        denied
    }

    /// Asks the user. Claude identifies an answer by the text of its question.
    fn ask(&mut self, id: &str, input: &Value, steps: &mut Steps) {
        let questions = list(input, "/questions").map(|question| labelled_question(question, true));
        let questions = questions.map(|question| (question.question.clone(), question));
        self.pending.ask(id, questions, input.clone(), steps);
    }

    /// Stores an answer of the user. Claude gets all of them together.
    pub(super) fn answer(&mut self, reference: &str, answer: &str, steps: &mut Steps) {
        let Some((id, mut input, answers)) = self.pending.answered(reference, answer) else { return };
        let answers = answers.into_iter().map(|(question, answer)| (question, answer.into()));
        input["answers"] = Value::Object(answers.collect::<Map<_, _>>());
        respond(&id, &json!({"behavior": "allow", "updatedInput": input}), steps);
    }
}

fn respond(id: &str, answer: &Value, steps: &mut Steps) {
    let response = json!({"subtype": "success", "request_id": id, "response": answer});
    steps.send(&json!({"type": "control_response", "response": response}));
}

/// Answers a request of claude with an error.
pub(super) fn refuse(id: &str, reason: &str, steps: &mut Steps) {
    let response = json!({"subtype": "error", "request_id": id, "error": reason});
    steps.send(&json!({"type": "control_response", "response": response}));
}

/// Translates a request of claude.
fn permission_request(call: &str, cwd: &Path, name: &str, request: &Value) -> PermissionRequest {
    let input = &request["input"];
    let field = |path: &str| text(input, path).unwrap_or_default();
    let path = text(input, "/file_path").or(text(input, "/notebook_path")).or(text(input, "/path"));
    match tool(name) {
        // The command line does not show that the sandbox is off, so a grant for the line must not cover it.
        "bash" if !matches!(input["dangerouslyDisableSandbox"], Value::Null | Value::Bool(false)) => {
            permission::ungrantable(call, "bash", "Run a command outside the sandbox", input)
        }
        "bash" => permission::shell(call, cwd, field("/command"), field("/description")),
        "create" => permission::replace(call, path.unwrap_or_default(), field("/content"), ""),
        "edit" => {
            let part =
                |part| (text(part, "/old_string").unwrap_or(""), text(part, "/new_string").unwrap_or(""));
            let mut parts: Vec<(&str, &str)> = list(input, "/edits").map(part).collect();
            if parts.is_empty() {
                let new = text(input, "/new_string").or(text(input, "/new_source")).unwrap_or_default();
                parts.push((field("/old_string"), new));
            }
            permission::edit(call, cwd, path.unwrap_or_default(), &parts)
        }
        "view" | "glob" | "grep" => {
            let cwd = cwd.display().to_string();
            // A pattern can lead out of the searched directory. The request then names no directory.
            let leaves = |pattern: &str| pattern.starts_with(['/', '~']) || pattern.contains("..");
            let directory =
                if tool(name) == "glob" && leaves(field("/pattern")) { "" } else { path.unwrap_or(&cwd) };
            permission::read(call, directory, text(request, "/description").unwrap_or_default())
        }
        "web_fetch" => permission::url(call, field("/url"), field("/prompt")),
        other => match other.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")) {
            Some((server, tool)) => permission::mcp(call, server, tool, input),
            None => {
                permission::custom_tool(call, other, text(request, "/description").unwrap_or_default(), input)
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_grant_covers_a_command_outside_the_sandbox() {
        let request = |disabled: Value| {
            let input = json!({"command": "ls", "dangerouslyDisableSandbox": disabled});
            permission_request("c", Path::new("/work"), "Bash", &json!({ "input": input }))
        };
        assert!(matches!(request(json!(false)), PermissionRequest::Shell { .. }));
        // Claude may take a text for the value that it names.
        for disabled in [json!(true), json!("true"), json!(1)] {
            assert!(matches!(request(disabled), PermissionRequest::Hook { .. }));
        }
    }
}
