//! `baton record` and `baton replay`.

use std::path::PathBuf;

use clap::Args;

pub(super) const EXAMPLES: &str = "\
Examples:
  baton record hello.jsonl -- run \"Say hello\"      record one prompt
  BATON_RECORD=hello.jsonl baton serve              record all sessions
  BATON_REPLAY=hello.jsonl baton run \"Say hello\"    answer without a model";

pub(super) const REPLAY_EXAMPLE: &str = "\
Example:
  baton replay hello.jsonl --port 8090
  OPENAI_BASE_URL=http://127.0.0.1:8090/v1 baton run \"Say hello\"";

/// Arguments of `baton record`.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// File to write the recording to; replaced if it exists
    pub file: PathBuf,
    /// Command of this program to record
    #[arg(last = true, required = true)]
    pub command: Vec<String>,
}

/// Arguments of `baton replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Recording to serve
    pub file: PathBuf,
    /// Listen on this port of 127.0.0.1; 0 picks a free port
    #[arg(long, default_value_t = 0)]
    pub port: u16,
}
