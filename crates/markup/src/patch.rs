//! Unified diffs as data: files, hunks, lines, and the words that changed within lines.
//!
//! The text comes from models and programs: whatever it is, parsing neither fails nor takes long, and every line of it is in
//! the result.

use std::time::{Duration, Instant};

use similar::{ChangeTag, TextDiff};

/// Longest line that is compared word by word, in bytes.
const MAX_LINE: usize = 2048;
/// Most lines of a run of removed or added lines that are compared word by word.
const MAX_RUN: usize = 64;
/// Time for the comparisons of one diff. The lines after it have no marked words.
const LIMIT: Duration = Duration::from_millis(50);

/// The change of one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilePatch {
    /// Name of the file, without the prefix of the format.
    pub path: String,
    /// Whether the file is new, deleted or changed.
    pub kind: PatchKind,
    /// Added and removed lines.
    pub counts: (usize, usize),
    /// The changed parts.
    pub hunks: Vec<Hunk>,
    /// Lines that belong to no hunk, such as the note of a diff that was cut.
    pub notes: Vec<String>,
}

/// What happens to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PatchKind {
    /// It is changed.
    #[default]
    Changed,
    /// It is created.
    Created,
    /// It is deleted.
    Deleted,
}

/// A changed part of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hunk {
    /// Number of the first line before and after the change.
    pub starts: (usize, usize),
    /// The lines.
    pub lines: Vec<PatchLine>,
}

/// A line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchLine {
    /// Whether it was added, removed or neither.
    pub change: Change,
    /// Line number before and after the change.
    pub numbers: (Option<usize>, Option<usize>),
    /// The text in pieces, each with whether it differs from the line it replaces.
    pub pieces: Vec<(String, bool)>,
}

/// What happened to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Same,
    /// It was added.
    Added,
    /// It was removed.
    Removed,
}

impl PatchLine {
    /// Returns the text of the line.
    #[must_use]
    pub fn text(&self) -> String {
        self.pieces.iter().map(|(text, _)| text.as_str()).collect()
    }
}

/// Whether a text looks like a unified diff.
#[must_use]
pub fn is_patch(text: &str) -> bool {
    let mut lines = text.lines().take(40);
    let begins =
        |line: &str| line.starts_with("diff --git ") || line.starts_with("--- ") || line.starts_with("@@ -");
    lines.next().is_some_and(begins) && text.lines().take(200).any(|line| line.starts_with("@@ -"))
}

/// Parses a unified diff.
#[must_use]
pub fn patch(text: &str) -> Vec<FilePatch> {
    let mut files: Vec<FilePatch> = Vec::new();
    let mut left = (0, 0);
    let mut numbers = (0, 0);
    for line in text.lines() {
        let in_hunk = left.0 > 0 || left.1 > 0;
        if !in_hunk {
            if let Some(names) = line.strip_prefix("diff --git ") {
                let path = names.split_once(" b/").map_or(names, |(_, new)| new);
                files.push(FilePatch { path: path.to_owned(), ..FilePatch::default() });
                continue;
            }
            if let Some((old, new)) = line.strip_prefix("@@ -").and_then(ranges) {
                let file = current(&mut files);
                file.hunks.push(Hunk { starts: (old.0, new.0), lines: Vec::new() });
                (left, numbers) = ((old.1, new.1), (old.0, new.0));
                continue;
            }
            header(&mut files, line);
            continue;
        }
        let (change, rest) = match line.as_bytes().first() {
            Some(b'+') => (Change::Added, &line[1..]),
            Some(b'-') => (Change::Removed, &line[1..]),
            Some(b'\\') => {
                current(&mut files).notes.push(line.to_owned());
                continue;
            }
            Some(b' ') => (Change::Same, &line[1..]),
            None => (Change::Same, line),
            // Not a line of a hunk: the numbers were wrong, or the diff was cut.
            Some(_) => {
                left = (0, 0);
                header(&mut files, line);
                continue;
            }
        };
        let file = current(&mut files);
        let (old, new) = (change != Change::Added, change != Change::Removed);
        let numbered = PatchLine {
            change,
            numbers: (old.then_some(numbers.0), new.then_some(numbers.1)),
            pieces: vec![(rest.to_owned(), false)],
        };
        file.counts.0 += usize::from(change == Change::Added);
        file.counts.1 += usize::from(change == Change::Removed);
        numbers = (numbers.0 + usize::from(old), numbers.1 + usize::from(new));
        left = (left.0.saturating_sub(usize::from(old)), left.1.saturating_sub(usize::from(new)));
        if let Some(hunk) = file.hunks.last_mut() {
            hunk.lines.push(numbered);
        }
    }
    let until = Instant::now() + LIMIT;
    files.iter_mut().flat_map(|file| &mut file.hunks).for_each(|hunk| mark_words(&mut hunk.lines, until));
    files
}

fn current(files: &mut Vec<FilePatch>) -> &mut FilePatch {
    if files.is_empty() {
        files.push(FilePatch::default());
    }
    let last = files.len() - 1;
    &mut files[last]
}

/// Reads a line outside of hunks.
fn header(files: &mut Vec<FilePatch>, line: &str) {
    let name = |rest: &str| rest.split('\t').next().unwrap_or_default().to_owned();
    if let Some(old) = line.strip_prefix("--- ") {
        if files.last().is_none_or(|file| !file.hunks.is_empty()) {
            files.push(FilePatch::default());
        }
        let file = current(files);
        if old.starts_with("/dev/null") {
            file.kind = PatchKind::Created;
        } else if file.path.is_empty() {
            file.path = name(old.strip_prefix("a/").unwrap_or(old));
        }
    } else if let Some(new) = line.strip_prefix("+++ ") {
        let file = current(files);
        if new.starts_with("/dev/null") {
            file.kind = PatchKind::Deleted;
        } else {
            file.path = name(new.strip_prefix("b/").unwrap_or(new));
        }
    } else if line.starts_with("new file mode") {
        current(files).kind = PatchKind::Created;
    } else if line.starts_with("deleted file mode") {
        current(files).kind = PatchKind::Deleted;
    } else if !line.starts_with("index ") && !line.is_empty() {
        current(files).notes.push(line.to_owned());
    }
}

/// Parses the ranges of a hunk: first line and number of lines, before and after.
fn ranges(rest: &str) -> Option<((usize, usize), (usize, usize))> {
    let (old, rest) = rest.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let range = |text: &str| match text.split_once(',') {
        Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    };
    Some((range(old)?, range(new)?))
}

/// Marks the words that differ between each run of removed lines and the run of added lines behind it.
fn mark_words(lines: &mut [PatchLine], until: Instant) {
    let mut at = 0;
    while at < lines.len() {
        let run = |from: usize, change: Change| {
            lines[from..].iter().take_while(|line| line.change == change).count()
        };
        let removed = run(at, Change::Removed);
        let added = run(at + removed, Change::Added);
        let pairs = removed.min(added);
        // Runs of different lengths are other text rather than changed lines.
        if removed == added && pairs <= MAX_RUN {
            for pair in at..at + pairs {
                if Instant::now() > until {
                    return;
                }
                let (old, new) = (lines[pair].text(), lines[pair + removed].text());
                if let Some((old, new)) = words(&old, &new) {
                    lines[pair].pieces = old;
                    lines[pair + removed].pieces = new;
                }
            }
        }
        at += (removed + added).max(1);
    }
}

type Pieces = Vec<(String, bool)>;

/// Compares two lines word by word. Returns none if they have little in common.
fn words(old: &str, new: &str) -> Option<(Pieces, Pieces)> {
    if old.len() > MAX_LINE || new.len() > MAX_LINE {
        return None;
    }
    let (old, new) = (tokens(old), tokens(new));
    let diff = TextDiff::configure().timeout(LIMIT / 10).diff_slices(&old, &new);
    if diff.ratio() < 0.4 {
        return None;
    }
    let (mut before, mut after) = (Pieces::new(), Pieces::new());
    for change in diff.iter_all_changes() {
        let changed = change.tag() != ChangeTag::Equal;
        if change.tag() != ChangeTag::Insert {
            push(&mut before, change.value(), changed);
        }
        if change.tag() != ChangeTag::Delete {
            push(&mut after, change.value(), changed);
        }
    }
    Some((before, after))
}

/// Splits a line into words, spaces and single other characters.
fn tokens(line: &str) -> Vec<&str> {
    let kind = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' => 1,
        c if c.is_whitespace() => 2,
        _ => 0,
    };
    let (mut tokens, mut start, mut before) = (Vec::new(), 0, None);
    for (at, c) in line.char_indices() {
        if at > start && (kind(c) == 0 || before != Some(kind(c))) {
            tokens.push(&line[start..at]);
            start = at;
        }
        before = Some(kind(c));
    }
    tokens.push(&line[start..]);
    tokens
}

fn push(pieces: &mut Pieces, text: &str, changed: bool) {
    match pieces.last_mut() {
        Some((last, is_changed)) if *is_changed == changed => last.push_str(text),
        _ => pieces.push((text.to_owned(), changed)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::diff;

    #[test]
    fn own_diffs_are_parsed() {
        let old = "one\nlet limit = 10;\nthree\n";
        let new = "one\nlet limit = 20;\nthree\nfour\n";
        let files = patch(&diff::unified(Path::new("/w/a.rs"), Some(old), new));
        assert_eq!(files.len(), 1);
        let file = &files[0];
        assert_eq!((file.path.as_str(), file.kind, file.counts), ("w/a.rs", PatchKind::Changed, (2, 1)));
        let lines = &file.hunks[0].lines;
        let texts: Vec<_> = lines.iter().map(|line| (line.change, line.numbers, line.text())).collect();
        assert_eq!(
            texts,
            [
                (Change::Same, (Some(1), Some(1)), "one".to_owned()),
                (Change::Removed, (Some(2), None), "let limit = 10;".to_owned()),
                (Change::Added, (None, Some(2)), "let limit = 20;".to_owned()),
                (Change::Same, (Some(3), Some(3)), "three".to_owned()),
                (Change::Added, (None, Some(4)), "four".to_owned()),
            ]
        );
        let marked: Vec<_> = lines[2].pieces.iter().filter(|(_, changed)| *changed).collect();
        assert_eq!(marked, [&("20".to_owned(), true)]);
    }

    #[test]
    fn new_file_is_created() {
        let files = patch(&diff::unified(Path::new("/w/a"), None, "x\n"));
        assert_eq!((files[0].kind, files[0].counts), (PatchKind::Created, (1, 0)));
    }

    #[test]
    fn removed_line_that_looks_like_a_header_stays_a_line() {
        let text = "--- a/x\n+++ b/x\n@@ -1,2 +1,1 @@\n--- old\n same\n";
        let files = patch(text);
        assert_eq!(files.len(), 1);
        assert_eq!(files[0].hunks[0].lines[0].text(), "-- old");
    }

    #[test]
    fn cut_diffs_keep_their_note() {
        let text = "--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n-a\n[The diff goes on for 5 more bytes.]\n";
        assert_eq!(patch(text)[0].notes, ["[The diff goes on for 5 more bytes.]"]);
    }

    #[test]
    fn any_text_is_parsed() {
        for text in
            ["", "@@ -1,99999999999999999999 +1 @@", "@@ -1 +1 @@\n\\", "+++ \n--- \n@@ -0,0 +1 @@\n+é"]
        {
            let _ = patch(text);
        }
        assert!(is_patch("diff --git a/x b/x\n@@ -1 +1 @@\n") && !is_patch("@@ here") && !is_patch(""));
    }
}
