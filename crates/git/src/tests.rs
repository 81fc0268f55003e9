//! State of real repositories, work trees and submodules, and of forged ones.

use std::fs;
use std::process::Command;

use baton_disk::untrusted::Unreadable;
use baton_testkit::another_user::AnotherUser;
use baton_testkit::cannot_run;
use rustix::fs::{CWD, FileType, Mode};
use tempfile::TempDir;

use super::*;

/// Creates a repository with one commit, with git.
pub(super) fn repository() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    git(dir.path(), &["init", "--quiet", "--initial-branch=main"]);
    fs::write(dir.path().join("a.txt"), "before\n").unwrap();
    commit(dir.path());
    dir
}

pub(super) fn commit(at: &Path) {
    git(at, &["add", "--all"]);
    git(at, &["commit", "--quiet", "--message=x"]);
}

/// Runs git as its user would.
pub(super) fn git(at: &Path, arguments: &[&str]) -> String {
    let identity = ["-c", "user.name=n", "-c", "user.email=e", "-c", "protocol.file.allow=always"];
    let mut git = Command::new("git");
    git.args(identity).args(arguments).current_dir(at).env("GIT_CONFIG_GLOBAL", "/dev/null");
    let ran = git.output().unwrap();
    assert!(ran.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap().trim().to_owned()
}

#[test]
fn remotes_are_parsed_in_both_forms() {
    let expected = Some(("github.com".to_owned(), "o/r".to_owned()));
    for url in [
        "https://github.com/o/r.git",
        "git@github.com:o/r.git",
        "ssh://git@github.com:22/o/r",
        "https://u:p@github.com/o/r",
    ] {
        assert_eq!(parse_remote(url), expected, "{url}");
    }
    assert_eq!(parse_remote("/srv/git/r.git"), None);
}

#[test]
fn state_is_read_without_running_git() {
    let dir = tempfile::tempdir().unwrap();
    let git = dir.path().join(".git");
    fs::create_dir_all(git.join("refs/heads")).unwrap();
    fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(git.join("refs/heads/main"), "abc123\n").unwrap();
    fs::write(git.join("config"), "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = git@h:o/r.git\n")
        .unwrap();
    let below = dir.path().join("a/b");
    fs::create_dir_all(&below).unwrap();
    let found = around(&below).unwrap();
    assert_eq!(found.root, dir.path());
    assert_eq!((found.branch.as_deref(), found.head.as_deref()), (Some("main"), Some("abc123")));
    assert_eq!(found.origin, Some(("h".into(), "o/r".into())));

    // A packed reference, and a directory `.git` that is no repository.
    fs::remove_file(git.join("refs/heads/main")).unwrap();
    fs::write(git.join("packed-refs"), "# pack-refs\ndef456 refs/heads/main\n").unwrap();
    fs::create_dir(below.join(".git")).unwrap();
    let found = around(&below).unwrap();
    assert_eq!((found.root.as_path(), found.head.as_deref()), (dir.path(), Some("def456")));
}

#[test]
fn work_trees_and_submodules_are_repositories() {
    let (dir, other) = (repository(), repository());
    let at = dir.path();
    git(at, &["worktree", "add", "--quiet", "-b", "side", "tree"]);
    git(at, &["submodule", "--quiet", "add", &other.path().display().to_string(), "sub"]);
    git(at, &["worktree", "add", "--quiet", "--detach", "detached"]);
    for (name, branch) in [("tree", Some("side")), ("sub", Some("main")), ("detached", None)] {
        let root = at.join(name);
        fs::create_dir_all(root.join("below")).unwrap();
        let found = around(&root.join("below")).unwrap();
        assert_eq!((found.root.as_path(), found.branch.as_deref()), (root.as_path(), branch), "{name}");
        assert_eq!(found.head, Some(git(&root, &["rev-parse", "HEAD"])), "{name}");
    }
}

#[test]
fn git_file_is_followed_only_if_its_target_points_back() {
    let (victim, dir) = (repository(), tempfile::tempdir().unwrap());
    let victim = victim.path().join(".git");
    let at = dir.path().join("repository");
    fs::create_dir(&at).unwrap();
    for target in [Path::new("/etc"), &victim, Path::new("../repository"), Path::new("/dev/zero")] {
        fs::write(at.join(".git"), format!("gitdir: {}\n", target.display())).unwrap();
        assert!(around(&at).is_none(), "{}", target.display());
    }
    // A git directory of an attacker that names the data of another repository as its own.
    fs::remove_file(at.join(".git")).unwrap();
    fs::create_dir(at.join(".git")).unwrap();
    fs::write(at.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(at.join(".git/commondir"), victim.display().to_string()).unwrap();
    assert!(around(&at).is_none());
    fs::remove_file(at.join(".git/commondir")).unwrap();
    assert_eq!(around(&at).unwrap().head, None);
    // A link to the git directory of another repository.
    fs::remove_dir_all(at.join(".git")).unwrap();
    std::os::unix::fs::symlink(&victim, at.join(".git")).unwrap();
    assert!(around(&at).is_none());
}

#[test]
fn fifos_and_links_in_the_git_directory_are_not_read() {
    for name in
        [".git", ".git/HEAD", ".git/refs/heads/main", ".git/packed-refs", ".git/config", ".git/commondir"]
    {
        let dir = repository();
        let file = dir.path().join(name);
        let replace = |with: &dyn Fn(&Path)| {
            let _ = fs::remove_file(&file).or_else(|_| fs::remove_dir_all(&file));
            with(&file);
        };
        replace(&|file| rustix::fs::mknodat(CWD, file, FileType::Fifo, Mode::RUSR, 0).unwrap());
        // The test is that this returns; the result depends on the missing file.
        let _ = around(dir.path());
        replace(&|file| std::os::unix::fs::symlink("/proc/self/environ", file).unwrap());
        let found =
            around(dir.path()).map(|found| format!("{:?}{:?}{:?}", found.branch, found.head, found.origin));
        assert!(!found.is_some_and(|found| found.contains("PATH")), "{name}");
    }
    let dir = repository();
    let tree = UntrustedDirectory::open(dir.path()).unwrap();
    assert!(matches!(tree.read(".git", 1), Err(Unreadable::NotRegular)));
}

#[test]
fn repository_of_another_user_above_the_working_directory_is_ignored() {
    let Ok(other) = AnotherUser::find().map_err(|why| cannot_run!(why)) else { return };
    let dir = repository();
    let below = dir.path().join("below");
    fs::create_dir(&below).unwrap();
    assert!(around(&below).is_some());
    other.take(&dir.path().join(".git"));
    assert!(around(&below).is_none());
    assert!(around(dir.path()).is_some(), "the user chose the working directory itself");
}
