//! Tests of one server outside of a session: connect, list its tools, end it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_history::owner;
use baton_mcp::{Client, Declared, Host, HostOptions, Notice, Server, Status, merge};
use baton_model::http::HttpClient;
use baton_process::Ledger;
use tokio_util::task::TaskTracker;

use super::network::Network;

/// The result of a test.
#[derive(Debug, Clone)]
pub struct Probe {
    /// Status of the server, by the name that SDKs use.
    pub status: &'static str,
    /// Why it is not connected.
    pub error: Option<String>,
    /// Its tools.
    pub tools: Vec<ProbedTool>,
    /// The newest lines of its log.
    pub log: Vec<String>,
    /// How long it took to connect, or to fail.
    pub elapsed: Duration,
}

/// A tool of a tested server.
#[derive(Debug, Clone)]
pub struct ProbedTool {
    /// Its name.
    pub name: String,
    /// What it does, in the server's words.
    pub description: String,
    /// Whether the server says that it changes nothing.
    pub read_only_hint: bool,
    /// Whether sessions offer it to models.
    pub is_offered: bool,
}

/// Connects to a server as a session in `cwd` would, lists its tools, and ends it.
pub async fn probe(
    home: &Path,
    environment: &[(OsString, OsString)],
    declared: Declared,
    cwd: PathBuf,
    limit: Duration,
) -> Probe {
    let begun = Instant::now();
    let tag = format!("{}/", uuid::Uuid::new_v4());
    let ledger = Ledger::new(home, owner::instance(&owner::this_process()));
    let name = declared.name.clone();
    let host_options = HostOptions {
        client: Arc::new(Nobody),
        http: Arc::new(Network(Arc::new(HttpClient::new()))),
        ledger: ledger.clone(),
        environment: environment.to_vec(),
        cwd,
        session: String::new(),
        pool: Arc::default(),
        tag: tag.clone(),
        tasks: TaskTracker::new(),
    };
    // Before a process carries the tag: if this process is killed, the next server ends what it left.
    let (noting, noted) = (ledger.clone(), tag.clone());
    drop(tokio::task::spawn_blocking(move || noting.note(&noted)).await);
    let host = Host::new(host_options, merge([declared]), BTreeSet::new());
    host.start();
    let has_settled = tokio::time::timeout(limit, host.settle()).await.is_ok();
    let elapsed = begun.elapsed();
    let probe = match host.server(&name) {
        Some(server) => result(&server, has_settled, elapsed),
        None => Probe {
            status: "failed",
            error: Some("unknown".into()),
            tools: Vec::new(),
            log: Vec::new(),
            elapsed,
        },
    };
    host.close().await;
    drop(tokio::task::spawn_blocking(move || ledger.close()).await);
    probe
}

fn result(server: &Server, has_settled: bool, elapsed: Duration) -> Probe {
    let status = server.status();
    let error = match &status {
        Status::Connected => None,
        Status::NeedsAuth => Some("it requires a login".to_owned()),
        _ if !has_settled => Some("it did not answer in time".to_owned()),
        other => Some(other.error().unwrap_or(other.as_str()).to_owned()),
    };
    let offers = |name: &str| server.config().is_some_and(|config| config.tools.offers(name));
    let tools = server.tools();
    let tools = tools.iter().map(|tool| ProbedTool {
        name: tool.name.clone(),
        description: tool.description.clone(),
        read_only_hint: tool.read_only_hint,
        is_offered: tool.for_model && offers(&tool.name),
    });
    Probe { status: status.as_str(), error, tools: tools.collect(), log: server.log().lines(), elapsed }
}

/// A session without clients: nobody answers a server.
struct Nobody;

impl Client for Nobody {
    fn notice(&self, _: &str, _: Notice) {}
}
