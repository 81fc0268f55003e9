//! Tool calls: what they would do, doing it, and what is made of the result.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use baton_agent::tools::shell::{ShellSettings, Shells};
use baton_agent::tools::sql::{Database, Dependency, Todo};
use baton_agent::tools::web::PrivateHosts;
use baton_agent::tools::{
    self, NamedPaths, Services, Tool, ToolContext, Toolbox, agents, ask_user, exit_plan_mode, spill,
};
use baton_core::policy::Advice;
use baton_core::{Call, CallKey, Prepared, Route};
use baton_protocol::event::{
    ContextAdded, Question, TodosChanged, ToolPartialResult, ToolRequest, UserQuestion,
};
use baton_protocol::permission::PermissionRequest;
use baton_protocol::tool::{ResultType, ToolResult, ToolSpec};
use baton_protocol::{Json, ToolCallId};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::person::People;
use super::{Bench, capture, delegate, hooks, prompt};
use crate::Server;
use crate::ledger::Ledger;
use crate::rpc::dialect;
use crate::session::Hub;
use crate::web::NetworkFetch;
use crate::workspace::Workspace;

/// What the tools of one session share. Made with the session, filled with the first call: a session that calls no tool
/// costs nothing here.
pub(crate) struct ToolRoom {
    directory: PathBuf,
    toolbox: Toolbox,
    services: Arc<OnceLock<Arc<Services>>>,
    ledger: Ledger,
    pub(super) people: People,
    /// What was kept of files in this turn.
    pub(super) kept: capture::Kept,
    /// Blocks.
    make: Arc<dyn Fn() -> Services + Send + Sync>,
}

impl ToolRoom {
    pub(crate) fn new(server: &Arc<Server>, hub: &Arc<Hub>, directory: PathBuf) -> Self {
        let (server, hub, database) = (server.clone(), hub.clone(), directory.join("session.db"));
        let (toolbox, ledger) = (server.toolbox.clone(), server.ledger.clone());
        let make = move || {
            let hub = hub.clone();
            let todos_changed = Arc::new(move || hub.show(TodosChanged {}, &CancellationToken::new()));
            let settings = ShellSettings {
                environment: server.options.environment.clone(),
                processes: Arc::new(server.ledger.clone()),
            };
            let shells = Shells::new(settings);
            server.ledger.note(shells.tag());
            Services {
                shells,
                database: Database::new(database.clone(), todos_changed),
                web: Arc::new(NetworkFetch::new(server.models.network())),
                paths: NamedPaths::default(),
                private_hosts: PrivateHosts::default(),
            }
        };
        Self {
            directory,
            toolbox,
            services: Arc::default(),
            ledger,
            people: People::default(),
            kept: capture::Kept::default(),
            make: Arc::new(make),
        }
    }

    /// The session's own directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn toolbox(&self) -> &Toolbox {
        &self.toolbox
    }

    /// What the tools share; made now if no tool has needed it so far.
    pub(super) async fn services(&self) -> Arc<Services> {
        if let Some(services) = self.services.get() {
            return services.clone();
        }
        let (services, make) = (self.services.clone(), self.make.clone());
        let made = tokio::task::spawn_blocking(move || services.get_or_init(|| Arc::new(make())).clone());
        // Nothing in it panics; if it does, so does the call, which is reported as every call is that does.
        made.await.unwrap_or_else(|_| self.made())
    }

    /// Blocks.
    fn made(&self) -> Arc<Services> {
        self.services.get_or_init(|| Arc::new((self.make)())).clone()
    }

    /// The same, if any tool has needed them so far.
    pub(super) fn opened(&self) -> Option<&Arc<Services>> {
        self.services.get()
    }

    /// The things to do that the model has written down, and which of them wait for which. Blocks.
    pub(crate) fn todos(&self) -> Result<(Vec<Todo>, Vec<Dependency>), String> {
        self.made().database.todos().map_err(|error| error.to_string())
    }

    /// Ends every process that the session has started, and waits for that.
    pub(crate) async fn close(&self) {
        if let Some(services) = self.services.get() {
            services.shells.end_all().await;
            self.ledger.forget(services.shells.tag());
        }
    }
}

/// Finds out what a call would do.
pub(super) async fn prepare(bench: &Bench, key: &CallKey) -> Prepared {
    let Some(call) = find(bench, key) else { return Prepared::Finished(tools::interrupted()) };
    let mut arguments = call.arguments.clone().unwrap_or_else(Json::empty_object);
    let input = json!({ "toolName": call.tool, "toolArgs": arguments });
    let Some(output) = hooks::invoke(bench, "preToolUse", input).await else {
        return plan(bench, &call, &arguments).await;
    };
    advise(bench, "preToolUse", output.text("additionalContext"));
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
    match plan(bench, &call, &arguments).await {
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

/// What a call would do with these arguments. Whether it may is decided by the policy, in the core.
async fn plan(bench: &Bench, call: &Call, arguments: &Json) -> Prepared {
    let offered = bench.offered();
    let Some(spec) = offered.iter().find(|tool| tool.name == call.tool) else {
        return Prepared::Finished(unknown_tool(&call.tool, &offered));
    };
    if bench.session.live.owner_of(&call.tool).is_some() {
        return Prepared::Runnable {
            route: Route::Client,
            wants: Some(custom_tool(call, spec, arguments)),
            advice: if spec.skip_permission { Advice::Allow } else { Advice::None },
            cwd: None,
            arguments: None,
        };
    }
    match call.tool.as_str() {
        ask_user::NAME => match ask_user::Question::read(arguments) {
            Ok(q) => Prepared::Question(Question::UserInput(UserQuestion {
                question: q.question,
                choices: q.choices,
                allow_freeform: q.allow_freeform,
            })),
            Err(refusal) => Prepared::Finished(refusal),
        },
        exit_plan_mode::NAME => propose_plan(bench, arguments).await,
        agents::TASK => delegate::task(bench, arguments).await,
        agents::READ_AGENT => delegate::plan_read(bench, arguments),
        agents::LIST_AGENTS => runnable(None),
        dialect::REPORT_INTENT => Prepared::Finished(ToolResult::success(dialect::INTENT_LOGGED)),
        name => match bench.tools.toolbox.get(name) {
            None => Prepared::Finished(unknown_tool(name, &offered)),
            Some(tool) => match tool.prepare(&context(bench, &call.id).await, arguments).await {
                tools::Prepared::Refused(result) => Prepared::Finished(result),
                tools::Prepared::Harmless => runnable(None),
                tools::Prepared::Needs(wants) => needs(bench, wants, Advice::None).await,
                tools::Prepared::NeedsEachTime(wants) => needs(bench, wants, Advice::EachTime).await,
            },
        },
    }
}

/// A plan is put to the user as it stands in the session's plan file at this moment.
async fn propose_plan(bench: &Bench, arguments: &Json) -> Prepared {
    let workspace = Workspace::at(bench.tools.directory.clone());
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

/// A call that the policy decides about. Its paths are real, so the working directory has to be.
async fn needs(bench: &Bench, wants: PermissionRequest, advice: Advice) -> Prepared {
    let is_write = matches!(wants, PermissionRequest::Write { .. });
    let cwd = if is_write { tokio::fs::canonicalize(prompt::cwd(bench)).await.ok() } else { None };
    Prepared::Runnable { route: Route::BuiltIn, wants: Some(wants), advice, cwd, arguments: None }
}

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

/// Answers calls of tools that there are not. Where there are hooks, they have the first word, as with every call.
pub(super) fn refuse_unknown(bench: &Bench, calls: &[ToolRequest]) -> BTreeMap<ToolCallId, ToolResult> {
    if bench.session.live.clients.values().any(|client| client.hooks) {
        return BTreeMap::new();
    }
    let offered = bench.offered();
    let unknown = calls.iter().filter(|call| offered.iter().all(|tool| tool.name != call.name));
    unknown.map(|call| (call.tool_call_id.clone(), unknown_tool(&call.name, &offered))).collect()
}

fn unknown_tool(name: &str, offered: &[ToolSpec]) -> ToolResult {
    let names: Vec<&str> = offered.iter().map(|tool| tool.name.as_str()).collect();
    let text =
        format!("Tool '{name}' does not exist. Available tools that can be called are {}.", names.join(", "));
    ToolResult { error: Some(format!("Tool '{name}' does not exist.")), ..ToolResult::failure(text) }
}

/// Runs a built-in tool.
pub(super) async fn run(bench: &Bench, key: &CallKey) -> ToolResult {
    let Some(call) = find(bench, key) else { return tools::interrupted() };
    let arguments = call.arguments.clone().unwrap_or_else(Json::empty_object);
    let result = match call.tool.as_str() {
        agents::READ_AGENT => delegate::read(bench, &arguments),
        agents::LIST_AGENTS => delegate::list(bench),
        name => match bench.tools.toolbox.get(name) {
            Some(tool) => run_tracked(bench, &*tool, &context(bench, &call.id).await, &arguments).await,
            None => unknown_tool(name, &[]),
        },
    };
    conclude(bench, &call, &arguments, result).await
}

/// Runs a tool. What the files that it may change were is kept before, if the session tracks files.
async fn run_tracked(bench: &Bench, tool: &dyn Tool, context: &ToolContext, arguments: &Json) -> ToolResult {
    if !bench.session.durable.facts.tracks_files {
        return tool.run(context, arguments).await;
    }
    let watch = match capture::before(bench, tool.touches(context, arguments)).await {
        Ok(watch) => watch,
        Err(failure) => return ToolResult::failure(format!("The tool was not run: {failure}")),
    };
    let result = match bench.cancel.is_cancelled() {
        true => tools::interrupted(),
        false => tool.run(context, arguments).await,
    };
    capture::after(bench, watch).await;
    result
}

/// What becomes of a result that was made elsewhere: by a client, or by a sub-agent.
pub(super) async fn finish(bench: &Bench, key: &CallKey, result: ToolResult) -> ToolResult {
    let Some(call) = find(bench, key) else { return result };
    let arguments = call.arguments.clone().unwrap_or_else(Json::empty_object);
    let result = if result.error.is_some() && result.text_result_for_llm.is_empty() {
        hide_error(&call.tool, &arguments, result)
    } else {
        result
    };
    conclude(bench, &call, &arguments, result).await
}

/// A client whose tool threw says so with an error. What was thrown may hold anything, secrets included: the model is
/// told that it failed, not why.
fn hide_error(tool: &str, arguments: &Json, result: ToolResult) -> ToolResult {
    let text = format!(
        "Failed to execute `{tool}` tool with arguments: {} due to error: Error: Tool execution failed",
        arguments.as_str()
    );
    ToolResult { text_result_for_llm: text, ..result }
}

/// Hooks, then limits: the last things that happen to a result.
async fn conclude(bench: &Bench, call: &Call, arguments: &Json, result: ToolResult) -> ToolResult {
    if bench.cancel.is_cancelled() {
        return result;
    }
    let result = bench.server.secrets.hide(result);
    let result = after_hooks(bench, call, arguments, result).await;
    let large = &bench.settings.large_output;
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
        large.output_dir.as_ref().map_or_else(|| bench.tools.directory.join("temp"), PathBuf::from);
    let text = result.text_result_for_llm.clone();
    let spilled = tokio::task::spawn_blocking(move || spill::apply(text, limit, &directory)).await;
    match spilled {
        Ok(Ok(text)) => ToolResult { text_result_for_llm: text, ..result },
        // A disk that is full must not cost the result: cut it instead.
        _ => {
            let cut: String = result.text_result_for_llm.chars().take(limit).collect();
            ToolResult {
                text_result_for_llm: format!("{cut}\n[cut: the rest could not be stored]"),
                ..result
            }
        }
    }
}

async fn after_hooks(bench: &Bench, call: &Call, arguments: &Json, result: ToolResult) -> ToolResult {
    let common = json!({ "toolName": call.tool, "toolArgs": arguments });
    if result.result_type == ResultType::Success {
        let mut input = common;
        input["toolResult"] = json!(result);
        let Some(output) = hooks::invoke(bench, "postToolUse", input).await else { return result };
        advise(bench, "postToolUse", output.text("additionalContext"));
        return output.json("modifiedResult").and_then(|modified| modified.parse().ok()).unwrap_or(result);
    }
    let mut input = common;
    input["error"] = json!(result.error.as_ref().unwrap_or(&result.text_result_for_llm));
    if let Some(output) = hooks::invoke(bench, "postToolUseFailure", input).await {
        let advice = output.text("additionalContext").map(|advice| {
            let tool = &call.tool;
            format!("Tool \"{tool}\" failed. Additional guidance from postToolUseFailure hooks:\n{advice}")
        });
        advise(bench, "postToolUseFailure", advice);
    }
    result
}

/// Gives the model a hook's advice.
fn advise(bench: &Bench, source: &str, advice: Option<String>) {
    if let Some(content) = advice {
        bench.note_for(bench.agent.clone(), ContextAdded { source: source.to_owned(), content });
    }
}

fn find(bench: &Bench, key: &CallKey) -> Option<Call> {
    bench.session.durable.turn.as_ref()?.call(key).cloned()
}

async fn context(bench: &Bench, id: &ToolCallId) -> ToolContext {
    let (hub, cancel, call) = (bench.hub.clone(), bench.cancel.clone(), id.clone());
    let (server, agent) = (bench.server.clone(), bench.agent.clone());
    let progress = move |output: &str| {
        let partial_output = server.secrets.hide_in(output);
        let partial = ToolPartialResult { tool_call_id: call.clone(), partial_output };
        hub.show_for(agent.as_ref(), [partial.into()], &cancel);
    };
    ToolContext {
        cwd: prompt::cwd(bench),
        session_dir: bench.tools.directory.clone(),
        home: Some(bench.server.options.home.clone()),
        exact_pages: bench.session.durable.rules.are_about_pages(),
        services: bench.tools.services().await,
        call: id.clone(),
        cancel: bench.cancel.clone(),
        progress: Arc::new(progress),
    }
}
