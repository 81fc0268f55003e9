//! Renaming a session, wherever it lives.

use std::process::ExitCode;

use baton_protocol::Author;
use serde_json::{Value, json};

use super::find;
use crate::client::{Client, ServerLocator, user_of_terminal};
use crate::config::{Config, Environment};
use crate::discovery::{ProcessRole, RunningServer};
use crate::{changes, setup};

/// Longest name, in characters.
const MAX_NAME: usize = 200;

pub(super) async fn rename(
    store: &setup::SessionStore,
    config: &Config,
    environment: &Environment,
    (id, words): (&str, &[String]),
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let name = name(words)?;
    let session = find(&**store, id).await?;
    match server_of(config, environment, session.as_str())? {
        Some(client) => {
            let path = format!("/api/sessions/{session}");
            client.patch::<Value>(&path, &json!({ "name": name })).await?;
        }
        None => {
            let runtime = setup::server(setup::options(config, environment)?, store);
            let by = Author::terminal(&user_of_terminal());
            let renamed = runtime.rename(&session, &name, by).await;
            runtime.stop().await;
            renamed?;
        }
    }
    changes::report(
        as_json,
        &format!("renamed {session} to \"{name}\""),
        &json!({ "renamed": session, "name": name }),
    );
    Ok(ExitCode::SUCCESS)
}

/// The name: one line of limited length.
fn name(words: &[String]) -> anyhow::Result<String> {
    let name: String = words.join(" ").chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let name = name.trim();
    anyhow::ensure!(!name.is_empty(), "the name is empty");
    anyhow::ensure!(name.chars().count() <= MAX_NAME, "the name is longer than {MAX_NAME} characters");
    Ok(name.to_owned())
}

/// The process that serves a session: the `baton run` that holds it, or the server of the home.
fn server_of(config: &Config, environment: &Environment, session: &str) -> anyhow::Result<Option<Client>> {
    let home = &config.home.value;
    let token = environment.get("BATON_TOKEN");
    let locator = ServerLocator { url: None, socket: None, token_file: None, ca: None, home, token };
    let running = RunningServer::all(home);
    let holds = |server: &&RunningServer| server.session.as_deref() == Some(session);
    let is_server = |server: &&RunningServer| server.role == ProcessRole::Server && server.is_reachable();
    let server = running.iter().find(holds).or_else(|| running.iter().find(is_server));
    server.map(|server| locator.client(server)).transpose()
}
