//! Asks that need a session's tools or model. They are served beside the session, which continues meanwhile.

use baton_addons::Awaited;
use baton_agent::prompt::instructions::{self, Instruction};
use baton_agent::tools::agents::{Task, TaskMode};
use baton_ask::extensions::{ExtensionsAsk, ExtensionsReply, StartExtensions};
use baton_ask::files::{FilesAsk, FilesReply};
use baton_ask::mcp::{CallMcpTool, McpAsk, McpReply, McpSampled};
use baton_ask::{self as asks, AskMessage, BesideAsk, CommandRun, Configure, NewTask, ReplyMessage};
use baton_core::ask::{Amend, AnswerRequest, RunAgent, StartAgent};
use baton_core::{AnswerOutcome, Change, ClientRequest, Handoff, RequestAnswer, policy};
use baton_disk::blocking;
use baton_git::program::{Base, difference};
use baton_protocol::event::{ShellRun, ShellStarted};
use baton_protocol::{Json, RequestId};
use baton_providers::ModelCaller;
use tracing::Instrument;

use super::user_commands::UserCommand;
use super::{
    WorkScope, compact, files, mcp_calls, model_call, prompt, sampling, side_question, skills, sub_agents,
    tool_list, window, workflows,
};
use crate::session::{Failure, Respond, Responder};

/// Prompt for the summary of a conversation that a different user or agent takes over.
const HANDOFF: &str = "Summarise this conversation in Markdown for a colleague who takes it over: what is wanted, what \
was done, what was found out, what is left. Call no tools.";

/// Returns whether the conversation must be loaded before the ask is served.
pub(crate) fn needs_conversation(ask: &AskMessage) -> bool {
    matches!(
        ask,
        AskMessage::Beside(
            BesideAsk::MeasureContext(_)
                | BesideAsk::AskAside(_)
                | BesideAsk::SummariseForHandoff(_)
                | BesideAsk::CompactNow(_)
        )
    )
}

/// Serves an ask: immediately where that cannot block, otherwise in a tracked task.
pub(crate) fn serve(scope: WorkScope, ask: AskMessage, respond: Responder) {
    match ask {
        AskMessage::Beside(BesideAsk::ListTools(_)) => {
            let tools = tool_list::main_tools(&scope.session, &scope.settings, &scope.tools);
            Respond::<asks::ListTools>::new(respond).with(Ok(tools));
        }
        AskMessage::Beside(BesideAsk::EndCommand(ask)) => {
            let ended = scope.tools.end_named(&ask.name);
            Respond::<asks::EndCommand>::new(respond).with(Ok(ended));
        }
        AskMessage::Beside(BesideAsk::ListBackground(_)) => {
            let commands = scope.tools.background();
            Respond::<asks::ListBackground>::new(respond).with(Ok(commands));
        }
        AskMessage::Beside(BesideAsk::ForgetBackground(ask)) => {
            let forgotten = scope.tools.forget_background(&ask.id);
            Respond::<asks::ForgetBackground>::new(respond).with(Ok(forgotten));
        }
        AskMessage::Beside(BesideAsk::RevealEndpoint(ask)) => {
            let endpoint = reveal(&scope, ask.model.as_deref());
            Respond::<asks::RevealEndpoint>::new(respond).with(endpoint);
        }
        AskMessage::Extensions(ask) => {
            // At once, in order with clients that leave.
            let serving = use_extensions(&scope, ask);
            let serve = async move { respond.reply(refusable(serving.await, ReplyMessage::Extensions)) };
            scope.runtime.tasks.spawn(serve.in_current_span());
        }
        ask => {
            let tasks = scope.runtime.tasks.clone();
            tasks.spawn(serve_later(scope, ask, respond).in_current_span());
        }
    }
}

/// Wraps the reply of a family; a failure is a refusal.
fn refusable<R>(reply: Result<R, String>, wrap: fn(R) -> ReplyMessage) -> Result<ReplyMessage, Failure> {
    reply.map(wrap).map_err(Failure::Refused)
}

async fn serve_later(scope: WorkScope, ask: AskMessage, respond: Responder) {
    match ask {
        AskMessage::Beside(ask) => serve_beside(scope, ask, respond).await,
        AskMessage::Files(ask) => {
            respond.reply(refusable(use_files(&scope, ask).await, ReplyMessage::Files));
        }
        AskMessage::Mcp(ask) => respond.reply(refusable(mcp(&scope, ask).await, ReplyMessage::Mcp)),
        AskMessage::Skills(ask) => {
            respond.reply(refusable(skills::serve(&scope, ask).await, ReplyMessage::Skills));
        }
        AskMessage::Workflows(ask) => {
            respond.reply(Ok(ReplyMessage::Workflows(workflows::serve(&scope, ask).await)));
        }
        // Served by the actor, and by `serve`.
        AskMessage::Core(_) | AskMessage::Actor(_) | AskMessage::Extensions(_) => {}
    }
}

async fn serve_beside(scope: WorkScope, ask: BesideAsk, respond: Responder) {
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
            let todos = scope.tools.todos(&scope.runtime.stopping).await.map_err(Failure::Refused);
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

/// Serves an ask about extensions. Starts only for a client that is attached: they end when it leaves.
fn use_extensions(scope: &WorkScope, ask: ExtensionsAsk) -> Awaited<Result<ExtensionsReply, String>> {
    let Some(host) = scope.runtime.extension_host() else {
        return Box::pin(async { Err("Extensions not available".into()) });
    };
    let ExtensionsAsk::StartExtensions(StartExtensions { client, sdk }) = ask else {
        return host.serve(&scope.handle(), ask);
    };
    if !scope.session.live.clients.contains_key(&client) {
        return Box::pin(async { Err("the client has left the session".into()) });
    }
    let started = host.start(&scope.handle(), client, sdk);
    Box::pin(async move {
        started.await;
        Ok(ExtensionsReply::StartExtensions(Box::new(())))
    })
}

/// Serves an ask about files. A change is shared before it is acknowledged.
async fn use_files(scope: &WorkScope, ask: FilesAsk) -> Result<FilesReply, String> {
    let (files, changes) = (scope.tools.files().clone(), ask.changes());
    let served = tokio::task::spawn_blocking(move || files::serve(ask, &files)).await;
    let reply = served.map_err(|error| error.to_string()).flatten()?;
    if changes {
        scope.tools.share().push().await.map_err(|error| error.to_string())?;
    }
    Ok(reply)
}

/// Serves an ask about MCP servers. A call for an app was made by a client, so only deny rules apply.
async fn mcp(scope: &WorkScope, ask: McpAsk) -> Result<McpReply, String> {
    match &ask {
        McpAsk::CallMcpTool(CallMcpTool { server, tool, arguments })
            if policy::is_denied(
                &mcp_calls::wanted(None, server, tool, arguments),
                &scope.session.durable.rules,
            ) =>
        {
            return Err(format!("a deny rule forbids to call {tool} of the MCP server {server}"));
        }
        McpAsk::ApproveMcpSampling(ask) => {
            approve_sampling(scope, &ask.request).await?;
            return Ok(McpReply::ApproveMcpSampling(Box::new(())));
        }
        McpAsk::SampleForMcpServer(ask) => {
            let sampled = sampling::execute(scope, &ask.request).await;
            return Ok(McpReply::SampleForMcpServer(Box::new(sampled)));
        }
        _ => {}
    }
    let edit = ask.settings_edit();
    let served = scope.tools.mcp().serve(&scope.settings, prompt::cwd(scope), ask).await?;
    if let Some(edit) = edit {
        let configured = scope.handle().ask(Configure { edit: Box::new(edit) }).await;
        configured.map_err(|failure| failure.to_string())?;
    }
    Ok(served)
}

/// Has the model answer a pending request of a server. The answer counts if nobody was faster.
async fn approve_sampling(scope: &WorkScope, request: &str) -> Result<(), String> {
    let id = RequestId(request.to_owned());
    let Some(ClientRequest::Sample(_, asked)) = scope.session.live.asks.get(&id) else {
        return Err(format!("no such pending request: {request}"));
    };
    let result = match sampling::execute(scope, &asked.request).await {
        McpSampled::Success { result } => result,
        McpSampled::Failure { error } => return Err(error),
    };
    let answer = Box::new(RequestAnswer::Sampling(Some(Json::from(result))));
    let outcome = scope.handle().ask(AnswerRequest { request: id, answer, by: None }).await;
    match outcome.map_err(|failure| failure.to_string())? {
        AnswerOutcome::Counted => Ok(()),
        _ => Err("the request was already answered or withdrawn".into()),
    }
}

async fn start_command(scope: &WorkScope, ask: asks::StartCommand) -> Result<(), Failure> {
    let elsewhere = ask.cwd.as_ref().map(|cwd| cwd.display().to_string());
    let cwd = ask.cwd.unwrap_or_else(|| scope.session.durable.facts.context.cwd.clone().into());
    if !baton_files::context::is_directory(cwd.clone()).await {
        return Err(Failure::Refused(format!("{} is not a directory", cwd.display())));
    }
    let command = UserCommand::new(&scope.session, cwd, ask.command.clone());
    if command.leaves_workspace(&scope.session).await {
        let cwd = command.cwd.display();
        return Err(Failure::Refused(format!(
            "{cwd} is outside of the directory that the sandbox of the session opens"
        )));
    }
    scope.tools.services_for(&scope.settings).await;
    let started = ShellStarted { command: ask.command, cwd: elsewhere, by: ask.by };
    scope.handle().ask(Amend::unsigned(Change::Noted(Box::new(started.into())))).await?;
    scope.tools.start_named(ask.name, command, ask.limit);
    Ok(())
}

/// Runs a command of a user. One that exits is recorded with its output, so that the model sees it with the next prompt; of one
/// that was stopped, only that it was started.
async fn run_command(scope: &WorkScope, ask: asks::RunCommand) -> Option<CommandRun> {
    let cwd = scope.session.durable.facts.context.cwd.clone();
    let command = UserCommand::new(&scope.session, cwd.into(), ask.command.clone());
    scope.tools.services_for(&scope.settings).await;
    let ran = scope.tools.run_named(&ask.name, command).await?;
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
