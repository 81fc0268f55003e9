//! Pending requests: how they are shown at the terminal, and how a typed line answers them.

use baton_protocol::event::{Body, PlanAction, ProposedPlan, UserQuestion};
use baton_protocol::permission::{PermissionOutcome, PermissionRequest};
use serde::Deserialize;
use serde_json::{Value, json};

use super::server_requests;
use crate::show;
use crate::terminal::Question;

/// Name of the tool call that asks to trust the workspace.
pub(super) const TRUST_TOOL: &str = "trust_workspace";

/// What is said of a request that another client has answered.
const ELSEWHERE: &str = "answered elsewhere";

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
    /// Whether it is rejected, and the user is asked why.
    #[serde(skip)]
    is_rejected: bool,
}

/// What a typed line says about a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The answer for the server.
    Answer(Value),
    /// Nothing yet: this is asked next.
    AskMore(&'static str),
    /// It is not an answer.
    NotAnAnswer,
}

/// What is asked after a rejection without a reason.
const WHY: &str = "why? (the model goes on with your reason; Enter alone ends the turn):";

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

    fn permission(&self, said: &str) -> serde_json::Result<PermissionRequest> {
        let mut wants = baton_json::from_value(&self.detail)?;
        if let PermissionRequest::Shell { intention, .. } = &mut wants
            && said.trim_end().ends_with(intention.trim())
        {
            intention.clear();
        }
        Ok(wants)
    }

    fn tool(&self) -> &str {
        self.tool_name.as_deref().unwrap_or("unknown")
    }

    fn question(&self) -> Option<(String, Vec<String>)> {
        let UserQuestion { question, choices, .. } = baton_json::from_value(&self.detail).ok()?;
        Some((question, choices.unwrap_or_default()))
    }

    fn plan(&self) -> Option<ProposedPlan> {
        baton_json::from_value(&self.detail).ok()
    }

    /// Parses a typed line. `asks_more`: whether the user can be asked for a reason, because there is a terminal.
    pub(crate) fn reply(&mut self, line: &str, asks_more: bool) -> Reply {
        if self.is_rejected {
            let feedback = Some(line.trim()).filter(|why| !why.is_empty());
            return Reply::Answer(rejection(feedback));
        }
        match self.answer(line) {
            None => Reply::NotAnAnswer,
            Some(answer) if asks_more && answer == rejection(None) && !self.is_about_trust() => {
                self.is_rejected = true;
                Reply::AskMore(WHY)
            }
            Some(answer) => Reply::Answer(answer),
        }
    }

    /// Parses a typed line into an answer for the server; none if it is not an answer.
    fn answer(&self, line: &str) -> Option<Value> {
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
            "n" | "no" => return Some(rejection(feedback)),
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

fn rejection(feedback: Option<&str>) -> Value {
    json!({ "kind": "permission", "decision": "reject", "feedback": feedback })
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
        baton_json::from_value(&all).unwrap()
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
    fn rejection_without_a_reason_asks_why() {
        let mut asked = pending("permission", &json!({}));
        assert_eq!(asked.clone().reply("n", false), Reply::Answer(rejection(None)), "nobody to ask");
        assert_eq!(asked.reply("n", true), Reply::AskMore(WHY));
        assert_eq!(asked.clone().reply("", true), Reply::Answer(rejection(None)));
        assert_eq!(
            asked.reply(" yes, but not now ", true),
            Reply::Answer(rejection(Some("yes, but not now")))
        );
        let mut asked = pending("permission", &json!({}));
        assert_eq!(asked.reply("n, not now", true), Reply::Answer(rejection(Some("not now"))));
        assert_eq!(pending("permission", &json!({})).reply("perhaps", true), Reply::NotAnAnswer);
        let trust = json!({ "requestId": "r", "kind": "permission", "toolName": TRUST_TOOL, "detail": {} });
        let mut trust: PendingRequest = baton_json::from_value(&trust).unwrap();
        assert_eq!(trust.reply("n", true), Reply::Answer(rejection(None)), "nobody reads the reason");
    }

    #[test]
    fn words_of_the_model_are_not_repeated_but_the_command_is() {
        let wants = json!({"kind": "shell", "fullCommandText": "ls", "intention": "I list `ls`."});
        let asked = pending("permission", &wants);
        assert_eq!(asked.describe("Hello.\n\nI list `ls`.\n").lines(None), ["allow running `ls`?"]);
        assert!(asked.describe("Hello.").lines(None).contains(&"  the model says:".to_owned()));
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

    #[test]
    fn grants_are_described_and_sent_as_offered() {
        let offer = |identifier: &str, meaning: &str| json!({"grant": {"kind": "commands", "commandIdentifiers": [identifier]}, "meaning": meaning});
        let wants = json!({"kind": "shell", "fullCommandText": "make a", "intention": ""});
        let offers = [offer("make a", "exactly this line"), offer("make:*", "any `make` command")];
        let all = json!({"requestId": "r", "kind": "permission", "detail": wants, "offers": offers});
        let asked: PendingRequest = baton_json::from_value(&all).unwrap();
        let shown = asked.describe("").lines(None).join("\n");
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
        let shown = asked.describe("").lines(None);
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
        let shown = asked.describe("").lines(None);
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
        assert_eq!(asked.describe("").lines(None)[2..], ["  │ colour?", "  1. red", "  2. blue"]);
        assert_eq!(asked.answer("2").unwrap(), json!({"kind": "question", "answer": "blue", "chosen": true}));
        assert_eq!(asked.answer("red").unwrap()["chosen"], true);
        assert_eq!(asked.answer("3").unwrap(), json!({"kind": "question", "answer": "3", "chosen": false}));
        assert_eq!(asked.answer("0").unwrap()["answer"], "0");
    }
}
