//! Starting a program that talks through pipes.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

use crate::{Ledger, Supervised};

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
        let mut supervised = Supervised::spawn(command, self.tag, self.ledger)?;
        match supervised.pipes() {
            (Some(stdin), Some(stdout), Some(stderr)) => Ok((supervised, Pipes { stdin, stdout, stderr })),
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}
