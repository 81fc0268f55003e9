//! The progress of a prompt, and its exit code.

use std::collections::BTreeSet;

use baton_protocol::event::{Body, Outcome, SendMode, TurnSettled};
use baton_protocol::permission::PermissionOutcome;
use baton_protocol::{Event, PromptId, ToolCallId};

use crate::client::{TRUST_TOOL, exit_code};

/// Exit codes of answers that are not what they should be. Documented in the help of `baton run`.
const FILTERED: u8 = 4;
const REJECTED: u8 = 5;
const TRUNCATED: u8 = 6;

/// What has happened to the prompt.
#[derive(Default)]
pub(super) struct Progress {
    /// Its id; none if the session was continued without one.
    pub(super) prompt: Option<String>,
    /// Its outcome.
    pub(super) outcome: Option<TurnSettled>,
    pub(super) is_cancelled: bool,
    /// Whether a tool call was rejected, here or by another client.
    pub(super) is_rejected: bool,
    /// The question whether to trust the workspace. A turn goes on without what is not trusted.
    trust: Option<ToolCallId>,
    /// Whether the model answered or acted.
    pub(super) has_answer: bool,
    /// The last error event: the reason, should the session end without an outcome.
    pub(super) last_error: Option<String>,
    /// Whether its turn has begun.
    is_running: bool,
    /// Prompts that steer its turn. One that comes too late has a turn of its own.
    steering: BTreeSet<PromptId>,
    /// Why the model's last answer ended.
    finish: Option<String>,
    /// Whether the provider's content filter blocked the request.
    is_blocked: bool,
}

impl Progress {
    /// Whether a prompt is the one that is followed.
    pub(super) fn is_own(&self, prompt: PromptId) -> bool {
        self.prompt.as_ref().is_some_and(|own| prompt.to_string() == *own)
    }

    /// Keeps track of the main conversation.
    pub(super) fn track(&mut self, event: &Event) {
        match &event.body {
            Body::ToolStart(start) if start.tool_name == TRUST_TOOL => {
                self.trust = Some(start.tool_call_id.clone());
                self.has_answer = true;
            }
            Body::PermissionCompleted(completed) => {
                let is_about_trust = completed.tool_call_id.is_some() && completed.tool_call_id == self.trust;
                self.is_rejected |= !is_about_trust && is_rejection(&completed.result);
            }
            _ if event.agent_id.is_some() => {}
            Body::AssistantMessage(_) | Body::ToolStart(_) => self.has_answer = true,
            Body::AssistantUsage(usage) => self.finish.clone_from(&usage.finish_reason),
            Body::SessionError(error) => {
                self.is_blocked =
                    error.error_code.as_deref().is_some_and(|code| code.contains("content_filter"));
                self.last_error = Some(error.message.clone());
            }
            Body::UserMessage(message) if message.message_id.is_some_and(|id| self.is_own(id)) => {
                self.is_running = true;
            }
            Body::PromptAccepted(accepted) => {
                let steers = accepted.prompt.mode == SendMode::Immediate;
                if steers && self.is_running && self.outcome.is_none() {
                    self.steering.insert(accepted.prompt_id);
                }
            }
            Body::TurnSettled(settled) => {
                self.steering.retain(|id| !settled.prompt_ids.contains(id));
                if self.prompt.is_none() || settled.prompt_ids.iter().any(|id| self.is_own(*id)) {
                    self.outcome = Some(settled.clone());
                }
            }
            _ => {}
        }
    }

    /// Whether the prompt has its outcome, and so has everything that steered its turn.
    pub(super) fn is_over(&self) -> bool {
        self.outcome.is_some() && self.steering.is_empty()
    }

    pub(super) fn exit_code(&self, outcome: Outcome) -> u8 {
        match (outcome, self.finish.as_deref()) {
            (Outcome::Failed, _) if self.is_blocked => FILTERED,
            (Outcome::Completed, Some("length")) => TRUNCATED,
            (Outcome::Completed, Some("content_filter")) => FILTERED,
            (Outcome::Completed, _) if self.is_rejected => REJECTED,
            (outcome, _) => exit_code(outcome),
        }
    }
}

/// Whether a user rejected the call. Rules and hooks decide by themselves, and a cancel has an exit code of its own.
fn is_rejection(outcome: &PermissionOutcome) -> bool {
    matches!(outcome, PermissionOutcome::DeniedInteractivelyByUser { .. })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const OWN: &str = "01a1eb9f-13d3-7660-b785-000000000001";
    const LATE: &str = "01a1eb9f-13d3-7660-b785-000000000002";

    fn happened(progress: &mut Progress, kind: &str, data: &Value) {
        let (id, time) = ("01a1eb9f-13d3-7660-b785-e025f4803d4d", "2026-11-17T22:35:17.123Z");
        let event = json!({ "type": kind, "data": data, "id": id, "timestamp": time, "parentId": null });
        progress.track(&Event::parse(&event.to_string()).unwrap());
    }

    fn settled(progress: &mut Progress, prompts: &[&str]) {
        let data = json!({ "promptIds": prompts, "outcome": "completed", "reason": "" });
        happened(progress, "baton.turn_settled", &data);
    }

    #[test]
    fn rejection_by_another_client_has_its_exit_code() {
        let result = |kind: &str| json!({ "requestId": OWN, "toolCallId": "c", "result": { "kind": kind } });
        let mut progress = Progress { prompt: Some(OWN.into()), ..Progress::default() };
        happened(&mut progress, "permission.completed", &result("approved"));
        assert_eq!(progress.exit_code(Outcome::Completed), 0);
        happened(&mut progress, "permission.completed", &result("denied-interactively-by-user"));
        assert_eq!(progress.exit_code(Outcome::Completed), REJECTED);

        let mut progress = Progress { prompt: Some(OWN.into()), ..Progress::default() };
        happened(
            &mut progress,
            "tool.execution_start",
            &json!({ "toolCallId": "c", "toolName": TRUST_TOOL }),
        );
        happened(&mut progress, "permission.completed", &result("denied-interactively-by-user"));
        assert_eq!(progress.exit_code(Outcome::Completed), 0, "a turn goes on without trust");
    }

    #[test]
    fn prompt_that_steered_too_late_is_waited_for() {
        let accepted = |mode: &str| json!({ "promptId": LATE, "prompt": { "text": "and", "mode": mode } });
        let mut progress = Progress { prompt: Some(OWN.into()), ..Progress::default() };
        happened(&mut progress, "user.message", &json!({ "content": "", "messageId": OWN }));
        happened(&mut progress, "baton.prompt_accepted", &accepted("immediate"));
        settled(&mut progress, &[OWN]);
        assert!(progress.outcome.is_some() && !progress.is_over());
        settled(&mut progress, &[LATE]);
        assert!(progress.is_over());

        let mut progress = Progress { prompt: Some(OWN.into()), ..Progress::default() };
        happened(&mut progress, "user.message", &json!({ "content": "", "messageId": OWN }));
        happened(&mut progress, "baton.prompt_accepted", &accepted("enqueue"));
        settled(&mut progress, &[OWN]);
        assert!(progress.is_over(), "the prompt of somebody else is not waited for");
    }
}
