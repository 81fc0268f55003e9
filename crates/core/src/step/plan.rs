//! Plans that need approval.
//!
//! The model proposes a plan with a tool call, which waits like a question to the user: durable under its id, put to a
//! capable client, closed by the first answer. On approval, the session changes to the chosen mode in the same write as the
//! answer.

use baton_protocol::event::{AgentMode, ApprovalsChanged, ExitPlanModeCompleted, PlanAction, PlanAnswer};
use baton_protocol::permission::Approval;
use baton_protocol::tool::ToolResult;
use baton_protocol::{Author, Json, RequestId};

use super::Step;
use crate::state::{CallKey, Durable};

/// Result for a plan that reached no user, for the model.
const UNSEEN: &str = "The plan could not be shown to the user. You are still in plan mode: change nothing, and end with an \
                      answer that holds the plan.";

/// Result for a plan that was approved for later. The model reads it with the next prompt.
const NOT_NOW: &str =
    "Plan approved! Exited plan mode.\n\nDo not start implementing the plan before the user asks for it.";

/// Addition to the result for a plan that sub-agents carry out.
const FLEET: &str = "Hand independent parts of the plan to sub-agents in the background, so that they are worked on at \
                     the same time, and put together what comes of them.";

impl Step<'_> {
    /// Handles the answer to a plan; none means that the user could not be asked.
    pub(super) fn plan_answered(
        &mut self,
        request: &RequestId,
        call: &CallKey,
        answer: Option<&PlanAnswer>,
        by: Option<Author>,
    ) {
        let record = answer.and_then(|answer| Json::from_value(answer).ok());
        self.close_question(request, record, by.clone());
        self.show(ExitPlanModeCompleted { request_id: request.clone(), answer: answer.cloned() });
        if let Some(PlanAnswer::Approved { action, approves_edits, .. }) = answer {
            self.leave_plan_mode(*action, by.clone());
            if *approves_edits {
                self.record(ApprovalsChanged {
                    approval: Some(Approval::Write {}),
                    by,
                    ..ApprovalsChanged::default()
                });
            }
        }
        self.tool_finished(call, result_of(answer));
    }

    fn leave_plan_mode(&mut self, action: PlanAction, by: Option<Author>) {
        let mode = action.mode().unwrap_or_else(|| before_plan(&self.session.durable));
        if let Some(change) = self.mode_change(mode, by) {
            self.record(change);
        }
    }
}

/// Returns the mode to return to after a plan: the session's own, if only the turn was in plan mode.
fn before_plan(durable: &Durable) -> AgentMode {
    match durable.facts.mode {
        AgentMode::Plan => AgentMode::Interactive,
        other => other,
    }
}

/// Returns the result of the call, for the model. The text of an approval is that of recorded conversations. A refusal
/// is a success: the call was to get an answer, and this is one.
fn result_of(answer: Option<&PlanAnswer>) -> ToolResult {
    match answer {
        None => ToolResult::failure(UNSEEN),
        Some(PlanAnswer::Refused { feedback }) => ToolResult::success(refusal(feedback.as_deref())),
        Some(answer) if answer.ends_turn() => ToolResult::success(NOT_NOW),
        Some(PlanAnswer::Approved { action, .. }) => {
            let mode = if *action == PlanAction::Interactive { "interactive" } else { "autopilot" };
            let go = format!(
                "Plan approved! Exited plan mode.\n\nYou are now in {mode} mode. Start implementing the plan now, in this \
                 same response. Approving the plan is your go-signal, so do not stop to ask whether to proceed or wait for \
                 another message."
            );
            let is_fleet = *action == PlanAction::AutopilotFleet;
            ToolResult::success(if is_fleet { format!("{go}\n\n{FLEET}") } else { go })
        }
    }
}

fn refusal(feedback: Option<&str>) -> String {
    let refused = "The user has not approved the plan. You are still in plan mode: change nothing, revise the plan, and \
                   ask for approval again.";
    match feedback.map(str::trim).filter(|feedback| !feedback.is_empty()) {
        Some(feedback) => format!("{refused} User feedback: {feedback}"),
        None => refused.to_owned(),
    }
}
