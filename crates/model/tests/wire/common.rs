//! Helpers of the wire tests.

use std::sync::Arc;

use baton_model::chat::{ChatModel, ChatVariant};
use baton_model::endpoint::{Auth, Endpoint};
use baton_model::http::{HttpClient, Transport};
use baton_model::messages::MessagesModel;
use baton_model::responses::ResponsesModel;
use baton_model::{Carrier, Delta, Message, Model, ModelError, ModelResponse, Part, Request};
use baton_testkit::model_server::{ModelServer, ScriptedReply};

/// A model at a scripted server.
pub(crate) fn model(server: &ModelServer) -> ChatModel {
    chat_model(endpoint(server))
}

pub(crate) fn endpoint(server: &ModelServer) -> Endpoint {
    Endpoint::new(&server.base_url()).unwrap().with_auth(Auth::bearer("sk-geheim"))
}

pub(crate) fn chat_model(endpoint: Endpoint) -> ChatModel {
    ChatModel::new(endpoint, ChatVariant::Compatible, Arc::new(HttpClient::new()))
}

/// The wire formats, for tests that apply to all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Chat,
    Responses,
    Messages,
}

impl Wire {
    pub(crate) const ALL: [Self; 3] = [Self::Chat, Self::Responses, Self::Messages];

    pub(crate) fn model(self, endpoint: Endpoint) -> Box<dyn Model> {
        self.model_over(Arc::new(HttpClient::new()), endpoint)
    }

    /// A model over a given transport.
    pub(crate) fn model_over(self, transport: Arc<dyn Transport>, endpoint: Endpoint) -> Box<dyn Model> {
        match self {
            Self::Chat => Box::new(ChatModel::new(endpoint, ChatVariant::Compatible, transport)),
            Self::Responses => Box::new(ResponsesModel::new(endpoint, Carrier::Http, transport)),
            Self::Messages => Box::new(MessagesModel::new(endpoint, transport)),
        }
    }

    /// Sends a request to a server that returns this one reply.
    pub(crate) async fn ask_for(
        self,
        reply: ScriptedReply,
        request: &Request,
    ) -> (Result<ModelResponse, ModelError>, Vec<Delta>) {
        let server = ModelServer::start().await;
        server.push(reply);
        ask(&*self.model(endpoint(&server)), request).await
    }
}

/// A request with one user message.
pub(crate) fn request(prompt: &str, stream: bool) -> Request {
    let message = Message::User(vec![Part::Text(prompt.to_owned())]);
    Request { model: "scripted".to_owned(), messages: vec![Arc::new(message)], stream, ..Request::default() }
}

pub(crate) fn streamed(prompt: &str) -> Request {
    request(prompt, true)
}

pub(crate) fn whole(prompt: &str) -> Request {
    request(prompt, false)
}

/// Sends a request, and returns the answer with all deltas except progress.
pub(crate) async fn ask(
    model: &dyn Model,
    request: &Request,
) -> (Result<ModelResponse, ModelError>, Vec<Delta>) {
    let mut deltas = Vec::new();
    let answer = model
        .respond(request, &mut |delta| {
            if !matches!(delta, Delta::Progress { .. }) {
                deltas.push(delta);
            }
        })
        .await;
    (answer, deltas)
}

/// Sends a request to a server that returns this one reply.
pub(crate) async fn ask_for(
    reply: ScriptedReply,
    request: &Request,
) -> (Result<ModelResponse, ModelError>, Vec<Delta>) {
    let server = ModelServer::start().await;
    server.push(reply);
    ask(&model(&server), request).await
}

/// A stream of these events, with their empty lines, one chunk each.
pub(crate) fn events<'a>(data: impl IntoIterator<Item = &'a str>) -> ScriptedReply {
    ScriptedReply::raw("text/event-stream", data.into_iter().map(|data| format!("data: {data}\n\n")))
}
