//! What pi's extensions ask: ours whether a tool may be used, others whatever they like.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use baton_protocol::event::UserQuestion;
use baton_protocol::permission::{PermissionRequest, Verdict};
use serde_json::{Value, json};

use super::events::tool;
use crate::Report;
use crate::dialect::Steps;
use crate::json::{list, text};
use crate::wants::{self, Decision};

/// The extension that asks before a tool is used.
pub(super) const EXTENSION: &str = include_str!("approvals.ts");
/// The title of its questions.
const MAY: &str = "baton/may";

#[derive(Debug, Default)]
pub(super) struct Questions {
    pub(super) cwd: PathBuf,
    /// Calls that wait for a decision, by pi's id, which is our reference, too.
    open: HashMap<String, String>,
    /// What waits for an answer, by pi's id: whether it is a yes or a no.
    asked: HashMap<String, bool>,
}

impl Questions {
    pub(super) fn forget(&mut self) {
        self.open.clear();
        self.asked.clear();
    }

    pub(super) fn hear(&mut self, request: &Value, steps: &mut Steps) {
        let Some(id) = text(request, "/id") else { return };
        let title = text(request, "/title").unwrap_or_default();
        match text(request, "/method").unwrap_or_default() {
            "input" if title == MAY => self.may(id, text(request, "/placeholder").unwrap_or_default(), steps),
            "notify" => {
                let warning = request["notifyType"] != "info";
                let text = text(request, "/message").unwrap_or_default().to_owned();
                steps.report(Report::Note { warning, text });
            }
            method @ ("select" | "confirm" | "input" | "editor") => {
                self.asked.insert(id.to_owned(), method == "confirm");
                steps.report(Report::Asks {
                    reference: id.to_owned(),
                    question: question(method, title, request),
                });
            }
            // Decoration of a terminal.
            _ => {}
        }
    }

    fn may(&mut self, id: &str, asked: &str, steps: &mut Steps) {
        let asked: Value = serde_json::from_str(asked).unwrap_or_default();
        let call = text(&asked, "/call").unwrap_or_default().to_owned();
        let wants = wanted(&call, &self.cwd, &asked);
        self.open.insert(id.to_owned(), call.clone());
        let call = Some(call).filter(|call| !call.is_empty());
        steps.report(Report::Wants { reference: id.to_owned(), call, wants: Box::new(wants) });
    }

    /// Tells pi what was decided. Returns the call, if it was not allowed.
    pub(super) fn decide(&mut self, reference: &str, verdict: Verdict, steps: &mut Steps) -> Option<String> {
        let call = self.open.remove(reference)?;
        let (answer, denied) = match Decision::from(verdict) {
            Decision::Once => ("yes".to_owned(), None),
            Decision::No(why) => {
                (why.unwrap_or_else(|| "The user does not allow this.".to_owned()), Some(call))
            }
        };
        respond(reference, "value", &answer.into(), steps);
        denied
    }

    /// Tells pi what the user said.
    pub(super) fn answer(&mut self, reference: &str, answer: &str, steps: &mut Steps) {
        match self.asked.remove(reference) {
            Some(true) => respond(reference, "confirmed", &(answer == YES).into(), steps),
            Some(false) => respond(reference, "value", &answer.into(), steps),
            None => {}
        }
    }

    /// Nobody will answer.
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
    UserQuestion {
        question: format!("{title}\n{message}").trim().to_owned(),
        allow_freeform: Some(choices.is_empty()),
        choices: Some(choices).filter(|choices| !choices.is_empty()),
    }
}

fn respond(id: &str, kind: &str, answer: &Value, steps: &mut Steps) {
    steps.say(&json!({"type": "extension_ui_response", "id": id, kind: answer}));
}

/// What pi wants, in our words.
fn wanted(call: &str, cwd: &Path, asked: &Value) -> PermissionRequest {
    let input = &asked["input"];
    let field = |path: &str| text(input, path).unwrap_or_default();
    match tool(text(asked, "/tool").unwrap_or_default()) {
        "bash" => wants::shell(call, cwd, field("/command"), ""),
        "create" => wants::replace(call, field("/path"), field("/content"), ""),
        "edit" => {
            let part = |part| (text(part, "/oldText").unwrap_or(""), text(part, "/newText").unwrap_or(""));
            let mut parts: Vec<(&str, &str)> = list(input, "/edits").map(part).collect();
            if parts.is_empty() {
                parts.push(part(input));
            }
            wants::edit(call, cwd, field("/path"), &parts)
        }
        other => wants::other(call, other, "", input),
    }
}
