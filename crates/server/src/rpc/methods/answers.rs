//! Answers to what sessions ask of clients. The first one counts.

use baton_core::{Answer, CallStage, Reply};
use baton_protocol::permission::{PermissionDecision, Verdict};
use baton_protocol::rpc::RpcError;
use baton_protocol::tool::{AnyToolResult, ResultType, ToolResult};
use baton_protocol::{RequestId, SessionId};
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
    answer(call, &params.session_id, params.request_id, Answer::Permission(verdict))
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

fn answer(call: &Call<'_>, session: &SessionId, request: RequestId, answer: Answer) -> Handling {
    let handle = call.attached(session)?;
    let method = call.method.to_owned();
    call.by_responder(
        &handle,
        |respond| Mail::Answer(request, Box::new(answer), respond),
        move |reply| match reply {
            Reply::Counted => Ok(success()),
            Reply::TooLate | Reply::NoSuchRequest => Ok(json!({ "success": false })),
            Reply::Mismatch => Err(RpcError::bad_params(format!("{method}: the request is of another kind"))),
            other => Err(RpcError::failed(format!("unexpected answer {other:?}"))),
        },
    )
}

/// Clients report that a command is done; nobody waits for it.
pub(super) fn command(call: &Call<'_>) -> Handling {
    call.session()?;
    call.now(success())
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
