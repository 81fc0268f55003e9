//! Permission requests: the policy's decision, the answer of a client, the verdict.

use std::path::Path;

use baton_protocol::event::{
    ApprovalsChanged, PermissionCompleted, PermissionMode, PermissionRequested, ToolStart, TurnStart,
};
use baton_protocol::permission::{Approval, PermissionOutcome, PermissionRequest, Verdict};
use baton_protocol::sandbox::{Placed, Wall};
use baton_protocol::tool::{ResultType, ToolResult};
use baton_protocol::{AgentId, Author, RequestId, ToolCallId};

use super::Step;
use crate::ask::{AnswerOutcome, AnswerRequest, ReplyTo};
use crate::output::{Work, denial};
use crate::policy::{self, Advice, Decision, NotOffered, ParsedRequest, Reason, Situation};
use crate::results::{Route, TRUST_TOOL, TrustQuestion, TrustTerm};
use crate::state::{Call, CallKey, CallStage, Session};

impl Step<'_> {
    /// Opens a permission request.
    pub(super) fn ask_permission(
        &mut self,
        agent: Option<&AgentId>,
        wants: PermissionRequest,
        asked: &Asked,
    ) -> RequestId {
        self.open_permission(agent, wants, asked, None)
    }

    /// Opens a permission request, for a call or for a program that has met a wall of the sandbox.
    pub(super) fn open_permission(
        &mut self,
        agent: Option<&AgentId>,
        wants: PermissionRequest,
        asked: &Asked,
        wall: Option<Wall>,
    ) -> RequestId {
        let wants = explained(wants, asked);
        let request_id = RequestId(self.stamp.text_id());
        let requested = PermissionRequested {
            request_id: request_id.clone(),
            prompt_request: Some(wants.as_prompt()),
            permission_request: wants,
            resolved_by_hook: None,
            requires_user: (asked.reason == Reason::Advice).then_some(true),
            wall,
        };
        self.record_for(agent, requested);
        request_id
    }

    /// Asks whether to trust the workspace, as a round of its own.
    pub(super) fn ask_for_trust(&mut self, question: TrustQuestion) {
        let Some(turn) = self.turn() else { return };
        let (turn_id, interaction_id) = (turn.rounds.to_string(), Some(turn.interaction.clone()));
        self.record(TurnStart { turn_id: turn_id.clone(), interaction_id, model: None });
        let id = ToolCallId(self.stamp.text_id());
        self.record(ToolStart {
            tool_call_id: id.clone(),
            tool_name: TRUST_TOOL.to_owned(),
            arguments: Some(question.arguments),
            turn_id: Some(turn_id),
            model: None,
            parent_tool_call_id: None,
            mcp_server_name: None,
            mcp_tool_name: None,
            tool_title: None,
        });
        let (key, wants) = (CallKey::from(id), question.wants);
        match self.decide(&wants, Advice::None, None) {
            Ok(Permitted::Yes) => self.start(Work::Trust { call: key, term: TrustTerm::Session }),
            Ok(Permitted::No) => self.tool_finished(&key, distrust(&Verdict::DeniedByRules)),
            Err(asked) => {
                self.ask_permission(None, wants.for_call(&key.id), &asked);
            }
        }
    }

    /// Decides about a permission request, by the current rules, grants and mode.
    ///
    /// # Errors
    /// If a user has to decide.
    pub(super) fn decide(
        &self,
        wants: &PermissionRequest,
        advice: Advice,
        cwd: Option<&Path>,
    ) -> Result<Permitted, Asked> {
        let Session { durable, live, .. } = &*self.session;
        let mode = if live.allow_all { PermissionMode::AllowAll } else { durable.facts.permissions };
        let subject = ParsedRequest::of(wants);
        match self.decide_in(mode, &subject, advice, cwd) {
            Decision::Allow(_) => Ok(Permitted::Yes),
            Decision::Deny(_) => Ok(Permitted::No),
            Decision::Ask(reason) => {
                let grantable = subject.is_grantable(durable.territory(live, cwd));
                Err(Asked { reason, grantable })
            }
        }
    }

    /// Decides about a permission request as if the session were in `mode`.
    pub(super) fn decide_in(
        &self,
        mode: PermissionMode,
        subject: &ParsedRequest<'_>,
        advice: Advice,
        cwd: Option<&Path>,
    ) -> Decision {
        let Session { durable, live, .. } = &*self.session;
        let situation = Situation {
            mode,
            rules: &durable.rules,
            grants: &durable.grants,
            territory: durable.territory(live, cwd),
            advice,
            cwd: &durable.facts.context.cwd,
            sandbox: self.session.sandbox_level(),
        };
        subject.decide(&situation)
    }

    /// Handles an answer to a permission request. A grant that was not offered is refused, and the request stays open.
    /// A grant for a location counts once it is stored.
    pub(super) fn answer_permission(
        &mut self,
        to: ReplyTo<AnswerRequest>,
        request: &RequestId,
        call: &Call,
        wants: &PermissionRequest,
        verdict: Verdict,
        by: Author,
    ) {
        if is_approval(&verdict) && policy::is_denied(wants, &self.session.durable.rules) {
            self.apply_verdict(request, call, wants, Verdict::DeniedByRules, None, Decider::Rules);
            return self.reply_after_records(to);
        }
        match (self.grant_in(wants, &verdict), verdict) {
            (Err(refused), _) => self.reply(to, AnswerOutcome::NotOffered(refused.to_string())),
            (Ok(Some(approval)), Verdict::ApproveForLocation { location_key, .. }) => {
                self.session.live.claimed.insert(request.clone(), to);
                let (request, binding) = (request.clone(), binding_of(wants));
                self.start(Work::SaveGrant { request, location_key, approval, by, binding });
            }
            (Ok(given), verdict) => {
                let decider = Decider::Client(by.clone());
                let given = given.map(|approval| Given { approval, location_key: None, by });
                self.apply_verdict(request, call, wants, verdict, given, decider);
                self.reply_after_records(to);
            }
        }
    }

    /// Returns the grant that an answer gives, if it gives one.
    ///
    /// # Errors
    /// If the request does not offer it.
    pub(super) fn grant_in(
        &self,
        wants: &PermissionRequest,
        verdict: &Verdict,
    ) -> Result<Option<Approval>, NotOffered> {
        let Session { durable, live, .. } = &*self.session;
        let named = match verdict {
            Verdict::ApproveForSession(named) => named,
            Verdict::ApproveForLocation { approval, .. } => approval,
            _ => return Ok(None),
        };
        policy::grant_of(wants, durable.territory(live, None), named.as_ref()).map(Some)
    }

    /// Handles the result of storing a grant for a location. If that failed, the request is open again.
    pub(super) fn grant_saved(
        &mut self,
        request: &RequestId,
        location_key: String,
        approval: Approval,
        by: Author,
        saved: Result<(), String>,
    ) {
        let (key, author) = (Some(location_key.clone()), by.clone());
        let given = Given { approval: approval.clone(), location_key: key, by: author };
        if self.host_grant_saved(request, given, &saved) {
            return;
        }
        let Some(to) = self.session.live.claimed.remove(request) else { return };
        let Some(call) = self.call_waiting_for(request).cloned() else {
            return self.reply(to, AnswerOutcome::TooLate);
        };
        match (saved, call.stage.clone()) {
            (Err(why), _) => self.reply(to, AnswerOutcome::Refused(why)),
            // The rule was set while the grant was being stored.
            (Ok(()), CallStage::AwaitingPermission { wants, .. })
                if policy::is_denied(&wants, &self.session.durable.rules) =>
            {
                self.apply_verdict(request, &call, &wants, Verdict::DeniedByRules, None, Decider::Rules);
                self.reply_after_records(to);
            }
            (Ok(()), CallStage::AwaitingPermission { wants, .. }) => {
                let named = Some(approval.clone());
                let verdict =
                    Verdict::ApproveForLocation { approval: named, location_key: location_key.clone() };
                let decider = Decider::Client(by.clone());
                let given = Given { approval, location_key: Some(location_key), by };
                self.apply_verdict(request, &call, &wants, verdict, Some(given), decider);
                self.reply_after_records(to);
            }
            (Ok(()), _) => self.reply(to, AnswerOutcome::Mismatch),
        }
    }

    /// Handles an approval of a client that approves everything. No user decided, so a request that allow-all mode
    /// would not allow stays pending.
    pub(super) fn approve_unattended(
        &mut self,
        to: ReplyTo<AnswerRequest>,
        request: &RequestId,
        call: &Call,
        wants: &PermissionRequest,
        advice: Advice,
        by: Author,
    ) {
        match self.decide_in(PermissionMode::AllowAll, &ParsedRequest::of(wants), advice, None) {
            Decision::Allow(_) => {
                let decider = Decider::Unattended(by);
                self.apply_verdict(request, call, wants, Verdict::ApproveOnce, None, decider);
            }
            Decision::Deny(_) => {
                self.apply_verdict(request, call, wants, Verdict::DeniedByRules, None, Decider::Rules);
            }
            Decision::Ask(reason) => return self.reply(to, AnswerOutcome::Refused(reason.to_string())),
        }
        self.reply_after_records(to);
    }

    /// Records a verdict and acts on it.
    fn apply_verdict(
        &mut self,
        request: &RequestId,
        call: &Call,
        wants: &PermissionRequest,
        verdict: Verdict,
        given: Option<Given>,
        decider: Decider,
    ) {
        let term = decider.trust_term();
        let completed = PermissionCompleted {
            request_id: request.clone(),
            tool_call_id: Some(call.id.clone()),
            result: decider.outcome(&verdict, given.as_ref()),
            by: decider.author(),
        };
        self.record_for(call.agent.as_ref(), completed);
        self.remember_closed(request);
        if let Some(Given { approval, location_key, by }) = given {
            let approval = Some(approval);
            let binding = binding_of(wants);
            self.record(ApprovalsChanged { approval, location_key, revoked: None, by: Some(by), binding });
        }
        if self.is_driven() && !self.is_for_engine(&call.id) {
            return self.tell_decision(request, &call.id, verdict);
        }
        match verdict {
            Verdict::ApproveOnce | Verdict::ApproveForSession(_) | Verdict::ApproveForLocation { .. }
                if is_trust_question(call, wants) =>
            {
                self.start(Work::Trust { call: call.key(), term });
            }
            Verdict::ApproveOnce | Verdict::ApproveForSession(_) | Verdict::ApproveForLocation { .. } => {
                let permit = Permit { binding: binding_of(wants), placed: wants.placed() };
                self.run_call(&call.key(), route_of(wants), permit);
            }
            refusal if call.tool == TRUST_TOOL => self.tool_finished(&call.key(), distrust(&refusal)),
            // A rejection does not end the turn of an engine, which decides how to continue.
            refusal if self.is_driven() => self.tool_finished(&call.key(), distrust(&refusal)),
            refusal => self.tool_finished(&call.key(), denial(&refusal)),
        }
    }
}

/// Returns the result of a call that was refused, in a turn that goes on without it.
fn distrust(refusal: &Verdict) -> ToolResult {
    ToolResult { result_type: ResultType::Denied, ..denial(refusal) }
}

/// A decision that needs no user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Permitted {
    Yes,
    No,
}

/// What was allowed, beyond the call itself.
#[derive(Default)]
pub(super) struct Permit {
    /// Digest of what a user approved, for a call of an MCP server's tool.
    pub(super) binding: Option<String>,
    /// Where the call's command runs.
    pub(super) placed: Option<Placed>,
}

/// A decision that a user has to make.
pub(super) struct Asked {
    reason: Reason,
    /// Whether the answer can be a grant.
    grantable: bool,
}

impl Asked {
    /// Whether a deny rule may name the request.
    pub(super) fn is_doubted(&self) -> bool {
        matches!(self.reason, Reason::MayBeDenied(_))
    }
}

/// Whether an answer approves.
pub(super) fn is_approval(verdict: &Verdict) -> bool {
    match verdict {
        Verdict::ApproveOnce | Verdict::ApproveForSession(_) | Verdict::ApproveForLocation { .. } => true,
        Verdict::Reject { .. } | Verdict::UserNotAvailable | Verdict::DeniedByRules => false,
    }
}

/// Completes a request with what the policy knows: whether it offers a grant, and why it is asked.
fn explained(wants: PermissionRequest, Asked { reason, grantable }: &Asked) -> PermissionRequest {
    let mut wants = policy::marked(wants, *grantable);
    let is_shown = matches!(reason, Reason::MayBeDenied(_) | Reason::Repository(_) | Reason::Guarded(_));
    // Said in any case: that a command leaves the sandbox may not be why it is asked.
    let leaving = policy::leaving(&wants);
    let shown: Vec<String> =
        leaving.iter().chain(is_shown.then_some(reason)).map(Reason::to_string).collect();
    if let PermissionRequest::Shell { warning, .. } = &mut wants
        && !shown.is_empty()
    {
        *warning = Some(shown.join("; "));
    }
    wants
}

/// The author of a decision about a request.
pub(super) enum Decider {
    /// The policy.
    Rules,
    /// A newer request for the same.
    Replaced,
    /// A client that was shown the request.
    Client(Author),
    /// A client that approves everything.
    Unattended(Author),
}

impl Decider {
    pub(super) fn author(self) -> Option<Author> {
        match self {
            Self::Rules | Self::Replaced => None,
            Self::Client(by) | Self::Unattended(by) => Some(by),
        }
    }

    /// Returns how long something is trusted if the decision is yes. What nobody was shown is not remembered.
    fn trust_term(&self) -> TrustTerm {
        match self {
            Self::Client(_) => TrustTerm::UntilChanged,
            Self::Rules | Self::Replaced | Self::Unattended(_) => TrustTerm::Session,
        }
    }

    /// Returns the outcome of a permission request, as clients see it.
    pub(super) fn outcome(&self, verdict: &Verdict, given: Option<&Given>) -> PermissionOutcome {
        match self {
            Self::Replaced => {
                PermissionOutcome::Cancelled { reason: Some("a newer request replaces it".into()) }
            }
            Self::Rules | Self::Client(_) | Self::Unattended(_) => outcome_of(verdict, given),
        }
    }
}

/// Whether a request is a [`TrustQuestion`]. Tools of clients may have any name, and have requests of another kind.
fn is_trust_question(call: &Call, wants: &PermissionRequest) -> bool {
    call.tool == TRUST_TOOL && matches!(wants, PermissionRequest::Hook { .. })
}

/// A grant that is part of an answer.
pub(super) struct Given {
    pub(super) approval: Approval,
    /// Location that it is stored for; none for a grant of the session.
    pub(super) location_key: Option<String>,
    pub(super) by: Author,
}

/// Returns the outcome of a permission request, as clients see it.
fn outcome_of(verdict: &Verdict, given: Option<&Given>) -> PermissionOutcome {
    match (verdict, given) {
        (Verdict::Reject { feedback }, _) => {
            PermissionOutcome::DeniedInteractivelyByUser { feedback: feedback.clone(), force_reject: None }
        }
        (Verdict::UserNotAvailable, _) => {
            PermissionOutcome::DeniedNoApprovalRuleAndCouldNotRequestFromUser {}
        }
        (Verdict::DeniedByRules, _) => PermissionOutcome::DeniedByRules { rules: Vec::new() },
        // The wire has no grants of origins; clients see a plain approval.
        (_, None | Some(Given { approval: Approval::Url { .. }, .. })) => PermissionOutcome::Approved {},
        (_, Some(Given { approval, location_key: None, .. })) => {
            PermissionOutcome::ApprovedForSession { approval: approval.clone() }
        }
        (_, Some(Given { approval, location_key: Some(key), .. })) => {
            PermissionOutcome::ApprovedForLocation { approval: approval.clone(), location_key: key.clone() }
        }
    }
}

/// Returns what an approval is bound to, besides the request itself.
fn binding_of(wants: &PermissionRequest) -> Option<String> {
    match wants {
        PermissionRequest::Mcp { binding, .. } => binding.clone(),
        _ => None,
    }
}

/// Returns where a permitted call runs. Derived from the durable request, so that it is still known after a restart.
fn route_of(wants: &PermissionRequest) -> Route {
    match wants {
        PermissionRequest::CustomTool { .. } => Route::Client,
        _ => Route::BuiltIn,
    }
}
