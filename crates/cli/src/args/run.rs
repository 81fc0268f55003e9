//! `baton run`, and the choice of a model.

use baton_protocol::sandbox::SandboxLevel;
use clap::Args;

/// Flags that choose a model.
#[derive(Debug, Args, Default)]
pub struct ModelArgs {
    /// Use this model [env: OPENAI_MODEL]
    #[arg(long, short)]
    pub model: Option<String>,
    /// Use the OpenAI-compatible API at this address [env: OPENAI_BASE_URL]
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Use the built-in demo model, whatever else is configured
    #[arg(long, conflicts_with_all = ["model", "base_url"])]
    pub demo: bool,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  baton run \"explain src/main.rs\"
  baton run --yes \"run the tests and fix what fails\"
  git diff | baton run \"review this change\"
  baton run --engine codex \"why does this test fail?\"
  baton run --json \"hello\" | jq -r .type

A running server of the same home (`baton serve`) runs the session, so that others can watch and steer it with \
`baton attach`; without one, this command does, and `baton attach` finds it too.

A tool call is approved with `y`, or rejected with `n` and a reason, with which the model goes on; a rejection without a \
reason ends the turn. `--continue` and `--session` without a prompt ask again what was asked when a process ended.

Exit codes:
  0    answered
  1    failed
  2    wrong usage
  3    no such session
  4    stopped by the provider's content filter
  5    a tool call was rejected, or nobody could be asked
  6    answered, but cut off at the model's limit of output tokens
  7    the answer could not be written to the standard output
  130  cancelled";

/// Returns the help of `--engine`.
fn engine_help() -> String {
    let names = baton_engines::names().collect::<Vec<_>>().join(", ");
    format!("Run the turn in another agent's program: {names}; `--model` then names one of its models")
}

/// Flags of `baton run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Prompt to send; piped input follows it, or takes the place of `-`
    #[arg(num_args = 0..)]
    pub prompt: Vec<String>,
    /// Continue the last session of this directory; with --engine, the last one of that engine
    #[arg(long = "continue", short = 'c', conflicts_with = "session")]
    pub continue_last: bool,
    /// Continue this session, given by its id or a unique prefix of it
    #[arg(long, short, value_name = "ID")]
    pub session: Option<String>,
    /// Name of the engine that runs the turn.
    #[arg(long, short, value_name = "NAME", conflicts_with_all = ["demo", "base_url"], help = engine_help())]
    pub engine: Option<String>,
    /// Let the continued session change to the --engine or --model, although another engine ran it so far
    #[arg(long)]
    pub switch_engine: bool,
    /// Approve every tool call without asking; with --continue, also calls that wait for approval already
    #[arg(long, short)]
    pub yes: bool,
    /// Print every event as a line of JSON instead of the answer
    #[arg(long)]
    pub json: bool,
    /// Print only the answer: no tool calls, no notes
    #[arg(long, short)]
    pub quiet: bool,
    /// Level of the sandbox of commands, in a new session: read-only, workspace or off
    #[arg(long, value_name = "LEVEL", conflicts_with_all = ["continue_last", "session"])]
    pub sandbox: Option<SandboxLevel>,
    /// Run the session in this process, even if a server runs
    #[arg(long)]
    pub no_server: bool,
    /// The model.
    #[command(flatten)]
    pub model: ModelArgs,
}
