//! Requests of codex: to run a command, to change files, to widen its sandbox; and the agent's questions to the user.

use std::collections::HashMap;
use std::path::PathBuf;

use baton_protocol::permission::Verdict;
use serde_json::{Map, Value, json};

use super::items::script;
use crate::adapter::Steps;
use crate::json::{list, text};
use crate::pending::{OpenRequests, labelled_question};
use crate::permission::{self, SingleVerdict};

/// The open requests of codex. References are its request ids as text.
#[derive(Debug, Default)]
pub(super) struct Approvals {
    pub(super) cwd: PathBuf,
    /// File changes that have started, by item: a request for approval names only the item.
    changes: HashMap<String, Value>,
    /// The data of questions is the id of the request.
    pending: OpenRequests<Approval, Value>,
}

/// An action that waits for a decision, with the id of its request.
#[derive(Debug)]
struct Approval {
    id: Value,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// A command or a file change.
    Action,
    /// The permissions that codex requests for its sandbox.
    Permissions(Value),
}

impl Approvals {
    pub(super) fn item_started(&mut self, id: &str, item: &Value) {
        if item["type"] == "fileChange" {
            self.changes.insert(id.to_owned(), item["changes"].clone());
        }
    }

    /// Forgets the requests of a turn that has ended.
    pub(super) fn clear(&mut self) {
        self.changes.clear();
        self.pending.clear();
    }

    /// Handles a request of codex. Unknown requests are refused, so that codex does not wait for an answer forever.
    pub(super) fn on_request(&mut self, method: &str, id: &Value, params: &Value, steps: &mut Steps) {
        let call = text(params, "/itemId").unwrap_or_default();
        let reason = text(params, "/reason").unwrap_or_default();
        let (request, kind) = match method {
            "item/commandExecution/requestApproval" => {
                let cwd = text(params, "/cwd").map_or_else(|| self.cwd.clone(), PathBuf::from);
                let command = script(text(params, "/command").unwrap_or_default());
                let command =
                    if cwd == self.cwd { command } else { permission::in_directory(&cwd, &command) };
                let request = match additional_permissions(params) {
                    Some(more) => {
                        let message = format!("Run a command, and {}. {reason}", more.join(" and "));
                        permission::ungrantable(call, "command", message.trim(), params)
                    }
                    None => permission::shell(call, &self.cwd, &command, reason),
                };
                (request, Kind::Action)
            }
            "item/fileChange/requestApproval" => {
                let changes = self.changes.get(call).cloned().unwrap_or_default();
                let (files, diff) = describe(&changes);
                // More than these files. The request then names none, so that only the user can allow it.
                let (files, reason) = match text(params, "/grantRoot") {
                    Some(root) => {
                        (String::new(), format!("Also write anywhere in {root} from now on. {reason}"))
                    }
                    None => (files, reason.to_owned()),
                };
                (permission::write(call, &files, diff, reason.trim_end()), Kind::Action)
            }
            "item/permissions/requestApproval" => {
                let requested = params["permissions"].clone();
                let description = format!("More permissions for the sandbox. {reason}");
                let request = permission::ungrantable(call, "permissions", description.trim(), &requested);
                (request, Kind::Permissions(requested))
            }
            "item/tool/requestUserInput" => return self.ask(id, params, steps),
            "mcpServer/elicitation/request" => {
                steps.warn("Declined a form of one of codex's MCP servers: Baton does not support forms.");
                return steps.send(&json!({"id": id, "result": {"action": "decline"}}));
            }
            _ => {
                let error = json!({"code": -32601, "message": format!("Baton does not support {method}")});
                return steps.send(&json!({"id": id, "error": error}));
            }
        };
        self.pending.request_permission(
            &id.to_string(),
            call,
            request,
            Approval { id: id.clone(), kind },
            steps,
        );
    }

    /// Sends a decision to codex. Returns the user's feedback, which the response has no field for.
    pub(super) fn decide(&mut self, reference: &str, verdict: Verdict, steps: &mut Steps) -> Option<String> {
        let Approval { id, kind } = self.pending.decided(reference)?;
        let decision = SingleVerdict::from(verdict);
        let result = match (&kind, &decision) {
            (Kind::Action, SingleVerdict::Allow) => json!({"decision": "accept"}),
            (Kind::Action, SingleVerdict::Deny(_)) => json!({"decision": "decline"}),
            (Kind::Permissions(requested), SingleVerdict::Allow) => {
                json!({"permissions": requested, "scope": "turn"})
            }
            (Kind::Permissions(_), SingleVerdict::Deny(_)) => json!({"permissions": {}}),
        };
        steps.send(&json!({"id": id, "result": result}));
        match decision {
            SingleVerdict::Deny(feedback) => feedback,
            SingleVerdict::Allow => None,
        }
    }

    fn ask(&mut self, id: &Value, params: &Value, steps: &mut Steps) {
        let questions = list(params, "/questions").filter_map(|question| {
            let key = text(question, "/id")?.to_owned();
            Some((key, labelled_question(question, question["isOther"] == true)))
        });
        if let Some(id) = self.pending.ask(&id.to_string(), questions, id.clone(), steps) {
            steps.send(&json!({"id": id, "result": {"answers": {}}}));
        }
    }

    /// Stores an answer of the user. Codex gets the answers to all questions of a request together.
    pub(super) fn answer(&mut self, reference: &str, answer: &str, steps: &mut Steps) {
        let Some((_, id, answers)) = self.pending.answered(reference, answer) else { return };
        let answers = answers.into_iter().map(|(key, answer)| (key, json!({"answers": [answer]})));
        steps.send(&json!({"id": id, "result": {"answers": answers.collect::<Map<_, _>>()}}));
    }

    /// Withdraws a request that codex no longer waits for.
    pub(super) fn withdraw(&mut self, id: &Value, steps: &mut Steps) {
        self.pending.withdraw(&id.to_string(), steps);
    }
}

/// Returns the permissions that a command request includes besides running the command. An approval would grant them too,
/// and the command line does not show them.
fn additional_permissions(params: &Value) -> Option<Vec<&'static str>> {
    let fields = [
        ("/networkApprovalContext", "reach a host"),
        ("/additionalPermissions", "get more permissions in the sandbox"),
    ];
    let is_set = |pointer: &str| params.pointer(pointer).is_some_and(|value| !value.is_null());
    let found: Vec<&str> = fields.into_iter().filter(|(key, _)| is_set(key)).map(|(_, what)| what).collect();
    (!found.is_empty()).then_some(found)
}

/// Returns the names of the changed files, and the diff.
fn describe(changes: &Value) -> (String, String) {
    let moved = |change| text(change, "/kind/move_path").or(text(change, "/kind/movePath"));
    let files = list(changes, "")
        .flat_map(|change| [Some(text(change, "/path")), moved(change).map(Some)].into_iter().flatten());
    let files = permission::file_names(files);
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
    use crate::Report;
    use crate::adapter::Step;

    fn request(method: &str, params: &Value) -> PermissionRequest {
        let mut approvals = Approvals { cwd: "/work".into(), ..Approvals::default() };
        let mut steps = Steps::default();
        approvals.on_request(method, &json!(1), params, &mut steps);
        match steps.pop() {
            Some(Step::Report(Report::Wants { wants, .. })) => *wants,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn command_in_another_directory_is_shown_with_that_directory() {
        let line = |cwd: &str| {
            let params = json!({"itemId": "c", "command": "make", "cwd": cwd});
            match request("item/commandExecution/requestApproval", &params) {
                PermissionRequest::Shell { full_command_text, .. } => full_command_text,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(line("/work"), "make");
        assert_eq!(line("/it's"), r"cd '/it'\''s' && make");
    }

    #[test]
    fn no_grant_covers_a_command_with_additional_permissions() {
        for field in ["networkApprovalContext", "additionalPermissions"] {
            let mut params = json!({"itemId": "c", "command": "ls", "cwd": "/work", field: null});
            let method = "item/commandExecution/requestApproval";
            assert!(matches!(request(method, &params), PermissionRequest::Shell { .. }), "{field}");
            params[field] = json!({"host": "evil.example"});
            let request = request(method, &params);
            let PermissionRequest::Hook { tool_args: Some(args), .. } = request else {
                panic!("{request:?}")
            };
            assert!(
                args.as_str().contains("evil.example") && args.as_str().contains("ls"),
                "the request shows all of it"
            );
        }
    }

    #[test]
    fn no_grant_covers_more_permissions_for_the_sandbox() {
        let params = json!({"itemId": "c", "permissions": {"network": true}});
        let request = request("item/permissions/requestApproval", &params);
        assert!(matches!(request, PermissionRequest::Hook { .. }), "{request:?}");
    }
}
