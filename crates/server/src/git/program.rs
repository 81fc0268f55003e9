//! What only the program `git` can tell: how the work tree differs from what was committed.
//!
//! A repository's configuration names programs for git to run: filters, hooks, a file system monitor, helpers of remotes.
//! Switching them off one by one needs a list of all that there are, in every version of git. So git is not shown that
//! configuration: it is given a git directory of ours, with a configuration of ours, over the objects and the index of
//! the repository. What attributes name (`filter=x`, `diff=x`) then has no meaning. Settings that cannot run anything
//! and change what a difference is are copied.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use baton_agent::blocking;
use baton_agent::untrusted::Unreadable;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use super::{CONFIG, Data, Repository, config, is_commit};

/// How long git may take to tell what has changed.
const PATIENCE: Duration = Duration::from_secs(30);
/// How much of a diff is read at most.
pub(crate) const LARGEST_DIFF: usize = 4 << 20;
/// How much of the list of commits is read at which a shallow clone ends.
const SHALLOW: usize = 1 << 20;
/// A git directory has a dozen entries.
const MAX_ENTRIES: usize = 10_000;

/// Settings of a repository that are kept: the values are single words, and none of them names a program or a file.
const KEPT: [(&str, &str); 8] = [
    ("core", "fileMode"),
    ("core", "symlinks"),
    ("core", "ignoreCase"),
    ("core", "autocrlf"),
    ("core", "eol"),
    ("core", "trustctime"),
    ("core", "checkStat"),
    ("extensions", "objectFormat"),
];

/// What git is told beside them.
const OURS: &str = "[core]\n\
    \trepositoryFormatVersion = 1\n\
    \tbare = false\n\
    \tfsmonitor = false\n\
    \thooksPath = /dev/null\n\
    \tattributesFile = /dev/null\n\
    \texcludesFile = /dev/null\n\
    \tquotePath = false\n\
    [diff]\n\
    \tautoRefreshIndex = false\n";

/// Variables of git's environment: nothing is asked, fetched, locked or read from other configurations.
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

/// What a work tree is compared with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    /// What is staged.
    Index,
    /// The commit at which the branch parted from the default branch.
    ForkPoint,
}

/// A difference, as git prints it.
#[derive(Debug, Default)]
pub(crate) struct Difference {
    pub(crate) text: String,
    /// The branch that was compared with; none where that was not asked for, or there is no such branch.
    pub(crate) branch: Option<&'static str>,
}

/// Compares the work tree around `directory`. Empty where there is no repository, or git fails.
pub(crate) async fn difference(
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
            tracing::warn!(%error, "cannot prepare a directory for git; no changes are reported");
            Difference::default()
        }
        Err(error) => {
            tracing::warn!(%error, "cannot read the repository; no changes are reported");
            Difference::default()
        }
    }
}

/// The program, for one repository.
struct Git {
    /// The git directory of ours.
    scratch: Scratch,
    root: PathBuf,
    index: PathBuf,
    objects: PathBuf,
    path: Option<OsString>,
    head: Option<String>,
    /// Branches that this one may have come from, and their commits.
    origins: Vec<(&'static str, String)>,
}

impl Git {
    /// Blocks.
    fn around(directory: &Path, path: Option<OsString>) -> io::Result<Option<Self>> {
        let Some(Repository { root, head, data, .. }) = super::around(directory) else { return Ok(None) };
        if !matches!(data.own.read("index", 0), Ok(_) | Err(Unreadable::Absent)) {
            return Err(io::Error::other("the index is not a regular file of the repository"));
        }
        // Nothing but an absolute directory is searched for `git`: a relative one could be the repository's.
        let path = path.map(|path| {
            let absolute = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
            std::env::join_paths(absolute).unwrap_or_default()
        });
        let origins = [
            ("origin/HEAD", "refs/remotes/origin/HEAD"),
            ("main", "refs/heads/main"),
            ("master", "refs/heads/master"),
        ];
        let origins =
            origins.into_iter().filter_map(|(name, reference)| Some((name, resolve(&data, reference)?)));
        Ok(Some(Self {
            scratch: Scratch::over(&data)?,
            root,
            index: data.own.path().join("index"),
            objects: data.common().path().join("objects"),
            path,
            head,
            origins: origins.collect(),
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
            // For more, git would run itself in the submodule, with the submodule's configuration.
            "--ignore-submodules=dirty",
            "--submodule=short",
        ];
        if ignore_whitespace {
            arguments.push("--ignore-all-space");
        }
        arguments.extend(commit.as_deref());
        arguments.push("--");
        Difference { text: self.says(&arguments).await.unwrap_or_default(), branch }
    }

    /// The branch that this one came from, and where they parted.
    async fn fork_point(&self) -> Option<(&'static str, String)> {
        let head = self.head.as_deref()?;
        for (name, commit) in &self.origins {
            let parted = self.says(&["merge-base", head, commit]).await;
            if let Some(commit) =
                parted.map(|commit| commit.trim().to_owned()).filter(|commit| is_commit(commit))
            {
                return Some((name, commit));
            }
        }
        None
    }

    /// What git prints, up to a limit; none if it fails.
    async fn says(&self, arguments: &[&str]) -> Option<String> {
        match tokio::time::timeout(PATIENCE, self.run(arguments)).await {
            Ok(Ok(said)) => said,
            Ok(Err(error)) => {
                tracing::warn!(%error, "cannot run git");
                None
            }
            Err(_) => {
                tracing::warn!(root = %self.root.display(), "git did not finish in time");
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
        let mut said = Vec::new();
        let read = stdout.take(LARGEST_DIFF as u64).read_to_end(&mut said).await?;
        // One that has more to say than anybody wants to hear is ended by being dropped.
        let succeeded = read == LARGEST_DIFF || child.wait().await?.success();
        Ok(succeeded.then(|| String::from_utf8_lossy(&said).into_owned()))
    }
}

/// The commit of a reference that may name another.
fn resolve(data: &Data, reference: &str) -> Option<String> {
    let text = data.common().read_text(reference, super::LINE).ok();
    match text.as_deref().and_then(|text| text.trim().strip_prefix("ref: ")) {
        Some(other) => data.commit(other),
        None => data.commit(reference),
    }
}

/// A git directory of ours, removed when it is dropped.
struct Scratch(Option<TempDir>);

impl Scratch {
    /// Blocks.
    #[expect(clippy::disallowed_methods, reason = "runs on the blocking pool")]
    fn over(data: &Data) -> io::Result<Self> {
        // Whatever the umask: whoever can write here decides what git runs.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(baton_private::DIRECTORY);
        let directory = tempfile::Builder::new().prefix("baton-git-").permissions(mode).tempdir()?;
        let at = |name: &OsStr| directory.path().join(name);
        baton_private::create_dir_all(at("refs".as_ref()))?;
        baton_private::write(at("HEAD".as_ref()), "ref: refs/heads/none\n")?;
        baton_private::write(at("config".as_ref()), configuration(data))?;
        if let Ok(shallow) = data.common().read("shallow", SHALLOW)
            && !shallow.is_cut
        {
            baton_private::write(at("shallow".as_ref()), shallow.bytes)?;
        }
        // Where the index is split, its larger part is looked for in the git directory.
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
    /// Removing files blocks, and whoever drops this may be a worker of the runtime.
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
    let kept = KEPT.into_iter().filter_map(|(section, key)| {
        let value = config::value(&text, section, key)?;
        let is_plain = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_plain.then(|| format!("[{section}]\n\t{key} = {value}\n"))
    });
    std::iter::once(OURS.to_owned()).chain(kept).collect()
}

#[cfg(test)]
mod tests;
