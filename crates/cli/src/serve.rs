//! `baton serve`: for people who start the server themselves.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use baton_server::Server;
use tokio::net::TcpListener;

use crate::args::{Cli, ServeArgs};
use crate::config::{self, Environment};
use crate::{setup, terminal};

pub(crate) fn serve(cli: &Cli, args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let environment = Environment::of_process();
    let config = config::load(&cli.global, &args.model, None, &environment)?;
    setup::log(&config);
    let mut options = setup::options(&config, &environment)?;
    let token_file = args.token_file.clone().unwrap_or_else(|| config.home.value.join("token"));
    if args.insecure_no_token {
        options.connection_token = None;
    } else if options.connection_token.is_none() {
        options.connection_token = Some(token(&token_file)?);
    }
    setup::runtime()?.block_on(async {
        let store = setup::store(&config);
        let with_token = options.connection_token.is_some();
        let server = Server::new(options, store.clone());
        let listener = TcpListener::bind(("127.0.0.1", args.port))
            .await
            .with_context(|| format!("cannot listen on port {}; is another server running?", args.port))?;
        let port = listener.local_addr()?.port();
        terminal::line(&format!("listening on port {port}"));
        terminal::note(&format!("home   {}", config.home.value.display()));
        terminal::note(&format!("model  {}", config::describe(&config.endpoint.value)));
        match with_token {
            true => terminal::note(&format!(
                "token  in {} (COPILOT_CONNECTION_TOKEN for SDKs)",
                token_file.display()
            )),
            false => terminal::note("token  none: every user of this machine can connect"),
        }
        let served = tokio::select! {
            served = server.serve_tcp(listener) => served.context("the listener failed"),
            () = setup::asked_to_stop() => Ok(()),
        };
        terminal::note("stopping");
        setup::stop(&server, &store).await;
        served.map(|()| ExitCode::SUCCESS)
    })
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
