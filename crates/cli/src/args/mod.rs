//! The grammar of the command line: commands, flags and their help.
//!
//! Parsing is all that happens here. What a command does is in the other modules, which also merge the flags with the
//! environment and the configuration file.

mod attach;
mod extend;
mod group;
mod mcp;
mod notify;
mod operate;
mod people;
mod record;
mod run;
mod sandbox;
mod serve;
mod sessions;
mod values;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

pub use self::attach::AttachArgs;
pub use self::extend::{MarketplaceCommand, PluginsCommand, SkillsCommand};
pub use self::group::{Group, WithDefault};
pub use self::mcp::{AddArgs, ListServersArgs, McpCommand, McpScope, McpTransport};
pub use self::notify::{NotifyCommand, NotifyTestArgs};
pub use self::operate::{
    AuditArgs, BackupArgs, CopyArgs, GrantsCommand, InstallArgs, ListGrantsArgs, RestoreArgs, RevokeArgs,
    ServersArgs, ServiceCommand, StatusArgs, StopArgs, StoreCommand,
};
pub use self::people::{LinkArgs, PeopleCommand};
pub use self::record::{RecordArgs, ReplayArgs};
pub use self::run::{ModelArgs, RunArgs};
pub use self::sandbox::{ExplainSandboxArgs, RunInSandboxArgs, SandboxCommand, SandboxRules};
pub use self::serve::{PeerArgs, ServeArgs};
pub use self::sessions::{ListSessionsArgs, SessionsCommand};

/// Widest line of help, where the terminal has room for it.
const MAX_WIDTH: usize = 100;

const EXAMPLES: &str = "\
Examples:
  baton                                       work in the terminal, full screen
  baton run \"what does this repository do?\"   send one prompt, stream the answer
  baton run --continue \"and its tests?\"       continue the last session here
  baton serve --port 8421                     serve SDK clients on that port
  baton attach                                watch and steer a session
  baton sessions                              list stored sessions
  baton doctor                                check the setup

SDKs start the server themselves: set COPILOT_CLI_PATH to this program.";

/// Text of the program without arguments: it names all commands, and fits a terminal of 80 columns and 24 rows.
pub const OVERVIEW: &str = "\
Runs AI agent sessions that programs and people watch, steer and approve.

  baton                                      work in the terminal, full screen
  baton run \"what does this repository do?\"  send one prompt, stream the answer
  baton run --continue \"and its tests?\"      continue the last session here
  baton serve --port 8421                    serve SDK clients on that port
  baton attach                               watch and steer a session
  baton doctor                               check the setup

Commands, by what they are about:
  conversations   run  attach  sessions  grants  audit
  the server      serve  stop  link  people  notify  service  servers
  tools           mcp  skills  plugins  sandbox
  recordings      record  replay
  stored data     backup  restore  store
  the program     doctor  config  completions  man

`baton -h` says what each of them does, `baton COMMAND --help` explains one, and
`baton help` lists the options of all commands, such as --home.
SDKs start the server themselves: set COPILOT_CLI_PATH to this program.";

/// Runs AI agent sessions, and lets any number of programs and people watch, steer, approve and take over.
#[derive(Debug, Parser)]
#[command(name = "baton", version, after_help = EXAMPLES, max_term_width = MAX_WIDTH)]
pub struct Cli {
    /// Flags of all commands.
    #[command(flatten)]
    pub global: Global,
    /// Flags of SDKs.
    #[command(flatten)]
    pub sdk: SdkFlags,
    /// The command; none if an SDK starts the program, or nothing is asked for.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Flags of all commands.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Store sessions and other state in this directory [env: COPILOT_HOME or BATON_HOME; default: ~/.local/state/baton]
    #[arg(long, global = true, hide_short_help = true, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// Store sessions in this PostgreSQL database, without a password in the URL [env: BATON_STORE; default: a file in the home]
    #[arg(long, global = true, hide_short_help = true, value_name = "URL")]
    pub store: Option<String>,
    /// Name of the machines that have the same working directories [env: BATON_PLACE; default: the host name]
    #[arg(long, global = true, hide_short_help = true, value_name = "NAME")]
    pub place: Option<String>,
    /// Read the configuration from this file [default: ~/.config/baton/config.toml]
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Log to stderr up to this level: error, warn, info, debug, trace, none [env: BATON_LOG; default: warn]
    #[arg(long, global = true, hide_short_help = true, value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// Write log entries as text, or as JSON with one object a line [env: BATON_LOG_FORMAT; default: text]
    #[arg(long, global = true, hide_short_help = true, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
}

/// Format of log entries: as text for people, or as one JSON object a line for programs that collect logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "documentation would be help of the flag")]
pub enum LogFormat {
    Text,
    Json,
}

impl LogFormat {
    /// Parses the name of a format.
    ///
    /// # Errors
    /// When there is no such format.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::from_str(text, false)
            .map_err(|_| format!("unknown log format {text:?}: use \"text\" or \"json\""))
    }

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// Flags with which SDKs start the server. Hidden from help.
#[derive(Debug, Args)]
#[allow(missing_docs, reason = "named by the SDKs")]
#[command(next_help_heading = None)]
pub struct SdkFlags {
    #[arg(long, hide = true)]
    pub headless: bool,
    #[arg(long, hide = true)]
    pub server: bool,
    #[arg(long, hide = true)]
    pub stdio: bool,
    #[arg(long, hide = true)]
    pub port: Option<u16>,
    /// Address to listen on instead of 127.0.0.1; one that other machines can reach needs a token.
    #[arg(long, hide = true, value_name = "ADDRESS", conflicts_with = "stdio")]
    pub host: Option<std::net::IpAddr>,
    #[arg(long, hide = true, value_name = "NAME")]
    pub auth_token_env: Option<String>,
    #[arg(long, hide = true)]
    pub no_auto_update: bool,
    #[arg(long, hide = true)]
    pub no_auto_login: bool,
    #[arg(long, hide = true, value_name = "SECONDS")]
    pub session_idle_timeout: Option<u64>,
    #[arg(long, hide = true)]
    pub remote: bool,
    #[arg(long, hide = true)]
    pub yolo: bool,
    /// Directory of a plugin that all sessions use.
    #[arg(long, hide = true, value_name = "DIRECTORY")]
    pub plugin_dir: Vec<PathBuf>,
}

impl SdkFlags {
    /// Whether an SDK starts the program.
    pub fn are_used(&self) -> bool {
        self.headless || self.server || self.stdio
    }
}

/// Subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Send one prompt and stream the answer to the terminal
    #[command(after_help = run::EXAMPLES)]
    Run(RunArgs),
    /// Watch and steer a session of a running server or `baton run`
    #[command(after_help = attach::NOTES)]
    Attach(AttachArgs),
    /// Serve clients until stopped
    Serve(ServeArgs),
    /// Print a one-time login link to the page of the running server
    #[command(after_help = people::LINK_NOTES)]
    Link(LinkArgs),
    /// List, search, show, rename, export, import and delete stored sessions
    #[command(after_help = "Without a command, it lists sessions; the options are those of `list`.")]
    Sessions(Group<SessionsCommand>),
    /// List, add, remove, test, log in to and trust MCP servers, whose tools sessions use
    #[command(after_help = mcp::EXAMPLES)]
    Mcp(Group<McpCommand>),
    /// List, print, enable and disable skills: instructions that models load when a task needs them
    #[command(after_help = extend::SKILLS)]
    Skills(Group<SkillsCommand>),
    /// List, install, update, enable, disable and uninstall plugins, and manage marketplaces
    #[command(after_help = extend::PLUGINS)]
    Plugins(Group<PluginsCommand>),
    /// Run a command in the sandbox of this directory, or say what is in it
    #[command(after_help = sandbox::NOTES)]
    Sandbox(Group<SandboxCommand>),
    /// Run a command and record model requests and answers to a file
    #[command(after_help = record::EXAMPLES)]
    Record(RecordArgs),
    /// Serve a recording as an OpenAI-compatible API, offline and deterministic
    #[command(after_help = record::REPLAY_EXAMPLE)]
    Replay(ReplayArgs),
    /// Add, list and remove people who may use the server
    #[command(after_help = people::NOTES)]
    People(Group<PeopleCommand>),
    /// Try notifications
    #[command(subcommand, after_help = notify::NOTES)]
    Notify(NotifyCommand),
    /// List and revoke what may run without asking
    #[command(after_help = "Without a command, it lists grants; the options are those of `list`.")]
    Grants(Group<GrantsCommand>),
    /// List who prompted, approved, denied, cancelled and changed what, in all sessions
    #[command(after_help = operate::AUDIT_NOTES)]
    Audit(AuditArgs),
    /// Stop the running server of this home, and wait until it has stopped
    #[command(after_help = operate::STOP_NOTES)]
    Stop(StopArgs),
    /// Write all sessions and settings to one file, while the server runs or not
    #[command(after_help = operate::BACKUP_NOTES)]
    Backup(BackupArgs),
    /// Replace the sessions and settings of this home by those of a backup
    #[command(after_help = operate::RESTORE_NOTES)]
    Restore(RestoreArgs),
    /// Run the server as a service of systemd
    #[command(after_help = "Without a command, it shows the status; the options are those of `status`.")]
    Service(Group<ServiceCommand>),
    /// List the servers that share a database, or drain one
    #[command(after_help = operate::SERVERS_NOTES)]
    Servers(ServersArgs),
    /// Copy sessions between stores
    #[command(subcommand)]
    Store(StoreCommand),
    /// Check the setup, and suggest how to fix problems
    #[command(after_help = "Example:\n  baton doctor --json")]
    Doctor(JsonArgs),
    /// Show the configuration in force, and where each value comes from
    #[command(after_help = "Example:\n  baton config --json")]
    Config(JsonArgs),
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  baton completions bash > /etc/bash_completion.d/baton")]
    Completions {
        /// Shell to complete in
        shell: Shell,
    },
    /// Print the manual page, or write all manual pages to a directory
    #[command(after_help = "Examples:\n  baton man | man -l -\n  baton man ~/.local/share/man/man1")]
    Man {
        /// Directory to write the manual pages to
        directory: Option<PathBuf>,
    },
}

/// The flag of commands that have no other.
#[derive(Debug, Args)]
pub struct JsonArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests;
