//! `baton people` and `baton link`: who may use the server, and one-time links to its page. Both write to the store, which a
//! running server reads again within a fraction of a second.

use std::process::ExitCode;
use std::time::Duration;

use baton_people::{NewSecret, People, PeopleDirectory, PeopleError};
use serde_json::json;

use crate::args::{Cli, LinkArgs, PeopleCommand};
use crate::config::Config;
use crate::discovery::{self, ProcessRole, RunningServer};
use crate::{changes, operate, setup, share, terminal};

pub(crate) fn people(cli: &Cli, command: &PeopleCommand) -> anyhow::Result<ExitCode> {
    let config = operate::load(cli)?;
    with_people(&config, async |people| match command {
        PeopleCommand::Add { name, role, expires, json } => {
            let token = people.add(name, *role, lasts(*expires)).await?;
            show_token(name.as_str(), role.name(), &token, *json)
        }
        PeopleCommand::Token { name, expires, json } => {
            let token = people.renew_token(name, lasts(*expires)).await?;
            let directory = people.directory().await?;
            let role =
                directory.people().iter().find(|person| person.name == *name).map(|person| person.role);
            show_token(name.as_str(), role.map_or("", |role| role.name()), &token, *json)
        }
        PeopleCommand::Role { name, role, json } => {
            people.change_role(name, *role).await?;
            let change = json!({ "name": name, "role": role });
            changes::report(*json, &format!("{name} is {role} now"), &change);
            Ok(())
        }
        PeopleCommand::Remove { name, json } => {
            people.remove(name).await?;
            changes::report(*json, &format!("removed {name}"), &json!({ "removed": name }));
            Ok(())
        }
        PeopleCommand::List(args) => list(&*people.directory().await?, args.json),
    })
}

fn lasts(days: Option<u32>) -> Option<Duration> {
    days.map(|days| Duration::from_secs(u64::from(days) * 24 * 3600))
}

/// Prints the token alone, for scripts; or with its person, as JSON.
fn show_token(name: &str, role: &str, token: &NewSecret, json: bool) -> anyhow::Result<()> {
    if json {
        terminal::json_line(&json!({ "name": name, "role": role, "token": token.reveal() }).to_string());
    } else {
        terminal::line(token.reveal());
        terminal::note(&format!("token of {name} ({role}); it is not shown again"));
    }
    Ok(())
}

fn list(directory: &PeopleDirectory, json: bool) -> anyhow::Result<()> {
    let people = directory.people();
    if json {
        let people = people.iter().map(|person| {
            json!({ "name": person.name, "role": person.role, "added": person.added, "expires": person.expires })
        });
        let people: Vec<_> = people.collect();
        terminal::json(&serde_json::to_string_pretty(&json!({ "people": people }))?);
    } else if people.is_empty() {
        terminal::note("no people yet; add one with `baton people add NAME --role ROLE`");
    } else {
        let rows = people.iter().map(|person| {
            let expires = person.expires.map(|time| time.to_string()).unwrap_or_default();
            vec![person.name.to_string(), person.role.to_string(), expires]
        });
        let rows: Vec<Vec<String>> = rows.collect();
        terminal::table(&["NAME", "ROLE", "EXPIRES"], &rows);
    }
    Ok(())
}

pub(crate) fn link(cli: &Cli, args: &LinkArgs) -> anyhow::Result<ExitCode> {
    let config = operate::load(cli)?;
    discovery::check_user(&config.home.value)?;
    let servers = RunningServer::all(&config.home.value).into_iter();
    let mut pages =
        servers.filter(|server| server.role == ProcessRole::Server).filter_map(|server| server.page);
    let Some(base) = pages.next() else {
        terminal::error(
            "no server of this home serves the page; start one with `baton serve --share` or `baton serve --http ADDR:PORT`",
        );
        return Ok(ExitCode::from(operate::NOTHING_TO_DO));
    };
    with_people(&config, async |people| {
        let code = people.link(args.person.as_ref()).await?;
        let link = share::link(&base, &code);
        match args.json {
            true => terminal::json_line(&json!({ "link": link }).to_string()),
            false => terminal::line(&link),
        }
        if terminal::output_is_terminal() && !args.json {
            share::show_code(&link);
        }
        Ok(())
    })
}

fn with_people(
    config: &Config,
    work: impl AsyncFnOnce(&People) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    setup::run(async {
        let store = setup::store(config, None)?;
        let done = work(&People::new(store.shared())).await;
        store.close().await?;
        let is_unknown =
            |error: &anyhow::Error| matches!(error.downcast_ref(), Some(PeopleError::Unknown(_)));
        operate::or_not_found(done.map(|()| ExitCode::SUCCESS), is_unknown)
    })
}
