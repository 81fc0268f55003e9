//! What claude asks: whether it may use a tool, and questions of the agent to the user, which are a tool, too.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use baton_protocol::event::UserQuestion;
use baton_protocol::permission::{PermissionRequest, Verdict};
use serde_json::{Map, Value, json};

use super::messages::tool;
use crate::Report;
use crate::dialect::Steps;
use crate::json::{list, text};
use crate::wants::{self, Decision};

#[derive(Debug, Default)]
pub(super) struct Approvals {
    pub(super) cwd: PathBuf,
    /// What waits for a decision, by claude's id, which is our reference, too.
    open: HashMap<String, Open>,
    /// What waits for answers, by claude's id.
    asked: HashMap<String, Asked>,
}

#[derive(Debug)]
struct Open {
    call: String,
    input: Value,
}

/// Several questions of one request.
#[derive(Debug)]
struct Asked {
    input: Value,
    /// Our references of those that have no answer yet, and their texts.
    open: BTreeMap<String, String>,
    answers: Map<String, Value>,
}

impl Approvals {
    pub(super) fn forget(&mut self) {
        self.open.clear();
        self.asked.clear();
    }

    /// Claude asks something. What we do not understand is refused, so that it does not wait for ever.
    pub(super) fn asked(&mut self, id: &str, request: &Value, steps: &mut Steps) {
        if request["subtype"] != "can_use_tool" {
            let what = text(request, "/subtype").unwrap_or("that");
            return refuse(id, &format!("Baton does not do {what}."), steps);
        }
        let name = text(request, "/tool_name").unwrap_or_default();
        if name == "AskUserQuestion" && list(&request["input"], "/questions").next().is_some() {
            return self.questions(id, &request["input"], steps);
        }
        let call = text(request, "/tool_use_id").unwrap_or_default().to_owned();
        let wants = wanted(&call, &self.cwd, name, request);
        let open = Open { call: call.clone(), input: request["input"].clone() };
        self.open.insert(id.to_owned(), open);
        let call = Some(call).filter(|call| !call.is_empty());
        steps.report(Report::Wants { reference: id.to_owned(), call, wants: Box::new(wants) });
    }

    /// Tells claude what was decided. Returns the call, if it was not allowed.
    pub(super) fn decide(&mut self, reference: &str, verdict: Verdict, steps: &mut Steps) -> Option<String> {
        let Open { call, input } = self.open.remove(reference)?;
        let (answer, denied) = match Decision::from(verdict) {
            Decision::Once => (json!({"behavior": "allow", "updatedInput": input}), None),
            Decision::No(why) => {
                let message = why.unwrap_or_else(|| "The user does not allow this.".to_owned());
                (json!({"behavior": "deny", "message": message}), Some(call))
            }
        };
        respond(reference, &answer, steps);
        denied
    }

    fn questions(&mut self, id: &str, input: &Value, steps: &mut Steps) {
        let mut asked = Asked { input: input.clone(), open: BTreeMap::new(), answers: Map::new() };
        for (number, question) in list(input, "/questions").enumerate() {
            let reference = format!("{id}/{number}");
            let said = text(question, "/question").unwrap_or_default().to_owned();
            asked.open.insert(reference.clone(), said.clone());
            let choices: Vec<String> =
                list(question, "/options").filter_map(|o| text(o, "/label")).map(str::to_owned).collect();
            let choices = Some(choices).filter(|choices| !choices.is_empty());
            let question = UserQuestion { question: said, choices, allow_freeform: Some(true) };
            steps.report(Report::Asks { reference, question });
        }
        self.asked.insert(id.to_owned(), asked);
    }

    /// Tells claude what the user said, once all of its questions have an answer.
    pub(super) fn answer(&mut self, reference: &str, answer: &str, steps: &mut Steps) {
        let Some((id, _)) = reference.rsplit_once('/') else { return };
        let Some(asked) = self.asked.get_mut(id) else { return };
        if let Some(question) = asked.open.remove(reference) {
            asked.answers.insert(question, answer.into());
        }
        if asked.open.is_empty()
            && let Some(Asked { mut input, answers, .. }) = self.asked.remove(id)
        {
            input["answers"] = Value::Object(answers);
            respond(id, &json!({"behavior": "allow", "updatedInput": input}), steps);
        }
    }

    /// Claude does not wait for this any more.
    pub(super) fn withdrawn(&mut self, id: &str, steps: &mut Steps) {
        let questions = self.asked.remove(id).map(|asked| asked.open).unwrap_or_default();
        let decision = self.open.remove(id).map(|_| id.to_owned());
        for reference in questions.into_keys().chain(decision) {
            steps.report(Report::Withdrawn { reference });
        }
    }
}

fn respond(id: &str, answer: &Value, steps: &mut Steps) {
    let response = json!({"subtype": "success", "request_id": id, "response": answer});
    steps.say(&json!({"type": "control_response", "response": response}));
}

/// Claude cannot have what it asks for.
pub(super) fn refuse(id: &str, why: &str, steps: &mut Steps) {
    let response = json!({"subtype": "error", "request_id": id, "error": why});
    steps.say(&json!({"type": "control_response", "response": response}));
}

/// What claude wants, in our words.
fn wanted(call: &str, cwd: &Path, name: &str, request: &Value) -> PermissionRequest {
    let input = &request["input"];
    let field = |path: &str| text(input, path).unwrap_or_default();
    let path = text(input, "/file_path").or(text(input, "/notebook_path")).or(text(input, "/path"));
    match tool(name) {
        "bash" => wants::shell(call, cwd, field("/command"), field("/description")),
        "create" => wants::replace(call, cwd, path.unwrap_or_default(), field("/content"), ""),
        "edit" => {
            let part =
                |part| (text(part, "/old_string").unwrap_or(""), text(part, "/new_string").unwrap_or(""));
            let mut parts: Vec<(&str, &str)> = list(input, "/edits").map(part).collect();
            if parts.is_empty() {
                let new = text(input, "/new_string").or(text(input, "/new_source")).unwrap_or_default();
                parts.push((field("/old_string"), new));
            }
            wants::edit(call, cwd, path.unwrap_or_default(), &parts)
        }
        "view" | "glob" | "grep" => {
            let cwd = cwd.display().to_string();
            wants::read(call, path.unwrap_or(&cwd), text(request, "/description").unwrap_or_default())
        }
        "web_fetch" => wants::url(call, field("/url"), field("/prompt")),
        other => match other.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")) {
            Some((server, tool)) => wants::mcp(call, server, tool, input),
            None => wants::other(call, other, text(request, "/description").unwrap_or_default(), input),
        },
    }
}
