//! Answers to pending requests: how a typed line is parsed.

use baton_protocol::event::ProposedPlan;
use serde_json::{Value, json};

use super::requests::PendingRequest;
use super::server_requests;

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

impl PendingRequest {
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
    use super::super::requests::TRUST_TOOL;
    use super::super::requests::tests::pending;
    use super::*;

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
