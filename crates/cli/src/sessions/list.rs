//! The list of sessions, as a table for people and as JSON for programs.

use std::process::ExitCode;

use anyhow::Context;
use baton_history::metadata::{self, Metadata};
use baton_history::owner;
use baton_protocol::params::SessionMetadata;
use baton_protocol::{SessionId, Timestamp};
use baton_store::{Store, Summary};
use serde::Serialize;
use serde_json::json;

use super::local_time::LocalTime;
use crate::args::ListSessionsArgs;
use crate::rows::{self, List};
use crate::terminal::{self, Flexible, Kept};

/// Fewest characters of an id that are shown.
const SHORT_ID: usize = 8;
/// Columns for a directory, and for a model, at most.
const DIRECTORY_WIDTH: usize = 28;
const ENGINE_WIDTH: usize = 20;

const HEADER: [&str; 6] = ["ID", "CHANGED", "STATE", "ENGINE", "DIRECTORY", "TITLE"];
/// The columns that give way, so that a session takes one row.
const FLEXIBLE: [Flexible; 2] =
    [Flexible { column: 3, keeps: Kept::Beginning }, Flexible { column: 4, keeps: Kept::End }];

/// A session in the list. As JSON, its fields have the names of the HTTP API.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListedSession {
    id: SessionId,
    /// Its name, or the beginning of the first prompt.
    title: Option<String>,
    cwd: Option<String>,
    repository: Option<String>,
    branch: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
    state: State,
    /// Model of the session, or the name of its engine.
    model: Option<String>,
}

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// A turn runs.
    Running,
    /// A turn waits for a person, also after its process has ended.
    Waiting,
    /// A process has it open; nothing runs.
    Open,
    Idle,
    /// Its process ended during a turn, and nothing has continued it.
    Interrupted,
    /// Part of it cannot be read.
    Damaged,
}

impl State {
    fn of(summary: &Summary, stored: &Metadata) -> Self {
        let holder = summary.holder.as_ref().filter(|holder| owner::is_alive(&holder.owner));
        match holder {
            _ if summary.damage.is_some() => Self::Damaged,
            _ if stored.waiting => Self::Waiting,
            Some(holder) if holder.busy => Self::Running,
            // Also if a process has opened it: that alone continues nothing.
            _ if metadata::is_unfinished(summary) => Self::Interrupted,
            Some(_) => Self::Open,
            None => Self::Idle,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Open => "open",
            Self::Idle => "idle",
            Self::Interrupted => "interrupted",
            Self::Damaged => "damaged",
        }
    }
}

impl ListedSession {
    pub(super) fn of(summary: &Summary) -> Self {
        let stored = metadata::decode(&summary.meta);
        let SessionMetadata { session_id, start_time, modified_time, summary: title, context, .. } =
            metadata::of(summary);
        let context = context.unwrap_or_default();
        Self {
            id: session_id,
            title,
            cwd: Some(context.cwd).filter(|cwd| !cwd.is_empty()),
            repository: context.repository,
            branch: context.branch,
            created_at: start_time,
            updated_at: modified_time,
            state: State::of(summary, &stored),
            model: stored.model,
        }
    }

    /// The cells of the session's row.
    fn cells(&self, id_length: usize, changed: String) -> Vec<String> {
        let directory = self.cwd.as_deref().unwrap_or_default();
        vec![
            self.id.as_str().chars().take(id_length).collect(),
            changed,
            self.state.name().to_owned(),
            terminal::shortened(self.model.as_deref().unwrap_or("-"), ENGINE_WIDTH),
            terminal::shortened_start(&with_tilde(directory), DIRECTORY_WIDTH),
            self.title.clone().unwrap_or_default(),
        ]
    }
}

pub(super) async fn list(store: &dyn Store, args: &ListSessionsArgs) -> anyhow::Result<ExitCode> {
    let ListSessionsArgs { here, limit, json } = *args;
    let cwd = std::env::current_dir().context("cannot read the current directory")?.display().to_string();
    let all = store.list().await?;
    let shown: Vec<ListedSession> = all
        .iter()
        .map(ListedSession::of)
        .filter(|session| !here || session.cwd.as_ref() == Some(&cwd))
        .take(limit)
        .collect();
    if json {
        terminal::json(&serde_json::to_string_pretty(&json!({ "sessions": shown }))?);
    } else if all.is_empty() {
        terminal::note("no sessions yet; create one with `baton run \"hello\"`");
    } else if shown.is_empty() && here {
        terminal::note("no sessions of this directory; `baton sessions list` shows all");
    } else {
        print(&shown, &all, &[]);
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints sessions as a table, each with a note below it, if there is one.
pub(super) fn print(shown: &[ListedSession], all: &[Summary], notes: &[String]) {
    let time = LocalTime::of_system();
    let ids = all.iter().map(|summary| summary.session.as_str());
    let (length, near) = match terminal::output_is_terminal() {
        true => (rows::unique_length(ids, SHORT_ID), Some(Timestamp::now())),
        false => (usize::MAX, None),
    };
    let row = |session: &ListedSession| {
        let changed = session.updated_at;
        let changed = near.map_or_else(|| time.format(changed), |now| time.format_near(changed, now));
        session.cells(length, changed)
    };
    let rows: Vec<Vec<String>> = shown.iter().map(row).collect();
    List { header: &HEADER, rows: &rows, notes, heading: 3, flexible: &FLEXIBLE }.print();
}

/// The user's own directory is shown as `~`.
pub(crate) fn with_tilde(directory: &str) -> String {
    let home = std::env::var("HOME").unwrap_or_default();
    match directory.strip_prefix(&home) {
        Some(rest) if !home.is_empty() && (rest.is_empty() || rest.starts_with('/')) => format!("~{rest}"),
        _ => directory.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use baton_store::{Epoch, Holder, Owner, Seq};

    use super::*;

    fn state(owner: Option<Owner>, busy: bool, stored: &Metadata) -> &'static str {
        let summary = Summary {
            session: "s".parse().unwrap(),
            head: Seq(1),
            created: Timestamp(1),
            modified: Timestamp(1),
            size: 1,
            meta: stored.encode(),
            holder: owner.map(|owner| Holder { owner, epoch: Epoch(1), busy }),
            damage: None,
        };
        ListedSession::of(&summary).state.name()
    }

    #[test]
    fn state_of_unfinished_work_does_not_depend_on_who_has_opened_it() {
        let alive = owner::this_process;
        let dead = || Owner { started: 1, ..alive() };
        let unfinished = || Metadata { unfinished: true, ..Metadata::default() };
        let waiting = || Metadata { waiting: true, ..unfinished() };
        assert_eq!(state(Some(alive()), true, &unfinished()), "running");
        // A process that opens a session holds it, and is not busy until it has written something.
        for (owner, busy) in [(None, false), (Some(alive()), false), (Some(dead()), true)] {
            assert_eq!(state(owner.clone(), busy, &unfinished()), "interrupted", "{owner:?}");
            assert_eq!(state(owner.clone(), busy, &waiting()), "waiting", "{owner:?}");
        }
        assert_eq!(state(Some(alive()), true, &waiting()), "waiting");
        assert_eq!(state(Some(alive()), false, &Metadata::default()), "open");
        assert_eq!(state(Some(dead()), false, &Metadata::default()), "idle");
        assert_eq!(state(None, false, &Metadata::default()), "idle");
    }
}
