//! How commands find a server on this machine: each `baton serve`, and each `baton run` that holds its session itself, writes
//! a small file with its addresses into the home directory, and removes it when it stops. Files of killed processes are
//! ignored and removed; the process is identified by its start time too, because a process id can be reused.
#![expect(clippy::disallowed_methods, reason = "runs on the main thread, before or after the server's work")]

use std::fs::DirEntry;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use baton_history::owner;
use baton_store::Owner;
use serde::{Deserialize, Serialize};

const ROOT: u32 = 0;

/// Permission bits that let users other than the owner write.
const OTHERS_WRITE: u32 = 0o022;

/// What a process serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProcessRole {
    /// All sessions of the home, until it is stopped.
    #[default]
    Server,
    /// One session, until its turn ends.
    Run,
}

/// The model endpoint of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedEndpoint {
    /// For people, without secrets.
    pub description: String,
    /// Tells whether another endpoint is the same, with the same key.
    pub fingerprint: String,
}

/// The addresses of a running server. Holds no secret: the token stays in its own file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunningServer {
    /// The process.
    pub owner: Owner,
    /// Address of the HTTP API.
    pub url: Option<String>,
    /// Socket file of the HTTP API.
    pub socket: Option<PathBuf>,
    /// File with the token, if clients need one.
    pub token_file: Option<PathBuf>,
    /// URL of the page, as other machines reach it.
    #[serde(default)]
    pub page: Option<String>,
    /// What it serves.
    #[serde(default)]
    pub role: ProcessRole,
    /// The one session of a run.
    #[serde(default)]
    pub session: Option<String>,
    /// Port of 127.0.0.1 for SDK clients.
    #[serde(default)]
    pub rpc_port: Option<u16>,
    /// The endpoint of sessions without their own.
    #[serde(default)]
    pub endpoint: Option<PublishedEndpoint>,
}

/// A published file. Removed when dropped.
pub struct PublishedFile(PathBuf);

impl Drop for PublishedFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl RunningServer {
    /// Describes the server in this process.
    #[must_use]
    pub fn new(url: Option<String>, socket: Option<PathBuf>, token_file: Option<PathBuf>) -> Self {
        Self {
            owner: owner::this_process(),
            url,
            socket,
            token_file,
            page: None,
            role: ProcessRole::Server,
            session: None,
            rpc_port: None,
            endpoint: None,
        }
    }

    /// A `baton run` that serves its session on a socket file.
    #[must_use]
    pub fn of_run(socket: PathBuf, session: String) -> Self {
        Self { role: ProcessRole::Run, session: Some(session), ..Self::new(None, Some(socket), None) }
    }

    /// Process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.owner.pid
    }

    /// Whether it serves HTTP.
    #[must_use]
    pub fn is_reachable(&self) -> bool {
        self.socket.is_some() || self.url.is_some()
    }

    /// Makes this server known to clients of the same home.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn publish(&self, home: &Path) -> anyhow::Result<PublishedFile> {
        let (directory, name) = (directory(home), format!("{}.json", self.owner.pid));
        let write = || {
            baton_disk::private::create_dir_all(&directory)?;
            // Atomically: a client may be reading.
            baton_disk::private::replace(directory.join(&name), serde_json::to_vec(self)?)
        };
        write().with_context(|| format!("cannot write to {}", directory.display()))?;
        Ok(PublishedFile(directory.join(name)))
    }

    /// Returns the running servers of a home, newest first, without the runs that hold their sessions themselves.
    #[must_use]
    pub fn servers(home: &Path) -> Vec<Self> {
        let mut found = Self::all(home);
        found.retain(|server| server.role == ProcessRole::Server);
        found
    }

    /// Returns the addresses on which it listens for clients.
    #[must_use]
    pub fn doors(&self) -> Vec<String> {
        let socket = self.socket.as_ref().map(|path| format!("unix://{}", path.display()));
        let rpc = self.rpc_port.map(|port| format!("127.0.0.1:{port} (SDKs)"));
        self.url.iter().cloned().chain(socket).chain(rpc).collect()
    }

    /// Returns the addresses of its HTTP API, for people.
    #[must_use]
    pub fn addresses(&self) -> String {
        let socket = self.socket.as_ref().map(|path| format!("unix://{}", path.display()));
        let addresses: Vec<String> = self.url.iter().cloned().chain(socket).collect();
        if addresses.is_empty() { "no HTTP address".to_owned() } else { addresses.join(", ") }
    }

    /// Returns all processes that serve sessions of a home, newest first.
    #[must_use]
    pub fn all(home: &Path) -> Vec<Self> {
        let files = std::fs::read_dir(directory(home)).into_iter().flatten().flatten();
        let mut found: Vec<Self> = files.filter_map(|file| read(&file.path())).collect();
        found.sort_by_key(|server| std::cmp::Reverse(server.owner.started));
        found
    }
}

/// Refuses a home whose server runs as another user: that server is not asked, because its file could lead the token anywhere, and
/// what this command wrote would not be readable there. Only root gets this far.
///
/// # Errors
/// When a file of a server belongs to another user.
pub fn check_user(home: &Path) -> anyhow::Result<()> {
    let us = rustix::process::geteuid().as_raw();
    let files = std::fs::read_dir(directory(home)).into_iter().flatten().flatten();
    let mut owners = files.filter_map(|file| file.path().symlink_metadata().ok()).map(|file| file.uid());
    match owners.find(|owner| *owner != us) {
        Some(owner) => Err(other_user(home, owner)),
        None => Ok(()),
    }
}

/// Refuses a home that belongs to another user: new files in it would belong to this one.
///
/// # Errors
/// When the home belongs to another user.
pub fn check_owner(home: &Path) -> anyhow::Result<()> {
    let us = rustix::process::geteuid().as_raw();
    match home.metadata() {
        Ok(metadata) if metadata.uid() != us => Err(other_user(home, metadata.uid())),
        _ => Ok(()),
    }
}

/// Refuses a home that another user could have prepared, for example in `/tmp` before its first use. A token or grants that
/// somebody else has put there would let them run commands as this user. Files of root are trusted. Root itself may use the
/// homes of others: volumes of containers often belong to another user.
///
/// Directories inside a home that only its owner can write to are not looked at: one may be a mount that does not answer.
///
/// # Errors
/// When the home or a file in it belongs to another user.
pub fn check_origin(home: &Path, entries: std::fs::ReadDir) -> anyhow::Result<()> {
    let us = rustix::process::geteuid().as_raw();
    if us == ROOT {
        return Ok(());
    }
    let directory = home.canonicalize().unwrap_or_else(|_| home.to_owned());
    let is_closed = directory.metadata().is_ok_and(|found| found.mode() & OTHERS_WRITE == 0);
    let is_seen = |entry: &DirEntry| !is_closed || entry.file_type().is_ok_and(|kind| !kind.is_dir());
    let inside = entries.flatten().filter(is_seen).map(|entry| entry.path());
    match foreign(std::iter::once(directory).chain(inside), us) {
        None => Ok(()),
        Some((path, owner)) => anyhow::bail!(
            "{} belongs to the user with id {owner}, who could run commands as you through it; choose another home with \
             --home, or check and remove it",
            path.display()
        ),
    }
}

/// Refuses a socket file of another user, who would read prompts and could answer as the server. One that does not exist is left
/// to the connection. Root may connect to the servers of others.
///
/// # Errors
/// When it belongs to another user.
pub fn check_socket(path: &Path) -> anyhow::Result<()> {
    let us = rustix::process::geteuid().as_raw();
    let resolved = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    match foreign([resolved], us).filter(|_| us != ROOT) {
        None => Ok(()),
        Some((_, owner)) => anyhow::bail!(
            "the socket {} belongs to the user with id {owner}; connect to a server of another user with --url and a token",
            path.display()
        ),
    }
}

/// Returns the first path that belongs neither to a user nor to root, and its owner.
fn foreign(paths: impl IntoIterator<Item = PathBuf>, us: u32) -> Option<(PathBuf, u32)> {
    let owned = paths.into_iter().filter_map(|path| {
        let owner = path.symlink_metadata().ok()?.uid();
        Some((path, owner))
    });
    owned.into_iter().find(|(_, owner)| *owner != us && *owner != ROOT)
}

fn other_user(home: &Path, owner: u32) -> anyhow::Error {
    let home = home.display();
    anyhow::anyhow!(
        "{home} is the home of a server of the user with id {owner}; run this command as that user: `sudo -u '#{owner}' baton --home {home} …`"
    )
}

fn directory(home: &Path) -> PathBuf {
    home.join("servers")
}

/// Reads a file, and removes it if its server is dead. Ignores files that another user could have written: the token goes
/// wherever the file says.
fn read(path: &Path) -> Option<RunningServer> {
    let metadata = path.symlink_metadata().ok()?;
    let is_ours = metadata.is_file() && metadata.uid() == rustix::process::geteuid().as_raw();
    if !is_ours || baton_disk::private::is_open_to_others(&metadata) {
        return None;
    }
    let server: RunningServer = baton_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    if owner::is_alive(&server.owner) {
        return Some(server);
    }
    let _ = std::fs::remove_file(path);
    // The socket file of a run has the process id in its name; no other process uses it.
    if let (ProcessRole::Run, Some(socket)) = (server.role, &server.socket)
        && socket.starts_with(sockets(path.parent()?.parent()?))
    {
        let _ = std::fs::remove_file(socket);
    }
    None
}

/// The directory of the socket files of runs.
fn sockets(home: &Path) -> PathBuf {
    home.join("runs")
}

/// The socket file of a run in this process.
#[must_use]
pub fn socket_of_run(home: &Path) -> PathBuf {
    sockets(home).join(format!("{}.sock", std::process::id()))
}

#[cfg(test)]
mod tests {
    use baton_testkit::another_user::AnotherUser;
    use baton_testkit::cannot_run;

    use super::*;

    #[test]
    fn files_that_others_could_have_written_are_ignored() {
        use std::os::unix::fs::PermissionsExt;

        let home = tempfile::tempdir().unwrap();
        let server = RunningServer::new(Some("http://127.0.0.1:1".into()), None, None);
        let published = server.publish(home.path()).unwrap();
        let found = || RunningServer::all(home.path()).len();
        assert_eq!(found(), 1);
        let open = |mode: u32| {
            std::fs::set_permissions(&published.0, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        open(0o602);
        assert_eq!(found(), 0);
        open(0o600);
        let elsewhere = home.path().join("planted.json");
        std::fs::rename(&published.0, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &published.0).unwrap();
        assert_eq!(found(), 0, "a link");
    }

    #[test]
    fn home_with_a_server_of_another_user_is_refused() {
        let Ok(other) = AnotherUser::find().map_err(|why| cannot_run!(why)) else { return };
        let directory = tempfile::tempdir().unwrap();
        let home = &directory.path().join("home");
        std::fs::create_dir(home).unwrap();
        check_user(home).unwrap();
        check_owner(&home.join("none")).unwrap();
        let server = RunningServer::new(Some("http://127.0.0.1:1".into()), None, None);
        let published = server.publish(home).unwrap();
        check_user(home).unwrap();
        check_owner(home).unwrap();
        other.take(&published.0);
        let error = check_user(home).unwrap_err().to_string();
        let owner = published.0.metadata().unwrap().uid();
        assert!(error.contains(&format!("sudo -u '#{owner}'")), "{error}");
        check_owner(home).unwrap();
        other.take(home);
        assert!(check_owner(home).is_err());
    }

    #[test]
    fn files_of_another_user_in_a_home_are_found() {
        let home = tempfile::tempdir().unwrap();
        let token = home.path().join("token");
        std::fs::write(&token, "planted").unwrap();
        let us = rustix::process::geteuid().as_raw();
        let among = |us: u32| foreign([home.path().to_owned(), token.clone()], us);
        assert_eq!(among(us), None);
        // As root, the files are given away; everybody else looks at them as another user.
        let given = std::os::unix::fs::chown(&token, Some(12), None).is_ok();
        let expected = if given { (token.clone(), 12) } else { (home.path().to_owned(), us) };
        assert_eq!(among(us + 1), Some(expected));
        check_origin(home.path(), std::fs::read_dir(home.path()).unwrap()).unwrap();
    }

    #[test]
    fn running_servers_are_found_and_files_of_dead_ones_are_removed() {
        let home = tempfile::tempdir().unwrap();
        assert!(RunningServer::all(home.path()).is_empty());
        let server = RunningServer::new(Some("http://127.0.0.1:1".into()), None, None);
        let mut dead = server.clone();
        // Far in the future: the next process id may belong to a process that started just after this one.
        dead.owner.started += 1 << 40;
        dead.owner.pid += 1;
        let left_behind = dead.publish(home.path()).unwrap();
        let published = server.publish(home.path()).unwrap();
        let found = RunningServer::all(home.path());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].url, server.url);
        assert!(!left_behind.0.exists());
        drop(published);
        assert!(RunningServer::all(home.path()).is_empty());

        let socket = socket_of_run(home.path());
        std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
        std::fs::write(&socket, "").unwrap();
        let mut run = RunningServer::of_run(socket.clone(), "s".into());
        let published = run.publish(home.path()).unwrap();
        assert_eq!(RunningServer::all(home.path())[0].session.as_deref(), Some("s"));
        drop(published);
        run.owner.started += 1 << 40;
        let _left_behind = run.publish(home.path()).unwrap();
        assert!(RunningServer::all(home.path()).is_empty());
        assert!(!socket.exists(), "the socket file of a killed run is removed");
    }
}
