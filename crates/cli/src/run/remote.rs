//! A session in a running server, over its HTTP API.

use std::time::Duration;

use anyhow::Context;
use baton_protocol::provider::ProviderConfig;
use baton_protocol::{Event, SessionId};
use baton_runtime::Options;
use serde_json::{Value, json};

use super::place::{Arrived, EndpointChoice, Leaving, current_directory, describe, model_of};
use crate::client::{
    AcceptedPrompt, Client, EventStream, PendingList, PendingRequest, RequestFailure, ServerLocator,
    SessionView,
};
use crate::config::{self, Config};
use crate::discovery::RunningServer;
use baton_args::RunArgs;

/// Delays between attempts to reconnect, half a minute in all: enough to restart a server by hand.
const RECONNECT_DELAYS: [Duration; 9] = [
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(3),
    Duration::from_secs(4),
    Duration::from_secs(5),
    Duration::from_secs(7),
    Duration::from_secs(8),
];

/// Time limit for a server to respond at all. One that is stuck is not used.
const HEALTH_LIMIT: Duration = Duration::from_secs(2);

/// A session in a server.
pub(super) struct Remote {
    client: Client,
    session: String,
    pub(super) description: String,
    /// Whether this command created the session.
    is_new: bool,
    stream: Option<EventStream>,
    /// Position of the last durable event received.
    cursor: u64,
    /// Number of failed attempts to connect.
    attempts: usize,
    /// Wait before the next attempt.
    pause: Option<Duration>,
}

impl Remote {
    /// Opens the session that the arguments ask for. The inner error says why the server cannot be used.
    pub(super) async fn open(
        locator: ServerLocator<'_>,
        server: &RunningServer,
        endpoint: EndpointChoice,
        config: &Config,
        args: &RunArgs,
        options: &Options,
    ) -> anyhow::Result<Result<Self, String>> {
        let client = locator.client(server)?;
        let health = tokio::time::timeout(HEALTH_LIMIT, client.get::<Value>("/api/health")).await;
        match health {
            Ok(Ok(_) | Err(RequestFailure::Refused { .. })) => {}
            Ok(Err(failure)) => return Ok(Err(failure.to_string())),
            Err(_) => return Ok(Err(format!("it does not respond within {} s", HEALTH_LIMIT.as_secs()))),
        }
        let Some((session, is_new)) = find_or_create(&client, &endpoint, config, args, options).await? else {
            return Ok(Err("it refuses the endpoint of this command".to_owned()));
        };
        let held = session.held_by.is_some().then(|| locator.connect_to_holder(&session)).transpose()?;
        let endpoint = match &endpoint {
            EndpointChoice::Own(_) => config::describe(&config.endpoint.value),
            _ => server.endpoint.as_ref().map(|of| of.description.clone()).unwrap_or_default(),
        };
        let what = describe(session.model.as_deref(), &baton_runtime::engine_names(options), &endpoint);
        let description = format!("{what} · on server {}", server.pid());
        Ok(Ok(Self::new(held.flatten().unwrap_or(client), &session, description, is_new)))
    }

    /// A session of a connected server.
    pub(super) fn new(client: Client, session: &SessionView, description: String, is_new: bool) -> Self {
        let (session, cursor) = (session.id.clone(), session.head);
        Self { client, session, description, is_new, stream: None, cursor, attempts: 0, pause: None }
    }

    pub(super) fn id(&self) -> &str {
        &self.session
    }

    pub(super) fn is_connected(&self) -> bool {
        self.stream.is_some()
    }

    fn path(&self, rest: &str) -> String {
        format!("/api/sessions/{}{rest}", self.session)
    }

    pub(super) async fn prompt(&mut self, text: &str) -> anyhow::Result<String> {
        // Before the prompt, so that no streamed text is missed.
        self.stream = Some(self.client.stream(&self.session, self.cursor).await?);
        let key = SessionId::random();
        let body = json!({ "text": text });
        let accepted: AcceptedPrompt =
            self.client.post(&self.path("/prompts"), &body, Some(key.as_str())).await?;
        Ok(accepted.prompt_id)
    }

    /// Waits for the next event, across restarts of the server.
    pub(super) async fn next_event(&mut self) -> anyhow::Result<Arrived> {
        loop {
            if let Some(pause) = self.pause {
                tokio::time::sleep(pause).await;
                self.pause = None;
            }
            match self.next_streamed().await {
                Ok(arrived) => return Ok(arrived),
                Err(RequestFailure::Unreachable(why)) => {
                    self.stream = None;
                    let delay = RECONNECT_DELAYS.get(self.attempts);
                    self.pause = Some(*delay.with_context(|| {
                        format!(
                            "lost the server: {why}; when it runs again, continue with `baton attach {}`",
                            self.session
                        )
                    })?);
                    self.attempts += 1;
                    if self.attempts == 1 {
                        return Ok(Arrived::Lost(why));
                    }
                }
                Err(refused) => return Err(refused.into()),
            }
        }
    }

    async fn next_streamed(&mut self) -> Result<Arrived, RequestFailure> {
        loop {
            if self.stream.is_none() {
                self.stream = Some(self.client.stream(&self.session, self.cursor).await?);
                // A restarted server continues pending work when a client asks for it.
                let resumed = self.client.post::<Value>(&self.path("/resume"), &json!({}), None).await;
                resumed.map(drop)?;
                if self.attempts > 0 {
                    return Ok(Arrived::Reconnected);
                }
            }
            let Some(stream) = &mut self.stream else { continue };
            let ended = || RequestFailure::Unreachable("the server ended the stream".into());
            let streamed = stream.next().await?.ok_or_else(ended)?;
            self.cursor = streamed.seq.unwrap_or(self.cursor);
            self.attempts = 0;
            // An event that cannot be parsed comes from a newer server.
            if let Ok(event) = Event::parse(&streamed.json) {
                return Ok(Arrived::Event(Box::new(event), streamed.json));
            }
        }
    }

    pub(super) async fn cancel(&self) -> anyhow::Result<()> {
        Ok(self.client.post::<Value>(&self.path("/cancel"), &json!({}), None).await.map(drop)?)
    }

    pub(super) async fn requests(&self) -> anyhow::Result<Vec<PendingRequest>> {
        Ok(self.client.get::<PendingList>(&self.path("/requests")).await?.requests)
    }

    pub(super) async fn answer(&self, request: &str, answer: &Value) -> Result<(), RequestFailure> {
        self.client.post::<Value>(&self.path(&format!("/requests/{request}")), answer, None).await.map(drop)
    }

    pub(super) async fn leave(self, leaving: Leaving) -> anyhow::Result<()> {
        if self.is_new && leaving == Leaving::FailedStart {
            self.client.delete(&self.path("")).await?;
        }
        Ok(())
    }
}

/// The session that the arguments ask for, and whether it is new. `None` if the server cannot give it the endpoint.
async fn find_or_create(
    client: &Client,
    endpoint: &EndpointChoice,
    config: &Config,
    args: &RunArgs,
    options: &Options,
) -> anyhow::Result<Option<(SessionView, bool)>> {
    let cwd = current_directory()?;
    let found = match &args.session {
        Some(prefix) => Some(client.find(prefix).await?),
        None if args.continue_last => {
            let here =
                client.sessions().await?.into_iter().find(|session| session.cwd.as_deref() == Some(&cwd));
            Some(here.context("no session of this directory to continue; start one without --continue")?)
        }
        None => None,
    };
    let model = model_of(config, args);
    let provider = match endpoint {
        EndpointChoice::Own(provider) => Some(provider_field(provider)),
        _ => None,
    };
    // A provider of a session has no default model; this command uses the same one as without a server.
    let needs_model = provider.is_some() && found.as_ref().is_none_or(|session| session.model.is_none());
    let model = match model {
        None if needs_model => Some(baton_runtime::default_model(options).await),
        named => named,
    };
    match found {
        Some(session) => {
            // A session keeps its model and provider unless this command names others.
            let is_named = args.engine.is_some() || args.model.model.is_some();
            let model = model.filter(|_| is_named || needs_model);
            let change = without_nulls(json!({ "model": model, "provider": provider }));
            if change.as_object().is_some_and(serde_json::Map::is_empty) {
                return Ok(Some((session, false)));
            }
            let path = format!("/api/sessions/{}", session.id);
            Ok(accepted(client.patch(&path, &change).await, endpoint)?.map(|session| (session, false)))
        }
        None => {
            let new = without_nulls(json!({ "cwd": cwd, "model": model, "provider": provider }));
            let created = client.post("/api/sessions", &new, None).await;
            Ok(accepted(created, endpoint)?.map(|session| (session, true)))
        }
    }
}

/// A provider as the HTTP API takes it.
fn provider_field(provider: &ProviderConfig) -> Value {
    without_nulls(json!({
        "type": provider.kind,
        "baseUrl": provider.base_url,
        "apiKey": provider.api_key,
        "bearerToken": provider.bearer_token,
        "wireApi": provider.wire_api,
        "transport": provider.transport,
        "headers": provider.headers,
        "maxPromptTokens": provider.max_prompt_tokens,
        "maxOutputTokens": provider.max_output_tokens,
        "apiVersion": provider.azure.as_ref().and_then(|azure| azure.api_version.as_ref()),
    }))
}

/// A server that cannot use an endpoint of this command refuses it; the session then lives elsewhere.
fn accepted<T>(
    result: Result<T, RequestFailure>,
    endpoint: &EndpointChoice,
) -> Result<Option<T>, RequestFailure> {
    match (result, endpoint) {
        (Err(RequestFailure::Refused { .. }), EndpointChoice::Own(_)) => Ok(None),
        (result, _) => result.map(Some),
    }
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        other => other,
    }
}
