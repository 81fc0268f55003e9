//! Finds the server of a home, or starts one that outlives its client.
//!
//! The terminal interface uses it, and doors for editors can: whoever needs a server says where its home is and how the program
//! is called, and gets a connection, with a note for people if there is something to say.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::fs::FlockOperation;
use serde::Deserialize;

use crate::discovery::{self, ProcessRole, RunningServer};
use crate::{Client, RequestFailure, ServerLocator};

/// Level of the HTTP API that this client understands.
const API_LEVEL: u64 = 1;
/// Time limit for a server to start.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Pause between two looks at a server that starts.
const LOOK_EVERY: Duration = Duration::from_millis(15);
/// Most of the log that an error quotes, in bytes.
const QUOTED: usize = 600;

/// How a server is started.
#[derive(Debug, Clone)]
pub struct Starter {
    /// The program.
    pub program: PathBuf,
    /// Its arguments: `serve`, and what it needs to find the same home and configuration.
    pub arguments: Vec<OsString>,
}

/// A server that was found or started.
pub struct FoundServer {
    /// The connection to it.
    pub client: Client,
    /// Whether it was started.
    pub is_new: bool,
    /// What people should know about it.
    pub note: Option<String>,
}

/// What a server says about itself.
#[derive(Debug, Deserialize)]
struct Health {
    #[serde(default)]
    version: String,
    api: Option<u64>,
}

/// Returns a connection to the server that is named, to the one of the home, or to a new one of the home.
///
/// # Errors
/// When the named server cannot be used, or none can be started; the message says why.
pub async fn find_or_start(
    locator: &ServerLocator<'_>,
    starter: &Starter,
    version: &str,
) -> anyhow::Result<FoundServer> {
    if locator.is_named() {
        let client = locator.connect()?;
        let note = check(&client, version).await?;
        return Ok(FoundServer { client, is_new: false, note });
    }
    let home = locator.home;
    discovery::check_user(home)?;
    if let Some(client) = running(locator)? {
        // One that is stopping just now may not answer any more.
        match check(&client, version).await {
            Ok(note) => return Ok(FoundServer { client, is_new: false, note }),
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    let (starter, owned_home) = (starter.clone(), home.to_owned());
    let started = baton_disk::blocking::run(move || start(&starter, &owned_home)).await;
    let is_new = started.context("cannot start a server")??;
    let client = running(locator)?.context("the server that was started has ended again")?;
    let note = check(&client, version).await?;
    let note = match is_new {
        true => Some("started a server in the background; `baton stop` ends it".to_owned()),
        false => note,
    };
    Ok(FoundServer { client, is_new, note })
}

fn running(locator: &ServerLocator<'_>) -> anyhow::Result<Option<Client>> {
    let servers = RunningServer::servers(locator.home);
    let reachable = servers.iter().find(|server| server.is_reachable());
    reachable.map(|server| locator.client(server)).transpose()
}

fn is_gone(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<RequestFailure>(), Some(RequestFailure::Unreachable(_)))
}

/// Compares versions. Returns a note if they differ and get along.
async fn check(client: &Client, version: &str) -> anyhow::Result<Option<String>> {
    let health: Health = client.get("/api/health").await?;
    let theirs = printable(&health.version);
    if let Some(level) = health.api.filter(|level| *level != API_LEVEL) {
        let newer = if level > API_LEVEL { "this program is older" } else { "this program is newer" };
        anyhow::bail!(
            "the running server has version {theirs} and another API; {newer} (version {version}). Stop the server with \
             `baton stop` when its sessions are idle, and start again: sessions stay"
        );
    }
    Ok((theirs != version).then(|| {
        format!("the running server has version {theirs}, this program {version}; `baton stop` ends it when its sessions are idle")
    }))
}

fn printable(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_graphic()).take(40).collect()
}

/// Starts a server and waits until it can be reached. Of several clients that start at once, one does it. Returns whether this
/// one did.
#[expect(clippy::disallowed_methods, reason = "runs on a thread for blocking work")]
fn start(starter: &Starter, home: &Path) -> anyhow::Result<bool> {
    baton_disk::private::create_dir_all(home).with_context(|| format!("cannot create {}", home.display()))?;
    let lock = home.join("start.lock");
    let lock =
        baton_disk::private::append(&lock).with_context(|| format!("cannot open {}", lock.display()))?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive).context("cannot lock the home")?;
    if is_reachable(home) {
        return Ok(false);
    }
    let log = home.join("server.log");
    let output =
        baton_disk::private::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let errors = output.try_clone().context("cannot share the log")?;
    let mut command = Command::new(&starter.program);
    command.args(&starter.arguments).current_dir(home);
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    let mut child = command.spawn().with_context(|| format!("cannot start {}", starter.program.display()))?;
    let until = Instant::now() + START_LIMIT;
    while !is_reachable(home) {
        if let Some(status) = child.try_wait().context("cannot wait for the server")? {
            anyhow::bail!("the server did not start ({status}): {}", quoted(&log));
        }
        anyhow::ensure!(Instant::now() < until, "the server does not answer; its log is {}", log.display());
        std::thread::sleep(LOOK_EVERY);
    }
    reap(child);
    Ok(true)
}

fn is_reachable(home: &Path) -> bool {
    let servers = RunningServer::servers(home);
    servers.iter().any(|server| server.role == ProcessRole::Server && server.is_reachable())
}

/// Waits for the end of a server, should it end before its client: a dead child would look alive.
fn reap(mut child: Child) {
    std::thread::spawn(move || child.wait());
}

/// Returns the end of a log, for an error message.
#[expect(clippy::disallowed_methods, reason = "runs on a thread for blocking work")]
fn quoted(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let text = text.trim();
    text[text.ceil_char_boundary(text.len().saturating_sub(QUOTED))..].to_owned()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    use super::*;

    fn starter(script: &str) -> Starter {
        let arguments = ["-c", script].map(Into::into).to_vec();
        Starter { program: "/bin/sh".into(), arguments }
    }

    fn locator<'a>(home: &'a Path, socket: Option<&'a Path>) -> ServerLocator<'a> {
        ServerLocator { url: None, socket, token_file: None, home, ca: None, token: None }
    }

    /// Asks a server that says this about itself.
    async fn found(health: &str) -> anyhow::Result<FoundServer> {
        let home = tempfile::tempdir().unwrap();
        let socket = home.path().join("server.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let reply = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{health}", health.len());
        let serve = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            stream.write_all(reply.as_bytes()).unwrap();
        });
        let found = find_or_start(&locator(home.path(), Some(&socket)), &starter("exit 1"), "1.2.3").await;
        serve.join().unwrap();
        found
    }

    #[tokio::test]
    async fn server_of_another_version_is_described_in_words() {
        let same = found(r#"{"status":"ok","version":"1.2.3","api":1}"#).await.unwrap();
        assert!(same.note.is_none() && !same.is_new);
        let other = found(r#"{"status":"ok","version":"0.9\u001b[2J","api":1}"#).await.unwrap();
        let note = other.note.unwrap();
        assert!(note.contains("version 0.9[2J, this program 1.2.3"), "{note}");
        let newer = found(r#"{"status":"ok","version":"9.0","api":2}"#).await.err().unwrap().to_string();
        assert!(
            newer.contains("another API; this program is older") && newer.contains("baton stop"),
            "{newer}"
        );
    }

    #[tokio::test]
    async fn server_that_does_not_start_is_quoted() {
        let home = tempfile::tempdir().unwrap();
        let failing = starter("echo the disk is full >&2; exit 3");
        let error = find_or_start(&locator(home.path(), None), &failing, "1.2.3").await.err().unwrap();
        let error = format!("{error:#}");
        assert!(error.contains("did not start") && error.contains("the disk is full"), "{error}");
    }
}
