//! `baton sandbox -- COMMAND`.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use baton_process::{Ledger, Supervised};
use baton_sandbox::{Held, Input, Launch};

use super::trial::{Inside, Trial};
use super::walls::Walls;
use crate::args::{Cli, RunInSandboxArgs};
use crate::signals::{FirstSignal, Interrupts};
use crate::{setup, terminal};

/// Exit codes, as of `env` and of shells.
const NO_SANDBOX: u8 = 125;
const NOT_STARTED: u8 = 126;
const NOT_FOUND: u8 = 127;

/// How long processes that are left have to end.
const GRACE: Duration = Duration::from_secs(1);

/// Runs a command, and returns its exit code.
pub(super) fn run(cli: &Cli, args: &RunInSandboxArgs) -> anyhow::Result<ExitCode> {
    if args.command.is_empty() {
        terminal::error("no command: name one after --, as in baton sandbox -- npm test");
        return Ok(ExitCode::from(NOT_FOUND));
    }
    let trial = Trial::new(cli, &args.rules)?;
    setup::run(async {
        let walls = Arc::new(Walls::new(trial.choice.policy.hosts.clone()));
        let inside = match trial.place(walls.clone()).await {
            Ok(inside) => inside,
            Err(error) => {
                terminal::error(&format!("the sandbox cannot be built: {error:#}"));
                return Ok(ExitCode::from(NO_SANDBOX));
            }
        };
        let mut interrupts = Interrupts::listen(FirstSignal::IsForwarded)?;
        let ran = match start(&trial, inside.as_ref(), &args.command) {
            Ok(mut program) => watch(&mut program, &mut interrupts).await,
            Err(error) => Err(error),
        };
        if let Some(Inside { enclosure, ready }) = &inside {
            report(&trial, &walls.refused(), &enclosure.after(ready).await);
        }
        Ok(exit_code(ran, &args.command))
    })
}

fn start(trial: &Trial, inside: Option<&Inside>, command: &[OsString]) -> io::Result<Supervised> {
    let [program, args @ ..] = command else { return Err(io::ErrorKind::NotFound.into()) };
    let tag = format!("sandbox-{}", std::process::id());
    let Some(Inside { ready, .. }) = inside else {
        let mut command = tokio::process::Command::new(program);
        command.args(args).env_clear().envs(trial.environment.iter().cloned());
        return Supervised::spawn(command, tag, Ledger::default());
    };
    let mut environment = trial.environment.clone();
    environment.push(("PWD".into(), ready.cwd().into()));
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let (program, args) = (program.clone(), args.to_vec());
    let launch = Launch { program, args, environment, cwd: None, input: Input::Given(input) };
    Supervised::spawn_enclosed(ready.enclose(launch)?, tag, Ledger::default())
}

/// Waits until the command has ended, and ends what it has left. Passes the first signal on, and ends everything at the second.
async fn watch(program: &mut Supervised, interrupts: &mut Interrupts) -> io::Result<ExitStatus> {
    let handle = program.handle();
    let ended = tokio::select! {
        status = program.wait() => Some(status),
        () = interrupts.next() => None,
    };
    let status = match ended {
        Some(status) => status,
        None => {
            handle.interrupt();
            tokio::select! {
                status = program.wait() => status,
                () = interrupts.next() => Err(io::ErrorKind::Interrupted.into()),
            }
        }
    };
    program.end(GRACE).await;
    if let Some(ended) = program.ended_by() {
        terminal::note(ended.sentence());
    }
    status
}

/// Lists what the command met at the walls.
fn report(trial: &Trial, refused: &[String], held: &[Held]) {
    for host in refused {
        terminal::note(&format!("sandbox: {host} was refused; allow it with --host {host}"));
    }
    for Held { path, kept, .. } in held {
        let path = path.display();
        match kept {
            Some(kept) => terminal::note(&format!(
                "sandbox: {path} was moved to {}, because programs outside run what is in such files",
                trial.held.join(kept).display()
            )),
            None => terminal::note(&format!(
                "sandbox: {path} was deleted, because it leads programs outside to run something"
            )),
        }
    }
}

fn exit_code(ran: io::Result<ExitStatus>, command: &[OsString]) -> ExitCode {
    let code = match ran {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => u8::try_from(code).unwrap_or(u8::MAX),
            (None, signal) => signal.and_then(|signal| u8::try_from(128 + signal).ok()).unwrap_or(u8::MAX),
        },
        Err(error) if error.kind() == io::ErrorKind::Interrupted => 130,
        Err(error) => {
            let program = command.first().map(|program| program.display().to_string()).unwrap_or_default();
            terminal::error(&format!("cannot run {program}: {error}"));
            match error.raw_os_error() {
                Some(_) if error.kind() == io::ErrorKind::NotFound => NOT_FOUND,
                Some(_) => NOT_STARTED,
                None => NO_SANDBOX,
            }
        }
    };
    ExitCode::from(code)
}
