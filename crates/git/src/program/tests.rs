//! Diffs of real repositories whose configuration names programs: none of them runs.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::super::tests::{commit, git, repository};
use super::*;

fn environment() -> Vec<(OsString, OsString)> {
    vec![("PATH".into(), std::env::var_os("PATH").unwrap())]
}

async fn unstaged(at: &Path) -> String {
    difference(at.to_owned(), &environment(), Base::Index, false).await.text
}

/// Creates a program that creates a file when it is run. Returns both paths.
fn canary(at: &Path, name: &str) -> (String, PathBuf) {
    let (program, trace) = (at.join(name), at.join(format!("{name}-ran")));
    fs::write(&program, format!("#!/bin/sh\ntouch {}\ncat\n", trace.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    (program.display().to_string(), trace)
}

#[tokio::test]
async fn diffs_run_no_program_of_the_repository() {
    let (dir, canaries) = (repository(), tempfile::tempdir().unwrap());
    let at = dir.path();
    fs::write(at.join(".gitattributes"), "*.txt filter=evil diff=evil\n*.bin filter=proc\n*.eq filter=a=b\n")
        .unwrap();
    for name in ["b.bin", "c.eq"] {
        fs::write(at.join(name), "before\n").unwrap();
    }
    commit(at);
    let included = at.join("included");
    for (key, is_included) in [
        ("filter.evil.clean", false),
        ("filter.evil.smudge", false),
        ("filter.proc.process", false),
        ("filter.a=b.clean", true),
        ("diff.evil.textconv", false),
        ("diff.evil.command", false),
        ("diff.external", false),
        ("core.fsmonitor", false),
        ("core.pager", false),
        ("core.sshCommand", false),
        ("core.gitProxy", false),
        ("core.alternateRefsCommand", false),
        ("credential.helper", false),
        ("alias.diff", false),
    ] {
        let (program, _) = canary(canaries.path(), &key.replace(['.', '='], "-"));
        let file = if is_included { included.clone() } else { at.join(".git/config") };
        git(at, &["config", "--file", &file.display().to_string(), key, &program]);
    }
    git(at, &["config", "include.path", &included.display().to_string()]);
    git(at, &["config", "filter.evil.required", "true"]);
    let hooks = at.join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    for hook in ["post-index-change", "fsmonitor-watchman", "reference-transaction"] {
        let (program, _) = canary(canaries.path(), hook);
        fs::rename(program, hooks.join(hook)).unwrap();
    }
    for name in ["a.txt", "b.bin", "c.eq"] {
        fs::write(at.join(name), "after\n").unwrap();
    }
    // The filters work: git runs them when the user runs git.
    let _ = std::process::Command::new("git").args(["diff", "--quiet"]).current_dir(at).status();
    let ran = || -> Vec<String> {
        let names = fs::read_dir(canaries.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).filter(|name| name.ends_with("-ran")).collect()
    };
    assert!(!ran().is_empty());
    ran().iter().for_each(|name| fs::remove_file(canaries.path().join(name)).unwrap());

    for base in [Base::Index, Base::ForkPoint] {
        let found = difference(at.to_owned(), &environment(), base, false).await;
        assert_eq!(found.text.matches("+after").count(), 3, "{}", found.text);
        assert_eq!(ran(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn missing_objects_are_not_fetched() {
    let (dir, canaries) = (repository(), tempfile::tempdir().unwrap());
    let at = dir.path();
    let (program, trace) = canary(canaries.path(), "transport");
    for (key, value) in [
        ("core.repositoryFormatVersion", "1".to_owned()),
        ("extensions.partialClone", "origin".to_owned()),
        ("remote.origin.promisor", "true".to_owned()),
        ("remote.origin.url", format!("ext::{program}")),
        ("protocol.ext.allow", "always".to_owned()),
    ] {
        git(at, &["config", key, &value]);
    }
    let blob = git(at, &["rev-parse", "HEAD:a.txt"]);
    fs::remove_file(at.join(".git/objects").join(&blob[..2]).join(&blob[2..])).unwrap();
    fs::write(at.join("a.txt"), "after\n").unwrap();
    assert_eq!(unstaged(at).await, "");
    assert!(!trace.exists());
}

#[tokio::test]
async fn submodules_do_not_run_their_filters() {
    let (dir, other, canaries) = (repository(), repository(), tempfile::tempdir().unwrap());
    let at = dir.path();
    fs::write(other.path().join(".gitattributes"), "* filter=evil\n").unwrap();
    commit(other.path());
    git(at, &["submodule", "--quiet", "add", &other.path().display().to_string(), "sub"]);
    commit(at);
    let (program, trace) = canary(canaries.path(), "clean");
    git(&at.join("sub"), &["config", "filter.evil.clean", &program]);
    git(at, &["config", "diff.submodule", "diff"]);
    fs::write(at.join("sub/a.txt"), "after\n").unwrap();
    assert_eq!(unstaged(at).await, "");
    assert!(unstaged(&at.join("sub")).await.contains("+after"));
    assert!(!trace.exists());
}

#[tokio::test]
async fn work_trees_and_split_indexes_have_diffs() {
    let dir = repository();
    let at = dir.path();
    git(at, &["worktree", "add", "--quiet", "-b", "side", "tree"]);
    git(at, &["update-index", "--split-index"]);
    let tree = at.join("tree");
    fs::write(tree.join("b.txt"), "new\n").unwrap();
    commit(&tree);
    fs::write(tree.join("b.txt"), "newer\n").unwrap();
    fs::write(at.join("a.txt"), "after\n").unwrap();
    assert!(unstaged(&tree).await.contains("-new\n+newer"));
    assert!(unstaged(at).await.contains("-before\n+after"));
    let branch = difference(tree, &environment(), Base::ForkPoint, false).await;
    assert_eq!(branch.branch, Some("main"));
    assert!(branch.text.contains("new file mode") && branch.text.contains("+newer"), "{}", branch.text);
}

#[tokio::test]
async fn settings_that_affect_diffs_are_copied() {
    let dir = repository();
    fs::set_permissions(dir.path().join("a.txt"), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(unstaged(dir.path()).await.contains("new mode 100755"));
    git(dir.path(), &["config", "core.fileMode", "false"]);
    assert_eq!(unstaged(dir.path()).await, "");
}

#[tokio::test]
async fn sha256_repositories_have_diffs() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    git(at, &["init", "--quiet", "--initial-branch=main", "--object-format=sha256"]);
    fs::write(at.join("a.txt"), "before\n").unwrap();
    commit(at);
    fs::write(at.join("a.txt"), "after\n").unwrap();
    let found = difference(at.to_owned(), &environment(), Base::ForkPoint, false).await;
    assert_eq!(found.branch, Some("main"));
    assert!(found.text.contains("-before\n+after"), "{}", found.text);
}

#[test]
fn scratch_directory_is_accessible_to_its_owner_only() {
    let dir = repository();
    let scratch = Scratch::over(&super::super::around(dir.path()).unwrap().data).unwrap();
    for path in ["", "config", "HEAD", "refs"] {
        let mode = fs::metadata(scratch.path().join(path)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{path:?}: {mode:o}");
    }
}
