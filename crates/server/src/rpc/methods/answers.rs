//! Answers to what sessions ask of clients. The first one counts.

use baton_core::{Answer, Ask, CallStage, Elicited, Reply};
use baton_protocol::event::PlanAnswer;
use baton_protocol::permission::{PermissionDecision, Verdict};
use baton_protocol::rpc::RpcError;
use baton_protocol::tool::{AnyToolResult, ResultType, ToolResult};
use baton_protocol::{Author, Json, RequestId, SessionId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handling, success};
use crate::session::Mail;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolAnswer {
    session_id: SessionId,
    request_id: RequestId,
    result: Option<AnyToolResult>,
    error: Option<String>,
}

/// The result of a client's tool.
pub(super) fn tool_call(call: &Call<'_>) -> Handling {
    let params: ToolAnswer = call.parse()?;
    let result = match (params.result, params.error) {
        (_, Some(error)) => {
            ToolResult { error: Some(error), result_type: ResultType::Failure, ..ToolResult::default() }
        }
        (Some(AnyToolResult(result)), None) => result,
        (None, None) => {
            return Err(RpcError::bad_params(format!("{}: give a `result` or an `error`", call.method)));
        }
    };
    answer(call, &params.session_id, params.request_id, Answer::Tool(result))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PermissionAnswer {
    session_id: SessionId,
    request_id: RequestId,
    result: PermissionDecision,
}

/// What somebody decided about a permission.
pub(super) fn permission(call: &Call<'_>) -> Handling {
    let params: PermissionAnswer = call.parse()?;
    let verdict = Verdict::try_from(params.result)
        .map_err(|unknown| RpcError::bad_params(format!("{}: {unknown}", call.method)))?;
    let answered = Answer::Permission(verdict, Author::sdk(call.connection.client));
    answer(call, &params.session_id, params.request_id, answered)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UserInputAnswer {
    session_id: SessionId,
    request_id: RequestId,
    response: UserInput,
}

/// What the user said, in the form in which clients say it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UserInput {
    pub(crate) answer: String,
    #[serde(default)]
    pub(crate) was_freeform: bool,
}

impl From<UserInput> for Answer {
    fn from(input: UserInput) -> Self {
        Self::UserInput { answer: input.answer, was_freeform: input.was_freeform }
    }
}

/// What the user said, from a client that was not asked directly.
pub(super) fn user_input(call: &Call<'_>) -> Handling {
    let params: UserInputAnswer = call.parse()?;
    answer(call, &params.session_id, params.request_id, params.response.into())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnswerToPlan {
    session_id: SessionId,
    request_id: RequestId,
    response: PlanAnswer,
}

/// What somebody thinks of a plan, from a client that was not asked directly.
pub(super) fn plan(call: &Call<'_>) -> Handling {
    let params: AnswerToPlan = call.parse()?;
    answer(call, &params.session_id, params.request_id, Answer::Plan(params.response))
}

pub(super) fn answer(call: &Call<'_>, session: &SessionId, request: RequestId, answer: Answer) -> Handling {
    let handle = call.attached(session)?;
    let method = call.method.to_owned();
    call.by_responder(
        &handle,
        |respond| Mail::Answer(request, Box::new(answer), respond),
        move |reply| counted(&method, reply),
    )
}

/// Whether an answer counts, as its sender is told.
fn counted(method: &str, reply: Reply) -> Result<Value, RpcError> {
    match reply {
        Reply::Counted => Ok(success()),
        Reply::TooLate | Reply::NoSuchRequest => Ok(json!({ "success": false })),
        Reply::Mismatch => Err(RpcError::bad_params(format!("{method}: the request is of another kind"))),
        Reply::NotOffered(why) | Reply::Refused(why) => Err(RpcError::bad_params(format!("{method}: {why}"))),
        other => Err(RpcError::failed(format!("unexpected answer {other:?}"))),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CommandAnswer {
    session_id: SessionId,
    request_id: RequestId,
    error: Option<String>,
}

/// A client has run a command. Reporting one that nobody waits for is fine.
pub(super) fn command(call: &Call<'_>) -> Handling {
    let params: CommandAnswer = call.parse()?;
    let handle = call.attached(&params.session_id)?;
    let answer = Box::new(Answer::Command { by: call.connection.client, error: params.error });
    call.by_responder(&handle, |respond| Mail::Answer(params.request_id, answer, respond), |_| Ok(success()))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QueuedCommandAnswer {
    session_id: SessionId,
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

/// What came of a command that had waited for its turn.
pub(super) fn queued_command(call: &Call<'_>) -> Handling {
    let QueuedCommandAnswer { session_id, request_id, result } = call.parse()?;
    let said = Answer::QueuedCommand { handled: result.handled, stop: result.stop_processing_queue };
    answer(call, &session_id, request_id, said)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecuteCommand {
    session_id: SessionId,
    command_name: String,
    #[serde(default)]
    args: String,
}

/// Has whichever client has the command run it, and waits for it.
pub(super) fn execute_command(call: &Call<'_>) -> Handling {
    let params: ExecuteCommand = call.parse()?;
    let handle = call.attached(&params.session_id)?;
    let name = params.command_name.trim_start_matches('/').to_owned();
    let ask = Box::new(Ask::Command { name, args: params.args });
    call.by_responder(
        &handle,
        |respond| Mail::Ask(ask, respond),
        |reply| match reply {
            Reply::CommandDone(None) => Ok(json!({})),
            Reply::CommandDone(Some(error)) | Reply::Refused(error) => Ok(json!({ "error": error })),
            other => Err(RpcError::failed(format!("unexpected answer {other:?}"))),
        },
    )
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Elicitation {
    session_id: SessionId,
    message: String,
    requested_schema: Option<Json>,
}

/// Has whoever can show forms show one, and waits for what becomes of it.
pub(super) fn elicit(call: &Call<'_>) -> Handling {
    let params: Elicitation = call.parse()?;
    let handle = call.attached(&params.session_id)?;
    let ask =
        Box::new(Ask::Elicitation { message: params.message, schema: params.requested_schema, source: None });
    call.by_responder(
        &handle,
        |respond| Mail::Ask(ask, respond),
        |reply| match reply {
            Reply::Elicited(Elicited { action, content }) => {
                let mut answer = json!({ "action": action });
                if let Some(content) = content {
                    answer["content"] = json!(content);
                }
                Ok(answer)
            }
            Reply::Refused(why) => Err(RpcError::failed(why)),
            other => Err(RpcError::failed(format!("unexpected answer {other:?}"))),
        },
    )
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ElicitationAnswer {
    session_id: SessionId,
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

/// What became of a form.
pub(super) fn elicitation(call: &Call<'_>) -> Handling {
    let params: ElicitationAnswer = call.parse()?;
    let action = match params.result.action {
        ElicitationAction::Accept => "accept",
        ElicitationAction::Decline => "decline",
        ElicitationAction::Cancel => "cancel",
    };
    let elicited = Elicited { action: action.into(), content: params.result.content };
    answer(call, &params.session_id, params.request_id, Answer::Elicitation(elicited))
}

/// Permission requests that nobody has answered.
pub(super) fn pending_permissions(call: &Call<'_>) -> Handling {
    call.view(|view| {
        let calls = view.session.durable.turn.iter().flat_map(|turn| &turn.calls);
        let items: Vec<Value> = calls
            .filter_map(|call| match &call.stage {
                CallStage::AwaitingPermission { request, wants } => {
                    Some(json!({ "requestId": request, "request": wants.as_prompt() }))
                }
                _ => None,
            })
            .collect();
        json!({ "items": items })
    })
}
