//! Creates the store, the server and the runtime from the configuration, and stops them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use baton_postgres::PostgresStore;
use baton_providers::ServerEndpoint;
use baton_rpc::RpcOptions;
use baton_runtime::{CrashPlan, CrashPoint, CredentialState, EnvironmentFilter, Options, Runtime};
use baton_store::memory::MemoryStore;
use baton_store::sqlite::{Migration, SqliteStore};
use baton_store::{Store, StoreError};
use tokio::time::timeout;

use crate::args::{Cli, ModelArgs};
use crate::config::{self, Config, Environment, StoreChoice};
use crate::signals::{FirstSignal, Interrupts};
use crate::tool_environment::Filter;
use crate::{discovery, landing, logging, sandbox, sql_worker};

/// Size limit of a client's message, which includes attachments.
const MAX_MESSAGE: usize = 256 << 20;
/// Time limit for turns to end before a server that shares its store stops.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);
/// Time limit for running work to stop.
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// Time limit for the store to close.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);
/// Time limit for blocking threads to end.
const THREADS_LIMIT: Duration = Duration::from_secs(1);
/// Limit of bytes that are buffered for a client that does not read.
const MAX_BACKLOG: usize = 64 << 20;

/// Hides memory and environment from other processes of the same user, where the system allows it: both hold keys, and
/// commands of sessions run as the same user. Also disables core dumps. `BATON_DUMPABLE=1` turns this off, for debuggers
/// and profilers.
pub(crate) fn protect_memory() {
    let is_dumpable = std::env::var_os("BATON_DUMPABLE").is_some_and(|value| value == "1");
    #[cfg(target_os = "linux")]
    if !is_dumpable {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // Fails only on kernels without this call.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = is_dumpable;
}

/// The store of sessions that the configuration names.
#[derive(Clone)]
pub(crate) enum SessionStore {
    File(Arc<SqliteStore>),
    Database(Arc<PostgresStore>),
}

impl SessionStore {
    pub(crate) fn shared(&self) -> Arc<dyn Store> {
        match self {
            Self::File(store) => store.clone(),
            Self::Database(store) => store.clone(),
        }
    }

    /// Finishes queued writes and closes the store.
    pub(crate) async fn close(&self) -> Result<(), StoreError> {
        match self {
            Self::File(store) => store.close().await,
            Self::Database(store) => {
                store.close().await;
                Ok(())
            }
        }
    }
}

impl std::ops::Deref for SessionStore {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::File(store) => &**store,
            Self::Database(store) => &**store,
        }
    }
}

/// Checks that the home can be read, and that no other user has prepared it. One that does not exist yet is created when
/// something is stored.
///
/// # Errors
/// When it cannot be read: it belongs to another user, or is no directory. Without this check, it would look empty. When it, or
/// something in it, belongs to another user.
#[expect(clippy::disallowed_methods, reason = "one read, before anything else is done")]
pub(crate) fn check_home(home: &Path) -> anyhow::Result<()> {
    match std::fs::read_dir(home) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => anyhow::bail!(
            "cannot read the home {}: {error}; run this as its owner, or choose another home with --home",
            home.display()
        ),
        Ok(entries) => discovery::check_origin(home, entries),
    }
}

/// Creates the store, with a home that is closed to other users. Opens no file and no connection yet.
pub(crate) fn store(config: &Config, crash: Option<Arc<CrashPlan>>) -> anyhow::Result<SessionStore> {
    check_home(&config.home.value)?;
    if let Err(error) = baton_ops::restore::finish(&config.home.value) {
        tracing::error!(%error, "cannot complete an interrupted restore; sessions may be missing until it is");
    }
    secure_home(&config.home.value);
    if let StoreChoice::Database(location) = &config.store.value {
        return Ok(SessionStore::Database(Arc::new(PostgresStore::new(location, &config.place.value)?)));
    }
    let (path, durability) = (config.home.value.join("baton.db"), config.durability.value);
    let store = match crash {
        None => SqliteStore::new(path, durability),
        Some(plan) => {
            SqliteStore::watched(path, durability, Box::new(move |stage| plan.pass(migration_point(stage))))
        }
    };
    Ok(SessionStore::File(Arc::new(store)))
}

/// Closes the home to other users. A failure is only logged: each file has a private mode of its own.
fn secure_home(home: &Path) {
    let cwd = std::env::current_dir().unwrap_or_default();
    let user = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    match baton_files::home::secure(home, &[&cwd, &user]) {
        Ok(true) => {}
        Ok(false) => {
            tracing::info!(home = %home.display(), "home directory is shared; leaving its mode as it is");
        }
        Err(error) => {
            tracing::warn!(%error, home = %home.display(), "cannot close the home directory to other users");
        }
    }
}

/// Creates a server on this store.
pub(crate) fn server(options: Options, store: &SessionStore) -> Arc<Runtime> {
    let server = Runtime::new(options, store.shared());
    server.secure_sessions();
    landing::offer(&server);
    server
}

/// Creates a server that knows no stored session, for commands about what all sessions use.
pub(crate) fn server_without_sessions(
    config: &Config,
    environment: &Environment,
) -> anyhow::Result<Arc<Runtime>> {
    let server = Runtime::new(options(config, environment)?, Arc::new(MemoryStore::default()));
    landing::offer(&server);
    Ok(server)
}

/// Loads the configuration, and creates a server that knows no stored session.
pub(crate) fn without_sessions(cli: &Cli) -> anyhow::Result<Arc<Runtime>> {
    let environment = Environment::of_process();
    let config = config::load(&cli.global, &ModelArgs::default(), None, &environment)?;
    logging::start(&config);
    server_without_sessions(&config, &environment)
}

fn migration_point(stage: Migration) -> CrashPoint {
    match stage {
        Migration::Begins => CrashPoint::BeforeMigration,
        Migration::Written => CrashPoint::DuringMigration,
        Migration::Done => CrashPoint::AfterMigration,
    }
}

/// Builds the options of a server.
pub(crate) fn options(config: &Config, environment: &Environment) -> anyhow::Result<Options> {
    let account = match &config.endpoint.value {
        ServerEndpoint::Copilot { token: Some(_), .. } => {
            CredentialState { authenticated: true, kind: Some("token".into()) }
        }
        ServerEndpoint::Provider { provider, .. } if provider.api_key.is_some() => {
            CredentialState { authenticated: true, kind: Some("api-key".into()) }
        }
        _ => CredentialState::default(),
    };
    Ok(Options {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        home: config.home.value.clone(),
        cwd: std::env::current_dir().context("cannot read the current directory")?,
        endpoint: config.endpoint.value.clone(),
        engines: config.engines.clone().into_iter().map(|(name, table)| (name, table.into())).collect(),
        prices: config.prices.clone(),
        mcp_servers: config.mcp_servers.clone(),
        keyring: config.keyring.unwrap_or(false),
        record: environment.get(crate::record::RECORD).map(Into::into),
        reveal_endpoint: environment.get("COPILOT_ALLOW_GET_PROVIDER_ENDPOINT") == Some("true"),
        account,
        github_api: environment.get("COPILOT_DEBUG_GITHUB_API_URL").map(str::to_owned),
        program: std::env::current_exe().ok(),
        sql_program: sql_worker::program(),
        environment: Filter {
            configured: &config.tool_environment.value,
            secret_names: config.key_variables.iter().map(String::as_str).collect(),
            secrets: secrets(config, environment),
        }
        .for_commands(std::env::vars_os()),
        environment_filter: client_filter(config, environment),
        engine_environment: Filter::for_engines(std::env::vars_os()),
        secrets: Vec::new(),
        allow_all: false,
        sandbox: config.sandbox.value.clone(),
        sandbox_limits: config.sandbox_limits(),
        sandbox_host: sandbox::host().map(Arc::new),
        own_files: Vec::new(),
        agent_limits: config.agent_limits,
        plugin_directories: Vec::new(),
        crash: crash_plan(environment)?,
    })
}

/// Builds the options of the JSON-RPC door, with the token that the environment names.
pub(crate) fn rpc_options(config: &Config, environment: &Environment) -> RpcOptions {
    RpcOptions {
        token: environment.get("COPILOT_CONNECTION_TOKEN").map(str::to_owned),
        people: None,
        limits: config.rpc.limits(),
        max_message: MAX_MESSAGE,
        max_backlog: MAX_BACKLOG,
    }
}

/// Returns the point at which a test kills the server, such as `BATON_CRASH_AT=after_append:3`. Used by the crash
/// matrix in `tests/crash`.
pub(crate) fn crash_plan(environment: &Environment) -> anyhow::Result<Option<Arc<CrashPlan>>> {
    let plan = environment.get("BATON_CRASH_AT").map(CrashPlan::parse).transpose();
    Ok(plan.map_err(|error| anyhow::anyhow!("BATON_CRASH_AT: {error}"))?.map(Arc::new))
}

/// Returns the filter of variables of clients: that of the server's own.
fn client_filter(config: &Config, environment: &Environment) -> EnvironmentFilter {
    let (configured, names) = (config.tool_environment.value.clone(), config.key_variables.clone());
    let secrets: Vec<String> = secrets(config, environment).into_iter().map(str::to_owned).collect();
    EnvironmentFilter::new(move |name, value| {
        let filter = Filter {
            configured: &configured,
            secret_names: names.iter().map(String::as_str).collect(),
            secrets: secrets.iter().map(String::as_str).collect(),
        };
        filter.passes(name.as_ref(), value.as_ref())
    })
}

/// Returns the keys and tokens of this process.
fn secrets<'a>(config: &'a Config, environment: &'a Environment) -> Vec<&'a str> {
    let of_endpoint = match &config.endpoint.value {
        ServerEndpoint::Copilot { token, .. } => token.as_deref(),
        ServerEndpoint::Provider { provider, .. } => provider.api_key.as_deref(),
        ServerEndpoint::Demo => None,
    };
    let given = [
        "BATON_TOKEN",
        "COPILOT_CONNECTION_TOKEN",
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "BATON_STORE",
        "PGPASSWORD",
        "BATON_PEER_SECRET",
    ];
    of_endpoint.into_iter().chain(given.into_iter().filter_map(|name| environment.get(name))).collect()
}

/// Runs a future in a new runtime. Threads that then still block in a read are abandoned; they end with the process.
pub(crate) fn run<T>(program: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let tokio = tokio_runtime()?;
    let result = tokio.block_on(program);
    tokio.shutdown_timeout(THREADS_LIMIT);
    result
}

fn tokio_runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .thread_name("baton")
        // Few blocking threads are needed, and each costs memory. Reads that hang have a share of their own.
        .max_blocking_threads(32 + baton_runtime::MAX_BLOCKED_READS)
        .enable_all()
        .build()
        .context("cannot start the runtime")
}

/// Waits for a signal to stop. Listens from the call on: a client may stop the server as soon as it is announced.
pub(crate) fn stop_signal() -> impl Future<Output = ()> {
    let interrupts = Interrupts::listen(FirstSignal::Stops);
    async {
        match interrupts {
            Ok(mut interrupts) => interrupts.next().await,
            // Without signal handlers, signals end the process at once; keep serving.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Stops a server and closes its store, within time limits. Where servers share the store, turns may end before.
pub(crate) async fn stop(server: &Runtime, store: &SessionStore) {
    server.drain(DRAIN_LIMIT).await;
    if timeout(STOP_LIMIT, server.stop()).await.is_err() {
        tracing::warn!("work did not stop within {STOP_LIMIT:?}; the next server ends its processes");
    }
    match timeout(CLOSE_LIMIT, store.close()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(%error, "cannot close the store cleanly; nothing acknowledged is lost");
        }
        Err(_) => {
            tracing::warn!("the store did not close within {CLOSE_LIMIT:?}; nothing acknowledged is lost");
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_protocol::params::SessionParams;
    use baton_runtime::Join;

    use super::*;
    use crate::args::Global;

    #[test]
    fn home_that_cannot_be_read_is_not_taken_for_an_empty_one() {
        let directory = tempfile::tempdir().unwrap();
        check_home(directory.path()).unwrap();
        check_home(&directory.path().join("later")).unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        let refused = check_home(&file).unwrap_err().to_string();
        assert!(refused.contains("cannot read the home") && refused.contains("--home"), "{refused}");
    }

    #[test]
    fn blocked_thread_does_not_keep_the_runtime_from_ending() {
        let (release, blocked) = std::sync::mpsc::channel::<()>();
        let (begun, is_begun) = tokio::sync::oneshot::channel();
        let ended = run(async {
            tokio::task::spawn_blocking(move || {
                let _ = begun.send(());
                blocked.recv()
            });
            Ok(is_begun.await?)
        });
        ended.unwrap();
        drop(release);
    }

    /// On a paused clock, which jumps to the next timer whenever nothing else can happen.
    #[tokio::test(start_paused = true)]
    async fn stuck_store_does_not_keep_the_server_from_stopping() {
        let home = tempfile::tempdir().unwrap();
        let global = Global { home: Some(home.path().to_owned()), ..Global::default() };
        let environment = Environment::from_iter([]);
        let config = config::load(&global, &ModelArgs::default(), None, &environment).unwrap();
        let store = store(&config, None).unwrap();
        let server = server(options(&config, &environment).unwrap(), &store);
        let session = server.join(Join::Create(SessionParams::default())).await.unwrap();
        let lock = rusqlite::Connection::open(home.path().join("baton.db")).unwrap();
        lock.execute_batch("BEGIN IMMEDIATE").unwrap();
        let begun = tokio::time::Instant::now();
        let stopped = timeout(2 * (STOP_LIMIT + CLOSE_LIMIT), stop(&server, &store)).await;
        assert!(stopped.is_ok(), "stopping has time limits of its own");
        assert!(begun.elapsed() >= STOP_LIMIT, "the session could not be released");
        drop((lock, session));
    }
}
