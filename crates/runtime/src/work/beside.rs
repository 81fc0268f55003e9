//! Asks that need a session's tools or model. They are served beside the session, which continues meanwhile.

use baton_addons::Awaited;
use baton_agent::blocking;
use baton_agent::prompt::instructions::{self, Instruction};
use baton_agent::tools::agents::{Task, TaskMode};
use baton_core::ask::{Amend, AnswerRequest, RunAgent, StartAgent};
use baton_core::{AnswerOutcome, Change, ClientRequest, Handoff, RequestAnswer, policy};
use baton_git::program::{Base, difference};
use baton_handle::CommandRun;
use baton_protocol::event::{ShellRun, ShellStarted};
use baton_protocol::{Json, RequestId};
use baton_providers::ModelCaller;
use tracing::Instrument;

use super::{
    WorkScope, compact, mcp_calls, model_call, prompt, sampling, side_question, skills, sub_agents,
    tool_list, window, workflows,
};
use crate::extensions::ExtensionRequest;
use crate::mcp::McpRequest;
use crate::session::Failure;
use crate::session::ask::{BesideAsk, Configure, NewTask};
use crate::session::file_requests::{FileReply, FileRequest};
use crate::session::{Respond, Responder};

/// Prompt for the summary of a conversation that a different user or agent takes over.
const HANDOFF: &str = "Summarise this conversation in Markdown for a colleague who takes it over: what is wanted, what \
was done, what was found out, what is left. Call no tools.";

/// Returns whether the conversation must be loaded before the ask is served.
pub(crate) fn needs_conversation(ask: &BesideAsk) -> bool {
    match ask {
        BesideAsk::MeasureContext(_)
        | BesideAsk::AskAside(_)
        | BesideAsk::SummariseForHandoff(_)
        | BesideAsk::CompactNow(_) => true,
        BesideAsk::Mcp(_)
        | BesideAsk::Skills(_)
        | BesideAsk::UseExtensions(_)
        | BesideAsk::UseWorkflows(_)
        | BesideAsk::ListTools(_)
        | BesideAsk::StartCommand(_)
        | BesideAsk::RunCommand(_)
        | BesideAsk::EndCommand(_)
        | BesideAsk::ListBackground(_)
        | BesideAsk::EndBackground(_)
        | BesideAsk::ForgetBackground(_)
        | BesideAsk::ListTodos(_)
        | BesideAsk::GitDiff(_)
        | BesideAsk::ListInstructions(_)
        | BesideAsk::UseFiles(_)
        | BesideAsk::StartTask(_)
        | BesideAsk::RunTask(_)
        | BesideAsk::RevealEndpoint(_) => false,
    }
}

/// Serves an ask: immediately where that cannot block, otherwise in a tracked task.
pub(crate) fn serve(scope: WorkScope, ask: BesideAsk, respond: Responder) {
    match ask {
        BesideAsk::ListTools(_) => {
            let tools = tool_list::main_tools(&scope.session, &scope.settings, &scope.tools);
            Respond::<crate::session::ask::ListTools>::new(respond).with(Ok(tools));
        }
        BesideAsk::EndCommand(ask) => {
            let ended = scope.tools.end_named(&ask.name);
            Respond::<crate::session::ask::EndCommand>::new(respond).with(Ok(ended));
        }
        BesideAsk::ListBackground(_) => {
            let commands = scope.tools.background();
            Respond::<crate::session::ask::ListBackground>::new(respond).with(Ok(commands));
        }
        BesideAsk::ForgetBackground(ask) => {
            let forgotten = scope.tools.forget_background(&ask.id);
            Respond::<crate::session::ask::ForgetBackground>::new(respond).with(Ok(forgotten));
        }
        BesideAsk::UseExtensions(ask) => {
            // At once, in order with clients that leave.
            let serving = use_extensions(&scope, *ask.request);
            let respond = Respond::<crate::session::ask::UseExtensions>::new(respond);
            scope.runtime.tasks.spawn(async move { respond.with(Ok(serving.await)) }.in_current_span());
        }
        BesideAsk::RevealEndpoint(ask) => {
            let endpoint = reveal(&scope, ask.model.as_deref());
            Respond::<crate::session::ask::RevealEndpoint>::new(respond).with(endpoint);
        }
        ask => {
            let tasks = scope.runtime.tasks.clone();
            tasks.spawn(serve_later(scope, ask, respond).in_current_span());
        }
    }
}

async fn serve_later(scope: WorkScope, ask: BesideAsk, respond: Responder) {
    use crate::session::ask as asks;
    match ask {
        BesideAsk::StartCommand(ask) => {
            Respond::<asks::StartCommand>::new(respond).with(start_command(&scope, ask).await);
        }
        BesideAsk::RunCommand(ask) => {
            let ran = run_command(&scope, ask).await;
            Respond::<asks::RunCommand>::new(respond).with(Ok(ran));
        }
        BesideAsk::EndBackground(ask) => {
            let ended = scope.tools.end_background(&ask.id).await;
            Respond::<asks::EndBackground>::new(respond).with(Ok(ended));
        }
        BesideAsk::ListTodos(_) => {
            let tools = scope.tools.clone();
            let read = baton_tasks::spawn_blocking(move || tools.todos()).await;
            let todos = read.map_err(|error| error.to_string()).flatten().map_err(Failure::Refused);
            Respond::<asks::ListTodos>::new(respond).with(todos);
        }
        BesideAsk::GitDiff(ask) => {
            let base = if ask.from_fork { Base::ForkPoint } else { Base::Index };
            let environment = &scope.runtime.options.environment;
            let found = difference(prompt::cwd(&scope), environment, base, ask.ignore_whitespace).await;
            Respond::<asks::GitDiff>::new(respond).with(Ok((found.branch.map(str::to_owned), found.text)));
        }
        BesideAsk::ListInstructions(_) => {
            Respond::<asks::ListInstructions>::new(respond).with(instructions(&scope).await);
        }
        BesideAsk::UseFiles(ask) => {
            Respond::<asks::UseFiles>::new(respond).with(Ok(use_files(&scope, *ask.request).await));
        }
        BesideAsk::MeasureContext(_) => {
            let measured = window::measure(&scope).await.map_err(|error| Failure::Refused(error.message));
            Respond::<asks::MeasureContext>::new(respond).with(measured);
        }
        BesideAsk::AskAside(ask) => {
            let answer = side_question::ask(&scope, &ask.question).await;
            Respond::<asks::AskAside>::new(respond)
                .with(answer.map_err(|error| Failure::Refused(error.message)));
        }
        BesideAsk::SummariseForHandoff(_) => {
            let summary = match scope.conversation.transcript().is_empty() {
                true => String::new(),
                false => side_question::ask(&scope, HANDOFF).await.unwrap_or_default(),
            };
            Respond::<asks::SummariseForHandoff>::new(respond).with(Ok(summary));
        }
        BesideAsk::CompactNow(ask) => {
            Respond::<asks::CompactNow>::new(respond).with(compact::compact_now(&scope, ask.options).await);
        }
        BesideAsk::Mcp(ask) => {
            let reply = mcp(&scope, *ask.request).await;
            Respond::<asks::Mcp>::new(respond).with(reply.map_err(Failure::Refused));
        }
        BesideAsk::Skills(ask) => {
            let reply = skills::serve(&scope, *ask.request).await;
            Respond::<asks::Skills>::new(respond).with(reply.map_err(Failure::Refused));
        }
        BesideAsk::UseWorkflows(ask) => {
            Respond::<asks::UseWorkflows>::new(respond)
                .with(Ok(workflows::serve(&scope, *ask.request).await));
        }
        BesideAsk::StartTask(ask) => {
            let started = match prepare_task(&scope, *ask.task).await {
                Ok(task) => scope.handle().ask(StartAgent { task }).await,
                Err(failure) => Err(failure),
            };
            Respond::<asks::StartTask>::new(respond).with(started);
        }
        BesideAsk::RunTask(ask) => {
            let run = match prepare_task(&scope, *ask.task).await {
                Ok(task) => scope.handle().ask(RunAgent { task, key: ask.key }).await,
                Err(failure) => Err(failure),
            };
            Respond::<asks::RunTask>::new(respond).with(run);
        }
        // Served by `serve`.
        BesideAsk::ListTools(_)
        | BesideAsk::EndCommand(_)
        | BesideAsk::ListBackground(_)
        | BesideAsk::ForgetBackground(_)
        | BesideAsk::UseExtensions(_)
        | BesideAsk::RevealEndpoint(_) => {}
    }
}

/// Finds the instruction files of the session.
async fn instructions(scope: &WorkScope) -> Result<Vec<Instruction>, Failure> {
    let settings = scope.settings.clone();
    if settings.skip_custom_instructions {
        return Ok(Vec::new());
    }
    let context = scope.session.durable.facts.context.clone();
    let home = settings.discovers().then(|| scope.runtime.options.home.clone());
    let find = move || {
        let root = context.git_root.as_deref().map(AsRef::as_ref);
        let directories = &settings.instruction_directories;
        instructions::find(context.cwd.as_ref(), root, directories, home.as_deref()).instructions
    };
    blocking::run(find).await.map_err(|error| Failure::Refused(error.to_string()))
}

/// Serves a request about extensions. Starts only for a client that is attached: they end when it leaves.
fn use_extensions(
    scope: &WorkScope,
    request: ExtensionRequest,
) -> Awaited<Result<serde_json::Value, String>> {
    let Some(host) = scope.runtime.extension_host() else {
        return Box::pin(async { Err("Extensions not available".into()) });
    };
    match request {
        ExtensionRequest::Start { client, sdk } => {
            if !scope.session.live.clients.contains_key(&client) {
                return Box::pin(async { Err("the client has left the session".into()) });
            }
            let started = host.start(&scope.handle(), client, sdk);
            Box::pin(async move {
                started.await;
                Ok(serde_json::Value::Null)
            })
        }
        request => host.serve(&scope.handle(), request),
    }
}

/// Serves a request about files. A change is shared before it is acknowledged.
async fn use_files(scope: &WorkScope, request: FileRequest) -> Result<FileReply, String> {
    let (files, changes) = (scope.tools.files().clone(), request.changes());
    let served = baton_tasks::spawn_blocking(move || request.serve(&files)).await;
    let reply = served.map_err(|error| error.to_string()).flatten()?;
    if changes {
        scope.tools.share().push().await.map_err(|error| error.to_string())?;
    }
    Ok(reply)
}

/// Serves a request about MCP servers. A call for an app was made by a client, so only deny rules apply.
async fn mcp(scope: &WorkScope, request: McpRequest) -> Result<serde_json::Value, String> {
    match &request {
        McpRequest::CallTool { server, tool, arguments }
            if policy::is_denied(
                &mcp_calls::wanted(None, server, tool, arguments),
                &scope.session.durable.rules,
            ) =>
        {
            return Err(format!("a deny rule forbids to call {tool} of the MCP server {server}"));
        }
        McpRequest::ApproveSampling { request } => return approve_sampling(scope, request).await,
        McpRequest::Sample { request } => return Ok(sampling::execute(scope, request).await),
        _ => {}
    }
    let edit = request.settings_edit();
    let served = scope.tools.mcp().serve(&scope.settings, prompt::cwd(scope), request).await?;
    if let Some(edit) = edit {
        let configured = scope.handle().ask(Configure { edit: Box::new(edit) }).await;
        configured.map_err(|failure| failure.to_string())?;
    }
    Ok(served)
}

/// Has the model answer a pending request of a server. The answer counts if nobody was faster.
async fn approve_sampling(scope: &WorkScope, request: &str) -> Result<serde_json::Value, String> {
    let id = RequestId(request.to_owned());
    let Some(ClientRequest::Sample(_, asked)) = scope.session.live.asks.get(&id) else {
        return Err(format!("no such pending request: {request}"));
    };
    let ran = sampling::execute(scope, &asked.request).await;
    let result = ran.get("result").ok_or_else(|| {
        let error = ran.get("error").and_then(|error| error.as_str());
        error.unwrap_or("the model did not answer").to_owned()
    })?;
    let answer = Box::new(RequestAnswer::Sampling(Some(Json::from(result.clone()))));
    let outcome = scope.handle().ask(AnswerRequest { request: id, answer, by: None }).await;
    match outcome.map_err(|failure| failure.to_string())? {
        AnswerOutcome::Counted => Ok(serde_json::json!({ "success": true })),
        _ => Err("the request was already answered or withdrawn".into()),
    }
}

async fn start_command(scope: &WorkScope, ask: crate::session::ask::StartCommand) -> Result<(), Failure> {
    let elsewhere = ask.cwd.as_ref().map(|cwd| cwd.display().to_string());
    let cwd = ask.cwd.unwrap_or_else(|| scope.session.durable.facts.context.cwd.clone().into());
    if !crate::context::is_directory(cwd.clone()).await {
        return Err(Failure::Refused(format!("{} is not a directory", cwd.display())));
    }
    let started = ShellStarted { command: ask.command.clone(), cwd: elsewhere, by: ask.by };
    scope.handle().ask(Amend::unsigned(Change::Noted(Box::new(started.into())))).await?;
    scope.tools.start_named(ask.name, cwd, ask.command, ask.limit);
    Ok(())
}

/// Runs a command of a user. One that exits is recorded with its output, so that the model sees it with the next prompt; of one
/// that was stopped, only that it was started.
async fn run_command(scope: &WorkScope, ask: crate::session::ask::RunCommand) -> Option<CommandRun> {
    let cwd = scope.session.durable.facts.context.cwd.clone();
    let ran = scope.tools.run_named(&ask.name, cwd.into(), &ask.command).await?;
    match ran.exit_code {
        Some(exit_code) => {
            scope.note(ShellRun { command: ask.command, output: ran.output.clone(), exit_code, by: ask.by });
        }
        None => scope.note(ShellStarted { command: ask.command, cwd: None, by: ask.by }),
    }
    Some(ran)
}

fn reveal(scope: &WorkScope, model: Option<&str>) -> Result<serde_json::Value, Failure> {
    let model = model.or(scope.session.durable.facts.model.as_deref());
    let caller = ModelCaller { agent: None, model, ..model_call::caller(scope) };
    let revealed = scope.runtime.models.reveal(&caller);
    let endpoint = revealed.map_err(|error| Failure::Refused(error.to_string()))?;
    endpoint.ok_or_else(|| Failure::Refused("the demo model has no endpoint".into()))
}

async fn prepare_task(scope: &WorkScope, new: NewTask) -> Result<Box<Handoff>, Failure> {
    let kinds = scope.settings.agent_kinds();
    let Some(kind) = kinds.iter().find(|kind| kind.name == new.agent_type) else {
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
        let why = format!("Unknown agent type: {}. Valid types: {}", new.agent_type, names.join(", "));
        return Err(Failure::Refused(why));
    };
    if let Some(model) = &new.model {
        check_model(scope, model).await.map_err(Failure::Refused)?;
    }
    let task = Task {
        agent_type: new.agent_type,
        name: new.name,
        description: new.description.unwrap_or_default(),
        prompt: new.prompt,
        mode: TaskMode::Background,
        model: new.model,
    };
    Ok(Box::new(sub_agents::delegation(scope, task, kind).await))
}

/// Checks that a model exists, as far as that is known: the models of a client's own provider are not listed here.
async fn check_model(scope: &WorkScope, model: &str) -> Result<(), String> {
    let settings = &scope.settings;
    if settings.provider.is_some() || settings.models.iter().any(|known| known.selection() == model) {
        return Ok(());
    }
    let known = scope.runtime.models.list().await.unwrap_or_default();
    let known: Vec<&str> = known.iter().filter_map(|entry| entry.get("id")?.as_str()).collect();
    if known.is_empty() || known.contains(&model) {
        return Ok(());
    }
    Err(format!("Model '{model}' is not available. Available models: {}", known.join(", ")))
}
