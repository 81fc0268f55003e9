//! `baton grants`: lists grants and rules from the store, and revokes grants through the server that has the session open, or
//! else in the store.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use baton_protocol::rules::RuleListEdit;
use baton_protocol::{Author, EventId, SessionId};
use baton_runtime::grants::{self, SessionGrants};
use baton_runtime::locations::Locations;
use baton_runtime::owner;
use baton_store::{Owner, Store, StoreError};
use serde_json::{Value, json};

use super::{NOTHING_TO_DO, load};
use crate::client::{RequestFailure, ServerLocator};
use crate::discovery::RunningServer;
use crate::{changes, sessions, setup, terminal};
use baton_args::{Cli, GrantsCommand, RevokeArgs};

pub(crate) fn grants(cli: &Cli, command: &GrantsCommand) -> anyhow::Result<ExitCode> {
    let config = load(cli)?;
    let home = &config.home.value;
    setup::run(async {
        let store = setup::store(&config, None)?;
        let locations = Locations::of(home, &store.shared());
        let done = match command {
            GrantsCommand::List { session, json } => {
                list(&*store, &locations, session.as_deref(), *json).await
            }
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
    for found in &of_sessions {
        for grant in &found.grants {
            let id = grant.id.map(|id| id.to_string()).unwrap_or_default();
            let what = serde_json::to_string(&grant.approval)?;
            let line = format!("{id}  session {}  {what}", found.session);
            terminal::line_with_aside(&line, &given(grant.by.as_ref(), grant.at));
        }
        for rule in found.rules.approved.iter().chain(found.rules.location.iter().flat_map(|l| &l.rules)) {
            let what = serde_json::to_string(rule)?;
            terminal::line(&format!("{:36}  session {}  rule {what}", "", found.session));
        }
    }
    for (key, grants) in &of_locations {
        for grant in grants {
            let what = serde_json::to_string(&grant.rule)?;
            let line = format!("{:36}  location {key}  {what}", "");
            terminal::line_with_aside(&line, &given(grant.by.as_ref(), grant.at));
        }
    }
    if of_sessions.is_empty() && of_locations.is_empty() {
        terminal::note("no grants: every request needs approval, unless a rule or a mode allows it");
    }
    Ok(ExitCode::SUCCESS)
}

fn given(by: Option<&Author>, at: Option<baton_protocol::Timestamp>) -> String {
    let by = by.map(|by| format!("by {by}"));
    let at = at.map(|at| at.to_string());
    by.into_iter().chain(at).collect::<Vec<_>>().join(", ")
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
