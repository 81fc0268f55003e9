//! A user's machine in a temporary directory: a home with secrets, a project, and the program.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use baton_testkit::cannot_run;
use baton_testkit::client::LIMIT;
use tempfile::TempDir;
use tokio::process::Command;

/// The ordinary user that tests of root become.
const NOBODY: u32 = 65534;
/// Where programs are, for every user.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Whose programs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum User {
    Root,
    Ordinary,
}

impl User {
    /// Returns the users that the user of this test can be.
    pub(super) fn all() -> Vec<Self> {
        if is_root() { vec![Self::Root, Self::Ordinary] } else { vec![Self::Ordinary] }
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Off,
    ReadOnly,
    Workspace,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::ReadOnly => "read-only",
            Self::Workspace => "workspace",
        }
    }
}

/// An attempt to get out.
#[derive(Debug, Clone)]
pub(super) struct Escape {
    name: String,
    /// Exits with 0 if it has got out.
    command: String,
    /// Whether only root gets out with the level `off`.
    by_root: bool,
}

/// Creates an attempt of any user.
pub(super) fn escape(name: &str, command: impl Into<String>) -> Escape {
    Escape { name: name.to_owned(), command: command.into(), by_root: false }
}

/// Creates an attempt that only root succeeds with.
pub(super) fn escape_of_root(name: &str, command: impl Into<String>) -> Escape {
    Escape { by_root: true, ..escape(name, command) }
}

/// The machine of one user.
pub(super) struct Arena {
    directory: TempDir,
    executable: PathBuf,
    user: User,
    variables: Vec<(String, String)>,
}

/// What a command did.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Ran {
    pub(super) fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Arena {
    pub(super) fn new(user: User) -> Self {
        let directory = tempfile::Builder::new().prefix("walls").tempdir_in(place()).unwrap();
        let arena = Self { executable: executable(directory.path()), directory, user, variables: Vec::new() };
        for path in ["outside", "work", "baton"] {
            fs::create_dir(arena.home().join(path)).unwrap();
        }
        fs::write(arena.home().join("outside/existing"), "untouched").unwrap();
        arena.give();
        arena
    }

    /// Makes everything the user's.
    pub(super) fn give(&self) {
        if is_root() && self.user == User::Ordinary {
            give(self.home());
        }
    }

    /// The home of the user. The project is `work` in it, Baton's home `baton`.
    pub(super) fn home(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn work(&self) -> PathBuf {
        self.home().join("work")
    }

    /// Writes a file of the user.
    pub(super) fn write(&self, path: &str, text: &str) {
        let path = self.home().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self.give();
    }

    pub(super) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.variables.push((name.to_owned(), value.into()));
    }

    /// Returns a command of the user, in the project.
    pub(super) fn user_command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = if is_root() && self.user == User::Ordinary {
            let mut command = Command::new("setpriv");
            let id = NOBODY.to_string();
            command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.env_clear().env("PATH", PATH).env("HOME", self.home()).env("USER", "ann");
        command.env("BATON_HOME", self.home().join("baton")).env("LANG", "C.UTF-8");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.current_dir(self.work()).kill_on_drop(true).stdin(Stdio::null());
        command
    }

    /// Returns the program with arguments.
    pub(super) fn baton(&self, arguments: &[&str]) -> Command {
        let mut command = self.user_command(&self.executable);
        command.args(arguments);
        command
    }

    pub(super) fn executable(&self) -> &Path {
        &self.executable
    }

    pub(super) async fn finish(&self, mut command: Command) -> Ran {
        let output = tokio::time::timeout(LIMIT, command.output()).await;
        Ran::of(output.expect("it ends within the time limit").unwrap())
    }

    /// Runs a script with `baton sandbox`.
    pub(super) async fn run(&self, level: Level, script: &str) -> Ran {
        self.run_with(level, &[], script).await
    }

    pub(super) async fn run_with(&self, level: Level, flags: &[&str], script: &str) -> Ran {
        let arguments = [&["sandbox", "--level", level.name()], flags, &["--", "sh", "-c", script]].concat();
        self.finish(self.baton(&arguments)).await
    }

    /// Runs attempts at one level, and returns the names of those that got out.
    pub(super) async fn attempt(&self, level: Level, flags: &[&str], escapes: &[Escape]) -> Vec<String> {
        let script: String = escapes
            .iter()
            .enumerate()
            .map(|(number, escape)| {
                format!("if ( {} ) >/dev/null 2>&1; then echo \"out {number}\"; fi\n", escape.command)
            })
            .chain(["echo done > control && cat control".to_owned()])
            .collect();
        let ran = self.run_with(level, flags, &script).await;
        if level != Level::ReadOnly {
            assert!(ran.stdout.ends_with("done\n"), "the control write fails ({level:?}): {ran:?}");
        }
        let numbers = ran.stdout.lines().filter_map(|line| line.strip_prefix("out ")?.parse::<usize>().ok());
        numbers.map(|number| escapes[number].name.clone()).collect()
    }

    /// Returns the files outside of the project, with what tells that one was changed.
    pub(super) fn outside(&self) -> BTreeMap<PathBuf, (u64, u64, i64)> {
        let mut found = BTreeMap::new();
        let mut queue = vec![self.home().to_owned()];
        while let Some(directory) = queue.pop() {
            for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
                let (path, metadata) = (entry.path(), entry.metadata().unwrap());
                if path == self.work() || path == self.home().join("baton") {
                    continue;
                }
                found.insert(path.clone(), (metadata.ino(), metadata.len(), metadata.mtime_nsec()));
                if metadata.is_dir() {
                    queue.push(path);
                }
            }
        }
        found
    }
}

/// Tries escapes as each user that the user of this test can be. `prepare` makes what they need; it is done for each level.
pub(super) async fn try_all(prepare: impl Fn(&mut Arena), escapes: impl Fn(&Arena) -> Vec<Escape>) {
    try_with(&[], prepare, escapes).await;
}

pub(super) async fn try_with(
    flags: &[&str],
    prepare: impl Fn(&mut Arena),
    escapes: impl Fn(&Arena) -> Vec<Escape>,
) {
    for user in User::all() {
        let arena = |user| {
            let mut arena = Arena::new(user);
            prepare(&mut arena);
            arena.give();
            arena
        };
        let open = arena(user);
        let all: Vec<Escape> =
            escapes(&open).into_iter().filter(|escape| user == User::Root || !escape.by_root).collect();
        let names: Vec<&str> = all.iter().map(|escape| escape.name.as_str()).collect();
        let out = open.attempt(Level::Off, flags, &all).await;
        assert_eq!(out, names, "with the level off, each gets out ({user:?})");
        let closed = arena(user);
        let all: Vec<Escape> =
            escapes(&closed).into_iter().filter(|escape| user == User::Root || !escape.by_root).collect();
        let before = closed.outside();
        let out = closed.attempt(Level::Workspace, flags, &all).await;
        assert_eq!(out, [""; 0], "these get out as {user:?}");
        assert_eq!(closed.outside(), before, "nothing outside changes ({user:?})");
    }
}

/// Returns a directory that every user can reach, and that is no place of temporary files: those are hidden inside.
fn place() -> PathBuf {
    let places = [env!("CARGO_TARGET_TMPDIR"), "/opt", "/srv"].map(PathBuf::from);
    let is_open = |place: &PathBuf| place.ancestors().all(is_open) && !place.starts_with("/tmp");
    places.into_iter().find(is_open).expect("a directory that every user can reach")
}

fn is_open(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.mode() & 0o001 != 0)
}

/// Returns the program where every user can start it.
fn executable(directory: &Path) -> PathBuf {
    let built = PathBuf::from(env!("CARGO_BIN_EXE_baton"));
    if built.ancestors().all(is_open) {
        return built;
    }
    let own = directory.join("program");
    fs::hard_link(&built, &own).or_else(|_| fs::copy(&built, &own).map(drop)).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
    own
}

fn give(path: &Path) {
    std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.symlink_metadata().unwrap().is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give(&entry.unwrap().path()));
    }
}

/// Whether this machine can build sandboxes. Otherwise the test is recorded as left out.
macro_rules! needs_walls {
    () => {
        if let Err(why) = crate::sandbox::arena::walls() {
            return baton_testkit::cannot_run!(why);
        }
    };
}
pub(super) use needs_walls;

/// Why this machine cannot build sandboxes.
pub(super) fn walls() -> Result<(), &'static str> {
    let bwrap = Path::new("/usr/bin/bwrap");
    if !bwrap.exists() {
        return Err("/usr/bin/bwrap is missing; install bubblewrap");
    }
    let tried = std::process::Command::new(bwrap)
        .args([
            "--unshare-user",
            "--unshare-net",
            "--unshare-pid",
            "--ro-bind",
            "/",
            "/",
            "--proc",
            "/proc",
            "true",
        ])
        .output();
    match tried {
        Ok(ran) if ran.status.success() => Ok(()),
        _ => Err("this machine does not let bubblewrap create namespaces"),
    }
}

#[test]
fn escapes_are_tried_as_root_too() {
    if !is_root() {
        cannot_run!("the tests of the sandbox run as root and become an ordinary user");
    }
}

/// Python with the calls of the C library, for what shells cannot do. The script raises if it did not get out.
pub(super) fn python(script: &str) -> String {
    let start = "import ctypes, ctypes.util, os, socket, sys; \
        c = ctypes.CDLL(None, use_errno=True)\n\
        def call(*a):\n    r = c.syscall(*(ctypes.c_long(x) if isinstance(x, int) else x for x in a))\n    if r < 0: raise OSError(ctypes.get_errno(), 'syscall')\n    return r\n";
    format!("/usr/bin/python3 - <<'PYTHON'\n{start}{script}\nPYTHON\n")
}
