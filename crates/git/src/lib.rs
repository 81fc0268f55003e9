//! State and diffs of git repositories.
//!
//! The state is read from a few files, without running `git`: the first event of a session must not wait for a process.
//! Diffs need the program ([`program`]). [`distrusted`] finds repositories whose configuration can run programs.
//!
//! A repository is hostile input: its files are read with [`baton_disk::untrusted`], and none outside its git directory.
//! All functions that are not `async` block.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

mod config;
mod index;
pub mod program;
mod trust;

use std::path::{Path, PathBuf};

use baton_disk::untrusted::{Unreadable, UntrustedDirectory};

pub use self::trust::{distrusted, may_run_programs, named_files};

/// Size limit of files with one line: `HEAD`, a branch, the pointers between work trees.
const LINE: usize = 4 << 10;
/// Size limit of configuration files.
const CONFIG: usize = 1 << 20;
/// Size limit of `packed-refs`. Large repositories have tens of thousands of references.
const PACKED_REFS: usize = 16 << 20;

/// The repository that a directory belongs to.
#[derive(Debug)]
pub struct Repository {
    /// Root of the work tree.
    pub root: PathBuf,
    /// Current branch; none if `HEAD` is detached.
    pub branch: Option<String>,
    /// Current commit; none before the first one.
    pub head: Option<String>,
    /// Host and `owner/name` of the remote `origin`.
    pub origin: Option<(String, String)>,
    data: Data,
}

/// Git directories of a work tree.
#[derive(Debug)]
struct Data {
    /// Directory of this work tree: `HEAD`, the index.
    own: UntrustedDirectory,
    /// Directory that all work trees share: references, objects, configuration. None if it is `own`.
    common: Option<UntrustedDirectory>,
}

impl Data {
    fn common(&self) -> &UntrustedDirectory {
        self.common.as_ref().unwrap_or(&self.own)
    }

    /// Reads the commit of a reference such as `refs/heads/main`: from its own file, or from `packed-refs`.
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

/// Finds the repository that `directory` belongs to. Blocks.
pub fn around(directory: &Path) -> Option<Repository> {
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

/// Whether a directory and its `.git` belong to the user of this server, or to root. Above the working directory other
/// users may be able to create a repository, as in `/tmp`, whose instructions would then apply.
#[expect(clippy::disallowed_methods, reason = "git's state is read on the blocking pool")]
fn is_own(root: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let me = rustix::process::geteuid().as_raw();
    [root, &root.join(".git")]
        .iter()
        .all(|path| std::fs::symlink_metadata(path).is_ok_and(|found| found.uid() == me || found.uid() == 0))
}

/// Opens the git directories of the work tree `root`. Like git, ignores a `.git` without a `HEAD`.
fn data(root: &Path) -> Option<Data> {
    let tree = UntrustedDirectory::open(root).ok()?;
    let own = match tree.subdirectory(".git") {
        Ok(own) => own,
        Err(Unreadable::Absent) => linked_git_directory(&tree)?,
        Err(_) => return None,
    };
    own.read("HEAD", LINE).ok()?;
    let common = match own.read_text("commondir", LINE) {
        Ok(path) => Some(common_directory(&own, Path::new(path.trim()))?),
        Err(Unreadable::Absent) => None,
        Err(_) => return None,
    };
    Some(Data { own, common })
}

/// Opens the directory that the file `.git` of a linked work tree or a submodule points to. The file can point anywhere,
/// so it is followed only if the directory points back to the work tree.
fn linked_git_directory(tree: &UntrustedDirectory) -> Option<UntrustedDirectory> {
    let pointer = tree.read_text(".git", LINE).ok()?;
    let own =
        UntrustedDirectory::open(&tree.path().join(pointer.trim().strip_prefix("gitdir:")?.trim())).ok()?;
    let leads_back = match own.read_text("gitdir", LINE) {
        Ok(back) => is_same(&own.path().join(back.trim()), &tree.path().join(".git")),
        Err(_) => ["config.worktree", "config"]
            .iter()
            .filter_map(|file| config::value(&own.read_text(file, CONFIG).ok()?, "core", "worktree"))
            .any(|back| is_same(&own.path().join(back), tree.path())),
    };
    leads_back.then_some(own)
}

/// Opens the directory that all work trees share, if it contains the one of this work tree.
fn common_directory(own: &UntrustedDirectory, path: &Path) -> Option<UntrustedDirectory> {
    let common = UntrustedDirectory::open(&own.path().join(path)).ok()?;
    (own.path().parent() == Some(&common.path().join("worktrees"))).then_some(common)
}

#[expect(clippy::disallowed_methods, reason = "all of this blocks")]
fn is_same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// Parses host and `owner/name` of a remote: `https://host/owner/name.git` or `git@host:owner/name.git`.
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
