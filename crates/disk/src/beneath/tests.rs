//! Regular files, links, pipes and devices.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

/// A directory to work in, and one outside it with a secret.
struct Fixture {
    dir: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let fixture = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir_all(fixture.path("in/sub")).unwrap();
        fs::create_dir(fixture.path("out")).unwrap();
        fs::write(fixture.path("in/sub/file"), "ours").unwrap();
        fs::write(fixture.path("out/file"), "secret").unwrap();
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Replaces the directory inside by a link to the one outside.
    fn swap(&self) {
        fs::rename(self.path("in/sub"), self.path("in/was")).unwrap();
        symlink(self.path("out"), self.path("in/sub")).unwrap();
    }

    fn inside(&self) -> Directory {
        Directory::trusted(&self.path("in")).unwrap()
    }
}

fn is(reason: Unusable, result: io::Result<impl Sized>) -> bool {
    result.is_err_and(|error| Unusable::of(&error) == Some(reason))
}

#[test]
fn directory_replaced_by_a_link_is_refused() {
    let fixture = Fixture::new();
    let (root, file) = (Directory::root().unwrap(), resolve(&fixture.path("in/sub/file")));
    let (inside, below) = (fixture.inside(), Path::new("sub/file"));
    assert!(root.open(&file).is_ok() && inside.open(below).is_ok());
    fixture.swap();
    for (directory, path) in [(&root, file.as_path()), (&inside, below)] {
        assert!(is(Unusable::Link, directory.open(path)));
        assert!(is(Unusable::Link, directory.replace(path, b"x")));
        assert!(is(Unusable::Link, directory.put(path, b"x", 0o600)));
        assert!(is(Unusable::Link, directory.create(&path.with_file_name("new"), b"x")));
        assert!(is(Unusable::Link, directory.create(&path.with_file_name("a").join("new"), b"x")));
        assert!(is(Unusable::Link, directory.remove(path)));
        assert!(is(Unusable::Link, directory.list(path.parent().unwrap())));
    }
    assert_eq!(fs::read_to_string(fixture.path("out/file")).unwrap(), "secret");
    assert_eq!(fs::read_dir(fixture.path("out")).unwrap().count(), 1);
}

#[test]
fn fallback_without_openat2_follows_no_link() {
    let fixture = Fixture::new();
    fixture.swap();
    let inside = fixture.inside();
    let walk = |names: &[&str], missing| {
        let names: Vec<&OsStr> = names.iter().map(OsStr::new).collect();
        inside.walk(&names, directory_flags(), missing)
    };
    assert!(walk(&["was"], Missing::Fail).is_ok());
    assert!(walk(&["new", "deep"], Missing::Create).is_ok() && fixture.path("in/new/deep").is_dir());
    assert!(is(Unusable::Link, walk(&["sub"], Missing::Fail)));
    assert!(is(Unusable::Link, walk(&["sub", "new"], Missing::Create)));
    assert!(walk(&["was", "file"], Missing::Create).is_err_and(|e| e.kind() == io::ErrorKind::NotADirectory));
    assert!(!fixture.path("out/new").exists());
}

#[test]
fn link_in_place_of_a_file_is_refused() {
    let fixture = Fixture::new();
    symlink(fixture.path("out/file"), fixture.path("in/link")).unwrap();
    symlink(fixture.path("out/none"), fixture.path("in/dangling")).unwrap();
    let inside = fixture.inside();
    for name in ["link", "dangling"].map(Path::new) {
        assert!(is(Unusable::Link, inside.open(name)));
        assert!(is(Unusable::Link, inside.replace(name, b"x")));
        assert!(is(Unusable::Link, inside.put(name, b"x", 0o600)));
        assert!(inside.create(name, b"x").is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists));
    }
    assert_eq!(fs::read_to_string(fixture.path("out/file")).unwrap(), "secret");
    assert!(!fixture.path("out/none").exists());
}

#[test]
fn paths_with_parent_components_are_refused() {
    let fixture = Fixture::new();
    for path in ["../out/file", "sub/../../out/file", ".."].map(Path::new) {
        assert!(is(Unusable::Outside, fixture.inside().open(path)), "{}", path.display());
        assert!(is(Unusable::Outside, fixture.inside().create(path, b"x")), "{}", path.display());
    }
    assert!(is(Unusable::NotRegular, fixture.inside().open(Path::new("."))));
}

#[test]
fn pipes_devices_and_directories_are_not_opened() {
    let fixture = Fixture::new();
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mkfifoat(CWD, fixture.path("in/pipe"), mode).unwrap();
    assert!(is(Unusable::NotRegular, fixture.inside().open(Path::new("pipe"))));
    assert!(is(Unusable::NotRegular, fixture.inside().put(Path::new("pipe"), b"", 0o600)));
    assert!(is(Unusable::NotRegular, fixture.inside().open(Path::new("sub"))));
    assert!(is(Unusable::NotRegular, Directory::root().unwrap().open(Path::new("/dev/zero"))));
}

#[test]
fn text_over_the_limit_is_refused() {
    let fixture = Fixture::new();
    let read = |limit| fixture.inside().read_to_string(Path::new("sub/file"), limit);
    assert_eq!(read(4).unwrap(), "ours");
    assert!(read(3).is_err());
}

#[test]
fn create_replaces_no_file() {
    let fixture = Fixture::new();
    let (inside, path) = (fixture.inside(), Path::new("a/b/new.txt"));
    inside.create(path, b"one").unwrap();
    assert_eq!(inside.create(path, b"two").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(fixture.path("in/a/b/new.txt")).unwrap(), "one");
    assert_eq!(fs::read_dir(fixture.path("in/a/b")).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn new_file_has_default_permissions() {
    let fixture = Fixture::new();
    fixture.inside().create(Path::new("ours"), b"").unwrap();
    fs::write(fixture.path("in/theirs"), "").unwrap();
    let mode = |name: &str| fs::metadata(fixture.path(name)).unwrap().permissions().mode();
    assert_eq!(mode("in/ours"), mode("in/theirs"));
}

#[test]
fn private_files_are_accessible_to_the_user_only() {
    let fixture = Fixture::new();
    let inside = fixture.inside().private();
    assert!(!inside.write(Path::new("own/file"), b"one").unwrap());
    assert!(inside.write(Path::new("own/file"), b"two").unwrap());
    let mode = |name: &str| fs::metadata(fixture.path(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("in/own"), mode("in/own/file")), (0o700, 0o600));
    assert_eq!(fs::read_to_string(fixture.path("in/own/file")).unwrap(), "two");
}

#[test]
fn replace_keeps_the_mode() {
    let fixture = Fixture::new();
    let file = fixture.path("in/sub/file");
    fs::set_permissions(&file, Permissions::from_mode(0o751)).unwrap();
    fixture.inside().replace(Path::new("sub/file"), b"new").unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "new");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o751);
    assert_eq!(fs::read_dir(fixture.path("in/sub")).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn read_only_file_is_not_replaced() {
    let fixture = Fixture::new();
    let file = fixture.path("in/sub/file");
    fs::set_permissions(&file, Permissions::from_mode(0o444)).unwrap();
    let refused = fixture.inside().replace(Path::new("sub/file"), b"new");
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    assert_eq!(fs::read_to_string(&file).unwrap(), "ours");
}

#[test]
fn missing_names_are_appended_to_the_resolved_path() {
    let fixture = Fixture::new();
    symlink(fixture.path("out"), fixture.path("in/link")).unwrap();
    let real = fixture.dir.path().canonicalize().unwrap();
    assert_eq!(resolve(&fixture.path("in/link/file")), real.join("out/file"));
    assert_eq!(resolve(&fixture.path("in/link/a/new")), real.join("out/a/new"));
    assert_eq!(resolve(&fixture.path("in/none/new")), real.join("in/none/new"));
}

#[test]
fn files_of_proc_are_refused() {
    let root = Directory::root().unwrap();
    for path in ["/proc/self/environ", "/proc/self/status"] {
        assert!(root.open(Path::new(path)).is_err(), "{path}");
    }
}
