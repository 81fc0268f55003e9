//! Finds the server of a session: the one that is named, the process that holds the session, or the server of the home.

use std::path::Path;

use anyhow::Context;

use super::{Address, Client, NotFound, SessionView};
use crate::discovery::{self, ProcessRole, RunningServer};

/// Finds servers. Used again after a lost connection: a restarted server may listen at another address.
#[derive(Clone, Copy)]
pub struct ServerLocator<'a> {
    /// Address given by the user.
    pub url: Option<&'a str>,
    /// Socket file given by the user.
    pub socket: Option<&'a Path>,
    /// File with the token, given by the user.
    pub token_file: Option<&'a Path>,
    /// The home whose server is meant.
    pub home: &'a Path,
    /// File with certificates to trust, given by the user.
    pub ca: Option<&'a Path>,
    /// The token itself.
    pub token: Option<&'a str>,
}

impl ServerLocator<'_> {
    /// Connects to the named server, the server of this home, or else the newest `baton run` of it.
    ///
    /// # Errors
    /// When none runs, or its address cannot be used.
    pub fn connect(&self) -> anyhow::Result<Client> {
        if let Some(named) = self.named() {
            return named;
        }
        discovery::check_user(self.home)?;
        let running = RunningServer::all(self.home);
        let reachable =
            |role: ProcessRole| running.iter().find(|server| server.role == role && server.is_reachable());
        match (reachable(ProcessRole::Server).or_else(|| reachable(ProcessRole::Run)), running.first()) {
            (Some(server), _) => self.client(server),
            (None, Some(_)) => anyhow::bail!(
                "the server of {} has no HTTP address; start it with --socket or --http",
                self.home.display()
            ),
            (None, None) => Err(NotFound::Server { home: self.home.to_owned() }.into()),
        }
    }

    /// The session of the newest `baton run`, if no server of this home runs.
    #[must_use]
    pub fn session_of_run(&self) -> Option<String> {
        let running = RunningServer::all(self.home);
        let is_alone =
            self.named().is_none() && !running.iter().any(|server| server.role == ProcessRole::Server);
        is_alone.then(|| running.into_iter().find_map(|run| run.session))?
    }

    /// Connects to the `baton run` or the other server that holds a session; none if the connected server can serve it.
    ///
    /// # Errors
    /// When no process can serve the session.
    pub fn connect_to_holder(&self, session: &SessionView) -> anyhow::Result<Option<Client>> {
        if self.url.is_some() || self.socket.is_some() {
            return Ok(None);
        }
        let running = RunningServer::all(self.home);
        let holds = |server: &&RunningServer| {
            server.session.as_ref() == Some(&session.id)
                || session.held_by.as_ref().is_some_and(|holder| holder.pid == server.pid())
        };
        if let Some(holder) = running.iter().filter(|server| server.is_reachable()).find(holds) {
            return self.client(holder).map(Some);
        }
        anyhow::ensure!(
            running.iter().any(|server| server.role == ProcessRole::Server),
            "session {} is not in use, and no server runs; start one with `baton serve`, or continue it with \
             `baton run --session {}`",
            session.id,
            session.id
        );
        Ok(None)
    }

    /// Whether a `baton run` of this home holds a session.
    #[must_use]
    pub fn is_run(&self, session: &str) -> bool {
        let of_run = |server: &RunningServer| server.session.as_deref() == Some(session);
        self.named().is_none() && RunningServer::all(self.home).iter().any(of_run)
    }

    /// Connects to the process that serves a session now; an error if none does.
    ///
    /// # Errors
    /// When none does, or its address cannot be used.
    pub fn connect_for(&self, session: &str) -> anyhow::Result<Client> {
        if let Some(named) = self.named() {
            return named;
        }
        let running = RunningServer::all(self.home);
        let run = running.iter().find(|server| server.session.as_deref() == Some(session));
        let server =
            running.iter().find(|server| server.role == ProcessRole::Server && server.is_reachable());
        self.client(run.or(server).context("no process serves the session any more")?)
    }

    /// Whether the user named a server.
    #[must_use]
    pub fn is_named(&self) -> bool {
        self.url.is_some() || self.socket.is_some()
    }

    fn named(&self) -> Option<anyhow::Result<Client>> {
        match (self.url, self.socket) {
            (Some(url), _) => {
                let address = Address::Url(url.trim_end_matches('/').to_owned());
                Some(self.token(None).and_then(|token| self.new_client(address, token)))
            }
            (None, Some(socket)) => Some(self.socket_client(socket)),
            (None, None) => None,
        }
    }

    /// Connects to a server. Its socket file is preferred to its port, because it needs no token.
    ///
    /// # Errors
    /// When it has no HTTP address, or its token cannot be read.
    pub fn client(&self, server: &RunningServer) -> anyhow::Result<Client> {
        match (&server.socket, &server.url) {
            (Some(socket), _) => self.socket_client(socket),
            (None, Some(url)) => {
                self.new_client(Address::Url(url.clone()), self.token(server.token_file.as_deref())?)
            }
            (None, None) => anyhow::bail!("process {} has no HTTP address", server.pid()),
        }
    }

    /// Connects to a socket file. It gets no token: its owner needs none, and nobody else may have it.
    fn socket_client(&self, socket: &Path) -> anyhow::Result<Client> {
        discovery::check_socket(socket)?;
        self.new_client(Address::Socket(socket.to_owned()), None)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a client has no other sessions that file access could block"
    )]
    fn new_client(&self, address: Address, token: Option<String>) -> anyhow::Result<Client> {
        let Some(file) = self.ca else { return Client::new(address, token, None) };
        let read = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        Client::new(address, token, Some(&read)).with_context(|| format!("cannot use {}", file.display()))
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a client has no other sessions that file access could block"
    )]
    fn token(&self, file: Option<&Path>) -> anyhow::Result<Option<String>> {
        match (self.token, self.token_file.or(file)) {
            (Some(token), _) => Ok(Some(token.to_owned())),
            (None, Some(file)) => {
                let read = std::fs::read_to_string(file);
                Ok(Some(read.with_context(|| format!("cannot read {}", file.display()))?.trim().to_owned()))
            }
            (None, None) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[tokio::test]
    async fn token_is_not_sent_to_a_socket_file() {
        let home = tempfile::tempdir().unwrap();
        let socket = home.path().join("server.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let serve = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.extend(byte);
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").unwrap();
            String::from_utf8(head).unwrap().to_lowercase()
        });
        let locator = ServerLocator {
            url: None,
            socket: Some(&socket),
            token_file: None,
            home: home.path(),
            ca: None,
            token: Some("secret-token"),
        };
        let reply: serde_json::Value = locator.connect().unwrap().get("/api/me").await.unwrap();
        assert_eq!(reply, serde_json::json!({}));
        let head = serve.join().unwrap();
        assert!(head.starts_with("get /api/me") && !head.contains("secret-token"), "{head}");
    }
}
