//! A plan that somebody is to approve before it is carried out.
//!
//! The model asks with a call, and the call waits as one does that asks the user a question: durable under its id, put
//! to a client that says it can answer, answered by whoever comes first. What an approval does besides is decided here:
//! the session leaves plan mode as was chosen, in the same write as the answer.

use baton_protocol::event::{AgentMode, ApprovalsChanged, ExitPlanModeCompleted, PlanAction, PlanAnswer};
use baton_protocol::permission::Approval;
use baton_protocol::tool::ToolResult;
use baton_protocol::{Json, RequestId};

use super::Step;
use crate::state::{CallKey, Durable};

/// What the model is told when its plan did not reach anybody.
const UNSEEN: &str = "The plan could not be put to the user. You are still in plan mode: change nothing, and end with an \
                      answer that holds the plan.";

/// What it is told when the plan is good, but not to be begun with. It reads this with the next prompt.
const NOT_NOW: &str =
    "Plan approved! Exited plan mode.\n\nDo not start implementing the plan before the user asks for it.";

/// What it is told besides when sub-agents are to do the work.
const FLEET: &str = "Hand independent parts of the plan to sub-agents in the background, so that they are worked on at \
                     the same time, and put together what comes of them.";

impl Step<'_> {
    /// Somebody has said what they think of a plan; none means that nobody could be asked.
    pub(super) fn plan_answered(&mut self, request: &RequestId, call: &CallKey, answer: Option<&PlanAnswer>) {
        let record = answer.and_then(|answer| Json::from_value(answer).ok());
        self.question_closed(request, record);
        self.show(ExitPlanModeCompleted { request_id: request.clone(), answer: answer.cloned() });
        if let Some(PlanAnswer::Approved { action, approves_edits, .. }) = answer {
            self.leave_plan_mode(*action);
            if *approves_edits {
                self.record(ApprovalsChanged {
                    approval: Some(Approval::Write {}),
                    ..ApprovalsChanged::default()
                });
            }
        }
        self.tool_finished(call, told(answer));
    }

    fn leave_plan_mode(&mut self, action: PlanAction) {
        let mode = action.mode().unwrap_or_else(|| before_plan(&self.session.durable));
        if let Some(change) = self.mode_change(mode) {
            self.record(change);
        }
    }
}

/// The mode of a session whose plan is done with: its own, if only this turn was to plan.
fn before_plan(durable: &Durable) -> AgentMode {
    match durable.facts.mode {
        AgentMode::Plan => AgentMode::Interactive,
        other => other,
    }
}

/// What the model is told. An approval in the words that recorded conversations hold. A refusal is no failure: the
/// question was put, and this is the answer.
fn told(answer: Option<&PlanAnswer>) -> ToolResult {
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
    let refused = "The user has not approved the plan. You are still in plan mode: change nothing, work the plan over, and \
                   ask for approval again.";
    match feedback.map(str::trim).filter(|feedback| !feedback.is_empty()) {
        Some(feedback) => format!("{refused} User feedback: {feedback}"),
        None => refused.to_owned(),
    }
}
