//! Questions to users, delivered to a client: user input, plans, fallback models.

use baton_core::ask::AnswerRequest;
use baton_core::{CallStage, RequestAnswer, WorkResult};
use baton_protocol::event::{ProposedPlan, Question, SwitchAnswer, UserQuestion};
use baton_protocol::{Author, ClientId, Json, RequestId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::WorkScope;
use crate::session::CallFailed;

/// Delivers a question to a client, and the client's answer to the session. If the client disconnects, the question stays
/// pending for the next one. An error of the client counts as an answer, so that the turn does not wait forever.
pub(super) async fn deliver(scope: &WorkScope, client: ClientId, request: &RequestId) -> WorkResult {
    let (Some(port), Some(question)) = (scope.hub.port(client), QuestionCall::find(scope, request)) else {
        return WorkResult::Undelivered;
    };
    let answer = match port.call(question.method, question.params).await {
        Ok(answer) => (question.read)(&answer).unwrap_or_else(|error| {
            tracing::warn!(%client, %error, "client sent a malformed answer to a question");
            RequestAnswer::NoUser
        }),
        Err(CallFailed::Refused(error)) => {
            tracing::debug!(%client, %error, "client failed to ask the user");
            RequestAnswer::NoUser
        }
        Err(CallFailed::Gone) => return WorkResult::Undelivered,
    };
    let (answer, by) = (Box::new(answer), Some(Author::sdk(client)));
    drop(scope.handle().tell(AnswerRequest { request: request.clone(), answer, by }));
    WorkResult::Undelivered
}

/// Answer of a user to a question, as SDKs send it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserInput {
    pub(crate) answer: String,
    #[serde(default)]
    pub(crate) was_freeform: bool,
}

impl From<UserInput> for RequestAnswer {
    fn from(input: UserInput) -> Self {
        Self::UserInput { answer: input.answer, was_freeform: input.was_freeform }
    }
}

/// Call to a client that asks a question, with the parser of the answer.
struct QuestionCall {
    method: &'static str,
    params: Value,
    read: fn(&Json) -> Result<RequestAnswer, serde_json::Error>,
}

impl QuestionCall {
    fn find(scope: &WorkScope, request: &RequestId) -> Option<Self> {
        open_question(scope, request)
            .map(|question| Self::question(scope, question))
            .or_else(|| Self::switch(scope, request))
    }

    fn question(scope: &WorkScope, question: Question) -> Self {
        match question {
            Question::UserInput(asked) => Self::user_input(scope, &asked),
            Question::Plan(plan) => Self::plan(scope, &plan),
        }
    }

    fn user_input(scope: &WorkScope, asked: &UserQuestion) -> Self {
        let mut params = json!({ "sessionId": scope.session.id, "question": asked.question });
        if let Some(choices) = &asked.choices {
            params["choices"] = json!(choices);
        }
        params["allowFreeform"] = json!(asked.allow_freeform.unwrap_or(true));
        Self {
            method: "userInput.request",
            params,
            read: |json| json.parse::<UserInput>().map(RequestAnswer::from),
        }
    }

    /// Asks for approval of a plan.
    fn plan(scope: &WorkScope, plan: &ProposedPlan) -> Self {
        let mut params = json!(plan);
        params["sessionId"] = json!(scope.session.id);
        let read = |json: &Json| json.parse().map(RequestAnswer::Plan);
        Self { method: "exitPlanMode.request", params, read }
    }

    /// Asks whether a fallback model may continue the turn.
    fn switch(scope: &WorkScope, request: &RequestId) -> Option<Self> {
        #[derive(Deserialize)]
        struct SwitchReply {
            response: SwitchAnswer,
        }
        let pending = scope.session.durable.turn.as_ref()?.fallback_request.as_ref()?;
        let mut params = json!({ "sessionId": scope.session.id });
        if let Some(code) = &pending.error.error_code {
            params["errorCode"] = json!(code);
        }
        if let Some(seconds) = pending.retry_after_seconds {
            params["retryAfterSeconds"] = json!(seconds);
        }
        let read =
            |json: &Json| json.parse::<SwitchReply>().map(|reply| RequestAnswer::Switch(reply.response));
        (pending.request_id == *request).then_some(Self { method: "autoModeSwitch.request", params, read })
    }
}

fn open_question(scope: &WorkScope, request: &RequestId) -> Option<Question> {
    let calls = scope.session.durable.turn.iter().flat_map(|turn| &turn.calls);
    calls.into_iter().find_map(|call| match &call.stage {
        CallStage::AwaitingAnswer { request: r, question } if r == request => Some(question.clone()),
        _ => None,
    })
}
