//! Pending requests: how they are shown at the terminal. How a typed line answers them is in [`answers`](super::answers).

use baton_protocol::event::{Body, PlanAction, ProposedPlan, UserQuestion};
use baton_protocol::permission::{PermissionOutcome, PermissionRequest};
use serde::Deserialize;
use serde_json::Value;

use super::server_requests;
use crate::show;
use crate::terminal::Question;

/// Name of the tool call that asks to trust the workspace.
pub(crate) const TRUST_TOOL: &str = "trust_workspace";

/// Name in place of a tool's, for requests of programs in the sandbox.
const SANDBOX: &str = "sandbox";

/// What is said of a request that another client has answered.
const ELSEWHERE: &str = "answered elsewhere";

/// A pending request in the server's list.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PendingRequest {
    pub(crate) request_id: String,
    pub(super) kind: String,
    tool_name: Option<String>,
    pub(super) detail: Value,
    /// For a permission request: the grants that the answer can give, the default first.
    #[serde(default)]
    pub(super) offers: Vec<GrantOffer>,
    /// Whether it is rejected, and the user is asked why.
    #[serde(skip)]
    pub(super) is_rejected: bool,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct GrantOffer {
    pub(super) grant: Value,
    meaning: String,
}

#[derive(Deserialize)]
pub(crate) struct PendingList {
    pub(crate) requests: Vec<PendingRequest>,
}

/// Whether pending requests may have changed with an event.
pub(crate) fn is_about_requests(body: &Body) -> bool {
    matches!(
        body,
        Body::PermissionRequested(_)
            | Body::PermissionCompleted(_)
            | Body::ExternalToolRequested(_)
            | Body::ExternalToolCompleted(_)
            | Body::RequestOpened(_)
            | Body::RequestClosed(_)
            | Body::SwitchOffered(_)
            | Body::AutoModeSwitchCompleted(_)
            | Body::ElicitationRequested(_)
            | Body::ElicitationCompleted(_)
            | Body::SamplingRequested(_)
            | Body::SamplingCompleted(_)
    )
}

impl PendingRequest {
    /// Returns what to tell a user who is asked about the request when it is no longer pending. This event may have closed
    /// it. None if it was withdrawn: the outcome of its call says so.
    pub(crate) fn closed_by(&self, event: Option<&Body>) -> Option<String> {
        let (request, by, is_withdrawn) = match event {
            Some(Body::PermissionCompleted(completed)) => {
                let is_withdrawn = matches!(completed.result, PermissionOutcome::Cancelled { .. });
                (&completed.request_id, &completed.by, is_withdrawn)
            }
            Some(Body::RequestClosed(closed)) => (&closed.request_id, &closed.by, closed.answer.is_none()),
            _ => return Some(ELSEWHERE.to_owned()),
        };
        match by {
            _ if request.0 != self.request_id => Some(ELSEWHERE.to_owned()),
            _ if is_withdrawn => None,
            Some(by) => Some(format!("{ELSEWHERE}, by {}", by.0)),
            None => Some(ELSEWHERE.to_owned()),
        }
    }

    /// Whether a tool call needs permission.
    pub(crate) fn is_permission(&self) -> bool {
        self.kind == "permission"
    }

    /// Whether it asks to trust the workspace. A turn goes on without what is not trusted.
    pub(crate) fn is_about_trust(&self) -> bool {
        self.tool_name.as_deref() == Some(TRUST_TOOL)
    }

    /// Whether the user can answer it with a line. Client tools and queued commands are for programs, logins for a browser.
    pub(crate) fn is_for_user(&self) -> bool {
        !matches!(self.kind.as_str(), "tool" | "command" | "login")
    }

    /// Whether requests wait for the user, and for nobody else.
    pub(crate) fn are_for_user(requests: &[Self]) -> bool {
        let is_for_program = |request: &Self| matches!(request.kind.as_str(), "tool" | "command");
        requests.iter().any(Self::is_for_user) && !requests.iter().any(is_for_program)
    }

    /// Describes the request as a question. What the model has just said is not repeated.
    pub(crate) fn describe(&self, said: &str) -> Question {
        match self.kind.as_str() {
            "permission" => match self.permission(said) {
                Ok(wants) => show::with_offers(
                    self.with_reason(show::permission(&wants)),
                    self.offers.iter().map(|offer| &*offer.meaning),
                ),
                // Sent by a newer server: shown as JSON, so that the user approves only what is visible.
                Err(_) => {
                    Question::allow("calling", "tool", self.tool()).exact("request", &self.detail.to_string())
                }
            },
            "question" => match self.question() {
                Some((question, choices)) => {
                    Question::plain("the model asks:").prose("question", &question).choices(choices)
                }
                None => Question::plain("the model asks a question"),
            },
            "plan" => match self.plan() {
                Some(plan) => describe_plan(&plan),
                None => Question::plain("the model proposes a plan"),
            },
            "switch" => {
                let text = |name: &str| self.detail[name].as_str().unwrap_or_default();
                Question::plain("continue with another model?")
                    .prose("reason", text("reason"))
                    .exact("model", text("model"))
            }
            "elicitation" | "sampling" => server_requests::describe(&self.kind, &self.detail),
            _ => Question::plain("a client tool is called").exact("tool", self.tool()),
        }
    }

    /// Adds why a request is asked that no call of the model has made: a command in the sandbox has.
    fn with_reason(&self, question: Question) -> Question {
        match &self.tool_name {
            Some(tool) if tool == SANDBOX => {
                question.prose("why", self.detail["intention"].as_str().unwrap_or_default())
            }
            _ => question,
        }
    }

    /// The possible answers, for the prompt line.
    pub(crate) fn hint(&self) -> &'static str {
        match self.kind.as_str() {
            // Trust lasts until the files change.
            "permission" if self.is_about_trust() => "[y]es, [n]o:",
            "permission" => show::permission_hint(self.offers.len()),
            "plan" => "[y]es as recommended, a number, or [n]o (and what to change):",
            "switch" => "[y]es, [n]o, [a]lways in this session:",
            "elicitation" | "sampling" => server_requests::hint(&self.kind, &self.detail),
            _ => "your answer:",
        }
    }

    fn permission(&self, said: &str) -> serde_json::Result<PermissionRequest> {
        let mut wants = baton_json::from_value(&self.detail)?;
        // The server's own words about a running command are not the model's.
        if let PermissionRequest::Shell { intention, input_to: None, .. } = &mut wants
            && said.trim_end().ends_with(intention.trim())
        {
            intention.clear();
        }
        Ok(wants)
    }

    fn tool(&self) -> &str {
        self.tool_name.as_deref().unwrap_or("unknown")
    }

    pub(super) fn question(&self) -> Option<(String, Vec<String>)> {
        let UserQuestion { question, choices, .. } = baton_json::from_value(&self.detail).ok()?;
        Some((question, choices.unwrap_or_default()))
    }

    pub(super) fn plan(&self) -> Option<ProposedPlan> {
        baton_json::from_value(&self.detail).ok()
    }
}

/// A plan with its summary, its text and the actions to choose from.
fn describe_plan(plan: &ProposedPlan) -> Question {
    let actions = plan.actions.iter().map(|action| {
        let mark = if *action == plan.recommended_action { " (recommended)" } else { "" };
        format!("{}{mark}", describe_action(*action))
    });
    Question::plain("is this plan good?")
        .prose("summary", &plan.summary)
        .prose("plan", plan.plan_content.trim())
        .choices(actions)
}

fn describe_action(action: PlanAction) -> &'static str {
    match action {
        PlanAction::Interactive => "carry it out, asking for permissions",
        PlanAction::Autopilot => "carry it out on autopilot",
        PlanAction::AutopilotFleet => "carry it out on autopilot, with sub-agents",
        PlanAction::ExitOnly => "stop after planning",
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn pending(kind: &str, detail: &Value) -> PendingRequest {
        let all = json!({ "requestId": "r", "kind": kind, "toolName": "t", "detail": detail });
        baton_json::from_value(&all).unwrap()
    }

    #[test]
    fn words_of_the_model_are_not_repeated_but_the_command_is() {
        let wants = json!({"kind": "shell", "fullCommandText": "ls", "intention": "I list `ls`."});
        let asked = pending("permission", &wants);
        assert_eq!(asked.describe("Hello.\n\nI list `ls`.\n").lines(None), ["allow running `ls`?"]);
        assert!(asked.describe("Hello.").lines(None).contains(&"  the model says:".to_owned()));
        let intention = "Type into the running command: ssh prod";
        let typing =
            json!({"kind": "shell", "fullCommandText": "ls", "intention": intention, "inputTo": "0"});
        let shown = pending("permission", &typing).describe(intention).lines(None).join("\n");
        assert!(shown.contains("ssh prod"), "{shown}");
    }

    #[test]
    fn author_of_an_answer_is_named() {
        let closed = |result: &str, by: Option<&str>| {
            let data = json!({ "requestId": "r", "result": { "kind": result }, "batonBy": by });
            Body::PermissionCompleted(baton_json::from_value(&data).unwrap())
        };
        let asked = pending("permission", &json!({}));
        let said = |body: &Body| asked.closed_by(Some(body)).unwrap_or_default();
        assert_eq!(
            said(&closed("approved", Some("terminal (ada)"))),
            "answered elsewhere, by terminal (ada)"
        );
        assert_eq!(said(&closed("approved", None)), "answered elsewhere");
        assert_eq!(said(&closed("cancelled", None)), "", "its call says so");
        assert_eq!(asked.closed_by(None).as_deref(), Some("answered elsewhere"));
    }
}
