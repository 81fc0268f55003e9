//! Real repositories, in which git shows what it runs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use tempfile::TempDir;

use super::super::tests::{commit, git, repository};
use super::*;

fn risk(at: &Path) -> Option<String> {
    around(at).err().map(|risk| risk.0)
}

/// Runs `git status` as a shell of an engine does, with nothing disabled.
fn status(at: &Path) {
    let mut git = Command::new("git");
    git.arg("status").current_dir(at).env("GIT_CONFIG_GLOBAL", "/dev/null");
    git.output().unwrap();
}

/// Creates a repository whose file `a.txt` has changed, so that git reads it.
fn changed() -> TempDir {
    let dir = repository();
    fs::write(dir.path().join("a.txt"), "after!\n").unwrap();
    dir
}

#[test]
fn plain_repositories_are_trusted() {
    let dir = repository();
    let below = dir.path().join("below");
    fs::create_dir(&below).unwrap();
    assert_eq!(risk(&below), None);
    for (key, value) in [
        ("remote.origin.url", "git@h:o/r.git"),
        ("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
        ("branch.main.merge", "refs/heads/main"),
        ("branch.feature/a \"b\".vscode-merge-base", "origin/main"),
        ("user.email", "e"),
        ("color.status.added", "green"),
        ("core.hooksPath", ".husky/_"),
        ("core.fsmonitor", "true"),
    ] {
        git(dir.path(), &["config", key, value]);
        assert_eq!(risk(dir.path()), None, "{key}");
    }
    let nothing = tempfile::tempdir().unwrap();
    fs::create_dir(nothing.path().join(".git")).unwrap();
    assert_eq!(risk(nothing.path()), None, "git finds no repository");
}

#[test]
fn work_trees_and_submodules_are_trusted() {
    let (dir, library) = (repository(), repository());
    git(dir.path(), &["submodule", "--quiet", "add", &library.path().display().to_string(), "lib"]);
    commit(dir.path());
    let beside = tempfile::tempdir().unwrap();
    let tree = beside.path().join("tree");
    git(dir.path(), &["worktree", "add", "--quiet", &tree.display().to_string()]);
    for at in [dir.path(), &dir.path().join("lib"), &tree] {
        assert_eq!(risk(at), None, "{}", at.display());
    }
}

#[test]
fn settings_that_can_run_programs_are_reported() {
    for (key, value) in [
        ("filter.x.clean", "touch ran; cat"),
        ("filter.x.process", "touch ran"),
        ("core.fsmonitor", "touch ran;"),
        ("diff.external", "touch ran"),
        ("diff.x.textconv", "touch ran"),
        ("core.pager", "touch ran"),
        ("pager.status", "touch ran"),
        ("core.sshCommand", "touch ran"),
        ("gpg.program", "touch ran"),
        ("credential.helper", "!touch ran"),
        ("alias.st", "!touch ran"),
        ("include.path", "/tmp/x"),
        ("includeIf.gitdir:/.path", "/tmp/x"),
        ("core.worktree", "/tmp"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.uploadpack", "touch ran"),
        ("status.submoduleSummary", "true"),
        ("hook.x.command", "touch ran"),
        ("lfs.customtransfer.x.path", "touch"),
        ("something.new", "x"),
    ] {
        let dir = repository();
        git(dir.path(), &["config", key, value]);
        let lower = |text: &str| text.to_ascii_lowercase();
        assert_eq!(risk(dir.path()).map(|found| lower(&found)), Some(lower(key)));
    }
}

#[test]
fn filter_that_git_status_would_run_is_found() {
    let dir = changed();
    fs::write(dir.path().join(".gitattributes"), "* filter=x\n").unwrap();
    git(dir.path(), &["config", "filter.x.clean", "touch ran; cat"]);
    assert_eq!(risk(dir.path()).as_deref(), Some("filter.x.clean"));
    status(dir.path());
    assert!(dir.path().join("ran").exists(), "git runs it, so the request needs a user");
}

#[test]
fn filter_of_a_submodule_that_no_file_mentions_is_found() {
    let dir = repository();
    let sub = dir.path().join("sub");
    fs::create_dir(&sub).unwrap();
    git(&sub, &["init", "--quiet", "--initial-branch=main"]);
    fs::write(sub.join("b.txt"), "before\n").unwrap();
    commit(&sub);
    commit(dir.path());
    assert_eq!(risk(dir.path()), None);
    fs::write(sub.join("b.txt"), "after!\n").unwrap();
    fs::write(sub.join(".git/info/attributes"), "* filter=x\n").unwrap();
    git(&sub, &["config", "filter.x.clean", "touch ran; cat"]);
    assert_eq!(risk(dir.path()).as_deref(), Some("filter.x.clean"));
    status(dir.path());
    assert!(sub.join("ran").exists());
}

#[test]
fn hook_that_git_status_would_run_is_found() {
    for place in [".git/hooks", "hooks"] {
        let dir = changed();
        git(dir.path(), &["config", "core.hooksPath", place]);
        fs::create_dir_all(dir.path().join(place)).unwrap();
        assert_eq!(risk(dir.path()), None);
        let hook = dir.path().join(place).join(HOOK);
        fs::write(&hook, "#!/bin/sh\ntouch ran\n").unwrap();
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(risk(dir.path()).is_some(), "{place}");
    }
}

#[test]
fn repositories_that_git_may_read_differently_are_not_trusted() {
    let config = |dir: &TempDir, text: &str| fs::write(dir.path().join(".git/config"), text).unwrap();
    let dir = repository();
    config(&dir, "[core]\n\tbare = false \\\n[filter \"x\"]\n\tclean = y\n");
    assert!(risk(dir.path()).is_some_and(|text| text.starts_with("it is not understood")));
    config(&dir, "[core]\n\tbare = false\n");
    assert_eq!(risk(dir.path()), None);
    fs::write(dir.path().join(".git/config.worktree"), "[filter \"x\"]\n\tclean = y\n").unwrap();
    assert_eq!(risk(dir.path()).as_deref(), Some("filter.x.clean"));

    let linked = repository();
    let target = linked.path().join("elsewhere");
    fs::write(&target, "[filter \"x\"]\n\tclean = y\n").unwrap();
    fs::remove_file(linked.path().join(".git/config")).unwrap();
    std::os::unix::fs::symlink(&target, linked.path().join(".git/config")).unwrap();
    assert!(risk(linked.path()).is_some());

    let pointed = tempfile::tempdir().unwrap();
    let hidden = repository();
    fs::write(pointed.path().join(".git"), format!("gitdir: {}\n", hidden.path().join(".git").display()))
        .unwrap();
    assert!(risk(pointed.path()).is_some(), "nothing points back");

    let bare = tempfile::tempdir().unwrap();
    git(bare.path(), &["init", "--quiet", "--bare"]);
    assert!(risk(bare.path()).is_some_and(|text| text.starts_with("a bare repository")));

    let fifo = repository();
    fs::remove_file(fifo.path().join(".git/index")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        fifo.path().join(".git/index"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    assert!(risk(fifo.path()).is_some());
}

#[test]
fn reported_settings_are_short_and_without_control_characters() {
    let dir = repository();
    let text = format!("[filter \"{}\u{202e}\"]\n\tclean = y\n", "x".repeat(4000));
    fs::write(dir.path().join(".git/config"), text).unwrap();
    assert!(risk(dir.path()).is_some_and(|text| text.len() <= SHOWN));
}
