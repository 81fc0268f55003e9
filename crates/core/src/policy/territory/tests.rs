//! Tests of the files that grants cover.

use proptest::prelude::*;

use super::*;

fn territory(cwd: &str) -> Territory<'_> {
    Territory {
        cwd: Path::new(cwd),
        home: Some(Path::new("/home/ann/.baton")),
        workspace: Some(Path::new("/home/ann/.baton/session-state/s1")),
        engine_files: &[],
    }
}

#[test]
fn write_grant_covers_the_working_directory() {
    let at = territory("/work/x");
    for (path, covered) in [
        ("/work/x/src/main.rs", true),
        ("/work/x/.github/ISSUE_TEMPLATE.md", true),
        ("/work/x/.gitignore", true),
        ("/work/x/.gitmodules", true),
        ("/work/xy/a", false),
        ("/work", false),
        ("/etc/passwd", false),
        ("/work/x/../y", false),
        ("/work/x/a\n/etc/passwd", false),
        ("relative", false),
        ("", false),
    ] {
        let expected = if covered { Standing::Covered } else { Standing::Outside };
        assert_eq!(at.write(Path::new(path)), expected, "{path}");
        assert_eq!(at.read(Path::new(path)), expected, "{path}");
    }
    let service = Path::new("/work/x/.github/workflows/ci.yml");
    assert!(matches!(at.write(service), Standing::EachTime(_)), "a service acts on it");
    assert_eq!(at.read(service), Standing::Covered);
    assert_eq!(Territory { cwd: Path::new(""), ..at }.write(Path::new("/etc/passwd")), Standing::Outside);
}

#[test]
fn batons_home_is_never_covered_even_inside_the_working_directory() {
    for cwd in ["/home/ann", "/", "/home/ann/.baton", "/home/ann/.baton/session-state"] {
        let at = territory(cwd);
        for path in
            ["token", "permissions.json", "baton.db", "session-state/s2/plan.md", "", "session-state/s10/x"]
        {
            let path = Path::new("/home/ann/.baton").join(path);
            assert_eq!(at.write(&path), Standing::EachTime(HOME), "{cwd} {}", path.display());
            assert_eq!(at.read(&path), Standing::EachTime(HOME), "{cwd} {}", path.display());
        }
        assert_eq!(at.read(Path::new("/home/ann/.BATON/token")), Standing::EachTime(HOME));
    }
}

#[test]
fn session_directory_is_covered_except_batons_own_files() {
    let at = territory("/work/x");
    for (path, expected) in [
        ("plan.md", Standing::Covered),
        ("files/a.txt", Standing::Covered),
        ("notes/a.txt", Standing::Covered),
        ("events.jsonl", Standing::EachTime(HOME)),
        ("session.db-wal", Standing::EachTime(HOME)),
        ("Rewind/abc", Standing::EachTime(HOME)),
    ] {
        let path = Path::new("/home/ann/.baton/session-state/s1").join(path);
        assert_eq!(at.write(&path), expected, "{}", path.display());
        assert_eq!(at.read(&path), Standing::Covered);
    }
}

#[test]
fn implicitly_executed_files_need_approval_each_time() {
    let at = territory("/home/ann/src");
    for path in [
        ".git/hooks/pre-commit",
        ".git/config",
        ".git",
        ".GIT/Config",
        ".g\u{200c}it/config",
        "sub/.git/hooks/x",
        ".git/modules/sub/hooks/post-checkout",
        ".git/worktrees/w/config.worktree",
        ".husky/pre-push",
        ".bashrc",
        ".Zshenv",
        ".profile",
        ".ssh/authorized_keys",
        ".config/fish/config.fish",
        ".config/git/config",
        ".envrc",
        ".vscode/tasks.json",
        ".claude/agents/x.md",
        ".claude/skills/x/SKILL.md",
        ".agents/skills/x/SKILL.md",
        ".github/hooks/x.json",
        ".github/extensions/x/extension.mjs",
        ".github/mcp.json",
        ".github/skills/x/SKILL.md",
        ".mcp.json",
        ".config/baton/config.toml",
        "kit/hooks.json",
        "kit/hooks/hooks.json",
        "kit/plugin.json",
        "kit/.claude-plugin/plugin.json",
        ".github/plugin/plugin.json",
        ".Rprofile",
        ".hg/hgrc",
        ".jj/repo/config.toml",
        ".mise/config.toml",
        "Library/LaunchAgents/x.plist",
        ".devcontainer.json",
        ".dir-locals-2.el",
        ".emacs",
        ".emacs.d/init.el",
        ".config/emacs/init.el",
        ".helix/config.toml",
        ".config/helix/languages.toml",
        ".config/tmux/tmux.conf",
        ".config/direnv/direnvrc",
        ".xsessionrc",
        "lefthook.yml",
        "lefthook.yaml",
        ".lefthook.toml",
        "lefthook-local.yml",
        ".lefthook-local.json",
        ".lefthook/pre-push/x.sh",
        ".config/lefthook.yml",
    ] {
        let path = Path::new("/home/ann/src").join(path);
        assert!(matches!(at.write(&path), Standing::EachTime(_)), "{}", path.display());
        assert_eq!(at.read(&path), Standing::Covered, "reading changes nothing");
    }
    for path in [
        "config",
        "fish/config.fish",
        ".config/app.toml",
        "git/hooks",
        "a.git",
        ".bashrc.md",
        ".sshx",
        "lefthook.md",
        "emacs",
    ] {
        assert_eq!(at.write(&Path::new("/home/ann/src").join(path)), Standing::Covered, "{path}");
    }
}

#[test]
fn files_of_engines_are_not_covered() {
    let engine_files = [".Toy", "toy.json", ".config/toy"].map(str::to_owned);
    let at = Territory { engine_files: &engine_files, ..territory("/home/ann/src") };
    for (path, covered) in [
        (".toy", false),
        (".TOY/settings.json", false),
        ("a/.toy/hooks/x.sh", false),
        ("toy.json", false),
        (".config/toy/x", false),
        (".config/other", true),
        ("toy", true),
        ("a.toy", true),
        ("config/toy", true),
    ] {
        let path = Path::new("/home/ann/src").join(path);
        let expected = if covered { Standing::Covered } else { Standing::EachTime(AGENT) };
        assert_eq!(at.write(&path), expected, "{}", path.display());
        assert_eq!(at.read(&path), Standing::Covered, "reading changes nothing");
    }
}

#[test]
fn request_names_several_files_one_on_each_line() {
    let named: Vec<&Path> = files("/work/a\n/etc/passwd").collect();
    assert_eq!(named, [Path::new("/work/a"), Path::new("/etc/passwd")]);
    assert_eq!(files("").count(), 1, "a request without a file names one empty path, which is not covered");
}

#[test]
fn write_grant_meaning_lists_what_is_not_covered() {
    let said = territory("/work/x").write_meaning();
    for part in ["any file in /work/x", "git", "shells", ".ssh", "Baton's home", "each time"] {
        assert!(said.contains(part), "{said}");
    }
}

proptest! {
    /// A covered path is below one of the two directories, and no special name is part of it.
    #[test]
    fn covered_paths_are_inside_and_not_special(
        parts in prop::collection::vec(prop::sample::select(vec![
            "..", ".", "", "work", "x", ".git", ".GIT", "hooks", "config", ".config", "fish", "home", "ann", ".baton", "token",
            "session-state", "s1", "files", "\u{200b}", "/",
        ]), 0..8),
    ) {
        let path = std::path::PathBuf::from(format!("/{}", parts.join("/")));
        let at = territory("/work");
        if at.write(&path) == Standing::Covered {
            prop_assert!(path.starts_with("/work") || path.starts_with("/home/ann/.baton/session-state/s1"));
            prop_assert!(!parts.contains(&".."));
            let in_session = path.starts_with("/home/ann/.baton/session-state/s1");
            prop_assert!(in_session || !parts.iter().any(|part| part.eq_ignore_ascii_case(".git")));
            prop_assert_eq!(at.read(&path), Standing::Covered);
        }
    }
}

#[test]
fn last_name_of_a_path_that_acts_may_act() {
    let engine_files = [".x/engine.json".to_owned()];
    let territory = Territory { engine_files: &engine_files, ..territory("/work") };
    for (names, _) in IMPLICITLY_EXECUTED {
        assert!(territory.may_act(OsStr::new(names.last().unwrap())), "{names:?}");
    }
    for name in [".GIT", "lefthook.yml", ".lefthook-local.toml", "engine.json"] {
        assert!(territory.may_act(OsStr::new(name)), "{name}");
    }
    assert!(!territory.may_act(OsStr::new("main.rs")));
}
