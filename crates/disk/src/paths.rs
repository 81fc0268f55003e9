//! Paths, made absolute and real.

use std::path::{Component, Path, PathBuf};

use crate::beneath;

/// Returns the absolute path of `path` in `cwd`, without `.` and `..`.
///
/// `..` is resolved lexically, not through links. `~` has no meaning, as in every program but a shell.
#[must_use]
pub fn absolute(cwd: &Path, path: &str) -> PathBuf {
    let mut plain = PathBuf::from("/");
    for part in cwd.join(path).components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => {
                plain.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    plain
}

/// Returns the real path that `path` means to a program that works in `cwd`, with all links followed. `None` where programs
/// disagree: some resolve `..` lexically and some through links, some know `~` or URLs, or trim spaces. Blocks.
#[must_use]
pub fn real(cwd: &Path, path: &str) -> Option<PathBuf> {
    let is_plain = !path.is_empty()
        && path.trim() == path
        && !path.starts_with('~')
        && !path.contains("://")
        && !path.contains(char::is_control);
    let lexical = beneath::resolve(&absolute(cwd, path));
    (is_plain && lexical == through_links(cwd, path)).then_some(lexical)
}

/// Resolves a path as the kernel does, name by name. Blocks.
#[must_use]
pub fn through_links(cwd: &Path, path: &str) -> PathBuf {
    let mut here = PathBuf::from("/");
    for part in cwd.join(path).components() {
        match part {
            Component::Normal(name) => here = beneath::resolve(&here.join(name)),
            Component::ParentDir => {
                here.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    here
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests may block")]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn paths_become_absolute_without_dots() {
        for (path, expected) in [
            ("a.txt", "/work/dir/a.txt"),
            ("/etc/passwd", "/etc/passwd"),
            ("../up/./x//y", "/work/up/x/y"),
            ("../../../../etc", "/etc"),
            ("", "/work/dir"),
            (".", "/work/dir"),
            ("~/x", "/work/dir/~/x"),
        ] {
            assert_eq!(absolute(Path::new("/work/dir"), path), Path::new(expected), "{path}");
        }
    }

    #[test]
    fn ambiguous_path_has_no_real_path() {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path().canonicalize().unwrap();
        std::fs::create_dir(cwd.join("sub")).unwrap();
        symlink("/usr/bin", cwd.join("link")).unwrap();
        assert_eq!(real(&cwd, "sub/../a"), Some(cwd.join("a")));
        assert_eq!(real(&cwd, "./new/b"), Some(cwd.join("new/b")));
        assert_eq!(real(&cwd, "link/x"), Some(Path::new("/usr/bin").canonicalize().unwrap().join("x")));
        for path in ["link/../a", "~/a", "", " /etc/passwd", "a ", "file:///etc/passwd", "a\nb", "a\tb"] {
            assert_eq!(real(&cwd, path), None, "{path:?}");
        }
    }
}
