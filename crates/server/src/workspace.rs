//! The files that belong to a session: its plan and its workspace. Paths that clients name stay inside.
#![allow(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use baton_agent::tools::beneath::{Directory, Unusable};
use baton_protocol::event::FileOperation;

/// The longest file that is read.
const LARGEST: u64 = 64 << 20;
const PLAN: &str = "plan.md";
const FILES: &str = "files";

/// Why a file could not be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// The path leads out.
    #[error("{0:?} is not inside the workspace files directory")]
    Outside(String),
    /// The file system said no.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
}

/// The directory of one session.
pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    pub(crate) fn at(root: PathBuf) -> Self {
        Self { root }
    }

    pub(crate) fn plan(&self) -> PathBuf {
        self.root.join(PLAN)
    }

    pub(crate) fn read_plan(&self) -> Result<Option<String>, FileError> {
        match self.opened().and_then(|root| root.read_to_string(Path::new(PLAN), LARGEST)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("read", Path::new(PLAN), error)),
        }
    }

    pub(crate) fn write_plan(&self, content: &str) -> Result<FileOperation, FileError> {
        self.put(Path::new(PLAN), content)
    }

    /// Whether there was one.
    pub(crate) fn delete_plan(&self) -> Result<bool, FileError> {
        match self.opened().and_then(|root| root.remove(Path::new(PLAN))) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.failed("delete", Path::new(PLAN), error)),
        }
    }

    /// The names of all files in the workspace, relative to it, in order. Links are named and not followed.
    pub(crate) fn list(&self) -> Result<Vec<String>, FileError> {
        let Ok(root) = self.opened() else { return Ok(Vec::new()) };
        let mut names = Vec::new();
        let mut directories = vec![PathBuf::from(FILES)];
        while let Some(directory) = directories.pop() {
            let Ok(entries) = root.list(&directory) else { continue };
            for entry in entries.filter_map(Result::ok) {
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = directory.join(&name);
                match root.kind(&path) {
                    _ if matches!(name.as_str(), "." | "..") => {}
                    Ok(kind) if kind.is_dir() => directories.push(path),
                    _ => {
                        names
                            .extend(path.strip_prefix(FILES).map(|name| name.to_string_lossy().into_owned()));
                    }
                }
            }
        }
        names.sort();
        Ok(names)
    }

    pub(crate) fn read(&self, name: &str) -> Result<String, FileError> {
        let path = below(name)?;
        let read = self.opened().and_then(|root| root.read_to_string(&path, LARGEST));
        read.map_err(|error| self.failed("read", &path, error))
    }

    pub(crate) fn write(&self, name: &str, content: &str) -> Result<FileOperation, FileError> {
        self.put(&below(name)?, content)
    }

    /// Where a file is.
    pub(crate) fn path_of(&self, name: &str) -> Result<PathBuf, FileError> {
        Ok(self.root.join(below(name)?))
    }

    fn opened(&self) -> io::Result<Directory> {
        Directory::trusted(&self.root).map(Directory::private)
    }

    fn put(&self, path: &Path, content: &str) -> Result<FileOperation, FileError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.root);
        let existed = made.and_then(|()| self.opened()?.write(path, content.as_bytes()));
        match existed.map_err(|error| self.failed("write", path, error))? {
            true => Ok(FileOperation::Update),
            false => Ok(FileOperation::Create),
        }
    }

    fn failed(&self, doing: &'static str, path: &Path, source: io::Error) -> FileError {
        match Unusable::of(&source) {
            Some(Unusable::Link | Unusable::Outside) => FileError::Outside(path.display().to_string()),
            Some(Unusable::NotRegular) | None => FileError::Io { doing, path: self.root.join(path), source },
        }
    }
}

/// The path of a file below the session's directory, if its name stays inside: no absolute paths, no `..`. Links are found
/// when it is opened.
fn below(name: &str) -> Result<PathBuf, FileError> {
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    match !name.is_empty() && Path::new(name).components().all(is_plain) {
        true => Ok(Path::new(FILES).join(name)),
        false => Err(FileError::Outside(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_inside() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::at(dir.path().join("session"));
        assert_eq!(workspace.list().unwrap(), Vec::<String>::new());
        assert_eq!(workspace.write("a/b.txt", "x").unwrap(), FileOperation::Create);
        assert_eq!(workspace.write("a/b.txt", "y").unwrap(), FileOperation::Update);
        assert_eq!(workspace.read("./a/b.txt").unwrap(), "y");
        assert_eq!(workspace.list().unwrap(), ["a/b.txt"]);
        for bad in ["", "../x", "a/../../x", "/etc/passwd", ".."] {
            assert!(matches!(workspace.write(bad, "x"), Err(FileError::Outside(_))), "{bad:?}");
            assert!(matches!(workspace.read(bad), Err(FileError::Outside(_))), "{bad:?}");
        }
        std::os::unix::fs::symlink(dir.path(), dir.path().join("session/files/link")).unwrap();
        std::fs::write(dir.path().join("secret"), "s").unwrap();
        assert!(matches!(workspace.read("link/secret"), Err(FileError::Outside(_))), "a link that leads out");
        assert!(matches!(workspace.write("link/secret", "x"), Err(FileError::Outside(_))));
        std::os::unix::fs::symlink(dir.path().join("new"), dir.path().join("session/files/new")).unwrap();
        assert!(
            workspace.write("new", "x").is_err() && !dir.path().join("new").exists(),
            "a link to nothing"
        );
        assert_eq!(std::fs::read_to_string(dir.path().join("secret")).unwrap(), "s");
        assert_eq!(workspace.list().unwrap(), ["a/b.txt", "link", "new"], "links are named and not followed");
    }

    #[test]
    fn a_directory_of_files_that_is_a_link_is_not_entered() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("session")).unwrap();
        std::fs::create_dir(dir.path().join("out")).unwrap();
        std::fs::write(dir.path().join("out/secret"), "s").unwrap();
        std::os::unix::fs::symlink(dir.path().join("out"), dir.path().join("session/files")).unwrap();
        let workspace = Workspace::at(dir.path().join("session"));
        assert!(matches!(workspace.read("secret"), Err(FileError::Outside(_))));
        assert!(matches!(workspace.write("new", "x"), Err(FileError::Outside(_))));
        assert_eq!(workspace.list().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_plan_that_is_a_link_or_a_pipe_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::at(dir.path().to_owned());
        std::os::unix::fs::symlink("/proc/self/environ", workspace.plan()).unwrap();
        assert!(workspace.read_plan().is_err() && workspace.write_plan("x").is_err());
        std::fs::remove_file(workspace.plan()).unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, workspace.plan(), mode).unwrap();
        assert!(workspace.read_plan().is_err());
    }

    #[test]
    fn the_plan_comes_and_goes() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::at(dir.path().to_owned());
        assert_eq!(workspace.read_plan().unwrap(), None);
        workspace.write_plan("1. think").unwrap();
        assert_eq!(workspace.read_plan().unwrap().as_deref(), Some("1. think"));
        assert!(workspace.delete_plan().unwrap() && !workspace.delete_plan().unwrap());
    }
}
