//! Where the session of a `baton run` lives: in a running server of the same home, so that others can watch and steer, or in
//! this process. The rest of the command cannot tell the two apart.

use anyhow::Context;
use baton_protocol::Event;
use baton_protocol::provider::{ProviderConfig, ProviderKind};
use baton_providers::ServerEndpoint;
use baton_runtime::Options;
use serde_json::Value;

use super::description::Description;
use super::embedded::Embedded;
use super::remote::Remote;
use crate::args::RunArgs;
use crate::client::{PendingRequest, RequestFailure, ServerLocator};
use crate::config::{self, Config, Environment};
use crate::discovery::{self, ProcessRole, RunningServer};

/// Name of the demo model, in a session that has chosen it.
const DEMO_MODEL: &str = "baton-demo";

/// Variables that concern one process: with them, the session lives in this one.
const OWN_PROCESS: [&str; 3] = [crate::record::RECORD, "BATON_REPLAY", "BATON_CRASH_AT"];

/// A session to send the prompt to.
pub(super) enum SessionHost {
    /// In a server, or in another `baton run`.
    Server(Box<Remote>),
    /// In this process.
    Here(Box<Embedded>),
}

/// What the session is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// A prompt.
    Prompt,
    /// The requests that wait for an answer.
    Requests,
}

/// A message of a session.
pub(super) enum Arrived {
    /// An event, parsed and as it is stored.
    Event(Box<Event>, String),
    /// The connection to the server is lost, for this reason.
    Lost(String),
    /// The server is connected again, and continues the session.
    Reconnected,
}

/// The outcome of an answer.
pub(super) enum Answered {
    /// It counts.
    Accepted,
    /// Another answer came first, or the request was withdrawn.
    TooLate(String),
    /// It is refused for this reason, and the request is still pending.
    Refused(String),
    /// The session could not be reached.
    Lost,
}

/// What becomes of a session that `baton run` leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaving {
    /// It stays.
    Kept,
    /// It is deleted if this command created it: its only prompt failed without an answer.
    FailedStart,
}

impl SessionHost {
    /// Opens the session that the arguments ask for, where it can live.
    pub(super) async fn open(
        config: &Config,
        environment: &Environment,
        options: Options,
        args: &RunArgs,
        work: Work,
    ) -> anyhow::Result<Self> {
        let running = RunningServer::all(&config.home.value);
        let locator = ServerLocator {
            url: None,
            socket: None,
            token_file: None,
            ca: None,
            home: &config.home.value,
            token: environment.get("BATON_TOKEN"),
        };
        let is_own = args.no_server || OWN_PROCESS.iter().any(|name| environment.get(name).is_some());
        let mut note = None;
        if !is_own {
            discovery::check_user(&config.home.value)?;
            let server =
                running.iter().find(|server| server.role == ProcessRole::Server && server.is_reachable());
            match server.map(|server| (server, endpoint_for(server, config, args))) {
                Some((server, EndpointChoice::Unavailable(why))) => {
                    note = Some(format!("not using the server (process {}): {why}", server.pid()));
                }
                Some((server, choice)) => {
                    if let (EndpointChoice::OfServer, Some(endpoint)) = (&choice, &server.endpoint) {
                        check_model(args, &endpoint.description, &options)?;
                    }
                    match Remote::open(locator, server, choice, config, args, &options).await? {
                        Ok(remote) => return Ok(Self::Server(Box::new(remote))),
                        Err(why) => {
                            note = Some(format!("not using the server (process {}): {why}", server.pid()));
                        }
                    }
                }
                None => {}
            }
        }
        check_model(args, &config::describe(&config.endpoint.value), &options)?;
        Embedded::open(config, options, args, locator, note, work).await
    }

    pub(super) fn id(&self) -> &str {
        match self {
            Self::Server(remote) => remote.id(),
            Self::Here(embedded) => embedded.id(),
        }
    }

    /// Describes what answers and where.
    pub(super) fn describe(&self) -> &Description {
        match self {
            Self::Server(remote) => &remote.description,
            Self::Here(embedded) => &embedded.description,
        }
    }

    /// Whether requests of an earlier prompt may be pending.
    pub(super) fn may_have_requests(&self) -> bool {
        match self {
            Self::Server(remote) => !remote.is_new(),
            Self::Here(embedded) => embedded.has_requests(),
        }
    }

    /// Whether requests can be answered now.
    pub(super) fn is_connected(&self) -> bool {
        match self {
            Self::Server(remote) => remote.is_connected(),
            Self::Here(_) => true,
        }
    }

    /// Whether other prompts of the session end with this command.
    pub(super) fn ends_with_command(&self) -> bool {
        matches!(self, Self::Here(_))
    }

    /// Sends a prompt, and returns its id when it is durable.
    pub(super) async fn prompt(&mut self, text: &str) -> anyhow::Result<String> {
        match self {
            Self::Server(remote) => remote.prompt(text).await,
            Self::Here(embedded) => embedded.prompt(text).await,
        }
    }

    /// Continues the pending work of a session, without a prompt.
    pub(super) async fn resume(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Server(remote) => remote.resume().await,
            // It was resumed when it was opened.
            Self::Here(_) => Ok(()),
        }
    }

    /// Waits for the next event; `None` when the session has ended. Cancel-safe.
    pub(super) async fn next_event(&mut self) -> anyhow::Result<Option<Arrived>> {
        match self {
            Self::Server(remote) => remote.next_event().await.map(Some),
            Self::Here(embedded) => Ok(embedded.next_event().await),
        }
    }

    /// Cancels the turn. Returns whether the session could be reached.
    pub(super) async fn cancel(&mut self) -> anyhow::Result<bool> {
        match self {
            Self::Server(remote) => reached(remote.cancel().await).map(|done| done.is_some()),
            Self::Here(embedded) => embedded.cancel().await.map(|()| true),
        }
    }

    /// Lists the pending requests; none if the session cannot be reached now.
    pub(super) async fn requests(&mut self) -> anyhow::Result<Option<Vec<PendingRequest>>> {
        match self {
            Self::Server(remote) => reached(remote.requests().await),
            Self::Here(embedded) => Ok(Some(embedded.as_remote().await?.requests().await?)),
        }
    }

    /// Answers a request.
    pub(super) async fn answer(&mut self, request: &str, answer: &Value) -> anyhow::Result<Answered> {
        let answered = match self {
            Self::Server(remote) => remote.answer(request, answer).await,
            Self::Here(embedded) => embedded.as_remote().await?.answer(request, answer).await,
        };
        match answered {
            Ok(()) => Ok(Answered::Accepted),
            Err(RequestFailure::Refused { code, message })
                if matches!(&*code, "already_answered" | "not_found") =>
            {
                Ok(Answered::TooLate(message))
            }
            Err(RequestFailure::Refused { message, .. }) => Ok(Answered::Refused(message)),
            Err(RequestFailure::Unreachable(_)) => Ok(Answered::Lost),
            Err(untrusted) => Err(untrusted.into()),
        }
    }

    /// Leaves the session.
    pub(super) async fn leave(self, leaving: Leaving) -> anyhow::Result<()> {
        match self {
            Self::Server(remote) => remote.leave(leaving).await,
            Self::Here(embedded) => embedded.leave(leaving).await,
        }
    }
}

/// Returns none for a server that cannot be reached: the connection tells when it is lost, and when it is back.
fn reached<T>(result: Result<T, RequestFailure>) -> anyhow::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(RequestFailure::Unreachable(_)) => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}

/// The endpoint of a session in a server.
pub(super) enum EndpointChoice {
    /// That of the server.
    OfServer,
    /// The one of this command.
    Own(Box<ProviderConfig>),
    /// The server cannot use the wanted one, because of this.
    Unavailable(&'static str),
}

/// Chooses the endpoint of a session in a server: the server's, unless this command is configured with another one.
fn endpoint_for(server: &RunningServer, config: &Config, args: &RunArgs) -> EndpointChoice {
    let own = &config.endpoint.value;
    let is_same = || server.endpoint.as_ref() == Some(&config::published(server, own));
    let is_default = config.endpoint.source == "default";
    match own {
        // An engine brings its own model, and without any configuration the server's is better than the demo model.
        _ if args.engine.is_some() || is_default || is_same() => EndpointChoice::OfServer,
        ServerEndpoint::Provider { provider, .. } if provider.kind != Some(ProviderKind::Replay) => {
            EndpointChoice::Own(provider.clone())
        }
        ServerEndpoint::Demo => EndpointChoice::Unavailable("it does not use the demo model"),
        _ => EndpointChoice::Unavailable("it uses another endpoint"),
    }
}

/// Refuses a model that no provider has: the demo model would answer in its name.
fn check_model(args: &RunArgs, endpoint: &str, options: &Options) -> anyhow::Result<()> {
    let Some(model) = &args.model.model else { return Ok(()) };
    let first = model.split('/').next().unwrap_or_default();
    let is_of_engine = args.engine.is_some() || baton_runtime::engine_names(options).contains(&first);
    anyhow::ensure!(
        is_of_engine || endpoint != config::describe(&ServerEndpoint::Demo),
        "no provider is configured for the model {model:?}; set OPENAI_API_KEY, ANTHROPIC_API_KEY or OPENAI_BASE_URL"
    );
    Ok(())
}

/// The model of a session, as the arguments name it. For an engine it is the engine's name, optionally with one of its own
/// models.
pub(super) fn model_of(config: &Config, args: &RunArgs) -> Option<String> {
    match &args.engine {
        Some(engine) => Some(match &args.model.model {
            Some(model) => format!("{engine}/{model}"),
            None => engine.clone(),
        }),
        None => config.model.as_ref().map(|model| model.value.clone()),
    }
}

/// Error of `--continue` in a directory without a session.
#[derive(Debug, thiserror::Error)]
#[error("no session of this directory to continue{}; start one without --continue", .engine.as_ref().map(|name| format!(" that {name} has run")).unwrap_or_default())]
pub(super) struct NothingToContinue {
    /// The engine whose sessions were looked for.
    engine: Option<String>,
}

impl NothingToContinue {
    pub(super) fn new(args: &RunArgs) -> Self {
        Self { engine: args.engine.clone() }
    }
}

/// Whether `--continue` may choose a session with this model.
pub(super) fn may_continue(args: &RunArgs, model: Option<&str>) -> bool {
    args.engine.is_none() || args.switch_engine || engine_of(model) == args.engine.as_deref()
}

/// Refuses to continue a session of one engine with another, unless the user asks for that: the other one would not know
/// the tools, the login and the conversation of the first.
pub(super) fn check_engine(args: &RunArgs, session: &str, model: Option<&str>) -> anyhow::Result<()> {
    let wanted = match (&args.engine, &args.model.model) {
        (Some(engine), _) => Some(engine.as_str()),
        (None, Some(model)) => engine_of(Some(model)),
        (None, None) => return Ok(()),
    };
    let (Some(model), false) = (model, args.switch_engine) else { return Ok(()) };
    let own = engine_of(Some(model));
    let name = |engine: Option<&str>| engine.unwrap_or("Baton's own engine").to_owned();
    anyhow::ensure!(
        own == wanted,
        "session {session} was run by {}; add --switch-engine to continue it with {}",
        name(own),
        name(wanted)
    );
    Ok(())
}

/// Returns the engine that a model belongs to; none for Baton's own.
fn engine_of(model: Option<&str>) -> Option<&str> {
    let first = model?.split('/').next()?;
    (first.starts_with("acp:") || baton_engines::names().any(|name| name == first)).then_some(first)
}

/// Refuses the demo model for a session that has another one, which would answer instead.
pub(super) fn check_demo(args: &RunArgs, session: &str, model: Option<&str>) -> anyhow::Result<()> {
    match model {
        Some(model) if args.model.demo && model != DEMO_MODEL => anyhow::bail!(
            "session {session} uses {model}; continue it without --demo, or start another one with --demo"
        ),
        _ => Ok(()),
    }
}

/// The error for a session that was to be continued without a prompt.
pub(super) fn nothing_pending(session: &str) -> anyhow::Error {
    anyhow::anyhow!("session {session} has no request that waits for an answer; write a prompt")
}

/// The current directory, as text.
pub(super) fn current_directory() -> anyhow::Result<String> {
    Ok(std::env::current_dir().context("cannot read the current directory")?.display().to_string())
}
