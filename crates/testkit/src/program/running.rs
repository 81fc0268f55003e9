//! A started program: its streams, signals, resources and end.

use std::process::ExitStatus;
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::client::{Client, LIMIT};

/// A running program. Dropping it kills it.
pub struct Running {
    /// The process.
    pub child: Child,
    /// Its port for SDKs, if any.
    pub port: u16,
    /// Its address for HTTP clients, if any.
    pub http: Option<std::net::SocketAddr>,
    pid: u32,
    stderr: Arc<Mutex<String>>,
}

impl Running {
    /// Starts a command and collects its standard error.
    #[must_use]
    pub fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().expect("it starts");
        let stderr = Arc::new(Mutex::new(String::new()));
        if let Some(mut pipe) = child.stderr.take() {
            let collected = Arc::clone(&stderr);
            tokio::spawn(async move {
                let mut buffer = vec![0; 8192];
                while let Ok(length @ 1..) = pipe.read(&mut buffer).await {
                    collected.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..length]));
                }
            });
        }
        let pid = child.id().expect("a process");
        Self { child, port: 0, http: None, pid, stderr }
    }

    /// Returns the process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns its standard error so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Waits until its standard error contains this text.
    ///
    /// # Panics
    /// When it does not within the time limit.
    pub async fn until_stderr(&self, text: &str) {
        let started = std::time::Instant::now();
        while !self.stderr().contains(text) {
            assert!(started.elapsed() < LIMIT, "{text:?} is not in:\n{}", self.stderr());
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    /// Opens a bare connection to its port.
    pub async fn dial(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).await.expect("it accepts connections")
    }

    /// Connects a client to its port and performs the handshake.
    pub async fn connect(&self) -> Client {
        let client = self.greetless().await;
        client.ok("connect", serde_json::json!({})).await;
        client
    }

    /// Connects a client to its port without the handshake.
    pub async fn greetless(&self) -> Client {
        let (reader, writer) = self.dial().await.into_split();
        Client::new(reader, writer)
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).expect("a process id");
        // It may have ended already.
        let _ = kill_process(pid, signal);
    }

    /// Waits for its end.
    pub async fn ended(&mut self) -> ExitStatus {
        let ended = tokio::time::timeout(LIMIT, self.child.wait()).await;
        ended
            .unwrap_or_else(|_| panic!("did not end within the time limit: {}", self.stderr()))
            .expect("a status")
    }

    /// Kills it with SIGKILL, and waits until it is gone.
    pub async fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.ended().await;
    }

    /// Ends it with SIGTERM, and waits.
    pub async fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.ended().await
    }

    /// Whether it is still running.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns the resident memory in bytes.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.status_field("VmRSS:") * 1024
    }

    /// Returns the peak resident memory in bytes.
    #[must_use]
    pub fn peak_memory(&self) -> u64 {
        self.status_field("VmHWM:") * 1024
    }

    /// Returns the number of open sockets.
    #[must_use]
    pub fn sockets(&self) -> usize {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.pid)).into_iter().flatten().flatten();
        let targets = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
    }

    /// Waits until it has at most this many sockets open. A connection closed by the peer causes no
    /// notification.
    ///
    /// # Panics
    /// When they stay open.
    pub async fn until_sockets(&self, at_most: usize) {
        let started = std::time::Instant::now();
        while self.sockets() > at_most {
            assert!(
                started.elapsed() < LIMIT,
                "{} sockets are open, expected at most {at_most}",
                self.sockets()
            );
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    fn status_field(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
    }
}
