//! Diffs of the work tree, from the program `git`.
//!
//! The configuration of a repository names programs for git to run: filters, hooks, a file system monitor, helpers of
//! remotes. Disabling each of them needs a complete list for every version of git. Instead, git does not see that
//! configuration: it runs with a scratch git directory and our configuration, over the objects and the index of the
//! repository. Names in attributes (`filter=x`, `diff=x`) are undefined then. Settings that affect a diff and cannot run
//! a program are copied.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use baton_disk::blocking;
use baton_disk::untrusted::Unreadable;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use super::{CONFIG, Data, Repository, config, is_commit};

/// Time limit of one run of git.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Size limit of a diff; the rest is cut off.
pub const LARGEST_DIFF: usize = 4 << 20;
/// Size limit of the file `shallow`.
const SHALLOW: usize = 1 << 20;
/// Maximum number of entries of a git directory; the usual number is a dozen.
const MAX_ENTRIES: usize = 10_000;

/// Settings that are copied from the repository: their values are single words, and none names a program or a file.
const COPIED: [(&str, &str); 8] = [
    ("core", "fileMode"),
    ("core", "symlinks"),
    ("core", "ignoreCase"),
    ("core", "autocrlf"),
    ("core", "eol"),
    ("core", "trustctime"),
    ("core", "checkStat"),
    ("extensions", "objectFormat"),
];

/// Settings of the scratch git directory.
const FIXED: &str = "[core]\n\
    \trepositoryFormatVersion = 1\n\
    \tbare = false\n\
    \tfsmonitor = false\n\
    \thooksPath = /dev/null\n\
    \tattributesFile = /dev/null\n\
    \texcludesFile = /dev/null\n\
    \tquotePath = false\n\
    [diff]\n\
    \tautoRefreshIndex = false\n";

/// Environment of git: no prompts, no fetches, no locks, no other configuration files.
const ENVIRONMENT: [(&str, &str); 10] = [
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("LC_ALL", "C"),
];

/// State that a work tree is compared with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// The index.
    Index,
    /// The commit at which the branch forked from the default branch.
    ForkPoint,
}

/// A diff.
#[derive(Debug, Default)]
pub struct Difference {
    /// Output of git.
    pub text: String,
    /// Name of the default branch, for [`Base::ForkPoint`]; none if there is none.
    pub branch: Option<&'static str>,
}

/// Compares the work tree around `directory` with a base. Empty if there is no repository, or git fails. `environment`
/// supplies the `PATH`.
pub async fn difference(
    directory: PathBuf,
    environment: &[(OsString, OsString)],
    base: Base,
    ignore_whitespace: bool,
) -> Difference {
    let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let prepared = blocking::run(move || Git::around(&directory, path)).await;
    match prepared {
        Ok(Ok(Some(git))) => git.difference(base, ignore_whitespace).await,
        Ok(Ok(None)) => Difference::default(),
        Ok(Err(error)) => {
            tracing::warn!(%error, "failed to prepare a directory for git; reporting no changes");
            Difference::default()
        }
        Err(error) => {
            tracing::warn!(%error, "failed to read the repository; reporting no changes");
            Difference::default()
        }
    }
}

/// The program git, for one repository.
struct Git {
    /// Git directory that git sees.
    scratch: Scratch,
    root: PathBuf,
    index: PathBuf,
    objects: PathBuf,
    path: Option<OsString>,
    head: Option<String>,
    /// Candidates for the default branch, with their commits.
    default_branches: Vec<(&'static str, String)>,
}

impl Git {
    /// Prepares git for the repository around a directory. Blocks.
    #[expect(clippy::disallowed_methods, reason = "runs on the blocking pool")]
    fn around(directory: &Path, path: Option<OsString>) -> io::Result<Option<Self>> {
        let Some(Repository { root, head, data, .. }) = super::around(directory) else { return Ok(None) };
        if !matches!(data.own.read("index", 0), Ok(_) | Err(Unreadable::Absent)) {
            return Err(io::Error::other("the index is not a regular file of the repository"));
        }
        // `git` is searched for outside of the repository only, where programs in the sandbox could have put another one.
        let real_root = root.canonicalize()?;
        let leads_inside = |part: &Path| part.canonicalize().is_ok_and(|real| real.starts_with(&real_root));
        let is_inside = |directory: &PathBuf| directory.ancestors().any(leads_inside);
        let path = path.map(|path| {
            let absolute = std::env::split_paths(&path)
                .filter(|directory| directory.is_absolute() && !is_inside(directory));
            std::env::join_paths(absolute).unwrap_or_default()
        });
        let candidates = [
            ("origin/HEAD", "refs/remotes/origin/HEAD"),
            ("main", "refs/heads/main"),
            ("master", "refs/heads/master"),
        ];
        let default_branches =
            candidates.into_iter().filter_map(|(name, reference)| Some((name, resolve(&data, reference)?)));
        Ok(Some(Self {
            scratch: Scratch::over(&data)?,
            root,
            index: data.own.path().join("index"),
            objects: data.common().path().join("objects"),
            path,
            head,
            default_branches: default_branches.collect(),
        }))
    }

    async fn difference(&self, base: Base, ignore_whitespace: bool) -> Difference {
        let base = if base == Base::ForkPoint { self.fork_point().await } else { None };
        let (branch, commit) = base.unzip();
        let mut arguments = vec![
            "diff",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
            "--find-renames",
            "--src-prefix=a/",
            "--dst-prefix=b/",
            // Otherwise git runs itself in each submodule, with the submodule's configuration.
            "--ignore-submodules=dirty",
            "--submodule=short",
        ];
        if ignore_whitespace {
            arguments.push("--ignore-all-space");
        }
        arguments.extend(commit.as_deref());
        arguments.push("--");
        Difference { text: self.output(&arguments).await.unwrap_or_default(), branch }
    }

    /// Returns the default branch, and the commit at which the current one forked from it.
    async fn fork_point(&self) -> Option<(&'static str, String)> {
        let head = self.head.as_deref()?;
        for (name, commit) in &self.default_branches {
            let fork_point = self.output(&["merge-base", head, commit]).await;
            if let Some(commit) =
                fork_point.map(|commit| commit.trim().to_owned()).filter(|commit| is_commit(commit))
            {
                return Some((name, commit));
            }
        }
        None
    }

    /// Returns the output of git, up to a limit; none if it fails.
    async fn output(&self, arguments: &[&str]) -> Option<String> {
        match tokio::time::timeout(TIMEOUT, self.run(arguments)).await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => {
                tracing::warn!(%error, root = %self.root.display(), "failed to run git");
                None
            }
            Err(_) => {
                tracing::warn!(root = %self.root.display(), timeout = ?TIMEOUT, "git timed out");
                None
            }
        }
    }

    async fn run(&self, arguments: &[&str]) -> io::Result<Option<String>> {
        let mut git = Command::new("git");
        git.arg("--no-pager").args(arguments);
        git.env_clear().envs(self.path.as_ref().map(|path| ("PATH", path))).envs(ENVIRONMENT);
        git.env("GIT_DIR", self.scratch.path()).env("GIT_WORK_TREE", &self.root);
        git.env("GIT_INDEX_FILE", &self.index).env("GIT_OBJECT_DIRECTORY", &self.objects);
        git.current_dir(self.scratch.path()).kill_on_drop(true);
        git.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = git.spawn()?;
        let Some(stdout) = child.stdout.take() else { return Ok(None) };
        let mut output = Vec::new();
        let read = stdout.take(LARGEST_DIFF as u64).read_to_end(&mut output).await?;
        // With more output than the limit, git is killed when `child` is dropped.
        let succeeded = read == LARGEST_DIFF || child.wait().await?.success();
        Ok(succeeded.then(|| String::from_utf8_lossy(&output).into_owned()))
    }
}

/// Returns the commit of a reference, which may be symbolic.
fn resolve(data: &Data, reference: &str) -> Option<String> {
    let text = data.common().read_text(reference, super::LINE).ok();
    match text.as_deref().and_then(|text| text.trim().strip_prefix("ref: ")) {
        Some(other) => data.commit(other),
        None => data.commit(reference),
    }
}

/// A scratch git directory, removed when it is dropped.
struct Scratch(Option<TempDir>);

impl Scratch {
    /// Creates a git directory over the objects and the index of a repository. Blocks.
    #[expect(clippy::disallowed_methods, reason = "runs on the blocking pool")]
    fn over(data: &Data) -> io::Result<Self> {
        // Private whatever the umask: a user who can write here decides what git runs.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(baton_disk::private::DIRECTORY);
        let directory = tempfile::Builder::new().prefix("baton-git-").permissions(mode).tempdir()?;
        let at = |name: &OsStr| directory.path().join(name);
        baton_disk::private::create_dir_all(at("refs".as_ref()))?;
        baton_disk::private::write(at("HEAD".as_ref()), "ref: refs/heads/none\n")?;
        baton_disk::private::write(at("config".as_ref()), configuration(data))?;
        if let Ok(shallow) = data.common().read("shallow", SHALLOW)
            && !shallow.is_cut
        {
            baton_disk::private::write(at("shallow".as_ref()), shallow.bytes)?;
        }
        // Git looks for the shared part of a split index in the git directory.
        for name in data.own.names(MAX_ENTRIES).unwrap_or_default() {
            if name.to_string_lossy().starts_with("sharedindex.") {
                std::os::unix::fs::symlink(data.own.path().join(&name), at(&name))?;
            }
        }
        Ok(Self(Some(directory)))
    }

    fn path(&self) -> &Path {
        self.0.as_ref().map_or(Path::new("/nonexistent"), TempDir::path)
    }
}

impl Drop for Scratch {
    /// Removes the directory on a blocking thread: the value may be dropped on a worker of tokio.
    fn drop(&mut self) {
        let directory = self.0.take();
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(directory))),
            Err(_) => drop(directory),
        }
    }
}

fn configuration(data: &Data) -> String {
    let text = data.common().read_text("config", CONFIG).unwrap_or_default();
    let copied = COPIED.into_iter().filter_map(|(section, key)| {
        let value = config::value(&text, section, key)?;
        let is_plain = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_plain.then(|| format!("[{section}]\n\t{key} = {value}\n"))
    });
    std::iter::once(FIXED.to_owned()).chain(copied).collect()
}

#[cfg(test)]
mod tests;
