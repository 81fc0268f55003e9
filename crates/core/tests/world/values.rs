//! Values for tests: profiles, results of work, answers.

use baton_core::policy::Advice;
use baton_core::{
    AgentLimits, FailedModelCall, FallbackModel, Handoff, ModelReply, Prepared, PreparedPrompt, Profile,
    RequestAnswer, Route, WorkResult,
};
use baton_protocol::event::{
    ExecutionMode, PlanAction, PlanAnswer, ProposedPlan, Question, SessionError, ToolRequest, UserQuestion,
};
use baton_protocol::permission::{PermissionRequest, Verdict};
use baton_protocol::rules::{Rule, RuleKind};
use baton_protocol::tool::{ToolResult, ToolSpec};
use baton_protocol::{Author, Json, ToolCallId};

pub fn profile(tools: &[&str]) -> Profile {
    let spec = |name: &&str| ToolSpec {
        name: (*name).to_owned(),
        description: String::new(),
        parameters: None,
        overrides_built_in_tool: false,
        skip_permission: false,
        is_terminal: *name == "terminal_tool",
    };
    Profile {
        tools: tools.iter().map(spec).collect(),
        user_input: true,
        plan_approval: true,
        model_switch: true,
        ..Profile::default()
    }
}

pub fn prepared_prompt() -> WorkResult {
    WorkResult::PreparePrompt(PreparedPrompt { content: "prompt".into(), ..PreparedPrompt::default() })
}

pub fn prepared_for_engine() -> WorkResult {
    let content = "prompt".to_owned();
    let (transformed, engine) = (Some(content.clone()), Some("codex".into()));
    WorkResult::PreparePrompt(PreparedPrompt { content, transformed, engine, ..PreparedPrompt::default() })
}

/// An answer of the model that calls these tools.
pub fn model_answer(round: u64, tools: &[&str]) -> WorkResult {
    let request = |(n, name): (usize, &&str)| ToolRequest {
        tool_call_id: ToolCallId(format!("call-{round}-{n}")),
        name: (*name).to_owned(),
        arguments: None,
        kind: None,
        mcp_server_name: None,
        mcp_tool_name: None,
        tool_title: None,
    };
    let tool_requests = tools.iter().enumerate().map(request).collect();
    WorkResult::CallModel(Box::new(ModelReply {
        text: "text".into(),
        tool_requests,
        ..ModelReply::default()
    }))
}

pub fn model_failure() -> WorkResult {
    WorkResult::CallModelFailed(Box::new(unanswered(None)))
}

/// A model call that failed with a rate limit, with a fallback model.
pub fn rate_limited() -> WorkResult {
    let fallback = FallbackModel { model: "another".into(), retry_after_seconds: Some(7) };
    WorkResult::CallModelFailed(Box::new(unanswered(Some(fallback))))
}

fn unanswered(fallback: Option<FallbackModel>) -> FailedModelCall {
    let error = SessionError { error_type: "query".into(), message: "no".into(), ..SessionError::default() };
    FailedModelCall { error, partial: Some(("m".into(), "half an".into())), fallback }
}

/// A prepared call that needs permission.
pub fn needs_permission(call: &ToolCallId, route: Route) -> WorkResult {
    let wants = Some(permission_request(call, route));
    WorkResult::PrepareCall(Prepared::Runnable {
        route,
        wants,
        advice: Advice::None,
        cwd: None,
        arguments: None,
    })
}

pub fn permission_request(call: &ToolCallId, route: Route) -> PermissionRequest {
    let tool_call_id = Some(call.clone());
    match route {
        Route::Client => PermissionRequest::CustomTool {
            tool_call_id,
            tool_name: "client_tool".into(),
            tool_description: String::new(),
            args: Some(Json::from_text(r#"{"n":1}"#).unwrap()),
        },
        Route::BuiltIn => {
            PermissionRequest::Read { tool_call_id, path: "/x".into(), intention: String::new() }
        }
    }
}

pub fn runnable(route: Route) -> WorkResult {
    WorkResult::PrepareCall(Prepared::Runnable {
        route,
        wants: None,
        advice: Advice::None,
        cwd: None,
        arguments: None,
    })
}

/// A prepared call that starts a sub-agent.
pub fn delegation(mode: ExecutionMode) -> WorkResult {
    WorkResult::PrepareCall(Prepared::Handoff { task: Box::new(task(mode)), limits: AgentLimits::default() })
}

pub fn task(mode: ExecutionMode) -> Handoff {
    Handoff {
        kind: "explore".into(),
        name: "look".into(),
        description: "Looking".into(),
        prompt: "Look.".into(),
        system: "You look.".into(),
        model: None,
        mode,
    }
}

pub fn user_question() -> UserQuestion {
    UserQuestion { question: "Which?".into(), choices: None, allow_freeform: None }
}

pub fn proposed_plan() -> ProposedPlan {
    ProposedPlan {
        summary: "do it".into(),
        plan_content: "1. do it".into(),
        actions: PlanAction::ALL.to_vec(),
        recommended_action: PlanAction::Interactive,
    }
}

/// A prepared call that asks the user.
pub fn asks_user(question: Question) -> WorkResult {
    WorkResult::PrepareCall(Prepared::Question(question))
}

pub fn plan_approved(action: PlanAction) -> RequestAnswer {
    let answer = PlanAnswer::Approved { action, approves_edits: false, defers: false, feedback: None };
    RequestAnswer::Plan(answer)
}

pub fn plan_refused(feedback: Option<&str>) -> RequestAnswer {
    RequestAnswer::Plan(PlanAnswer::Refused { feedback: feedback.map(str::to_owned) })
}

pub fn permission_answer(verdict: Verdict) -> RequestAnswer {
    RequestAnswer::Permission(verdict, Author::http())
}

/// A rule that names the [`permission_request`] of a built-in tool.
pub fn read_rule() -> Rule {
    Rule::new(RuleKind::Read, Some("/x"))
}

/// A permission request for a shell line.
pub fn shell_request(line: &str) -> PermissionRequest {
    PermissionRequest::Shell {
        tool_call_id: None,
        full_command_text: line.into(),
        intention: String::new(),
        commands: Vec::new(),
        possible_paths: Vec::new(),
        possible_urls: Vec::new(),
        has_write_file_redirection: false,
        can_offer_session_approval: false,
        warning: None,
        input_to: None,
        repository_runs: None,
        sandbox: None,
        request_sandbox_bypass: None,
        request_sandbox_bypass_reason: None,
    }
}

pub fn wants_shell(line: &str) -> WorkResult {
    let wants = Some(shell_request(line));
    let (route, advice) = (Route::BuiltIn, Advice::None);
    WorkResult::PrepareCall(Prepared::Runnable { route, wants, advice, cwd: None, arguments: None })
}

pub fn approve() -> RequestAnswer {
    permission_answer(Verdict::ApproveOnce)
}

pub fn reject() -> RequestAnswer {
    permission_answer(Verdict::Reject { feedback: None })
}

pub fn tool_result() -> RequestAnswer {
    RequestAnswer::Tool(ToolResult::success("42"))
}
