//! `baton record` and `baton replay`: what models said, kept in a file and said again.
#![expect(clippy::disallowed_methods, reason = "runs on the main thread, before or after the server's work")]

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::Context;
use baton_model::replay::Recording;
use tokio::net::TcpListener;

use crate::args::{RecordArgs, ReplayArgs};
use crate::{setup, terminal};

/// The variable that names the file to record to. With it a server that an SDK starts records too.
pub(crate) const RECORD: &str = "BATON_RECORD";

/// Runs another command of this program, which records. It takes the place of this one, so that signals and the exit
/// code are its own.
pub(crate) fn record(args: &RecordArgs) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    let file = std::path::absolute(&args.file).context("cannot tell where the recording goes")?;
    let error = Command::new(program).args(&args.command).env(RECORD, file).exec();
    Err(error).context("cannot start the command that is to be recorded")
}

/// Serves a recording as an endpoint, until it is stopped.
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
            served = baton_server::serve_recording(listener, recording) => served.context("the listener failed"),
            () = setup::asked_to_stop() => Ok(()),
        }
    })?;
    Ok(ExitCode::SUCCESS)
}
