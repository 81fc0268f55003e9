//! Files that act: git hooks and configuration, start-up files, settings of editors, agents and CI services. Somebody's
//! program runs what is in them, later and outside, so that a program inside that writes one has escaped.
//!
//! A [`Census`] lists them before a call. Those that exist are mounted read-only. A name that does not exist cannot be mounted
//! without leaving a trace, so a second census after the call finds what was created, and the file is moved away until a person
//! decides.
//!
//! What this does not see: names below `node_modules`, names beyond [`MOST_DIRECTORIES`], and an editor that is faster than the
//! census. A parent of a file deep in the workspace can be renamed; the census then finds the new file at the old place.
#![expect(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::fs::{FileType, ReadDir};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_disk::beneath::Directory;
use baton_disk::untrusted;

/// Directories that the census before a call visits. The one after it visits as many that are new.
pub const MOST_DIRECTORIES: usize = 10_000;
/// Largest configuration of a repository that is judged; a larger one acts.
const LARGEST_CONFIG: usize = 1 << 20;
/// Files of one call that are kept; more are deleted.
const MOST_HELD: usize = 256;
/// Bytes of one call that are kept, in all files together; what does not fit is deleted.
const LARGEST_SUM: u64 = 64 << 20;
/// Largest file that is kept; a larger one is deleted. Files that act are short.
const LARGEST_HELD: u64 = 16 << 20;
/// How much of a file people are shown.
const EXCERPT: usize = 16 << 10;

/// Files in the directory of a repository by which git finds programs, and other directories with such files.
const SETTINGS: [&str; 4] = ["config", "config.worktree", "commondir", "gitdir"];
/// The directory of hooks.
const HOOKS: &str = "hooks";

/// Decides which files act. The list of names is the policy's, so that a tool and a command are held to the same one.
#[derive(Clone)]
pub struct Judge {
    may_act: Arc<dyn Rule<OsStr, bool>>,
    acts: Arc<dyn Rule<Path, bool>>,
    settings: Arc<dyn Rule<[u8], Settings>>,
}

trait Rule<T: ?Sized, R>: Fn(&T) -> R + Send + Sync {}

impl<T: ?Sized, R, F: Fn(&T) -> R + Send + Sync> Rule<T, R> for F {}

/// What the configuration of a repository makes git do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Whether it can make git run a program.
    pub run: bool,
    /// Files and directories that git reads as configuration or as hooks.
    pub names: Vec<PathBuf>,
}

impl std::fmt::Debug for Judge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Judge")
    }
}

impl Judge {
    /// Creates a judge: whether a path that ends with a name may act although its parent does not, which is asked for each file;
    /// whether a path acts; and what the configuration of a repository does.
    pub fn new(
        may_act: impl Fn(&OsStr) -> bool + Send + Sync + 'static,
        acts: impl Fn(&Path) -> bool + Send + Sync + 'static,
        settings: impl Fn(&[u8]) -> Settings + Send + Sync + 'static,
    ) -> Self {
        Self { may_act: Arc::new(may_act), acts: Arc::new(acts), settings: Arc::new(settings) }
    }

    /// Whether a path acts.
    #[must_use]
    pub fn acts(&self, path: &Path) -> bool {
        let in_repository = path.ancestors().find(|parent| parent.file_name().is_some_and(is_git));
        match in_repository.and_then(|git| path.strip_prefix(git).ok()) {
            Some(rest) if rest.as_os_str().is_empty() => true,
            Some(rest) => {
                let is_named = |part: &OsStr| part == HOOKS || SETTINGS.iter().any(|name| part == *name);
                rest.components().any(|part| is_named(part.as_os_str()))
            }
            None => (self.acts)(path),
        }
    }
}

/// The files that act in a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census {
    /// By path relative to the workspace.
    found: BTreeMap<PathBuf, Entry>,
    /// The directories that were visited.
    visited: Vec<PathBuf>,
    /// Directories that could not be read.
    unreadable: HashSet<PathBuf>,
    /// Whether all directories were visited.
    is_complete: bool,
    /// Whether there are more submodules than are visited.
    misses_submodules: bool,
}

/// A file that acts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    device: u64,
    inode: u64,
    is_link: bool,
    /// When a link was made: it cannot be mounted, so that another file may have its inode later. None for other files.
    made: Option<(i64, i64)>,
    /// Whether it acts at this moment: a new repository has hooks that are samples, and a configuration that runs nothing.
    is_live: bool,
    /// The link or the configuration that leads here. Without it, the file would not act.
    via: Option<PathBuf>,
}

impl Census {
    /// Lists the files that act below `root`, which has no links in its path. Blocks.
    #[must_use]
    pub fn take(root: &Path, judge: &Judge) -> Self {
        Walk::new(root, judge, None).run()
    }

    /// Lists them again, after a program may have changed everything: first where this census was. Blocks.
    #[must_use]
    pub fn again(&self, root: &Path, judge: &Judge) -> Self {
        Walk::new(root, judge, Some(self)).run()
    }

    /// Returns the files that can be mounted read-only, relative to the workspace. A link cannot: what it leads to is protected
    /// where it is, and a link that was replaced is found afterwards.
    pub fn mountable(&self) -> impl Iterator<Item = &Path> {
        let is_below = |path: &Path| {
            let parent = path.parent().and_then(|parent| self.found.get(parent));
            parent.is_some_and(|parent| !parent.is_link)
        };
        self.found
            .iter()
            .filter(move |(path, entry)| !entry.is_link && !is_below(path))
            .map(|(path, _)| path.as_path())
    }

    /// Returns the files that act and were not there before, or are not the same files.
    #[must_use]
    pub fn new_since(&self, before: &Self) -> Vec<PathBuf> {
        let files = before.found.values().filter(|entry| !entry.is_link);
        let known: HashSet<(u64, u64)> = files.map(|entry| (entry.device, entry.inode)).collect();
        let is_new = |path: &PathBuf, entry: &Entry| match before.found.get(path) {
            // The configuration of a repository that was created inside may become one that acts.
            Some(same) if (same.device, same.inode, same.made) == (entry.device, entry.inode, entry.made) => {
                !same.is_live
            }
            _ => entry.is_link || !known.contains(&(entry.device, entry.inode)),
        };
        // Where a new link leads does not act any more when the link is gone, and may be the user's.
        let leads_here = |path: &PathBuf| self.found.get(path).is_some_and(|entry| !is_new(path, entry));
        let new = self.found.iter().filter(|(path, entry)| {
            entry.is_live && entry.via.as_ref().is_none_or(leads_here) && is_new(path, entry)
        });
        new.map(|(path, _)| path.clone()).collect()
    }

    /// Whether all directories were visited.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.is_complete && !self.misses_submodules
    }
}

/// A directory to visit.
struct Visit {
    path: PathBuf,
    /// The link that leads there, and the path by which the link's directory knows it.
    alias: Option<(PathBuf, PathBuf)>,
}

/// A census that is being taken.
struct Walk<'a> {
    root: &'a Path,
    /// What paths are judged below: the whole path, unless it acts by a name that it has before the workspace.
    base: &'a Path,
    judge: &'a Judge,
    before: Option<&'a Census>,
    census: Census,
    queue: VecDeque<Visit>,
    queued: HashSet<PathBuf>,
    /// Directories that may still be visited.
    budget: usize,
    /// Directories of submodules that may still be visited.
    submodules_left: usize,
}

impl<'a> Walk<'a> {
    fn new(root: &'a Path, judge: &'a Judge, before: Option<&'a Census>) -> Self {
        let known = before.map(|before| before.visited.clone()).unwrap_or_default();
        let mut walk = Self {
            root,
            base: if judge.acts(root) { Path::new("") } else { root },
            judge,
            before,
            budget: MOST_DIRECTORIES + known.len(),
            submodules_left: MOST_DIRECTORIES,
            census: Census { is_complete: true, ..Census::default() },
            queue: VecDeque::new(),
            queued: HashSet::new(),
        };
        [PathBuf::new()].into_iter().chain(known).for_each(|path| walk.queue(path));
        walk
    }

    fn queue(&mut self, path: PathBuf) {
        if self.queued.insert(path.clone()) {
            self.queue.push_back(Visit { path, alias: None });
        }
    }

    fn run(mut self) -> Census {
        while let Some(visit) = self.queue.pop_front() {
            if !self.spend() {
                break;
            }
            self.visit(&visit);
        }
        self.census
    }

    fn spend(&mut self) -> bool {
        match self.budget.checked_sub(1) {
            Some(left) => self.budget = left,
            None => self.census.is_complete = false,
        }
        self.census.is_complete
    }

    fn visit(&mut self, visit: &Visit) {
        let Some(entries) = self.entries(&visit.path) else { return };
        if visit.alias.is_none() {
            self.census.visited.push(visit.path.clone());
        }
        let mut marks = Marks::default();
        for entry in entries.filter_map(Result::ok) {
            let (name, kind) = (entry.file_name(), entry.file_type());
            marks.note(&name);
            self.entry(visit, &name, kind.as_ref().ok());
        }
        if marks.are_of_repository() {
            self.repository(&visit.path);
        }
    }

    fn entry(&mut self, visit: &Visit, name: &OsStr, kind: Option<&FileType>) {
        let is_directory = kind.is_some_and(FileType::is_dir);
        if is_git(name) && is_directory {
            self.repository(&visit.path.join(name));
        } else if (self.judge.may_act)(name) && self.acts(visit, name) {
            self.add_acting(visit, name);
        } else if is_directory && name != OsStr::new("node_modules") {
            let path = visit.path.join(name);
            match &visit.alias {
                None => self.queue(path),
                Some((link, alias)) => {
                    self.queue.push_back(Visit { path, alias: Some((link.clone(), alias.join(name))) });
                }
            }
        } else if kind.is_some_and(FileType::is_symlink) && visit.alias.is_none() {
            // Its name may be the first half of one that acts.
            let path = visit.path.join(name);
            if let Some(target) = self.target(&path).filter(|target| self.root.join(target).is_dir()) {
                self.queue.push_back(Visit { path: target, alias: Some((path.clone(), path)) });
            }
        }
    }

    /// Whether an entry of a directory acts, by the path under which the directory is known.
    fn acts(&self, visit: &Visit, name: &OsStr) -> bool {
        let known_as = visit.alias.as_ref().map_or(&visit.path, |(_, alias)| alias);
        (self.judge.acts)(&self.base.join(known_as).join(name))
    }

    fn add_acting(&mut self, visit: &Visit, name: &OsStr) {
        let path = visit.path.join(name);
        match &visit.alias {
            None => self.add(path, true, None),
            // Otherwise it acts by its own name, too.
            Some((link, _)) if !(self.judge.acts)(&self.base.join(&path)) => {
                self.add(link.clone(), true, None);
                self.add(path, true, Some(link));
            }
            Some(_) => {}
        }
    }

    /// Opens a directory. One that a program has made unreadable is made readable again.
    fn entries(&mut self, path: &Path) -> Option<ReadDir> {
        let directory = self.root.join(path);
        match directory.read_dir() {
            Ok(entries) => Some(entries),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let was_readable = self.before.is_some_and(|before| !before.unreadable.contains(path));
                let opened = || Directory::trusted(self.root)?.open_up(path);
                if was_readable && opened().is_ok() {
                    return directory.read_dir().ok();
                }
                self.census.unreadable.insert(path.to_owned());
                None
            }
            Err(_) => None,
        }
    }

    /// Returns where a link leads, relative to the workspace, if it is a part of the workspace.
    fn target(&self, link: &Path) -> Option<PathBuf> {
        let target = self.root.join(link).canonicalize().ok()?;
        let target = target.strip_prefix(self.root).ok()?;
        let is_above = link.starts_with(target);
        (!is_above).then(|| target.to_owned())
    }

    /// Lists what git acts on in the directory of a repository.
    fn repository(&mut self, git: &Path) {
        self.configuration(git);
        self.submodules(&git.join("modules"), 0);
        for directory in self.directories(&git.join("worktrees")) {
            SETTINGS.iter().for_each(|name| self.add(directory.join(name), true, None));
        }
    }

    fn submodules(&mut self, modules: &Path, depth: usize) {
        for directory in self.directories(modules) {
            // Not the budget of the directories, which would be visited no more.
            match self.submodules_left.checked_sub(1) {
                Some(left) => self.submodules_left = left,
                None => return self.census.misses_submodules = true,
            }
            if self.root.join(&directory).join("HEAD").symlink_metadata().is_ok() {
                self.configuration(&directory);
                self.submodules(&directory.join("modules"), depth);
            } else if depth < 4 {
                // The path of a submodule may have slashes.
                self.submodules(&directory, depth + 1);
            }
        }
    }

    fn directories(&mut self, path: &Path) -> Vec<PathBuf> {
        let entries = self.entries(path).into_iter().flatten().filter_map(Result::ok);
        let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        directories.map(|entry| path.join(entry.file_name())).collect()
    }

    fn configuration(&mut self, git: &Path) {
        for name in ["config", "config.worktree"] {
            let path = git.join(name);
            let settings = match untrusted::read_named(&self.root.join(&path), LARGEST_CONFIG) {
                Ok(text) if !text.is_cut => (self.judge.settings)(&text.bytes),
                _ => Settings { run: true, names: Vec::new() },
            };
            self.add(path.clone(), settings.run, None);
            for named in settings.names {
                self.named(git, &path, &named);
            }
        }
        for name in ["commondir", "gitdir"] {
            self.add(git.join(name), true, None);
        }
        self.hooks(&git.join(HOOKS), None);
    }

    /// Adds a file or directory that a configuration names: relative to it, or to the work tree.
    fn named(&mut self, git: &Path, configuration: &PathBuf, named: &Path) {
        let work_tree = git.parent().unwrap_or(git);
        for base in [git, work_tree] {
            let Ok(path) = self.root.join(base).join(named).canonicalize() else { continue };
            let Ok(path) = path.strip_prefix(self.root) else { continue };
            if !git.starts_with(path) && !path.starts_with(git) {
                self.add(path.to_owned(), true, Some(configuration));
            }
        }
    }

    fn hooks(&mut self, hooks: &Path, via: Option<&PathBuf>) {
        self.add(hooks.to_owned(), false, via);
        if let Some(target) = self.target(hooks).filter(|target| target != hooks) {
            return self.hooks(&target, Some(&hooks.to_owned()));
        }
        let entries = self.entries(hooks).into_iter().flatten().filter_map(Result::ok);
        let names = entries.map(|entry| entry.file_name());
        for name in names.filter(|name| !name.as_encoded_bytes().ends_with(b".sample")).collect::<Vec<_>>() {
            self.add(hooks.join(name), true, via);
        }
    }

    /// Adds a file, if it exists, and what it leads to.
    fn add(&mut self, path: PathBuf, is_live: bool, via: Option<&PathBuf>) {
        let Ok(metadata) = self.root.join(&path).symlink_metadata() else { return };
        let entry = Entry {
            device: metadata.dev(),
            inode: metadata.ino(),
            is_link: metadata.is_symlink(),
            made: metadata.is_symlink().then(|| (metadata.ctime(), metadata.ctime_nsec())),
            is_live,
            via: via.cloned(),
        };
        if entry.is_link
            && is_live
            && let Some(target) = self.target(&path)
        {
            self.add(target, true, Some(&path));
        }
        self.census.found.insert(path, entry);
    }
}

/// Whether a name is that of a repository's directory. Some file systems ignore case.
fn is_git(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(".git")
}

/// Names by which git takes any directory for a repository, and runs what its configuration names.
#[derive(Default)]
struct Marks {
    head: bool,
    objects: bool,
    refs: bool,
    common: bool,
}

impl Marks {
    fn note(&mut self, name: &OsStr) {
        match name.to_str() {
            Some("HEAD") => self.head = true,
            Some("objects") => self.objects = true,
            Some("refs") => self.refs = true,
            Some("commondir") => self.common = true,
            _ => {}
        }
    }

    fn are_of_repository(&self) -> bool {
        self.head && (self.common || (self.objects && self.refs))
    }
}

/// A file that acts, which a program inside created, and which was moved away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Where the program created it: relative to the working directory, or absolute elsewhere.
    pub path: PathBuf,
    /// Its name in the directory of held files; none for a link and a file that was too large, which were deleted.
    pub kept: Option<String>,
    /// The beginning of its contents.
    pub excerpt: Vec<u8>,
}

/// Moves new files that act into the directory `into`, so that nothing acts on them. Blocks.
pub(crate) fn set_aside(root: &Path, new: &[PathBuf], into: &Path) -> Vec<Held> {
    let mut files = Vec::new();
    new.iter().for_each(|path| list(root, path, &mut files));
    let mut room = LARGEST_SUM;
    files
        .into_iter()
        .enumerate()
        .filter_map(|(place, path)| match hold(root, &path, into, (place < MOST_HELD).then_some(&mut room)) {
            Ok(held) => Some(held),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a file that acts could not be moved away");
                None
            }
        })
        .collect()
}

/// Lists the files at and below a path. Links are not followed.
fn list(root: &Path, path: &Path, files: &mut Vec<PathBuf>) {
    let Ok(metadata) = root.join(path).symlink_metadata() else { return };
    if !metadata.is_dir() {
        files.push(path.to_owned());
    } else {
        if metadata.mode() & 0o700 != 0o700 {
            drop(Directory::trusted(root).and_then(|root| root.open_up(path)));
        }
        let entries = root.join(path).read_dir();
        let names = entries.into_iter().flatten().filter_map(Result::ok).map(|entry| entry.file_name());
        names.for_each(|name| list(root, &path.join(name), files));
    }
}

/// Moves one file, or deletes it if it does not fit into the room that is left, or cannot be kept: it must not stay where it acts.
fn hold(root: &Path, path: &Path, into: &Path, room: Option<&mut u64>) -> io::Result<Held> {
    let workspace = Directory::trusted(root)?;
    let contents = match read(&workspace, path) {
        // A program may have taken the rights to the directory, or to the file, which is then deleted.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            workspace.open_up(path.parent().unwrap_or(Path::new("")))?;
            read(&workspace, path).unwrap_or_default()
        }
        // A program that still runs may have removed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
        contents => contents.unwrap_or_default(),
    };
    let kept = match (&contents, room) {
        (Some((contents, mode)), Some(room)) if contents.len() as u64 <= *room => {
            *room -= contents.len() as u64;
            keep(into, contents, *mode)
                .inspect_err(|error| tracing::error!(path = %path.display(), %error, "cannot keep a file that acts; it is deleted"))
                .ok()
        }
        _ => None,
    };
    if workspace.remove(path).is_err() {
        workspace.open_up(path.parent().unwrap_or(Path::new("")))?;
        workspace.remove(path)?;
    }
    let mut excerpt = contents.map(|(contents, _)| contents).unwrap_or_default();
    let rest = excerpt.len().saturating_sub(EXCERPT);
    excerpt.truncate(EXCERPT);
    if rest > 0 {
        // Who approves the beginning must know that there is more.
        excerpt.extend(format!("\n[{rest} more bytes are not shown]\n").into_bytes());
    }
    Ok(Held { path: path.to_owned(), kept, excerpt })
}

/// Copies a file into the directory of held files, and returns its name there.
fn keep(into: &Path, contents: &[u8], mode: u32) -> io::Result<String> {
    let name = uuid::Uuid::new_v4().simple().to_string();
    baton_disk::private::create_dir_all(into)?;
    Directory::trusted(into)?.put(Path::new(&name), contents, mode)?;
    Ok(name)
}

/// Reads a file, and its mode; nothing of links, of sockets, and of files that are too large.
fn read(workspace: &Directory, path: &Path) -> io::Result<Option<(Vec<u8>, u32)>> {
    if workspace.kind(path)? != rustix::fs::FileType::RegularFile {
        return Ok(None);
    }
    let mut file = workspace.open(path)?;
    let mode = file.metadata()?.mode() & 0o777;
    let mut contents = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(&mut file, LARGEST_HELD + 1), &mut contents)?;
    Ok((contents.len() as u64 <= LARGEST_HELD).then_some((contents, mode)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn judge() -> Judge {
        Judge::new(
            |_| true,
            |path| path.file_name().is_some_and(|name| name == ".envrc" || name == ".vscode"),
            |config| Settings {
                run: config.windows(9).any(|part| part == b"fsmonitor"),
                names: String::from_utf8_lossy(config)
                    .lines()
                    .filter_map(|line| line.strip_prefix("hooksPath = ").map(PathBuf::from))
                    .collect(),
            },
        )
    }

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn names(paths: &[PathBuf]) -> Vec<&str> {
        paths.iter().map(|path| path.to_str().unwrap()).collect()
    }

    #[test]
    fn existing_files_are_mountable_and_new_ones_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write(root, ".git/config", "[core]\n");
        write(root, ".git/hooks/pre-commit.sample", "");
        write(root, ".git/hooks/pre-push", "");
        write(root, "deep/er/.vscode/tasks.json", "");
        let before = Census::take(root, &judge());
        let mountable: Vec<PathBuf> = before.mountable().map(Path::to_owned).collect();
        assert_eq!(names(&mountable), [".git/config", ".git/hooks", "deep/er/.vscode"]);
        assert!(before.new_since(&before).is_empty());
        write(root, ".envrc", "");
        write(root, ".git/commondir", "");
        write(root, "other/.git/config", "[core]\n fsmonitor = x\n");
        write(root, "other/.git/hooks/post-commit", "");
        write(root, "fine/.git/config", "[core]\n bare = false\n");
        write(root, "fine/.git/hooks/a.sample", "");
        let after = before.again(root, &judge());
        let new = after.new_since(&before);
        assert_eq!(
            names(&new),
            [".envrc", ".git/commondir", "other/.git/config", "other/.git/hooks/post-commit"]
        );
    }

    #[test]
    fn renamed_parent_does_not_hide_a_new_file() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write(root, "sub/.git/config", "[core] fsmonitor = mine");
        let before = Census::take(root, &judge());
        fs::rename(root.join("sub"), root.join("moved")).unwrap();
        write(root, "sub/.git/config", "[core] fsmonitor = theirs");
        let after = before.again(root, &judge());
        assert_eq!(names(&after.new_since(&before)), ["sub/.git/config"], "what was moved is not new");
    }

    #[test]
    fn directory_that_looks_like_a_repository_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let before = Census::take(root, &judge());
        write(root, "docs/HEAD", "ref: refs/heads/main");
        write(root, "docs/objects/x", "");
        write(root, "docs/refs/x", "");
        write(root, "docs/config", "[core] fsmonitor = theirs");
        write(root, "other/HEAD", "ref: refs/heads/main");
        write(root, "other/commondir", "../docs");
        write(root, "plain/config", "[core] fsmonitor = nobody reads it");
        let after = before.again(root, &judge());
        assert_eq!(names(&after.new_since(&before)), ["docs/config", "other/commondir"]);
    }

    #[test]
    fn what_a_link_leads_to_is_protected_and_a_new_link_is_removed_alone() {
        let dir = tempfile::tempdir().unwrap();
        let root = &dir.path().canonicalize().unwrap();
        write(root, "settings/code/tasks.json", "{}");
        write(root, "rc", "use nix");
        symlink("settings/code", root.join(".vscode")).unwrap();
        symlink("rc", root.join(".envrc")).unwrap();
        let before = Census::take(root, &judge());
        let mountable: Vec<PathBuf> = before.mountable().map(Path::to_owned).collect();
        assert_eq!(names(&mountable), ["rc", "settings/code"]);
        write(root, "src/main.rs", "mine");
        symlink("../src", root.join("settings/.vscode")).unwrap();
        write(root, "other/.vscode/tasks.json", "theirs");
        symlink("other", root.join("alias")).unwrap();
        let after = before.again(root, &judge());
        assert_eq!(names(&after.new_since(&before)), ["other/.vscode", "settings/.vscode"]);
    }

    #[test]
    fn link_to_a_directory_is_judged_by_its_own_name() {
        let judge = Judge::new(|_| true, |path| path.ends_with(".config/editor"), |_| Settings::default());
        let dir = tempfile::tempdir().unwrap();
        let root = &dir.path().canonicalize().unwrap();
        write(root, "mine/editor", "");
        let before = Census::take(root, &judge);
        symlink("mine", root.join(".config")).unwrap();
        let after = before.again(root, &judge);
        assert_eq!(
            names(&after.new_since(&before)),
            [".config"],
            "the link is new, and where it leads is not"
        );
    }

    #[test]
    fn files_that_a_configuration_names_are_protected() {
        let dir = tempfile::tempdir().unwrap();
        let root = &dir.path().canonicalize().unwrap();
        write(root, ".git/config", "hooksPath = tools/hooks\nfsmonitor");
        write(root, "tools/hooks/pre-commit", "");
        let before = Census::take(root, &judge());
        let mountable: Vec<PathBuf> = before.mountable().map(Path::to_owned).collect();
        assert_eq!(names(&mountable), [".git/config", "tools/hooks"]);
        write(root, "new/.git/config", "hooksPath = ../src\nfsmonitor");
        write(root, "src/main.rs", "mine");
        let after = before.again(root, &judge());
        assert_eq!(names(&after.new_since(&before)), ["new/.git/config"], "not what it names");
    }

    #[test]
    fn directory_without_rights_hides_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let root = &dir.path().canonicalize().unwrap();
        let before = Census::take(root, &judge());
        write(root, "sub/.vscode/tasks.json", "{}");
        let mode = |path: &str, mode| {
            fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).unwrap();
        };
        mode("sub/.vscode", 0o111);
        mode("sub", 0o111);
        let new = before.again(root, &judge()).new_since(&before);
        assert_eq!(names(&new), ["sub/.vscode"]);
        assert_eq!(set_aside(root, &new, &root.join("held")).len(), 1);
        assert!(!root.join("sub/.vscode/tasks.json").exists());
    }

    #[test]
    fn paths_in_repositories_act_if_git_runs_what_they_name() {
        for path in ["sub/.git", ".git/config", ".git/hooks/pre-push", ".git/modules/a/config", "a/.vscode"] {
            assert!(judge().acts(Path::new(path)), "{path}");
        }
        for path in ["sub", ".git/HEAD", ".git/refs/heads/main"] {
            assert!(!judge().acts(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn configuration_that_starts_to_act_is_new() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), ".git/config", "[core]\n");
        let before = Census::take(dir.path(), &judge());
        write(dir.path(), ".git/config", "[core]\n fsmonitor = x\n");
        let after = before.again(dir.path(), &judge());
        assert_eq!(names(&after.new_since(&before)), [".git/config"]);
    }

    #[test]
    fn new_files_are_moved_away_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (root, into) = (dir.path().join("work"), dir.path().join("held"));
        write(&root, "a/.envrc", "use nix");
        write(&root, ".vscode/tasks.json", "{}");
        symlink("/etc/hosts", root.join(".vscode/link")).unwrap();
        let new = [PathBuf::from("a/.envrc"), PathBuf::from(".vscode"), PathBuf::from("gone")];
        let held = set_aside(&root, &new, &into);
        let found: Vec<_> =
            held.iter().map(|held| (held.path.to_str().unwrap(), held.kept.is_some())).collect();
        assert_eq!(found.len(), 3);
        assert!(found.contains(&("a/.envrc", true)) && found.contains(&(".vscode/link", false)), "{found:?}");
        let kept = into.join(held[0].kept.as_ref().unwrap());
        assert_eq!(
            (fs::read_to_string(kept).unwrap().as_str(), held[0].excerpt.as_slice()),
            ("use nix", &b"use nix"[..])
        );
        assert!(!root.join("a/.envrc").exists() && Path::new("/etc/hosts").exists());
        assert!(
            hold(&root, Path::new("../held"), &into, None).is_err(),
            "nothing outside of the workspace is moved"
        );
    }
}
