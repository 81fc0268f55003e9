//! Search in titles and conversations, by the store's index of texts.
//!
//! Records are indexed after they were appended: by a server in the background, and by a search that finds some not indexed.
//! A search is therefore complete, unless a store of an older version is still being indexed and the search may not wait for
//! it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use baton_protocol::{Body, Event, SessionId};
use baton_store::texts::{self, Hit, TextIndex, Texts, Unindexed, Words};
use baton_store::{Record, Seq, Span, Store, StoreError, Summary};

/// Characters that are shown before and after a match.
const CONTEXT: usize = 40;
/// Records that are indexed in one write. Appends of other sessions wait for it, so it is small.
const PAGE: usize = 100;
/// Sessions whose cursors are read at once.
const SESSIONS: usize = 100;

/// The result of a search.
pub struct Results {
    /// Sessions that match, last changed first.
    pub found: Vec<SearchHit>,
    /// Whether there are histories that are not indexed yet, so that matches in them are missing.
    pub incomplete: bool,
}

/// A session that matches.
pub struct SearchHit {
    /// The session.
    pub summary: Summary,
    /// Number of messages that match, and the title if it does.
    pub matches: u64,
    /// Text around the first match, on one line.
    pub excerpt: String,
}

/// Finds up to `limit` sessions whose title, or one of whose messages, contains all words, each at least as the beginning of
/// a word. Letter case does not matter. Indexes new records first, for at most `patience`.
///
/// # Errors
/// When the store cannot be read or written.
pub async fn search(
    store: &dyn Store,
    wanted: &str,
    limit: usize,
    patience: Duration,
) -> Result<Results, StoreError> {
    let index = index_of(store)?;
    let incomplete = !catch_up(store, Some(Instant::now() + patience), |_| {}).await?.complete;
    let query = Words::of_query(wanted);
    let mut found = Vec::new();
    if query.is_empty() {
        return Ok(Results { found, incomplete });
    }
    let hits = index.find(query.clone(), limit).await?.into_iter();
    let hits: HashMap<SessionId, Hit> = hits.map(|hit| (hit.session.clone(), hit)).collect();
    for summary in store.list().await? {
        if found.len() == limit {
            break;
        }
        found.extend(matching(store, summary, &query, &hits).await?);
    }
    Ok(Results { found, incomplete })
}

/// Returns a session with its excerpt, if its title or content matches.
async fn matching(
    store: &dyn Store,
    summary: Summary,
    query: &Words,
    hits: &HashMap<SessionId, Hit>,
) -> Result<Option<SearchHit>, StoreError> {
    let title = crate::metadata::of(&summary).summary.unwrap_or_default();
    let by_title = Words::of(&title).contain(query);
    let hit = hits.get(&summary.session);
    let matches = hit.map_or(0, |hit| hit.matches) + u64::from(by_title);
    let text = match hit {
        _ if by_title => title,
        Some(hit) => read_text(store, hit).await?,
        None => return Ok(None),
    };
    Ok(Some(SearchHit { matches, excerpt: excerpt_of(&text, query), summary }))
}

/// Returns the text of a hit; empty if it was deleted meanwhile.
async fn read_text(store: &dyn Store, hit: &Hit) -> Result<String, StoreError> {
    let after = Seq(hit.first.0.saturating_sub(1));
    match store.read(&hit.session, Span::After { after, limit: 1 }).await {
        Ok(records) => Ok(records.first().and_then(text_of).unwrap_or_default()),
        Err(StoreError::NotFound(_)) => Ok(String::new()),
        Err(error) => Err(error),
    }
}

/// The result of [`catch_up`].
pub struct CaughtUp {
    /// Whether all readable sessions are indexed; time ran out otherwise.
    pub complete: bool,
    /// Sessions that cannot be read. Search does not find the rest of them.
    pub unreadable: Vec<(SessionId, StoreError)>,
}

/// Indexes all records that are not indexed yet, until a time, and reports the number of sessions that were done.
///
/// # Errors
/// When the store cannot be read or written.
pub async fn catch_up(
    store: &dyn Store,
    until: Option<Instant>,
    mut report: impl FnMut(usize),
) -> Result<CaughtUp, StoreError> {
    let index = index_of(store)?;
    let is_late = || until.is_some_and(|until| Instant::now() >= until);
    let mut unreadable: Vec<(SessionId, StoreError)> = Vec::new();
    let mut done = 0;
    loop {
        let mut behind = index.unindexed(SESSIONS + unreadable.len()).await?;
        behind.retain(|one| unreadable.iter().all(|(session, _)| *session != one.session));
        if behind.is_empty() {
            return Ok(CaughtUp { complete: true, unreadable });
        }
        for one in behind {
            if is_late() {
                return Ok(CaughtUp { complete: false, unreadable });
            }
            match index_session(store, index, &one, &is_late).await {
                Ok(true) => done += 1,
                // Another indexer was faster, the session is gone, or time ran out.
                Ok(false) => {}
                Err(error) => unreadable.push((one.session, error)),
            }
            report(done);
        }
    }
}

/// Indexes the rest of a session. Returns `false` if another indexer was faster, or time ran out.
async fn index_session(
    store: &dyn Store,
    index: &dyn TextIndex,
    behind: &Unindexed,
    is_late: &impl Fn() -> bool,
) -> Result<bool, StoreError> {
    let session = &behind.session;
    let mut after = behind.indexed;
    while after < behind.head && !is_late() {
        let page = store.read(session, Span::After { after, limit: PAGE }).await?;
        let through = page.last().map_or(behind.head, |record| record.seq);
        let words = page.iter().filter_map(|record| Some((record.seq, Words::of(&text_of(record)?))));
        let words = words.filter(|(_, words)| !words.is_empty()).collect();
        if !index.index(Texts { session: session.clone(), after, through, words }).await? {
            return Ok(false);
        }
        after = through;
    }
    Ok(after >= behind.head)
}

fn index_of(store: &dyn Store) -> Result<&dyn TextIndex, StoreError> {
    store.texts().ok_or_else(|| StoreError::Medium {
        doing: "search".into(),
        path: String::new(),
        cause: "this kind of store has no index of texts".into(),
    })
}

/// Returns the text of a record that people look for, if it has one.
fn text_of(record: &Record) -> Option<String> {
    if !matches!(&*record.kind, "user.message" | "assistant.message" | "tool.execution_complete") {
        return None;
    }
    match Event::parse(&String::from_utf8_lossy(&record.body)).ok()?.body {
        Body::UserMessage(message) => Some(message.content),
        Body::AssistantMessage(message) => Some(message.content),
        Body::ToolComplete(complete) => complete.result.as_ref().map(|result| result.content.clone()),
        _ => None,
    }
}

/// Returns the text around the first word that matches, on one line.
fn excerpt_of(text: &str, query: &Words) -> String {
    let matching = |(_, word): &(usize, String)| query.iter().any(|prefix| word.starts_with(prefix));
    let at = texts::split(text).find(matching).map_or(0, |(at, _)| at);
    let before = text[..at].chars().count();
    let begin = before.saturating_sub(CONTEXT);
    let length = before - begin + 2 * CONTEXT;
    let shown: String =
        text.chars().skip(begin).take(length).map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    let more = |yes: bool| if yes { "…" } else { "" };
    let ends = text.chars().nth(begin + length).is_none();
    format!("{}{}{}", more(begin > 0), shown.trim(), more(!ends))
}

#[cfg(test)]
mod tests {
    use baton_protocol::Timestamp;
    use baton_store::memory::MemoryStore;
    use baton_store::{NewRecord, NewSession, Owner};
    use bytes::Bytes;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn search_indexes_what_is_left_and_finds_it() {
        let store = MemoryStore::default();
        let body = |at: usize| {
            let text = format!("prompt {at} about {}", if at == 150 { "a needle" } else { "hay" });
            json!({"type": "user.message", "data": {"content": text}, "id": "00000000-0000-0000-0000-000000000001", "timestamp": "2026-01-01T00:00:00Z", "parentId": null})
        };
        let records = (0..PAGE * 2)
            .map(|at| NewRecord { kind: "user.message".to_owned(), body: body(at).to_string().into() });
        let session: SessionId = "long".parse().unwrap();
        let owner =
            Owner { server: String::new(), host: String::new(), boot: String::new(), pid: 1, started: 1 };
        let (created, records) = (Timestamp(1), records.collect());
        let new = NewSession { session, owner, created, records, meta: Bytes::new(), busy: false };
        store.create(new).await.unwrap();
        let impatient = search(&store, "needle", 10, Duration::ZERO).await.unwrap();
        assert!(impatient.found.is_empty() && impatient.incomplete);
        let results = search(&store, "NEEDLE prom", 10, Duration::from_secs(60)).await.unwrap();
        assert!(!results.incomplete);
        assert_eq!(results.found.len(), 1);
        assert_eq!((results.found[0].matches, &*results.found[0].excerpt), (1, "prompt 150 about a needle"));
        assert!(catch_up(&store, Some(Instant::now()), |_| {}).await.unwrap().complete, "nothing is left");
    }

    #[test]
    fn excerpt_is_one_line_around_the_match() {
        let shown = |text: &str, query: &str| excerpt_of(text, &Words::of(query));
        assert_eq!(shown("say\nHELLO there", "hello"), "say HELLO there");
        let long = format!("{} Needle {}", "a".repeat(100), "b".repeat(100));
        let around = shown(&long, "need");
        assert!(
            around.starts_with("…a") && around.contains(" Needle ") && around.ends_with("b…"),
            "{around}"
        );
        assert!(shown("İstanbul ẞ needle", "needle").contains("needle"), "lower case of another length");
    }
}
