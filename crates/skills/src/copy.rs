//! Copies a plugin: the regular files below its directory, and none that a link leads to outside of it.
#![expect(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::fmt::Write as _;
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use baton_disk::untrusted::{Excerpt, Unreadable, UntrustedDirectory};
use ring::digest::{SHA256, digest};

/// Files that a plugin may have.
const MOST_FILES: usize = 5000;
/// Levels of directories that a plugin may have.
const MOST_LEVELS: usize = 16;
/// Size of all files of a plugin, in bytes.
const MAX_BYTES: usize = 64 << 20;

/// Returns an id of the place that a plugin was copied from.
#[must_use]
pub fn source_id(source: &Path) -> String {
    let digest = digest(&SHA256, source.as_os_str().as_encoded_bytes());
    hex(&digest.as_ref()[..8])
}

/// Writes bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Copies a plugin to a directory, in place of what was there. Blocks.
///
/// # Errors
/// When it has a link that leads out, a file that is not regular, or too much of anything. Then nothing has changed.
pub fn copy_plugin(from: &Path, to: &Path) -> Result<(), String> {
    let root = UntrustedDirectory::open(from).map_err(|error| format!("{}: {error}", from.display()))?;
    let parent = to.parent().ok_or("the target has no parent")?;
    let failed = |error: std::io::Error| format!("{}: {error}", parent.display());
    private_directory().recursive(true).create(parent).map_err(failed)?;
    let fresh: PathBuf = to.with_extension("new");
    let _ = std::fs::remove_dir_all(&fresh);
    let mut copy = Copy { files: 0, bytes: 0 };
    if let Err(why) = copy.directory(&root, &fresh, 0) {
        let _ = std::fs::remove_dir_all(&fresh);
        return Err(why);
    }
    let _ = std::fs::remove_dir_all(to);
    std::fs::rename(&fresh, to).map_err(failed)
}

struct Copy {
    files: usize,
    bytes: usize,
}

impl Copy {
    fn directory(&mut self, from: &UntrustedDirectory, to: &Path, level: usize) -> Result<(), String> {
        if level > MOST_LEVELS {
            return Err(format!("{}: more than {MOST_LEVELS} levels of directories", from.path().display()));
        }
        private_directory().create(to).map_err(|error| format!("{}: {error}", to.display()))?;
        for name in from.names(MOST_FILES).map_err(|error| format!("{}: {error}", from.path().display()))? {
            // A plugin may be a whole repository. Its history is no part of it.
            if name == ".git" {
                continue;
            }
            let path = from.path().join(&name);
            let failed = |error: Unreadable| format!("{}: {error}", path.display());
            self.files += 1;
            if self.files > MOST_FILES {
                return Err(format!("the plugin has more than {MOST_FILES} files"));
            }
            let is_link = path.symlink_metadata().is_ok_and(|found| found.is_symlink());
            match from.subdirectory(&name) {
                // A link to a directory, even one inside, could be a loop.
                Ok(_) if is_link => return Err(format!("{}: it is a link to a directory", path.display())),
                Ok(directory) => self.directory(&directory, &to.join(&name), level + 1)?,
                Err(Unreadable::Absent) => self.file(from, &path, &name, to)?,
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    fn file(
        &mut self,
        from: &UntrustedDirectory,
        path: &Path,
        name: &std::ffi::OsStr,
        to: &Path,
    ) -> Result<(), String> {
        let Excerpt { bytes, is_cut } = from
            .read(name, MAX_BYTES - self.bytes)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        if is_cut {
            return Err(format!("the plugin has more than {MAX_BYTES} bytes"));
        }
        self.bytes += bytes.len();
        let failed = |error: std::io::Error| format!("{}: {error}", to.join(name).display());
        let is_program = path.metadata().is_ok_and(|found| found.permissions().mode() & 0o100 != 0);
        let mode = if is_program { 0o700 } else { 0o600 };
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(to.join(name));
        file.and_then(|mut file| file.write_all(&bytes)).map_err(failed)
    }
}

/// Returns a builder of directories that only their owner can use, whatever the umask.
fn private_directory() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn copy_has_regular_files_only() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("copies/x"));
        std::fs::create_dir_all(from.join("skills/a")).unwrap();
        std::fs::write(from.join("skills/a/SKILL.md"), "one").unwrap();
        std::fs::create_dir(from.join(".git")).unwrap();
        copy_plugin(&from, &to).unwrap();
        assert_eq!(std::fs::read_to_string(to.join("skills/a/SKILL.md")).unwrap(), "one");
        assert!(!to.join(".git").exists());
        for path in ["", "skills", "skills/a", "skills/a/SKILL.md", ".."] {
            let mode = to.join(path).metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{path}");
        }
        symlink("/etc/passwd", from.join("leak")).unwrap();
        let why = copy_plugin(&from, &to).unwrap_err();
        assert!(why.contains("leads out"), "{why}");
        assert!(to.join("skills/a/SKILL.md").exists(), "the earlier copy stays");
        std::fs::remove_file(from.join("leak")).unwrap();
        symlink("..", from.join("skills/loop")).unwrap();
        assert!(copy_plugin(&from, &to).is_err());
        assert_eq!(source_id(&from).len(), 16);
    }
}
