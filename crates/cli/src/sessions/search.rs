//! `baton sessions search`: prints sessions that contain a text.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use baton_history::search;
use baton_store::Store;
use serde::Serialize;
use serde_json::json;

use super::list::{self, ListedSession};
use crate::terminal;
use crate::words::counted;

/// Time between two reports on indexing.
const SILENCE: Duration = Duration::from_secs(2);

/// A session that matches.
#[derive(Serialize)]
struct Match {
    #[serde(flatten)]
    session: ListedSession,
    /// Number of messages that match.
    matches: u64,
    /// Text around the first match.
    excerpt: String,
}

/// Indexes what is not indexed yet, and says so if it takes long.
async fn index(store: &dyn Store) -> anyhow::Result<()> {
    let mut said = Instant::now();
    search::catch_up(store, None, |sessions| {
        if said.elapsed() > SILENCE {
            said = Instant::now();
            terminal::note(&format!("indexed {} so far", counted(sessions, "session")));
        }
    })
    .await?;
    Ok(())
}

pub(super) async fn run(
    store: &dyn Store,
    words: &[String],
    limit: usize,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let wanted = words.join(" ");
    anyhow::ensure!(!wanted.trim().is_empty(), "the text to search for is empty");
    let all = store.list().await?;
    index(store).await?;
    let found = search::search(store, &wanted, limit, Duration::ZERO).await?.found.into_iter();
    let found: Vec<Match> = found
        .map(|found| Match {
            session: ListedSession::of(&found.summary),
            matches: found.matches,
            excerpt: found.excerpt,
        })
        .collect();
    if json {
        terminal::json(&serde_json::to_string_pretty(&json!({ "sessions": found }))?);
    } else if found.is_empty() {
        terminal::note("no session matches");
    } else {
        let (sessions, excerpts): (Vec<_>, Vec<_>) =
            found.into_iter().map(|found| (found.session, found.excerpt)).unzip();
        list::print(&sessions, &all, &excerpts);
    }
    Ok(ExitCode::SUCCESS)
}
