//! Started by an SDK: serve it on the pipe or port that it expects.

use std::process::ExitCode;

use anyhow::Context;
use baton_server::Server;
use tokio::net::TcpListener;

use crate::args::{Cli, ModelArgs};
use crate::config::{self, Environment};
use crate::{setup, terminal};

/// Serves until the SDK closes our input, or sends a signal.
pub(crate) fn serve(cli: &Cli) -> anyhow::Result<ExitCode> {
    let environment = Environment::of_process();
    let config =
        config::load(&cli.global, &ModelArgs::default(), cli.sdk.auth_token_env.as_deref(), &environment)?;
    setup::log(&config);
    let mut options = setup::options(&config, &environment)?;
    options.allow_all = cli.sdk.yolo;
    let stdio = cli.sdk.stdio;
    if stdio {
        // The pipe belongs to whoever started us: nobody else can reach it.
        options.connection_token = None;
    }
    setup::block_on(async {
        let store = setup::store(&config, options.crash.clone());
        let server = Server::new(options, store.clone());
        let serving = async {
            if stdio {
                return server.serve_stdio().await.context("standard input or output failed");
            }
            let listener = TcpListener::bind(("127.0.0.1", cli.sdk.port.unwrap_or(0)))
                .await
                .context("cannot listen on the port that the SDK asked for")?;
            terminal::line(&format!("CLI server listening on port {}", listener.local_addr()?.port()));
            server.serve_tcp(listener).await.context("the listener failed")
        };
        let served = tokio::select! {
            served = serving => served,
            () = setup::asked_to_stop() => Ok(()),
        };
        setup::stop(&server, &store).await;
        served.map(|()| ExitCode::SUCCESS)
    })
}
