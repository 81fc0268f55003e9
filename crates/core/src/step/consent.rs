//! Consent to actions outside of turns: the policy's decision, or the answer of a client to a form or a permission request.

use std::sync::Arc;

use baton_protocol::event::{
    ElicitationCompleted, ElicitationRequested, PermissionCompleted, PermissionRequested,
};
use baton_protocol::permission::{PermissionOutcome, Verdict};
use baton_protocol::{Author, Json, RequestId};
use serde_json::{Value, json};

use super::Step;
use super::permissions::Permitted;
use crate::ask::{Consent, ReplyTo, RequestAnswer, Serve};
use crate::policy::{self, Advice};
use crate::results::TrustTerm;
use crate::state::{ClientRequest, ShownAs};

/// Answer to a form that allows the action.
const APPROVE: &str = "approve";

impl Consent {
    /// Returns the schema of the form.
    #[must_use]
    pub fn schema(&self) -> Json {
        Json::from(json!({
            "type": "object",
            "properties": { "action": { "type": "string", "title": "Decision", "enum": [APPROVE, "reject"] } },
            "required": ["action"],
        }))
    }
}

impl Serve<Consent> for Step<'_> {
    fn handle(&mut self, to: ReplyTo<Consent>, ask: Consent) {
        match self.decide(&ask.wants, Advice::None, None) {
            Ok(Permitted::Yes) => return self.reply(to, Some(TrustTerm::Session)),
            Ok(Permitted::No) => return self.reply(to, None),
            Err(_) => {}
        }
        let request_id = RequestId(self.stamp.text_id());
        let has_forms = self.session.live.clients.values().any(|client| client.elicitation);
        let shown = if has_forms { ShownAs::Form } else { ShownAs::Permission };
        match shown {
            ShownAs::Form => self.show(ElicitationRequested {
                request_id: request_id.clone(),
                message: ask.message.clone(),
                mode: Some("form".into()),
                requested_schema: Some(ask.schema()),
                elicitation_source: None,
                tool_call_id: None,
                url: None,
            }),
            ShownAs::Permission => self.show(PermissionRequested {
                request_id: request_id.clone(),
                prompt_request: Some(ask.wants.as_prompt()),
                permission_request: (*ask.wants).clone(),
                resolved_by_hook: None,
                requires_user: None,
                wall: None,
            }),
        };
        self.session.live.asks.insert(request_id, ClientRequest::Consent(to, Arc::new(ask), shown));
    }
}

impl Step<'_> {
    /// Returns whether an answer allows the action, and its author; none if it answers something else. A deny rule that was
    /// added after the question counts.
    pub(super) fn consents(
        &self,
        consent: &Consent,
        answer: &RequestAnswer,
    ) -> Option<(bool, Option<Author>)> {
        let (allowed, by) = match answer {
            RequestAnswer::Elicitation(form) => {
                let content = form.content.as_ref().and_then(|content| content.parse::<Value>().ok());
                let approves = content.is_some_and(|content| content["action"] == APPROVE);
                (form.action == "accept" && approves, None)
            }
            // A grant is for actions that are asked about again; consent is stored by the asker.
            RequestAnswer::Permission(verdict, by) => {
                let approves = matches!(
                    verdict,
                    Verdict::ApproveOnce | Verdict::ApproveForSession(_) | Verdict::ApproveForLocation { .. }
                );
                (approves, Some(by.clone()))
            }
            _ => return None,
        };
        let denied = policy::is_denied(&consent.wants, &self.session.durable.rules);
        Some((allowed && !denied, by))
    }

    /// Closes the request, and replies.
    pub(super) fn close_consent(
        &mut self,
        request: &RequestId,
        to: ReplyTo<Consent>,
        shown: ShownAs,
        allowed: bool,
        by: Option<Author>,
    ) {
        self.session.live.asks.remove(request);
        let request_id = request.clone();
        match shown {
            ShownAs::Form => {
                let action = Some(if allowed { "accept" } else { "decline" }.to_owned());
                self.show(ElicitationCompleted { request_id, action, content: None })
            }
            ShownAs::Permission => {
                let result = match allowed {
                    true => PermissionOutcome::Approved {},
                    false => {
                        PermissionOutcome::DeniedInteractivelyByUser { feedback: None, force_reject: None }
                    }
                };
                self.show(PermissionCompleted { request_id, tool_call_id: None, result, by })
            }
        };
        self.reply(to, allowed.then_some(TrustTerm::UntilChanged));
        self.remember_closed(request);
    }
}
