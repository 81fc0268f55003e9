//! `baton record` and `baton replay`: record model answers to a file, and serve them again.
#![expect(clippy::disallowed_methods, reason = "runs on the main thread, before or after the server's work")]

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::Context;
use baton_model::replay::Recording;
use tokio::net::TcpListener;

use crate::args::{RecordArgs, ReplayArgs};
use crate::{setup, terminal};

/// Variable that names the file to record to. It also works for servers that an SDK starts.
pub(crate) const RECORD: &str = "BATON_RECORD";

/// Runs a command of this program with recording turned on. The command replaces this process, so that signals and the
/// exit code are its own.
pub(crate) fn record(args: &RecordArgs) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let file = std::path::absolute(&args.file).context("cannot resolve the path of the recording")?;
    let error = Command::new(program).args(&args.command).env(RECORD, file).exec();
    Err(error).context("cannot start the command to record")
}

/// Serves a recording as an OpenAI-compatible API until stopped.
pub(crate) fn replay(args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    let path = args.file.display();
    let text = std::fs::read_to_string(&args.file).with_context(|| format!("cannot read {path}"))?;
    let recording = Recording::parse(&text).with_context(|| format!("in {path}"))?;
    setup::run(async {
        let listener = TcpListener::bind(("127.0.0.1", args.port))
            .await
            .with_context(|| format!("cannot listen on port {}", args.port))?;
        let address = listener.local_addr()?;
        terminal::line(&format!("base URL: http://{address}/v1"));
        terminal::line(&format!("listening on port {}", address.port()));
        tokio::select! {
            served = baton_http::serve_recording(listener, recording) => served.context("the listener failed"),
            () = setup::stop_signal() => Ok(()),
        }
    })?;
    Ok(ExitCode::SUCCESS)
}
