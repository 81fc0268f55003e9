//! Plans that wait for approval before the agent carries them out, and the answers to them.
#![allow(missing_docs, reason = "field names are those of the wire; the struct is documented")]

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::session::AgentMode;
use crate::ids::{RequestId, ToolCallId};

/// How to leave plan mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanAction {
    /// Carry out the plan, asking for permissions as usual.
    Interactive,
    /// Carry out the plan autonomously.
    Autopilot,
    /// Carry out the plan autonomously, with sub-agents working on its parts in parallel.
    AutopilotFleet,
    /// Leave plan mode without carrying out the plan.
    ExitOnly,
}

impl PlanAction {
    /// All actions, in the order of lists for people who get no narrower choice.
    pub const ALL: [Self; 4] = [Self::Interactive, Self::Autopilot, Self::AutopilotFleet, Self::ExitOnly];

    /// Returns the name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Autopilot => "autopilot",
            Self::AutopilotFleet => "autopilot_fleet",
            Self::ExitOnly => "exit_only",
        }
    }

    /// Returns the mode to switch to; `None` means the mode before plan mode.
    #[must_use]
    pub fn mode(self) -> Option<AgentMode> {
        match self {
            Self::Interactive => Some(AgentMode::Interactive),
            Self::Autopilot | Self::AutopilotFleet => Some(AgentMode::Autopilot),
            Self::ExitOnly => None,
        }
    }
}

/// A plan as presented for approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProposedPlan {
    pub summary: String,
    /// Content of the session's plan file when approval was requested; empty if there was none.
    pub plan_content: String,
    /// The actions that make sense for this plan.
    pub actions: Vec<PlanAction>,
    pub recommended_action: PlanAction,
}

/// The answer to a proposed plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WirePlanAnswer", into = "WirePlanAnswer")]
pub enum PlanAnswer {
    /// The plan is approved.
    Approved {
        /// How to continue.
        action: PlanAction,
        /// Whether files may be written without asking from now on.
        approves_edits: bool,
        /// Whether the plan is carried out later, at the user's request.
        defers: bool,
        /// A comment for people. The model receives only the approval.
        feedback: Option<String>,
    },
    /// The plan is refused.
    Refused {
        /// The reason.
        feedback: Option<String>,
    },
}

impl PlanAnswer {
    /// Whether the turn ends with this answer, because nothing is to be done about the plan now.
    ///
    /// The alternative, calling the model once more with an instruction to do nothing, is not safe: a model
    /// can ignore an instruction to stop, and leaving plan mode has just enabled its tools.
    #[must_use]
    pub fn ends_turn(&self) -> bool {
        matches!(
            self,
            Self::Approved { action: PlanAction::ExitOnly, .. } | Self::Approved { defers: true, .. }
        )
    }
}

/// The answer on the wire: flags, some of which exclude each other.
#[skip_serializing_none]
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WirePlanAnswer {
    approved: bool,
    selected_action: Option<PlanAction>,
    auto_approve_edits: Option<bool>,
    feedback: Option<String>,
    defer_implementation: Option<bool>,
}

impl From<WirePlanAnswer> for PlanAnswer {
    fn from(wire: WirePlanAnswer) -> Self {
        let WirePlanAnswer { approved, selected_action, auto_approve_edits, feedback, defer_implementation } =
            wire;
        if !approved {
            return Self::Refused { feedback };
        }
        let approves_edits = auto_approve_edits.unwrap_or(false);
        let default = if approves_edits { PlanAction::Autopilot } else { PlanAction::Interactive };
        let action = selected_action.unwrap_or(default);
        let defers = defer_implementation.unwrap_or(false);
        Self::Approved { action, approves_edits, defers, feedback }
    }
}

impl From<PlanAnswer> for WirePlanAnswer {
    fn from(answer: PlanAnswer) -> Self {
        match answer {
            PlanAnswer::Refused { feedback } => Self {
                approved: false,
                selected_action: None,
                auto_approve_edits: None,
                feedback,
                defer_implementation: None,
            },
            PlanAnswer::Approved { action, approves_edits, defers, feedback } => Self {
                approved: true,
                selected_action: Some(action),
                auto_approve_edits: approves_edits.then_some(true),
                feedback,
                defer_implementation: defers.then_some(true),
            },
        }
    }
}

/// The model proposes a plan and asks to leave plan mode.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExitPlanModeRequested {
    pub request_id: RequestId,
    pub tool_call_id: Option<ToolCallId>,
    /// The model selected for the session, if any.
    pub model: Option<String>,
    #[serde(flatten)]
    pub plan: ProposedPlan,
}

/// The proposed plan was answered, or its request was dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExitPlanModeCompleted {
    pub request_id: RequestId,
    #[serde(flatten)]
    pub answer: Option<PlanAnswer>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> PlanAnswer {
        baton_json::from_str(json).unwrap()
    }

    fn approved(action: PlanAction, approves_edits: bool, defers: bool) -> PlanAnswer {
        PlanAnswer::Approved { action, approves_edits, defers, feedback: None }
    }

    #[test]
    fn approval_without_an_action_has_a_default() {
        use PlanAction::{Autopilot, AutopilotFleet, ExitOnly, Interactive};
        for (json, answer) in [
            (r#"{"approved":true}"#, approved(Interactive, false, false)),
            (r#"{"approved":true,"autoApproveEdits":true}"#, approved(Autopilot, true, false)),
            (
                r#"{"approved":true,"selectedAction":"autopilot_fleet"}"#,
                approved(AutopilotFleet, false, false),
            ),
            (r#"{"approved":true,"selectedAction":"exit_only"}"#, approved(ExitOnly, false, false)),
            (r#"{"approved":true,"deferImplementation":true}"#, approved(Interactive, false, true)),
        ] {
            assert_eq!(read(json), answer, "{json}");
            assert_eq!(read(&serde_json::to_string(&answer).unwrap()), answer, "round trip");
        }
        assert!(baton_json::from_str::<PlanAnswer>(r#"{"approved":true,"selectedAction":"fly"}"#).is_err());
        assert!(baton_json::from_str::<PlanAnswer>("{}").is_err(), "an empty answer is no approval");
    }

    #[test]
    fn refusal_drops_the_selected_action() {
        let refused = read(r#"{"approved":false,"selectedAction":"autopilot","feedback":"too long"}"#);
        assert_eq!(refused, PlanAnswer::Refused { feedback: Some("too long".into()) });
        let answer = Some(refused);
        let completed = ExitPlanModeCompleted { request_id: "r".into(), answer };
        let json = serde_json::to_string(&completed).unwrap();
        assert_eq!(json, r#"{"requestId":"r","approved":false,"feedback":"too long"}"#);
        assert_eq!(baton_json::from_str::<ExitPlanModeCompleted>(&json).unwrap(), completed);
        let unanswered = ExitPlanModeCompleted { request_id: "r".into(), answer: None };
        assert_eq!(serde_json::to_string(&unanswered).unwrap(), r#"{"requestId":"r"}"#);
    }
}
