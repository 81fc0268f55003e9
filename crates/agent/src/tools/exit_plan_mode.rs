//! `exit_plan_mode`: how the model asks for its plan to be approved.
//!
//! What the tool is and how its arguments are read is here. The asking is the session's: a plan that waits for approval
//! must survive a crash, and what an approval changes is the session's mode.

use baton_protocol::Json;
use baton_protocol::event::{PlanAction, ProposedPlan};
use baton_protocol::tool::{ToolResult, ToolSpec};
use serde::Deserialize;
use serde_json::json;

use super::{Refusal, arguments, schema, spec};

/// The name of the tool.
pub const NAME: &str = "exit_plan_mode";

/// How long a plan file may be, in bytes. It is kept with the question and shown to everybody: a plan that nobody could
/// read to its end is not one to approve.
const LONGEST_PLAN: usize = 256 << 10;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Arguments {
    summary: String,
    #[serde(default)]
    actions: Vec<PlanAction>,
    recommended_action: Option<PlanAction>,
}

/// Reads the arguments of a call, with the plan file that goes with it. A model that names no ways to go on leaves all of
/// them to the user; one that recommends none recommends the first.
///
/// # Errors
/// With the result that tells the model what is wrong.
#[expect(clippy::result_large_err, reason = "it is read once for each plan, and its readers want a result")]
pub fn read(arguments: &Json, plan_content: String) -> Result<ProposedPlan, ToolResult> {
    let Arguments { summary, mut actions, recommended_action } = arguments::read(NAME, arguments)?;
    if summary.trim().is_empty() {
        return Err(Refusal::arguments(NAME, "summary: must not be empty").into());
    }
    if plan_content.len() > LONGEST_PLAN {
        let told = format!(
            "plan.md has {} bytes. At most {LONGEST_PLAN} can be put to the user: shorten it.",
            plan_content.len()
        );
        return Err(ToolResult::failure(told));
    }
    if actions.is_empty() {
        actions.extend(PlanAction::ALL);
    }
    let recommended_action = recommended_action.unwrap_or(actions[0]);
    if !actions.contains(&recommended_action) {
        return Err(Refusal::arguments(NAME, "recommendedAction: must be one of the actions").into());
    }
    Ok(ProposedPlan { summary, plan_content, actions, recommended_action })
}

/// The tool, as the model is told.
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
    fn plans_are_read_and_bad_ones_explained() {
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
            let told = plan(bad).unwrap_err();
            assert!(told.contains(hint), "{told}");
        }
    }

    #[test]
    fn a_plan_that_is_too_long_to_read_is_not_asked_for() {
        let arguments = Json::from_text(r#"{"summary":"s"}"#).unwrap();
        assert!(read(&arguments, "x".repeat(LONGEST_PLAN)).is_ok());
        let refused = read(&arguments, "x".repeat(LONGEST_PLAN + 1)).unwrap_err();
        assert!(refused.text_result_for_llm.contains("shorten"), "{refused:?}");
    }
}
