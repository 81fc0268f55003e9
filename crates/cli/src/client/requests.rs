//! Pending requests: how they are shown at the terminal, and how a typed line answers them.

use baton_protocol::event::{Body, PlanAction, ProposedPlan, UserQuestion};
use baton_protocol::permission::PermissionRequest;
use serde::Deserialize;
use serde_json::{Value, json};

use super::server_requests;
use crate::show;
use crate::terminal::Question;

/// Name of the tool call that asks to trust the workspace.
pub(super) const TRUST_TOOL: &str = "trust_workspace";

/// A pending request in the server's list.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PendingRequest {
    pub(crate) request_id: String,
    kind: String,
    tool_name: Option<String>,
    detail: Value,
    /// For a permission request: the grants that the answer can give, the default first.
    #[serde(default)]
    offers: Vec<GrantOffer>,
}

#[derive(Debug, Clone, Deserialize)]
struct GrantOffer {
    grant: Value,
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

    /// Describes the request as a question.
    pub(crate) fn describe(&self) -> Question {
        match self.kind.as_str() {
            "permission" => match serde_json::from_value::<PermissionRequest>(self.detail.clone()) {
                Ok(wants) => show::with_offers(
                    show::permission(&wants),
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

    fn tool(&self) -> &str {
        self.tool_name.as_deref().unwrap_or("unknown")
    }

    fn question(&self) -> Option<(String, Vec<String>)> {
        let UserQuestion { question, choices, .. } = serde_json::from_value(self.detail.clone()).ok()?;
        Some((question, choices.unwrap_or_default()))
    }

    fn plan(&self) -> Option<ProposedPlan> {
        serde_json::from_value(self.detail.clone()).ok()
    }

    /// Parses a typed line into an answer for the server; none if it is not an answer.
    pub(crate) fn answer(&self, line: &str) -> Option<Value> {
        let line = line.trim();
        if line.is_empty() {
            return None;
        }
        if self.kind == "question" {
            let choices = self.question().map(|(_, choices)| choices).unwrap_or_default();
            let chosen = line.parse::<usize>().ok().and_then(|n| choices.get(n.checked_sub(1)?));
            let (answer, is_choice) = match chosen {
                Some(choice) => (choice.as_str(), true),
                None => (line, choices.iter().any(|choice| choice == line)),
            };
            return Some(json!({ "kind": "question", "answer": answer, "chosen": is_choice }));
        }
        if matches!(self.kind.as_str(), "elicitation" | "sampling") {
            return server_requests::answer(&self.kind, &self.detail, line);
        }
        let (word, why) = line.split_once([' ', ',']).unwrap_or((line, ""));
        let word = word.to_lowercase();
        let feedback = Some(why.trim()).filter(|why| !why.is_empty());
        if self.kind == "plan" {
            return answer_plan(&self.plan()?, &word, feedback);
        }
        if self.kind == "switch" {
            let response = match word.as_str() {
                "y" | "yes" => "yes",
                "a" | "always" => "yes-always",
                "n" | "no" => "no",
                _ => return None,
            };
            return Some(json!({ "kind": "switch", "response": response }));
        }
        let decision = match word.as_str() {
            "y" | "yes" => "approve",
            "a" | "always" => return self.grant(0),
            "w" | "wider" => return self.grant(1),
            "n" | "no" => {
                return Some(json!({ "kind": "permission", "decision": "reject", "feedback": feedback }));
            }
            _ => return None,
        };
        Some(json!({ "kind": "permission", "decision": decision }))
    }

    /// An approval with one of the offered grants; none if there is no such offer.
    fn grant(&self, which: usize) -> Option<Value> {
        let grant = &self.offers.get(which)?.grant;
        Some(json!({ "kind": "permission", "decision": "approve-for-session", "grant": grant }))
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

fn answer_plan(plan: &ProposedPlan, word: &str, feedback: Option<&str>) -> Option<Value> {
    let response = match word {
        "y" | "yes" => plan.recommended_action.as_str(),
        "n" | "no" => "reject",
        number => {
            let chosen = number.parse::<usize>().ok()?.checked_sub(1)?;
            plan.actions.get(chosen)?.as_str()
        }
    };
    Some(json!({ "kind": "plan", "response": response, "feedback": feedback }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(kind: &str, detail: &Value) -> PendingRequest {
        let all = json!({ "requestId": "r", "kind": kind, "toolName": "t", "detail": detail });
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn permission_is_answered_with_a_word_and_an_optional_reason() {
        let asked = pending("permission", &json!({}));
        let decision = |line: &str| asked.answer(line).map(|answer| answer["decision"].clone());
        assert_eq!(decision("y"), Some(json!("approve")));
        assert_eq!(decision(" YES "), Some(json!("approve")));
        assert_eq!(decision("always"), None, "no grant is offered");
        assert_eq!(asked.answer("n, not that file").unwrap()["feedback"], "not that file");
        assert_eq!(asked.answer("no").unwrap()["feedback"], Value::Null);
        for invalid in ["", "maybe", "yesterday", "yy"] {
            assert_eq!(decision(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn grants_are_described_and_sent_as_offered() {
        let offer = |identifier: &str, meaning: &str| json!({"grant": {"kind": "commands", "commandIdentifiers": [identifier]}, "meaning": meaning});
        let wants = json!({"kind": "shell", "fullCommandText": "make a", "intention": ""});
        let offers = [offer("make a", "exactly this line"), offer("make:*", "any `make` command")];
        let all = json!({"requestId": "r", "kind": "permission", "detail": wants, "offers": offers});
        let asked: PendingRequest = serde_json::from_value(all).unwrap();
        let shown = asked.describe().lines(None).join("\n");
        assert!(shown.contains("exactly this line") && shown.contains("any `make` command"), "{shown}");
        for (word, offer) in [("always", &offers[0]), ("w", &offers[1])] {
            let answer = asked.answer(word).unwrap();
            assert_eq!(
                (&answer["decision"], &answer["grant"]),
                (&json!("approve-for-session"), &offer["grant"])
            );
        }
        assert!(asked.hint().contains("[w]ider"));
    }

    #[test]
    fn plan_is_approved_with_an_action_or_rejected_with_feedback() {
        let detail = json!({
            "summary": "greet", "planContent": "1. write a file", "actions": ["autopilot", "exit_only"],
            "recommendedAction": "exit_only",
        });
        let asked = pending("plan", &detail);
        let shown = asked.describe().lines(None);
        assert_eq!(shown[..4], ["is this plan good?", "  summary:", "  │ greet", "  plan:"]);
        let actions = ["  1. carry it out on autopilot", "  2. stop after planning (recommended)"];
        assert_eq!(shown[5..], actions, "{shown:?}");
        let response = |line: &str| asked.answer(line).map(|answer| answer["response"].clone());
        assert_eq!(response("y"), Some(json!("exit_only")));
        assert_eq!(response("1"), Some(json!("autopilot")));
        let rejected = json!({ "kind": "plan", "response": "reject", "feedback": "shorter, please" });
        assert_eq!(asked.answer("no shorter, please"), Some(rejected));
        for invalid in ["0", "3", "perhaps"] {
            assert_eq!(response(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn model_switch_is_accepted_or_declined() {
        let detail = json!({ "model": "spare", "reason": "main is rate limited for 3 s" });
        let asked = pending("switch", &detail);
        let shown = asked.describe().lines(None);
        assert_eq!((shown[2].as_str(), shown[4].as_str()), ("  │ main is rate limited for 3 s", "  │ spare"));
        for (line, response) in [("y", "yes"), ("always", "yes-always"), ("NO", "no")] {
            assert_eq!(asked.answer(line), Some(json!({"kind": "switch", "response": response})));
        }
        assert_eq!(asked.answer("perhaps"), None);
    }

    #[test]
    fn question_is_answered_with_a_number_or_text() {
        let detail = json!({ "kind": "user_input", "question": "colour?", "choices": ["red", "blue"] });
        let asked = pending("question", &detail);
        assert_eq!(asked.describe().lines(None)[2..], ["  │ colour?", "  1. red", "  2. blue"]);
        assert_eq!(asked.answer("2").unwrap(), json!({"kind": "question", "answer": "blue", "chosen": true}));
        assert_eq!(asked.answer("red").unwrap()["chosen"], true);
        assert_eq!(asked.answer("3").unwrap(), json!({"kind": "question", "answer": "3", "chosen": false}));
        assert_eq!(asked.answer("0").unwrap()["answer"], "0");
    }
}
