//! Sessions as a collection: lists, look-ups, sizes.

use std::collections::BTreeMap;

use baton_protocol::event::WorkContext;
use baton_protocol::{SessionId, Timestamp};
use baton_store::Summary;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Call, Handling};
use crate::rpc::errors;
use crate::{metadata, owner};

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct List {
    filter: Option<Filter>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Filter {
    cwd: Option<String>,
    git_root: Option<String>,
    repository: Option<String>,
    branch: Option<String>,
}

impl Filter {
    fn matches(&self, context: &WorkContext) -> bool {
        let wanted = |wish: &Option<String>, is: Option<&String>| wish.is_none() || wish.as_ref() == is;
        wanted(&self.cwd, Some(&context.cwd))
            && wanted(&self.git_root, context.git_root.as_ref())
            && wanted(&self.repository, context.repository.as_ref())
            && wanted(&self.branch, context.branch.as_ref())
    }
}

/// All sessions, last changed first. A `metadataLimit` says how many are to be described in full; here all are, because
/// descriptions are stored beside the sessions and cost nothing more.
pub(super) fn list(call: &Call<'_>) -> Handling {
    let params: List = call.parse()?;
    summaries(call, move |all| {
        let filter = params.filter.unwrap_or_default();
        let matching = all.iter().map(metadata::of);
        let matching = matching.filter(|m| filter.matches(&m.context.clone().unwrap_or_default()));
        let sessions: Vec<_> = matching.collect();
        json!({ "sessions": sessions })
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnyId {
    /// Not checked: an id that cannot exist is an id that does not exist.
    session_id: String,
}

/// What is known about one session, whether or not it is in memory.
pub(super) fn metadata(call: &Call<'_>) -> Handling {
    let Ok(id) = call.parse::<AnyId>()?.session_id.parse::<SessionId>() else { return call.now(json!({})) };
    let (store, method) = (call.connection.server.store.clone(), call.method.to_owned());
    call.later(async move {
        let summary = store.summary(&id).await.map_err(|error| errors::failed(&method, error))?;
        Ok(summary.map_or_else(|| json!({}), |summary| json!({ "session": metadata::of(&summary) })))
    })
}

pub(super) fn last_id(call: &Call<'_>) -> Handling {
    summaries(call, |all| all.first().map_or_else(|| json!({}), |last| json!({ "sessionId": last.session })))
}

#[derive(Deserialize)]
struct Prefix {
    prefix: String,
}

/// The one session whose name begins so; none if there are several.
pub(super) fn find_by_prefix(call: &Call<'_>) -> Handling {
    let Prefix { prefix } = call.parse()?;
    summaries(call, move |all| {
        only_with_prefix(all, &prefix).map_or_else(|| json!({}), |id| json!({ "sessionId": id }))
    })
}

pub(super) fn only_with_prefix(all: &[Summary], prefix: &str) -> Option<SessionId> {
    let mut found = all.iter().filter(|summary| summary.session.as_str().starts_with(prefix));
    match (found.next(), found.next()) {
        (Some(only), None) => Some(only.session.clone()),
        _ => None,
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LastForContext {
    context: Option<WorkContext>,
}

/// The last session in the same place: the same directory, else the same repository.
pub(super) fn last_for_context(call: &Call<'_>) -> Handling {
    let wanted = call.parse::<LastForContext>()?.context.unwrap_or_default();
    summaries(call, move |all| {
        last_in(all, &wanted).map_or_else(|| json!({}), |id| json!({ "sessionId": id }))
    })
}

/// The last session in a place; the last of all, if there is none.
pub(super) fn last_in(all: &[Summary], wanted: &WorkContext) -> Option<SessionId> {
    let same = |test: &dyn Fn(&WorkContext) -> bool| {
        all.iter().find(|summary| test(&metadata::decode(&summary.meta).context)).map(|s| s.session.clone())
    };
    same(&|context| context.cwd == wanted.cwd)
        .or_else(|| same(&|context| context.git_root.is_some() && context.git_root == wanted.git_root))
        .or_else(|| all.first().map(|summary| summary.session.clone()))
}

pub(super) fn sizes(call: &Call<'_>) -> Handling {
    summaries(call, |all| {
        let sizes: BTreeMap<&str, u64> = all.iter().map(|s| (s.session.as_str(), s.size)).collect();
        json!({ "sizes": sizes })
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ids {
    session_ids: Vec<String>,
}

/// Which of these sessions another living process holds.
pub(super) fn in_use(call: &Call<'_>) -> Handling {
    let Ids { session_ids } = call.parse()?;
    let me = call.connection.server.owner.clone();
    summaries(call, move |all| {
        let held = |summary: &&Summary| {
            summary.holder.as_ref().is_some_and(|h| h.owner.server != me.server && owner::is_alive(&h.owner))
        };
        let held: Vec<&str> = all.iter().filter(held).map(|summary| summary.session.as_str()).collect();
        let in_use: Vec<&String> = session_ids.iter().filter(|id| held.contains(&id.as_str())).collect();
        json!({ "inUse": in_use })
    })
}

/// Deletes many; tells how much each of them took. Names that are not there are passed over.
pub(super) fn bulk_delete(call: &Call<'_>) -> Handling {
    let Ids { session_ids } = call.parse()?;
    let (connection, method) = (call.connection.clone(), call.method.to_owned());
    call.later(async move {
        let server = &connection.server;
        let mut freed = BTreeMap::new();
        for id in session_ids.iter().filter_map(|id| id.parse::<SessionId>().ok()) {
            let told = |error| errors::failed(&method, error);
            let Some(summary) = server.store.summary(&id).await.map_err(told)? else { continue };
            connection.detach(&id);
            server.delete(&id).await.map_err(told)?;
            freed.insert(id.as_str().to_owned(), summary.size);
        }
        Ok(json!({ "freedBytes": freed }))
    })
}

/// Everything that was acknowledged is durable already, and a session that was left is locked by nobody.
pub(super) fn nothing_to_do(call: &Call<'_>) -> Handling {
    call.now(json!({}))
}

#[derive(Deserialize)]
struct Enrich {
    sessions: Vec<Map<String, Value>>,
}

/// Adds what is known about sessions to what the client knows already.
pub(super) fn enrich(call: &Call<'_>) -> Handling {
    let Enrich { mut sessions } = call.parse()?;
    summaries(call, move |all| {
        for session in &mut sessions {
            let id = session.get("sessionId").and_then(Value::as_str).unwrap_or_default();
            let Some(summary) = all.iter().find(|summary| summary.session.as_str() == id) else { continue };
            let Ok(Value::Object(known)) = serde_json::to_value(metadata::of(summary)) else { continue };
            for (key, value) in known {
                session.entry(key).or_insert(value);
            }
        }
        json!({ "sessions": sessions })
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Prune {
    older_than_days: u64,
    #[serde(default)]
    dry_run: bool,
    #[serde(default)]
    exclude_session_ids: Vec<String>,
    #[serde(default)]
    include_named: bool,
}

/// Deletes sessions that nobody has touched for so long. Those that somebody holds, or has given a name, are spared.
pub(super) fn prune(call: &Call<'_>) -> Handling {
    const DAY_MS: u64 = 24 * 60 * 60 * 1000;
    let params: Prune = call.parse()?;
    let (server, method) = (call.connection.server.clone(), call.method.to_owned());
    call.later(async move {
        let told = |error| errors::failed(&method, error);
        let age = i64::try_from(params.older_than_days.saturating_mul(DAY_MS)).unwrap_or(i64::MAX);
        let newest = Timestamp::now().as_millis().saturating_sub(age);
        let all = server.store.list().await.map_err(told)?;
        let old = all.into_iter().filter(|summary| summary.modified.as_millis() <= newest);
        let (candidates, skipped): (Vec<_>, Vec<_>) = old.partition(|summary| {
            let excluded = params.exclude_session_ids.iter().any(|id| id == summary.session.as_str());
            let held = summary.holder.as_ref().is_some_and(|holder| owner::is_alive(&holder.owner));
            let named = metadata::decode(&summary.meta).name.is_some() && !params.include_named;
            !(excluded || held || named)
        });
        let mut deleted: Vec<&SessionId> = Vec::new();
        for summary in candidates.iter().filter(|_| !params.dry_run) {
            if server.delete(&summary.session).await.map_err(told)? {
                deleted.push(&summary.session);
            }
        }
        let freed = |summary: &&Summary| params.dry_run || deleted.contains(&&summary.session);
        let freed: u64 = candidates.iter().filter(freed).map(|summary| summary.size).sum();
        let ids = |list: &[Summary]| list.iter().map(|s| s.session.clone()).collect::<Vec<_>>();
        Ok(json!({
            "deleted": deleted,
            "candidates": ids(&candidates),
            "skipped": ids(&skipped),
            "freedBytes": freed,
            "dryRun": params.dry_run,
        }))
    })
}

/// Which session a terminal shows. There is none here.
pub(super) fn foreground(call: &Call<'_>) -> Handling {
    call.now(json!({}))
}

pub(super) fn set_foreground(call: &Call<'_>) -> Handling {
    let error =
        "Not running in TUI+server mode: there is no terminal that could show a session in the foreground";
    call.now(json!({ "success": false, "error": error }))
}

fn summaries(call: &Call<'_>, tell: impl FnOnce(&[Summary]) -> Value + Send + 'static) -> Handling {
    let (store, method) = (call.connection.server.store.clone(), call.method.to_owned());
    call.later(async move {
        let all = store.list().await.map_err(|error| errors::failed(&method, error))?;
        Ok(tell(&all))
    })
}
