//! The built program: started with a home of its own and an environment that the test alone decides, and ended by its
//! process id when the test is over.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::client::{Client, LIMIT};
use crate::model_server::ModelServer;

/// The key for the scripted model. Nobody but the model should ever see it.
pub const MODEL_KEY: &str = "key-for-the-scripted-model";

/// How to start the program.
#[derive(Clone)]
pub struct Program {
    executable: PathBuf,
    directory: Arc<TempDir>,
    home: PathBuf,
    environment: Vec<(String, OsString)>,
    /// A shell script that is run first, in namespaces of its own, and ends in `exec "$@"`.
    sandbox: Option<String>,
}

/// What a command left behind.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

impl Finished {
    /// The exit code; none if a signal ended it.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Standard output, which must be JSON, one value a line.
    #[must_use]
    pub fn json_lines(&self) -> Vec<serde_json::Value> {
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        self.stdout.lines().map(parse).collect()
    }
}

impl Program {
    /// The program at this path, with a fresh home.
    #[must_use]
    pub fn new(executable: impl Into<PathBuf>) -> Self {
        let directory = Arc::new(tempfile::tempdir().expect("a temporary directory"));
        let home = directory.path().join("home");
        std::fs::create_dir(directory.path().join("work")).expect("a directory to work in");
        Self { executable: executable.into(), directory, home, environment: Vec::new(), sandbox: None }
    }

    /// The directory of its state.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The directory it is started in.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.directory.path().join("work").canonicalize().expect("the directory to work in")
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.home.join("baton.db")
    }

    /// The same with another home.
    #[must_use]
    pub fn at(mut self, home: impl Into<PathBuf>) -> Self {
        self.home = home.into();
        self
    }

    /// The same with a variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// The same, talking to this model.
    #[must_use]
    pub fn with_model(self, model: &ModelServer) -> Self {
        self.env("OPENAI_BASE_URL", model.base_url())
            .env("OPENAI_API_KEY", MODEL_KEY)
            .env("OPENAI_MODEL", "scripted")
    }

    /// The same, started by a shell script in mount and user namespaces of its own. `$HOME_DIR` is the home.
    #[must_use]
    pub fn in_sandbox(mut self, script: &str) -> Self {
        std::fs::create_dir_all(&self.home).expect("a home to mount on");
        self.sandbox = Some(format!("set -e\n{script}\nexec \"$@\""));
        self
    }

    /// The command, ready to be started.
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
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.directory.path()).env("BATON_HOME", &self.home);
        command.env("HOME_DIR", &self.home);
        if !rustix::process::geteuid().is_root() {
            // Tests look at memory and descriptors of the program, which is closed to all but root.
            command.env("BATON_DUMPABLE", "1");
        }
        for (name, value) in &self.environment {
            command.env(name, value);
        }
        command
    }

    /// Runs a command to its end, with nothing on standard input.
    pub async fn run(&self, arguments: &[&str]) -> Finished {
        let mut command = self.command(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = tokio::time::timeout(LIMIT, command.output()).await;
        let output = output.unwrap_or_else(|_| panic!("{arguments:?} did not end")).expect("it starts");
        Finished {
            status: output.status,
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// Starts it as SDKs do, on a port.
    pub async fn serve(&self) -> Running {
        self.serve_with(&["--headless", "--no-auto-update", "--log-level", "info"]).await
    }

    /// Starts it with these arguments, and waits until it says where it listens.
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
        running.port = port.unwrap_or_else(|| panic!("it does not listen: {}", running.stderr()));
        running
    }

    /// Starts it as a person does, with a port for SDKs and one for HTTP clients, and more flags; waits until it says
    /// where it listens.
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
        running.http = address.or_else(|| panic!("it does not listen: {}", running.stderr()));
        running
    }

    /// The token that a server of this home has made.
    #[must_use]
    pub fn token(&self) -> String {
        std::fs::read_to_string(self.home.join("token")).expect("a token").trim().to_owned()
    }

    /// Starts it as SDKs do, on pipes.
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

/// A running program. Dropping it kills it.
pub struct Running {
    /// The process.
    pub child: Child,
    /// Where it listens, if it does.
    pub port: u16,
    /// Where it listens for HTTP clients, if it does.
    pub http: Option<std::net::SocketAddr>,
    pid: u32,
    stderr: Arc<Mutex<String>>,
}

impl Running {
    /// Starts a command and collects what it writes to standard error.
    #[must_use]
    pub fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().expect("it starts");
        let stderr = Arc::new(Mutex::new(String::new()));
        if let Some(mut pipe) = child.stderr.take() {
            let kept = Arc::clone(&stderr);
            tokio::spawn(async move {
                let mut buffer = vec![0; 8192];
                while let Ok(length @ 1..) = pipe.read(&mut buffer).await {
                    kept.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..length]));
                }
            });
        }
        let pid = child.id().expect("a process");
        Self { child, port: 0, http: None, pid, stderr }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What it has written to standard error.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Waits until it has written something to standard error.
    ///
    /// # Panics
    /// When it does not come.
    pub async fn until_stderr(&self, text: &str) {
        let begun = std::time::Instant::now();
        while !self.stderr().contains(text) {
            assert!(begun.elapsed() < LIMIT, "{text:?} is not in:\n{}", self.stderr());
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    /// A bare connection to its port.
    pub async fn dial(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).await.expect("it accepts connections")
    }

    /// A client on its port that has said hello.
    pub async fn connect(&self) -> Client {
        let client = self.greetless().await;
        client.ok("connect", serde_json::json!({})).await;
        client
    }

    /// A client on its port that has said nothing.
    pub async fn greetless(&self) -> Client {
        let (reader, writer) = self.dial().await.into_split();
        Client::new(reader, writer)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).expect("a process id");
        // It may have ended by itself.
        let _ = kill_process(pid, signal);
    }

    /// Waits for its end.
    pub async fn ended(&mut self) -> ExitStatus {
        let ended = tokio::time::timeout(LIMIT, self.child.wait()).await;
        ended.unwrap_or_else(|_| panic!("it does not end: {}", self.stderr())).expect("a status")
    }

    /// Kills it, without a word, and waits until it is gone.
    pub async fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.ended().await;
    }

    /// Asks it to end, and waits.
    pub async fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.ended().await
    }

    /// Whether it still runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// How much memory it uses now, in bytes.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.status_field("VmRSS:") * 1024
    }

    /// The most memory it has used, in bytes.
    #[must_use]
    pub fn peak_memory(&self) -> u64 {
        self.status_field("VmHWM:") * 1024
    }

    /// How many sockets it has open.
    #[must_use]
    pub fn sockets(&self) -> usize {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.pid)).into_iter().flatten().flatten();
        let targets = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
    }

    /// Waits until it has no more sockets open than this. A connection that is closed at the other end sends no event.
    ///
    /// # Panics
    /// When they stay open.
    pub async fn until_sockets(&self, at_most: usize) {
        let begun = std::time::Instant::now();
        while self.sockets() > at_most {
            assert!(begun.elapsed() < LIMIT, "{} sockets are open instead of {at_most}", self.sockets());
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    fn status_field(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
    }
}
