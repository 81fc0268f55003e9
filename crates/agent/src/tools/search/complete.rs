//! Completion of paths that a person types: no tool, and no model sees it.
//!
//! Paths are below one directory. Links are neither followed nor listed, and what `.gitignore` names is skipped.

use std::cmp::Reverse;
use std::path::Path;

use baton_disk::beneath::Directory;
use rustix::fs::FileType;
use serde::{Deserialize, Serialize};

use super::walk_below;

/// Number of entries that are looked at.
const MAX_ENTRIES: usize = 20_000;

/// Longest text that is searched for, in bytes.
const MAX_QUERY: usize = 1024;

/// Paths that complete a text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completions {
    /// The paths, best match first.
    pub files: Vec<CompletedPath>,
    /// Whether the directory is so large that not all of it was looked at.
    pub truncated: bool,
}

/// A path that completes a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompletedPath {
    /// The path, relative to the directory that was searched.
    pub path: String,
    /// Whether it is a directory.
    pub directory: bool,
}

/// Returns at most `limit` paths below `root` that match a text: its letters in their order, upper or lower case. An empty text
/// matches the entries of `root` itself. Nothing is found in a root that is a link or does not exist. Blocks.
#[must_use]
pub fn complete(root: &Path, query: &str, limit: usize) -> Completions {
    let query = query.strip_prefix("./").unwrap_or(query);
    let (Ok(top), Ok(root)) = (Directory::root(), root.canonicalize()) else { return Completions::default() };
    let climbs = query.split('/').any(|part| part == "..");
    if climbs || query.len() > MAX_QUERY || top.kind(&root).ok() != Some(FileType::Directory) {
        return Completions::default();
    }
    let hidden = query.starts_with('.') || query.contains("/.");
    let depth = query.is_empty().then_some(1);
    let mut walk =
        walk_below(&root, |path| path.ends_with(".git"), |walk| _ = walk.hidden(!hidden).max_depth(depth));
    let (mut found, query) = (Vec::new(), query.to_lowercase());
    let mut seen = 0;
    for entry in walk.by_ref().take(MAX_ENTRIES) {
        seen += 1;
        let Some(kind) = entry.file_type().filter(|kind| kind.is_file() || kind.is_dir()) else { continue };
        let below = entry.path().strip_prefix(&root).ok().and_then(Path::to_str);
        let Some(path) = below.filter(|path| !path.is_empty()) else { continue };
        if let Some(rank) = rank(path, &query) {
            found.push((rank, CompletedPath { path: path.to_owned(), directory: kind.is_dir() }));
        }
    }
    found.sort_by(|(one, a), (other, b)| (one, a.path.len(), &a.path).cmp(&(other, b.path.len(), &b.path)));
    // A directory may have been replaced by a link since the walk entered it.
    let exists = |found: &CompletedPath| {
        let kind = if found.directory { FileType::Directory } else { FileType::RegularFile };
        top.kind(&root.join(&found.path)).ok() == Some(kind)
    };
    let files = found.into_iter().map(|(_, found)| found).filter(exists).take(limit).collect();
    Completions { files, truncated: seen == MAX_ENTRIES && walk.next().is_some() }
}

/// Returns how well a path matches, best first; none if it does not. `query` is in lower case.
fn rank(path: &str, query: &str) -> Option<Reverse<u8>> {
    let path = path.to_lowercase();
    let name = path.rsplit('/').next().unwrap_or(&path);
    let quality = match () {
        () if name == query || path == query => 5,
        () if name.starts_with(query) => 4,
        () if path.starts_with(query) => 3,
        () if name.contains(query) => 2,
        () if path.contains(query) => 1,
        () => {
            let mut letters = path.chars();
            query.chars().all(|wanted| letters.any(|letter| letter == wanted)).then_some(0)?
        }
    };
    Some(Reverse(quality))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn project() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for path in
            ["src/main.rs", "src/domain/mod.rs", "README.md", ".github/ci.yml", "out/main.o", ".git/config"]
        {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        fs::write(dir.path().join(".gitignore"), "out/\n").unwrap();
        dir
    }

    fn paths(root: &Path, query: &str) -> Vec<String> {
        complete(root, query, 10).files.into_iter().map(|found| found.path).collect()
    }

    #[test]
    fn best_matches_come_first_and_ignored_files_are_left_out() {
        let dir = project();
        assert_eq!(paths(dir.path(), ""), ["src", "README.md"]);
        assert_eq!(paths(dir.path(), "Main"), ["src/main.rs", "src/domain", "src/domain/mod.rs"]);
        assert_eq!(paths(dir.path(), "./src/"), ["src/domain", "src/main.rs", "src/domain/mod.rs"]);
        assert_eq!(paths(dir.path(), "smr"), ["src/main.rs", "src/domain/mod.rs"]);
        assert_eq!(paths(dir.path(), ".git"), [".github", ".gitignore", ".github/ci.yml"]);
        assert_eq!(paths(dir.path(), &"x".repeat(2000)), [""; 0]);
        assert_eq!(complete(dir.path(), "", 1).files.len(), 1);
    }

    #[test]
    fn links_and_paths_outside_are_never_listed() {
        let (dir, outside) = (project(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("secret.txt"), "").unwrap();
        symlink(outside.path(), dir.path().join("link")).unwrap();
        symlink(outside.path().join("secret.txt"), dir.path().join("secret.lnk")).unwrap();
        for query in ["secret", "link", "../", "link/secret", "/etc/passwd", ".."] {
            assert_eq!(paths(dir.path(), query), [""; 0], "{query}");
        }
    }
}
