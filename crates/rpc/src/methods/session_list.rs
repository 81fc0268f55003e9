//! Lists of sessions: look-ups, sizes, deleting many.

use std::collections::BTreeMap;

use baton_protocol::SessionId;
use baton_protocol::event::WorkContext;
use baton_store::Summary;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::call::perform;
use super::{Call, Handled};
use baton_history::metadata;
use baton_runtime::session::Failure;
use baton_service::OperationError;
use baton_service::sessions::{DeleteSession, ListSessions, PruneSessions, ShowSession};

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
        let same =
            |wanted: &Option<String>, actual: Option<&String>| wanted.is_none() || wanted.as_ref() == actual;
        same(&self.cwd, Some(&context.cwd))
            && same(&self.git_root, context.git_root.as_ref())
            && same(&self.repository, context.repository.as_ref())
            && same(&self.branch, context.branch.as_ref())
    }
}

/// Lists the sessions, last changed first. A `metadataLimit` limits how many are described in full; here all are, because the
/// store has the metadata at hand.
pub(super) fn list(call: &Call<'_>) -> Handled {
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
    /// Any text: an invalid id is an unknown session.
    session_id: String,
}

/// Returns the metadata of a session, live or not.
pub(super) fn metadata(call: &Call<'_>) -> Handled {
    let Ok(id) = call.parse::<AnyId>()?.session_id.parse::<SessionId>() else { return call.now(json!({})) };
    let (service, caller) = (call.service().clone(), call.caller());
    call.later(async move {
        match service.perform(&caller, ShowSession { id }).await {
            Ok(summary) => Ok(json!({ "session": metadata::of(&summary) })),
            Err(OperationError::Failed(Failure::NotFound(_))) => Ok(json!({})),
            Err(error) => Err(error.into()),
        }
    })
}

pub(super) fn last_id(call: &Call<'_>) -> Handled {
    summaries(call, |all| found(all.first().map(|last| last.session.clone())))
}

/// Returns the result of methods that look a session up.
fn found(session: Option<SessionId>) -> Value {
    session.map_or_else(|| json!({}), |id| json!({ "sessionId": id }))
}

#[derive(Deserialize)]
struct Prefix {
    prefix: String,
}

/// Finds the session whose id begins with a prefix; none if there are several.
pub(super) fn find_by_prefix(call: &Call<'_>) -> Handled {
    let Prefix { prefix } = call.parse()?;
    summaries(call, move |all| found(only_with_prefix(all, &prefix)))
}

pub(super) fn only_with_prefix(all: &[Summary], prefix: &str) -> Option<SessionId> {
    let mut matching = all.iter().filter(|summary| summary.session.as_str().starts_with(prefix));
    match (matching.next(), matching.next()) {
        (Some(only), None) => Some(only.session.clone()),
        _ => None,
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LastForContext {
    context: Option<WorkContext>,
}

/// Finds the last session of a directory, else of its repository, else of all.
pub(super) fn last_for_context(call: &Call<'_>) -> Handled {
    let wanted = call.parse::<LastForContext>()?.context.unwrap_or_default();
    summaries(call, move |all| found(last_in(all, &wanted)))
}

/// Returns the last session of a directory, else of its repository, else of all.
pub(super) fn last_in(all: &[Summary], wanted: &WorkContext) -> Option<SessionId> {
    let same = |test: &dyn Fn(&WorkContext) -> bool| {
        all.iter().find(|summary| test(&metadata::decode(&summary.meta).context)).map(|s| s.session.clone())
    };
    same(&|context| context.cwd == wanted.cwd)
        .or_else(|| same(&|context| context.git_root.is_some() && context.git_root == wanted.git_root))
        .or_else(|| all.first().map(|summary| summary.session.clone()))
}

pub(super) fn sizes(call: &Call<'_>) -> Handled {
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

/// Returns the sessions whose lease another running server holds.
pub(super) fn check_in_use(call: &Call<'_>) -> Handled {
    let Ids { session_ids } = call.parse()?;
    let service = call.service().clone();
    summaries(call, move |all| {
        let held = |summary: &&Summary| service.other_holder(summary).is_some();
        let held: Vec<&str> = all.iter().filter(held).map(|summary| summary.session.as_str()).collect();
        let in_use: Vec<&String> = session_ids.iter().filter(|id| held.contains(&id.as_str())).collect();
        json!({ "inUse": in_use })
    })
}

/// Deletes sessions, and returns the bytes that each took. Unknown ids are skipped.
pub(super) fn bulk_delete(call: &Call<'_>) -> Handled {
    let Ids { session_ids } = call.parse()?;
    let connection = call.connection.clone();
    call.later(async move {
        let (service, caller) = (&connection.service, connection.caller());
        let mut freed = BTreeMap::new();
        for id in session_ids.iter().filter_map(|id| id.parse::<SessionId>().ok()) {
            let summary = match service.perform(&caller, ShowSession { id: id.clone() }).await {
                Ok(summary) => summary,
                Err(OperationError::Failed(Failure::NotFound(_))) => continue,
                Err(error) => return Err(error.into()),
            };
            connection.detach(&id);
            service.perform(&caller, DeleteSession { id: id.clone() }).await?;
            freed.insert(id.as_str().to_owned(), summary.size);
        }
        Ok(json!({ "freedBytes": freed }))
    })
}

/// Answers methods with nothing to do: what was acknowledged is durable, and a detached session has no lock.
pub(super) fn acknowledge(call: &Call<'_>) -> Handled {
    call.now(json!({}))
}

#[derive(Deserialize)]
struct Enrich {
    sessions: Vec<Map<String, Value>>,
}

/// Adds stored metadata to descriptions of sessions that the client has.
pub(super) fn enrich(call: &Call<'_>) -> Handled {
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

/// Deletes sessions that have not changed for some days. Skips sessions in use and, unless asked otherwise, those with a name.
pub(super) fn prune(call: &Call<'_>) -> Handled {
    let Prune { older_than_days, dry_run, exclude_session_ids, include_named } = call.parse()?;
    let prune = PruneSessions { older_than_days, dry_run, exclude: exclude_session_ids, include_named };
    perform(call, prune, move |pruned| {
        json!({
            "deleted": pruned.deleted,
            "candidates": pruned.candidates,
            "skipped": pruned.skipped,
            "freedBytes": pruned.freed_bytes,
            "dryRun": dry_run,
        })
    })
}

/// Returns the session that a terminal shows. The server has no terminal.
pub(super) fn foreground(call: &Call<'_>) -> Handled {
    call.now(json!({}))
}

pub(super) fn set_foreground(call: &Call<'_>) -> Handled {
    let error =
        "Not running in TUI+server mode: there is no terminal that could show a session in the foreground";
    call.now(json!({ "success": false, "error": error }))
}

/// Answers from the list of all sessions, last changed first.
fn summaries(call: &Call<'_>, encode: impl FnOnce(&[Summary]) -> Value + Send + 'static) -> Handled {
    perform(call, ListSessions, |all| encode(&all))
}

#[cfg(test)]
mod tests {
    use baton_protocol::Timestamp;
    use baton_store::Seq;

    use super::*;

    fn session(id: &str, cwd: &str, git_root: Option<&str>) -> Summary {
        let context =
            WorkContext { cwd: cwd.into(), git_root: git_root.map(str::to_owned), ..WorkContext::default() };
        Summary {
            session: id.parse().unwrap(),
            head: Seq(1),
            created: Timestamp::now(),
            modified: Timestamp::now(),
            meta: serde_json::to_vec(&json!({ "context": context })).unwrap().into(),
            holder: None,
            size: 0,
            damage: None,
        }
    }

    #[test]
    fn prefix_finds_a_session_only_if_it_is_unambiguous() {
        let all = [session("abc", "/a", None), session("abd", "/a", None)];
        let found = |prefix| only_with_prefix(&all, prefix).map(|id| id.as_str().to_owned());
        assert_eq!(found("abd").as_deref(), Some("abd"));
        assert_eq!(found("ab"), None);
        assert_eq!(found("x"), None);
    }

    #[test]
    fn last_session_is_of_the_directory_else_of_the_repository_else_of_all() {
        let all = [
            session("newest", "/c", None),
            session("repository", "/r/other", Some("/r")),
            session("directory", "/r/here", Some("/r")),
        ];
        let last = |cwd: &str, git_root: Option<&str>| {
            let git_root = git_root.map(str::to_owned);
            let wanted = WorkContext { cwd: cwd.into(), git_root, ..WorkContext::default() };
            last_in(&all, &wanted).map(|id| id.as_str().to_owned())
        };
        assert_eq!(last("/r/here", Some("/r")).as_deref(), Some("directory"));
        assert_eq!(last("/r/new", Some("/r")).as_deref(), Some("repository"));
        assert_eq!(last("/x", None).as_deref(), Some("newest"));
        assert_eq!(last_in(&[], &WorkContext::default()), None);
    }

    #[test]
    fn filter_compares_only_the_fields_that_are_given() {
        let context = WorkContext { cwd: "/a".into(), branch: Some("main".into()), ..WorkContext::default() };
        let filter = |branch: Option<&str>, repository: Option<&str>| Filter {
            branch: branch.map(str::to_owned),
            repository: repository.map(str::to_owned),
            ..Filter::default()
        };
        assert!(filter(None, None).matches(&context));
        assert!(filter(Some("main"), None).matches(&context));
        assert!(!filter(Some("other"), None).matches(&context));
        assert!(!filter(Some("main"), Some("owner/name")).matches(&context));
    }
}
