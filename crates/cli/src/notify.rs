//! `baton notify`: tries the channels of notifications.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use baton_notify::Courier;
use baton_people::{Digest, People};
use baton_store::Store;
use serde_json::json;

use crate::args::{Cli, NotifyCommand, NotifyTestArgs};
use crate::config::{Config, Environment};
use crate::{operate, setup, terminal};

pub(crate) fn notify(cli: &Cli, command: &NotifyCommand) -> anyhow::Result<ExitCode> {
    match command {
        NotifyCommand::Test(args) => test(cli, args),
    }
}

/// Creates the courier of a store. `token` is the server's.
pub(crate) fn courier(
    config: &Config,
    environment: &Environment,
    store: Arc<dyn Store>,
    people: Arc<People>,
    token: Option<&str>,
) -> anyhow::Result<Arc<Courier>> {
    let options = config.notifications.options(environment)?;
    Ok(Arc::new(Courier::new(store, people, Digest::of(token.unwrap_or_default()), options)))
}

fn test(cli: &Cli, args: &NotifyTestArgs) -> anyhow::Result<ExitCode> {
    let config = operate::load(cli)?;
    let environment = Environment::of_process();
    let results = setup::run(async {
        let store = setup::store(&config, None)?;
        let people = People::new(store.shared());
        let token = token(&config, &environment);
        let courier = courier(&config, &environment, store.shared(), people, token.as_deref())?;
        let results = courier.test().await;
        store.close().await?;
        results.context("cannot read the receivers")
    })?;
    let has_failed = results.iter().any(|(_, problem)| problem.is_some());
    if args.json {
        let rows = results.iter().map(|(target, problem)| {
            json!({ "receiver": target.to_string(), "delivered": problem.is_none(), "problem": problem })
        });
        let shown = json!({ "receivers": rows.collect::<Vec<_>>() });
        terminal::json(&serde_json::to_string_pretty(&shown)?);
    } else if results.is_empty() {
        terminal::note(
            "no receivers: configure [notifications.webhook] or [notifications.telegram], or turn notifications on in a \
             browser that shows the page",
        );
    } else {
        for (target, problem) in &results {
            let said =
                problem.as_deref().map_or_else(|| "delivered".to_owned(), |why| format!("failed: {why}"));
            terminal::line(&format!("{:<30} {said}", target.to_string()));
        }
    }
    Ok(if has_failed || results.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Returns the server's token, on which subscriptions of the owner depend.
#[expect(clippy::disallowed_methods, reason = "runs on the main thread, before or after the server's work")]
fn token(config: &Config, environment: &Environment) -> Option<String> {
    let given = environment.get("COPILOT_CONNECTION_TOKEN").map(str::to_owned);
    let stored = || std::fs::read_to_string(config.home.value.join("token")).ok();
    given.or_else(stored).map(|token| token.trim().to_owned())
}
