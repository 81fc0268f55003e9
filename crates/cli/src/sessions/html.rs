//! A session as one HTML page that loads nothing and runs nothing.
//!
//! Everything in a session is untrusted, and rendered by [`baton_markup::html`]. A content security policy forbids scripts and
//! connections, should that fail.

use std::io::Write;

use baton_markup::html::escaped;
use baton_protocol::{Body, Event, SessionId};
use baton_store::{Seq, Span, Store};

use super::local_time::LocalTime;
use baton_markup::html::HeadingLevel;

const STYLE: &str = "\
body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem;color:#1c1c1c;background:#fff}\
h1{font-size:1.4rem}header p,time,.note{color:#666;font-size:.85rem}\
article{margin:1rem 0;padding:.2rem 1rem;border-left:3px solid #ccc;overflow-wrap:anywhere}\
.user{border-color:#2a6fdb;white-space:pre-wrap}.error{border-color:#c22}\
pre{background:#f4f4f4;padding:.6rem;overflow:auto;white-space:pre-wrap}\
table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.2rem .5rem}\
summary{cursor:pointer;font-family:monospace}\
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}pre{background:#262626}a{color:#7ab0ff}}";

/// Writes a session as a page. Returns the number of events that it shows.
pub(super) async fn write(
    store: &dyn Store,
    session: &SessionId,
    title: &str,
    out: &mut dyn Write,
) -> anyhow::Result<usize> {
    let time = LocalTime::of_system();
    let title = if title.is_empty() { session.as_str() } else { title };
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{0}</title>\n<style>{STYLE}</style>\n<header><h1>{0}</h1><p>session {1}</p></header>\n<main>\n",
        escaped(title),
        escaped(session.as_str()),
    )?;
    let (mut after, mut shown) = (Seq::ZERO, 0);
    loop {
        let page = store.read(session, Span::After { after, limit: 500 }).await?;
        let Some(last) = page.last() else { break };
        after = last.seq;
        for record in &page {
            let text = String::from_utf8_lossy(&record.body);
            let part = Event::parse(&text).ok().and_then(|event| part(&event, &time));
            if let Some(part) = part {
                shown += 1;
                writeln!(out, "{part}")?;
            }
        }
    }
    writeln!(out, "</main>\n</html>")?;
    Ok(shown)
}

/// The part of the page for an event; none if it is not shown.
fn part(event: &Event, time: &LocalTime) -> Option<String> {
    let when = format!("<time>{}</time>", escaped(&time.format(event.timestamp)));
    Some(match &event.body {
        Body::UserMessage(message) => {
            format!("<article class=\"user\">{when}\n{}</article>", escaped(&message.content))
        }
        Body::AssistantMessage(message) if !message.content.trim().is_empty() => {
            let who = if event.agent_id.is_some() { " sub-agent" } else { "" };
            format!("<article class=\"answer\">{when}{who}\n{}</article>", baton_markup::html::markdown(&message.content, HeadingLevel::H1))
        }
        Body::ToolStart(start) => {
            let arguments = start.arguments.as_ref().map(|json| json.as_str()).unwrap_or_default();
            details(&format!("▸ {}", crate::show::call(start)), arguments)
        }
        Body::ToolComplete(complete) => {
            let result = complete.result.as_ref();
            let text = result.map(|result| result.detailed_content.as_deref().unwrap_or(&result.content));
            let error = complete.error.as_ref().map(|error| error.message.as_str());
            details(if complete.success { "  result" } else { "✗ failed" }, text.or(error).unwrap_or_default())
        }
        Body::SessionError(error) => {
            format!("<article class=\"error\">{when}\n<p>{}</p></article>", escaped(&error.message))
        }
        Body::TurnSettled(settled) if settled.outcome != baton_protocol::event::Outcome::Completed => {
            format!("<p class=\"note\">({})</p>", escaped(&settled.reason))
        }
        Body::HistoryTruncated(_) => {
            "<p class=\"note\">(the conversation was rewound here; it continued without some of the above)</p>".to_owned()
        }
        _ => return None,
    })
}

fn details(summary: &str, text: &str) -> String {
    format!("<details><summary>{}</summary><pre>{}</pre></details>", escaped(summary), escaped(text))
}
