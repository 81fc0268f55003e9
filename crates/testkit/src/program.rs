//! The built program, started with a temporary home and an environment that only the test defines, and killed
//! by its process id at the end of the test.

mod running;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::client::{Client, LIMIT};
use crate::model_server::ModelServer;
pub use running::Running;

/// The key for the scripted model. Only the model should ever see it.
pub const MODEL_KEY: &str = "key-for-the-scripted-model";

/// How to start the program.
#[derive(Clone)]
pub struct Program {
    executable: PathBuf,
    directory: Arc<TempDir>,
    home: PathBuf,
    environment: Vec<(String, OsString)>,
    /// A shell script to run first, in separate namespaces; ends in `exec "$@"`.
    sandbox: Option<String>,
}

/// The outcome of a command.
#[derive(Debug)]
pub struct Finished {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Finished {
    /// Returns the exit code; `None` if a signal ended it.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Parses standard output, which must be JSON lines.
    #[must_use]
    pub fn json_lines(&self) -> Vec<serde_json::Value> {
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        self.stdout.lines().map(parse).collect()
    }
}

impl Program {
    /// Creates the program at this path, with a fresh home.
    #[must_use]
    pub fn new(executable: impl Into<PathBuf>) -> Self {
        let directory = Arc::new(tempfile::tempdir().expect("a temporary directory"));
        let home = directory.path().join("home");
        std::fs::create_dir(directory.path().join("work")).expect("a directory to work in");
        Self { executable: executable.into(), directory, home, environment: Vec::new(), sandbox: None }
    }

    /// Returns the directory of its state.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Returns its working directory.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.directory.path().join("work").canonicalize().expect("the directory to work in")
    }

    /// Returns the database.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.home.join("baton.db")
    }

    /// Replaces the home.
    #[must_use]
    pub fn at(mut self, home: impl Into<PathBuf>) -> Self {
        self.home = home.into();
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Sets this model.
    #[must_use]
    pub fn with_model(self, model: &ModelServer) -> Self {
        self.env("OPENAI_BASE_URL", model.base_url())
            .env("OPENAI_API_KEY", MODEL_KEY)
            .env("OPENAI_MODEL", "scripted")
    }

    /// Starts the program through a shell script in separate mount and user namespaces. `$HOME_DIR` is the
    /// home.
    #[must_use]
    pub fn in_sandbox(mut self, script: &str) -> Self {
        std::fs::create_dir_all(&self.home).expect("a home to mount on");
        self.sandbox = Some(format!("set -e\n{script}\nexec \"$@\""));
        self
    }

    /// Creates the command.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = match &self.sandbox {
            None => Command::new(&self.executable),
            Some(script) => {
                let mut command = Command::new("unshare");
                command.args(["--map-root-user", "--mount", "sh", "-c", script, "sandbox"]);
                command.arg(&self.executable).env("HOME_DIR", &self.home);
                command
            }
        };
        command.args(arguments).env_clear().current_dir(self.work()).kill_on_drop(true);
        // Not that of the test, which may be a pipe that nobody closes: commands read piped input.
        command.stdin(Stdio::null());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.directory.path()).env("BATON_HOME", &self.home);
        command.env("HOME_DIR", &self.home);
        if !rustix::process::geteuid().is_root() {
            // Tests read the program's memory and descriptors from `/proc`, which is otherwise limited to
            // root.
            command.env("BATON_DUMPABLE", "1");
        }
        for (name, value) in &self.environment {
            command.env(name, value);
        }
        command
    }

    /// Runs a command to its end, without standard input.
    pub async fn run(&self, arguments: &[&str]) -> Finished {
        let mut command = self.command(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = tokio::time::timeout(LIMIT, command.output()).await;
        let output = output
            .unwrap_or_else(|_| panic!("{arguments:?} did not end within the time limit"))
            .expect("it starts");
        Finished {
            status: output.status,
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// Starts the program as SDKs do, on a port.
    pub async fn serve(&self) -> Running {
        self.serve_with(&["--headless", "--no-auto-update", "--log-level", "info"]).await
    }

    /// Starts the program with these arguments, and waits until it reports its port.
    pub async fn serve_with(&self, arguments: &[&str]) -> Running {
        let mut command = self.command(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running::spawn(command);
        let mut lines = BufReader::new(running.child.stdout.take().expect("a pipe")).lines();
        let port = async {
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some((_, port)) = line.split_once("listening on port ") {
                    return port.trim().parse().ok();
                }
            }
            None
        };
        let port = tokio::time::timeout(LIMIT, port).await.ok().flatten();
        running.port = port.unwrap_or_else(|| panic!("no port reported: {}", running.stderr()));
        running
    }

    /// Starts the program as a user does, with a port for SDKs and one for HTTP clients, and additional
    /// flags; waits until it reports both ports.
    pub async fn serve_http(&self, more: &[&str]) -> Running {
        let arguments = [&["serve", "--port", "0", "--http", "127.0.0.1:0"], more];
        let mut command = self.command(&arguments.concat());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running::spawn(command);
        let mut lines = BufReader::new(running.child.stdout.take().expect("a pipe")).lines();
        let address = async {
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some((_, port)) = line.split_once("listening on port ") {
                    running.port = port.trim().parse().ok()?;
                } else if let Some((_, address)) = line.split_once("listening on http") {
                    return address.trim_start_matches('s').trim_start_matches("://").parse().ok();
                }
            }
            None
        };
        let address = tokio::time::timeout(LIMIT, address).await.ok().flatten();
        running.http = address.or_else(|| panic!("no port reported: {}", running.stderr()));
        running
    }

    /// Returns the token that a server created in this home.
    #[must_use]
    pub fn token(&self) -> String {
        std::fs::read_to_string(self.home.join("token")).expect("a token").trim().to_owned()
    }

    /// Starts the program as SDKs do, on pipes.
    pub async fn pipes(&self) -> (Running, Client) {
        let mut command = self.command(&["--headless", "--no-auto-update", "--log-level", "info", "--stdio"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running::spawn(command);
        let (stdin, stdout) = (running.child.stdin.take(), running.child.stdout.take());
        let client = Client::new(stdout.expect("a pipe"), stdin.expect("a pipe"));
        client.ok("connect", serde_json::json!({})).await;
        (running, client)
    }
}
