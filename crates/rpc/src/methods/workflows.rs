//! Workflows: starting, resuming, reading and cancelling runs, and what their code reports. Methods of older SDKs begin with
//! `session.factory.`, those of newer ones with `session.workflow.`.
//!
//! The session serves them, wherever it is ([`UseWorkflows`]).

mod schema;

use baton_protocol::Json;
use baton_protocol::params::SessionParams;
use baton_protocol::rpc::{RpcError, code};
use baton_protocol::workflow::{Limits, Vocabulary};
use baton_runtime::session::ask::UseWorkflows;
use baton_runtime::workflows::{
    self as stored, AgentTask, Page, ReportedLine, WorkflowAction, WorkflowError,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handled};
use crate::errors::CallError;

/// Most workflows that one client may declare.
const MOST_DECLARED: usize = 200;
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
    match name {
        "run" => start(call, vocabulary),
        "resume" => {
            let Resume { run_id: run, limits } = call.parse()?;
            ask(call, vocabulary, WorkflowAction::Resume { run, limits: checked(limits)? }, Ok)
        }
        "getRun" => {
            let Named { run_id: run } = call.parse()?;
            ask(call, vocabulary, WorkflowAction::Get { run }, Ok)
        }
        "getRunDetail" => {
            let Named { run_id: run } = call.parse()?;
            ask(call, vocabulary, WorkflowAction::Describe { run }, Ok)
        }
        "getRunProgress" => {
            let Named { run_id: run } = call.parse()?;
            let page: Page = call.parse()?;
            ask(call, vocabulary, WorkflowAction::Progress { run, page }, Ok)
        }
        "listRuns" => {
            let limit = call.parse::<ListParams>()?.limit.unwrap_or(PAGE).clamp(1, PAGE);
            ask(call, vocabulary, WorkflowAction::List { limit }, Ok)
        }
        "cancel" => {
            let Named { run_id: run } = call.parse()?;
            ask(call, vocabulary, WorkflowAction::Cancel { run }, Ok)
        }
        "agent" => agent(call, vocabulary),
        "log" | "journal.get" | "journal.put" => ask(call, vocabulary, report(call, name)?, Ok),
        _ => Err(RpcError::unknown_method(call.method).into()),
    }
}

/// Has the session serve a request, and converts its reply.
fn ask(
    call: &Call<'_>,
    vocabulary: Vocabulary,
    action: WorkflowAction,
    convert: impl FnOnce(Value) -> Result<Value, CallError> + Send + 'static,
) -> Handled {
    let handle = call.session()?;
    let request = Box::new(stored::WorkflowRequest { vocabulary, action });
    call.later(async move { convert(handle.ask(UseWorkflows { request }).await?.map_err(refused)?) })
}

/// Checks the workflows that a client declares when it joins a session.
pub(super) fn check_declared(params: &SessionParams) -> Result<(), CallError> {
    let definitions = params.workflows.as_ref().or(params.factories.as_ref());
    let definitions = definitions.map_or(&[][..], Vec::as_slice);
    if definitions.len() > MOST_DECLARED {
        return Err(CallError::invalid(format!("more than {MOST_DECLARED} workflows are declared")));
    }
    for definition in definitions {
        if definition.name.is_empty() {
            return Err(CallError::invalid("a workflow has no name"));
        }
        let checked = definition.limits.check();
        checked.map_err(|why| CallError::invalid(format!("workflow {:?}: {why}", definition.name)))?;
    }
    Ok(())
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

/// Starts a run, or one that has failed or was interrupted again. Replies when it is durable, before it has ended.
fn start(call: &Call<'_>, vocabulary: Vocabulary) -> Handled {
    let Start { name, args, options } = call.parse()?;
    let options = options.unwrap_or_default();
    let limits = checked(options.limits)?;
    if let Some(run) = options.resume_from_run_id {
        let envelope = |mut reply: Value| Ok(reply["run"].take());
        return ask(call, vocabulary, WorkflowAction::Resume { run, limits }, envelope);
    }
    if args.as_ref().is_some_and(|args| args.as_str().len() > stored::LARGEST_RESULT) {
        let most = stored::LARGEST_RESULT;
        return Err(CallError::invalid(format!("the arguments of a workflow have more than {most} bytes")));
    }
    let args = args.and_then(|args| args.parse::<Value>().ok()).unwrap_or_else(|| json!({}));
    ask(call, vocabulary, WorkflowAction::Start { name, args, limits }, Ok)
}

fn checked(limits: Option<Limits>) -> Result<Limits, CallError> {
    let limits = limits.unwrap_or_default();
    limits.check().map_err(|why| refused(WorkflowError::coded("factory_limits_invalid", why)))?;
    Ok(limits)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resume {
    run_id: String,
    limits: Option<Limits>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    run_id: String,
}

#[derive(Deserialize)]
struct ListParams {
    limit: Option<usize>,
}

/// A report of the code of a run.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    run_id: String,
    execution_token: String,
}

#[derive(Deserialize)]
struct Lines {
    lines: Vec<ReportedLine>,
}

#[derive(Deserialize)]
struct Key {
    key: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    key: String,
    #[serde(default)]
    result_json: Value,
}

fn report(call: &Call<'_>, name: &str) -> Result<WorkflowAction, CallError> {
    let Report { run_id: run, execution_token: token } = call.parse()?;
    Ok(match name {
        "log" => WorkflowAction::Log { run, token, lines: call.parse::<Lines>()?.lines },
        "journal.get" => WorkflowAction::Recall { run, token, key: call.parse::<Key>()?.key },
        _ => {
            let Entry { key, result_json: result } = call.parse()?;
            WorkflowAction::Record { run, token, key, result }
        }
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Agent {
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
fn agent(call: &Call<'_>, vocabulary: Vocabulary) -> Handled {
    let Agent { factory_run_id: run, execution_token: token, prompt, opts } = call.parse()?;
    let AgentOptions { label, schema, model, agent } = opts.unwrap_or_default();
    let task = AgentTask {
        agent_type: agent.unwrap_or_else(|| "general-purpose".into()),
        prompt: schema::prompt(prompt, schema.as_ref()),
        label,
        model,
    };
    ask(call, vocabulary, WorkflowAction::Agent { run, token, task }, move |answer| match schema {
        None => Ok(json!({ "result": answer })),
        Some(schema) => {
            let result = schema::parse(answer.as_str().unwrap_or_default(), &schema);
            result.map(|result| json!({ "result": result })).map_err(CallError::failed)
        }
    })
}

/// Converts an error. Its code is data that SDKs compare.
fn refused(error: WorkflowError) -> CallError {
    match error.code {
        Some(name) => {
            let data = Some(Json::from(json!({ "code": name })));
            CallError::Rpc(RpcError { data, ..RpcError::new(code::INVALID_PARAMS, error.message) })
        }
        None => CallError::failed(error.message),
    }
}
