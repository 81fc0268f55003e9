//! Requests of pi's extensions: Baton's extension asks for permission to use a tool, others ask the user anything.

use std::path::{Path, PathBuf};

use baton_protocol::event::UserQuestion;
use baton_protocol::permission::{PermissionRequest, Verdict};
use serde_json::{Value, json};

use super::events::tool;
use crate::Report;
use crate::adapter::Steps;
use crate::json::{list, text};
use crate::pending::{OpenRequests, user_question};
use crate::permission::{self, SingleVerdict};

/// The extension that asks before a tool is used.
pub(super) const EXTENSION: &str = include_str!("approvals.ts");
/// The title of its requests.
const PERMISSION_TITLE: &str = "baton/may";
/// The answer that allows a tool. The extension takes any other answer as the reason of a denial.
const ALLOWED: &str = "yes";

/// The open requests, by pi's ids.
#[derive(Debug, Default)]
pub(super) struct UiRequests {
    pub(super) cwd: PathBuf,
    /// The data of a permission request is the call.
    pending: OpenRequests<String, ResponseKind>,
}

/// How the answer to a question is sent to pi.
#[derive(Debug)]
enum ResponseKind {
    YesOrNo,
    Text,
}

impl UiRequests {
    pub(super) fn clear(&mut self) {
        self.pending.clear();
    }

    pub(super) fn on_request(&mut self, request: &Value, steps: &mut Steps) {
        let Some(id) = text(request, "/id") else { return };
        let title = text(request, "/title").unwrap_or_default();
        match text(request, "/method").unwrap_or_default() {
            "input" if title == PERMISSION_TITLE => {
                self.request_permission(id, text(request, "/placeholder").unwrap_or_default(), steps);
            }
            "notify" => {
                let warning = request["notifyType"] != "info";
                let text = text(request, "/message").unwrap_or_default().to_owned();
                steps.report(Report::Note { warning, text });
            }
            method @ ("select" | "confirm" | "input" | "editor") => {
                let kind = if method == "confirm" { ResponseKind::YesOrNo } else { ResponseKind::Text };
                let question = (String::new(), question(method, title, request));
                self.pending.ask(id, [question], kind, steps);
            }
            // Decoration of a terminal.
            _ => {}
        }
    }

    fn request_permission(&mut self, id: &str, tool_call: &str, steps: &mut Steps) {
        let tool_call: Value = match baton_json::from_str(tool_call) {
            Ok(tool_call) => tool_call,
            // Nobody can decide about a call that cannot be shown.
            Err(error) => {
                return respond(id, "value", &format!("The call cannot be shown: {error}").into(), steps);
            }
        };
        let call = text(&tool_call, "/call").unwrap_or_default();
        let request = permission_request(call, &self.cwd, &tool_call);
        self.pending.request_permission(id, call, request, call.to_owned(), steps);
    }

    /// Sends a decision to pi. Returns the call if it was denied.
    pub(super) fn decide(&mut self, reference: &str, verdict: Verdict, steps: &mut Steps) -> Option<String> {
        let call = self.pending.decided(reference)?;
        let (answer, denied) = match SingleVerdict::from(verdict) {
            SingleVerdict::Allow => (ALLOWED.to_owned(), None),
            SingleVerdict::Deny(feedback) => {
                // The extension would take this feedback for an approval.
                let feedback = feedback.filter(|feedback| feedback != ALLOWED);
                (feedback.unwrap_or_else(|| permission::DENIED.to_owned()), Some(call))
            }
        };
        respond(reference, "value", &answer.into(), steps);
        denied
    }

    /// Sends the user's answer to pi.
    pub(super) fn answer(&mut self, reference: &str, answer: &str, steps: &mut Steps) {
        match self.pending.answered(reference, answer) {
            Some((id, ResponseKind::YesOrNo, _)) => respond(&id, "confirmed", &(answer == YES).into(), steps),
            Some((id, ResponseKind::Text, _)) => respond(&id, "value", &answer.into(), steps),
            None => {}
        }
    }

    /// Refuses a request that arrives while no prompt is running.
    pub(super) fn refuse(request: &Value, steps: &mut Steps) {
        if let Some(id) = text(request, "/id") {
            respond(id, "cancelled", &true.into(), steps);
        }
    }
}

const YES: &str = "Yes";

fn question(method: &str, title: &str, request: &Value) -> UserQuestion {
    let message = text(request, "/message").unwrap_or_default();
    let choices: Vec<String> = match method {
        "confirm" => vec![YES.to_owned(), "No".to_owned()],
        _ => list(request, "/options").filter_map(Value::as_str).map(str::to_owned).collect(),
    };
    user_question(format!("{title}\n{message}").trim(), choices, false)
}

fn respond(id: &str, kind: &str, answer: &Value, steps: &mut Steps) {
    steps.send(&json!({"type": "extension_ui_response", "id": id, kind: answer}));
}

/// Translates a request of the extension.
fn permission_request(call: &str, cwd: &Path, tool_call: &Value) -> PermissionRequest {
    let input = &tool_call["input"];
    let field = |path: &str| text(input, path).unwrap_or_default();
    match tool(text(tool_call, "/tool").unwrap_or_default()) {
        "bash" => permission::shell(call, cwd, field("/command"), ""),
        "create" => permission::replace(call, field("/path"), field("/content"), ""),
        "edit" => {
            let part = |part| (text(part, "/oldText").unwrap_or(""), text(part, "/newText").unwrap_or(""));
            let mut parts: Vec<(&str, &str)> = list(input, "/edits").map(part).collect();
            if parts.is_empty() {
                parts.push(part(input));
            }
            permission::edit(call, cwd, field("/path"), &parts)
        }
        other => permission::custom_tool(call, other, "", input),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::Step;

    #[test]
    fn rejection_with_the_feedback_yes_is_a_denial() {
        let mut requests = UiRequests { cwd: "/work".into(), ..UiRequests::default() };
        let mut steps = Steps::default();
        let tool_call = json!({"call": "c", "tool": "bash", "input": {"command": "ls"}}).to_string();
        let request =
            json!({"id": "1", "method": "input", "title": PERMISSION_TITLE, "placeholder": tool_call});
        requests.on_request(&request, &mut steps);
        let verdict = Verdict::Reject { feedback: Some(ALLOWED.to_owned()) };
        assert_eq!(requests.decide("1", verdict, &mut steps).as_deref(), Some("c"));
        let (asked, sent) = (steps.pop(), steps.pop());
        assert!(matches!(asked, Some(Step::Report(Report::Wants { .. }))), "{asked:?}");
        let Some(Step::Send(sent)) = sent else { panic!("{sent:?}") };
        assert!(!sent.contains("yes") && sent.contains("does not allow"), "{sent}");
    }

    #[test]
    fn call_that_cannot_be_shown_is_denied() {
        let deep = "[".repeat(120) + &"]".repeat(120);
        for input in [format!(r#"{{"command":"rm -rf /","x":{deep}}}"#), "1e999".to_owned()] {
            let mut requests = UiRequests { cwd: "/work".into(), ..UiRequests::default() };
            let mut steps = Steps::default();
            let tool_call = format!(r#"{{"call":"c","tool":"bash","input":{input}}}"#);
            let request =
                json!({"id": "1", "method": "input", "title": PERMISSION_TITLE, "placeholder": tool_call});
            requests.on_request(&request, &mut steps);
            let Some(Step::Send(sent)) = steps.pop() else {
                panic!("somebody is asked about a call without arguments")
            };
            assert!(sent.contains("cannot be shown") && steps.pop().is_none(), "{sent}");
        }
    }
}
