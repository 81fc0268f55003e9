//! The server as SDKs start it: on standard input and output, or on a port.

use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;

use anyhow::Context;
use baton_rpc::RpcDoor;
use tokio::net::TcpListener;

use crate::args::{Cli, ModelArgs, PeerArgs};
use crate::config::{self, Config, Environment};
use crate::{cluster, file_limit, logging, setup, terminal};

/// Serves until the SDK closes standard input or sends a signal.
pub(crate) fn serve(cli: &Cli) -> anyhow::Result<ExitCode> {
    let environment = Environment::of_process();
    let config =
        config::load(&cli.global, &ModelArgs::default(), cli.sdk.auth_token_env.as_deref(), &environment)?;
    logging::start(&config);
    logging::report(&config, serve_sdk(cli, &config, &environment))
}

fn serve_sdk(cli: &Cli, config: &Config, environment: &Environment) -> anyhow::Result<ExitCode> {
    let mut options = setup::options(config, environment)?;
    options.allow_all = cli.sdk.yolo;
    options.plugin_directories = cli.sdk.plugin_dir.iter().map(|path| options.cwd.join(path)).collect();
    let mut rpc = setup::rpc_options(config, environment);
    let stdio = cli.sdk.stdio;
    if stdio {
        // Only the process that started this one can reach the pipe.
        rpc.token = None;
    }
    let host = cli.sdk.host.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    check_host(host, rpc.token.as_deref())?;
    options.secrets.extend(rpc.token.clone());
    file_limit::share(&mut rpc.limits, None);
    setup::run(async {
        let store = setup::store(config, options.crash.clone())?;
        let server = setup::server(options, &store);
        cluster::enter(&server, config, environment, &PeerArgs::default()).await?;
        let door = RpcDoor::new(&server, rpc);
        let serving = async {
            if stdio {
                return door
                    .serve_stdio()
                    .await
                    .context("cannot read standard input or write standard output");
            }
            let listener = TcpListener::bind((host, cli.sdk.port.unwrap_or(0)))
                .await
                .with_context(|| cannot_listen(host, cli.sdk.port))?;
            terminal::line(&format!("CLI server listening on port {}", listener.local_addr()?.port()));
            door.serve_tcp(listener).await.context("the listener failed")
        };
        let served = tokio::select! {
            served = serving => served,
            () = setup::stop_signal() => Ok(()),
        };
        setup::stop(&server, &store).await;
        served.map(|()| ExitCode::SUCCESS)
    })
}

/// Refuses an address that other machines can reach without a token. The peers of such a server are not processes whose user
/// the kernel can name.
fn check_host(host: IpAddr, token: Option<&str>) -> anyhow::Result<()> {
    anyhow::ensure!(
        host.to_canonical().is_loopback() || token.is_some_and(|token| !token.is_empty()),
        "refusing to listen on {host} without a token: set COPILOT_CONNECTION_TOKEN to a secret, and give it to the clients as \
         their connection token; or leave out --host to serve your own processes on this machine only"
    );
    Ok(())
}

fn cannot_listen(host: IpAddr, port: Option<u16>) -> String {
    match port {
        Some(port) => format!("cannot listen on {host} port {port}; is another server running?"),
        None => format!("cannot listen on {host}"),
    }
}
