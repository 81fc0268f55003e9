//! What is known of programs: what they can do besides what their name says.
//!
//! The catalogue is an allow-list. A program that is not in it can run others and write files, for all we know.
//! Names are compared as they were written: `./ls` and `/tmp/ls` are not `ls`.
//!
//! That a name means the same program in every line rests on three things outside of this module: each line gets a
//! shell of its own, so that no function, alias or variable of an earlier line is left; the grammar has no function
//! definitions, and assignments make a line exact; and the directories of `PATH` are absolute. Somebody who may
//! write into one of those directories can change what `ls` is, and needs no grant of ours for harm.

use super::arguments;
use super::word::Word;

/// What a command can do, as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Reads and prints. Writes no file, runs nothing else.
    Reader,
    /// Creates empty files or directories where its words say. Runs nothing else.
    Maker,
    /// Changes or deletes files. Runs nothing else.
    Changer,
    /// Known to be a reader with other words; with these it can write or run something.
    Sharp,
    /// Known to run other programs, or to write files of any content.
    Runner,
    /// Runs the program that its words name.
    Wrapper,
    /// Changes the shell itself, and with it what the rest of the line means, or evaluates its words once more.
    ShellState,
    /// Not in the catalogue.
    Unknown,
}

impl Kind {
    /// Whether a command of this kind can run a program that the line does not show.
    pub(super) fn can_run_others(self) -> bool {
        match self {
            Self::Reader | Self::Maker | Self::Changer => false,
            Self::Sharp | Self::Runner | Self::Wrapper | Self::ShellState | Self::Unknown => true,
        }
    }
}

/// What [`classify`] finds.
pub(super) struct Verdict {
    pub(super) kind: Kind,
    /// Whether a grant for the identifier covers it.
    pub(super) plain: bool,
}

/// Programs whose first argument says what they do, and is part of their name in a grant.
const WITH_SUBCOMMANDS: &str = "\
    git gh cargo rustup npm pnpm yarn bun docker podman kubectl helm terraform go pip pip3 uv poetry apt \
    apt-get brew dotnet systemctl conda bundle composer mix flutter deno just";

/// Of those, the ones whose `run` names a script of the project.
const WITH_SCRIPTS: &str = "npm pnpm yarn bun";

/// Builtins after which the rest of the line may mean something else, and those that evaluate their words once more.
const SHELL_STATE: &str = "\
    . source eval exec command builtin trap alias unalias export declare typeset local readonly set shopt \
    setopt unsetopt enable disable hash unset read mapfile readarray let getopts pushd popd dirs umask \
    ulimit bind complete compgen compopt return break continue shift integer float autoload zmodload emulate \
    fc history rehash";

/// Programs that run the program that their words name.
const WRAPPERS: &str = "\
    sudo doas su env xargs parallel nohup setsid timeout nice ionice stdbuf watch strace ltrace chroot flock \
    script unshare busybox";

/// Programs that run others, or that write what they are told to wherever they are told to.
const RUNNERS: &str = "\
    sh bash zsh dash ksh fish python python3 node ruby perl php lua awk gawk mawk make cmake ninja tar zip \
    unzip rsync ssh scp sftp curl wget npx bunx uvx vi vim nvim ed ex emacs nano less more man patch split \
    install tox pytest jest tsc gcc cc clang rustc gdb";

/// Programs that change or delete what their words name, and do nothing else.
const CHANGERS: &str = "rm rmdir unlink shred cp mv ln chmod chown chgrp truncate tee dd mkfifo mknod";

/// Says what a command can do. `moved`: the line may have left the working directory before it.
pub(super) fn classify(words: &[Word], moved: bool) -> Verdict {
    let Some((program, rest)) = words.split_first() else {
        return Verdict { kind: Kind::Unknown, plain: false };
    };
    let name = program.text.as_str();
    if matches!(name, "touch" | "mkdir") {
        return Verdict { kind: Kind::Maker, plain: program.bare };
    }
    // A directory below the working directory can be a repository of its own whose configuration names programs; the
    // one that the session works in was chosen by a person.
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

/// The words that name a command in a grant: the program, and its subcommand where there is one.
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

/// Whether a word is in a list of words with blanks between them.
pub(super) fn is_listed(list: &str, word: &str) -> bool {
    list.split(' ').any(|listed| listed == word)
}
