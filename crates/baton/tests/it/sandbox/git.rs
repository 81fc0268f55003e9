//! Making programs outside run something later: git, editors, shells.

use std::path::Path;

use super::arena::{Arena, Level, User, needs_walls};

/// A program that leaves a mark. `MARK` in a script stands for its path.
const PROGRAM: &str = "#!/bin/sh\ntouch \"$HOME/pwned\"\n";

/// What a program inside does, and the directory in which the user then runs git.
const ESCAPES: &[(&str, &str, &str)] = &[
    ("hook", "cp MARK .git/hooks/post-index-change", "."),
    ("configuration", "git config core.fsmonitor MARK", "."),
    ("configuration by writing", "printf '[core]\\n\\tfsmonitor = 'MARK >> .git/config", "."),
    (
        "renamed repository",
        "mv .git old; cp -r old .git; printf '[core]\\n\\tfsmonitor = 'MARK >> .git/config",
        ".",
    ),
    (
        "removed repository",
        "cp -r .git copy; rm -rf .git; mv copy .git; printf '[core]\\n\\tfsmonitor = 'MARK >> .git/config",
        ".",
    ),
    (
        "common directory",
        "cp -r .git copy; printf '[core]\\n\\tfsmonitor = 'MARK >> copy/config; echo ../copy > .git/commondir",
        ".",
    ),
    ("nested repository", "printf '[core]\\n\\tfsmonitor = 'MARK >> sub/.git/config", "sub"),
    (
        "parent of a nested repository",
        "mv sub old; cp -r old sub; printf '[core]\\n\\tfsmonitor = 'MARK >> sub/.git/config",
        "sub",
    ),
    ("new repository", "git init -q new; git -C new config core.fsmonitor MARK", "new"),
    (
        "new repository without a name",
        "git init -q --bare bare; mkdir bare/worktree; printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tworktree = worktree\\n\\tfsmonitor = 'MARK > bare/config",
        "bare",
    ),
    (
        "file that names a repository",
        "cp -r .git elsewhere; printf '[core]\\n\\tfsmonitor = 'MARK >> elsewhere/config; mkdir place; echo 'gitdir: ../elsewhere' > place/.git",
        "place",
    ),
    (
        "link to a repository",
        "cp -r .git elsewhere; printf '[core]\\n\\tfsmonitor = 'MARK >> elsewhere/config; mkdir place; ln -s ../elsewhere place/.git",
        "place",
    ),
    ("hidden repository", "git init -q h; git -C h config core.fsmonitor MARK; chmod 111 h", "h"),
    ("locked repository", "git init -q l; git -C l config core.fsmonitor MARK; chmod 555 l/.git l", "l"),
    ("included file", "printf '[core]\\n\\tfsmonitor = 'MARK >> shared.cfg", "."),
    ("directory of hooks", "cp MARK tools/hooks/post-index-change", "hooked"),
    (
        "many directories",
        "mkdir $(seq -f d%.0f 12000); git init -q zz; git -C zz config core.fsmonitor MARK",
        "zz",
    ),
];

fn project(user: User) -> Arena {
    let arena = Arena::new(user);
    arena.write("work/mark", PROGRAM);
    arena
}

async fn user_runs(arena: &Arena, script: &str) {
    let mut command = arena.user_command("sh");
    command.args(["-ec", script]);
    let ran = arena.finish(command).await;
    assert_eq!(ran.code, Some(0), "{script}: {ran:?}");
}

/// Prepares a repository with another in it.
async fn prepare(arena: &Arena) {
    let script = "chmod +x mark; git init -q .; git config user.email a@b; git config user.name a
        git config include.path ../shared.cfg; touch shared.cfg; git add shared.cfg; git commit -qm one
        git init -q sub; echo x > sub/file
        git init -q hooked; mkdir -p tools/hooks; git -C hooked config core.hooksPath ../tools/hooks; touch hooked/file";
    user_runs(arena, script).await;
}

/// Runs git as the user does, who has a prompt that shows its state.
async fn use_git(arena: &Arena, directory: &str) {
    let place = arena.work().join(directory);
    let mut command = arena.user_command("sh");
    command.args(["-c", "cd \"$1\" && git status; git add -A .", "sh"]).arg(place);
    arena.finish(command).await;
}

#[tokio::test]
async fn git_runs_nothing_that_a_program_inside_has_written() {
    needs_walls!();
    for user in User::all() {
        for (name, script, directory) in ESCAPES {
            for (level, expected) in [(Level::Off, true), (Level::Workspace, false)] {
                let arena = project(user);
                prepare(&arena).await;
                let mark = arena.work().join("mark");
                let script = script.replace("MARK", mark.to_str().unwrap());
                let ran = arena.run(level, &format!("({script}); echo done > control")).await;
                assert!(arena.work().join("control").exists(), "{name}: {ran:?}");
                use_git(&arena, directory).await;
                let is_out = arena.home().join("pwned").exists();
                assert_eq!(is_out, expected, "{name} at {level:?} as {user:?}: {ran:?}");
            }
        }
    }
}

/// Files of editors, shells, agents and services that a program inside creates.
const ACTING: &[&str] = &[
    ".vscode/tasks.json",
    ".envrc",
    ".mcp.json",
    ".idea/workspace.xml",
    ".husky/pre-commit",
    ".claude/settings.json",
    ".github/workflows/ci.yml",
    ".gitlab-ci.yml",
    "deep/er/.devcontainer/devcontainer.json",
    ".baton/settings.json",
];

#[tokio::test]
async fn new_files_that_act_are_moved_away_and_existing_ones_are_read_only() {
    needs_walls!();
    for user in User::all() {
        let arena = Arena::new(user);
        let write = |path: &str| {
            format!(
                "mkdir -p {}; echo evil > {path}\n",
                Path::new(path).parent().unwrap().join(".").display()
            )
        };
        let script: String = ACTING.iter().map(|path| write(path)).collect();
        let ran = arena.run(Level::Off, &script).await;
        let exist = |arena: &Arena| -> Vec<&str> {
            ACTING.iter().copied().filter(|path| arena.work().join(path).exists()).collect()
        };
        assert_eq!(exist(&arena), ACTING, "{ran:?}");
        let arena = Arena::new(user);
        let ran = arena.run(Level::Workspace, &script).await;
        assert_eq!(exist(&arena), [""; 0], "{ran:?}");
        for path in ACTING {
            assert!(ran.stderr.contains(&format!("{path} was moved to")), "{path}: {}", ran.stderr);
        }
        // The user's own.
        for path in ACTING {
            arena.write(&format!("work/{path}"), "mine");
        }
        let ran =
            arena.run(Level::Workspace, &format!("{script} rm -rf .vscode .envrc; mv .husky other")).await;
        for path in ACTING {
            let text = std::fs::read_to_string(arena.work().join(path)).unwrap_or_default();
            assert_eq!(text, "mine", "{path}: {ran:?}");
        }
    }
}

#[tokio::test]
async fn protected_names_that_do_not_exist_leave_nothing_behind() {
    needs_walls!();
    for user in User::all() {
        let arena = Arena::new(user);
        let ran = arena.run(Level::Workspace, "ls -A").await;
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{ran:?}");
        assert_eq!(std::fs::read_dir(arena.work()).unwrap().count(), 0);
    }
}

#[tokio::test]
async fn git_works_inside() {
    needs_walls!();
    for user in User::all() {
        let arena = project(user);
        prepare(&arena).await;
        let script = "set -e; echo two > two; git add two; git commit -qm two; git checkout -qb branch; git tag t; git gc -q
            git checkout -q -; git merge -q branch; git stash list; git log --oneline | wc -l";
        let ran = arena.run(Level::Workspace, script).await;
        assert_eq!((ran.code, ran.stdout.trim()), (Some(0), "2"), "{ran:?}");
        // A worktree, whose repository is elsewhere.
        user_runs(&arena, "git worktree add -q ../outside/tree").await;
        let mut command = arena.baton(&["sandbox", "--level", "workspace", "--", "sh", "-ec"]);
        command.arg("echo three > three; git add three; git commit -qm three; git log --oneline | wc -l");
        command.current_dir(arena.home().join("outside/tree"));
        let ran = arena.finish(command).await;
        assert_eq!((ran.code, ran.stdout.trim()), (Some(0), "3"), "{ran:?}");
    }
}
