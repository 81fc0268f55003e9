//! Tool calls: preparation, execution, and postprocessing of results.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_agent::tools::shell::{self, CommandEnvironment, LineContext};
use baton_agent::tools::{
    self, Tool, ToolContext, agents, ask_user, exit_plan_mode, report_intent, skill, spill,
};
use baton_core::policy::Advice;
use baton_core::{Call, CallKey, Prepared, Route, TrustTerm, WorkResult};
use baton_disk::blocking;
use baton_protocol::event::{ContextAdded, Question, ToolPartialResult, ToolRequest, UserQuestion};
use baton_protocol::permission::PermissionRequest;
use baton_protocol::sandbox::Placed;
use baton_protocol::tool::{ResultType, ToolResult, ToolSpec};
use baton_protocol::{Json, ToolCallId};
use serde_json::json;

use super::{WorkScope, capture, hooks, mcp_calls, prompt, skills, sub_agents};

/// Prepares a call: invokes the `preToolUse` hook, then determines the permission request.
pub(super) async fn prepare(scope: &WorkScope, key: &CallKey) -> Prepared {
    let Some(call) = find(scope, key) else { return Prepared::Finished(tools::interrupted()) };
    let mut arguments = call.arguments.clone().unwrap_or_else(Json::empty_object);
    let input = json!({ "toolName": call.tool, "toolArgs": arguments });
    let Some(output) = hooks::invoke(scope, "preToolUse", input).await else {
        return plan(scope, &call, &arguments).await;
    };
    add_context(scope, "preToolUse", output.text("additionalContext"));
    let decision = output.text("permissionDecision");
    if decision.as_deref() == Some("deny") {
        let reason = output.text("permissionDecisionReason").unwrap_or_else(|| "No reason provided".into());
        let text = format!("Denied by preToolUse hook: {reason}");
        return Prepared::Finished(ToolResult {
            result_type: ResultType::Denied,
            ..ToolResult::failure(text)
        });
    }
    let modified = output.json("modifiedArgs");
    if let Some(modified) = &modified {
        arguments = modified.clone();
    }
    match plan(scope, &call, &arguments).await {
        Prepared::Runnable { route, wants, advice, cwd, .. } => {
            let advice = match decision.as_deref() {
                Some("allow") => Advice::Allow,
                Some("ask") => Advice::Ask,
                _ => advice,
            };
            Prepared::Runnable { route, wants, advice, cwd, arguments: modified }
        }
        other => other,
    }
}

/// Determines what a call with these arguments would do. Whether it may is decided by the permission policy, in the core.
async fn plan(scope: &WorkScope, call: &Call, arguments: &Json) -> Prepared {
    let available = scope.tools_for_model();
    let Some(spec) = available.iter().find(|tool| tool.name == call.tool) else {
        if call.tool == skill::NAME {
            return Prepared::Finished(skills::refused(arguments));
        }
        return Prepared::Finished(unknown_tool(&call.tool, &available));
    };
    if scope.session.live.owner_of(&call.tool).is_some() {
        return Prepared::Runnable {
            route: Route::Client,
            wants: Some(custom_tool(call, spec, arguments)),
            advice: if spec.skip_permission { Advice::Allow } else { Advice::None },
            cwd: None,
            arguments: None,
        };
    }
    if scope.tools.toolbox().get(&call.tool).is_none()
        && let Some(tool) = scope.mcp_tool(&call.tool)
    {
        return mcp_calls::prepare(scope, call, &tool, arguments).await;
    }
    match call.tool.as_str() {
        ask_user::NAME => match ask_user::AskUserArguments::read(arguments) {
            Ok(q) => Prepared::Question(Question::UserInput(UserQuestion {
                question: q.question,
                choices: q.choices,
                allow_freeform: q.allow_freeform,
            })),
            Err(refusal) => Prepared::Finished(refusal),
        },
        exit_plan_mode::NAME => propose_plan(scope, arguments).await,
        agents::TASK => sub_agents::prepare_task(scope, arguments).await,
        agents::READ_AGENT => sub_agents::prepare_read(scope, arguments),
        agents::LIST_AGENTS | skill::NAME => runnable(None),
        report_intent::NAME => Prepared::Finished(report_intent::result()),
        name => match scope.tools.toolbox().get(name) {
            None => Prepared::Finished(unknown_tool(name, &available)),
            Some(tool) => match tool.prepare(&context(scope, &call.id).await, arguments).await {
                tools::Prepared::Refused(result) => Prepared::Finished(result),
                tools::Prepared::Harmless => runnable(None),
                tools::Prepared::Needs(wants) => needs(scope, wants, Advice::None).await,
                tools::Prepared::NeedsEachTime(wants) => needs(scope, wants, Advice::EachTime).await,
            },
        },
    }
}

/// Proposes a plan: the current content of the session's plan file.
async fn propose_plan(scope: &WorkScope, arguments: &Json) -> Prepared {
    let workspace = scope.tools.files().workspace();
    let plan = tokio::task::spawn_blocking(move || workspace.read_plan()).await;
    let plan = match plan {
        Ok(Ok(plan)) => plan.unwrap_or_default(),
        Ok(Err(error)) => return Prepared::Finished(ToolResult::failure(error.to_string())),
        Err(_) => return Prepared::Finished(tools::interrupted()),
    };
    match exit_plan_mode::read(arguments, plan) {
        Ok(plan) => Prepared::Question(Question::Plan(plan)),
        Err(refusal) => Prepared::Finished(refusal),
    }
}

/// Prepares a call that needs a permission. The paths in its request are canonical, so the working directory must be, too.
async fn needs(scope: &WorkScope, wants: PermissionRequest, advice: Advice) -> Prepared {
    let is_write = matches!(wants, PermissionRequest::Write { .. });
    let cwd = if is_write { tokio::fs::canonicalize(prompt::cwd(scope)).await.ok() } else { None };
    let services = scope.tools.services_for(&scope.settings).await;
    let wants = inspected(scope, wants, &prompt::cwd(scope), &services.shells.environment()).await;
    Prepared::Runnable { route: Route::BuiltIn, wants: Some(wants), advice, cwd, arguments: None }
}

/// Completes the request for a shell line from the file system: the guarded file that the line reaches, and whether its git
/// commands can run a program. `environment` is that of the shell that would run it. Returns other requests unchanged.
pub(super) async fn inspected(
    scope: &WorkScope,
    wants: PermissionRequest,
    cwd: &Path,
    environment: &CommandEnvironment,
) -> PermissionRequest {
    if !matches!(wants, PermissionRequest::Shell { .. }) {
        return wants;
    }
    let options = &scope.runtime.options;
    let around = LineContext::new(cwd, &options.home, scope.tools.files().path(), environment);
    let asked = wants.clone();
    let reached = blocking::run(move || shell::with_reach(asked, &around)).await;
    let wants = reached.unwrap_or_else(|_| shell::with_unknown_reach(wants, &options.home));
    baton_git::distrusted(wants, cwd).await
}

/// Prepares a call of a built-in tool that needs no advice or working directory.
pub(super) fn runnable(wants: Option<PermissionRequest>) -> Prepared {
    Prepared::Runnable { route: Route::BuiltIn, wants, advice: Advice::None, cwd: None, arguments: None }
}

fn custom_tool(call: &Call, spec: &ToolSpec, arguments: &Json) -> PermissionRequest {
    PermissionRequest::CustomTool {
        tool_call_id: Some(call.id.clone()),
        tool_name: call.tool.clone(),
        tool_description: spec.description.clone(),
        args: Some(arguments.clone()),
    }
}

/// Returns failures for calls of unknown tools. With hooks, such calls are left to `prepare`, which invokes the hook first.
pub(super) fn refuse_unknown(scope: &WorkScope, calls: &[ToolRequest]) -> BTreeMap<ToolCallId, ToolResult> {
    if scope.session.live.clients.values().any(|client| client.hooks) {
        return BTreeMap::new();
    }
    let available = scope.tools_for_model();
    // A model that names a skill of another session is told about the skill, not about the tool.
    let is_unknown = |name: &str| name != skill::NAME && available.iter().all(|tool| tool.name != name);
    let unknown = calls.iter().filter(|call| is_unknown(&call.name));
    unknown.map(|call| (call.tool_call_id.clone(), unknown_tool(&call.name, &available))).collect()
}

fn unknown_tool(name: &str, available: &[ToolSpec]) -> ToolResult {
    let names: Vec<&str> = available.iter().map(|tool| tool.name.as_str()).collect();
    let text =
        format!("Tool '{name}' does not exist. Available tools that can be called are {}.", names.join(", "));
    ToolResult { error: Some(format!("Tool '{name}' does not exist.")), ..ToolResult::failure(text) }
}

/// Runs a built-in tool, or a tool of an MCP server that is bound to what was approved.
pub(super) async fn run(
    scope: &WorkScope,
    key: &CallKey,
    binding: Option<&str>,
    placed: Option<Placed>,
) -> WorkResult {
    let Some(call) = find(scope, key) else { return WorkResult::RunTool(tools::interrupted()) };
    let arguments = call.arguments.clone().unwrap_or_else(Json::empty_object);
    if let Some(binding) = binding {
        let Some(tool) = mcp_calls::approved(scope, &call.tool, binding).await else {
            return WorkResult::Changed;
        };
        let result = mcp_calls::run(scope, &call, &tool, &arguments).await;
        return WorkResult::RunTool(conclude(scope, &call, &arguments, result).await);
    }
    let result = match call.tool.as_str() {
        skill::NAME => {
            let (result, loaded) = skills::run(scope, &call, &arguments).await;
            let result = conclude(scope, &call, &arguments, result).await;
            return match loaded {
                Some(skill) => WorkResult::RunSkill(Box::new((result, skill))),
                None => WorkResult::RunTool(result),
            };
        }
        agents::READ_AGENT => sub_agents::read(scope, &arguments),
        agents::LIST_AGENTS => sub_agents::list(scope),
        name => match scope.tools.toolbox().get(name) {
            Some(tool) => {
                let context = ToolContext { placed, ..context(scope, &call.id).await };
                run_tracked(scope, &*tool, &context, &arguments).await
            }
            None => match scope.mcp_tool(name) {
                Some(tool) => mcp_calls::run(scope, &call, &tool, &arguments).await,
                None => unknown_tool(name, &[]),
            },
        },
    };
    WorkResult::RunTool(conclude(scope, &call, &arguments, result).await)
}

/// Trusts files of the workspace and plugins, which a question of the session was about.
pub(super) async fn trust(scope: &WorkScope, key: &CallKey, term: TrustTerm) -> ToolResult {
    let Some(call) = find(scope, key) else { return tools::interrupted() };
    let arguments = call.arguments.unwrap_or_else(Json::empty_object);
    match scope.tools.mcp().approve(&arguments, term).await {
        Ok(()) => ToolResult::success("Trusted"),
        Err(error) => ToolResult::failure(format!("The approval was not stored: {error}")),
    }
}

/// Runs a tool. If the session tracks files, snapshots the files that the call may change first.
async fn run_tracked(
    scope: &WorkScope,
    tool: &dyn Tool,
    context: &ToolContext,
    arguments: &Json,
) -> ToolResult {
    if !scope.session.durable.facts.tracks_files {
        return tool.run(context, arguments).await;
    }
    let watch = match capture::before(scope, tool.touches(context, arguments)).await {
        Ok(watch) => watch,
        Err(failure) => return ToolResult::failure(format!("The tool was not run: {failure}")),
    };
    let result = match scope.cancel.is_cancelled() {
        true => tools::interrupted(),
        false => tool.run(context, arguments).await,
    };
    capture::after(scope, watch).await;
    result
}

/// Postprocesses a result from a client or a sub-agent.
pub(super) async fn finish(scope: &WorkScope, key: &CallKey, result: ToolResult) -> ToolResult {
    let Some(call) = find(scope, key) else { return result };
    let arguments = call.arguments.clone().unwrap_or_else(Json::empty_object);
    let result = if result.error.is_some() && result.text_result_for_llm.is_empty() {
        hide_error(&call.tool, &arguments, result)
    } else {
        result
    };
    conclude(scope, &call, &arguments, result).await
}

/// Replaces the error of a client tool that threw. The message may contain anything, secrets included, so the model sees
/// only that the call failed.
fn hide_error(tool: &str, arguments: &Json, result: ToolResult) -> ToolResult {
    let text = format!(
        "Failed to execute `{tool}` tool with arguments: {} due to error: Error: Tool execution failed",
        arguments.as_str()
    );
    ToolResult { text_result_for_llm: text, ..result }
}

/// Postprocesses a result: hides secrets, invokes hooks, and moves large output to a file.
async fn conclude(scope: &WorkScope, call: &Call, arguments: &Json, result: ToolResult) -> ToolResult {
    scope.tools.sandbox().sweep().await;
    if scope.cancel.is_cancelled() {
        return result;
    }
    let result = scope.runtime.secrets.hide(result);
    let result = after_hooks(scope, call, arguments, result).await;
    let large = &scope.settings.large_output;
    if large.enabled == Some(false) {
        return result;
    }
    let limit = large
        .max_size_bytes
        .map_or(spill::DEFAULT_LIMIT, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    if result.text_result_for_llm.len() <= limit {
        return result;
    }
    let directory =
        large.output_dir.as_ref().map_or_else(|| scope.tools.files().path().join("temp"), PathBuf::from);
    let text = result.text_result_for_llm.clone();
    let spilled = tokio::task::spawn_blocking(move || spill::apply(text, limit, &directory)).await;
    match spilled {
        Ok(Ok(text)) => ToolResult { text_result_for_llm: text, ..result },
        // A full disk must not lose the whole result.
        _ => {
            let cut: String = result.text_result_for_llm.chars().take(limit).collect();
            ToolResult {
                text_result_for_llm: format!("{cut}\n[cut: the rest could not be stored]"),
                ..result
            }
        }
    }
}

/// Invokes the `postToolUse` or `postToolUseFailure` hook.
async fn after_hooks(scope: &WorkScope, call: &Call, arguments: &Json, result: ToolResult) -> ToolResult {
    let common = json!({ "toolName": call.tool, "toolArgs": arguments });
    if result.result_type == ResultType::Success {
        let mut input = common;
        input["toolResult"] = json!(result);
        let Some(output) = hooks::invoke(scope, "postToolUse", input).await else { return result };
        add_context(scope, "postToolUse", output.text("additionalContext"));
        return output.json("modifiedResult").and_then(|modified| modified.parse().ok()).unwrap_or(result);
    }
    let mut input = common;
    input["error"] = json!(result.error.as_ref().unwrap_or(&result.text_result_for_llm));
    if let Some(output) = hooks::invoke(scope, "postToolUseFailure", input).await {
        let advice = output.text("additionalContext").map(|advice| {
            let tool = &call.tool;
            format!("Tool \"{tool}\" failed. Additional guidance from postToolUseFailure hooks:\n{advice}")
        });
        add_context(scope, "postToolUseFailure", advice);
    }
    result
}

/// Records context that a hook adds for the model.
fn add_context(scope: &WorkScope, source: &str, advice: Option<String>) {
    if let Some(content) = advice {
        scope.note_for(scope.agent.clone(), ContextAdded { source: source.to_owned(), content });
    }
}

fn find(scope: &WorkScope, key: &CallKey) -> Option<Call> {
    scope.session.durable.turn.as_ref()?.call(key).cloned()
}

async fn context(scope: &WorkScope, id: &ToolCallId) -> ToolContext {
    let (hub, cancel, call) = (scope.hub.clone(), scope.cancel.clone(), id.clone());
    let (runtime, agent) = (scope.runtime.clone(), scope.agent.clone());
    let progress = move |output: &str| {
        let partial_output = runtime.secrets.hide_in(output);
        let partial = ToolPartialResult { tool_call_id: call.clone(), partial_output };
        hub.show_for(agent.as_ref(), [partial.into()], &cancel);
    };
    ToolContext {
        cwd: prompt::cwd(scope),
        session_dir: scope.tools.files().path().to_owned(),
        home: Some(scope.runtime.options.home.clone()),
        exact_pages: scope.session.durable.rules.are_about_pages(),
        services: scope.tools.services_for(&scope.settings).await,
        sandbox: scope.session.sandbox().clone(),
        placed: None,
        call: id.clone(),
        cancel: scope.cancel.clone(),
        progress: Arc::new(progress),
    }
}
