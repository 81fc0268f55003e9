//! Markdown as data: blocks and inline text, for places that draw it themselves.
//!
//! Hostile characters are escaped in the result, links keep their address only if it leads to a page or a mailbox, and text
//! that nests deeply is one plain block.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use crate::html::{is_harmless, nests_deeply, visible_prose};

/// Maximum number of blocks inside one another.
const MAX_DEPTH: usize = 16;

/// A block of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// A heading of a level from 1 to 6.
    Heading(u8, Vec<Inline>),
    /// A paragraph.
    Paragraph(Vec<Inline>),
    /// Preformatted text.
    Code {
        /// The first word behind the fence; empty if there is none.
        language: String,
        /// The text, with its line breaks.
        text: String,
    },
    /// A quotation.
    Quote(Vec<Block>),
    /// A list.
    List {
        /// Number of the first item; none for a list of bullets.
        first: Option<u64>,
        /// The items.
        items: Vec<Vec<Block>>,
    },
    /// A table: its header, and its rows.
    Table(Vec<Vec<Inline>>, Vec<Vec<Vec<Inline>>>),
    /// A thematic break.
    Rule,
}

/// A piece of text in one style.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inline {
    /// The text; a line break stands alone as `"\n"`.
    pub text: String,
    /// Whether it is emphasised.
    pub emphasis: bool,
    /// Whether it is strong.
    pub strong: bool,
    /// Whether it is struck through.
    pub strike: bool,
    /// Whether it is code.
    pub code: bool,
    /// Address of the link that it is part of.
    pub link: Option<String>,
}

impl Inline {
    fn has_style_of(&self, other: &Self) -> bool {
        let style = |of: &Self| (of.emphasis, of.strong, of.strike, of.code);
        style(self) == style(other) && self.link == other.link
    }
}

/// Parses Markdown.
#[must_use]
pub fn document(text: &str) -> Vec<Block> {
    let text = visible_prose(text);
    if nests_deeply(&text) {
        return vec![Block::Code { language: String::new(), text }];
    }
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut reader = Reader::default();
    Parser::new_ext(&text, options).for_each(|event| reader.read(event));
    reader.finish()
}

/// Returns the length of the beginning of a growing text whose blocks further text cannot change: it ends behind a blank line
/// outside of fences, lists, tables and quotes. Zero if there is none.
#[must_use]
pub fn stable_length(text: &str) -> usize {
    let (mut stable, mut at, mut fence, mut blank) = (0, 0, None::<(char, usize)>, false);
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        let begins_plainly = line.starts_with(|c: char| c.is_alphabetic() || c == '#');
        if blank && fence.is_none() && begins_plainly && !is_definition(trimmed) {
            stable = at;
        }
        if let Some(mark) = fence_of(line) {
            match fence {
                None => fence = Some(mark),
                Some(open) if open.0 == mark.0 && mark.1 >= open.1 && is_only(trimmed, mark.0) => {
                    fence = None;
                }
                Some(_) => {}
            }
        }
        blank = trimmed.is_empty();
        at += line.len();
    }
    // A reference definition further down changes links above it.
    stable
}

fn is_definition(line: &str) -> bool {
    line.starts_with('[')
}

fn is_only(line: &str, mark: char) -> bool {
    line.chars().all(|c| c == mark)
}

/// Returns the mark and the length of a fence at the beginning of a line. Indented ones count too: to take one for a fence that
/// is none only makes the stable part shorter.
fn fence_of(line: &str) -> Option<(char, usize)> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = line.chars().take_while(|c| *c == mark).count();
    (length >= 3).then_some((mark, length))
}

/// A block that is not complete.
#[derive(Debug)]
enum Open {
    Blocks(Vec<Block>, Container),
    Text(Vec<Inline>, TextOf),
    Code(String, String),
    Table { header: Vec<Vec<Inline>>, rows: Vec<Vec<Vec<Inline>>>, row: Vec<Vec<Inline>> },
    List(Option<u64>, Vec<Vec<Block>>),
}

#[derive(Debug)]
enum Container {
    Quote,
    Item,
}

#[derive(Debug)]
enum TextOf {
    Paragraph,
    Heading(u8),
    Cell,
}

#[derive(Debug, Default)]
struct Reader {
    done: Vec<Block>,
    open: Vec<Open>,
    /// Number of open spans of each style: they can be nested.
    emphasis: usize,
    strong: usize,
    strike: usize,
    links: Vec<Option<String>>,
}

impl Reader {
    fn read(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text, false),
            Event::Code(text) => self.text(&text, true),
            Event::SoftBreak => self.text(" ", false),
            Event::HardBreak => self.text("\n", false),
            Event::Rule => self.add(Block::Rule),
            Event::TaskListMarker(done) => self.text(if done { "[x] " } else { "[ ] " }, false),
            _ => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.open.push(Open::Text(Vec::new(), TextOf::Paragraph)),
            Tag::Heading { level, .. } => {
                self.open.push(Open::Text(Vec::new(), TextOf::Heading(level as u8)));
            }
            Tag::BlockQuote(_) => {
                self.end_text();
                self.open.push(Open::Blocks(Vec::new(), Container::Quote));
            }
            Tag::CodeBlock(kind) => {
                self.end_text();
                let language = match kind {
                    CodeBlockKind::Fenced(info) => {
                        visible_prose(info.split([' ', ',', '{']).next().unwrap_or_default())
                    }
                    CodeBlockKind::Indented => String::new(),
                };
                self.open.push(Open::Code(language, String::new()));
            }
            Tag::List(first) => {
                self.end_text();
                self.open.push(Open::List(first, Vec::new()));
            }
            Tag::Item => self.open.push(Open::Blocks(Vec::new(), Container::Item)),
            Tag::Table(_) => {
                self.open.push(Open::Table { header: Vec::new(), rows: Vec::new(), row: Vec::new() });
            }
            Tag::TableCell => self.open.push(Open::Text(Vec::new(), TextOf::Cell)),
            Tag::Emphasis => self.emphasis += 1,
            Tag::Strong => self.strong += 1,
            Tag::Strikethrough => self.strike += 1,
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links.push(is_harmless(&dest_url).then(|| visible_prose(&dest_url)));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Emphasis => self.emphasis = self.emphasis.saturating_sub(1),
            TagEnd::Strong => self.strong = self.strong.saturating_sub(1),
            TagEnd::Strikethrough => self.strike = self.strike.saturating_sub(1),
            TagEnd::Link | TagEnd::Image => drop(self.links.pop()),
            TagEnd::TableHead | TagEnd::TableRow => self.end_row(matches!(tag, TagEnd::TableHead)),
            TagEnd::BlockQuote(_) | TagEnd::Item => {
                self.end_text();
                self.close();
            }
            TagEnd::Paragraph
            | TagEnd::HtmlBlock
            | TagEnd::Heading(_)
            | TagEnd::CodeBlock
            | TagEnd::List(_)
            | TagEnd::Table
            | TagEnd::TableCell => self.close(),
            _ => {}
        }
    }

    fn end_row(&mut self, is_header: bool) {
        if let Some(Open::Table { header, rows, row }) = self.open.last_mut() {
            let cells = std::mem::take(row);
            if is_header {
                *header = cells;
            } else {
                rows.push(cells);
            }
        }
    }

    /// Closes text that no tag has opened: items of tight lists have no paragraphs.
    fn end_text(&mut self) {
        if matches!(self.open.last(), Some(Open::Text(_, TextOf::Paragraph))) {
            self.close();
        }
    }

    fn close(&mut self) {
        let block = match self.open.pop() {
            None => return,
            Some(Open::Text(text, TextOf::Cell)) => {
                if let Some(Open::Table { row, .. }) = self.open.last_mut() {
                    row.push(text);
                }
                return;
            }
            Some(Open::Blocks(blocks, Container::Item)) => {
                if let Some(Open::List(_, items)) = self.open.last_mut() {
                    items.push(blocks);
                }
                return;
            }
            Some(Open::Blocks(blocks, Container::Quote)) => Block::Quote(blocks),
            Some(Open::Text(text, TextOf::Paragraph)) => Block::Paragraph(text),
            Some(Open::Text(text, TextOf::Heading(level))) => Block::Heading(level, text),
            Some(Open::Code(language, text)) => Block::Code { language, text },
            Some(Open::Table { header, rows, .. }) => Block::Table(header, rows),
            Some(Open::List(first, items)) => Block::List { first, items },
        };
        self.add(block);
    }

    fn add(&mut self, block: Block) {
        self.end_text();
        let deep = self.open.len() > MAX_DEPTH;
        match self.open.iter_mut().rev().find_map(|open| match open {
            Open::Blocks(blocks, _) => Some(blocks),
            _ => None,
        }) {
            Some(blocks) if !deep => blocks.push(block),
            _ => self.done.push(block),
        }
    }

    fn text(&mut self, text: &str, code: bool) {
        // Again: references such as `&#27;` have become characters.
        if let Some(Open::Code(_, all)) = self.open.last_mut() {
            all.push_str(&visible_prose(text));
            return;
        }
        let piece = Inline {
            text: visible_prose(text),
            emphasis: self.emphasis > 0,
            strong: self.strong > 0,
            strike: self.strike > 0,
            code,
            link: self.links.last().cloned().flatten(),
        };
        if !matches!(self.open.last(), Some(Open::Text(..))) {
            self.open.push(Open::Text(Vec::new(), TextOf::Paragraph));
        }
        if let Some(Open::Text(pieces, _)) = self.open.last_mut() {
            match pieces.last_mut() {
                Some(last) if last.text != "\n" && piece.text != "\n" && last.has_style_of(&piece) => {
                    last.text.push_str(&piece.text);
                }
                _ => pieces.push(piece),
            }
        }
    }

    fn finish(mut self) -> Vec<Block> {
        while !self.open.is_empty() {
            self.close();
        }
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Inline {
        Inline { text: text.into(), ..Inline::default() }
    }

    #[test]
    fn blocks_and_spans_are_data() {
        let blocks =
            document("# T\n\na **b** `c`\n\n```rust x\nlet a;\n```\n\n- one\n- two\n  1. deep\n\n---\n");
        assert_eq!(blocks[0], Block::Heading(1, vec![plain("T")]));
        let strong = Inline { strong: true, ..plain("b") };
        let code = Inline { code: true, ..plain("c") };
        assert_eq!(blocks[1], Block::Paragraph(vec![plain("a "), strong, plain(" "), code]));
        assert_eq!(blocks[2], Block::Code { language: "rust".into(), text: "let a;\n".into() });
        let deep = Block::List { first: Some(1), items: vec![vec![Block::Paragraph(vec![plain("deep")])]] };
        let items = vec![
            vec![Block::Paragraph(vec![plain("one")])],
            vec![Block::Paragraph(vec![plain("two")]), deep],
        ];
        assert_eq!(blocks[3], Block::List { first: None, items });
        assert_eq!(blocks[4], Block::Rule);
    }

    #[test]
    fn table_has_header_and_rows() {
        let cells = |a: &str, b: &str| vec![vec![plain(a)], vec![plain(b)]];
        let table = Block::Table(cells("a", "b"), vec![cells("1", "2")]);
        assert_eq!(document("| a | b |\n|---|---|\n| 1 | 2 |"), [table]);
    }

    #[test]
    fn control_characters_and_dangerous_links_do_not_come_through() {
        let blocks =
            document("a\u{1b}[2J &#27; &#x202e; [x](javascript:alert(1)) <b>\n\n```\u{7}\n\u{9b}\n```");
        let shown = format!("{blocks:?}");
        assert!(!shown.contains("javascript") && shown.contains("\\\\x1b[2J"), "{shown}");
        let hidden = |c: char| crate::visible::is_hidden(c) && c != '\n';
        let all = |text: &str| text.chars().any(hidden);
        for block in &blocks {
            match block {
                Block::Paragraph(pieces) => assert!(!pieces.iter().any(|piece| all(&piece.text)), "{shown}"),
                Block::Code { language, text } => assert!(!all(language) && !all(text), "{shown}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn hostile_nesting_is_plain_text() {
        let text = "> ".repeat(5000);
        assert!(matches!(&document(&text)[..], [Block::Code { .. }]));
    }

    #[test]
    fn stable_part_and_rest_are_the_whole() {
        let texts = [
            "# A\n\none *two*\nthree\n\nfour\n\n- a\n\n- b\n\n  more\n\nend\n\nof it",
            "a\n\n```\nb\n\nc\n```\n\nd\n\n| x |\n|---|\n| y |\n\ne\n\n> q\n\nf",
            "x\n\n~~~~\n```\n\ny\n~~~\n~~~~\n\nz",
        ];
        for text in texts {
            for (end, _) in text.char_indices().chain([(text.len(), ' ')]) {
                let cut = stable_length(&text[..end]);
                let mut parts = document(&text[..cut]);
                parts.extend(document(&text[cut..end]));
                assert_eq!(parts, document(&text[..end]), "{:?} cut at {cut}", &text[..end]);
                // Whatever follows, the stable blocks stay.
                let stable = document(&text[..cut]);
                assert_eq!(document(text)[..stable.len()], stable, "{:?}", &text[..cut]);
            }
        }
    }
}
