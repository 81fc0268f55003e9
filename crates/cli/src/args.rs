//! What can be typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

const EXAMPLES: &str = "\
Examples:
  baton run \"what does this repository do?\"     one prompt, streamed to the terminal
  baton run --continue \"and its tests?\"         go on with the last session of this directory
  baton serve --port 8421                        serve SDK clients on 127.0.0.1:8421
  baton attach                                   watch and steer a session of that server
  baton sessions list                            what is stored
  baton doctor                                   is everything in place?

SDKs start it themselves: set COPILOT_CLI_PATH to this program.";

/// Runs AI agent sessions, and lets any number of programs and people watch, steer, approve and take over.
#[derive(Debug, Parser)]
#[command(name = "baton", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(flatten)]
    pub(crate) sdk: SdkFlags,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Flags of all commands.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Directory of all state [env: COPILOT_HOME, else BATON_HOME; default: ~/.local/state/baton]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Configuration file [default: ~/.config/baton/config.toml]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// How much to log to stderr: error, warn, info, debug, trace, none
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(crate) log_level: Option<String>,
}

/// Flags with which SDKs start the server. They are not for people.
#[derive(Debug, Args)]
#[command(next_help_heading = None)]
pub(crate) struct SdkFlags {
    #[arg(long, hide = true)]
    pub(crate) headless: bool,
    #[arg(long, hide = true)]
    pub(crate) server: bool,
    #[arg(long, hide = true)]
    pub(crate) stdio: bool,
    #[arg(long, hide = true)]
    pub(crate) port: Option<u16>,
    #[arg(long, hide = true, value_name = "NAME")]
    pub(crate) auth_token_env: Option<String>,
    #[arg(long, hide = true)]
    pub(crate) no_auto_update: bool,
    #[arg(long, hide = true)]
    pub(crate) no_auto_login: bool,
    #[arg(long, hide = true, value_name = "SECONDS")]
    pub(crate) session_idle_timeout: Option<u64>,
    #[arg(long, hide = true)]
    pub(crate) remote: bool,
    #[arg(long, hide = true)]
    pub(crate) yolo: bool,
}

impl SdkFlags {
    /// Whether an SDK is starting us.
    pub(crate) fn wanted(&self) -> bool {
        self.headless || self.server || self.stdio
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve clients until stopped
    Serve(ServeArgs),
    /// Send one prompt and stream the answer to the terminal
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Watch and steer a session of a running server
    #[command(after_help = ATTACH_NOTES)]
    Attach(AttachArgs),
    /// Run another command, and write down what models are asked and answer
    #[command(after_help = RECORD_EXAMPLES)]
    Record(RecordArgs),
    /// Serve a recording as an OpenAI-compatible endpoint: offline, and the same every time
    Replay(ReplayArgs),
    /// List, show, export, import and delete stored sessions
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// Check that everything is in place, and say what to do where it is not
    Doctor(DoctorArgs),
    /// Show the configuration in force, and where each value comes from
    Config(ConfigArgs),
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  baton completions bash > /etc/bash_completion.d/baton")]
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// Print the manual page, or write all of them to a directory
    Man {
        /// Where to write them
        directory: Option<PathBuf>,
    },
}

const ATTACH_NOTES: &str = "\
Examples:
  baton attach                                  the session that changed last, on the server of this home
  baton attach 3f2a                             another one, by the beginning of its id
  baton attach --new                            a new one, in this directory
  baton attach --read-only                      only watch
  echo 'run the tests' | baton attach 3f2a      send a prompt, follow it to its end
  BATON_TOKEN=... baton attach --url https://baton.example:8443

What you type is a prompt; while a turn runs, it steers that; when something is asked, it is the answer. Ctrl-C cancels
the running turn, once more leaves. The server may be restarted meanwhile: nothing is missed.

SSL_CERT_FILE names certificates to trust instead of the system's.";

/// `baton attach`
#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    /// The session (a unique beginning of its id will do) [default: the one that changed last]
    pub(crate) session: Option<String>,
    /// Make a new session in this directory
    #[arg(long, conflicts_with_all = ["session", "read_only"])]
    pub(crate) new: bool,
    /// Only watch: send nothing, answer nothing, cancel nothing
    #[arg(long, visible_alias = "watch")]
    pub(crate) read_only: bool,
    /// Print every event as a line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// How many of the last events to show first
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) history: u64,
    /// Address of the server's HTTP door [default: the server of this home]
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Socket file of the server's HTTP door
    #[arg(long, value_name = "FILE", conflicts_with = "url")]
    pub(crate) socket: Option<PathBuf>,
    /// File with the server's token [env: BATON_TOKEN holds the token itself]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

const RECORD_EXAMPLES: &str = "\
Examples:
  baton record hello.jsonl -- run \"Say hello\"   record one prompt
  BATON_RECORD=hello.jsonl baton serve           the same, for every session of a server
  BATON_REPLAY=hello.jsonl baton run \"Say hello\"  answer from the recording, without a model";

/// `baton record`
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// Where to write the recording; it begins anew
    pub(crate) file: PathBuf,
    /// The command of this program that is to be recorded
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<String>,
}

/// `baton replay`
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The recording
    pub(crate) file: PathBuf,
    /// Which port of 127.0.0.1 to listen on; any that is free, unless it is said
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
}

const SERVE_NOTES: &str = "\
Examples:
  baton serve --port 8421                       SDK clients (JSON-RPC) on 127.0.0.1:8421
  baton serve --http 127.0.0.1:8080             browsers and scripts, with a token
  baton serve --socket /run/user/1000/baton.sock  HTTP on a socket file that only you can open
  baton serve --http 0.0.0.0:8443 --tls-cert cert.pem --tls-key key.pem --allow-host baton.example
                                                other machines, with a token and TLS

Without any address there is a port for SDKs, and a socket file in the home directory for `baton attach`.
Limits of the HTTP door are set in the table [http] of the configuration file; see docs/http.md.

Each address is printed on stdout as `listening on URL` when the server is ready. Ctrl-C stops it; nothing that was
acknowledged is lost.";

/// `baton serve`
#[derive(Debug, Args)]
#[command(after_help = SERVE_NOTES)]
pub(crate) struct ServeArgs {
    /// Port for SDK clients (JSON-RPC) on this machine; 0 picks a free one
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Address for HTTP clients; port 0 picks a free one
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) http: Option<std::net::SocketAddr>,
    /// Socket file for HTTP clients; only its owner can open it, so no token is needed
    #[arg(long, value_name = "FILE")]
    pub(crate) socket: Option<PathBuf>,
    /// Certificate with which to speak TLS on the HTTP address, as PEM
    #[arg(long, value_name = "FILE", requires = "http")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key, as PEM
    #[arg(long, value_name = "FILE", requires = "http")]
    pub(crate) tls_key: Option<PathBuf>,
    /// File with the token that clients must bring; made if it is not there [default: token in the home directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Let every user of this machine use the HTTP port without a token; the JSON-RPC port then serves your own processes only
    #[arg(long, conflicts_with = "token_file")]
    pub(crate) insecure_no_token: bool,
    /// Another name under which the server may be addressed over HTTP
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_host: Vec<String>,
    /// A web page, besides our own, that may use the server, such as `https://app.example`
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// Which model to use.
#[derive(Debug, Args, Default)]
pub(crate) struct ModelArgs {
    /// Model to use [env: OPENAI_MODEL]
    #[arg(long, short)]
    pub(crate) model: Option<String>,
    /// Address of an OpenAI-compatible API [env: OPENAI_BASE_URL]
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Use the built-in demo model, whatever else is configured
    #[arg(long, conflicts_with_all = ["model", "base_url"])]
    pub(crate) demo: bool,
}

const RUN_EXAMPLES: &str = "\
Examples:
  baton run \"explain src/main.rs\"
  baton run --yes \"run the tests and fix what fails\"
  git diff | baton run \"review this change\" -
  baton run --engine codex \"why does this test fail?\"
  baton run --json \"hello\" | jq -r 'select(.type == \"assistant.message\").data.content'

Exit codes: 0 answered, 1 failed, 2 wrong usage, 130 cancelled.";

/// `baton run`
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The prompt; `-` adds standard input to it
    #[arg(required = true, num_args = 1..)]
    pub(crate) prompt: Vec<String>,
    /// Go on with the last session of this directory
    #[arg(long = "continue", short = 'c', conflicts_with = "session")]
    pub(crate) continue_last: bool,
    /// Go on with this session (a unique beginning of its id will do)
    #[arg(long, short, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Have another agent's program do the work: codex, claude, opencode, pi; `--model` is then one of its models
    #[arg(long, short, value_name = "NAME", conflicts_with_all = ["demo", "base_url"])]
    pub(crate) engine: Option<String>,
    /// Allow every tool without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Print every event as a line of JSON instead of the answer
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only the answer: no tools, no notes
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// `baton sessions`
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List stored sessions, last changed first
    List {
        /// Only sessions of this directory
        #[arg(long)]
        here: bool,
        /// At most so many
        #[arg(long, default_value_t = 50)]
        limit: usize,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a session's conversation
    Show {
        /// The session (a unique beginning of its id will do)
        id: String,
        /// Every event, as JSON lines
        #[arg(long)]
        json: bool,
    },
    /// Write a session to a file, one event a line
    Export {
        /// The session
        id: String,
        /// Where to; standard output if not given
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Read a session from a file, as `export` or another program wrote it
    Import {
        /// The file; `-` for standard input
        file: PathBuf,
        /// The name of the session; by default the one in the file
        #[arg(long)]
        id: Option<String>,
    },
    /// Delete sessions for good
    Delete {
        /// Which
        #[arg(required = true)]
        ids: Vec<String>,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

/// `baton doctor`
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `baton config`
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_flags_make_sense() {
        Cli::command().debug_assert();
    }

    #[test]
    fn all_sdks_can_start_it() {
        for line in [
            "--headless --no-auto-update --log-level info --auth-token-env COPILOT_SDK_AUTH_TOKEN --no-auto-login --stdio",
            "--headless --no-auto-update --log-level info --stdio",
            "--headless --no-auto-update --log-level debug --session-idle-timeout 30 --remote --port 4321",
            "--server --no-auto-update --log-level info --port 0",
            "--yolo --headless --no-auto-update --log-level all --stdio",
        ] {
            let cli = Cli::try_parse_from(std::iter::once("baton").chain(line.split(' '))).unwrap();
            assert!(cli.sdk.wanted(), "{line}");
        }
    }

    #[test]
    fn an_unknown_flag_is_named() {
        let error =
            Cli::try_parse_from(["baton", "--headless", "--nonexistent-flag-for-testing"]).unwrap_err();
        assert!(error.to_string().contains("--nonexistent-flag-for-testing"));
    }
}
