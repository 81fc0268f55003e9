//! A session as one HTML page that loads nothing and runs nothing.
//!
//! Everything in a session is untrusted. Text is escaped twice: control and invisible characters as on a terminal, then for
//! HTML. Of Markdown, HTML is shown as text, images become links, and links lead to web and mail addresses only. A content
//! security policy forbids scripts and connections, should all of that fail.

use std::io::Write;

use baton_protocol::{Body, Event, SessionId};
use baton_store::{Seq, Span, Store};
use pulldown_cmark::{CowStr, Event as Md, Options, Parser, Tag, TagEnd, html};

use super::local_time::LocalTime;
use crate::terminal;

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
            format!("<article class=\"answer\">{when}{who}\n{}</article>", markdown(&message.content))
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

/// Escapes text for the page.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in terminal::escaped(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Renders Markdown without anything that a browser would execute or load.
fn markdown(text: &str) -> String {
    let text = terminal::escaped(text);
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let harmless = Parser::new_ext(&text, options).map(|event| match event {
        Md::Html(html) | Md::InlineHtml(html) => Md::Text(html),
        Md::Start(Tag::Link { link_type, dest_url, title, id }) => {
            Md::Start(Tag::Link { link_type, dest_url: target(dest_url), title, id })
        }
        Md::Start(Tag::Image { link_type, dest_url, title, id }) => {
            Md::Start(Tag::Link { link_type, dest_url: target(dest_url), title, id })
        }
        Md::End(TagEnd::Image) => Md::End(TagEnd::Link),
        Md::Start(Tag::HtmlBlock) => Md::Start(Tag::Paragraph),
        Md::End(TagEnd::HtmlBlock) => Md::End(TagEnd::Paragraph),
        other => other,
    });
    let mut out = String::new();
    html::push_html(&mut out, harmless);
    // Again: references such as `&#27;` have become characters.
    terminal::escaped(&out)
}

/// A link's address, if it leads to a page or a mailbox.
fn target(url: CowStr<'_>) -> CowStr<'_> {
    let lower = url.trim().to_lowercase();
    let is_harmless = ["https://", "http://", "mailto:"].iter().any(|scheme| lower.starts_with(scheme));
    if is_harmless { url } else { CowStr::Borrowed("#") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_is_rendered_and_html_in_it_is_text() {
        let page = markdown(
            "# T\n\n**b** <script>alert(1)</script>\n\n<img src=x onerror=alert(1)>\n\n| a |\n|---|\n| 1 |",
        );
        assert!(
            page.contains("<h1>T</h1>") && page.contains("<strong>b</strong>") && page.contains("<td>1</td>"),
            "{page}"
        );
        assert!(!page.contains("<script") && !page.contains("<img"), "{page}");
    }

    #[test]
    fn links_lead_to_pages_and_images_are_links() {
        let page = markdown(
            "[a](javascript:alert(1)) [b](https://b.example) ![c](http://c.example/x.png) [d](JaVaScRiPt:x)",
        );
        assert!(!page.to_lowercase().contains("javascript") && !page.contains("<img"), "{page}");
        assert!(
            page.contains("href=\"https://b.example\"") && page.contains("href=\"http://c.example/x.png\""),
            "{page}"
        );
        let quoted = markdown("[a](<https://x.example/\" onclick=\"alert(1)>)");
        assert!(!quoted.contains("\" onclick"), "{quoted}");
    }

    #[test]
    fn references_to_control_characters_are_escaped() {
        let page = markdown("&#27;[31m &#x202e;x [a](https://b.example \"&#27;\") `&#27;`");
        assert!(!page.contains(['\u{1b}', '\u{202e}']), "{page}");
        assert!(page.contains("\\x1b[31m \\u{202e}x"), "{page}");
    }

    #[test]
    fn text_cannot_leave_its_place() {
        assert_eq!(
            escaped("</pre><b a='\"'>&\u{202e}"),
            "&lt;/pre&gt;&lt;b a=&#39;&quot;&#39;&gt;&amp;\\u{202e}"
        );
    }
}
