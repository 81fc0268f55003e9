//! Sessions as a collection: lists, look-ups, sizes.

use std::collections::BTreeMap;

use baton_protocol::SessionId;
use baton_protocol::event::WorkContext;
use baton_store::Summary;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Handling};
use crate::rpc::errors;
use crate::{metadata, owner};

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct List {
    filter: Option<Filter>,
    metadata_limit: Option<usize>,
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

/// All sessions, last changed first.
pub(super) fn list(call: &Call<'_>) -> Handling {
    let params: List = call.parse()?;
    summaries(call, move |all| {
        let filter = params.filter.unwrap_or_default();
        let matching = all.iter().map(metadata::of);
        let matching = matching.filter(|m| filter.matches(&m.context.clone().unwrap_or_default()));
        let sessions: Vec<_> = matching.take(params.metadata_limit.unwrap_or(usize::MAX)).collect();
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
        let mut found = all.iter().filter(|summary| summary.session.as_str().starts_with(&prefix));
        match (found.next(), found.next()) {
            (Some(only), None) => json!({ "sessionId": only.session }),
            _ => json!({}),
        }
    })
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
        let same = |test: &dyn Fn(&WorkContext) -> bool| {
            all.iter()
                .find(|summary| test(&metadata::decode(&summary.meta).context))
                .map(|s| s.session.clone())
        };
        let found = same(&|context| context.cwd == wanted.cwd)
            .or_else(|| same(&|context| context.git_root.is_some() && context.git_root == wanted.git_root))
            .or_else(|| all.first().map(|summary| summary.session.clone()));
        found.map_or_else(|| json!({}), |id| json!({ "sessionId": id }))
    })
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

/// Everything that was acknowledged is durable already.
pub(super) fn save(call: &Call<'_>) -> Handling {
    call.now(json!({}))
}

/// Which session a terminal shows. There is none here.
pub(super) fn foreground(call: &Call<'_>) -> Handling {
    call.now(json!({}))
}

pub(super) fn set_foreground(call: &Call<'_>) -> Handling {
    let error = "This server has no TUI that could show a session in the foreground.";
    call.now(json!({ "success": false, "error": error }))
}

fn summaries(call: &Call<'_>, tell: impl FnOnce(&[Summary]) -> Value + Send + 'static) -> Handling {
    let (store, method) = (call.connection.server.store.clone(), call.method.to_owned());
    call.later(async move {
        let all = store.list().await.map_err(|error| errors::failed(&method, error))?;
        Ok(tell(&all))
    })
}
