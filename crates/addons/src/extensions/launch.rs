//! The process of an extension: Node.js with the SDK that the client names, ended for certain with its session.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_process::{Ledger, Pipes, Start, Supervised};
use baton_protocol::SessionId;
use baton_sandbox::Place;
use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Available, Environment};

/// Loaded before an extension: makes it import the SDK that the client names, wherever the extension is.
const RESOLVER: &str = include_str!("resolver.mjs");
/// How long a program may take to exit after its connection was closed.
const CLOSE_GRACE: Duration = Duration::from_millis(300);
/// How long processes may take to exit after SIGTERM.
const TERM_GRACE: Duration = Duration::from_secs(2);
/// Bytes of stderr that are kept, for the reason of a failure.
const MOST_DIAGNOSTICS: usize = 4 * 1024;

/// Parameters for starting an extension.
pub(super) struct Launch<'a> {
    /// The extension.
    pub(super) found: &'a Available,
    /// The session that it joins.
    pub(super) session: &'a SessionId,
    /// Working directory of the session.
    pub(super) cwd: &'a Path,
    /// The SDK that it imports; none means that it brings its own.
    pub(super) sdk: Option<&'a Path>,
    /// Variables of the server.
    pub(super) environment: &'a Environment,
    /// Where it runs.
    pub(super) place: Place,
}

/// A running extension. Its processes end when [`Process::end`] is called, or this is dropped.
pub struct Process {
    /// Its pid.
    pub pid: i32,
    /// Its diagnostics.
    pub diagnostics: Diagnostics,
    end: CancellationToken,
    exited: CancellationToken,
    gone: CancellationToken,
}

/// The end of what a program wrote to stderr.
#[derive(Clone, Default)]
pub struct Diagnostics(Arc<Mutex<VecDeque<u8>>>);

impl Diagnostics {
    /// Returns the last line that reports an error, or the last one.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(kept.make_contiguous()).into_owned();
        let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
        // Node.js ends its report of an exception with a stack trace.
        let error = lines().rfind(|line| line.contains("Error"));
        error.or_else(|| lines().next_back()).map(str::to_owned)
    }

    async fn follow(self, mut stderr: ChildStderr) {
        let mut buffer = [0; 1024];
        while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend(&buffer[..read]);
            let surplus = kept.len().saturating_sub(MOST_DIAGNOSTICS);
            kept.drain(..surplus);
        }
    }
}

impl Launch<'_> {
    /// Starts the program. Returns its pipes: what it reads, and what it writes.
    pub(super) async fn start(
        &self,
        ledger: &Ledger,
        tasks: &TaskTracker,
    ) -> io::Result<(Process, OwnedFd, OwnedFd)> {
        let tag = format!("{}/", uuid::Uuid::new_v4());
        // Before a process carries the tag: a killed server's successor ends what it finds there.
        let (noted, to_note) = (ledger.clone(), tag.clone());
        drop(tokio::task::spawn_blocking(move || noted.note(&to_note)).await);
        let started = self.start_tagged(ledger, &tag);
        if started.is_err() {
            ledger.forget(&tag);
        }
        let (supervised, Pipes { stdin, stdout, stderr }) = started?;
        let process = Process {
            pid: supervised.leader().pid,
            diagnostics: Diagnostics::default(),
            end: CancellationToken::new(),
            exited: CancellationToken::new(),
            gone: CancellationToken::new(),
        };
        tasks.spawn(process.supervise(supervised, stderr, ledger.clone(), tag));
        Ok((process, stdin.into_owned_fd()?, stdout.into_owned_fd()?))
    }

    fn start_tagged(&self, ledger: &Ledger, tag: &str) -> io::Result<(Supervised, Pipes)> {
        let sandbox = match &self.place {
            Place::Inside(ready) => Some(ready.clone()),
            Place::Outside => None,
        };
        Start {
            program: "node".into(),
            args: self.arguments(),
            environment: self.variables(),
            cwd: self.cwd.to_owned(),
            tag: tag.to_owned(),
            ledger: ledger.clone(),
            sandbox,
        }
        .start()
    }

    fn arguments(&self) -> Vec<OsString> {
        let loader = format!("data:text/javascript,{}", percent_encoded(RESOLVER));
        vec!["--import".into(), loader.into(), self.found.extension.entry.clone().into()]
    }

    /// Returns the process whose end an extension may take for that of the server: inside, its helper.
    fn parent(&self) -> u32 {
        match self.place {
            Place::Inside(_) => 1,
            Place::Outside => std::process::id(),
        }
    }

    fn variables(&self) -> Vec<(OsString, OsString)> {
        let mut variables = self.environment.passed();
        let own: [(&str, OsString); 3] = [
            ("SESSION_ID", self.session.as_str().into()),
            ("EXTENSION_PATH", self.found.extension.entry.clone().into()),
            ("COPILOT_EXTENSION_PARENT_PID", self.parent().to_string().into()),
        ];
        let sdk = self.sdk.map(|sdk| ("COPILOT_SDK_PATH", sdk.as_os_str().to_owned()));
        for (name, value) in own.into_iter().chain(sdk) {
            variables.retain(|(known, _)| known != name);
            variables.push((name.into(), value));
        }
        variables
    }
}

impl Process {
    /// Ends the process tree, without waiting for it.
    pub fn end(&self) {
        self.end.cancel();
    }

    /// Waits until no process is left.
    pub async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// Waits until the program has exited.
    pub async fn exited(&self) {
        self.exited.cancelled().await;
    }

    fn supervise(
        &self,
        mut supervised: Supervised,
        stderr: ChildStderr,
        ledger: Ledger,
        tag: String,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (end, exited, gone) = (self.end.clone(), self.exited.clone(), self.gone.clone());
        let following = tokio::spawn(self.diagnostics.clone().follow(stderr));
        async move {
            tokio::select! {
                _ = supervised.wait() => {}
                () = end.cancelled() => drop(timeout(CLOSE_GRACE, supervised.wait()).await),
            }
            exited.cancel();
            supervised.end(TERM_GRACE).await;
            // What it wrote last is usually why it ended.
            let aborted = following.abort_handle();
            drop(timeout(CLOSE_GRACE, following).await);
            aborted.abort();
            drop(tokio::task::spawn_blocking(move || ledger.forget(&tag)).await);
            gone.cancel();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// Encodes a text for a URL.
fn percent_encoded(text: &str) -> String {
    use std::fmt::Write;
    text.bytes().fold(String::new(), |mut encoded, byte| {
        match byte.is_ascii_alphanumeric() {
            true => encoded.push(byte.into()),
            false => drop(write!(encoded, "%{byte:02X}")),
        }
        encoded
    })
}
