//! Paths as a model writes them, made absolute, so that what a person allows is what is touched.
#![allow(clippy::disallowed_methods, reason = "blocking by design; callers run it on a blocking thread")]

use std::path::{Component, Path, PathBuf};

/// The absolute path that `path` means in `cwd`, without `.` and `..`.
///
/// `..` is taken by its spelling, not through links: the result is the very path that is then opened, so
/// nothing is touched that the permission did not name. `~` means nothing here, as in every program but a
/// shell.
pub(crate) fn absolute(cwd: &Path, path: &str) -> PathBuf {
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

/// Where `path` really leads, when it looks as if it were inside `cwd` and a link takes it outside.
pub(crate) fn escape(cwd: &Path, path: &Path) -> Option<PathBuf> {
    let inside = absolute(cwd, "");
    if !path.starts_with(&inside) {
        return None;
    }
    // What does not exist yet is where its nearest existing directory leads.
    let existing = path.ancestors().find_map(|p| p.canonicalize().ok())?;
    let real_cwd = inside.canonicalize().ok()?;
    (!existing.starts_with(&real_cwd) && !real_cwd.starts_with(&existing)).then_some(existing)
}

/// The intention of a request about `path`, which says so if the path is a link out of the working directory.
pub(crate) fn intention(what: &str, cwd: &Path, path: &Path) -> String {
    match escape(cwd, path) {
        Some(target) => format!("{what} (through a link to {})", target.display()),
        None => what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_absolute_and_plain() {
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
    fn a_link_out_of_the_working_directory_is_named() {
        let outside = tempfile::tempdir().unwrap();
        let cwd = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), cwd.path().join("link")).unwrap();
        std::os::unix::fs::symlink(cwd.path(), cwd.path().join("home")).unwrap();
        let real = outside.path().canonicalize().unwrap();

        let says = |path: &str| escape(cwd.path(), &absolute(cwd.path(), path));
        assert_eq!(says("link/new.txt"), Some(real));
        assert_eq!(says("plain/new.txt"), None);
        assert_eq!(says("home/new.txt"), None);
        assert_eq!(says("/etc/passwd"), None, "a path that is plainly outside needs no comment");
    }
}
