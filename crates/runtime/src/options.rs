//! Options of the runtime.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use baton_core::AgentLimits;
use baton_engines::EngineSettings;
use baton_mcp::Declared;
use baton_protocol::environment::ClientEnvironment;
use baton_protocol::sandbox::SandboxChoice;
use baton_providers::ServerEndpoint;
use baton_providers::prices::Prices;
use baton_sandbox::{Host, Limits};

use crate::crash::CrashPlan;

/// Options of the runtime. The program sets them from flags, files and the environment; the runtime reads neither.
#[derive(Debug, Clone)]
pub struct Options {
    /// Version of the server, as reported to clients.
    pub version: String,
    /// Baton's home: the directory of all state.
    pub home: PathBuf,
    /// Default working directory of sessions.
    pub cwd: PathBuf,
    /// Model endpoint of sessions that have no provider.
    pub endpoint: ServerEndpoint,
    /// Settings of engine programs, by name.
    pub engines: BTreeMap<String, EngineSettings>,
    /// Prices of models.
    pub prices: Prices,
    /// MCP servers of the configuration file.
    pub mcp_servers: Vec<Declared>,
    /// Whether the key of stored logins at MCP servers is in the user's keyring.
    pub keyring: bool,
    /// File to record model requests and responses in.
    pub record: Option<PathBuf>,
    /// Whether clients may read the model endpoint of their session, with its credentials.
    pub reveal_endpoint: bool,
    /// Base URL of the GitHub API that identifies the owner of a token; none disables the lookup.
    pub github_api: Option<String>,
    /// Credentials of the default endpoint, as reported to clients.
    pub account: CredentialState,
    /// This program, which engines start to reach the tools of their session; none offers them none.
    pub program: Option<PathBuf>,
    /// Program that runs the SQL of sessions, with its first arguments; none refuses SQL.
    pub sql_program: Option<(PathBuf, Vec<OsString>)>,
    /// Environment of shell commands. Must not contain secrets of the server.
    pub environment: Vec<(OsString, OsString)>,
    /// Which variables of a client the commands of its session may see.
    pub environment_filter: EnvironmentFilter,
    /// Environment of engine programs. They authenticate themselves, so it contains their keys.
    pub engine_environment: Vec<(OsString, OsString)>,
    /// Secrets of the doors, such as connection tokens: redacted from all that models see.
    pub secrets: Vec<String>,
    /// Whether sessions start in allow-all mode.
    pub allow_all: bool,
    /// Sandbox of sessions that have none of their own.
    pub sandbox: SandboxChoice,
    /// Limits of one program in a sandbox.
    pub sandbox_limits: Limits,
    /// What builds sandboxes; none if this program cannot be started as their helper.
    pub sandbox_host: Option<Arc<Host>>,
    /// Files of the doors that are outside of the home, such as sockets: hidden from programs in sandboxes.
    pub own_files: Vec<PathBuf>,
    /// Limits on the sub-agents that models start.
    pub agent_limits: AgentLimits,
    /// Directories of plugins that all sessions use.
    pub plugin_directories: Vec<PathBuf>,
    /// Crash point at which a test kills this server.
    pub crash: Option<Arc<CrashPlan>>,
}

impl Options {
    /// Returns options with the demo model: no provider, no engine settings, an empty environment, no secrets.
    #[must_use]
    pub fn new(version: &str, home: impl Into<PathBuf>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            version: version.to_owned(),
            home: home.into(),
            cwd: cwd.into(),
            endpoint: ServerEndpoint::Demo,
            engines: BTreeMap::new(),
            prices: Prices::default(),
            mcp_servers: Vec::new(),
            keyring: false,
            record: None,
            reveal_endpoint: false,
            github_api: None,
            account: CredentialState::default(),
            program: None,
            sql_program: None,
            environment: Vec::new(),
            environment_filter: EnvironmentFilter::default(),
            engine_environment: Vec::new(),
            secrets: Vec::new(),
            allow_all: false,
            sandbox: SandboxChoice::default(),
            sandbox_limits: Limits::default(),
            sandbox_host: None,
            own_files: Vec::new(),
            agent_limits: AgentLimits::default(),
            plugin_directories: Vec::new(),
            crash: None,
        }
    }
}

/// Decides which variables of a client the commands of its session may see: by default none.
#[derive(Clone)]
pub struct EnvironmentFilter(Arc<Passes>);

/// Whether a variable passes, by its name and its value.
type Passes = dyn Fn(&str, &str) -> bool + Send + Sync;

impl EnvironmentFilter {
    /// Variables that commands have from the server, whoever created the session: the user and the directories of the user and
    /// of Baton. The guards of those directories know them from there, too.
    const OF_SERVER: [&str; 7] =
        ["HOME", "USER", "LOGNAME", "TMPDIR", "XDG_RUNTIME_DIR", "BATON_HOME", "COPILOT_HOME"];

    /// Creates a filter of names and values.
    pub fn new(passes: impl Fn(&str, &str) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(passes))
    }

    /// Returns the environment of commands: the client's as far as they may see it, else that of the server.
    #[must_use]
    pub fn environment_of(
        &self,
        client: Option<&ClientEnvironment>,
        server: &[(OsString, OsString)],
    ) -> Vec<(OsString, OsString)> {
        let Some(client) = client else { return server.to_vec() };
        let is_of_server = |name: &OsString| {
            Self::OF_SERVER.iter().any(|own| name == own)
                || name == "PATH" && !client.variables().any(|(name, _)| name == "PATH")
        };
        let own = server.iter().filter(|(name, _)| is_of_server(name)).cloned();
        let passed = client
            .variables()
            .filter(|(name, value)| !Self::OF_SERVER.contains(name) && (self.0)(name, value));
        own.chain(passed.map(|(name, value)| (name.into(), value.into()))).collect()
    }
}

impl Default for EnvironmentFilter {
    fn default() -> Self {
        Self::new(|_, _| false)
    }
}

impl std::fmt::Debug for EnvironmentFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EnvironmentFilter")
    }
}

/// State of the credentials for the default endpoint.
#[derive(Debug, Clone, Default)]
pub struct CredentialState {
    /// Whether there are credentials.
    pub authenticated: bool,
    /// Type of the credentials, as the protocol names it.
    pub kind: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_get_the_filtered_environment_of_the_client_and_the_users_own_directories() {
        let filter = EnvironmentFilter::new(|name, _| name != "SECRET");
        let pairs = |text: &[(&str, &str)]| -> Vec<(OsString, OsString)> {
            text.iter().map(|(name, value)| (name.into(), value.into())).collect()
        };
        let server = pairs(&[("HOME", "/home/ada"), ("PATH", "/bin"), ("CC", "gcc")]);
        let client = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            ClientEnvironment::try_from(BTreeMap::from_iter(pairs)).unwrap()
        };
        assert_eq!(filter.environment_of(None, &server), server);
        let of_client = client(&[("HOME", "/tmp"), ("PATH", "/venv/bin"), ("SECRET", "x"), ("EDITOR", "vi")]);
        let expected = pairs(&[("HOME", "/home/ada"), ("EDITOR", "vi"), ("PATH", "/venv/bin")]);
        assert_eq!(filter.environment_of(Some(&of_client), &server), expected);
        let without_path = filter.environment_of(Some(&client(&[])), &server);
        assert_eq!(without_path, pairs(&[("HOME", "/home/ada"), ("PATH", "/bin")]));
        let nothing = EnvironmentFilter::default().environment_of(Some(&of_client), &server);
        assert_eq!(nothing, pairs(&[("HOME", "/home/ada")]), "no filter passes nothing");
    }
}
