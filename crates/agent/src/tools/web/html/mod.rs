//! Conversion of HTML to readable Markdown.
//!
//! A page is processed as a stream of tags and text, not parsed into a tree: headings, paragraphs, lists, links and code
//! need no tree, and a stream has no depth that a hostile page could exhaust. A full HTML parser would be several times
//! the size of all tools here.

mod characters;
mod tags;

use self::characters::decode;
use self::tags::{Token, attribute, next_tag, skip_raw};
use crate::tools::text::listed;

/// Elements whose content is skipped.
const SKIPPED: &str = "noscript template svg iframe title nav select";
/// Elements that begin a new paragraph.
const BLOCKS: &str = "p div section article main header footer aside table dl figure figcaption address \
    details summary hr form fieldset body html center";
/// Elements that begin a new line.
const LINES: &str = "br tr dt dd";

/// Converts the readable part of `html`.
pub(super) fn to_markdown(html: &str) -> String {
    let mut page = Writer::default();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        page.text(&rest[..start]);
        let (token, after) = next_tag(&rest[start..]);
        rest = after;
        match token {
            // Their content is not markup, so only their end tag ends them.
            Token::Open(name, _) if name == "script" || name == "style" => rest = skip_raw(rest, &name),
            Token::Open(name, attributes) => page.open(&name, attributes),
            Token::Close(name) => page.close(&name),
            Token::Nothing => {}
            Token::Text(text) => page.text(text),
        }
    }
    page.text(rest);
    page.finish()
}

/// Writes Markdown.
#[derive(Default)]
struct Writer {
    out: String,
    /// Name of the element being skipped, and its nesting depth.
    skipping: Option<(String, usize)>,
    /// White space before the next word.
    gap: Gap,
    /// Enclosing lists: the number of the next item, or `None` for bullets.
    lists: Vec<Option<u32>>,
    /// Enclosing link: its target, and the start of its text in `out`.
    link: Option<(String, usize)>,
    preformatted: usize,
    quotes: usize,
    /// A marker such as `- ` was just written.
    after_marker: bool,
}

#[derive(Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    #[default]
    Nothing,
    Space,
    Line,
    Paragraph,
}

impl Writer {
    fn open(&mut self, name: &str, attributes: &str) {
        if let Some((skipped, depth)) = &mut self.skipping {
            *depth += usize::from(skipped == name);
            return;
        }
        if listed(SKIPPED, name) {
            self.skipping = Some((name.to_owned(), 1));
            return;
        }
        match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.require(Gap::Paragraph);
                let level = usize::from(name.as_bytes()[1] - b'0');
                self.marker(&format!("{} ", "#".repeat(level)));
            }
            "ul" | "ol" => {
                self.require(if self.lists.is_empty() { Gap::Paragraph } else { Gap::Line });
                self.lists.push((name == "ol").then_some(1));
            }
            "li" => self.item(),
            "pre" => {
                self.require(Gap::Paragraph);
                self.write("```\n");
                self.preformatted += 1;
            }
            "code" if self.preformatted == 0 => self.write("`"),
            "strong" | "b" => self.write("**"),
            "em" | "i" => self.write("*"),
            "a" => {
                // Links are not nested: a new one ends the previous one.
                self.end_link();
                self.link = attribute(attributes, "href").map(|target| (target, self.out.len()));
            }
            "img" => {
                if let Some(alt) = attribute(attributes, "alt").filter(|alt| !alt.trim().is_empty()) {
                    self.text(&format!("[image: {}]", alt.trim()));
                }
            }
            "td" | "th" => {
                let first = self.gap >= Gap::Line || self.out.ends_with('\n') || self.out.is_empty();
                self.write(if first { "| " } else { " | " });
            }
            "blockquote" => {
                self.require(Gap::Paragraph);
                self.quotes += 1;
            }
            _ => self.boundary(name),
        }
    }

    fn close(&mut self, name: &str) {
        if let Some((skipped, depth)) = &mut self.skipping {
            *depth -= usize::from(skipped == name);
            if *depth == 0 {
                self.skipping = None;
            }
            return;
        }
        match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.require(Gap::Paragraph),
            "ul" | "ol" => {
                self.lists.pop();
                self.require(if self.lists.is_empty() { Gap::Paragraph } else { Gap::Line });
            }
            "pre" if self.preformatted > 0 => {
                self.preformatted -= 1;
                let line = if self.out.ends_with('\n') { "" } else { "\n" };
                self.out += line;
                self.out += "```";
                self.require(Gap::Paragraph);
            }
            "code" if self.preformatted == 0 => self.out += "`",
            "strong" | "b" => self.out += "**",
            "em" | "i" => self.out += "*",
            "a" => self.end_link(),
            "blockquote" => {
                self.quotes = self.quotes.saturating_sub(1);
                self.require(Gap::Paragraph);
            }
            _ => self.boundary(name),
        }
    }

    fn boundary(&mut self, name: &str) {
        if listed(BLOCKS, name) {
            self.require(if self.lists.is_empty() { Gap::Paragraph } else { Gap::Line });
        } else if listed(LINES, name) {
            self.require(Gap::Line);
        }
    }

    fn item(&mut self) {
        self.require(Gap::Line);
        let indent = "  ".repeat(self.lists.len().saturating_sub(1).min(8));
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}. ", *number - 1)
            }
            _ => "- ".to_owned(),
        };
        self.marker(&(indent + &mark));
    }

    fn end_link(&mut self) {
        let Some((target, start)) = self.link.take() else { return };
        // A link without text, or within the page, is of no use.
        let useful = !target.is_empty() && !target.starts_with('#') && !target.starts_with("javascript:");
        if useful && self.out.get(start..).is_some_and(|text| !text.trim().is_empty()) {
            let text_start = start + self.out[start..].len() - self.out[start..].trim_start().len();
            self.out.insert(text_start, '[');
            self.out += &format!("]({target})");
        }
    }

    fn require(&mut self, gap: Gap) {
        if !self.after_marker {
            self.gap = self.gap.max(gap);
        }
    }

    /// Writes a marker for the next words.
    fn marker(&mut self, marker: &str) {
        self.write(marker);
        self.after_marker = true;
    }

    /// Writes the pending white space and a text.
    fn write(&mut self, text: &str) {
        let quote = "> ".repeat(self.quotes.min(4));
        self.out += &match self.gap {
            _ if self.out.is_empty() => quote,
            Gap::Nothing => String::new(),
            Gap::Space if self.out.ends_with(['\n', ' ']) => String::new(),
            Gap::Space => " ".to_owned(),
            Gap::Line => format!("\n{quote}"),
            Gap::Paragraph => format!("\n{}\n{quote}", quote.trim_end()),
        };
        self.gap = Gap::Nothing;
        self.after_marker = false;
        self.out += text;
    }

    fn text(&mut self, raw: &str) {
        if raw.is_empty() || self.skipping.is_some() {
            return;
        }
        let text = decode(raw);
        if self.preformatted > 0 {
            self.out += &text;
            return;
        }
        if text.starts_with(char::is_whitespace) {
            self.require(Gap::Space);
        }
        for word in text.split_whitespace() {
            self.write(word);
            self.require(Gap::Space);
        }
        if !text.ends_with(char::is_whitespace) && self.gap == Gap::Space {
            self.gap = Gap::Nothing;
        }
    }

    fn finish(self) -> String {
        let lines: Vec<&str> = self.out.lines().map(str::trim_end).collect();
        lines.join("\n").trim().to_owned()
    }
}

#[cfg(test)]
mod tests;
