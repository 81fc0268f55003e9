//! `baton mcp`: lists, adds, removes, tests and trusts MCP servers, logs in to them, and prints their logs.
//!
//! Servers outside of sessions are files, so these commands work with and without a running server.
#![expect(clippy::disallowed_methods, reason = "runs on the main thread, before or after the server's work")]

mod edit;
mod list;
mod live;
mod login;
mod project;
mod proxy;
mod test;
mod trust;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use crate::args::{Cli, McpCommand, ModelArgs};
use anyhow::Context;
use baton_addons::mcp::{Reach, ServerCatalogue, ServerConfig};

use crate::client::NotFound;
use crate::config::{self, Config, Environment};
use crate::{logging, operate, setup, terminal};

pub(crate) use self::list::unusable_programs;

/// Exit code for a server that does not exist.
const NO_SUCH_SERVER: u8 = 3;

/// State that all subcommands use.
struct Surroundings {
    config: Config,
    environment: Environment,
    catalogue: ServerCatalogue,
    cwd: PathBuf,
}

pub(crate) fn mcp(cli: &Cli, command: &McpCommand) -> anyhow::Result<ExitCode> {
    if let McpCommand::Proxy { socket } = command {
        return proxy::proxy(socket);
    }
    let environment = Environment::of_process();
    let config = config::load(&cli.global, &ModelArgs::default(), None, &environment)?;
    logging::start(&config);
    let catalogue = ServerCatalogue::new(&config.home.value, config.mcp_servers.clone());
    let cwd = std::env::current_dir().context("cannot read the current directory")?;
    let around = Surroundings { config, environment, catalogue, cwd };
    let done = setup::run(async {
        match command {
            McpCommand::List(args) => match &args.session {
                None => list::list(&around, args.json).await,
                Some(session) => live::list(&around, session, args.json).await,
            },
            McpCommand::Add(args) => edit::add(&around, args).await,
            McpCommand::Remove { name, scope, json } => edit::remove(&around, name, *scope, *json).await,
            McpCommand::Enable { names, json } => edit::enable(&around, names, true, *json).await,
            McpCommand::Disable { names, json } => edit::enable(&around, names, false, *json).await,
            McpCommand::Test { name, timeout, json } => test::test(&around, name, *timeout, *json).await,
            McpCommand::Login { name, no_browser, port, timeout, force, json } => {
                let how = login::How {
                    may_open_browser: !no_browser,
                    port: *port,
                    limit: Duration::from_secs((*timeout).max(1)),
                    again: *force,
                    as_json: *json,
                };
                login::login(&around, name, &how).await
            }
            McpCommand::Logout { name, json } => login::logout(&around, name, *json).await,
            McpCommand::Proxy { socket } => proxy::proxy(socket),
            McpCommand::Trust { yes, json } => trust::trust(&around, *yes, *json).await,
            McpCommand::Logs { name, session, json } => {
                live::logs(&around, name, session.as_deref(), *json).await
            }
        }
    });
    operate::or_not_found(done, |error| error.is::<NotFound>())
}

/// Says that there is no such server, and which ones there are.
async fn no_such_server(around: &Surroundings, name: &str) -> ExitCode {
    let known: Vec<String> = around.catalogue.entries(Some(&around.cwd)).await.into_keys().collect();
    let hint = match known.is_empty() {
        true => "none is configured; add one with `baton mcp add`".to_owned(),
        false => format!("configured: {}", known.join(", ")),
    };
    terminal::error(&format!("no MCP server {name:?} ({hint})"));
    ExitCode::from(NO_SUCH_SERVER)
}

/// Describes how a server is reached, in one line. Values of variables and headers may be secrets.
fn described(config: &ServerConfig) -> String {
    match &config.reach {
        Reach::Local(local) => {
            let words = std::iter::once(&local.command).chain(&local.args);
            words.map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
        }
        Reach::Remote(remote) => remote.url.to_string(),
    }
}

fn quoted(word: &str) -> String {
    if word.is_empty() || word.contains(char::is_whitespace) { format!("{word:?}") } else { word.to_owned() }
}
