//! One server outside of a session: connects to it, lists its tools and ends it, for `baton mcp test` and logins.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_history::owner;
use baton_mcp::{
    AuthReason, Challenge, Declared, Host, HostOptions, McpClient, Notice, Protected, Server, ServerStatus,
    Working, merge,
};
use baton_model::http::HttpClient;
use baton_process::Ledger;
use baton_sandbox::Place;
use tokio_util::task::TaskTracker;

use super::network::Network;
use crate::Addons;

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

/// Connects to a server as a session in `cwd` would, with the token of an earlier login, lists its tools, and ends it.
pub async fn probe(addons: &Arc<Addons>, declared: Declared, cwd: PathBuf, limit: Duration) -> Probe {
    let begun = Instant::now();
    let name = declared.name.clone();
    let host_options = host_options(addons, cwd);
    let (ledger, tag) = (host_options.ledger.clone(), host_options.tag.clone());
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

/// Returns what a login at a declared server needs; none for a local server, or one that cannot be used.
#[must_use]
pub fn protected(addons: &Arc<Addons>, declared: Declared, cwd: PathBuf) -> Option<Protected> {
    let name = declared.name.clone();
    let host = Host::new(host_options(addons, cwd), merge([declared]), BTreeSet::new());
    host.server(&name)?.protected()
}

fn host_options(addons: &Arc<Addons>, cwd: PathBuf) -> HostOptions {
    let options = &addons.options;
    HostOptions {
        client: Arc::new(Alone { addons: addons.clone() }),
        http: Arc::new(Network(Arc::new(HttpClient::new()))),
        ledger: Ledger::new(&options.home, owner::instance(&owner::this_process())),
        environment: options.environment.clone(),
        cwd,
        session: String::new(),
        pool: Arc::default(),
        tag: format!("{}/", uuid::Uuid::new_v4()),
        tasks: TaskTracker::new(),
    }
}

fn result(server: &Server, has_settled: bool, elapsed: Duration) -> Probe {
    let status = server.status();
    let error = match &status {
        ServerStatus::Connected => None,
        ServerStatus::NeedsAuth => {
            Some(format!("it requires a login; run `baton mcp login {}`", server.name()))
        }
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

/// A command without a session: nobody answers a server, and tokens come from earlier logins.
struct Alone {
    addons: Arc<Addons>,
}

impl McpClient for Alone {
    fn notice(&self, _: &str, _: Notice) {}

    /// The user starts the server by hand, to see what it does: there is no session, and nobody to ask.
    fn place(&self) -> Working<'_, Result<Place, String>> {
        Box::pin(async { Ok(Place::Outside) })
    }

    fn token(&self, server: &Protected) -> Working<'_, Option<String>> {
        let server = server.clone();
        Box::pin(async move { self.addons.logins.known(&server).await })
    }

    fn renew(
        &self,
        server: &Protected,
        challenge: &Challenge,
        reason: AuthReason,
    ) -> Working<'_, Option<String>> {
        let (server, challenge) = (server.clone(), challenge.clone());
        Box::pin(async move {
            let rejected = self.addons.logins.known(&server).await;
            self.addons.logins.replace(&server, &challenge, reason, rejected.as_deref()).await
        })
    }
}
