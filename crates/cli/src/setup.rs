//! From settings to a server: what all commands that need one have in common.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use baton_server::{Account, CrashPlan, CrashPoint, Endpoint, Options, Server};
use baton_store::sqlite::{Migration, SqliteStore};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::{Config, Environment};

/// The largest message a client may send: attachments travel inside.
const MAX_MESSAGE: usize = 256 << 20;
/// How much may wait for a client that does not read.
const MAX_BACKLOG: usize = 64 << 20;

/// How long work that blocks may take to end once nobody waits for it.
const FAREWELL: Duration = Duration::from_millis(500);

/// Variables that are ours or an SDK's, and that no command of a session should see.
const SECRETS: [&str; 7] = [
    "BATON_TOKEN",
    "COPILOT_SDK_AUTH_TOKEN",
    "COPILOT_CONNECTION_TOKEN",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "COPILOT_HMAC_KEY",
    "GITHUB_COPILOT_API_TOKEN",
];

/// The store of a configuration. Opens nothing yet.
pub(crate) fn store(config: &Config, crash: Option<Arc<CrashPlan>>) -> Arc<SqliteStore> {
    let (path, durability) = (config.home.value.join("baton.db"), config.durability.value);
    Arc::new(match crash {
        None => SqliteStore::new(path, durability),
        Some(plan) => {
            SqliteStore::watched(path, durability, Box::new(move |stage| plan.pass(migration_point(stage))))
        }
    })
}

fn migration_point(stage: Migration) -> CrashPoint {
    match stage {
        Migration::Begins => CrashPoint::BeforeMigration,
        Migration::Written => CrashPoint::DuringMigration,
        Migration::Done => CrashPoint::AfterMigration,
    }
}

/// The options of a server.
pub(crate) fn options(config: &Config, environment: &Environment) -> anyhow::Result<Options> {
    let account = match &config.endpoint.value {
        Endpoint::Copilot { token: Some(_), .. } => {
            Account { authenticated: true, kind: Some("token".into()) }
        }
        Endpoint::Provider { provider, .. } if provider.api_key.is_some() => {
            Account { authenticated: true, kind: Some("api-key".into()) }
        }
        _ => Account::default(),
    };
    Ok(Options {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        home: config.home.value.clone(),
        cwd: std::env::current_dir().context("cannot tell the current directory")?,
        endpoint: config.endpoint.value.clone(),
        engines: config.engines.clone().into_iter().map(|(name, table)| (name, table.into())).collect(),
        record: environment.get(crate::record::RECORD).map(Into::into),
        reveal_endpoint: environment.get("COPILOT_ALLOW_GET_PROVIDER_ENDPOINT") == Some("true"),
        account,
        github_api: environment.get("COPILOT_DEBUG_GITHUB_API_URL").map(str::to_owned),
        environment: command_environment(),
        connection_token: environment.get("COPILOT_CONNECTION_TOKEN").map(str::to_owned),
        allow_all: false,
        crash: crash_plan(environment)?,
        max_message: MAX_MESSAGE,
        max_backlog: MAX_BACKLOG,
    })
}

/// Where a test wants the server to die: `BATON_CRASH_AT=after_append:3`. See the crash matrix in `tests/crash`.
pub(crate) fn crash_plan(environment: &Environment) -> anyhow::Result<Option<Arc<CrashPlan>>> {
    let plan = environment.get("BATON_CRASH_AT").map(CrashPlan::parse).transpose();
    Ok(plan.map_err(|error| anyhow::anyhow!("BATON_CRASH_AT: {error}"))?.map(Arc::new))
}

fn command_environment() -> Vec<(OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| !SECRETS.iter().any(|secret| name == secret)).collect()
}

/// Runs a command to its end, in the runtime that a server lives in. What still blocks then is left to itself: a read
/// that hangs in the kernel must not keep the process from ending.
pub(crate) fn block_on<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = runtime()?;
    let done = runtime.block_on(command);
    runtime.shutdown_timeout(FAREWELL);
    done
}

fn runtime() -> anyhow::Result<Runtime> {
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let started = AtomicUsize::new(0);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        // The workers are started first. Nothing that touches files runs on one of them: a test looks for these names.
        .thread_name_fn(move || match started.fetch_add(1, Ordering::Relaxed) {
            nth if nth < workers => "baton-worker".to_owned(),
            _ => "baton-blocking".to_owned(),
        })
        // Tools and files block now and then; a handful of threads is plenty, and each costs memory. Reads that hang
        // cannot take more of them than are meant for such reads.
        .max_blocking_threads(32 + baton_server::HANGING_READS)
        .enable_all()
        .build()
        .context("cannot start the runtime")
}

/// Logs to stderr, at the level that is configured.
pub(crate) fn log(config: &Config) {
    use tracing_subscriber::filter::EnvFilter;
    let level = match config.log_level.value.as_str() {
        "none" | "off" => "off",
        "all" => "trace",
        "warning" => "warn",
        other => other,
    };
    let filter = EnvFilter::try_new(format!(
        "off,baton={level},baton_server={level},baton_store={level},baton_model={level},baton_agent={level},baton_engines={level}"
    ));
    let filter = filter.unwrap_or_else(|_| EnvFilter::new("warn"));
    // A second subscriber in the same process is refused; the first one stays.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        // Somebody who started us may have closed the other end: then there is nobody to tell, and nothing to fail for.
        .log_internal_errors(false)
        .try_init();
}

/// Signals that ask for the end: Ctrl-C, a polite kill, a terminal that is closed. Nobody who is asked politely may leave
/// processes behind. None is missed from the moment that this exists.
pub(crate) struct Interrupts([Signal; 3]);

impl Interrupts {
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen to signals");
        Ok(Self([
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        ]))
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

/// Waits for somebody to ask for the end. Listens from the call on: whoever is told that we serve may ask at once.
pub(crate) fn asked_to_stop() -> impl Future<Output = ()> {
    let interrupts = Interrupts::listen();
    async {
        match interrupts {
            Ok(mut interrupts) => interrupts.next().await,
            // Without signals there is only the hard way to stop; keep serving.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Stops a server, and closes its store.
pub(crate) async fn stop(server: &Server, store: &SqliteStore) {
    server.stop().await;
    if let Err(error) = store.close().await {
        tracing::warn!(%error, "the store did not close cleanly; nothing acknowledged is lost");
    }
}
