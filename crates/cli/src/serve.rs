//! `baton serve`: for people who start the server themselves.

use std::future::Future;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use baton_server::{HttpDoor, HttpListener, HttpOptions, Server};
use tokio::net::{TcpListener, UnixListener};

use crate::args::{Cli, ServeArgs};
use crate::config::{self, Environment};
use crate::{setup, terminal};

pub(crate) fn serve(cli: &Cli, args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let environment = Environment::of_process();
    let config = config::load(&cli.global, &args.model, None, &environment)?;
    setup::log(&config);
    let mut options = setup::options(&config, &environment)?;
    let token_file = args.token_file.clone().unwrap_or_else(|| config.home.value.join("token"));
    let elsewhere = args.http.is_some_and(|address| !address.ip().is_loopback());
    if args.insecure_no_token {
        anyhow::ensure!(
            !elsewhere,
            "refusing to serve other machines without a token; leave out --insecure-no-token"
        );
        options.connection_token = None;
    } else if options.connection_token.is_none() {
        options.connection_token = Some(token(&token_file)?);
    }
    setup::runtime()?.block_on(async {
        let store = setup::store(&config);
        let token = options.connection_token.clone();
        let server = Server::new(options, store.clone());
        let doors = Doors { args, server: &server, token: token.as_deref() };
        let serving = doors.open(|| {
            terminal::note(&format!("home   {}", config.home.value.display()));
            terminal::note(&format!("model  {}", config::describe(&config.endpoint.value)));
            match &token {
                Some(_) => terminal::note(&format!("token  in {}", token_file.display())),
                None => terminal::note("token  none: every user of this machine can connect"),
            }
        });
        let served = tokio::select! {
            served = serving => served,
            () = setup::asked_to_stop() => Ok(()),
        };
        terminal::note("stopping");
        setup::stop(&server, &store).await;
        if let Some(socket) = &args.socket {
            let _ = std::fs::remove_file(socket);
        }
        served.map(|()| ExitCode::SUCCESS)
    })
}

/// The ways into a server.
struct Doors<'a> {
    args: &'a ServeArgs,
    server: &'a Arc<Server>,
    token: Option<&'a str>,
}

impl Doors<'_> {
    /// Opens all that were asked for, says so, and serves them until one fails for good.
    async fn open(&self, ready: impl FnOnce()) -> anyhow::Result<()> {
        let door = HttpDoor::new(self.server, self.http_options());
        let mut serving: Vec<Pin<Box<dyn Future<Output = std::io::Result<()>> + Send>>> = Vec::new();
        // Without any address there is still one for SDKs.
        let any = self.args.http.is_some() || self.args.socket.is_some();
        if let Some(port) = self.args.port.or((!any).then_some(0)) {
            let listener = TcpListener::bind(("127.0.0.1", port))
                .await
                .with_context(|| format!("cannot listen on port {port}; is another server running?"))?;
            terminal::line(&format!("listening on port {}", listener.local_addr()?.port()));
            let server = self.server.clone();
            serving.push(Box::pin(async move { server.serve_tcp(listener).await }));
        }
        if let Some(address) = self.args.http {
            let listener =
                TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
            let url = format!("http://{}", listener.local_addr()?);
            terminal::line(&format!("listening on {url}"));
            if let Some(token) = self.token {
                terminal::note(&format!("link   {url}/?token={token}"));
            }
            let door = door.clone();
            serving.push(Box::pin(async move { door.serve(HttpListener::Tcp(listener)).await }));
        }
        if let Some(path) = &self.args.socket {
            let listener = socket(path).with_context(|| format!("cannot listen on {}", path.display()))?;
            terminal::line(&format!("listening on unix://{}", path.display()));
            let door = door.clone();
            serving.push(Box::pin(async move { door.serve(HttpListener::Socket(listener)).await }));
        }
        ready();
        let (ended, ..) = futures_util::future::select_all(serving).await;
        ended.context("a listener failed")
    }

    fn http_options(&self) -> HttpOptions {
        HttpOptions {
            token: self.token.map(str::to_owned),
            hosts: self.args.allow_host.clone(),
            origins: self.args.allow_origin.clone(),
            ..HttpOptions::default()
        }
    }
}

/// A socket file that only its owner can open. One that a dead server left behind is replaced; a living one is not.
fn socket(path: &Path) -> std::io::Result<UnixListener> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    if path.exists() && std::os::unix::net::UnixStream::connect(path).is_err() {
        std::fs::remove_file(path)?;
    }
    // Made private before anybody can connect: the mask applies to the file that is about to be made.
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    bound
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
            std::fs::create_dir_all(parent)?;
        }
        let mut out = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
        writeln!(out, "{token}")
    };
    write().with_context(|| format!("cannot write a token to {}", file.display()))?;
    Ok(token)
}
