//! Searches: commands that read, copy or change files which their words do not name.

/// How a command reads directories.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Search {
    /// Not at all, or without showing contents of files.
    No,
    /// Recursively below the directories that its words name, without following links.
    Named,
    /// The same, but following links.
    NamedThroughLinks,
    /// Recursively below the directories that its words name, or below the current one, without following links.
    Below,
    /// Recursively, following links; or files that the line does not name.
    ThroughLinks,
}

impl Search {
    /// Classifies a program with these arguments.
    pub(super) fn of(program: &str, rest: &[String]) -> Self {
        let has = |letters: &[char], long: &[&str]| {
            rest.iter().any(|word| match word.strip_prefix('-') {
                Some(option) if option.starts_with('-') => long.iter().any(|name| word.starts_with(name)),
                Some(option) => option.contains(letters),
                None => false,
            })
        };
        let (below, through_links) = match program {
            "grep" | "egrep" | "fgrep" | "zgrep" => {
                (has(&['r', 'd'], &["--rec", "--di"]), has(&['R'], &["--der"]))
            }
            "rg" | "ag" | "ack" | "ugrep" => (true, has(&['L', 'R'], &["--follow", "--der"])),
            // A program of jq can import files from any directory, and can itself come from a file.
            "jq" => {
                let loads = |word: &String| word.contains("import") || word.contains("include");
                (false, rest.iter().any(loads) || has(&['f', 'L'], &["--from-file", "--library-path"]))
            }
            "git" => (has(&[], &["--no-index"]), false),
            "cp" if has(&['L', 'H'], &["--deref"]) => return Self::NamedThroughLinks,
            // The first word of `tar` consists of options, also without a hyphen.
            "tar" if has(&['h'], &["--deref"]) || rest.first().is_some_and(|word| word.contains('h')) => {
                return Self::NamedThroughLinks;
            }
            "zip" if !has(&['y'], &["--syml"]) => return Self::NamedThroughLinks,
            "rsync" if has(&['L', 'k'], &["--copy-"]) => return Self::NamedThroughLinks,
            "scp" => return Self::NamedThroughLinks,
            "cp" | "mv" | "rm" | "chmod" | "chown" | "chgrp" | "tar" | "zip" | "rsync" => return Self::Named,
            _ => (false, false),
        };
        match (below, through_links) {
            (_, true) => Self::ThroughLinks,
            (true, false) => Self::Below,
            (false, false) => Self::No,
        }
    }
}

/// How a command makes links that were not there when the line was judged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NewLinks {
    No,
    /// It moves or copies those that its words name, or that are below directories that its words name.
    OfNamed,
    /// It makes others.
    Any,
}

impl NewLinks {
    /// Classifies a program with these arguments.
    pub(super) fn of(program: &str, rest: &[String]) -> Self {
        match program {
            "ln" => Self::Any,
            "cp" | "mv" | "rsync" => Self::OfNamed,
            // Archives, and patches of git, contain links.
            "tar" | "bsdtar" | "unzip" | "cpio" | "7z" | "patch" => Self::Any,
            "git" if changes_work_tree(rest) => Self::Any,
            _ => Self::No,
        }
    }
}

/// Whether a git command writes files of commits, stashes or patches.
fn changes_work_tree(rest: &[String]) -> bool {
    #[rustfmt::skip]
    const CHANGES: &[&str] = &[
        "am", "apply", "checkout", "checkout-index", "cherry-pick", "clone", "merge", "mv", "pull", "read-tree", "rebase", "reset",
        "restore", "revert", "stash", "submodule", "switch", "worktree",
    ];
    let has = |names: &[&str]| rest.iter().any(|word| names.contains(&word.as_str()));
    // A new branch begins with the files that are there, unless a commit is named.
    let makes_branch = has(&["-b", "-c"]) && rest.len() == 3;
    has(CHANGES) && !makes_branch
}
