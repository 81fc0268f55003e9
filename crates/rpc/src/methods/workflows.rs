//! Workflows: starting, resuming, reading and cancelling runs, and what their code reports. Methods of older SDKs begin with
//! `session.factory.`, those of newer ones with `session.workflow.`.

mod schema;

use std::sync::Arc;

use baton_core::ask::WithdrawAsk;
use baton_protocol::rpc::{RpcError, code};
use baton_protocol::{Json, SessionId};
use baton_runtime::session::Handle;
use baton_runtime::session::ask::{NewTask, RunTask};
use baton_runtime::workflows::{self as stored, Definition, Limits, Page, ReportedLine, Run, Settled};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Call, Handled};
use crate::connection::Connection;
use crate::errors::CallError;
use crate::workflows::{Execution, MOST_DECLARED, Vocabulary, is_interrupted, settle, show_update};

/// Runs in one page of a list.
const PAGE: usize = 50;

/// Whether a method is about workflows.
pub(super) fn is_method(method: &str) -> bool {
    split(method).is_some()
}

fn split(method: &str) -> Option<(Vocabulary, &str)> {
    let factory = method.strip_prefix("session.factory.").map(|rest| (Vocabulary::Factory, rest));
    factory.or_else(|| method.strip_prefix("session.workflow.").map(|rest| (Vocabulary::Workflow, rest)))
}

/// Calls the handler of a method about workflows.
pub(super) fn route(call: &Call<'_>) -> Handled {
    let Some((vocabulary, name)) = split(call.method) else {
        return Err(RpcError::unknown_method(call.method).into());
    };
    let handle = call.session()?;
    let files = call.runtime().session_files(&handle.id, None);
    let runs = stored::Workflows::new(files.path());
    let scope = Scope { connection: call.connection.clone(), handle, runs, vocabulary };
    match name {
        "run" => start(call, scope),
        "resume" => resume(call, scope),
        "getRun" => one(call, scope, |run, _| run.envelope()),
        "getRunDetail" => {
            one(call, scope, |run, scope| run.detail(scope.vocabulary.name_field(), stored::now()))
        }
        "getRunProgress" => progress(call, scope),
        "listRuns" => list(call, scope),
        "cancel" => cancel(call, scope),
        "log" => log(call, scope),
        "agent" => agent(call, scope),
        "journal.get" => journal_get(call, scope),
        "journal.put" => journal_put(call, scope),
        _ => Err(RpcError::unknown_method(call.method).into()),
    }
}

/// What a method works on.
#[derive(Clone)]
struct Scope {
    connection: Arc<Connection>,
    handle: Handle,
    runs: stored::Workflows,
    vocabulary: Vocabulary,
}

impl Scope {
    /// Reads a run. One that was interrupted is settled as that first.
    async fn read(&self, id: &str) -> Result<Run, CallError> {
        let run = self.runs.get(id).await.map_err(storage)?.ok_or_else(|| not_found(id))?;
        if !self.is_interrupted(&run) {
            return Ok(run);
        }
        let interrupted = Settled::halted("it was interrupted");
        settle(&self.handle, &self.runs, id, interrupted, self.vocabulary).await;
        self.runs.get(id).await.map_err(storage)?.ok_or_else(|| not_found(id))
    }

    fn is_interrupted(&self, run: &Run) -> bool {
        let is_executing = self.execution(&run.id).is_some();
        is_interrupted(&self.connection.runtime, run, is_executing)
    }

    fn execution(&self, run: &str) -> Option<Execution> {
        self.connection.shared.workflows.execution(&self.handle.id, run)
    }

    /// Starts the execution of a run that is stored as running.
    async fn execute(&self, run: &Run) -> Result<(), CallError> {
        let (workflows, runtime) = (&self.connection.shared.workflows, &self.connection.runtime);
        let started = workflows.execute(runtime, &self.handle, self.runs.clone(), run, self.vocabulary);
        if let Err(why) = started {
            settle(&self.handle, &self.runs, &run.id, Settled::halted(&why), self.vocabulary).await;
            return Err(CallError::failed(why));
        }
        show_update(&self.handle, run, self.vocabulary);
        Ok(())
    }

    /// Checks that a report comes from the current execution of a run.
    fn authorise(&self, run: &str, token: &str) -> Result<Execution, CallError> {
        let current = self.execution(run).filter(|execution| execution.token == token);
        current.ok_or_else(|| refused("not_active", format!("run \"{run}\" is not executed with this token")))
    }

    /// Stores a change that the code of a run reports.
    async fn report<R: Send + 'static>(
        &self,
        id: &str,
        change: impl FnOnce(&mut Run) -> R + Clone + Send + 'static,
    ) -> Result<R, CallError> {
        let changed = self.runs.change(id, change).await.map_err(storage)?;
        let (result, run) = changed.ok_or_else(|| not_found(id))?;
        show_update(&self.handle, &run, self.vocabulary);
        Ok(result)
    }

    fn executor(&self) -> Value {
        json!(self.connection.runtime.owner)
    }
}

/// Workflows that a client declares when it joins a session.
pub(super) struct Declared {
    definitions: Vec<Definition>,
    vocabulary: Vocabulary,
}

#[derive(Deserialize)]
struct DeclaredParams {
    factories: Option<Vec<Definition>>,
    workflows: Option<Vec<Definition>>,
}

impl Declared {
    /// Parses the declarations of a call.
    pub(super) fn of(call: &Call<'_>) -> Result<Self, CallError> {
        let DeclaredParams { factories, workflows } = call.parse()?;
        let vocabulary = if workflows.is_some() { Vocabulary::Workflow } else { Vocabulary::Factory };
        let definitions = workflows.or(factories).unwrap_or_default();
        if definitions.len() > MOST_DECLARED {
            return Err(CallError::invalid(format!("more than {MOST_DECLARED} workflows are declared")));
        }
        for definition in &definitions {
            if definition.name.is_empty() {
                return Err(CallError::invalid("a workflow has no name"));
            }
            let checked = definition.limits.check();
            checked.map_err(|why| CallError::invalid(format!("workflow {:?}: {why}", definition.name)))?;
        }
        Ok(Self { definitions, vocabulary })
    }

    /// Registers them for a client that has joined.
    pub(super) fn register(self, connection: &Arc<Connection>, session: &SessionId) {
        if !self.definitions.is_empty() {
            let workflows = &connection.shared.workflows;
            workflows.declare(session, connection, self.definitions, self.vocabulary);
        }
    }
}

#[derive(Deserialize)]
struct Start {
    name: String,
    #[serde(default)]
    args: Option<Json>,
    #[serde(default)]
    options: Option<StartOptions>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct StartOptions {
    limits: Option<Limits>,
    resume_from_run_id: Option<String>,
}

/// Starts a run. Replies when it is durable, before it has ended.
fn start(call: &Call<'_>, scope: Scope) -> Handled {
    let Start { name, args, options } = call.parse()?;
    let options = options.unwrap_or_default();
    let limits = options.limits.unwrap_or_default();
    limits.check().map_err(|why| refused("factory_limits_invalid", why))?;
    check_room(&scope)?;
    if let Some(run) = options.resume_from_run_id {
        return call.later(async move { Ok(resumed(&scope, &run, limits).await?.envelope()) });
    }
    let workflows = &scope.connection.shared.workflows;
    let Some(definition) = workflows.definition(&scope.handle.id, &name) else {
        return Err(refused(
            "factory_not_found",
            format!("no attached client has a workflow named {name:?}"),
        ));
    };
    if args.as_ref().is_some_and(|args| args.as_str().len() > stored::LARGEST_RESULT) {
        let most = stored::LARGEST_RESULT;
        return Err(CallError::invalid(format!("the arguments of a workflow have more than {most} bytes")));
    }
    let args = args.and_then(|args| args.parse::<Value>().ok()).unwrap_or_else(|| json!({}));
    call.later(async move {
        let limits = definition.limits.replaced_by(limits);
        let mut run = Run::new(uuid::Uuid::now_v7().to_string(), definition, args, limits, stored::now());
        run.executor = scope.executor();
        scope.runs.add(run.clone()).await.map_err(storage)?;
        scope.execute(&run).await?;
        Ok(run.envelope())
    })
}

fn check_room(scope: &Scope) -> Result<(), CallError> {
    match scope.connection.shared.workflows.has_room(&scope.handle.id) {
        true => Ok(()),
        false => {
            Err(refused("factory_already_running", "too many workflows of this session are running".into()))
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resume {
    run_id: String,
    limits: Option<Limits>,
}

/// Starts a run again that has failed or was interrupted, with its arguments and journal.
fn resume(call: &Call<'_>, scope: Scope) -> Handled {
    let Resume { run_id, limits } = call.parse()?;
    let limits = limits.unwrap_or_default();
    limits.check().map_err(|why| refused("factory_limits_invalid", why))?;
    check_room(&scope)?;
    call.later(async move {
        let run = resumed(&scope, &run_id, limits).await?;
        Ok(json!({ scope.vocabulary.name_field(): run.definition.name, "run": run.envelope() }))
    })
}

async fn resumed(scope: &Scope, id: &str, limits: Limits) -> Result<Run, CallError> {
    scope.read(id).await?;
    let (executor, now) = (scope.executor(), stored::now());
    let resume = move |run: &mut Run| {
        run.resume(limits, now)?;
        run.executor = executor;
        Ok::<(), (&'static str, String)>(())
    };
    let (resumed, run) =
        scope.runs.change(id, resume).await.map_err(storage)?.ok_or_else(|| not_found(id))?;
    resumed.map_err(|(code, why)| refused(code, why))?;
    scope.execute(&run).await?;
    Ok(run)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    run_id: String,
}

/// Answers from one run.
fn one(call: &Call<'_>, scope: Scope, show: impl FnOnce(&Run, &Scope) -> Value + Send + 'static) -> Handled {
    let Named { run_id } = call.parse()?;
    call.later(async move { Ok(show(&scope.read(&run_id).await?, &scope)) })
}

fn progress(call: &Call<'_>, scope: Scope) -> Handled {
    let page: Page = call.parse()?;
    one(call, scope, move |run, _| run.progress(&page))
}

#[derive(Deserialize)]
struct ListParams {
    limit: Option<usize>,
}

/// Lists the newest runs, the newest first.
fn list(call: &Call<'_>, scope: Scope) -> Handled {
    let limit = call.parse::<ListParams>()?.limit.unwrap_or(PAGE).clamp(1, PAGE);
    call.later(async move {
        let all = scope.runs.list().await.map_err(storage)?;
        let omitted = all.len().saturating_sub(limit);
        let mut shown = Vec::new();
        for run in all.iter().rev().take(limit) {
            let run = scope.read(&run.id).await?;
            shown.push(run.summary(scope.vocabulary.name_field(), stored::now()));
        }
        Ok(json!({ "runs": shown, "hasMoreNewer": false, "omittedOlder": omitted }))
    })
}

/// Cancels a run. Replies with its outcome, which may be another if it ended first.
fn cancel(call: &Call<'_>, scope: Scope) -> Handled {
    let Named { run_id } = call.parse()?;
    call.later(async move {
        scope.connection.shared.workflows.cancel(&scope.handle.id, &run_id).await;
        Ok(scope.read(&run_id).await?.envelope())
    })
}

/// A report of the code of a run.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    run_id: String,
    execution_token: String,
}

fn reported<T: DeserializeOwned>(call: &Call<'_>, scope: &Scope) -> Result<(String, T), CallError> {
    let Report { run_id, execution_token } = call.parse()?;
    scope.authorise(&run_id, &execution_token)?;
    Ok((run_id, call.parse()?))
}

#[derive(Deserialize)]
struct Lines {
    lines: Vec<ReportedLine>,
}

fn log(call: &Call<'_>, scope: Scope) -> Handled {
    let (id, Lines { lines }) = reported(call, &scope)?;
    call.later(async move {
        let now = stored::now();
        scope.report(&id, move |run| run.report(lines, now)).await?;
        Ok(json!({}))
    })
}

#[derive(Deserialize)]
struct Key {
    key: String,
}

fn journal_get(call: &Call<'_>, scope: Scope) -> Handled {
    let (id, Key { key }) = reported(call, &scope)?;
    call.later(async move {
        let run = scope.runs.get(&id).await.map_err(storage)?.ok_or_else(|| not_found(&id))?;
        Ok(match run.journaled(&key) {
            Some(result) => json!({ "hit": true, "resultJson": result }),
            None => json!({ "hit": false }),
        })
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    key: String,
    #[serde(default)]
    result_json: Value,
}

fn journal_put(call: &Call<'_>, scope: Scope) -> Handled {
    let (id, Entry { key, result_json }) = reported(call, &scope)?;
    call.later(async move {
        let now = stored::now();
        let put = scope.report(&id, move |run| run.journal(key, result_json, now)).await?;
        put.map_err(CallError::failed)?;
        Ok(json!({}))
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AgentTask {
    #[serde(alias = "workflowRunId", alias = "runId")]
    factory_run_id: String,
    execution_token: String,
    prompt: String,
    #[serde(default)]
    opts: Option<AgentOptions>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct AgentOptions {
    label: Option<String>,
    schema: Option<Value>,
    model: Option<String>,
    agent: Option<String>,
}

/// Runs a sub-agent for the code of a run, and replies with its answer. It ends with the execution.
fn agent(call: &Call<'_>, scope: Scope) -> Handled {
    let AgentTask { factory_run_id: id, execution_token, prompt, opts } = call.parse()?;
    let execution = scope.authorise(&id, &execution_token)?;
    let AgentOptions { label, schema, model, agent } = opts.unwrap_or_default();
    let task = NewTask {
        agent_type: agent.unwrap_or_else(|| "general-purpose".into()),
        prompt: schema::prompt(prompt, schema.as_ref()),
        description: label.clone(),
        name: label,
        model,
    };
    call.later(async move {
        let _permit = tokio::select! {
            permit = execution.agents.clone().acquire_owned() => permit.map_err(CallError::failed)?,
            () = execution.ended() => return Err(refused("not_active", "the run has ended".into())),
        };
        let now = stored::now();
        if !scope.report(&id, move |run| run.spawn(now)).await? {
            return Err(refused("factory_limit_reached", "the limit maxTotalSubagents was reached".into()));
        }
        let key = format!("workflow {id} {}", uuid::Uuid::new_v4());
        let running = scope.handle.ask(RunTask { task: Box::new(task), key: key.clone() });
        let report = tokio::select! {
            report = running => report.map_err(CallError::verbatim)?,
            () = execution.ended() => {
                // A session that has ended has no agents.
                let _ = scope.handle.ask(WithdrawAsk { key }).await;
                return Err(refused("not_active", "the run has ended".into()));
            }
        };
        match (report.error, schema) {
            (Some(error), _) => Err(CallError::failed(error)),
            (None, None) => Ok(json!({ "result": report.answer })),
            (None, Some(schema)) => match schema::parse(&report.answer, &schema) {
                Ok(result) => Ok(json!({ "result": result })),
                Err(why) => Err(CallError::failed(why)),
            },
        }
    })
}

/// Builds an error with a code that SDKs compare.
fn refused(name: &str, why: String) -> CallError {
    let data = Some(Json::from(json!({ "code": name })));
    CallError::Rpc(RpcError { data, ..RpcError::new(code::INVALID_PARAMS, why) })
}

fn not_found(id: &str) -> CallError {
    refused("not_found", format!("this session has no run \"{id}\""))
}

fn storage(why: String) -> CallError {
    refused("factory_storage_unavailable", why)
}
