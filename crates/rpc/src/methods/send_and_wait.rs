//! `session.sendAndWait`: sends a prompt, and answers when the prompt has its outcome. SDKs for runtimes of 1.0.104 and later
//! use it for every wait.
//!
//! The wait is a port of its own on the session: it sees every event, needs no queue, and cannot fall behind. It neither keeps
//! the session open nor counts towards the calls that a client may run at a time, because the client has to answer requests of
//! the turn meanwhile.

use std::sync::{Arc, Mutex, PoisonError};

use baton_core::ask::SendPrompt;
use baton_protocol::event::{Body, Event, Outcome};
use baton_protocol::rpc::RpcError;
use baton_protocol::{ClientId, EventId, Json, PromptId, SessionId};
use baton_runtime::session::{Batch, CallFailed, Calling, Failure, Port, Published};
use baton_service::LiveSession;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::sessions::prompt;
use super::{Call, Handled};
use crate::errors::CallError;

/// Sends a prompt. Replies with the last message of its turn, or with the error that ended the turn.
pub(super) fn send_and_wait(call: &Call<'_>) -> Handled {
    let (handle, prompt) = prompt(call)?;
    let wait = call.connection.begin_wait(call.id)?;
    let (port, attached, ended) = Watch::attach(&handle, call.service().new_client());
    let (accept, accepted) = oneshot::channel();
    handle.ask_then(SendPrompt { prompt: Box::new(prompt) }, move |reply| {
        // In the actor, before any event of the turn.
        if let Ok(id) = &reply {
            port.await_prompt(*id);
        }
        drop(accept.send(reply));
    })?;
    let method = call.method.to_owned();
    let result = async move {
        let _attached = attached;
        let id = accepted.await.unwrap_or(Err(Failure::Internal(handle.id().clone())))?;
        ended.await.unwrap_or_default().into_result(id)
    };
    call.wait(wait, async move { result.await.map_err(|error: CallError| error.into_rpc(&method)) })
}

/// How the turn of a prompt ended.
#[derive(Default)]
struct Ending {
    /// The outcome, with its reason; none if the session was closed before.
    outcome: Option<(Outcome, String)>,
    /// The last message of the turn that is not a sub-agent's, as it was recorded.
    response: Option<Bytes>,
    /// The last error of the turn.
    error: Option<EventId>,
    /// The event that shows that the session is idle; none if another turn follows.
    idle: Option<EventId>,
}

impl Ending {
    fn into_result(self, id: PromptId) -> Result<Json, CallError> {
        let (aborted, completion) = match self.outcome {
            Some((Outcome::Completed, _)) => (false, self.idle),
            Some((Outcome::Cancelled, _)) => (true, self.idle),
            Some((Outcome::Failed | Outcome::Interrupted, reason)) => {
                let data = self.error.or(self.idle).map(|event| json!({ "completionEventId": event }));
                let error = RpcError { data: data.map(Json::from), ..RpcError::failed(reason) };
                return Err(error.into());
            }
            None => return Err(RpcError::failed("Session closed before response completed").into()),
        };
        let mut result = json!({ "messageId": id, "aborted": aborted });
        if let Some(event) = completion {
            result["completionEventId"] = json!(event);
        }
        if let Some(response) = self.response {
            result["response"] = serde_json::from_slice::<Value>(&response).map_err(CallError::failed)?;
        }
        Ok(result.into())
    }
}

/// Watches a session until the turn of one prompt has ended.
struct Watch {
    state: Mutex<State>,
}

struct State {
    /// The prompt; none until it has been accepted.
    prompt: Option<PromptId>,
    /// What is known about the turn that is running.
    turn: Ending,
    done: Option<oneshot::Sender<Ending>>,
}

/// Keeps a watch attached to a session.
struct Attached {
    handle: LiveSession,
    client: ClientId,
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.handle.hub().detach(self.client);
    }
}

impl Watch {
    fn attach(handle: &LiveSession, client: ClientId) -> (Arc<Self>, Attached, oneshot::Receiver<Ending>) {
        let (done, ended) = oneshot::channel();
        let state = State { prompt: None, turn: Ending::default(), done: Some(done) };
        let watch = Arc::new(Self { state: Mutex::new(state) });
        handle.hub().attach(client, watch.clone());
        (watch, Attached { handle: handle.clone(), client }, ended)
    }

    fn await_prompt(&self, id: PromptId) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).prompt = Some(id);
    }
}

impl Port for Watch {
    fn deliver(&self, _: &SessionId, events: &Arc<Batch>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for event in events.events().iter().filter(|event| !event.of_agent) {
            state.observe(event);
        }
    }

    fn call(&self, _: &'static str, _: Value) -> Calling {
        Box::pin(async { Err(CallFailed::Gone) })
    }
}

impl State {
    /// Observes an event. Messages and errors belong to the turn that ends next.
    fn observe(&mut self, event: &Published) {
        let has_ended = self.turn.outcome.is_some();
        match &*event.kind {
            "assistant.message" if !has_ended => self.turn.response = Some(event.json.clone()),
            "session.error" if !has_ended => self.turn.error = id_of(event),
            "baton.turn_settled" if !has_ended => self.settle(event),
            "session.idle" if has_ended => {
                self.turn.idle = id_of(event);
                self.finish();
            }
            // The next turn has begun, so the session was not idle in between.
            "user.message" if has_ended => self.finish(),
            _ => {}
        }
    }

    fn settle(&mut self, event: &Published) {
        let Some(Body::TurnSettled(settled)) = parse(event).map(|event| event.body) else { return };
        if self.prompt.is_some_and(|prompt| settled.prompt_ids.contains(&prompt)) {
            self.turn.outcome = Some((settled.outcome, settled.reason));
        } else {
            self.turn = Ending::default();
        }
    }

    fn finish(&mut self) {
        if let Some(done) = self.done.take() {
            // A client that does not wait any more needs no result.
            let _ = done.send(std::mem::take(&mut self.turn));
        }
    }
}

/// A session that is closed drops its ports.
impl Drop for State {
    fn drop(&mut self) {
        self.finish();
    }
}

fn parse(event: &Published) -> Option<Event> {
    Event::parse(std::str::from_utf8(&event.json).ok()?).ok()
}

fn id_of(event: &Published) -> Option<EventId> {
    parse(event).map(|event| event.id)
}
