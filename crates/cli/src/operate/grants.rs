//! `baton grants`: lists grants and rules from the store, and revokes grants through the server that has the session open, or
//! else in the store.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use baton_files::locations::{LocationGrant, Locations};
use baton_history::grants::{self, SessionGrants};
use baton_history::owner;
use baton_protocol::rules::RuleListEdit;
use baton_protocol::{Author, EventId, SessionId, Timestamp};
use baton_store::{Owner, Store, StoreError};
use serde_json::{Value, json};

use super::{NOTHING_TO_DO, grant_words, load};
use crate::args::{Cli, GrantsCommand, RevokeArgs};
use crate::client::{RequestFailure, ServerLocator};
use crate::discovery::RunningServer;
use crate::rows::{self, List};
use crate::sessions::LocalTime;
use crate::{changes, sessions, setup, terminal};

/// Fewest characters of an id that are shown.
const SHORT_ID: usize = 8;

pub(crate) fn grants(cli: &Cli, command: &GrantsCommand) -> anyhow::Result<ExitCode> {
    let config = load(cli)?;
    let home = &config.home.value;
    setup::run(async {
        let store = setup::store(&config, None)?;
        let locations = Locations::of(home, &store.shared());
        let done = match command {
            GrantsCommand::List(args) => list(&*store, &locations, args.session.as_deref(), args.json).await,
            GrantsCommand::Revoke(args) => revoke(&*store, &locations, home, args).await,
        };
        store.close().await?;
        done
    })
}

async fn list(
    store: &dyn Store,
    locations: &Locations,
    session: Option<&str>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let only = match session {
        Some(prefix) => Some(sessions::find(store, prefix).await?),
        None => None,
    };
    let of_sessions = grants::list(store, only.as_ref()).await?;
    let of_locations = locations.all().await.map_err(anyhow::Error::msg)?;
    let of_locations = if only.is_some() { Default::default() } else { of_locations };
    if json {
        let sessions: Vec<Value> = of_sessions
            .iter()
            .map(|found| json!({ "session": found.session, "grants": found.grants, "rules": found.rules }))
            .collect();
        let locations: Vec<Value> =
            of_locations.iter().map(|(key, grants)| json!({ "location": key, "grants": grants })).collect();
        terminal::json(&serde_json::to_string_pretty(
            &json!({ "sessions": sessions, "locations": locations }),
        )?);
        return Ok(ExitCode::SUCCESS);
    }
    if of_sessions.is_empty() && of_locations.is_empty() {
        terminal::note("no grants: every request needs approval, unless a rule or a mode allows it");
        return Ok(ExitCode::SUCCESS);
    }
    let rows = rows(&of_sessions, &of_locations, terminal::output_is_terminal());
    List {
        header: &["GRANT", "WHERE", "GIVEN", "BY", "ALLOWS"],
        rows: &rows,
        notes: &[],
        heading: 3,
        flexible: &[],
    }
    .print_whole();
    Ok(ExitCode::SUCCESS)
}

/// Returns the rows of the list: with short ids and local times for people at a terminal, and exact ones otherwise.
fn rows(
    of_sessions: &[SessionGrants],
    of_locations: &BTreeMap<String, Vec<LocationGrant>>,
    is_terminal: bool,
) -> Vec<Vec<String>> {
    let grants = || of_sessions.iter().flat_map(|found| found.grants.iter());
    let ids: Vec<String> = grants().filter_map(|grant| grant.id).map(|id| id.to_string()).collect();
    let sessions = of_sessions.iter().map(|found| found.session.as_str());
    let (of_ids, of_names) = match is_terminal {
        true => (
            rows::unique_length(ids.iter().map(String::as_str), SHORT_ID),
            rows::unique_length(sessions, SHORT_ID),
        ),
        false => (usize::MAX, usize::MAX),
    };
    let local = is_terminal.then(LocalTime::of_system);
    let row = |id: String, place: String, at: Option<Timestamp>, by: Option<&Author>, allows: String| {
        let time = |at: Timestamp| local.as_ref().map_or_else(|| at.to_string(), |local| local.format(at));
        let by = by.map_or_else(|| "-".to_owned(), ToString::to_string);
        vec![id, place, at.map_or_else(|| "-".to_owned(), time), by, allows]
    };
    let mut rows = Vec::new();
    for found in of_sessions {
        let place =
            || format!("session {}", found.session.as_str().chars().take(of_names).collect::<String>());
        for grant in &found.grants {
            let id = grant.id.map(|id| id.to_string().chars().take(of_ids).collect()).unwrap_or_default();
            let words = grant_words::grant(&grant.approval);
            rows.push(row(id, place(), grant.at, grant.by.as_ref(), words));
        }
        let rules = &found.rules;
        let allowed = rules.approved.iter().chain(rules.location.iter().flat_map(|location| &location.rules));
        for rule in allowed {
            rows.push(row("rule".into(), place(), None, None, grant_words::rule(rule)));
        }
    }
    for (key, grants) in of_locations {
        for grant in grants {
            let place = if is_terminal { sessions::with_tilde(key) } else { key.clone() };
            let words = grant_words::rule(&grant.rule);
            rows.push(row("location".into(), place, grant.at, grant.by.as_ref(), words));
        }
    }
    rows
}

async fn revoke(
    store: &dyn Store,
    locations: &Locations,
    home: &Path,
    args: &RevokeArgs,
) -> anyhow::Result<ExitCode> {
    let (revoked, what) = match (&args.grant, &args.session, &args.location) {
        (_, _, Some(location)) => (revoke_at(locations, location).await?, json!({ "location": location })),
        (_, Some(session), _) => {
            let session = sessions::find(store, session).await?;
            (revoke_in(store, home, &session, None).await?, json!({ "session": session }))
        }
        (Some(prefix), ..) => match find(&grants::list(store, None).await?, prefix)? {
            Some((session, grant)) => {
                let what = json!({ "session": session, "grant": grant });
                (revoke_in(store, home, &session, Some(grant)).await?, what)
            }
            None => (false, Value::Null),
        },
        (None, None, None) => (false, Value::Null),
    };
    if revoked {
        changes::report(args.json, "revoked", &json!({ "revoked": what }));
        return Ok(ExitCode::SUCCESS);
    }
    changes::report(args.json, "no such grant; `baton grants list` shows all", &json!({ "revoked": null }));
    Ok(ExitCode::from(NOTHING_TO_DO))
}

/// Finds a grant by a prefix of its id.
fn find(all: &[SessionGrants], prefix: &str) -> anyhow::Result<Option<(SessionId, EventId)>> {
    let grants =
        all.iter().flat_map(|found| found.grants.iter().map(|grant| (found.session.clone(), grant.id)));
    let ids = grants.filter_map(|(session, id)| Some((session, id?)));
    let mut matching = ids.filter(|(_, id)| id.to_string().starts_with(prefix));
    let first = matching.next();
    anyhow::ensure!(matching.next().is_none(), "{prefix:?} matches several grants; give more of the id");
    Ok(first)
}

async fn revoke_at(locations: &Locations, location: &str) -> anyhow::Result<bool> {
    let remove = locations.rules(location).await.map_err(anyhow::Error::msg)?;
    if remove.is_empty() {
        return Ok(false);
    }
    let edit = RuleListEdit { remove, ..RuleListEdit::default() };
    locations.edit(location.to_owned(), edit, Author::operator()).await.map_err(anyhow::Error::msg)?;
    Ok(true)
}

/// Revokes in the store, or has the server do it that has the session open.
async fn revoke_in(
    store: &dyn Store,
    home: &Path,
    session: &SessionId,
    grant: Option<EventId>,
) -> anyhow::Result<bool> {
    match grants::revoke(store, session, grant, &owner::this_process()).await {
        Err(StoreError::Held { holder, .. }) => revoke_over_http(home, &holder.owner, session, grant).await,
        other => Ok(other?),
    }
}

async fn revoke_over_http(
    home: &Path,
    holder: &Owner,
    session: &SessionId,
    grant: Option<EventId>,
) -> anyhow::Result<bool> {
    let servers = RunningServer::all(home);
    let server =
        servers.iter().find(|server| server.owner.pid == holder.pid && server.owner.host == holder.host);
    let server = server.with_context(|| {
        let (pid, host) = (holder.pid, &holder.host);
        format!(
            "session {session} is open in process {pid} on {host}, which has no HTTP address; revoke it there"
        )
    })?;
    let client = ServerLocator { url: None, socket: None, token_file: None, ca: None, home, token: None }
        .client(server)?;
    let grant = grant.map(|grant| format!("/{grant}")).unwrap_or_default();
    match client.delete(&format!("/api/sessions/{session}/grants{grant}")).await {
        Ok(()) => Ok(true),
        Err(RequestFailure::Refused { code, .. }) if code == "not_found" => Ok(false),
        Err(error) => Err(error.into()),
    }
}
