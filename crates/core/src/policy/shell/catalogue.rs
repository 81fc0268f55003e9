//! Catalogue of programs: what each of them can do.
//!
//! It is an allow-list: a program that is not listed may run others and write files. Names are compared as written:
//! `./ls` and `/tmp/ls` are not `ls`.
//!
//! A name means the same program in every line because of three things outside this module: each line runs in a new
//! shell, without functions, aliases and variables of earlier lines; the grammar has no function definitions, and a line
//! with assignments is covered only by an exact grant; and the directories of `PATH` are absolute. An agent that may write
//! to one of those directories can replace `ls`, and needs no further grant to do harm.

use super::arguments;
use super::word::Word;

/// What a command can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Reads and prints. Writes no file, runs no program.
    Reader,
    /// Creates empty files or directories. Runs no program.
    Maker,
    /// Changes or deletes files. Runs no program.
    Changer,
    /// A reader with arguments that make it write files or run programs.
    Sharp,
    /// Runs other programs, or writes files of any content.
    Runner,
    /// Runs the program that its arguments name.
    Wrapper,
    /// Changes the state of the shell, and so the meaning of the rest of the line; or evaluates its arguments.
    ShellState,
    /// Not in the catalogue.
    Unknown,
}

impl Kind {
    /// Whether a command of this kind can run a program that the line does not name.
    pub(super) fn can_run_others(self) -> bool {
        match self {
            Self::Reader | Self::Maker | Self::Changer => false,
            Self::Sharp | Self::Runner | Self::Wrapper | Self::ShellState | Self::Unknown => true,
        }
    }
}

/// Result of [`classify`].
pub(super) struct Verdict {
    pub(super) kind: Kind,
    /// Whether a grant for the identifier covers the command.
    pub(super) plain: bool,
}

/// Programs with subcommands, which are part of their identifiers.
const WITH_SUBCOMMANDS: &str = "\
    git gh cargo rustup npm pnpm yarn bun docker podman kubectl helm terraform go pip pip3 uv poetry apt \
    apt-get brew dotnet systemctl conda bundle composer mix flutter deno just";

/// Programs with subcommands whose `run` takes the name of a script.
const WITH_SCRIPTS: &str = "npm pnpm yarn bun";

/// Builtins that change the meaning of the rest of the line, or that evaluate their arguments.
const SHELL_STATE: &str = "\
    . source eval exec command builtin trap alias unalias export declare typeset local readonly set shopt \
    setopt unsetopt enable disable hash unset read mapfile readarray let getopts pushd popd dirs umask \
    ulimit bind complete compgen compopt return break continue shift integer float autoload zmodload emulate \
    fc history rehash";

/// Programs that run the program that their arguments name.
const WRAPPERS: &str = "\
    sudo doas su env xargs parallel nohup setsid timeout nice ionice stdbuf watch strace ltrace chroot flock \
    script unshare busybox";

/// Programs that run other programs, or write any content to any file.
const RUNNERS: &str = "\
    sh bash zsh dash ksh fish python python3 node ruby perl php lua awk gawk mawk make cmake ninja tar zip \
    unzip rsync ssh scp sftp curl wget npx bunx uvx vi vim nvim ed ex emacs nano less more man patch split \
    install tox pytest jest tsc gcc cc clang rustc gdb";

/// Programs that change or delete the files that their arguments name, and do nothing else.
const CHANGERS: &str = "rm rmdir unlink shred cp mv ln chmod chown chgrp truncate tee dd mkfifo mknod";

/// Classifies a command. `moved`: whether the line may have left the working directory before it.
pub(super) fn classify(words: &[Word], moved: bool) -> Verdict {
    let Some((program, rest)) = words.split_first() else {
        return Verdict { kind: Kind::Unknown, plain: false };
    };
    let name = program.text.as_str();
    if matches!(name, "touch" | "mkdir") {
        return Verdict { kind: Kind::Maker, plain: program.bare };
    }
    // A directory below the working directory can be another repository, whose configuration names programs. That of the
    // repository around the working directory is read before the policy decides (`Line::reads_repository`).
    let harmless = match arguments::of_reader(name, rest) {
        Some(harmless) => harmless && !(name == "git" && moved),
        None => return Verdict { kind: listed(name), plain: false },
    };
    let kind = match harmless {
        true => Kind::Reader,
        false if name == "git" => Kind::Runner,
        false => Kind::Sharp,
    };
    Verdict { kind, plain: harmless && program.bare }
}

fn listed(name: &str) -> Kind {
    match name {
        name if is_listed(SHELL_STATE, name) => Kind::ShellState,
        name if is_listed(WRAPPERS, name) => Kind::Wrapper,
        name if is_listed(CHANGERS, name) => Kind::Changer,
        name if is_listed(RUNNERS, name) || is_listed(WITH_SUBCOMMANDS, name) => Kind::Runner,
        _ => Kind::Unknown,
    }
}

/// Returns the words that identify a command in a grant: the program, and its subcommand if it has one.
pub(super) fn name(words: &[Word]) -> &[Word] {
    let Some(program) = words.first().map(|word| word.text.as_str()) else { return words };
    let is_part =
        |at: usize| words.get(at).is_some_and(|w| w.bare && w.is_literal() && !w.text.starts_with('-'));
    let length = match is_listed(WITH_SUBCOMMANDS, program) && is_part(1) {
        false => 1,
        true if words[1].text == "run" && is_listed(WITH_SCRIPTS, program) && is_part(2) => 3,
        true => 2,
    };
    &words[..length]
}

/// Whether a word is in a list of words separated by blanks.
pub(super) fn is_listed(list: &str, word: &str) -> bool {
    list.split(' ').any(|listed| listed == word)
}
