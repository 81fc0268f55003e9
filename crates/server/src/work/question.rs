//! Questions to the user, shown by a client.

use baton_core::{Answer, CallStage, WorkResult};
use baton_protocol::event::Question;
use baton_protocol::{ClientId, RequestId};
use serde_json::json;

use super::Bench;
use crate::rpc::UserInput;
use crate::session::{CallFailed, Mail};

/// Puts a question to a client and passes its answer on. A client that leaves, leaves the question open for the next. One
/// that says that it failed has answered: nobody else will be asked, and the turn must not wait for ever.
pub(super) async fn deliver(bench: &Bench, client: ClientId, request: &RequestId) -> WorkResult {
    let (Some(port), Some(question)) = (bench.hub.port(client), open_question(bench, request)) else {
        return WorkResult::Undelivered;
    };
    let Question::UserInput { question, choices, allow_freeform } = question;
    let mut params = json!({ "sessionId": bench.session.id, "question": question });
    if let Some(choices) = choices {
        params["choices"] = json!(choices);
    }
    params["allowFreeform"] = json!(allow_freeform.unwrap_or(true));
    let answer = match port.call("userInput.request", params).await {
        Ok(answer) => answer.parse::<UserInput>().map_or_else(
            |error| {
                tracing::warn!(%client, %error, "a client's answer to a question makes no sense");
                Answer::NoUser
            },
            Answer::from,
        ),
        Err(CallFailed::Refused(error)) => {
            tracing::debug!(%client, %error, "a client could not put a question");
            Answer::NoUser
        }
        Err(CallFailed::Gone) => return WorkResult::Undelivered,
    };
    drop(bench.mailbox.send(Mail::Answer(request.clone(), Box::new(answer), Box::new(drop))));
    WorkResult::Undelivered
}

fn open_question(bench: &Bench, request: &RequestId) -> Option<Question> {
    let calls = bench.session.durable.turn.iter().flat_map(|turn| &turn.calls);
    calls.into_iter().find_map(|call| match &call.stage {
        CallStage::AwaitingAnswer { request: r, question } if r == request => Some(question.clone()),
        _ => None,
    })
}
