//! Untrusted text as HTML: escaped, or rendered from Markdown.
//!
//! The renderer emits an allow-list of tags by construction: it writes tags only for Markdown events, HTML in the text is
//! shown as text, images become links, and links lead to web and mail addresses only. A sanitiser that parses HTML, such as
//! `ammonia`, would be a second guard, at the price of an HTML parser in the program; there is no HTML to parse here.

pub use pulldown_cmark::HeadingLevel;
use pulldown_cmark::{Alignment, CowStr, Event, Options, Parser, Tag, TagEnd, html};

use crate::visible;

/// Maximum number of quotes and list items that one line opens.
const MAX_BLOCKS: usize = 64;

/// Escapes control and invisible characters of prose. Line breaks stay.
#[must_use]
pub fn visible_prose(text: &str) -> String {
    visible::prose_lines(text).collect::<Vec<_>>().join("\n")
}

/// Escapes text for a page: invisible characters first, then those that mean something in HTML.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in visible_prose(text).chars() {
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

/// Renders Markdown without anything that a browser would execute or load. Headings start at level `top`, so that they fit
/// into the outline of the page around them.
#[must_use]
pub fn markdown(text: &str, top: HeadingLevel) -> String {
    let text = visible_prose(text);
    if nests_deeply(&text) {
        return format!("<pre>{}</pre>\n", escaped(&text));
    }
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    // Whether each open link has an address that was kept.
    let mut links = Vec::new();
    let harmless = Parser::new_ext(&text, options).map(|event| match event {
        Event::Html(html) | Event::InlineHtml(html) => Event::Text(html),
        Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
        Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
        Event::Start(
            Tag::Link { link_type, dest_url, title, id } | Tag::Image { link_type, dest_url, title, id },
        ) => {
            links.push(is_harmless(&dest_url));
            match links.last() {
                Some(true) => Event::Start(Tag::Link { link_type, dest_url, title, id }),
                _ => Event::InlineHtml(CowStr::Borrowed("<span>")),
            }
        }
        Event::End(TagEnd::Link | TagEnd::Image) => match links.pop() {
            Some(true) => Event::End(TagEnd::Link),
            _ => Event::InlineHtml(CowStr::Borrowed("</span>")),
        },
        // Alignments would become inline styles, which the policy of the page forbids.
        Event::Start(Tag::Table(columns)) => Event::Start(Tag::Table(vec![Alignment::None; columns.len()])),
        Event::Start(Tag::Heading { level, .. }) => Event::Start(Tag::Heading {
            level: below(level, top),
            id: None,
            classes: Vec::new(),
            attrs: Vec::new(),
        }),
        Event::End(TagEnd::Heading(level)) => Event::End(TagEnd::Heading(below(level, top))),
        other => other,
    });
    let mut out = String::new();
    html::push_html(&mut out, harmless);
    // Again: references such as `&#27;` have become characters.
    visible_prose(&out)
}

/// Whether a line opens more blocks than people do. Each block costs a tag, and the parser visits all open blocks in each line:
/// a megabyte of `>` would be thirty megabytes of tags.
pub(crate) fn nests_deeply(text: &str) -> bool {
    text.lines().any(|line| opened_blocks(line).nth(MAX_BLOCKS).is_some() && !is_rule(line))
}

/// Returns the marks of quotes and list items at the start of a line.
fn opened_blocks(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let start = rest.trim_start_matches([' ', '\t']);
        let number = start.len() - start.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (mark, after) = start.split_at_checked(number + 1)?;
        let is_item = after.is_empty() || after.starts_with([' ', '\t']);
        let is_mark = match mark.chars().last() {
            Some('>') => number == 0,
            Some('-' | '*' | '+') => number == 0 && is_item,
            Some('.' | ')') => number > 0 && is_item,
            _ => false,
        };
        rest = after;
        is_mark.then_some(mark)
    })
}

/// Whether a line is a thematic break, or the underline of a heading, however long.
fn is_rule(line: &str) -> bool {
    let mut marks = line.chars().filter(|c| !c.is_whitespace());
    match marks.next() {
        Some(mark @ ('-' | '*')) => marks.all(|c| c == mark),
        _ => false,
    }
}

/// Moves a heading down by the distance between `top` and the highest level.
fn below(level: HeadingLevel, top: HeadingLevel) -> HeadingLevel {
    HeadingLevel::try_from(level as usize + top as usize - 1).unwrap_or(HeadingLevel::H6)
}

/// Whether a link leads to a page or a mailbox. One that begins with a blank is written as `%20https://...`, a page of our own.
pub(crate) fn is_harmless(url: &str) -> bool {
    let lower = url.to_lowercase();
    ["https://", "http://", "mailto:"].iter().any(|scheme| lower.starts_with(scheme))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str) -> String {
        markdown(text, HeadingLevel::H1)
    }

    #[test]
    fn markdown_is_rendered_and_html_in_it_is_text() {
        let page = rendered(
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
        let page = rendered(
            "[a](javascript:alert(1)) [b](https://b.example) ![c](http://c.example/x.png) [d](JaVaScRiPt:x) [e](data:x)",
        );
        assert!(!page.to_lowercase().contains("javascript") && !page.contains("<img"), "{page}");
        assert!(!page.contains("data:"), "{page}");
        assert!(
            page.contains("href=\"https://b.example\"") && page.contains("href=\"http://c.example/x.png\""),
            "{page}"
        );
        let blank = rendered("[a](< https://x.example>) [b](<&#32;https://x.example>)");
        assert_eq!(blank, "<p><span>a</span> <span>b</span></p>\n", "a browser would ask us for `%20https:`");
        let quoted = rendered("[a](<https://x.example/\" onclick=\"alert(1)>)");
        assert!(!quoted.contains("\" onclick"), "{quoted}");
    }

    #[test]
    fn deeply_nested_text_is_not_rendered() {
        for mark in [">", "> ", "- ", "1. ", "* > "] {
            let page = rendered(&format!("**b**\n{}x", mark.repeat(1 << 16)));
            assert!(page.starts_with("<pre>**b**") && page.len() < 1 << 20, "{mark:?}: {} bytes", page.len());
        }
        let table = format!("+{}+", "-".repeat(200));
        for (text, tag) in [
            ("> > - 1. deep", "<li>deep</li>"),
            (&*format!("**b**\n\n{}", "- ".repeat(100)), "<hr />"),
            (&*format!("**b**\n\n```\n{table}\n```"), "<strong>b</strong>"),
            (&*format!("title\n{}", "-".repeat(200)), "<h2>title</h2>"),
        ] {
            assert!(rendered(text).contains(tag), "{text}: {}", rendered(text));
        }
    }

    /// Every `<` of the output begins a tag of the list, with no attribute but the expected ones.
    #[test]
    fn hostile_markdown_yields_allowed_tags_only() {
        let hostile = [
            "<svg/onload=alert(1)>",
            "<svg><script>alert(1)</script></svg>",
            "<iframe srcdoc='<script>'>",
            "[x](javascript&colon;alert(1))",
            "[x](\tjava\nscript:alert(1))",
            "![x](x \"onerror=alert(1)\")",
            "[a]: javascript:alert(1)\n[a]",
            "<javascript:alert(1)>",
            "<https://x/\"onmouseover=alert(1)>",
            "```\"><script>alert(1)</script>\nx\n```",
            "# <b onclick=x>",
            "| <script> |\n|---|\n| <style>* |",
            "[![x](javascript:1)](javascript:2)",
            "[[x](https://a.example)](javascript:1)",
            "<!-- --><base href=x>",
            "<math><mi xlink:href=javascript:1>",
            "- [ ] <input autofocus onfocus=alert(1)>",
            "<![CDATA[<script>]]>",
        ];
        let tags = [
            "p",
            "h1",
            "h2",
            "h3",
            "h4",
            "h5",
            "h6",
            "blockquote",
            "pre",
            "code",
            "ul",
            "ol",
            "li",
            "table",
            "thead",
            "tbody",
            "tr",
            "th",
            "td",
            "em",
            "strong",
            "del",
            "a",
            "br",
            "hr",
            "input",
            "span",
            "div",
        ];
        for text in hostile {
            let page = rendered(text);
            for part in page.split('<').skip(1) {
                let tag = part.split('>').next().unwrap_or_default().trim_start_matches('/');
                let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
                assert!(tags.contains(&name.trim_end_matches('/')), "{text:?} gave {page:?}");
                let allowed = [
                    "href=\"http",
                    "href=\"mailto:",
                    "class=\"language-",
                    "title=\"",
                    "disabled",
                    "type=",
                    "start=",
                    "/",
                ];
                assert!(
                    attributes.is_empty() || allowed.iter().any(|start| attributes.starts_with(start)),
                    "{text:?} gave {page:?}"
                );
            }
        }
    }

    #[test]
    fn headings_start_below_those_of_the_page() {
        assert_eq!(markdown("# a\n\n##### b", HeadingLevel::H4), "<h4>a</h4>\n<h6>b</h6>\n");
    }

    #[test]
    fn references_to_control_characters_are_escaped() {
        let page = rendered("&#27;[31m &#x202e;x [a](https://b.example \"&#27;\") `&#27;`");
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
