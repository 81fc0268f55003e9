//! What can be known of a git repository by reading a few of its files. No `git` is run: a session's first event must
//! not wait for a process.
//!
//! A repository is hostile input: all of its files are read by [`baton_agent::untrusted`], and none outside its git
//! directory. All of this blocks.

mod config;
pub(crate) mod program;

use std::path::{Path, PathBuf};

use baton_agent::untrusted::{Directory, Unreadable};

/// Files of one line: `HEAD`, a branch, the pointers between work trees.
const LINE: usize = 4 << 10;
const CONFIG: usize = 1 << 20;
/// Large repositories have tens of thousands of references.
const PACKED_REFS: usize = 16 << 20;

/// A repository around a directory.
#[derive(Debug)]
pub(crate) struct Repository {
    pub(crate) root: PathBuf,
    pub(crate) branch: Option<String>,
    pub(crate) head: Option<String>,
    /// `owner/name` of the remote `origin`, and its host.
    pub(crate) origin: Option<(String, String)>,
    data: Data,
}

/// Where git keeps what it knows.
#[derive(Debug)]
struct Data {
    /// Of this work tree: `HEAD`, the index.
    own: Directory,
    /// Of all work trees: references, objects, configuration. None if it is `own`.
    common: Option<Directory>,
}

impl Data {
    fn common(&self) -> &Directory {
        self.common.as_ref().unwrap_or(&self.own)
    }

    /// The commit of a reference such as `refs/heads/main`: in a file of its own, or in the one into which git packs
    /// those that rarely change.
    fn commit(&self, reference: &str) -> Option<String> {
        let own = self.common().read_text(reference, LINE);
        let commit = own.map(|commit| commit.trim().to_owned()).ok().or_else(|| self.packed(reference));
        commit.filter(|commit| is_commit(commit))
    }

    fn packed(&self, reference: &str) -> Option<String> {
        let packed = self.common().read_text("packed-refs", PACKED_REFS).ok()?;
        let commit = |line: &str| {
            line.split_once(' ').filter(|(_, name)| *name == reference).map(|(c, _)| c.to_owned())
        };
        packed.lines().find_map(commit)
    }

    fn origin(&self) -> Option<(String, String)> {
        let text = self.common().read_text("config", CONFIG).ok()?;
        parse_remote(&config::value(&text, "remote \"origin\"", "url")?)
    }
}

fn is_commit(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The repository that `directory` is part of.
pub(crate) fn around(directory: &Path) -> Option<Repository> {
    let found = |dir: &Path| Some((dir.to_owned(), data(dir).filter(|_| dir == directory || is_own(dir))?));
    let (root, data) = directory.ancestors().find_map(found)?;
    let head = data.own.read_text("HEAD", LINE).unwrap_or_default();
    let head = head.trim();
    let branch = head.strip_prefix("ref: refs/heads/").map(str::to_owned);
    let head = match &branch {
        Some(branch) => data.commit(&format!("refs/heads/{branch}")),
        None => Some(head.to_owned()).filter(|head| is_commit(head)),
    };
    Some(Repository { root, branch, head, origin: data.origin(), data })
}

/// Whether a directory and its `.git` belong to the user of this server, or to root. Above the working directory anybody may
/// be able to make a repository, as in `/tmp`, and its instructions would count.
#[expect(clippy::disallowed_methods, reason = "git's state is read on the blocking pool")]
fn is_own(root: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let me = rustix::process::geteuid().as_raw();
    [root, &root.join(".git")]
        .iter()
        .all(|path| std::fs::symlink_metadata(path).is_ok_and(|found| found.uid() == me || found.uid() == 0))
}

/// The data of the repository whose work tree is `root`. As for git itself, a directory without a `HEAD` is none,
/// whatever its name.
fn data(root: &Path) -> Option<Data> {
    // Most directories have none, and need not be opened to know it.
    let tree = Directory::open(root).ok()?;
    let own = match tree.subdirectory(".git") {
        Ok(own) => own,
        Err(Unreadable::Absent) => elsewhere(&tree)?,
        Err(_) => return None,
    };
    own.read("HEAD", LINE).ok()?;
    let common = match own.read_text("commondir", LINE) {
        Ok(path) => Some(shared(&own, Path::new(path.trim()))?),
        Err(Unreadable::Absent) => None,
        Err(_) => return None,
    };
    Some(Data { own, common })
}

/// The directory that the file `.git` of a linked work tree or a submodule names. Anybody can write such a file, so it
/// is followed only where the directory names the work tree in return.
fn elsewhere(tree: &Directory) -> Option<Directory> {
    let pointer = tree.read_text(".git", LINE).ok()?;
    let own = Directory::open(&tree.path().join(pointer.trim().strip_prefix("gitdir:")?.trim())).ok()?;
    let leads_back = match own.read_text("gitdir", LINE) {
        Ok(back) => is_same(&own.path().join(back.trim()), &tree.path().join(".git")),
        Err(_) => ["config.worktree", "config"]
            .iter()
            .filter_map(|file| config::value(&own.read_text(file, CONFIG).ok()?, "core", "worktree"))
            .any(|back| is_same(&own.path().join(back), tree.path())),
    };
    leads_back.then_some(own)
}

/// The directory that all work trees share. It has those of the linked ones in it.
fn shared(own: &Directory, path: &Path) -> Option<Directory> {
    let common = Directory::open(&own.path().join(path)).ok()?;
    (own.path().parent() == Some(&common.path().join("worktrees"))).then_some(common)
}

#[expect(clippy::disallowed_methods, reason = "all of this blocks")]
fn is_same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
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
mod tests;
