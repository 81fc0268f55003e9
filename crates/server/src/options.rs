//! What the program tells the server.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use baton_engines::EngineSettings;
use baton_protocol::provider::ProviderConfig;

use crate::crash::CrashPlan;
use crate::rpc::RpcLimits;

/// Everything that a server needs to know from outside. The program reads it from flags, files and the environment.
#[derive(Debug, Clone)]
pub struct Options {
    /// The version that clients are told.
    pub version: String,
    /// The directory of all state.
    pub home: PathBuf,
    /// Where sessions work that do not say where.
    pub cwd: PathBuf,
    /// Where models are asked when a session brings no provider of its own.
    pub endpoint: Endpoint,
    /// How other agents' programs are to be run, by name.
    pub engines: BTreeMap<String, EngineSettings>,
    /// Where to write down what models are asked and answer.
    pub record: Option<PathBuf>,
    /// Whether clients may be told the endpoint of their session, with the credentials for it.
    pub reveal_endpoint: bool,
    /// The GitHub API that is asked whom a token belongs to; none means that nobody is asked.
    pub github_api: Option<String>,
    /// Who pays for it.
    pub account: Account,
    /// The variables that commands of sessions see. Must hold no secret of ours.
    pub environment: Vec<(OsString, OsString)>,
    /// The variables that other agents' programs see. They log in by themselves, so it holds their keys.
    pub engine_environment: Vec<(OsString, OsString)>,
    /// The token that clients must bring. None: clients on TCP must be processes of the user that the server runs as.
    pub connection_token: Option<String>,
    /// Whether tools run without asking anybody.
    pub allow_all: bool,
    /// Where a test wants this server to die.
    pub crash: Option<Arc<CrashPlan>>,
    /// The largest message a client may send, in bytes.
    pub max_message: usize,
    /// How much may wait for a client that does not read, in bytes.
    pub max_backlog: usize,
    /// How much of the JSON-RPC door anybody gets.
    pub rpc: RpcLimits,
}

/// Where models are asked by default.
#[derive(Clone)]
pub enum Endpoint {
    /// A Copilot-style API: the base URL, and a token for it.
    Copilot {
        /// The base URL.
        url: String,
        /// The bearer token.
        token: Option<String>,
    },
    /// Any other provider.
    Provider {
        /// Where it is, how it speaks, and the key to it.
        provider: Box<ProviderConfig>,
        /// The model to use unless a session says otherwise.
        model: Option<String>,
    },
    /// The built-in demo model.
    Demo,
}

impl std::fmt::Debug for Endpoint {
    /// Leaves credentials out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Copilot { url, .. } => write!(f, "Copilot({url})"),
            Self::Provider { provider, .. } => write!(f, "Provider({})", provider.base_url),
            Self::Demo => write!(f, "Demo"),
        }
    }
}

/// What is known about whoever uses the server.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// Whether credentials for a model endpoint are there.
    pub authenticated: bool,
    /// What kind they are, in the protocol's words.
    pub kind: Option<String>,
}
