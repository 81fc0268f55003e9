//! What programs inside see of the file system, as arguments for `bwrap`.
//!
//! Everything is read-only. Then, from the root downwards, so that a later mount covers an earlier one: empty directories for
//! sockets and temporary files, nothing where secrets are, and the places that may be written. Within those, the files that act
//! are read-only again, and each of their parents is a mount of its own, because a directory that is a mount cannot be
//! renamed.
//!
//! This module decides from a [`Survey`] and does no I/O. The survey looks at the file system, on a blocking thread.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// Where our own files are inside: the program of the helper.
pub const OURS: &str = "/run/baton";
/// The helper's program inside.
pub(crate) const PROGRAM: &str = "/run/baton/program";

/// Size of the empty directories, in bytes: they hold mount points only.
const EMPTY: u64 = 1 << 20;
/// Size of `/dev/shm`, in bytes. It is memory.
const SHARED_MEMORY: u64 = 256 << 20;

/// What a program finds at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mount {
    /// An empty directory in memory.
    Empty,
    /// The same file or directory, read-only.
    ReadOnly(PathBuf),
    /// The same directory, writable.
    Writable(PathBuf),
}

/// The facts that mounts depend on: existing files, with links resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// Directories of sockets and temporary files.
    pub shared: Vec<PathBuf>,
    /// Secret directories.
    pub secret_directories: Vec<PathBuf>,
    /// Secret files.
    pub secret_files: Vec<PathBuf>,
    /// Files and directories that are readable although a parent is hidden.
    pub readable: Vec<PathBuf>,
    /// Directories that programs write, with what they find there.
    pub writable: Vec<(PathBuf, PathBuf)>,
    /// Files and directories below the writable ones that stay read-only.
    pub protected: Vec<PathBuf>,
    /// Directories that must not be renamed, although they can be written.
    pub pinned: Vec<PathBuf>,
    /// Entries of `/proc` that the server's user could write: the system's own, not those of processes.
    pub system: Vec<PathBuf>,
    /// The helper's program.
    pub program: PathBuf,
    /// An empty file.
    pub empty_file: PathBuf,
}

/// The mounts of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounts {
    /// By path: a parent comes before what is below it.
    mounts: BTreeMap<PathBuf, Mount>,
    system: Vec<PathBuf>,
}

impl Mounts {
    /// Plans the mounts.
    #[must_use]
    pub fn plan(survey: &Survey) -> Self {
        let mut plan = Self { mounts: BTreeMap::new(), system: survey.system.clone() };
        let empty = |path: &PathBuf| (path.clone(), Mount::Empty);
        plan.mounts.extend(survey.shared.iter().map(empty));
        plan.mounts.extend(survey.secret_directories.iter().map(empty));
        let empty_file = || Mount::ReadOnly(survey.empty_file.clone());
        plan.mounts.extend(survey.secret_files.iter().map(|path| (path.clone(), empty_file())));
        let same = |path: &PathBuf| (path.clone(), Mount::ReadOnly(path.clone()));
        plan.mounts.extend(survey.readable.iter().map(same));
        let writable = survey.writable.iter().map(|(at, what)| (at.clone(), Mount::Writable(what.clone())));
        plan.mounts.extend(writable);
        plan.mounts.extend(survey.pinned.iter().map(|path| (path.clone(), Mount::Writable(path.clone()))));
        plan.mounts.extend(survey.protected.iter().map(same));
        plan.mounts.insert(PROGRAM.into(), Mount::ReadOnly(survey.program.clone()));
        plan
    }

    /// Returns the arguments for `bwrap` that build the mounts.
    #[must_use]
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments = Arguments::default();
        arguments.add(["--ro-bind", "/", "/"]);
        arguments.add(["--proc", "/proc"]);
        // Root inside owns these, whatever its capabilities are.
        for path in &self.system {
            arguments.bind("--ro-bind", path, path);
        }
        arguments.add(["--dev", "/dev"]);
        arguments.add(["--size", &SHARED_MEMORY.to_string(), "--tmpfs", "/dev/shm"]);
        for (at, mount) in &self.mounts {
            match mount {
                Mount::Empty => {
                    arguments.add(["--size", &EMPTY.to_string(), "--tmpfs"]);
                    arguments.0.push(at.into());
                }
                Mount::ReadOnly(what) => arguments.bind("--ro-bind", what, at),
                Mount::Writable(what) => arguments.bind("--bind", what, at),
            }
        }
        arguments.0
    }

    /// Returns what a program finds at a path.
    #[must_use]
    pub fn explain(&self, path: &Path) -> Explanation {
        let covering = path.ancestors().find_map(|ancestor| Some((ancestor, self.mounts.get(ancestor)?)));
        let Some((at, mount)) = covering else { return explain_unmounted(path) };
        let (access, reason) = match mount {
            Mount::Empty => (Access::Hidden, "programs find an empty directory"),
            Mount::ReadOnly(what) if what == at => (Access::ReadOnly, "it is protected"),
            Mount::ReadOnly(_) if at == Path::new(PROGRAM) => (Access::ReadOnly, "it is the sandbox's own"),
            Mount::ReadOnly(_) => (Access::Hidden, "programs find an empty file"),
            Mount::Writable(what) if what == at => {
                (Access::Writable, "it is in a directory that programs write")
            }
            Mount::Writable(_) => (Access::Private, "programs find a directory of the session"),
        };
        Explanation { access, reason, because: Some(at.to_owned()) }
    }
}

fn explain_unmounted(path: &Path) -> Explanation {
    let kernel = [
        ("/proc", Access::Private, "programs find their own processes only"),
        ("/dev/shm", Access::Private, "programs find memory of their own"),
        ("/dev", Access::Private, "programs find the harmless devices only"),
    ];
    match kernel.into_iter().find(|(root, ..)| path.starts_with(root)) {
        Some((root, access, reason)) => Explanation { access, reason, because: Some(root.into()) },
        None => {
            let reason = "it is outside of the workspace";
            Explanation { access: Access::ReadOnly, reason, because: None }
        }
    }
}

/// What programs can do at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// They do not find it.
    Hidden,
    /// They read it.
    ReadOnly,
    /// They read and write it.
    Writable,
    /// They read and write something else in its place.
    Private,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hidden => "hidden",
            Self::ReadOnly => "read-only",
            Self::Writable => "writable",
            Self::Private => "private",
        })
    }
}

/// What programs can do at a path, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// What they can do.
    pub access: Access,
    /// Why, for people.
    pub reason: &'static str,
    /// The path that decides, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<PathBuf>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.access, self.reason)?;
        self.because.as_ref().map_or(Ok(()), |path| write!(f, " ({})", path.display()))
    }
}

#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn add<const N: usize>(&mut self, words: [&str; N]) {
        self.0.extend(words.map(OsString::from));
    }

    fn bind(&mut self, how: &str, what: &Path, at: &Path) {
        self.0.extend([how.into(), what.into(), at.into()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey() -> Survey {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        Survey {
            shared: paths(&["/run", "/tmp"]),
            secret_directories: paths(&["/home/u/.ssh", "/home/u/.baton"]),
            secret_files: paths(&["/home/u/.netrc"]),
            readable: paths(&["/run/current-system"]),
            writable: vec![
                ("/home/u/.baton/work/1".into(), "/home/u/.baton/work/1".into()),
                ("/tmp".into(), "/home/u/.baton/private/tmp".into()),
            ],
            protected: paths(&["/home/u/.baton/work/1/.git/config"]),
            pinned: paths(&["/home/u/.baton/work/1/.git"]),
            system: paths(&["/proc/sys"]),
            program: "/usr/bin/baton".into(),
            empty_file: "/home/u/.baton/private/empty".into(),
        }
    }

    fn position(arguments: &[OsString], words: &[&str]) -> usize {
        arguments.windows(words.len()).position(|run| run == words).unwrap_or_else(|| panic!("{words:?}"))
    }

    #[test]
    fn parents_are_mounted_before_what_is_in_them() {
        let arguments = Mounts::plan(&survey()).arguments();
        let work = "/home/u/.baton/work/1";
        let git = "/home/u/.baton/work/1/.git";
        let config = "/home/u/.baton/work/1/.git/config";
        let order = [
            position(&arguments, &["--ro-bind", "/", "/"]),
            position(&arguments, &["--tmpfs", "/home/u/.baton"]),
            position(&arguments, &["--bind", work, work]),
            position(&arguments, &["--bind", git, git]),
            position(&arguments, &["--ro-bind", config, config]),
            position(&arguments, &["--tmpfs", "/run"]),
            position(&arguments, &["--ro-bind", "/usr/bin/baton", PROGRAM]),
            position(&arguments, &["--bind", "/home/u/.baton/private/tmp", "/tmp"]),
        ];
        assert!(order.is_sorted(), "{order:?}");
        assert!(
            position(&arguments, &["--ro-bind", "/proc/sys", "/proc/sys"])
                > position(&arguments, &["--proc", "/proc"])
        );
        assert!(
            !arguments.windows(2).any(|run| run == ["--tmpfs", "/tmp"]),
            "the private directory replaces it"
        );
    }

    #[test]
    fn paths_are_explained() {
        let mounts = Mounts::plan(&survey());
        let says = |path: &str, text: &str| assert_eq!(mounts.explain(Path::new(path)).to_string(), text);
        says("/etc/hosts", "read-only: it is outside of the workspace");
        says("/home/u/.ssh/id_ed25519", "hidden: programs find an empty directory (/home/u/.ssh)");
        says("/home/u/.netrc", "hidden: programs find an empty file (/home/u/.netrc)");
        let work = "/home/u/.baton/work/1";
        says(&format!("{work}/src"), &format!("writable: it is in a directory that programs write ({work})"));
        says(&format!("{work}/.git/config"), &format!("read-only: it is protected ({work}/.git/config)"));
        says("/tmp/x", "private: programs find a directory of the session (/tmp)");
        says("/proc/1/environ", "private: programs find their own processes only (/proc)");
    }
}
