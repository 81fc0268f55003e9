//! Search in titles and conversations. A plain scan: reading ten thousand events takes a fraction of a second.

use std::process::ExitCode;

use baton_protocol::{Body, Event};
use baton_store::{Seq, Span, Store, Summary};
use serde::Serialize;

use super::list::{self, ListedSession};
use crate::terminal;

/// Characters that are shown before and after a match.
const CONTEXT: usize = 40;
/// Records that are read at once.
const PAGE: usize = 500;

/// A session that matches.
#[derive(Serialize)]
struct Match {
    #[serde(flatten)]
    session: ListedSession,
    /// Number of messages that match.
    matches: usize,
    /// Text around the first match.
    excerpt: String,
}

pub(super) async fn search(
    store: &dyn Store,
    words: &[String],
    limit: usize,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let wanted = words.join(" ").to_lowercase();
    anyhow::ensure!(!wanted.trim().is_empty(), "the text to search for is empty");
    let all = store.list().await?;
    let mut found = Vec::new();
    for summary in &all {
        if found.len() == limit {
            break;
        }
        found.extend(search_session(store, summary, wanted.trim()).await?);
    }
    if json {
        terminal::json(&serde_json::to_string_pretty(&found)?);
    } else if found.is_empty() {
        terminal::note("no session matches");
    } else {
        let (sessions, excerpts): (Vec<_>, Vec<_>) =
            found.into_iter().map(|found| (found.session, found.excerpt)).unzip();
        let excerpt = |session: &ListedSession| {
            let at =
                sessions.iter().position(|other| other.metadata.session_id == session.metadata.session_id);
            let excerpt = at.and_then(|at| excerpts.get(at)).cloned().unwrap_or_default();
            let title = session.title();
            if title.is_empty() {
                excerpt
            } else {
                format!("{} · {excerpt}", terminal::shortened(title, CONTEXT))
            }
        };
        list::print(&sessions, &all, excerpt);
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::SUCCESS)
}

async fn search_session(store: &dyn Store, summary: &Summary, wanted: &str) -> anyhow::Result<Option<Match>> {
    let session = ListedSession::of(summary);
    let (mut matches, mut excerpt) = (0, None);
    if let Some(around) = excerpt_of(session.title(), wanted) {
        (matches, excerpt) = (1, Some(around));
    }
    let mut after = Seq::ZERO;
    loop {
        let page = store.read(&summary.session, Span::After { after, limit: PAGE }).await?;
        let Some(last) = page.last() else { break };
        after = last.seq;
        for record in page.iter().filter(|record| is_text(&record.kind)) {
            let text = String::from_utf8_lossy(&record.body);
            let around = Event::parse(&text).ok().and_then(|event| excerpt_of(text_of(&event.body), wanted));
            matches += usize::from(around.is_some());
            excerpt = excerpt.or(around);
        }
    }
    Ok(excerpt.map(|excerpt| Match { session, matches, excerpt }))
}

fn is_text(kind: &str) -> bool {
    matches!(kind, "user.message" | "assistant.message" | "tool.execution_complete")
}

fn text_of(body: &Body) -> &str {
    match body {
        Body::UserMessage(message) => &message.content,
        Body::AssistantMessage(message) => &message.content,
        Body::ToolComplete(complete) => {
            complete.result.as_ref().map(|result| result.content.as_str()).unwrap_or_default()
        }
        _ => "",
    }
}

/// The text around the first match, on one line; none without a match. `wanted` is in lower case.
fn excerpt_of(text: &str, wanted: &str) -> Option<String> {
    let at = text.to_lowercase().find(wanted)?;
    // Lower case may have another length, so the position is exact only for most texts; it is for display.
    let at = text.char_indices().take_while(|(index, _)| *index < at).count();
    let begin = at.saturating_sub(CONTEXT);
    let length = (at - begin) + wanted.chars().count() + CONTEXT;
    let shown: String =
        text.chars().skip(begin).take(length).map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    let more = |yes: bool| if yes { "…" } else { "" };
    Some(format!("{}{}{}", more(begin > 0), shown.trim(), more(begin + length < text.chars().count())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpt_is_one_line_around_the_match() {
        assert_eq!(excerpt_of("say\nHELLO there", "hello").as_deref(), Some("say HELLO there"));
        let long = format!("{} Needle {}", "a".repeat(100), "b".repeat(100));
        let shown = excerpt_of(&long, "needle").unwrap();
        assert!(shown.starts_with("…a") && shown.contains(" Needle ") && shown.ends_with("b…"), "{shown}");
        assert_eq!(excerpt_of("nothing", "needle"), None);
        assert!(excerpt_of("İstanbul ẞ needle", "needle").is_some(), "lower case of another length");
    }
}
