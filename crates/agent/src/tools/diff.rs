//! Unified diffs for permission requests.

use std::path::Path;
use std::time::Duration;

use baton_diff::LineDiff;

use super::text::clip;

/// Longest diff, in bytes. It is stored with the request, and readers need no more.
const MAX_DIFF: usize = 64 * 1024;

/// After this time, the rest is compared coarsely: a coarse diff is better than a late one.
const LIMIT: Duration = Duration::from_millis(500);

/// Returns the change of `path` from `old` (`None`: it does not exist) to `new` in the format of `git diff`.
#[must_use]
pub fn unified(path: &Path, old: Option<&str>, new: &str) -> String {
    let path = path.display().to_string();
    let name = path.trim_start_matches('/');
    let mut text = format!("diff --git a/{name} b/{name}\n");
    let from = if old.is_some() { format!("a/{name}") } else { "/dev/null".to_owned() };
    text += if old.is_some() { "index 0000000..0000000 100644\n" } else { "new file mode 100644\n" };

    let hunks = LineDiff::new(old.unwrap_or(""), new, LIMIT).hunks(3);
    if !hunks.is_empty() {
        text += &format!("--- {from}\n+++ b/{name}\n{hunks}");
    }
    if text.len() > MAX_DIFF {
        let shown = clip(&text, MAX_DIFF);
        return format!("{shown}\n[The diff goes on for {} more bytes.]\n", text.len() - shown.len());
    }
    text
}

/// Returns how many lines were added and removed from `old` to `new`.
#[must_use]
pub fn line_counts(old: &str, new: &str) -> (u64, u64) {
    LineDiff::new(old, new, LIMIT).counts()
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
    fn added_and_removed_lines_are_counted() {
        assert_eq!(line_counts("a\nb\n", "a\nc\nd\n"), (2, 1));
        assert_eq!((line_counts("", "x"), line_counts("x", "x")), ((1, 0), (0, 0)));
    }

    #[test]
    fn diff_over_the_limit_is_cut() {
        let diff = unified(Path::new("/w/big"), None, &"ä line\n".repeat(100_000));
        assert!(diff.len() < MAX_DIFF + 100 && diff.contains("more bytes"), "{}", diff.len());
    }
}
