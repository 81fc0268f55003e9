//! Looks at the file system for [`Mounts`](crate::mounts::Mounts): which of the listed files exist, where links lead, what a
//! repository consists of.
#![expect(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::{Path, PathBuf};

use baton_disk::beneath::Directory;
use baton_protocol::sandbox::{SandboxLevel, SandboxPolicy};

use crate::enclosure::{Places, Unavailable, Workspace};
use crate::environment::CACHES;
use crate::host::Program;
use crate::mounts::Survey;
use crate::plan::{Bytes, Check};
use crate::protected::Census;
use crate::secrets;

/// Directories that are no workspace: what is in them is not the user's work, or belongs to everybody.
const TOO_BROAD: &[&str] = &[
    "/",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/home",
    "/lib",
    "/lib64",
    "/media",
    "/mnt",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/srv",
    "/sys",
    "/tmp",
    "/usr",
    "/var",
    "/var/tmp",
    "/var/lib",
    "/usr/local",
];

/// Parts of `/proc` that belong to the system, not to a process. Root owns them, inside too.
const SYSTEM: &[&str] =
    &["sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi", "driver", "tty", "mtrr"];

/// Variables with a path that programs need wherever it is.
const NEEDED: &[&str] = &[
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "VIRTUAL_ENV",
    "JAVA_HOME",
    "GOROOT",
    "RUSTUP_HOME",
    "CARGO_HOME",
    "PYENV_ROOT",
    "NVM_DIR",
];

/// What was found.
pub(crate) struct Found {
    pub(crate) survey: Survey,
    pub(crate) checks: Vec<Check>,
    /// The working directory, with links resolved.
    pub(crate) cwd: PathBuf,
    pub(crate) has_registry: bool,
}

/// Makes the private directories of a session and its location.
pub(crate) fn make_private(places: &Places, cwd: &Path) -> io::Result<()> {
    let mut directories = std::fs::DirBuilder::new();
    directories.recursive(true).mode(0o700);
    let private = ["tmp", "var-tmp"].map(|name| places.private.join(name));
    private
        .iter()
        .chain([&caches_of(places, cwd)])
        .try_for_each(|directory| directories.create(directory))?;
    baton_disk::private::ensure(places.private.join("empty"))
}

/// Returns the directory of the caches for a working directory, which all its sessions share.
fn caches_of(places: &Places, cwd: &Path) -> PathBuf {
    let digest = ring::digest::digest(&ring::digest::SHA256, cwd.as_os_str().as_bytes());
    let name: String = digest.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    places.caches.join(name)
}

/// Looks at everything that the mounts of a call depend on. `cwd` is a [`workspace`].
pub(crate) fn survey(
    places: &Places,
    policy: &SandboxPolicy,
    cwd: &Path,
    own: &[PathBuf],
    workspaces: &[Workspace],
    program: &Program,
) -> Result<Found, Unavailable> {
    let cwd = cwd.to_owned();
    let mut survey = Survey {
        shared: existing(secrets::SHARED.iter().map(PathBuf::from)),
        system: system(),
        program: program.path.clone(),
        empty_file: places.private.join("empty"),
        ..Survey::default()
    };
    hide(places, policy, &cwd, &mut survey);
    survey.readable.extend(needed(places, &survey.shared, &cwd));
    survey.readable.extend(existing(policy.read.iter().map(PathBuf::from)));
    let private = |at: &str, name: &str| (PathBuf::from(at), places.private.join(name));
    survey.writable.extend([private("/tmp", "tmp"), private("/var/tmp", "var-tmp")]);
    survey.writable.push((CACHES.into(), caches_of(places, &cwd)));
    survey.readable.extend(existing(places.readable.iter().cloned()));
    let same = |path: PathBuf| (path.clone(), path);
    survey.writable.extend(existing(places.writable.iter().chain(own).cloned()).into_iter().map(same));
    if policy.level == SandboxLevel::Workspace {
        for Workspace { root, census } in workspaces {
            survey.writable.push(same(root.clone()));
            protect(root, census, &mut survey);
        }
        // Directories are among the workspaces. A file that is a link by now would be another one.
        let files = policy.write.iter().map(PathBuf::from).filter(|path| !path.is_dir() && is_plain(path));
        survey.writable.extend(files.map(same));
    } else {
        // It may be in a hidden directory, such as /tmp.
        survey.readable.push(cwd.clone());
    }
    let checks = checks(&survey);
    let has_registry = places.cargo_home().is_some_and(|home| home.join("registry").is_dir());
    Ok(Found { survey, checks, cwd, has_registry })
}

/// Directories of the system, which programs read where mounts hide nothing.
const READABLE: &[&str] =
    &["/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/proc", "/dev", "/nix", "/var/lib/dpkg"];

/// Returns what programs read where there are no mounts: the system, the working directory, and what is on their `PATH`.
pub(crate) fn readable_without_mounts(
    places: &Places,
    policy: &SandboxPolicy,
    cwd: &Path,
) -> Result<Vec<PathBuf>, Unavailable> {
    let secrets = existing(secrets::OF_SYSTEM.iter().map(PathBuf::from));
    let configuration = Path::new("/etc").read_dir().into_iter().flatten().filter_map(Result::ok);
    let configuration = configuration.map(|entry| entry.path());
    let on_path = places.path.iter().flat_map(std::env::split_paths).filter(|path| path.is_absolute());
    let chosen = policy.read.iter().map(PathBuf::from);
    let all = READABLE.iter().map(PathBuf::from).chain(configuration).chain(on_path).chain(chosen);
    let mut readable = existing(all.chain([cwd.to_owned()]));
    readable.retain(|path| !secrets.iter().any(|secret| path.starts_with(secret)));
    let hidden = existing(policy.hide.iter().map(PathBuf::from).chain(places.hidden.iter().cloned()));
    match hidden.iter().find(|hidden| readable.iter().any(|path| hidden.starts_with(path))) {
        None => Ok(readable),
        Some(path) => Err(Unavailable::new(format!(
            "without bubblewrap, {} cannot be hidden from programs; install bubblewrap",
            path.display()
        ))),
    }
}

/// Returns the real path of a directory that can be a workspace.
pub(crate) fn workspace(places: &Places, directory: &Path) -> Result<PathBuf, Unavailable> {
    let real = real(directory)?;
    let home = places.home.as_deref().and_then(|home| home.canonicalize().ok());
    let is_home = home.as_deref().is_some_and(|home| home.starts_with(&real));
    let is_broad = TOO_BROAD.iter().any(|broad| real == Path::new(broad)) || is_home;
    let in_kernel = ["/proc", "/sys", "/dev"].iter().any(|root| real.starts_with(root));
    let secret = existing(home.iter().flat_map(|home| secrets::IN_HOME.iter().map(|name| home.join(name))))
        .into_iter()
        .chain(existing(secrets::OF_SYSTEM.iter().map(PathBuf::from)))
        .any(|secret| real.starts_with(secret));
    // Below it are the working directories that Baton makes itself.
    let is_ours = existing(places.hidden.iter().cloned()).contains(&real);
    if is_broad || in_kernel || secret || is_ours {
        return Err(Unavailable::lack(format!(
            "{} cannot be a workspace: it holds more than one project; start in the directory of a project",
            real.display()
        )));
    }
    Ok(real)
}

/// Returns the real path of a directory.
pub(crate) fn real(directory: &Path) -> Result<PathBuf, Unavailable> {
    directory.canonicalize().map_err(|error| {
        Unavailable::new(format!("the directory {} cannot be read: {error}", directory.display()))
    })
}

/// Whether a path exists and no part of it is a link.
fn is_plain(path: &Path) -> bool {
    path.canonicalize().is_ok_and(|real| real == path)
}

/// Returns the paths that exist, with links resolved, each once.
pub(crate) fn existing(paths: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
    let real: BTreeSet<PathBuf> = paths.into_iter().filter_map(|path| path.canonicalize().ok()).collect();
    real.into_iter().collect()
}

fn hide(places: &Places, policy: &SandboxPolicy, cwd: &Path, survey: &mut Survey) {
    let in_home = places.home.iter().flat_map(|home| secrets::IN_HOME.iter().map(|name| home.join(name)));
    let in_home = in_home.chain(moved(places));
    let of_system = secrets::OF_SYSTEM.iter().map(PathBuf::from);
    let chosen = policy.hide.iter().map(PathBuf::from);
    let hidden = in_home.chain(of_system).chain(places.hidden.iter().cloned()).chain(chosen).chain(sockets());
    let chosen = policy.read.iter().chain(&policy.write).map(PathBuf::from);
    let shown = existing(chosen.chain([cwd.to_owned()]));
    for path in existing(hidden) {
        // A directory of sockets hides what is in it already, unless a part of it is shown again; a second mount would need the
        // first to have the place.
        let is_shown = shown.iter().any(|shown| path.starts_with(shown) && path != *shown);
        if !is_shown && survey.shared.iter().any(|shared| path.starts_with(shared)) {
            continue;
        }
        if path.is_dir() {
            survey.secret_directories.push(path);
        } else {
            survey.secret_files.push(path);
        }
    }
    // What is inside a hidden directory has no place to mount on.
    let directories = survey.secret_directories.clone();
    let is_inside = |path: &PathBuf| {
        path.ancestors().skip(1).any(|parent| directories.iter().any(|other| other == parent))
    };
    survey.secret_directories.retain(|path| !is_inside(path));
    survey.secret_files.retain(|path| !is_inside(path));
}

/// Returns secrets of the home directory that are elsewhere, because a variable names the directory that they are in.
fn moved(places: &Places) -> impl Iterator<Item = PathBuf> {
    places.variables.iter().flat_map(|(name, value)| {
        let usual = secrets::MOVED.iter().find(|(known, _)| name == known).map(|(_, usual)| *usual);
        let names =
            secrets::IN_HOME.iter().filter_map(move |secret| Path::new(secret).strip_prefix(usual?).ok());
        names.map(|rest| Path::new(value).join(rest))
    })
}

/// Returns the socket files of services outside. A mount that is read-only does not keep a program from connecting to one.
fn sockets() -> Vec<PathBuf> {
    let table = std::fs::read("/proc/net/unix").unwrap_or_default();
    let paths = table.split(|byte| *byte == b'\n').filter_map(|line| {
        let start = line.iter().position(|byte| *byte == b'/')?;
        Some(PathBuf::from(OsStr::from_bytes(&line[start..])))
    });
    let is_socket = |path: &PathBuf| path.metadata().is_ok_and(|found| found.file_type().is_socket());
    paths.filter(is_socket).collect()
}

/// Programs and certificates that are in directories of temporary files: of a test, of a build, of NixOS.
///
/// A link decides what is mounted, and programs inside can make links: what is reached by one, or is in the workspace, is none.
fn needed(places: &Places, shared: &[PathBuf], cwd: &Path) -> Vec<PathBuf> {
    let on_path = places.path.iter().flat_map(std::env::split_paths).map(|directory| {
        // The programs of `x/bin` need `x/lib`.
        let parent = directory.parent().filter(|_| directory.file_name() == Some(OsStr::new("bin")));
        parent.map_or_else(|| directory.clone(), Path::to_owned)
    });
    let named = places.variables.iter().filter(|(name, _)| NEEDED.iter().any(|needed| name == needed));
    let named = named.map(|(_, value)| PathBuf::from(value));
    let system = ["/run/current-system", "/run/opengl-driver"].map(PathBuf::from);
    let is_hidden = |path: &PathBuf| shared.iter().any(|shared| path.starts_with(shared) && path != shared);
    let found = on_path.chain(named).chain(system).filter(|path| is_hidden(path) && !path.starts_with(cwd));
    found.filter(|path| is_plain(path)).collect::<BTreeSet<_>>().into_iter().collect()
}

fn system() -> Vec<PathBuf> {
    if !rustix::process::geteuid().is_root() {
        return Vec::new();
    }
    SYSTEM
        .iter()
        .map(|name| Path::new("/proc").join(name))
        .filter(|path| path.symlink_metadata().is_ok())
        .collect()
}

/// Makes the files that act read-only, and their parents near the root of the workspace impossible to rename. Deeper ones can be
/// renamed: each mount is a boundary that files cannot be moved across, and packages of one repository move files.
fn protect(cwd: &Path, census: &Census, survey: &mut Survey) {
    let mut pinned = BTreeSet::new();
    for path in census.mountable() {
        survey.protected.push(cwd.join(path));
        let mut parts = path.components();
        let first = parts.next().map(|first| cwd.join(first));
        let is_repository = path.starts_with(".git");
        if (is_repository || path.components().count() == 2)
            && let Some(first) = first.filter(|first| *first != cwd.join(path))
        {
            pinned.insert(first);
        }
        // Submodules and worktrees: everything in between.
        if is_repository {
            let between = path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
            pinned.extend(between.map(|parent| cwd.join(parent)));
        }
    }
    survey.pinned.extend(pinned);
    // What programs inside can write cannot say what else they write.
    let is_written = |path: &Path| survey.writable.iter().any(|(_, what)| path.starts_with(what));
    if let Some(worktree) = Worktree::of(cwd).filter(|worktree| !is_written(&worktree.own)) {
        worktree.add_to(cwd, survey);
    }
}

/// Returns the directory that a worktree has in its repository.
pub(crate) fn worktree_directory(cwd: &Path) -> Option<PathBuf> {
    Worktree::of(cwd).map(|worktree| worktree.own)
}

/// A worktree of a repository that is elsewhere.
struct Worktree {
    /// The directory of the worktree in the repository.
    own: PathBuf,
    /// The directory that all worktrees share.
    common: PathBuf,
}

impl Worktree {
    /// Finds the repository of a worktree. Both have to name each other: a file alone could name any directory.
    fn of(cwd: &Path) -> Option<Self> {
        let dot = cwd.join(".git");
        let text = read_line(&dot)?;
        let own = cwd.join(text.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
        let back = PathBuf::from(read_line(&own.join("gitdir"))?).canonicalize().ok()?;
        let common = own.join(read_line(&own.join("commondir"))?).canonicalize().ok()?;
        let is_worktree = own.parent() == Some(&common.join("worktrees"));
        (back == dot.canonicalize().ok()? && is_worktree).then_some(Self { own, common })
    }

    fn add_to(&self, cwd: &Path, survey: &mut Survey) {
        // It may be in a hidden directory, such as /tmp.
        survey.readable.push(self.common.clone());
        let shared = ["objects", "refs", "logs"].map(|name| self.common.join(name));
        // A link would name any directory.
        for directory in shared.into_iter().chain([self.own.clone()]).filter(|path| is_plain(path)) {
            survey.writable.push((directory.clone(), directory));
        }
        let own = ["gitdir", "commondir", "config.worktree"].map(|name| self.own.join(name));
        survey.protected.extend(existing(own.into_iter().chain([cwd.join(".git")])));
    }
}

fn read_line(path: &Path) -> Option<String> {
    let text = baton_disk::untrusted::read_named(path, 4096).ok()?.into_text().ok()?;
    Some(text.trim_end().to_owned())
}

/// Returns the mounts that a program of an earlier call, which may still run, could exchange while they are made.
fn checks(survey: &Survey) -> Vec<Check> {
    let is_below =
        |path: &Path| survey.writable.iter().any(|(at, _)| path != at.as_path() && path.starts_with(at));
    let same = survey.protected.iter().chain(&survey.pinned).chain(survey.writable.iter().map(|(at, _)| at));
    // Without following links: a program that exchanges a parent with a link would decide what the helper expects. What is not
    // found that way is no file, so that the check fails.
    let root = Directory::root();
    let identity = |path: &Path| root.as_ref().ok()?.identity(path).ok();
    let same = same
        .chain(&survey.readable)
        .filter(|path| is_below(path))
        .map(|path| Check { path: Bytes::from(path), identity: identity(path).or(Some((0, 0))) });
    let hidden = survey.secret_directories.iter().chain(&survey.secret_files).filter(|path| is_below(path));
    same.chain(hidden.map(|path| Check { path: Bytes::from(path), identity: None })).collect()
}
