//! A plan that somebody is to approve before the agent carries it out, and what they say about it.
#![allow(missing_docs, reason = "fields carry the names of the wire; the struct says what they are about")]

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::session::AgentMode;
use crate::ids::{RequestId, ToolCallId};

/// A way out of plan mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanAction {
    /// Carry the plan out, asking where something needs to be asked.
    Interactive,
    /// Carry the plan out alone.
    Autopilot,
    /// Carry the plan out alone, with sub-agents that work on its parts at the same time.
    AutopilotFleet,
    /// Leave plan mode, and leave it at that.
    ExitOnly,
}

impl PlanAction {
    /// All of them, in the order in which they are listed to people who are offered no selection.
    pub const ALL: [Self; 4] = [Self::Interactive, Self::Autopilot, Self::AutopilotFleet, Self::ExitOnly];

    /// The wire's name of it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Autopilot => "autopilot",
            Self::AutopilotFleet => "autopilot_fleet",
            Self::ExitOnly => "exit_only",
        }
    }

    /// The mode that it leads to; none means the one from before the plan.
    #[must_use]
    pub fn mode(self) -> Option<AgentMode> {
        match self {
            Self::Interactive => Some(AgentMode::Interactive),
            Self::Autopilot | Self::AutopilotFleet => Some(AgentMode::Autopilot),
            Self::ExitOnly => None,
        }
    }
}

/// A plan, as it is put to whoever is to approve it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProposedPlan {
    pub summary: String,
    /// The session's plan file, as it was when approval was asked for; empty if there was none.
    pub plan_content: String,
    /// The ways out of plan mode that make sense for this plan.
    pub actions: Vec<PlanAction>,
    pub recommended_action: PlanAction,
}

/// What somebody says about a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Told", into = "Told")]
pub enum PlanAnswer {
    /// It is good.
    Approved {
        /// How to go on.
        action: PlanAction,
        /// Whether files may be written without asking from now on.
        approves_edits: bool,
        /// Whether it is carried out later, when whoever approved it says so.
        defers: bool,
        /// A remark, for people who watch. The model is told of the approval only.
        feedback: Option<String>,
    },
    /// It is not good yet.
    Refused {
        /// What is wrong with it.
        feedback: Option<String>,
    },
}

impl PlanAnswer {
    /// Whether nothing is to be done about the plan now.
    ///
    /// The turn ends with such an answer. Asking the model once more and telling it to do nothing would be a wish that it
    /// may overlook, at a moment when its tools have just been set free.
    #[must_use]
    pub fn ends_turn(&self) -> bool {
        matches!(
            self,
            Self::Approved { action: PlanAction::ExitOnly, .. } | Self::Approved { defers: true, .. }
        )
    }
}

/// The same as the wire has it: flags, of which some mean nothing together with others.
#[skip_serializing_none]
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    approved: bool,
    selected_action: Option<PlanAction>,
    auto_approve_edits: Option<bool>,
    feedback: Option<String>,
    defer_implementation: Option<bool>,
}

impl From<Told> for PlanAnswer {
    fn from(told: Told) -> Self {
        let Told { approved, selected_action, auto_approve_edits, feedback, defer_implementation } = told;
        if !approved {
            return Self::Refused { feedback };
        }
        let approves_edits = auto_approve_edits.unwrap_or(false);
        let unsaid = if approves_edits { PlanAction::Autopilot } else { PlanAction::Interactive };
        let action = selected_action.unwrap_or(unsaid);
        let defers = defer_implementation.unwrap_or(false);
        Self::Approved { action, approves_edits, defers, feedback }
    }
}

impl From<PlanAnswer> for Told {
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

/// The model has a plan, and wants to leave plan mode.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExitPlanModeRequested {
    pub request_id: RequestId,
    pub tool_call_id: Option<ToolCallId>,
    /// The model that was chosen for the session, if one was.
    pub model: Option<String>,
    #[serde(flatten)]
    pub plan: ProposedPlan,
}

/// Somebody has said what they think of the plan, or it is not waited for any more.
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
        serde_json::from_str(json).unwrap()
    }

    fn approved(action: PlanAction, approves_edits: bool, defers: bool) -> PlanAnswer {
        PlanAnswer::Approved { action, approves_edits, defers, feedback: None }
    }

    #[test]
    fn an_approval_says_how_to_go_on_or_is_understood_without() {
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
            assert_eq!(read(&serde_json::to_string(&answer).unwrap()), answer, "it is read back as it was");
        }
        assert!(serde_json::from_str::<PlanAnswer>(r#"{"approved":true,"selectedAction":"fly"}"#).is_err());
        assert!(serde_json::from_str::<PlanAnswer>("{}").is_err(), "no answer is no approval");
    }

    #[test]
    fn a_refusal_selects_nothing() {
        let refused = read(r#"{"approved":false,"selectedAction":"autopilot","feedback":"too long"}"#);
        assert_eq!(refused, PlanAnswer::Refused { feedback: Some("too long".into()) });
        let answer = Some(refused);
        let completed = ExitPlanModeCompleted { request_id: "r".into(), answer };
        let json = serde_json::to_string(&completed).unwrap();
        assert_eq!(json, r#"{"requestId":"r","approved":false,"feedback":"too long"}"#);
        assert_eq!(serde_json::from_str::<ExitPlanModeCompleted>(&json).unwrap(), completed);
        let unanswered = ExitPlanModeCompleted { request_id: "r".into(), answer: None };
        assert_eq!(serde_json::to_string(&unanswered).unwrap(), r#"{"requestId":"r"}"#);
    }
}
