//! Differences between two texts: changed lines as a unified diff, their number, and how similar two texts are.
//!
//! It reads no files and knows no repositories.

use std::path::Path;
use std::time::Duration;

use similar::{ChangeTag, TextDiff};

/// Longest unified diff, in bytes. It is stored with the request that shows it, and readers need no more.
const MAX_DIFF: usize = 64 * 1024;

/// After this time, the rest is compared coarsely: a coarse diff is better than a late one. Two large texts without a
/// common line would take minutes.
const LIMIT: Duration = Duration::from_millis(500);

/// Returns the change of `path` from `old` (`None`: it does not exist) to `new` in the format of `git diff`.
#[must_use]
pub fn unified(path: &Path, old: Option<&str>, new: &str) -> String {
    let path = path.display().to_string();
    let name = path.trim_start_matches('/');
    let mut text = format!("diff --git a/{name} b/{name}\n");
    let from = if old.is_some() { format!("a/{name}") } else { "/dev/null".to_owned() };
    text += if old.is_some() { "index 0000000..0000000 100644\n" } else { "new file mode 100644\n" };

    let hunks = hunks(old.unwrap_or(""), new, 3);
    if !hunks.is_empty() {
        text += &format!("--- {from}\n+++ b/{name}\n{hunks}");
    }
    if text.len() > MAX_DIFF {
        let shown = &text[..text.floor_char_boundary(MAX_DIFF)];
        return format!("{shown}\n[The diff goes on for {} more bytes.]\n", text.len() - shown.len());
    }
    text
}

/// Returns the hunks of a unified diff, each with up to `context` unchanged lines before and after the changes.
#[must_use]
pub fn hunks(old: &str, new: &str, context: usize) -> String {
    lines(old, new).unified_diff().context_radius(context).to_string()
}

/// Returns how many lines were added and removed from `old` to `new`.
#[must_use]
pub fn line_counts(old: &str, new: &str) -> (u64, u64) {
    let diff = lines(old, new);
    let count = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count() as u64;
    (count(ChangeTag::Insert), count(ChangeTag::Delete))
}

/// Returns how similar the words of two texts are, from 0 to 1.
#[must_use]
pub fn similarity(a: &str, b: &str) -> f32 {
    TextDiff::configure().timeout(LIMIT).diff_words(a, b).ratio()
}

fn lines<'a>(old: &'a str, new: &'a str) -> TextDiff<'a, 'a, str> {
    TextDiff::configure().timeout(LIMIT).diff_lines(old, new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diff_has_context_lines() {
        let diff = unified(
            Path::new("/w/a.txt"),
            Some("Hello World\nGoodbye World\n"),
            "Hi Universe\nGoodbye World\n",
        );
        assert_eq!(
            diff,
            "diff --git a/w/a.txt b/w/a.txt\nindex 0000000..0000000 100644\n--- a/w/a.txt\n+++ b/w/a.txt\n\
             @@ -1,2 +1,2 @@\n-Hello World\n+Hi Universe\n Goodbye World\n"
        );
    }

    #[test]
    fn new_file_is_diffed_against_dev_null() {
        let diff = unified(Path::new("/w/new.txt"), None, "one\ntwo");
        assert_eq!(
            diff,
            "diff --git a/w/new.txt b/w/new.txt\nnew file mode 100644\n--- /dev/null\n+++ b/w/new.txt\n\
             @@ -0,0 +1,2 @@\n+one\n+two\n\\ No newline at end of file\n"
        );
    }

    #[test]
    fn hunks_have_context_and_line_numbers() {
        let old: String = (1..=20).map(|n| format!("{n}\n")).collect();
        let new = old.replace("4\n", "four\n").replace("17\n", "").replace("20\n", "20");
        // Written by diff -U2.
        let expected = "@@ -2,5 +2,5 @@\n 2\n 3\n-4\n+four\n 5\n 6\n@@ -12,9 +12,8 @@\n 12\n 13\n-14\n+1four\n 15\n 16\n-17\n 18\n 19\n\
                        -20\n+20\n\\ No newline at end of file\n";
        assert_eq!(hunks(&old, &new, 2), expected);
        assert_eq!(line_counts(&old, &new), (3, 4));
    }

    #[test]
    fn new_and_removed_texts_have_empty_ranges() {
        assert_eq!(hunks("", "a\n", 3), "@@ -0,0 +1 @@\n+a\n");
        assert_eq!(hunks("a\nb\n", "", 3), "@@ -1,2 +0,0 @@\n-a\n-b\n");
        assert_eq!(hunks("a\n", "a\n", 3), "");
    }

    #[test]
    fn similarity_counts_common_words() {
        assert_eq!(similarity("one two three four", "one two three four"), 1.0);
        assert!(similarity("one two", "three four") < 0.5);
        let half = similarity("one two three four ", "one two five six ");
        assert!((0.4..0.8).contains(&half), "{half}");
    }

    #[test]
    fn large_texts_without_a_common_line_are_compared_in_time() {
        let (old, new): (String, String) = (
            (0..50_000).map(|n| format!("a{n}\n")).collect(),
            (0..50_000).map(|n| format!("b{n}\n")).collect(),
        );
        assert_eq!(line_counts(&old, &new), (50_000, 50_000));
    }
}
