//! Questions to the user, shown by a client.

use baton_core::{Answer, CallStage, WorkResult};
use baton_protocol::event::{ProposedPlan, Question, SwitchAnswer, UserQuestion};
use baton_protocol::{ClientId, Json, RequestId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Bench;
use crate::rpc::UserInput;
use crate::session::{CallFailed, Mail};

/// Puts a question to a client and passes its answer on. A client that leaves, leaves the question open for the next. One
/// that says that it failed has answered: nobody else will be asked, and the turn must not wait for ever.
pub(super) async fn deliver(bench: &Bench, client: ClientId, request: &RequestId) -> WorkResult {
    let (Some(port), Some(asked)) = (bench.hub.port(client), Asked::find(bench, request)) else {
        return WorkResult::Undelivered;
    };
    let answer = match port.call(asked.method, asked.params).await {
        Ok(answer) => (asked.read)(&answer).unwrap_or_else(|error| {
            tracing::warn!(%client, %error, "a client's answer to a question makes no sense");
            Answer::NoUser
        }),
        Err(CallFailed::Refused(error)) => {
            tracing::debug!(%client, %error, "a client could not put a question");
            Answer::NoUser
        }
        Err(CallFailed::Gone) => return WorkResult::Undelivered,
    };
    drop(bench.mailbox.send(Mail::Answer(request.clone(), Box::new(answer), Box::new(drop))));
    WorkResult::Undelivered
}

/// A question in the form in which a client is asked it, and how its answer is read.
struct Asked {
    method: &'static str,
    params: Value,
    read: fn(&Json) -> Result<Answer, serde_json::Error>,
}

impl Asked {
    fn find(bench: &Bench, request: &RequestId) -> Option<Self> {
        open_question(bench, request)
            .map(|question| Self::question(bench, question))
            .or_else(|| Self::switch(bench, request))
    }

    fn question(bench: &Bench, question: Question) -> Self {
        match question {
            Question::UserInput(asked) => Self::user_input(bench, &asked),
            Question::Plan(plan) => Self::plan(bench, &plan),
        }
    }

    fn user_input(bench: &Bench, asked: &UserQuestion) -> Self {
        let mut params = json!({ "sessionId": bench.session.id, "question": asked.question });
        if let Some(choices) = &asked.choices {
            params["choices"] = json!(choices);
        }
        params["allowFreeform"] = json!(asked.allow_freeform.unwrap_or(true));
        Self { method: "userInput.request", params, read: |json| json.parse::<UserInput>().map(Answer::from) }
    }

    /// Whether a plan is good.
    fn plan(bench: &Bench, plan: &ProposedPlan) -> Self {
        let mut params = json!(plan);
        params["sessionId"] = json!(bench.session.id);
        Self { method: "exitPlanMode.request", params, read: |json| json.parse().map(Answer::Plan) }
    }

    /// Whether to go on with another model.
    fn switch(bench: &Bench, request: &RequestId) -> Option<Self> {
        #[derive(Deserialize)]
        struct Switched {
            response: SwitchAnswer,
        }
        let offer = bench.session.durable.turn.as_ref()?.offer.as_ref()?;
        let mut params = json!({ "sessionId": bench.session.id });
        if let Some(code) = &offer.error.error_code {
            params["errorCode"] = json!(code);
        }
        if let Some(seconds) = offer.retry_after_seconds {
            params["retryAfterSeconds"] = json!(seconds);
        }
        let read = |json: &Json| json.parse::<Switched>().map(|switched| Answer::Switch(switched.response));
        (offer.request_id == *request).then_some(Self { method: "autoModeSwitch.request", params, read })
    }
}

fn open_question(bench: &Bench, request: &RequestId) -> Option<Question> {
    let calls = bench.session.durable.turn.iter().flat_map(|turn| &turn.calls);
    calls.into_iter().find_map(|call| match &call.stage {
        CallStage::AwaitingAnswer { request: r, question } if r == request => Some(question.clone()),
        _ => None,
    })
}
