//! The input box: text, cursor, pasted blocks, attached files, and the history of what was sent.

use std::collections::BTreeSet;

use baton_markup::visible;
use unicode_segmentation::UnicodeSegmentation;

use crate::text;

/// A paste with more characters or lines becomes a chip.
const CHIP_CHARS: usize = 1000;
const CHIP_LINES: usize = 10;
/// Largest paste, in bytes.
const MAX_PASTE: usize = 1 << 20;
/// Most entries of the history.
const MAX_HISTORY: usize = 500;

/// The input box.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Editor {
    text: String,
    /// Byte offset of the cursor, between two graphemes.
    cursor: usize,
    /// Pasted blocks: the words that stand for each in the text, and its content.
    chips: Vec<(String, String)>,
    /// Files that were completed; those that are still named in the text are attached.
    files: BTreeSet<String>,
    /// Number of pastes, for the names of chips.
    pastes: usize,
    history: Vec<String>,
    /// Position in the history while it is browsed, and the draft that it replaced.
    browsing: Option<(usize, String)>,
}

/// A message to send.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message {
    /// The text, with what was pasted.
    pub text: String,
    /// Paths of attached files.
    pub files: Vec<String>,
}

/// A row of the box: the range of the text that it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// First byte.
    pub start: usize,
    /// Byte behind the last one.
    pub end: usize,
}

impl Editor {
    /// Returns the text, with chips as words.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether nothing is typed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns the part of the text before the cursor.
    #[must_use]
    pub fn before_cursor(&self) -> &str {
        &self.text[..self.cursor]
    }

    /// Returns the history, oldest first.
    #[must_use]
    pub fn history(&self) -> &[String] {
        &self.history
    }

    /// Sets the history, oldest first.
    pub fn set_history(&mut self, history: Vec<String>) {
        self.history = history;
        self.trim_history();
    }

    /// Replaces the text; the cursor goes to its end.
    pub fn set(&mut self, text: &str) {
        self.text = clean(text);
        self.cursor = self.text.len();
        self.browsing = None;
    }

    /// Inserts a character.
    pub fn insert(&mut self, c: char) {
        if is_typed(c) {
            self.text.insert(self.cursor, c);
            self.cursor += c.len_utf8();
            self.browsing = None;
        }
    }

    /// Inserts pasted text; a large one as a chip.
    pub fn paste(&mut self, pasted: &str) {
        let end = pasted.floor_char_boundary(MAX_PASTE);
        let pasted = clean(&pasted[..end]);
        let is_large = pasted.chars().count() > CHIP_CHARS || pasted.lines().count() > CHIP_LINES;
        if !is_large {
            return self.insert_text(&pasted);
        }
        self.pastes += 1;
        let lines = pasted.lines().count();
        let name = match lines {
            1 => format!("[paste {}: {} characters]", self.pastes, pasted.chars().count()),
            _ => format!("[paste {}: {lines} lines]", self.pastes),
        };
        self.insert_text(&name);
        self.chips.push((name, pasted));
    }

    fn insert_text(&mut self, text: &str) {
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
        self.browsing = None;
    }

    /// Replaces the text from a byte offset to the cursor, such as the beginning of a path by the path.
    pub fn complete(&mut self, from: usize, with: &str, file: Option<&str>) {
        let with = clean(with);
        self.text.replace_range(from..self.cursor, &with);
        self.cursor = from + with.len();
        self.files.extend(file.map(str::to_owned));
    }

    /// Deletes the grapheme before the cursor, or the chip that ends there.
    pub fn backspace(&mut self) {
        let before = self.before_cursor();
        let chip = self.chips.iter().position(|(name, _)| before.ends_with(name.as_str()));
        let length = match chip {
            Some(at) => self.chips.remove(at).0.len(),
            None => before.graphemes(true).next_back().map_or(0, str::len),
        };
        self.delete_before(length);
    }

    /// Deletes the grapheme behind the cursor.
    pub fn delete(&mut self) {
        let length = self.text[self.cursor..].graphemes(true).next().map_or(0, str::len);
        self.text.replace_range(self.cursor..self.cursor + length, "");
    }

    fn delete_before(&mut self, length: usize) {
        let start = self.cursor - length;
        self.text.replace_range(start..self.cursor, "");
        self.cursor = start;
        self.browsing = None;
    }

    /// Deletes the word before the cursor.
    pub fn delete_word(&mut self) {
        let length = self.cursor - self.word_left();
        self.delete_before(length);
    }

    /// Deletes from the cursor to the end of its line.
    pub fn delete_to_end(&mut self) {
        let end = self.line_end();
        let end = if end == self.cursor { (end + 1).min(self.text.len()) } else { end };
        self.text.replace_range(self.cursor..end, "");
    }

    /// Deletes from the start of the line to the cursor.
    pub fn delete_to_start(&mut self) {
        let length = self.cursor - self.line_start();
        self.delete_before(length);
    }

    /// Moves the cursor by graphemes.
    pub fn step(&mut self, back: bool) {
        let length = if back {
            self.text[..self.cursor].graphemes(true).next_back().map_or(0, str::len)
        } else {
            self.text[self.cursor..].graphemes(true).next().map_or(0, str::len)
        };
        self.cursor = if back { self.cursor - length } else { self.cursor + length };
    }

    /// Moves the cursor by a word.
    pub fn step_word(&mut self, back: bool) {
        self.cursor = if back { self.word_left() } else { self.word_right() };
    }

    fn word_left(&self) -> usize {
        let before = self.text[..self.cursor].trim_end();
        before.rfind(char::is_whitespace).map_or(0, |at| at + 1)
    }

    fn word_right(&self) -> usize {
        let rest = &self.text[self.cursor..];
        let start = rest.len() - rest.trim_start().len();
        self.cursor + rest[start..].find(char::is_whitespace).map_or(rest.len(), |at| start + at)
    }

    /// Moves the cursor to the start of its line.
    pub fn to_line_start(&mut self) {
        self.cursor = self.line_start();
    }

    /// Moves the cursor to the end of its line.
    pub fn to_line_end(&mut self) {
        self.cursor = self.line_end();
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |at| self.cursor + at)
    }

    /// Returns the rows of the box at a width.
    #[must_use]
    pub fn rows(&self, width: usize) -> Vec<Row> {
        let (mut rows, mut start) = (Vec::new(), 0);
        for line in self.text.split('\n') {
            let mut at = start;
            for chunk in box_chunks(line, width) {
                rows.push(Row { start: at, end: at + chunk });
                at += chunk;
            }
            start += line.len() + 1;
        }
        rows
    }

    /// Returns the row and the column of the cursor at a width.
    #[must_use]
    pub fn place(&self, width: usize) -> (usize, usize) {
        let rows = self.rows(width);
        let row = rows.iter().rposition(|row| row.start <= self.cursor).unwrap_or(0);
        let column = text::width(&self.text[rows.get(row).map_or(0, |row| row.start)..self.cursor]);
        if column >= width.max(1) { (row + 1, 0) } else { (row, column) }
    }

    /// Moves the cursor up or down by a row, or through the history at the edge.
    pub fn vertical(&mut self, up: bool, width: usize) {
        let rows = self.rows(width);
        let (row, column) = self.place(width);
        let target = if up { row.checked_sub(1) } else { Some(row + 1) };
        match target.and_then(|target| rows.get(target)) {
            Some(target) => {
                let mut used = 0;
                let mut at = target.start;
                for grapheme in self.text[target.start..target.end].graphemes(true) {
                    if used >= column {
                        break;
                    }
                    used += text::width(grapheme);
                    at += grapheme.len();
                }
                self.cursor = at;
            }
            None => self.browse(up),
        }
    }

    fn browse(&mut self, up: bool) {
        let position = match (&self.browsing, up) {
            (None, true) => self.history.len().checked_sub(1),
            (None, false) => return,
            (Some((at, _)), true) => at.checked_sub(1),
            (Some((at, _)), false) => Some(at + 1),
        };
        let Some(position) = position else { return };
        let draft = match self.browsing.take() {
            Some((_, draft)) => draft,
            None => self.text.clone(),
        };
        match self.history.get(position) {
            Some(entry) => {
                let entry = entry.clone();
                self.set(&entry);
                self.browsing = Some((position, draft));
            }
            None => self.set(&draft),
        }
    }

    /// Empties the box. What was typed goes into the history.
    pub fn put_aside(&mut self) {
        let message = self.take();
        self.remember(&message.text);
    }

    /// Adds a text to the history.
    pub fn remember(&mut self, text: &str) {
        if !text.trim().is_empty() && self.history.last().is_none_or(|last| last != text) {
            self.history.push(text.to_owned());
            self.trim_history();
        }
    }

    fn trim_history(&mut self) {
        let surplus = self.history.len().saturating_sub(MAX_HISTORY);
        self.history.drain(..surplus);
    }

    /// Takes the message out of the box.
    pub fn take(&mut self) -> Message {
        let mut text = std::mem::take(&mut self.text);
        for (name, content) in std::mem::take(&mut self.chips) {
            text = text.replacen(&name, &content, 1);
        }
        let is_named = |file: &String| text.contains(&format!("@{file}"));
        let files = std::mem::take(&mut self.files).into_iter().filter(is_named).collect();
        self.cursor = 0;
        self.browsing = None;
        Message { text, files }
    }
}

/// Returns the lengths of the pieces of a line that fit a width, at least one.
fn box_chunks(line: &str, width: usize) -> Vec<usize> {
    let (mut chunks, mut used) = (vec![0], 0);
    for grapheme in line.graphemes(true) {
        let columns = text::width(grapheme);
        if used + columns > width.max(1) && used > 0 {
            chunks.push(0);
            used = 0;
        }
        used += columns;
        if let Some(chunk) = chunks.last_mut() {
            *chunk += grapheme.len();
        }
    }
    chunks
}

/// Whether a character can be typed: others have no place of their own in a row.
fn is_typed(c: char) -> bool {
    c == '\n' || !visible::is_hidden(c) || matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
}

/// Normalises line breaks, and removes characters that cannot be typed.
fn clean(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n").replace('\t', "    ");
    text.chars().filter(|c| is_typed(*c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str) -> Editor {
        let mut editor = Editor::default();
        text.chars().for_each(|c| editor.insert(c));
        editor
    }

    #[test]
    fn keys_edit_text_by_graphemes_and_words() {
        let mut editor = typed("one two e\u{301}x");
        editor.step(true);
        editor.backspace();
        assert_eq!(editor.text(), "one two x");
        editor.delete_word();
        assert_eq!(editor.text(), "one x");
        editor.to_line_start();
        editor.step_word(false);
        editor.delete_to_end();
        assert_eq!(editor.text(), "one");
        editor.delete_to_start();
        assert!(editor.is_empty());
    }

    #[test]
    fn up_and_down_walk_the_history_at_the_edges() {
        let mut editor = Editor::default();
        editor.remember("first");
        editor.remember("second");
        editor.set("draft");
        editor.vertical(true, 20);
        assert_eq!(editor.text(), "second");
        editor.vertical(true, 20);
        editor.vertical(true, 20);
        assert_eq!(editor.text(), "first");
        editor.vertical(false, 20);
        editor.vertical(false, 20);
        assert_eq!(editor.text(), "draft");
        editor.set("two\nlines");
        editor.vertical(true, 20);
        assert_eq!((editor.text(), editor.place(20)), ("two\nlines", (0, 3)));
    }

    #[test]
    fn large_pastes_are_chips_until_they_are_sent() {
        let mut editor = typed("see ");
        let pasted = "line\r\n".repeat(11);
        editor.paste(&pasted);
        assert_eq!(editor.text(), "see [paste 1: 11 lines]");
        assert_eq!(editor.clone().take().text, format!("see {}", "line\n".repeat(11)));
        editor.backspace();
        assert_eq!(editor.text(), "see ");
        editor.paste("a\x1b[31mb\tc");
        assert_eq!(editor.text(), "see a[31mb    c");
    }

    #[test]
    fn completed_files_are_attached_if_still_named() {
        let mut editor = typed("look at @sr");
        editor.complete(8, "@src/a.rs ", Some("src/a.rs"));
        editor.paste("and @x");
        editor.complete(22, "@b ", Some("b"));
        editor.backspace();
        editor.backspace();
        assert_eq!(editor.take().files, ["src/a.rs"]);
    }

    #[test]
    fn cursor_is_placed_at_any_width() {
        let mut editor = typed("日本語 abc\n\nend");
        for width in 2..20 {
            for _ in 0..20 {
                let (row, column) = editor.place(width);
                assert!(column < width && row <= editor.rows(width).len(), "{row} {column} at {width}");
                editor.step(true);
            }
            editor.set("日本語 abc\n\nend");
        }
    }
}
