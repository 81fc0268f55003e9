//! Starting a program that talks through pipes.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use baton_sandbox::{Input, Launch, Ready};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

use crate::{Ledger, Supervised, TAG_VARIABLE};

/// How to start a program whose stdin, stdout and stderr are pipes.
#[derive(Debug, Clone)]
pub struct Start {
    /// The program: a path, or a name that is looked up in `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its complete environment; nothing is inherited. `PWD` is added.
    pub environment: Vec<(OsString, OsString)>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Its tag; see [`Supervised::spawn`].
    pub tag: String,
    /// The ledger that records it.
    pub ledger: Ledger,
    /// The sandbox that it runs in; outside without one.
    pub sandbox: Option<Arc<Ready>>,
}

/// Pipes of a program.
#[derive(Debug)]
pub struct Pipes {
    /// Its input.
    pub stdin: ChildStdin,
    /// Its output.
    pub stdout: ChildStdout,
    /// Its diagnostics.
    pub stderr: ChildStderr,
}

impl Start {
    /// Starts the program.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(self) -> io::Result<(Supervised, Pipes)> {
        let supervised = match self.sandbox.clone() {
            Some(sandbox) => self.start_inside(sandbox)?,
            None => self.start_outside()?,
        };
        with_pipes(supervised)
    }

    fn start_inside(self, sandbox: Arc<Ready>) -> io::Result<Supervised> {
        let mut environment = self.environment;
        environment.push((TAG_VARIABLE.into(), self.tag.clone().into()));
        environment.push(("PWD".into(), self.cwd.clone().into()));
        let (program, args, cwd) = (self.program, self.args, Some(self.cwd));
        let launch = Launch { program, args, environment, cwd, input: Input::Piped };
        let mut enclosed = sandbox.enclose(launch)?;
        enclosed.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Supervised::spawn_enclosed(enclosed, self.tag, self.ledger)?.within(sandbox))
    }

    fn start_outside(self) -> io::Result<Supervised> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .current_dir(&self.cwd)
            .env_clear()
            .envs(self.environment)
            .env("PWD", &self.cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Supervised::spawn(command, self.tag, self.ledger)
    }
}

fn with_pipes(mut supervised: Supervised) -> io::Result<(Supervised, Pipes)> {
    match supervised.pipes() {
        (Some(stdin), Some(stdout), Some(stderr)) => Ok((supervised, Pipes { stdin, stdout, stderr })),
        _ => Err(io::ErrorKind::BrokenPipe.into()),
    }
}
