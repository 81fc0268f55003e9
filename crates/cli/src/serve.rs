//! `baton serve`: for people who start the server themselves.
#![expect(clippy::disallowed_methods, reason = "runs on the main thread, before or after the server's work")]

use std::future::Future;
use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use baton_server::{HttpDoor, HttpListener, HttpOptions, Server, TlsIdentity};
use tokio::net::{TcpListener, UnixListener};

use crate::args::{Cli, ServeArgs};
use crate::beacon::Beacon;
use crate::config::{self, Config, Environment};
use crate::{descriptors, setup, terminal};

pub(crate) fn serve(cli: &Cli, args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let environment = Environment::of_process();
    let config = config::load(&cli.global, &args.model, None, &environment)?;
    setup::log(&config);
    let mut options = setup::options(&config, &environment)?;
    let file = args.token_file.clone().unwrap_or_else(|| config.home.value.join("token"));
    // A token that whoever started us has given is nowhere but with them.
    let token_file = options.connection_token.is_none().then_some(&*file);
    options.connection_token = admission(args, options.connection_token.take(), &file)?;
    let workspaces = config.workspaces.value.clone();
    let mut http = config.http.options(args, options.connection_token.as_deref(), workspaces)?;
    let tls = config.http.tls(args)?;
    descriptors::share(&mut options.rpc, Some(&mut http));
    setup::run(async {
        let store = setup::store(&config, options.crash.clone());
        let server = setup::server(options, &store);
        let asked_to_stop = setup::asked_to_stop();
        let doors = Doors::open(args, &config, &server, http, tls).await?;
        let lit = doors.beacon(token_file).light(&config.home.value)?;
        doors.announce(&config, token_file);
        let socket = doors.socket.clone();
        let served = tokio::select! {
            served = doors.serve() => served,
            () = asked_to_stop => Ok(()),
        };
        terminal::note("stopping");
        drop(lit);
        if let Some(socket) = socket {
            let _ = std::fs::remove_file(socket);
        }
        setup::stop(&server, &store).await;
        served.map(|()| ExitCode::SUCCESS)
    })
}

/// The token that clients must bring: the one that is given, else the one in the file. None only where that was asked for
/// and nobody but users of this machine can come.
fn admission(args: &ServeArgs, given: Option<String>, file: &Path) -> anyhow::Result<Option<String>> {
    let elsewhere = args.http.is_some_and(|address| !address.ip().is_loopback());
    match args.insecure_no_token {
        true if elsewhere => {
            anyhow::bail!("refusing to serve other machines without a token; leave out --insecure-no-token")
        }
        true => Ok(None),
        false => given.map_or_else(|| token(file).map(Some), |given| Ok(Some(given))),
    }
}

type Serving = Pin<Box<dyn Future<Output = std::io::Result<()>> + Send>>;

/// The ways into a server, open.
struct Doors {
    serving: Vec<Serving>,
    /// What is printed for each.
    lines: Vec<String>,
    token: Option<String>,
    url: Option<String>,
    socket: Option<PathBuf>,
}

impl Doors {
    /// Opens all that were asked for. Without any address there is one for SDKs, and a socket file for `baton attach`.
    async fn open(
        args: &ServeArgs,
        config: &Config,
        server: &Arc<Server>,
        http: HttpOptions,
        tls: Option<TlsIdentity>,
    ) -> anyhow::Result<Self> {
        let token = http.token.clone();
        let door = HttpDoor::new(server, http);
        let mut doors = Self { serving: Vec::new(), lines: Vec::new(), token, url: None, socket: None };
        let none_asked_for = args.port.is_none() && args.http.is_none() && args.socket.is_none();
        if let Some(port) = args.port.or(none_asked_for.then_some(0)) {
            doors.open_rpc(server, port).await?;
        }
        if let Some(address) = args.http {
            doors.open_http(&door, address, tls).await?;
        }
        match &args.socket {
            Some(path) => doors.open_socket(&door, path)?,
            None if none_asked_for => {
                // A second server of the same home, or a home with a very long name, does without.
                if let Err(error) = doors.open_socket(&door, &config.home.value.join("baton.sock")) {
                    tracing::info!("no socket file: {error:#}");
                }
            }
            None => {}
        }
        Ok(doors)
    }

    async fn open_rpc(&mut self, server: &Arc<Server>, port: u16) -> anyhow::Result<()> {
        let listener = TcpListener::bind(("127.0.0.1", port))
            .await
            .with_context(|| format!("cannot listen on port {port}; is another server running?"))?;
        self.lines.push(format!("listening on port {}", listener.local_addr()?.port()));
        let server = server.clone();
        self.serving.push(Box::pin(async move { server.serve_tcp(listener).await }));
        Ok(())
    }

    async fn open_http(
        &mut self,
        door: &HttpDoor,
        address: std::net::SocketAddr,
        tls: Option<TlsIdentity>,
    ) -> anyhow::Result<()> {
        let listener =
            TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr()?);
        self.lines.push(format!("listening on {url}"));
        self.url = Some(url);
        let listener = match tls {
            Some(identity) => HttpListener::Tls(listener, identity),
            None => HttpListener::Tcp(listener),
        };
        self.serve_http(door, listener);
        Ok(())
    }

    fn open_socket(&mut self, door: &HttpDoor, path: &Path) -> anyhow::Result<()> {
        let listener = socket(path).with_context(|| format!("cannot listen on {}", path.display()))?;
        let path = std::path::absolute(path)?;
        self.lines.push(format!("listening on unix://{}", path.display()));
        self.socket = Some(path);
        self.serve_http(door, HttpListener::Socket(listener));
        Ok(())
    }

    fn serve_http(&mut self, door: &HttpDoor, listener: HttpListener) {
        let door = door.clone();
        self.serving.push(Box::pin(async move { door.serve(listener).await }));
    }

    fn beacon(&self, token_file: Option<&Path>) -> Beacon {
        let token_file = token_file.filter(|_| self.token.is_some()).map(Path::to_owned);
        Beacon::new(self.url.clone(), self.socket.clone(), token_file)
    }

    fn announce(&self, config: &Config, token_file: Option<&Path>) {
        self.lines.iter().for_each(|line| terminal::line(line));
        terminal::note(&format!("home   {}", config.home.value.display()));
        terminal::note(&format!("model  {}", config::describe(&config.endpoint.value)));
        match (&self.token, token_file) {
            (Some(_), Some(file)) => terminal::note(&format!("token  in {}", file.display())),
            (Some(_), None) => terminal::note("token  the one in COPILOT_CONNECTION_TOKEN"),
            (None, _) => terminal::note(
                "token  none: every user of this machine can use the HTTP port; the JSON-RPC port serves your own \
                 processes only",
            ),
        }
        if let (Some(url), Some(token)) = (&self.url, &self.token) {
            let url = url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:");
            // Whoever can read a log must not be able to log in.
            if !terminal::secret_note(&format!("link   {url}/?token={token}")) {
                terminal::note(&format!("link   {url}/?token=TOKEN, with the token in the place of TOKEN"));
            }
        }
    }

    /// Serves until one fails for good.
    async fn serve(self) -> anyhow::Result<()> {
        let (ended, ..) = futures_util::future::select_all(self.serving).await;
        ended.context("a listener failed")
    }
}

/// A socket file that only its owner can open. One that a dead server left behind is replaced; a living one is not, and
/// neither is anything else of that name.
fn socket(path: &Path) -> anyhow::Result<UnixListener> {
    if let Some(parent) = path.parent() {
        baton_private::create_dir_all(parent)?;
    }
    if let Ok(found) = path.symlink_metadata() {
        anyhow::ensure!(found.file_type().is_socket(), "there is something else of that name");
        anyhow::ensure!(
            std::os::unix::net::UnixStream::connect(path).is_err(),
            "another server listens there"
        );
        std::fs::remove_file(path)?;
    }
    // Made private before anybody can connect: the mask applies to the file that is about to be made.
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    Ok(bound?)
}

/// The token in the file; a new one if there is no file. Only its owner can read it.
fn token(file: &Path) -> anyhow::Result<String> {
    match std::fs::read_to_string(file) {
        Ok(text) if !text.trim().is_empty() => return Ok(text.trim().to_owned()),
        Ok(_) => anyhow::bail!("{} is empty: write a token into it, or delete it", file.display()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
    let token = baton_protocol::SessionId::random().to_string();
    let write = || {
        if let Some(parent) = file.parent() {
            baton_private::create_dir_all(parent)?;
        }
        let mut out = baton_private::create_new(file)?;
        writeln!(out, "{token}")
    };
    write().with_context(|| format!("cannot write a token to {}", file.display()))?;
    Ok(token)
}
