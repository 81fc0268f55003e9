//! `exit_plan_mode`: the model asks the user to approve its plan.
//!
//! Specification and arguments only. The session asks: a pending plan must survive a crash, and an approval changes the
//! session's mode.

use baton_protocol::Json;
use baton_protocol::event::{PlanAction, ProposedPlan};
use baton_protocol::tool::{ToolResult, ToolSpec};
use serde::Deserialize;
use serde_json::json;

use super::{ToolRefusal, arguments, schema, spec};

/// The name of the tool.
pub const NAME: &str = "exit_plan_mode";

/// Largest plan file, in bytes. It is stored with the request and shown to all clients, and a plan that is too long to
/// read cannot be approved.
const LONGEST_PLAN: usize = 256 << 10;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Arguments {
    summary: String,
    #[serde(default)]
    actions: Vec<PlanAction>,
    recommended_action: Option<PlanAction>,
}

/// Parses the arguments of a call and combines them with the plan file. Without actions, the user can choose from all;
/// without a recommendation, the first action is recommended.
///
/// # Errors
/// A result that explains the mistake to the model.
#[expect(clippy::result_large_err, reason = "parsed once for each plan; callers need a tool result")]
pub fn read(arguments: &Json, plan_content: String) -> Result<ProposedPlan, ToolResult> {
    let Arguments { summary, mut actions, recommended_action } = arguments::read(NAME, arguments)?;
    if summary.trim().is_empty() {
        return Err(ToolRefusal::arguments(NAME, "summary: must not be empty").into());
    }
    if plan_content.len() > LONGEST_PLAN {
        let text = format!(
            "plan.md has {} bytes. At most {LONGEST_PLAN} can be put to the user: shorten it.",
            plan_content.len()
        );
        return Err(ToolResult::failure(text));
    }
    if actions.is_empty() {
        actions.extend(PlanAction::ALL);
    }
    let recommended_action = recommended_action.unwrap_or(actions[0]);
    if !actions.contains(&recommended_action) {
        return Err(ToolRefusal::arguments(NAME, "recommendedAction: must be one of the actions").into());
    }
    Ok(ProposedPlan { summary, plan_content, actions, recommended_action })
}

/// Returns the specification that the model is given.
#[must_use]
pub fn exit_plan_mode_spec() -> ToolSpec {
    let names = PlanAction::ALL.map(PlanAction::as_str);
    spec(
        NAME,
        "Asks the user to approve your plan, and waits for the answer. Call it when the plan is complete: first write it \
         to plan.md in the session's own directory, then call this with a summary. If the plan is approved, plan mode is \
         over, and you are told how to go on; if not, you are told what to change.",
        schema::object(
            &json!({
                "summary": schema::string("The plan in a few short bullet points, as the user sees it first."),
                "actions": {
                    "type": "array",
                    "items": { "type": "string", "enum": names },
                    "description": "The ways to go on that the user can choose from. interactive: carry the plan out, \
                                    and ask where needed. autopilot: carry it out alone. autopilot_fleet: carry it out \
                                    alone, with sub-agents that work at the same time. exit_only: leave plan mode and \
                                    do nothing yet.",
                },
                "recommendedAction": schema::choice(&names, "The one of them that fits this plan best."),
            }),
            &["summary", "actions", "recommendedAction"],
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(json: &str) -> Result<ProposedPlan, String> {
        let plan = read(&Json::from_text(json).unwrap(), "1. think".into());
        plan.map_err(|refused| refused.text_result_for_llm)
    }

    #[test]
    fn invalid_plans_are_explained() {
        let full = r#"{"summary":"s","actions":["autopilot","exit_only"],"recommendedAction":"exit_only"}"#;
        let proposed = plan(full).unwrap();
        assert_eq!(proposed.actions, [PlanAction::Autopilot, PlanAction::ExitOnly]);
        assert_eq!(
            (proposed.recommended_action, proposed.plan_content.as_str()),
            (PlanAction::ExitOnly, "1. think")
        );
        let short = plan(r#"{"summary":"s"}"#).unwrap();
        assert_eq!((short.actions.len(), short.recommended_action), (4, PlanAction::Interactive));
        for (bad, hint) in [
            ("{}", "summary"),
            (r#"{"summary":" "}"#, "empty"),
            (r#"{"summary":"s","actions":["fly"]}"#, "actions"),
            (
                r#"{"summary":"s","actions":["autopilot"],"recommendedAction":"interactive"}"#,
                "one of the actions",
            ),
        ] {
            let error = plan(bad).unwrap_err();
            assert!(error.contains(hint), "{error}");
        }
    }

    #[test]
    fn plan_over_the_limit_is_refused() {
        let arguments = Json::from_text(r#"{"summary":"s"}"#).unwrap();
        assert!(read(&arguments, "x".repeat(LONGEST_PLAN)).is_ok());
        let refused = read(&arguments, "x".repeat(LONGEST_PLAN + 1)).unwrap_err();
        assert!(refused.text_result_for_llm.contains("shorten"), "{refused:?}");
    }
}
