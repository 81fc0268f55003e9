//! Differences between two texts: changed lines as a unified diff, their number, and how similar two texts are.
//!
//! Texts are compared as sequences of numbers, one for each distinct line or word. The algorithm is generic, and compiling it
//! for every kind of text made it the largest library of the program. Files and repositories are not its business.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;
use std::time::{Duration, Instant};

use similar::algorithms::{Capture, Compact, Replace, myers};
use similar::{DiffOp, DiffTag, diff_ratio, group_diff_ops};

/// The lines of two texts, compared.
pub struct LineDiff<'a> {
    old: Vec<&'a str>,
    new: Vec<&'a str>,
    ops: Vec<DiffOp>,
}

impl<'a> LineDiff<'a> {
    /// Compares two texts. After the time limit, the rest is compared coarsely: two large texts without a common line would
    /// take minutes.
    #[must_use]
    pub fn new(old: &'a str, new: &'a str, limit: Duration) -> Self {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let new: Vec<&str> = new.split_inclusive('\n').collect();
        let ops = compare(&old, &new, limit);
        Self { old, new, ops }
    }

    /// Returns the hunks of a unified diff, each with up to `context` unchanged lines before and after the changes.
    #[must_use]
    pub fn hunks(&self, context: usize) -> String {
        let mut text = String::new();
        for hunk in group_diff_ops(self.ops.clone(), context) {
            let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { continue };
            let old = header(first.old_range().start..last.old_range().end);
            let new = header(first.new_range().start..last.new_range().end);
            // Writing to a string cannot fail.
            let _ = writeln!(text, "@@ -{old} +{new} @@");
            for op in &hunk {
                self.push_lines(&mut text, *op);
            }
        }
        text
    }

    fn push_lines(&self, text: &mut String, op: DiffOp) {
        let (tag, old, new) = op.as_tag_tuple();
        if tag == DiffTag::Equal {
            return push_all(text, ' ', &self.old[old]);
        }
        push_all(text, '-', &self.old[old]);
        push_all(text, '+', &self.new[new]);
    }

    /// Returns how many lines were added and removed.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let changed = || self.ops.iter().filter(|op| op.tag() != DiffTag::Equal);
        let added: usize = changed().map(|op| op.new_range().len()).sum();
        let removed: usize = changed().map(|op| op.old_range().len()).sum();
        (added as u64, removed as u64)
    }
}

/// Returns how similar the words of two texts are, from 0 to 1.
#[must_use]
pub fn similarity(a: &str, b: &str, limit: Duration) -> f32 {
    let (a, b): (Vec<&str>, Vec<&str>) = (words(a), words(b));
    diff_ratio(&compare(&a, &b, limit), a.len(), b.len())
}

/// Splits a text into words, each with the white space after it.
fn words(text: &str) -> Vec<&str> {
    let mut words: Vec<&str> = Vec::new();
    let mut start = 0;
    let mut after_space = false;
    for (index, c) in text.char_indices() {
        if after_space && !c.is_whitespace() {
            words.push(&text[start..index]);
            start = index;
        }
        after_space = c.is_whitespace();
    }
    words.push(&text[start..]);
    words
}

fn compare(old: &[&str], new: &[&str], limit: Duration) -> Vec<DiffOp> {
    let mut known: HashMap<&str, u32> = HashMap::new();
    let old = numbered(old, &mut known);
    let new = numbered(new, &mut known);
    let mut ops = Compact::new(Replace::new(Capture::new()), &old[..], &new[..]);
    let deadline = Instant::now().checked_add(limit);
    // The hook cannot fail.
    let _ = myers::diff_deadline(&mut ops, &old[..], 0..old.len(), &new[..], 0..new.len(), deadline);
    ops.into_inner().into_inner().into_ops()
}

/// Returns the number of each part: the same for equal parts.
fn numbered<'a>(parts: &[&'a str], known: &mut HashMap<&'a str, u32>) -> Vec<u32> {
    let number = |part: &&'a str| {
        let next = known.len() as u32;
        *known.entry(*part).or_insert(next)
    };
    parts.iter().map(number).collect()
}

/// Returns the lines that a hunk covers, as its header names them.
fn header(lines: Range<usize>) -> String {
    match lines.len() {
        // An empty range is after the line that is named.
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        count => format!("{},{count}", lines.start + 1),
    }
}

fn push_all(text: &mut String, sign: char, lines: &[&str]) {
    for line in lines {
        text.push(sign);
        text.push_str(line);
        if !line.ends_with('\n') {
            text.push_str("\n\\ No newline at end of file\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[test]
    fn hunks_have_context_and_line_numbers() {
        let old: String = (1..=20).map(|n| format!("{n}\n")).collect();
        let new = old.replace("4\n", "four\n").replace("17\n", "").replace("20\n", "20");
        let diff = LineDiff::new(&old, &new, LIMIT);
        // Written by diff -U2.
        let expected = "@@ -2,5 +2,5 @@\n 2\n 3\n-4\n+four\n 5\n 6\n@@ -12,9 +12,8 @@\n 12\n 13\n-14\n+1four\n 15\n 16\n-17\n 18\n 19\n\
                        -20\n+20\n\\ No newline at end of file\n";
        assert_eq!(diff.hunks(2), expected);
        assert_eq!(diff.counts(), (3, 4));
    }

    #[test]
    fn new_and_removed_texts_have_empty_ranges() {
        assert_eq!(LineDiff::new("", "a\n", LIMIT).hunks(3), "@@ -0,0 +1 @@\n+a\n");
        assert_eq!(LineDiff::new("a\nb\n", "", LIMIT).hunks(3), "@@ -1,2 +0,0 @@\n-a\n-b\n");
        assert_eq!(LineDiff::new("a\n", "a\n", LIMIT).hunks(3), "");
    }

    #[test]
    fn similarity_counts_common_words() {
        assert_eq!(similarity("one two three four", "one two three four", LIMIT), 1.0);
        assert_eq!(similarity("one two", "three four", LIMIT), 0.0);
        let half = similarity("one two three four ", "one two five six ", LIMIT);
        assert!((half - 0.5).abs() < 0.01, "{half}");
    }

    #[test]
    fn large_texts_without_a_common_line_are_compared_in_time() {
        let (old, new): (String, String) = (
            (0..50_000).map(|n| format!("a{n}\n")).collect(),
            (0..50_000).map(|n| format!("b{n}\n")).collect(),
        );
        assert_eq!(LineDiff::new(&old, &new, Duration::from_millis(10)).counts(), (50_000, 50_000));
    }
}
