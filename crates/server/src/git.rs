//! What can be known of a git repository by reading a few of its files. No `git` is run: a session's first event must
//! not wait for a process.

use std::path::{Path, PathBuf};

/// A repository around a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Repository {
    pub(crate) root: PathBuf,
    pub(crate) branch: Option<String>,
    pub(crate) head: Option<String>,
    /// `owner/name` of the remote `origin`, and its host.
    pub(crate) origin: Option<(String, String)>,
}

/// The repository that `directory` is part of.
pub(crate) fn around(directory: &Path) -> Option<Repository> {
    let found = |dir: &Path| Some((dir.to_owned(), git_directory(&dir.join(".git"))?));
    let (root, git) = directory.ancestors().find_map(found)?;
    let shared = common(&git);
    let head = std::fs::read_to_string(git.join("HEAD")).unwrap_or_default();
    let head = head.trim();
    let branch = head.strip_prefix("ref: refs/heads/").map(str::to_owned);
    let commit = match &branch {
        Some(branch) => commit_of(&shared, branch),
        None => Some(head.to_owned()),
    };
    let head = commit.filter(|c| !c.is_empty() && c.bytes().all(|b| b.is_ascii_hexdigit()));
    Some(Repository { root, branch, head, origin: origin(&shared) })
}

/// The directory with the repository's data; a work tree has a file there that names it. As for git itself, one without
/// a `HEAD` is none, whatever its name.
fn git_directory(dot_git: &Path) -> Option<PathBuf> {
    let git = if dot_git.is_dir() {
        dot_git.to_owned()
    } else {
        let text = std::fs::read_to_string(dot_git).ok()?;
        dot_git.parent()?.join(text.trim().strip_prefix("gitdir: ")?)
    };
    git.join("HEAD").exists().then_some(git)
}

/// The commit of a branch: in a file of its own, or in the one into which git packs those that rarely change.
fn commit_of(git: &Path, branch: &str) -> Option<String> {
    let own = std::fs::read_to_string(git.join("refs/heads").join(branch));
    own.map(|commit| commit.trim().to_owned()).ok().or_else(|| {
        let packed = std::fs::read_to_string(git.join("packed-refs")).ok()?;
        let name = format!("refs/heads/{branch}");
        let commit = |line: &str| line.split_once(' ').filter(|(_, r)| *r == name).map(|(c, _)| c.to_owned());
        packed.lines().find_map(commit)
    })
}

/// The directory that all work trees of a repository share.
fn common(git: &Path) -> PathBuf {
    let shared = std::fs::read_to_string(git.join("commondir"));
    shared.map_or_else(|_| git.to_owned(), |path| git.join(path.trim()))
}

fn origin(git: &Path) -> Option<(String, String)> {
    let config = std::fs::read_to_string(git.join("config")).ok()?;
    let section = config.split('[').find(|section| section.starts_with("remote \"origin\"]"))?;
    let url = section.lines().find_map(|line| line.trim().strip_prefix("url")?.trim().strip_prefix('='))?;
    parse_remote(url.trim())
}

/// Host and `owner/name` of a remote: `https://host/owner/name.git` or `git@host:owner/name.git`.
fn parse_remote(url: &str) -> Option<(String, String)> {
    let (host, path) = match url.split_once("://") {
        Some((_, rest)) => rest.split_once('/')?,
        None => url.split_once(':')?,
    };
    let host = host.rsplit('@').next()?.split(':').next()?;
    let path = path.trim_matches('/').trim_end_matches(".git");
    (path.split('/').count() == 2 && !host.is_empty()).then(|| (host.to_owned(), path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remotes_in_both_forms() {
        let expected = Some(("github.com".to_owned(), "o/r".to_owned()));
        for url in [
            "https://github.com/o/r.git",
            "git@github.com:o/r.git",
            "ssh://git@github.com:22/o/r",
            "https://u:p@github.com/o/r",
        ] {
            assert_eq!(parse_remote(url), expected, "{url}");
        }
        assert_eq!(parse_remote("/srv/git/r.git"), None);
    }

    #[test]
    fn reads_a_repository_without_running_git() {
        let dir = tempfile::tempdir().unwrap();
        let git = dir.path().join(".git");
        std::fs::create_dir_all(git.join("refs/heads")).unwrap();
        std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        std::fs::write(git.join("refs/heads/main"), "abc123\n").unwrap();
        std::fs::write(
            git.join("config"),
            "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = git@h:o/r.git\n",
        )
        .unwrap();
        let below = dir.path().join("a/b");
        std::fs::create_dir_all(&below).unwrap();
        let found = around(&below).unwrap();
        assert_eq!(found.root, dir.path());
        assert_eq!((found.branch.as_deref(), found.head.as_deref()), (Some("main"), Some("abc123")));
        assert_eq!(found.origin, Some(("h".into(), "o/r".into())));

        // What git packs, and what only looks like a repository.
        std::fs::remove_file(git.join("refs/heads/main")).unwrap();
        std::fs::write(git.join("packed-refs"), "# pack-refs\ndef456 refs/heads/main\n").unwrap();
        std::fs::create_dir(below.join(".git")).unwrap();
        let found = around(&below).unwrap();
        assert_eq!((found.root.as_path(), found.head.as_deref()), (dir.path(), Some("def456")));
    }
}
