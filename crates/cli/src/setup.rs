//! From settings to a server: what all commands that need one have in common.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use baton_server::{Account, CrashPlan, CrashPoint, Endpoint, Options, RpcLimits, Server};
use baton_store::sqlite::{Migration, SqliteStore};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::config::{Config, Environment};
use crate::signals::{Interrupts, Meaning};
use crate::terminal;
use crate::tool_environment::Filter;

/// The largest message a client may send: attachments travel inside.
const MAX_MESSAGE: usize = 256 << 20;
/// How long a server may take to end its work, its store to close, and what is left to end by itself.
const LONGEST_STOP: Duration = Duration::from_secs(10);
const LONGEST_CLOSE: Duration = Duration::from_secs(5);
const LONGEST_REST: Duration = Duration::from_secs(1);
/// How much may wait for a client that does not read.
const MAX_BACKLOG: usize = 64 << 20;

/// Closes this process to others of the same user, as far as the system lets it: its environment and its memory hold keys,
/// and commands of sessions run under the same user. There is no core dump either. `BATON_DUMPABLE=1` leaves it open, for
/// debuggers and profilers.
pub(crate) fn close_memory() {
    let wanted_open = std::env::var_os("BATON_DUMPABLE").is_some_and(|value| value == "1");
    #[cfg(target_os = "linux")]
    if !wanted_open {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // Only kernels that do not know the call refuse it.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = wanted_open;
}

/// The store of a configuration, in a home that is closed to other users. Opens nothing yet.
pub(crate) fn store(config: &Config, crash: Option<Arc<CrashPlan>>) -> Arc<SqliteStore> {
    secure_home(&config.home.value);
    let (path, durability) = (config.home.value.join("baton.db"), config.durability.value);
    Arc::new(match crash {
        None => SqliteStore::new(path, durability),
        Some(plan) => {
            SqliteStore::watched(path, durability, Box::new(move |stage| plan.pass(migration_point(stage))))
        }
    })
}

/// Closes the home to other users. Where that cannot be, everything works all the same, and what is written is closed
/// by its own mode.
fn secure_home(home: &Path) {
    let cwd = std::env::current_dir().unwrap_or_default();
    let user = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    match baton_server::home::secure(home, &[&cwd, &user]) {
        Ok(true) => {}
        Ok(false) => tracing::info!(home = %home.display(), "the home directory is shared; its mode stays"),
        Err(error) => {
            tracing::warn!(%error, home = %home.display(), "cannot close the home directory to other users");
        }
    }
}

/// A server with this store.
pub(crate) fn server(options: Options, store: &Arc<SqliteStore>) -> Arc<Server> {
    let server = Server::new(options, store.clone());
    server.secure_sessions();
    server
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
        environment: Filter {
            named: &config.tool_environment.value,
            read: config.key_variables.iter().map(String::as_str).collect(),
            secrets: secrets(config, environment),
        }
        .for_commands(std::env::vars_os()),
        engine_environment: Filter::for_engines(std::env::vars_os()),
        connection_token: environment.get("COPILOT_CONNECTION_TOKEN").map(str::to_owned),
        allow_all: false,
        crash: crash_plan(environment)?,
        max_message: MAX_MESSAGE,
        max_backlog: MAX_BACKLOG,
        rpc: RpcLimits::default(),
    })
}

/// Where a test wants the server to die: `BATON_CRASH_AT=after_append:3`. See the crash matrix in `tests/crash`.
pub(crate) fn crash_plan(environment: &Environment) -> anyhow::Result<Option<Arc<CrashPlan>>> {
    let plan = environment.get("BATON_CRASH_AT").map(CrashPlan::parse).transpose();
    Ok(plan.map_err(|error| anyhow::anyhow!("BATON_CRASH_AT: {error}"))?.map(Arc::new))
}

/// Keys and tokens that this process was given.
fn secrets<'a>(config: &'a Config, environment: &'a Environment) -> Vec<&'a str> {
    let of_endpoint = match &config.endpoint.value {
        Endpoint::Copilot { token, .. } => token.as_deref(),
        Endpoint::Provider { provider, .. } => provider.api_key.as_deref(),
        Endpoint::Demo => None,
    };
    let given = ["BATON_TOKEN", "COPILOT_CONNECTION_TOKEN", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"];
    of_endpoint.into_iter().chain(given.into_iter().filter_map(|name| environment.get(name))).collect()
}

/// Runs a program to its end in a runtime of its own. What then still hangs in a read is left behind: the end of the
/// process ends it.
pub(crate) fn run<T>(program: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = runtime()?;
    let result = runtime.block_on(program);
    runtime.shutdown_timeout(LONGEST_REST);
    result
}

fn runtime() -> anyhow::Result<Runtime> {
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let started = AtomicUsize::new(0);
    let (begun, begins) = std::sync::mpsc::channel();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        // The workers are started first. Nothing that touches files runs on one of them: a test looks for these names.
        .thread_name_fn(move || match started.fetch_add(1, Ordering::Relaxed) {
            nth if nth < workers => "baton-worker".to_owned(),
            _ => "baton-blocking".to_owned(),
        })
        // Tools and files block now and then; a handful of threads is plenty, and each costs memory. Reads that hang
        // cannot take more of them than are meant for such reads.
        .max_blocking_threads(32 + baton_server::HANGING_READS)
        .on_thread_start(move || _ = begun.send(()))
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    // Workers come out of the same pool as threads that block. Before anything else is in its queue, each of the first
    // threads becomes a worker; later, one that is slow to start could get blocking work, under the wrong name.
    for _ in 0..workers {
        begins.recv().context("cannot start the runtime's workers")?;
    }
    Ok(runtime)
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
        // Without colours: escape sequences in the log are then none of ours, and the writer shows them.
        .with_writer(|| terminal::LogWriter)
        .with_ansi(false)
        // Somebody who started us may have closed the other end: then there is nobody to tell, and nothing to fail for.
        .log_internal_errors(false)
        .try_init();
}

/// Waits for somebody to ask for the end. Listens from the call on: whoever is told that we serve may ask at once.
pub(crate) fn asked_to_stop() -> impl Future<Output = ()> {
    let interrupts = Interrupts::listen(Meaning::Stop);
    async {
        match interrupts {
            Ok(mut interrupts) => interrupts.next().await,
            // Without signals there is only the hard way to stop; keep serving.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Stops a server, and closes its store, within a bounded time.
pub(crate) async fn stop(server: &Server, store: &SqliteStore) {
    if timeout(LONGEST_STOP, server.stop()).await.is_err() {
        tracing::warn!(
            "some work did not end within {LONGEST_STOP:?}; processes that it left are ended by the next server"
        );
    }
    match timeout(LONGEST_CLOSE, store.close()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(%error, "the store did not close cleanly; nothing acknowledged is lost");
        }
        Err(_) => {
            tracing::warn!("the store did not close within {LONGEST_CLOSE:?}; nothing acknowledged is lost");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_that_hangs_does_not_keep_the_program_from_ending() {
        let (release, hangs) = std::sync::mpsc::channel::<()>();
        let (begun, is_begun) = tokio::sync::oneshot::channel();
        let ended = run(async {
            tokio::task::spawn_blocking(move || {
                let _ = begun.send(());
                hangs.recv()
            });
            Ok(is_begun.await?)
        });
        ended.unwrap();
        drop(release);
    }
}
