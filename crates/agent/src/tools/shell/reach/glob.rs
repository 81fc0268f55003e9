//! Globs: the paths that a pattern matches on disk.
//!
//! Every special character stands for any text here: `*`, `?` and `[...]` alike, hidden files included. So a pattern
//! matches at least what it matches in a shell, in every locale and with every option of it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Limit on the entries of directories that the globs of a line are compared with.
const MOST_ENTRIES: usize = 20_000;
/// Limit on the paths that the globs of a line match.
const MOST_MATCHES: usize = 4_000;

/// The remaining limits of a line.
pub(super) struct Budget {
    entries: usize,
    matches: usize,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self { entries: MOST_ENTRIES, matches: MOST_MATCHES }
    }

    /// Whether a path is a link or a directory with a link below it. If that cannot be found out, it may be.
    #[expect(clippy::disallowed_methods, reason = "callers run on a blocking thread")]
    pub(super) fn finds_link(&mut self, path: PathBuf) -> bool {
        let mut paths = vec![path];
        while let Some(path) = paths.pop() {
            if Self::spend(&mut self.entries).is_none() {
                return true;
            }
            match path.symlink_metadata() {
                Ok(found) if found.is_symlink() => return true,
                Ok(found) if found.is_dir() => {
                    let Ok(entries) = std::fs::read_dir(&path) else { return true };
                    paths.extend(entries.flatten().map(|entry| entry.path()));
                }
                // What is not there has no links.
                Ok(_) | Err(_) => {}
            }
        }
        false
    }

    /// Counts down. `None` if nothing was left.
    fn spend(left: &mut usize) -> Option<()> {
        *left = left.checked_sub(1)?;
        Some(())
    }
}

/// A path with special characters.
#[derive(Debug, Default)]
pub(super) struct Pattern {
    /// Characters, and whether each is special.
    characters: Vec<(char, bool)>,
}

impl Pattern {
    /// Adds literal text.
    pub(super) fn push_literal(&mut self, text: &str) {
        self.characters.extend(text.chars().map(|c| (c, false)));
    }

    /// Adds text outside quotes.
    pub(super) fn push_bare(&mut self, text: &str) {
        self.characters.extend(text.chars().map(|c| (c, matches!(c, '*' | '?' | '['))));
    }

    /// Returns the pattern as text.
    pub(super) fn text(&self) -> String {
        self.characters.iter().map(|(c, _)| c).collect()
    }

    /// Whether it matches other paths than its text.
    pub(super) fn is_glob(&self) -> bool {
        self.components().any(|component| component.is_glob())
    }

    fn components(&self) -> impl Iterator<Item = Component<'_>> {
        self.characters.split(|(c, _)| *c == '/').map(Component)
    }

    /// Returns the paths that it matches below these directories, relative as the pattern is. `None` if there are too many.
    pub(super) fn matches(&self, directories: &[PathBuf], budget: &mut Budget) -> Option<Vec<String>> {
        let components: Vec<Component<'_>> = self.components().collect();
        let mut found = Vec::new();
        for directory in directories {
            descend(directory, "", &components, budget, &mut found)?;
        }
        Some(found)
    }
}

/// The part of a pattern between two slashes.
struct Component<'a>(&'a [(char, bool)]);

impl Component<'_> {
    /// Whether it has a special character. `[` is one only before `]`.
    fn is_glob(&self) -> bool {
        let closes = self.0.iter().any(|(c, _)| *c == ']');
        self.0.iter().any(|(c, special)| *special && (*c != '[' || closes))
    }

    /// Whether it is `**`, which stands for any number of directories in some shells.
    fn is_recursive(&self) -> bool {
        matches!(self.0, [('*', true), ('*', true)])
    }

    fn begins_with_dot(&self) -> bool {
        self.0.first().is_some_and(|(c, _)| *c == '.')
    }

    fn text(&self) -> String {
        self.0.iter().map(|(c, _)| c).collect()
    }

    /// Whether a name may match. Behind `[` anything does.
    fn may_match(&self, name: &str) -> bool {
        let bracket = self.0.iter().position(|(c, special)| *special && *c == '[');
        let (known, is_open) = (&self.0[..bracket.unwrap_or(self.0.len())], bracket.is_some());
        let mut texts =
            known.split(|(_, special)| *special).map(|text| text.iter().map(|(c, _)| c).collect());
        let first: String = texts.next().unwrap_or_default();
        let Some(mut rest) = name.strip_prefix(first.as_str()) else { return false };
        let mut texts: Vec<String> = texts.collect();
        let last = if is_open { None } else { texts.pop() };
        for text in texts {
            let Some(at) = rest.find(&text) else { return false };
            rest = &rest[at + text.len()..];
        }
        last.is_none_or(|last| rest.ends_with(&last))
    }
}

/// Adds the paths that components match in a directory, each with a prefix.
fn descend(
    directory: &Path,
    prefix: &str,
    components: &[Component<'_>],
    budget: &mut Budget,
    found: &mut Vec<String>,
) -> Option<()> {
    let Some((first, rest)) = components.split_first() else {
        found.push(prefix.to_owned());
        return Budget::spend(&mut budget.matches);
    };
    if first.is_recursive() && !rest.is_empty() {
        descend(directory, prefix, rest, budget, found)?;
        for name in names(&directory.join(prefix), first, budget)? {
            let below = format!("{prefix}{name}/");
            if is_real_directory(&directory.join(&below[..below.len() - 1])) {
                descend(directory, &below, components, budget, found)?;
            }
        }
    }
    let names = match first.is_glob() {
        true => names(&directory.join(prefix), first, budget)?,
        false => vec![first.text()],
    };
    let slash = if rest.is_empty() { "" } else { "/" };
    for name in names {
        descend(directory, &format!("{prefix}{name}{slash}"), rest, budget, found)?;
    }
    Some(())
}

/// Returns the names in a directory that a component may match. `None` if there are too many, or one is not text.
#[expect(clippy::disallowed_methods, reason = "callers run on a blocking thread")]
fn names(directory: &Path, component: &Component<'_>, budget: &mut Budget) -> Option<Vec<String>> {
    // Only a dot that is written matches these.
    let own = [".", ".."].into_iter().filter(|name| component.begins_with_dot() && component.may_match(name));
    let mut names: Vec<String> = own.map(str::to_owned).collect();
    // A directory that cannot be read has no matches in the shell either.
    let Ok(entries) = std::fs::read_dir(directory) else { return Some(names) };
    for entry in entries.flatten() {
        Budget::spend(&mut budget.entries)?;
        let name = entry.file_name();
        match name.to_str() {
            Some(name) if component.may_match(name) => names.push(name.to_owned()),
            Some(_) => {}
            None if component.may_match(&as_text(&name)) => return None,
            None => {}
        }
    }
    Some(names)
}

/// Whether a path is a directory, and no link to one.
#[expect(clippy::disallowed_methods, reason = "callers run on a blocking thread")]
fn is_real_directory(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}

fn as_text(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(pattern: &str, directory: &Path) -> Option<Vec<String>> {
        let mut parsed = Pattern::default();
        parsed.push_bare(pattern);
        let mut found = parsed.matches(&[directory.to_owned()], &mut Budget::new())?;
        found.sort();
        Some(found)
    }

    #[test]
    fn patterns_match_at_least_what_a_shell_matches() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a.rs", "b.rs", "b.txt", ".hidden"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        std::fs::create_dir_all(dir.path().join("sub/deep")).unwrap();
        std::fs::write(dir.path().join("sub/deep/x"), "").unwrap();
        let matched = |pattern: &str| matched(pattern, dir.path()).unwrap();
        assert_eq!(matched("*.rs"), ["a.rs", "b.rs"]);
        assert_eq!(matched("b?*"), ["b.rs", "b.txt"]);
        assert_eq!(
            matched("[ab].rs"),
            [".hidden", "a.rs", "b.rs", "b.txt", "sub"],
            "brackets match anything"
        );
        assert_eq!(matched("s*/d*/x"), ["sub/deep/x"]);
        assert_eq!(matched("s*/deep/../y"), ["sub/deep/../y"]);
        assert_eq!(matched(".*"), [".", "..", ".hidden"]);
        assert!(matched("*").iter().all(|name| name != ".."));
        assert!(matched("**/x").contains(&"sub/deep/x".to_owned()));
        assert_eq!(matched("none*"), Vec::<String>::new());
        let above = format!("{}/*.txt", dir.path().display());
        assert_eq!(matched(&above), [dir.path().join("b.txt").display().to_string()]);
    }

    #[test]
    fn quoted_characters_are_literal() {
        let mut pattern = Pattern::default();
        pattern.push_literal("*");
        pattern.push_bare("a[");
        assert!(!pattern.is_glob());
        assert_eq!(pattern.text(), "*a[");
    }

    #[test]
    fn too_many_entries_are_not_listed() {
        let dir = tempfile::tempdir().unwrap();
        (0..5).for_each(|n| std::fs::write(dir.path().join(n.to_string()), "").unwrap());
        let mut pattern = Pattern::default();
        pattern.push_bare("*");
        let mut budget = Budget { entries: 4, matches: 100 };
        assert!(pattern.matches(&[dir.path().to_owned()], &mut budget).is_none());
    }
}
