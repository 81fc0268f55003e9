//! `baton mcp`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::args::group::WithDefault;

pub(super) const EXAMPLES: &str = "\
Examples:
  baton mcp add files -- npx -y @modelcontextprotocol/server-filesystem .
  baton mcp add docs --url https://docs.example/mcp -H 'X-Key: ${DOCS_KEY}'
  baton mcp add notes --scope project -- npx -y notes-server
  baton mcp test files                           connect, and list its tools
  baton mcp login docs                           log in with a browser
  baton run \"which files are here?\"              sessions use enabled servers

Sessions ask before they call a tool of a server.";

/// Help of a command that needs a server: an example, and the exit codes.
macro_rules! no_server {
    ($example:literal) => {
        concat!("Example:\n  ", $example, "\n\nExit codes: 0 done, 1 failed, 3 there is no such server.")
    };
}

/// Subcommands of `baton mcp`.
#[derive(Debug, Subcommand)]
pub enum McpCommand {
    /// List the servers that sessions in this directory use
    #[command(after_help = no_server!("baton mcp list --session 3f2a"))]
    List(ListServersArgs),
    /// Add a server
    #[command(after_help = ADD_NOTES)]
    Add(Box<AddArgs>),
    /// Remove a server
    #[command(after_help = no_server!("baton mcp remove files"))]
    Remove {
        /// Server to remove
        name: String,
        /// Where to remove it [default: where it is declared]
        #[arg(long)]
        scope: Option<McpScope>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Use servers again that were disabled
    #[command(after_help = no_server!("baton mcp enable files docs"))]
    Enable {
        /// Servers to enable
        #[arg(required = true)]
        names: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Keep servers, but do not use them in new sessions
    #[command(after_help = no_server!("baton mcp disable files docs"))]
    Disable {
        /// Servers to disable
        #[arg(required = true)]
        names: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Connect to a server and list its tools
    #[command(after_help = TEST_NOTES)]
    Test {
        /// Server to test
        name: String,
        /// Give up after this many seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 60)]
        timeout: u64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Log in to a remote server with a browser, on this machine or another
    #[command(after_help = LOGIN_NOTES)]
    Login {
        /// Server to log in to
        name: String,
        /// Print the link, and do not open a browser
        #[arg(long)]
        no_browser: bool,
        /// Let the browser return to this port of this machine [default: any free port]
        #[arg(long, value_name = "PORT")]
        port: Option<u16>,
        /// Give up after this many seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 900)]
        timeout: u64,
        /// Log in again, although there is a login
        #[arg(long, short)]
        force: bool,
        /// Print JSON: a line with the link, and one with the result
        #[arg(long)]
        json: bool,
    },
    /// Forget the login at a server
    #[command(after_help = LOGOUT_NOTES)]
    Logout {
        /// Server to log out from
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Trust the servers that files of this workspace declare, as they are now
    #[command(after_help = TRUST_NOTES)]
    Trust {
        /// Trust without asking
        #[arg(long, short)]
        yes: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Join standard input and output to a socket file; engines start it to reach the tools of their session
    #[command(hide = true)]
    Proxy {
        /// Socket file of the session
        socket: PathBuf,
    },
    /// Print the newest lines of a server's log
    #[command(after_help = LOG_NOTES)]
    Logs {
        /// Server whose log to print
        name: String,
        /// Session that uses it, by its id or a unique prefix of it [default: the one that changed last]
        #[arg(long, value_name = "ID")]
        session: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl WithDefault for McpCommand {
    type Flags = ListServersArgs;

    fn default_with(flags: ListServersArgs) -> Self {
        Self::List(flags)
    }
}

/// Flags of `baton mcp list`.
#[derive(Debug, Args)]
pub struct ListServersArgs {
    /// Show the servers of a running session instead, with their status: its id or a unique prefix of it
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

const ADD_NOTES: &str = "\
Examples:
  baton mcp add files -- npx -y @modelcontextprotocol/server-filesystem .
  baton mcp add docs --url https://docs.example/mcp
  baton mcp add old --transport sse --url https://old.example/sse

${NAME} in values is replaced when the server is started, by a variable that commands of sessions see.

Exit codes: 0 added, 1 failed, 2 wrong usage.";

const TEST_NOTES: &str = "\
Example:
  baton mcp test files --timeout 10

The server is started as for a session in this directory, and ended afterwards. A running Baton server is not needed.

Exit codes: 0 connected, 1 failed, 3 there is no such server.";

const LOGIN_NOTES: &str = "\
Example:
  baton mcp login docs --no-browser

Open the link in any browser. If that browser cannot reach this machine, it ends at an address that does not load: paste \
that address here, or the code in it. Sessions use the login with their next prompt.

Exit codes: 0 logged in, 1 failed, 3 there is no such server, 130 interrupted.";

const LOGOUT_NOTES: &str = "\
Example:
  baton mcp logout docs

The tokens are deleted from this machine. Sessions that are connected stay connected until they end.

Exit codes: 0 logged out, 1 failed, 3 there is no such server, or no login at it.";

const TRUST_NOTES: &str = "\
Example:
  baton mcp trust

Files: .mcp.json, .github/mcp.json and .vscode/mcp.json of this directory and its parents up to the root of the \
repository. A file that changes afterwards has to be trusted again.

Exit codes: 0 trusted, 1 failed or refused, 3 there is nothing to trust.";

const LOG_NOTES: &str = "\
Example:
  baton mcp logs files --session 3f2a

The log has the server's standard error, its log messages and what happened to its connection. It is kept while the \
session is open in a running server or in `baton run`.

Exit codes: 0 printed, 1 failed, 3 there is no such server.";

/// Where a server is declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum McpScope {
    /// For all your sessions: mcp-config.json in Baton's home
    User,
    /// For everyone who works in this repository: .mcp.json in its root
    Project,
}

/// How a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum McpTransport {
    /// A program, over its standard input and output
    Stdio,
    /// Streamable HTTP
    Http,
    /// The older HTTP transport
    Sse,
}

/// Arguments of `baton mcp add`.
#[derive(Debug, Args)]
pub struct AddArgs {
    /// Name of the server; its tools are offered as NAME-TOOL
    pub name: String,
    /// Address of a remote server
    #[arg(long, conflicts_with = "command")]
    pub url: Option<String>,
    /// How to reach it [default: stdio for a command, http for an address]
    #[arg(long)]
    pub transport: Option<McpTransport>,
    /// Where to add it
    #[arg(long, default_value = "user")]
    pub scope: McpScope,
    /// Set an environment variable of the program; can be repeated
    #[arg(long, short, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// Send a header with every request; can be repeated
    #[arg(long, short = 'H', value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// Start the program in this directory [default: the session's directory]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Offer only these tools
    #[arg(long, value_delimiter = ',', value_name = "TOOL,...")]
    pub tools: Option<Vec<String>>,
    /// Do not offer these tools
    #[arg(long, value_delimiter = ',', value_name = "TOOL,...")]
    pub exclude_tools: Vec<String>,
    /// Let a call be silent for at most this many seconds [default: 300]
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<f64>,
    /// Call tools without asking that the server says change nothing
    #[arg(long)]
    pub trust_read_only_hint: bool,
    /// Replace a server of the same name
    #[arg(long, short)]
    pub force: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Program and its arguments, after `--`; or an address
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<String>,
}
