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
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_disk::beneath::Directory;
use baton_disk::untrusted;

/// Directories that one census visits.
pub const MOST_DIRECTORIES: usize = 4000;
/// Largest configuration of a repository that is judged; a larger one acts.
const LARGEST_CONFIG: usize = 1 << 20;
/// Files of one call that are moved away. Directories with more are emptied call by call.
const MOST_HELD: usize = 256;
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
    acts: Arc<Rule<Path>>,
    runs: Arc<Rule<[u8]>>,
}

type Rule<T> = dyn Fn(&T) -> bool + Send + Sync;

impl std::fmt::Debug for Judge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Judge")
    }
}

impl Judge {
    /// Creates a judge: whether a path, relative to the workspace, acts; and whether the text of a repository's configuration
    /// can make git run a program.
    pub fn new(
        acts: impl Fn(&Path) -> bool + Send + Sync + 'static,
        runs: impl Fn(&[u8]) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { acts: Arc::new(acts), runs: Arc::new(runs) }
    }

    /// Whether a path, relative to the workspace, acts.
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
    /// Whether all directories were visited.
    is_complete: bool,
}

/// A file that acts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    device: u64,
    inode: u64,
    is_link: bool,
    /// Whether it acts at this moment: a new repository has hooks that are samples, and a configuration that runs nothing.
    is_live: bool,
}

impl Census {
    /// Lists the files that act below `root`. Blocks.
    #[must_use]
    pub fn take(root: &Path, judge: &Judge) -> Self {
        let mut census = Self { is_complete: true, ..Self::default() };
        let mut queue = VecDeque::from([PathBuf::new()]);
        let mut visited = 0;
        while let Some(directory) = queue.pop_front() {
            visited += 1;
            if visited > MOST_DIRECTORIES {
                census.is_complete = false;
                break;
            }
            let Ok(entries) = root.join(&directory).read_dir() else { continue };
            let mut marks = Marks::default();
            for entry in entries.filter_map(Result::ok) {
                let name = entry.file_name();
                marks.note(&name);
                let path = directory.join(&name);
                let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_git(&name) && is_directory {
                    census.repository(root, &path, judge);
                } else if (judge.acts)(&path) {
                    census.add(root, path, true);
                } else if is_directory && name != OsStr::new("node_modules") {
                    queue.push_back(path);
                }
            }
            if marks.are_of_repository() {
                census.repository(root, &directory, judge);
            }
        }
        census
    }

    /// Lists what git acts on in the directory of a repository.
    fn repository(&mut self, root: &Path, git: &Path, judge: &Judge) {
        self.configuration(root, git, judge);
        self.submodules(root, &git.join("modules"), judge, 0);
        let worktrees = root.join(git).join("worktrees").read_dir();
        for worktree in worktrees.into_iter().flatten().filter_map(Result::ok) {
            let directory = git.join("worktrees").join(worktree.file_name());
            for name in SETTINGS {
                self.add(root, directory.join(name), true);
            }
        }
    }

    fn submodules(&mut self, root: &Path, modules: &Path, judge: &Judge, depth: usize) {
        let entries = root.join(modules).read_dir();
        for module in entries.into_iter().flatten().filter_map(Result::ok) {
            if !module.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let directory = modules.join(module.file_name());
            if root.join(&directory).join("HEAD").symlink_metadata().is_ok() {
                self.configuration(root, &directory, judge);
                self.submodules(root, &directory.join("modules"), judge, depth);
            } else if depth < 4 {
                // The path of a submodule may have slashes.
                self.submodules(root, &directory, judge, depth + 1);
            }
        }
    }

    fn configuration(&mut self, root: &Path, git: &Path, judge: &Judge) {
        for name in ["config", "config.worktree"] {
            let path = git.join(name);
            let text = untrusted::read_named(&root.join(&path), LARGEST_CONFIG);
            let is_live = text.map_or(true, |text| text.is_cut || (judge.runs)(&text.bytes));
            self.add(root, path, is_live);
        }
        for name in ["commondir", "gitdir"] {
            self.add(root, git.join(name), true);
        }
        let hooks = git.join("hooks");
        self.add(root, hooks.clone(), false);
        let entries = root.join(&hooks).read_dir();
        for hook in entries.into_iter().flatten().filter_map(Result::ok) {
            let name = hook.file_name();
            if !name.as_encoded_bytes().ends_with(b".sample") {
                self.add(root, hooks.join(name), true);
            }
        }
    }

    /// Adds a file, if it exists.
    fn add(&mut self, root: &Path, path: PathBuf, is_live: bool) {
        let Ok(metadata) = root.join(&path).symlink_metadata() else { return };
        let entry =
            Entry { device: metadata.dev(), inode: metadata.ino(), is_link: metadata.is_symlink(), is_live };
        self.found.insert(path, entry);
    }

    /// Returns the files that can be mounted read-only, relative to the workspace. A link cannot: what it leads to is protected
    /// where it is, and a link that was replaced is found afterwards.
    pub fn mountable(&self) -> impl Iterator<Item = &Path> {
        let is_hook = |path: &Path| path.parent().is_some_and(|parent| self.found.contains_key(parent));
        self.found
            .iter()
            .filter(move |(path, entry)| !entry.is_link && !is_hook(path))
            .map(|(path, _)| path.as_path())
    }

    /// Returns the files that act and were not there before, or are not the same files.
    #[must_use]
    pub fn new_since(&self, before: &Self) -> Vec<PathBuf> {
        let known: HashSet<(u64, u64)> =
            before.found.values().map(|entry| (entry.device, entry.inode)).collect();
        let is_new = |path: &PathBuf, entry: &Entry| match before.found.get(path) {
            // The configuration of a repository that was created inside may become one that acts.
            Some(same) if (same.device, same.inode) == (entry.device, entry.inode) => !same.is_live,
            _ => entry.is_link || !known.contains(&(entry.device, entry.inode)),
        };
        let new = self.found.iter().filter(|(path, entry)| entry.is_live && is_new(path, entry));
        new.map(|(path, _)| path.clone()).collect()
    }

    /// Whether all directories were visited.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.is_complete
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
    /// Where the program created it, relative to the workspace.
    pub path: PathBuf,
    /// Its name in the directory of held files; none for a link, which was removed.
    pub kept: Option<String>,
    /// The beginning of its contents.
    pub excerpt: Vec<u8>,
}

/// Moves new files that act into the directory `into`, so that nothing acts on them. Blocks.
pub(crate) fn set_aside(root: &Path, new: &[PathBuf], into: &Path) -> Vec<Held> {
    let mut files = Vec::new();
    new.iter().for_each(|path| list(root, path, &mut files));
    files
        .into_iter()
        .filter_map(|path| match hold(root, &path, into) {
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
    } else if files.len() < MOST_HELD {
        let entries = root.join(path).read_dir();
        let names = entries.into_iter().flatten().filter_map(Result::ok).map(|entry| entry.file_name());
        names.for_each(|name| list(root, &path.join(name), files));
    }
}

fn hold(root: &Path, path: &Path, into: &Path) -> io::Result<Held> {
    let workspace = Directory::trusted(root)?;
    if workspace.kind(path)? != rustix::fs::FileType::RegularFile {
        workspace.remove(path)?;
        return Ok(Held { path: path.to_owned(), kept: None, excerpt: Vec::new() });
    }
    let mut file = workspace.open(path)?;
    let mode = file.metadata()?.mode() & 0o777;
    let mut contents = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(&mut file, LARGEST_HELD + 1), &mut contents)?;
    if contents.len() as u64 > LARGEST_HELD {
        workspace.remove(path)?;
        return Ok(Held { path: path.to_owned(), kept: None, excerpt: Vec::new() });
    }
    baton_disk::private::create_dir_all(into)?;
    let kept = uuid::Uuid::new_v4().simple().to_string();
    Directory::trusted(into)?.put(Path::new(&kept), &contents, mode)?;
    workspace.remove(path)?;
    contents.truncate(EXCERPT);
    Ok(Held { path: path.to_owned(), kept: Some(kept), excerpt: contents })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn judge() -> Judge {
        Judge::new(
            |path| path.file_name().is_some_and(|name| name == ".envrc" || name == ".vscode"),
            |config| config.windows(9).any(|part| part == b"fsmonitor"),
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
        let after = Census::take(root, &judge());
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
        let after = Census::take(root, &judge());
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
        let after = Census::take(root, &judge());
        assert_eq!(names(&after.new_since(&before)), ["docs/config", "other/commondir"]);
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
        let after = Census::take(dir.path(), &judge());
        assert_eq!(names(&after.new_since(&before)), [".git/config"]);
    }

    #[test]
    fn new_files_are_moved_away_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (root, into) = (dir.path().join("work"), dir.path().join("held"));
        write(&root, "a/.envrc", "use nix");
        write(&root, ".vscode/tasks.json", "{}");
        std::os::unix::fs::symlink("/etc/hosts", root.join(".vscode/link")).unwrap();
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
            hold(&root, Path::new("../held"), &into).is_err(),
            "nothing outside of the workspace is moved"
        );
    }
}
