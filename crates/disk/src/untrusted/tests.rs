//! Hostile directories: links, pipes, devices, limits.

use std::fs;
use std::os::unix::fs::symlink;

use rustix::fs::CWD;
use tempfile::TempDir;

use super::*;

fn directory() -> (TempDir, UntrustedDirectory) {
    let temporary = tempfile::tempdir().unwrap();
    let directory = UntrustedDirectory::open(temporary.path()).unwrap();
    (temporary, directory)
}

#[test]
fn files_are_read_up_to_a_limit() {
    let (at, directory) = directory();
    fs::write(at.path().join("a"), "four").unwrap();
    let read = |limit| directory.read("a", limit).map(|e| (e.bytes, e.is_cut)).unwrap();
    assert_eq!(read(4), (b"four".to_vec(), false));
    assert_eq!(read(3), (b"fou".to_vec(), true));
    assert!(matches!(directory.read("b", 1), Err(Unreadable::Absent)));
    assert!(matches!(directory.read("a/b", 1), Err(Unreadable::Absent)));
}

#[test]
fn text_cut_within_a_character_ends_before_it() {
    let (at, directory) = directory();
    fs::write(at.path().join("a"), "aé").unwrap();
    assert_eq!(directory.read_text("a", 2).unwrap(), "a");
    fs::write(at.path().join("a"), b"a\xff").unwrap();
    assert!(matches!(directory.read_text("a", 9), Err(Unreadable::NotText)));
}

#[test]
fn links_are_followed_inside_only() {
    let (outside, _) = directory();
    fs::write(outside.path().join("secret"), "s").unwrap();
    let (at, directory) = directory();
    let link = |target: &Path, name: &str| symlink(target, at.path().join(name)).unwrap();
    fs::create_dir_all(at.path().join("docs")).unwrap();
    fs::write(at.path().join("docs/AGENTS.md"), "here").unwrap();
    link(Path::new("docs/AGENTS.md"), "relative");
    link(&at.path().join("docs/AGENTS.md"), "absolute");
    link(Path::new("docs"), "directory");
    for name in ["relative", "absolute", "directory/AGENTS.md", "docs/../relative"] {
        assert_eq!(directory.read_text(name, 9).unwrap(), "here", "{name}");
    }
    link(&outside.path().join("secret"), "out");
    link(outside.path(), "away");
    link(Path::new("/proc/self/environ"), "environ");
    link(Path::new("/dev/zero"), "zero");
    for name in ["out", "away/secret", "environ", "zero", "../secret", "/etc/hostname"] {
        let read = directory.read(name, 9);
        assert!(matches!(read, Err(Unreadable::LeadsOut | Unreadable::Absent)), "{name}: {read:?}");
    }
    assert!(matches!(directory.subdirectory("away"), Err(Unreadable::LeadsOut)));
}

#[test]
fn links_into_git_data_are_not_followed() {
    let (at, directory) = directory();
    fs::create_dir(at.path().join(".git")).unwrap();
    fs::write(at.path().join(".git/config"), "url = https://u:token@h/").unwrap();
    symlink(".git/config", at.path().join("AGENTS.md")).unwrap();
    assert!(matches!(directory.read("AGENTS.md", 9), Err(Unreadable::LeadsOut)));
    assert!(directory.read(".git/config", 9).is_ok());
}

#[test]
fn fifos_devices_and_directories_are_not_read() {
    let (at, directory) = directory();
    rustix::fs::mknodat(CWD, at.path().join("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    fs::create_dir(at.path().join("sub")).unwrap();
    for name in ["fifo", "sub", "."] {
        assert!(matches!(directory.read(name, 9), Err(Unreadable::NotRegular)), "{name}");
    }
    for path in [at.path().join("fifo"), "/dev/zero".into(), "/proc/self/environ".into()] {
        assert!(matches!(read_named(&path, 9), Err(Unreadable::NotRegular)), "{}", path.display());
    }
}

#[test]
fn directory_replaced_by_a_link_is_not_followed() {
    let (outside, _) = directory();
    fs::create_dir(outside.path().join("sub")).unwrap();
    fs::write(outside.path().join("sub/a"), "s").unwrap();
    let (at, directory) = directory();
    fs::create_dir(at.path().join("sub")).unwrap();
    fs::write(at.path().join("sub/a"), "here").unwrap();
    let resolved = directory.resolve(Path::new("sub/a")).unwrap();
    fs::remove_dir_all(at.path().join("sub")).unwrap();
    symlink(outside.path().join("sub"), at.path().join("sub")).unwrap();
    assert!(directory.descend(resolved.parent().unwrap()).is_err());
}

#[test]
fn listings_are_bounded() {
    let (at, directory) = directory();
    (0..5).for_each(|n| fs::write(at.path().join(n.to_string()), "").unwrap());
    assert_eq!(directory.names(9).unwrap().len(), 5);
    assert_eq!(directory.names(3).unwrap().len(), 3);
}
