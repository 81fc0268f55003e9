//! A session in a running server, over its HTTP API.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use baton_protocol::SessionId;
use baton_protocol::provider::ProviderConfig;
use baton_runtime::Options;
use serde_json::{Value, json};

use super::connection::{Connection, Home};
use super::description::Description;
use super::place::{
    Arrived, EndpointChoice, Leaving, NothingToContinue, check_demo, check_engine, current_directory,
    may_continue, model_of, nothing_pending,
};
use crate::args::RunArgs;
use crate::client::{
    AcceptedPrompt, Client, PendingList, PendingRequest, RequestFailure, ServerLocator, SessionView,
};
use crate::config::{self, Config};
use crate::discovery::RunningServer;

/// Time limit for a server to respond at all. One that is stuck is not used.
const HEALTH_LIMIT: Duration = Duration::from_secs(2);

/// A session in a server.
pub(super) struct Remote {
    client: Arc<Client>,
    session: String,
    pub(super) description: Description,
    /// Whether this command created the session.
    is_new: bool,
    /// Where the server is looked for after a lost connection, and the position from which events are received; until the
    /// connection is opened.
    unconnected: Option<(Home, u64)>,
    connection: Option<Connection>,
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
        let engines = baton_runtime::engine_names(options);
        let description = Description::new(session.model.as_deref(), &engines, &endpoint)
            .in_place(&format!("on server {}", server.pid()));
        let home = Home::of(&locator);
        Ok(Ok(Self::new(held.flatten().unwrap_or(client), home, &session, description, is_new)))
    }

    /// A session of a connected server.
    pub(super) fn new(
        client: Client,
        home: Home,
        session: &SessionView,
        description: Description,
        is_new: bool,
    ) -> Self {
        let unconnected = Some((home, session.head));
        let (client, session) = (Arc::new(client), session.id.clone());
        Self { client, session, description, is_new, unconnected, connection: None }
    }

    pub(super) fn id(&self) -> &str {
        &self.session
    }

    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }

    pub(super) fn is_connected(&self) -> bool {
        self.connection.as_ref().is_some_and(Connection::is_connected)
    }

    fn path(&self, rest: &str) -> String {
        format!("/api/sessions/{}{rest}", self.session)
    }

    /// Begins to receive events.
    pub(super) async fn connect(&mut self) -> Result<(), RequestFailure> {
        if let Some((home, cursor)) = self.unconnected.take() {
            let stream = self.client.stream(&self.session, cursor).await?;
            let (client, session) = (Arc::clone(&self.client), self.session.clone());
            self.connection = Some(Connection::keep(client, home, session, cursor, stream));
        }
        Ok(())
    }

    pub(super) async fn prompt(&mut self, text: &str) -> anyhow::Result<String> {
        // Before the prompt, so that no streamed text is missed.
        self.connect().await?;
        let key = SessionId::random();
        let body = json!({ "text": text });
        let accepted: AcceptedPrompt =
            self.client.post(&self.path("/prompts"), &body, Some(key.as_str())).await?;
        Ok(accepted.prompt_id)
    }

    /// Continues the pending work of a session whose requests wait for an answer.
    pub(super) async fn resume(&mut self) -> anyhow::Result<()> {
        self.connect().await?;
        if !self.requests().await?.iter().any(PendingRequest::is_for_user) {
            return Err(nothing_pending(&self.session));
        }
        Ok(self.client.post::<Value>(&self.path("/resume"), &json!({}), None).await.map(drop)?)
    }

    /// Waits for the next event, across restarts of the server. Cancel-safe.
    pub(super) async fn next_event(&mut self) -> anyhow::Result<Arrived> {
        let connection = self.connection.as_mut().context("the session is not connected")?;
        connection.next(&mut self.client).await
    }

    pub(super) async fn cancel(&self) -> Result<(), RequestFailure> {
        self.client.post::<Value>(&self.path("/cancel"), &json!({}), None).await.map(drop)
    }

    pub(super) async fn requests(&self) -> Result<Vec<PendingRequest>, RequestFailure> {
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
            let is_meant = |session: &SessionView| {
                session.cwd.as_deref() == Some(&cwd) && may_continue(args, session.model.as_deref())
            };
            let here = client.sessions().await?.into_iter().find(is_meant);
            Some(here.ok_or_else(|| NothingToContinue::new(args))?)
        }
        None => None,
    };
    if let Some(session) = &found {
        check_demo(args, &session.id, session.model.as_deref())?;
        check_engine(args, &session.id, session.model.as_deref())?;
    }
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
            let new = without_nulls(
                json!({ "cwd": cwd, "model": model, "provider": provider, "sandbox": args.sandbox }),
            );
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
