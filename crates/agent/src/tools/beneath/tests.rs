//! Files that are where they seem to be, and those that are not.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

/// A directory to work in, one to stay out of, and a secret in the latter.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir_all(place.path("in/sub")).unwrap();
        fs::create_dir(place.path("out")).unwrap();
        fs::write(place.path("in/sub/file"), "ours").unwrap();
        fs::write(place.path("out/file"), "secret").unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Puts a link to the directory outside in the place of the one inside.
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
fn a_directory_that_became_a_link_leads_nowhere() {
    let place = Place::new();
    let (root, file) = (Directory::root().unwrap(), resolve(&place.path("in/sub/file")));
    let (inside, below) = (place.inside(), Path::new("sub/file"));
    assert!(root.open(&file).is_ok() && inside.open(below).is_ok());
    place.swap();
    for (directory, path) in [(&root, file.as_path()), (&inside, below)] {
        assert!(is(Unusable::Link, directory.open(path)));
        assert!(is(Unusable::Link, directory.replace(path, b"x")));
        assert!(is(Unusable::Link, directory.put(path, b"x", 0o600)));
        assert!(is(Unusable::Link, directory.create(&path.with_file_name("new"), b"x")));
        assert!(is(Unusable::Link, directory.create(&path.with_file_name("a").join("new"), b"x")));
        assert!(is(Unusable::Link, directory.remove(path)));
        assert!(is(Unusable::Link, directory.list(path.parent().unwrap())));
    }
    assert_eq!(fs::read_to_string(place.path("out/file")).unwrap(), "secret");
    assert_eq!(fs::read_dir(place.path("out")).unwrap().count(), 1);
}

#[test]
fn walking_by_hand_follows_no_link_either() {
    let place = Place::new();
    place.swap();
    let inside = place.inside();
    let walk = |way: &[&str], missing| {
        let way: Vec<&OsStr> = way.iter().map(OsStr::new).collect();
        inside.walk(&way, directory_flags(), missing)
    };
    assert!(walk(&["was"], Missing::Fails).is_ok());
    assert!(walk(&["new", "deep"], Missing::IsMade).is_ok() && place.path("in/new/deep").is_dir());
    assert!(is(Unusable::Link, walk(&["sub"], Missing::Fails)));
    assert!(is(Unusable::Link, walk(&["sub", "new"], Missing::IsMade)));
    assert!(walk(&["was", "file"], Missing::IsMade).is_err_and(|e| e.kind() == io::ErrorKind::NotADirectory));
    assert!(!place.path("out/new").exists());
}

#[test]
fn a_file_that_is_a_link_is_not_followed() {
    let place = Place::new();
    symlink(place.path("out/file"), place.path("in/link")).unwrap();
    symlink(place.path("out/none"), place.path("in/dangling")).unwrap();
    let inside = place.inside();
    for name in ["link", "dangling"].map(Path::new) {
        assert!(is(Unusable::Link, inside.open(name)));
        assert!(is(Unusable::Link, inside.replace(name, b"x")));
        assert!(is(Unusable::Link, inside.put(name, b"x", 0o600)));
        assert!(inside.create(name, b"x").is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists));
    }
    assert_eq!(fs::read_to_string(place.path("out/file")).unwrap(), "secret");
    assert!(!place.path("out/none").exists());
}

#[test]
fn paths_do_not_climb() {
    let place = Place::new();
    for path in ["../out/file", "sub/../../out/file", ".."].map(Path::new) {
        assert!(is(Unusable::Outside, place.inside().open(path)), "{}", path.display());
        assert!(is(Unusable::Outside, place.inside().create(path, b"x")), "{}", path.display());
    }
    assert!(is(Unusable::NotRegular, place.inside().open(Path::new("."))));
}

#[test]
fn pipes_devices_and_directories_are_not_opened() {
    let place = Place::new();
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mkfifoat(CWD, place.path("in/pipe"), mode).unwrap();
    assert!(is(Unusable::NotRegular, place.inside().open(Path::new("pipe"))));
    assert!(is(Unusable::NotRegular, place.inside().put(Path::new("pipe"), b"", 0o600)));
    assert!(is(Unusable::NotRegular, place.inside().open(Path::new("sub"))));
    assert!(is(Unusable::NotRegular, Directory::root().unwrap().open(Path::new("/dev/zero"))));
}

#[test]
fn a_text_is_read_up_to_its_limit() {
    let place = Place::new();
    let read = |limit| place.inside().read_to_string(Path::new("sub/file"), limit);
    assert_eq!(read(4).unwrap(), "ours");
    assert!(read(3).is_err());
}

#[test]
fn a_new_file_never_replaces_another() {
    let place = Place::new();
    let (inside, path) = (place.inside(), Path::new("a/b/new.txt"));
    inside.create(path, b"one").unwrap();
    assert_eq!(inside.create(path, b"two").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(place.path("in/a/b/new.txt")).unwrap(), "one");
    assert_eq!(fs::read_dir(place.path("in/a/b")).unwrap().count(), 1, "nothing is left behind");
}

#[test]
fn a_new_file_has_ordinary_permissions() {
    let place = Place::new();
    place.inside().create(Path::new("ours"), b"").unwrap();
    fs::write(place.path("in/theirs"), "").unwrap();
    let mode = |name: &str| fs::metadata(place.path(name)).unwrap().permissions().mode();
    assert_eq!(mode("in/ours"), mode("in/theirs"));
}

#[test]
fn what_is_private_is_for_the_user_alone() {
    let place = Place::new();
    let inside = place.inside().private();
    assert!(!inside.write(Path::new("own/file"), b"one").unwrap());
    assert!(inside.write(Path::new("own/file"), b"two").unwrap());
    let mode = |name: &str| fs::metadata(place.path(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("in/own"), mode("in/own/file")), (0o700, 0o600));
    assert_eq!(fs::read_to_string(place.path("in/own/file")).unwrap(), "two");
}

#[test]
fn replacing_keeps_the_mode() {
    let place = Place::new();
    let file = place.path("in/sub/file");
    fs::set_permissions(&file, Permissions::from_mode(0o751)).unwrap();
    place.inside().replace(Path::new("sub/file"), b"new").unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "new");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o751);
    assert_eq!(fs::read_dir(place.path("in/sub")).unwrap().count(), 1, "nothing is left behind");
}

#[test]
fn a_file_that_is_read_only_stays_as_it_is() {
    let place = Place::new();
    let file = place.path("in/sub/file");
    fs::set_permissions(&file, Permissions::from_mode(0o444)).unwrap();
    let refused = place.inside().replace(Path::new("sub/file"), b"new");
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    assert_eq!(fs::read_to_string(&file).unwrap(), "ours");
}

#[test]
fn a_path_is_resolved_as_far_as_it_exists() {
    let place = Place::new();
    symlink(place.path("out"), place.path("in/link")).unwrap();
    let real = place.dir.path().canonicalize().unwrap();
    assert_eq!(resolve(&place.path("in/link/file")), real.join("out/file"));
    assert_eq!(resolve(&place.path("in/link/a/new")), real.join("out/a/new"));
    assert_eq!(resolve(&place.path("in/none/new")), real.join("in/none/new"));
}

#[test]
fn what_the_kernel_says_about_the_server_is_not_read() {
    let root = Directory::root().unwrap();
    for path in ["/proc/self/environ", "/proc/self/status"] {
        assert!(root.open(Path::new(path)).is_err(), "{path}");
    }
}
