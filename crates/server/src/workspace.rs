//! The files that belong to a session: its plan and its workspace. Paths that clients name stay inside.
#![allow(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use baton_protocol::event::FileOperation;

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
        self.root.join("plan.md")
    }

    pub(crate) fn read_plan(&self) -> Result<Option<String>, FileError> {
        match fs::read_to_string(self.plan()) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(FileError::Io { doing: "read", path: self.plan(), source }),
        }
    }

    pub(crate) fn write_plan(&self, content: &str) -> Result<FileOperation, FileError> {
        write(&self.plan(), content)
    }

    /// Whether there was one.
    pub(crate) fn delete_plan(&self) -> Result<bool, FileError> {
        match fs::remove_file(self.plan()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(FileError::Io { doing: "delete", path: self.plan(), source }),
        }
    }

    /// The names of all files in the workspace, relative to it, in order.
    pub(crate) fn list(&self) -> Result<Vec<String>, FileError> {
        let files = self.files();
        let mut names = Vec::new();
        let mut directories = vec![files.clone()];
        while let Some(directory) = directories.pop() {
            let Ok(entries) = fs::read_dir(&directory) else { continue };
            for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
                if path.is_dir() && !path.is_symlink() {
                    directories.push(path);
                } else if let Ok(name) = path.strip_prefix(&files) {
                    names.push(name.to_string_lossy().into_owned());
                }
            }
        }
        names.sort();
        Ok(names)
    }

    pub(crate) fn read(&self, name: &str) -> Result<String, FileError> {
        let path = self.inside(name)?;
        fs::read_to_string(&path).map_err(|source| FileError::Io { doing: "read", path, source })
    }

    pub(crate) fn write(&self, name: &str, content: &str) -> Result<FileOperation, FileError> {
        write(&self.inside(name)?, content)
    }

    /// Where a file is.
    pub(crate) fn path_of(&self, name: &str) -> Result<PathBuf, FileError> {
        self.inside(name)
    }

    fn files(&self) -> PathBuf {
        self.root.join("files")
    }

    /// The place of a file, if its name stays inside: no absolute paths, no `..`, no links on the way that lead out.
    fn inside(&self, name: &str) -> Result<PathBuf, FileError> {
        let outside = || FileError::Outside(name.to_owned());
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        if name.is_empty() || !Path::new(name).components().all(plain) {
            return Err(outside());
        }
        let (files, path) = (self.files(), self.files().join(name));
        let existing = path.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(&files);
        let leads_out = match (existing.canonicalize(), files.canonicalize()) {
            (Ok(existing), Ok(files)) => !existing.starts_with(&files) && !files.starts_with(&existing),
            _ => false,
        };
        if leads_out { Err(outside()) } else { Ok(path) }
    }
}

fn write(path: &Path, content: &str) -> Result<FileOperation, FileError> {
    let existed = path.exists();
    let failed = |source| FileError::Io { doing: "write", path: path.to_owned(), source };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    fs::write(path, content).map_err(failed)?;
    Ok(if existed { FileOperation::Update } else { FileOperation::Create })
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
