//! Answers to requests of a session. The first answer to a request counts.

use baton_core::ask::{AnswerRequest, Elicit, InvokeCommand};
use baton_core::{AnswerOutcome, CallStage, Elicited, RequestAnswer};
use baton_protocol::event::PlanAnswer;
use baton_protocol::permission::{PermissionDecision, Verdict};
use baton_protocol::tool::{AnyToolResult, ResultType, ToolResult};
use baton_protocol::{Json, RequestId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handled, success};
use crate::errors::CallError;
use baton_runtime::session::Failure;
use baton_runtime::work::UserInput;
use baton_service::LiveSession;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolAnswer {
    request_id: RequestId,
    result: Option<AnyToolResult>,
    error: Option<String>,
}

/// Answers a call of a client tool with its result.
pub(super) fn tool_call(call: &Call<'_>) -> Handled {
    let (handle, params): (_, ToolAnswer) = call.parse_for_session()?;
    let result = match (params.result, params.error) {
        (_, Some(error)) => {
            ToolResult { error: Some(error), result_type: ResultType::Failure, ..ToolResult::default() }
        }
        (Some(AnyToolResult(result)), None) => result,
        (None, None) => return Err(CallError::invalid("give a `result` or an `error`")),
    };
    answer(call, &handle, params.request_id, RequestAnswer::Tool(result))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PermissionAnswer {
    request_id: RequestId,
    result: PermissionDecision,
}

/// Answers a permission request.
pub(super) fn permission(call: &Call<'_>) -> Handled {
    let (handle, params): (_, PermissionAnswer) = call.parse_for_session()?;
    let verdict = Verdict::try_from(params.result).map_err(CallError::invalid)?;
    answer(call, &handle, params.request_id, RequestAnswer::Permission(verdict, call.author()))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UserInputAnswer {
    request_id: RequestId,
    response: UserInput,
}

/// Answers a request for user input that was not sent to this client as a call.
pub(super) fn user_input(call: &Call<'_>) -> Handled {
    let (handle, params): (_, UserInputAnswer) = call.parse_for_session()?;
    answer(call, &handle, params.request_id, params.response.into())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlanParams {
    request_id: RequestId,
    response: PlanAnswer,
}

/// Answers the request to approve a plan that was not sent to this client as a call.
pub(super) fn plan(call: &Call<'_>) -> Handled {
    let (handle, params): (_, PlanParams) = call.parse_for_session()?;
    answer(call, &handle, params.request_id, RequestAnswer::Plan(params.response))
}

/// Sends an answer to the session, and replies whether it counts.
pub(super) fn answer(
    call: &Call<'_>,
    handle: &LiveSession,
    request: RequestId,
    answer: RequestAnswer,
) -> Handled {
    let ask = AnswerRequest { request, answer: Box::new(answer), by: Some(call.author()) };
    call.try_ask(handle, ask, |outcome| match outcome? {
        AnswerOutcome::Counted => Ok(success()),
        AnswerOutcome::TooLate | AnswerOutcome::NoSuchRequest => Ok(json!({ "success": false })),
        AnswerOutcome::Mismatch => Err(CallError::invalid("the request is of another kind")),
        AnswerOutcome::NotOffered(reason) | AnswerOutcome::Refused(reason) => Err(CallError::invalid(reason)),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CommandAnswer {
    request_id: RequestId,
    error: Option<String>,
}

/// Reports that this client has run a command. Reporting a command that is not pending succeeds too.
pub(super) fn command(call: &Call<'_>) -> Handled {
    let (handle, params): (_, CommandAnswer) = call.parse_for_session()?;
    let answer = Box::new(RequestAnswer::Command { by: call.connection.client, error: params.error });
    call.ask(&handle, AnswerRequest { request: params.request_id, answer, by: Some(call.author()) }, |_| {
        success()
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QueuedCommandAnswer {
    request_id: RequestId,
    result: QueuedCommandResult,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QueuedCommandResult {
    handled: bool,
    #[serde(default)]
    stop_processing_queue: bool,
}

/// Reports the result of a queued command, from its runner.
pub(super) fn queued_command(call: &Call<'_>) -> Handled {
    let (handle, QueuedCommandAnswer { request_id, result }) = call.parse_for_session()?;
    let result = RequestAnswer::QueuedCommand { handled: result.handled, stop: result.stop_processing_queue };
    answer(call, &handle, request_id, result)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecuteCommand {
    command_name: String,
    #[serde(default)]
    args: String,
}

/// Makes the client that registered a command run it, and replies when it has.
pub(super) fn execute_command(call: &Call<'_>) -> Handled {
    let (handle, params): (_, ExecuteCommand) = call.parse_for_session()?;
    let name = params.command_name.trim_start_matches('/').to_owned();
    call.try_ask(&handle, InvokeCommand { name, args: params.args }, |done| match done {
        Ok(None) => Ok(json!({})),
        Ok(Some(error)) | Err(Failure::Refused(error)) => Ok(json!({ "error": error })),
        Err(failure) => Err(failure.into()),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Elicitation {
    message: String,
    requested_schema: Option<Json>,
}

/// Makes a client show a form, and replies with the user's answer.
pub(super) fn elicit(call: &Call<'_>) -> Handled {
    let (handle, params): (_, Elicitation) = call.parse_for_session()?;
    let (message, schema) = (params.message, params.requested_schema);
    let ask = Elicit { message, schema, source: None, url: None, key: None };
    call.try_ask(&handle, ask, |elicited| {
        let Elicited { action, content } = elicited.map_err(CallError::verbatim)?;
        let mut result = json!({ "action": action });
        if let Some(content) = content {
            result["content"] = json!(content);
        }
        Ok(result)
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ElicitationAnswer {
    request_id: RequestId,
    result: ElicitationResult,
}

#[derive(Deserialize)]
struct ElicitationResult {
    action: ElicitationAction,
    content: Option<Json>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ElicitationAction {
    Accept,
    Decline,
    Cancel,
}

/// Answers a form that was not sent to this client as a call.
pub(super) fn elicitation(call: &Call<'_>) -> Handled {
    let (handle, params): (_, ElicitationAnswer) = call.parse_for_session()?;
    let action = match params.result.action {
        ElicitationAction::Accept => "accept",
        ElicitationAction::Decline => "decline",
        ElicitationAction::Cancel => "cancel",
    };
    let elicited = Elicited { action: action.into(), content: params.result.content };
    answer(call, &handle, params.request_id, RequestAnswer::Elicitation(elicited))
}

/// Lists the pending permission requests.
pub(super) fn pending_permissions(call: &Call<'_>) -> Handled {
    call.inspect(|view| {
        let calls = view.session.durable.turn.iter().flat_map(|turn| &turn.calls);
        let walls = view.session.durable.walls.iter();
        let walls = walls.map(|wall| json!({ "requestId": wall.request, "request": wall.wants.as_prompt() }));
        let items: Vec<Value> = calls
            .filter_map(|call| match &call.stage {
                CallStage::AwaitingPermission { request, wants, .. } => {
                    Some(json!({ "requestId": request, "request": wants.as_prompt() }))
                }
                _ => None,
            })
            .chain(walls)
            .collect();
        json!({ "items": items })
    })
}
