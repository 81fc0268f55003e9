//! What waits for an answer, as a person at a terminal is asked and answers.

use baton_protocol::event::{PlanAction, ProposedPlan, UserQuestion};
use baton_protocol::permission::PermissionRequest;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::show;
use crate::terminal::Question;

/// Something that waits, as the server lists it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Waiting {
    pub(super) request_id: String,
    kind: String,
    tool_name: Option<String>,
    detail: Value,
    /// For a permission: the grants that can be given with the answer, the default first.
    #[serde(default)]
    offers: Vec<Offered>,
}

#[derive(Debug, Clone, Deserialize)]
struct Offered {
    grant: Value,
    meaning: String,
}

#[derive(Deserialize)]
pub(super) struct WaitingList {
    pub(super) requests: Vec<Waiting>,
}

impl Waiting {
    /// Whether a person can answer it.
    pub(super) fn is_for_people(&self) -> bool {
        !matches!(self.kind.as_str(), "tool" | "command")
    }

    /// What it is about.
    pub(super) fn describe(&self) -> Question {
        match self.kind.as_str() {
            "permission" => match serde_json::from_value::<PermissionRequest>(self.detail.clone()) {
                Ok(wants) => {
                    show::with_offers(show::wish(&wants), self.offers.iter().map(|offer| &*offer.meaning))
                }
                // One of a newer server. Approving what cannot be shown in words, a person sees as it is.
                Err(_) => {
                    Question::allow("calling", "tool", self.tool()).exact("request", &self.detail.to_string())
                }
            },
            "question" => match self.question() {
                Some((question, choices)) => {
                    Question::plain("the model asks:").prose("question", &question).choices(choices)
                }
                None => Question::plain("the model asks something"),
            },
            "plan" => match self.plan() {
                Some(plan) => describe_plan(&plan),
                None => Question::plain("the model has a plan"),
            },
            "switch" => {
                let text = |name: &str| self.detail[name].as_str().unwrap_or_default();
                Question::plain("go on with another model?")
                    .prose("reason", text("reason"))
                    .exact("model", text("model"))
            }
            _ => Question::plain("a tool of a client is called").exact("tool", self.tool()),
        }
    }

    /// How it can be answered.
    pub(super) fn hint(&self) -> &'static str {
        match self.kind.as_str() {
            "permission" => show::permission_hint(self.offers.len()),
            "plan" => "[y]es as recommended, a number, or [n]o (and what to change):",
            "switch" => "[y]es, [n]o, [a]lways in this session:",
            _ => "your answer:",
        }
    }

    fn tool(&self) -> &str {
        self.tool_name.as_deref().unwrap_or("something")
    }

    fn question(&self) -> Option<(String, Vec<String>)> {
        let UserQuestion { question, choices, .. } = serde_json::from_value(self.detail.clone()).ok()?;
        Some((question, choices.unwrap_or_default()))
    }

    fn plan(&self) -> Option<ProposedPlan> {
        serde_json::from_value(self.detail.clone()).ok()
    }

    /// What the server is sent for a line that a person has typed; none if the line is no answer.
    pub(super) fn answer(&self, line: &str) -> Option<Value> {
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

    /// The answer that gives one of the grants that are offered; none if there is no such offer.
    fn grant(&self, which: usize) -> Option<Value> {
        let grant = &self.offers.get(which)?.grant;
        Some(json!({ "kind": "permission", "decision": "approve-for-session", "grant": grant }))
    }
}

/// A plan with the ways to go on: the file, or the summary where there is none.
fn describe_plan(plan: &ProposedPlan) -> Question {
    let actions = plan.actions.iter().map(|action| {
        let mark = if *action == plan.recommended_action { " (recommended)" } else { "" };
        format!("{}{mark}", action_in_words(*action))
    });
    Question::plain("is this plan good?")
        .prose("summary", &plan.summary)
        .prose("plan", plan.plan_content.trim())
        .choices(actions)
}

fn action_in_words(action: PlanAction) -> &'static str {
    match action {
        PlanAction::Interactive => "carry it out, and ask where needed",
        PlanAction::Autopilot => "carry it out alone",
        PlanAction::AutopilotFleet => "carry it out alone, with sub-agents",
        PlanAction::ExitOnly => "leave it at that for now",
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

    fn waiting(kind: &str, detail: &Value) -> Waiting {
        let all = json!({ "requestId": "r", "kind": kind, "toolName": "t", "detail": detail });
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn a_permission_is_answered_in_a_word_and_perhaps_a_reason() {
        let asked = waiting("permission", &json!({}));
        let decision = |line: &str| asked.answer(line).map(|answer| answer["decision"].clone());
        assert_eq!(decision("y"), Some(json!("approve")));
        assert_eq!(decision(" YES "), Some(json!("approve")));
        assert_eq!(decision("always"), None, "nothing is offered");
        assert_eq!(asked.answer("n, not that file").unwrap()["feedback"], "not that file");
        assert_eq!(asked.answer("no").unwrap()["feedback"], Value::Null);
        for no_answer in ["", "maybe", "yesterday", "yy"] {
            assert_eq!(decision(no_answer), None, "{no_answer}");
        }
    }

    #[test]
    fn grants_are_shown_in_words_and_given_as_they_were_offered() {
        let offer = |identifier: &str, meaning: &str| json!({"grant": {"kind": "commands", "commandIdentifiers": [identifier]}, "meaning": meaning});
        let wants = json!({"kind": "shell", "fullCommandText": "make a", "intention": ""});
        let offers = [offer("make a", "exactly this line"), offer("make:*", "any `make` command")];
        let all = json!({"requestId": "r", "kind": "permission", "detail": wants, "offers": offers});
        let asked: Waiting = serde_json::from_value(all).unwrap();
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
    fn a_plan_is_approved_in_one_of_its_ways_or_sent_back() {
        let detail = json!({
            "summary": "greet", "planContent": "1. write a file", "actions": ["autopilot", "exit_only"],
            "recommendedAction": "exit_only",
        });
        let asked = waiting("plan", &detail);
        let shown = asked.describe().lines(None);
        assert_eq!(
            shown[..4],
            ["is this plan good?", "  summary (1 line):", "  │ greet", "  plan (1 line):"]
        );
        let ways = ["  1. carry it out alone", "  2. leave it at that for now (recommended)"];
        assert_eq!(shown[5..], ways, "{shown:?}");
        let response = |line: &str| asked.answer(line).map(|answer| answer["response"].clone());
        assert_eq!(response("y"), Some(json!("exit_only")));
        assert_eq!(response("1"), Some(json!("autopilot")));
        let sent_back = json!({ "kind": "plan", "response": "reject", "feedback": "shorter, please" });
        assert_eq!(asked.answer("no shorter, please"), Some(sent_back));
        for no_answer in ["0", "3", "perhaps"] {
            assert_eq!(response(no_answer), None, "{no_answer}");
        }
    }

    #[test]
    fn another_model_is_taken_or_not() {
        let detail = json!({ "model": "spare", "reason": "main may not be asked for 3 s" });
        let asked = waiting("switch", &detail);
        let shown = asked.describe().lines(None);
        assert_eq!(
            (shown[2].as_str(), shown[4].as_str()),
            ("  │ main may not be asked for 3 s", "  │ spare")
        );
        for (line, response) in [("y", "yes"), ("always", "yes-always"), ("NO", "no")] {
            assert_eq!(asked.answer(line), Some(json!({"kind": "switch", "response": response})));
        }
        assert_eq!(asked.answer("perhaps"), None);
    }

    #[test]
    fn a_question_is_answered_with_a_number_or_in_words() {
        let detail = json!({ "kind": "user_input", "question": "colour?", "choices": ["red", "blue"] });
        let asked = waiting("question", &detail);
        assert_eq!(asked.describe().lines(None)[2..], ["  │ colour?", "  1. red", "  2. blue"]);
        assert_eq!(asked.answer("2").unwrap(), json!({"kind": "question", "answer": "blue", "chosen": true}));
        assert_eq!(asked.answer("red").unwrap()["chosen"], true);
        assert_eq!(asked.answer("3").unwrap(), json!({"kind": "question", "answer": "3", "chosen": false}));
        assert_eq!(asked.answer("0").unwrap()["answer"], "0");
    }
}
