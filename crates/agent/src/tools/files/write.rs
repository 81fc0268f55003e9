//! Writing a file so that nobody ever sees half of it.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::{Builder, NamedTempFile};

/// Creates a file that must not exist, with the directories that lead to it.
pub(super) fn create(path: &Path, contents: &str) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(dir).map_err(|error| match error.kind() {
        // A file in the place of a directory; what must not exist is something else.
        io::ErrorKind::AlreadyExists => io::ErrorKind::NotADirectory.into(),
        _ => error,
    })?;
    // Like any new file: what the user's mask leaves of this.
    let file = fill(dir, 0o666, contents)?;
    file.persist_noclobber(path).map_err(|error| error.error)?;
    Ok(())
}

/// Replaces the contents of a file that exists. Links stay links and permissions stay as they are.
pub(super) fn replace(path: &Path, contents: &str) -> io::Result<()> {
    let path = path.canonicalize()?;
    let permissions = fs::metadata(&path)?.permissions();
    if permissions.readonly() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let dir = path.parent().unwrap_or(Path::new("/"));
    match fill(dir, 0o600, contents) {
        Ok(file) => {
            file.as_file().set_permissions(permissions)?;
            file.persist(&path).map_err(|error| error.error)?;
            Ok(())
        }
        // The file may be ours to write and its directory not; then there is only the plain way.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => fs::write(&path, contents),
        Err(error) => Err(error),
    }
}

fn fill(dir: &Path, mode: u32, contents: &str) -> io::Result<NamedTempFile> {
    let mut file =
        Builder::new().prefix(".baton-").permissions(Permissions::from_mode(mode)).tempfile_in(dir)?;
    file.write_all(contents.as_bytes())?;
    // Otherwise a power failure could leave the new name with old nothing behind it.
    file.as_file().sync_data()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_never_replaces_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/new.txt");
        create(&path, "one").unwrap();
        assert_eq!(create(&path, "two").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left behind");
    }

    #[test]
    fn a_new_file_has_ordinary_permissions() {
        let dir = tempfile::tempdir().unwrap();
        create(&dir.path().join("ours"), "").unwrap();
        fs::write(dir.path().join("theirs"), "").unwrap();
        let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode("ours"), mode("theirs"));
    }

    #[test]
    fn replacing_keeps_permissions_and_links() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("run.sh"), dir.path().join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o751)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();

        replace(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o751);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing is left behind");
    }

    #[test]
    fn a_file_that_is_read_only_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("fixed");
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o444)).unwrap();
        assert_eq!(replace(&file, "new").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");
    }
}
