//! Search in titles and conversations. A plain scan: reading ten thousand events takes a fraction of a second.

use baton_protocol::{Body, Event};
use baton_store::{Seq, Span, Store, StoreError, Summary};

/// Characters that are shown before and after a match.
const CONTEXT: usize = 40;
/// Records that are read at once.
const PAGE: usize = 500;

/// A session that matches.
pub struct Found {
    /// The session.
    pub summary: Summary,
    /// Number of messages that match.
    pub matches: usize,
    /// Text around the first match, on one line.
    pub excerpt: String,
}

/// Finds up to `limit` sessions that contain a text, last changed first. Letter case does not matter.
///
/// # Errors
/// When the store cannot be read.
pub async fn search(store: &dyn Store, wanted: &str, limit: usize) -> Result<Vec<Found>, StoreError> {
    let wanted = wanted.trim().to_lowercase();
    let mut found = Vec::new();
    for summary in store.list().await? {
        if found.len() == limit || wanted.is_empty() {
            break;
        }
        match search_session(store, summary, &wanted).await {
            // Deleted meanwhile.
            Err(StoreError::NotFound(_)) => {}
            result => found.extend(result?),
        }
    }
    Ok(found)
}

async fn search_session(
    store: &dyn Store,
    summary: Summary,
    wanted: &str,
) -> Result<Option<Found>, StoreError> {
    let title = crate::metadata::of(&summary).summary.unwrap_or_default();
    let (mut matches, mut excerpt) = (0, None);
    if let Some(around) = excerpt_of(&title, wanted) {
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
    Ok(excerpt.map(|excerpt| Found { summary, matches, excerpt }))
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
