//! The workspace of a session: its plan and its files. Paths that clients send never lead out of it.
#![allow(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use baton_disk::beneath::{Directory, Unusable};
use baton_protocol::event::FileOperation;

/// Size limit for reading a file.
const LARGEST: u64 = 64 << 20;
const PLAN: &str = "plan.md";
const FILES: &str = "files";

/// Failures of file operations in a workspace.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The path leads out of the workspace.
    #[error("{0:?} is not inside the workspace files directory")]
    Outside(String),
    /// The file system failed.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// The failed operation, as a verb.
        doing: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// Workspace of one session. All methods but the paths block.
pub struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// Opens the workspace in a session directory. Touches no file.
    pub(crate) fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// Returns the path of the plan.
    pub fn plan(&self) -> PathBuf {
        self.root.join(PLAN)
    }

    /// Reads the plan; none if there is none.
    ///
    /// # Errors
    /// When the file cannot be read, or is a link.
    pub fn read_plan(&self) -> Result<Option<String>, FileError> {
        match self.open().and_then(|root| root.read_to_string(Path::new(PLAN), LARGEST)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("read", Path::new(PLAN), error)),
        }
    }

    /// Writes the plan. Returns whether that created it.
    ///
    /// # Errors
    /// When the file cannot be written, or is a link.
    pub fn write_plan(&self, content: &str) -> Result<FileOperation, FileError> {
        self.write_below(Path::new(PLAN), content)
    }

    /// Deletes the plan. Returns whether there was one.
    ///
    /// # Errors
    /// When the file cannot be deleted.
    pub fn delete_plan(&self) -> Result<bool, FileError> {
        match self.open().and_then(|root| root.remove(Path::new(PLAN))) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.failed("delete", Path::new(PLAN), error)),
        }
    }

    /// Lists all files by their relative paths, sorted. Links are listed and not followed.
    ///
    /// # Errors
    /// None at present: unreadable files are not listed.
    pub fn list(&self) -> Result<Vec<String>, FileError> {
        let Ok(root) = self.open() else { return Ok(Vec::new()) };
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

    /// Reads a file.
    ///
    /// # Errors
    /// When the path leads out of the workspace, or the file cannot be read.
    pub fn read(&self, name: &str) -> Result<String, FileError> {
        let path = below(name)?;
        let read = self.open().and_then(|root| root.read_to_string(&path, LARGEST));
        read.map_err(|error| self.failed("read", &path, error))
    }

    /// Writes a file. Returns whether that created it.
    ///
    /// # Errors
    /// When the path leads out of the workspace, or the file cannot be written.
    pub fn write(&self, name: &str, content: &str) -> Result<FileOperation, FileError> {
        self.write_below(&below(name)?, content)
    }

    /// Returns the absolute path of a file.
    ///
    /// # Errors
    /// When the name leads out of the workspace.
    pub fn path_of(&self, name: &str) -> Result<PathBuf, FileError> {
        Ok(self.root.join(below(name)?))
    }

    fn open(&self) -> io::Result<Directory> {
        Directory::trusted(&self.root).map(Directory::private)
    }

    fn write_below(&self, path: &Path, content: &str) -> Result<FileOperation, FileError> {
        let created = DirBuilder::new().recursive(true).mode(0o700).create(&self.root);
        let existed = created.and_then(|()| self.open()?.write(path, content.as_bytes()));
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

/// Returns the path of a file relative to the session directory. Refuses absolute names and `..`; links are refused when
/// the file is opened.
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
    fn names_and_links_that_lead_out_are_refused() {
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
        assert!(
            matches!(workspace.read("link/secret"), Err(FileError::Outside(_))),
            "a link out of the workspace"
        );
        assert!(matches!(workspace.write("link/secret", "x"), Err(FileError::Outside(_))));
        std::os::unix::fs::symlink(dir.path().join("new"), dir.path().join("session/files/new")).unwrap();
        assert!(
            workspace.write("new", "x").is_err() && !dir.path().join("new").exists(),
            "a link to nothing"
        );
        assert_eq!(std::fs::read_to_string(dir.path().join("secret")).unwrap(), "s");
        assert_eq!(
            workspace.list().unwrap(),
            ["a/b.txt", "link", "new"],
            "links are listed and not followed"
        );
    }

    #[test]
    fn files_directory_that_is_a_link_is_refused() {
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
    fn plan_that_is_a_link_or_a_pipe_is_refused() {
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
    fn plan_is_written_read_and_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::at(dir.path().to_owned());
        assert_eq!(workspace.read_plan().unwrap(), None);
        workspace.write_plan("1. think").unwrap();
        assert_eq!(workspace.read_plan().unwrap().as_deref(), Some("1. think"));
        assert!(workspace.delete_plan().unwrap() && !workspace.delete_plan().unwrap());
    }
}
