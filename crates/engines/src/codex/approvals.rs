//! What codex asks: whether it may run a command, change files, have more rights; and questions of the agent to the user.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use baton_protocol::event::UserQuestion;
use baton_protocol::permission::Verdict;
use serde_json::{Map, Value, json};

use super::app_server::questions;
use super::items::script;
use crate::Report;
use crate::dialect::Steps;
use crate::json::{list, text};
use crate::wants::{self, Decision};

#[derive(Debug, Default)]
pub(super) struct Approvals {
    pub(super) cwd: PathBuf,
    /// File changes that have begun: an approval names only the item.
    changes: HashMap<String, Value>,
    /// What waits for a decision, by our reference.
    open: HashMap<String, Open>,
    /// What waits for answers, by the id of codex's request.
    asked: HashMap<String, Asked>,
}

/// A request of codex, with its id to be repeated.
#[derive(Debug)]
struct Open {
    id: Value,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// A command or a change.
    Action,
    /// More rights: those that it asked for.
    Rights(Value),
}

/// Several questions of one request.
#[derive(Debug)]
struct Asked {
    id: Value,
    /// Our references of those that have no answer yet, and codex's ids of them.
    open: BTreeMap<String, String>,
    answers: Map<String, Value>,
}

impl Approvals {
    pub(super) fn item_started(&mut self, id: &str, item: &Value) {
        if item["type"] == "fileChange" {
            self.changes.insert(id.to_owned(), item["changes"].clone());
        }
    }

    /// A turn is over; nothing of it waits any more.
    pub(super) fn forget(&mut self) {
        self.changes.clear();
        self.open.clear();
        self.asked.clear();
    }

    /// Codex asks something. What we do not understand is refused, so that it does not wait for ever.
    pub(super) fn asked(&mut self, method: &str, id: &Value, params: &Value, steps: &mut Steps) {
        let call = text(params, "/itemId").unwrap_or_default();
        let reason = text(params, "/reason").unwrap_or_default();
        let reference = id.to_string();
        let (wants, kind) = match method {
            "item/commandExecution/requestApproval" => {
                let cwd = text(params, "/cwd").map_or_else(|| self.cwd.clone(), PathBuf::from);
                let command = script(text(params, "/command").unwrap_or_default());
                let command = if cwd == self.cwd { command } else { wants::moved(&cwd, &command) };
                (wants::shell(call, &self.cwd, &command, reason), Kind::Action)
            }
            "item/fileChange/requestApproval" => {
                let changes = self.changes.get(call).cloned().unwrap_or_default();
                let (files, diff) = describe(&changes);
                // More than these files: then none is named, so that nothing but a person allows it.
                let (files, reason) = match text(params, "/grantRoot") {
                    Some(root) => {
                        (String::new(), format!("And to write anywhere in {root} from now on. {reason}"))
                    }
                    None => (files, reason.to_owned()),
                };
                (wants::write(call, &files, diff, reason.trim_end()), Kind::Action)
            }
            "item/permissions/requestApproval" => {
                let rights = params["permissions"].clone();
                let description = format!("More rights for the sandbox. {reason}");
                (wants::ungrantable(call, "permissions", description.trim(), &rights), Kind::Rights(rights))
            }
            "item/tool/requestUserInput" => return self.questions(id, params, steps),
            "mcpServer/elicitation/request" => {
                steps.warn("A server of codex wanted a form to be filled in, which cannot be done here. It was declined.");
                return steps.say(&json!({"id": id, "result": {"action": "decline"}}));
            }
            _ => {
                let error = json!({"code": -32601, "message": format!("Baton does not do {method}")});
                return steps.say(&json!({"id": id, "error": error}));
            }
        };
        self.open.insert(reference.clone(), Open { id: id.clone(), kind });
        let call = Some(call.to_owned()).filter(|call| !call.is_empty());
        steps.report(Report::Wants { reference, call, wants: Box::new(wants) });
    }

    /// Tells codex what was decided. Returns what it should be told besides.
    pub(super) fn decide(&mut self, reference: &str, verdict: Verdict, steps: &mut Steps) -> Option<String> {
        let Open { id, kind } = self.open.remove(reference)?;
        let decision = Decision::from(verdict);
        let result = match (&kind, &decision) {
            (Kind::Action, Decision::Once) => json!({"decision": "accept"}),
            (Kind::Action, Decision::No(_)) => json!({"decision": "decline"}),
            (Kind::Rights(rights), Decision::Once) => json!({"permissions": rights, "scope": "turn"}),
            (Kind::Rights(_), Decision::No(_)) => json!({"permissions": {}}),
        };
        steps.say(&json!({"id": id, "result": result}));
        match decision {
            Decision::No(instead) => instead,
            _ => None,
        }
    }

    fn questions(&mut self, id: &Value, params: &Value, steps: &mut Steps) {
        let mut asked = Asked { id: id.clone(), open: BTreeMap::new(), answers: Map::new() };
        for (number, (name, question)) in questions(params).enumerate() {
            let reference = format!("{id}/{number}");
            asked.open.insert(reference.clone(), name.to_owned());
            let choices: Vec<String> =
                list(question, "/options").filter_map(|o| text(o, "/label")).map(str::to_owned).collect();
            let question = UserQuestion {
                question: text(question, "/question").unwrap_or_default().to_owned(),
                allow_freeform: Some(choices.is_empty() || question["isOther"] == true),
                choices: Some(choices).filter(|choices| !choices.is_empty()),
            };
            steps.report(Report::Asks { reference, question });
        }
        if asked.open.is_empty() {
            return steps.say(&json!({"id": id, "result": {"answers": {}}}));
        }
        self.asked.insert(id.to_string(), asked);
    }

    /// Tells codex what the user said, once all of its questions have an answer.
    pub(super) fn answer(&mut self, reference: &str, answer: &str, steps: &mut Steps) {
        let Some((request, _)) = reference.rsplit_once('/') else { return };
        let Some(asked) = self.asked.get_mut(request) else { return };
        if let Some(question) = asked.open.remove(reference) {
            asked.answers.insert(question, json!({"answers": [answer]}));
        }
        if asked.open.is_empty()
            && let Some(Asked { id, answers, .. }) = self.asked.remove(request)
        {
            steps.say(&json!({"id": id, "result": {"answers": answers}}));
        }
    }

    /// Codex does not wait for this any more.
    pub(super) fn withdrawn(&mut self, id: &Value, steps: &mut Steps) {
        let request = id.to_string();
        let questions = self.asked.remove(&request).map(|asked| asked.open).unwrap_or_default();
        let decision = self.open.remove(&request).map(|_| request);
        for reference in questions.into_keys().chain(decision) {
            steps.report(Report::Withdrawn { reference });
        }
    }
}

/// The files that change, and how.
fn describe(changes: &Value) -> (String, String) {
    let moved = |change| text(change, "/kind/move_path").or(text(change, "/kind/movePath"));
    let files = list(changes, "")
        .flat_map(|change| [Some(text(change, "/path")), moved(change).map(Some)].into_iter().flatten());
    let files = wants::files(files);
    let diff = |change: &Value| {
        let path = text(change, "/path").unwrap_or_default();
        let diff = text(change, "/diff").unwrap_or_default();
        if diff.starts_with("@@") {
            format!("--- a/{path}\n+++ b/{path}\n{diff}", path = path.trim_start_matches('/'))
        } else {
            format!("{path}\n{diff}")
        }
    };
    (files, list(changes, "").map(diff).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use baton_protocol::permission::PermissionRequest;

    use super::*;
    use crate::dialect::Step;

    fn wanted(method: &str, params: &Value) -> PermissionRequest {
        let mut approvals = Approvals { cwd: "/work".into(), ..Approvals::default() };
        let mut steps = Steps::default();
        approvals.asked(method, &json!(1), params, &mut steps);
        match steps.pop() {
            Some(Step::Report(Report::Wants { wants, .. })) => *wants,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_command_in_another_directory_says_so() {
        let line = |cwd: &str| {
            let params = json!({"itemId": "c", "command": "make", "cwd": cwd});
            match wanted("item/commandExecution/requestApproval", &params) {
                PermissionRequest::Shell { full_command_text, .. } => full_command_text,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(line("/work"), "make");
        assert_eq!(line("/it's"), r"cd '/it'\''s' && make");
    }

    #[test]
    fn no_grant_covers_more_rights_for_the_sandbox() {
        let params = json!({"itemId": "c", "permissions": {"network": true}});
        let wants = wanted("item/permissions/requestApproval", &params);
        assert!(matches!(wants, PermissionRequest::Hook { .. }), "{wants:?}");
    }
}
