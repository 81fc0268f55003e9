//! Workflows: starting, resuming, reading and cancelling runs, and what their code reports. Methods of older SDKs begin with
//! `session.factory.`, those of newer ones with `session.workflow.`.
//!
//! The session serves them, wherever it is.

mod schema;

use baton_addons::workflows::LARGEST_RESULT;
use baton_ask::workflows::{
    AgentTask, CancelRun, DescribeRun, GetRun, ListRuns, ProgressRange, ReadRunProgress, RecallStep,
    RecordStep, ReportProgress, ReportedLine, ResumeRun, RunWorkflowAgent, StartRun, WorkflowError,
};
use baton_protocol::Json;
use baton_protocol::params::SessionParams;
use baton_protocol::rpc::{RpcError, code};
use baton_protocol::workflow::{Limits, Vocabulary};
use baton_service::ClientAsk;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handled};
use crate::errors::CallError;

/// Most workflows that one client may declare.
const MOST_DECLARED: usize = 200;
/// Runs in one page of a list.
const PAGE: usize = 50;

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
            let resume = ResumeRun { run, limits: checked(limits)?, events: vocabulary };
            ask(call, resume, move |(name, run)| Ok(json!({ vocabulary.name_field(): name, "run": run })))
        }
        "getRun" => {
            let Named { run_id: run } = call.parse()?;
            ask(call, GetRun { run }, |run| Ok(json!(run)))
        }
        "getRunDetail" => {
            let Named { run_id: run } = call.parse()?;
            ask(call, DescribeRun { run }, move |run| Ok(named(json!(run), vocabulary)))
        }
        "getRunProgress" => {
            let Named { run_id: run } = call.parse()?;
            let page: ProgressRange = call.parse()?;
            ask(call, ReadRunProgress { run, page }, |page| Ok(json!(page)))
        }
        "listRuns" => {
            let limit = call.parse::<ListParams>()?.limit.unwrap_or(PAGE).clamp(1, PAGE);
            ask(call, ListRuns { limit }, move |list| {
                let mut shown = json!(list);
                let runs = list.runs.iter().map(|run| named(json!(run), vocabulary));
                shown["runs"] = runs.collect();
                Ok(shown)
            })
        }
        "cancel" => {
            let Named { run_id: run } = call.parse()?;
            ask(call, CancelRun { run }, |run| Ok(json!(run)))
        }
        "agent" => agent(call),
        "log" => {
            let Report { run_id: run, execution_token: token } = call.parse()?;
            let Lines { lines } = call.parse()?;
            ask(call, ReportProgress { run, token, lines }, |()| Ok(json!({})))
        }
        "journal.get" => {
            let Report { run_id: run, execution_token: token } = call.parse()?;
            let Key { key } = call.parse()?;
            ask(call, RecallStep { run, token, key }, |result| {
                Ok(match result {
                    Some(result) => json!({ "hit": true, "resultJson": result }),
                    None => json!({ "hit": false }),
                })
            })
        }
        "journal.put" => {
            let Report { run_id: run, execution_token: token } = call.parse()?;
            let Entry { key, result_json: result } = call.parse()?;
            ask(call, RecordStep { run, token, key, result }, |()| Ok(json!({})))
        }
        _ => Err(RpcError::unknown_method(call.method).into()),
    }
}

/// Names the workflow of a run in the field that the client's generation reads.
fn named(mut run: Value, vocabulary: Vocabulary) -> Value {
    if let Some(fields) = run.as_object_mut()
        && let Some(name) = fields.remove("workflow")
    {
        fields.insert(vocabulary.name_field().to_owned(), name);
    }
    run
}

/// Asks the session, and encodes its reply.
fn ask<T: Send + 'static, A: ClientAsk<Reply = Result<T, WorkflowError>>>(
    call: &Call<'_>,
    ask: A,
    encode: impl FnOnce(T) -> Result<Value, CallError> + Send + 'static,
) -> Handled {
    let handle = call.session()?;
    call.later(async move { encode(handle.ask(ask).await?.map_err(refused)?) })
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
        return ask(call, ResumeRun { run, limits, events: vocabulary }, |(_, run)| Ok(json!(run)));
    }
    if args.as_ref().is_some_and(|args| args.as_str().len() > LARGEST_RESULT) {
        let most = LARGEST_RESULT;
        return Err(CallError::invalid(format!("the arguments of a workflow have more than {most} bytes")));
    }
    let args = args.and_then(|args| args.parse::<Value>().ok()).unwrap_or_else(|| json!({}));
    ask(call, StartRun { name, args, limits, events: vocabulary }, |run| Ok(json!(run)))
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
fn agent(call: &Call<'_>) -> Handled {
    let Agent { factory_run_id: run, execution_token: token, prompt, opts } = call.parse()?;
    let AgentOptions { label, schema, model, agent } = opts.unwrap_or_default();
    let task = AgentTask {
        agent_type: agent.unwrap_or_else(|| "general-purpose".into()),
        prompt: schema::prompt(prompt, schema.as_ref()),
        label,
        model,
    };
    ask(call, RunWorkflowAgent { run, token, task }, move |answer| match schema {
        None => Ok(json!({ "result": answer })),
        Some(schema) => {
            let result = schema::parse(&answer, &schema);
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
