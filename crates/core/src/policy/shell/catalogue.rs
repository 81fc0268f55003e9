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
pub(super) struct Classified {
    pub(super) kind: Kind,
    /// Whether a grant for the identifier covers the command.
    pub(super) plain: bool,
}

/// Whether a program has subcommands, which are part of its identifier.
fn has_subcommands(program: &str) -> bool {
    matches!(
        program,
        "git"
            | "gh"
            | "cargo"
            | "rustup"
            | "npm"
            | "pnpm"
            | "yarn"
            | "bun"
            | "docker"
            | "podman"
            | "kubectl"
            | "helm"
            | "terraform"
            | "go"
            | "pip"
            | "pip3"
            | "uv"
            | "poetry"
            | "apt"
            | "apt-get"
            | "brew"
            | "dotnet"
            | "systemctl"
            | "conda"
            | "bundle"
            | "composer"
            | "mix"
            | "flutter"
            | "deno"
            | "just"
    )
}

/// Whether a program has subcommands, and its `run` takes the name of a script.
fn has_scripts(program: &str) -> bool {
    matches!(program, "npm" | "pnpm" | "yarn" | "bun")
}

/// Classifies a command. `moved`: whether the line may have left the working directory before it.
pub(super) fn classify(words: &[Word<'_>], moved: bool) -> Classified {
    let Some((program, rest)) = words.split_first() else {
        return Classified { kind: Kind::Unknown, plain: false };
    };
    let name = &*program.text;
    if matches!(name, "touch" | "mkdir") {
        return Classified { kind: Kind::Maker, plain: program.bare };
    }
    // A directory below the working directory can be another repository, whose configuration names programs. That of the
    // repository around the working directory is read before the policy decides (`Line::reads_repository`).
    let harmless = match arguments::of_reader(name, rest) {
        Some(harmless) => harmless && !(name == "git" && moved),
        None => return Classified { kind: listed(name), plain: false },
    };
    let kind = match harmless {
        true => Kind::Reader,
        false if name == "git" => Kind::Runner,
        false => Kind::Sharp,
    };
    Classified { kind, plain: harmless && program.bare }
}

fn listed(name: &str) -> Kind {
    match name {
        // Builtins that change the meaning of the rest of the line, or that evaluate their arguments.
        "." | "source" | "eval" | "exec" | "command" | "builtin" | "trap" | "alias" | "unalias"
        | "export" | "declare" | "typeset" | "local" | "readonly" | "set" | "shopt" | "setopt"
        | "unsetopt" | "enable" | "disable" | "hash" | "unset" | "read" | "mapfile" | "readarray" | "let"
        | "getopts" | "pushd" | "popd" | "dirs" | "umask" | "ulimit" | "bind" | "complete" | "compgen"
        | "compopt" | "return" | "break" | "continue" | "shift" | "integer" | "float" | "autoload"
        | "zmodload" | "emulate" | "fc" | "history" | "rehash" => Kind::ShellState,
        // Run the program that their arguments name.
        "sudo" | "doas" | "su" | "env" | "xargs" | "parallel" | "nohup" | "setsid" | "timeout" | "nice"
        | "ionice" | "stdbuf" | "watch" | "strace" | "ltrace" | "chroot" | "flock" | "script" | "unshare"
        | "busybox" => Kind::Wrapper,
        // Change or delete the files that their arguments name, and do nothing else.
        "rm" | "rmdir" | "unlink" | "shred" | "cp" | "mv" | "ln" | "chmod" | "chown" | "chgrp"
        | "truncate" | "tee" | "dd" | "mkfifo" | "mknod" => Kind::Changer,
        // Run other programs, or write any content to any file.
        "sh" | "bash" | "zsh" | "dash" | "ksh" | "fish" | "python" | "python3" | "node" | "ruby" | "perl"
        | "php" | "lua" | "awk" | "gawk" | "mawk" | "make" | "cmake" | "ninja" | "tar" | "zip" | "unzip"
        | "rsync" | "ssh" | "scp" | "sftp" | "curl" | "wget" | "npx" | "bunx" | "uvx" | "vi" | "vim"
        | "nvim" | "ed" | "ex" | "emacs" | "nano" | "less" | "more" | "man" | "patch" | "split"
        | "install" | "tox" | "pytest" | "jest" | "tsc" | "gcc" | "cc" | "clang" | "rustc" | "gdb" => {
            Kind::Runner
        }
        name if has_subcommands(name) => Kind::Runner,
        _ => Kind::Unknown,
    }
}

/// Returns the words that identify a command in a grant: the program, and its subcommand if it has one.
pub(super) fn name<'w, 'a>(words: &'w [Word<'a>]) -> &'w [Word<'a>] {
    let Some(program) = words.first().map(|word| &*word.text) else { return words };
    let is_part =
        |at: usize| words.get(at).is_some_and(|w| w.bare && w.is_literal() && !w.text.starts_with('-'));
    let length = match has_subcommands(program) && is_part(1) {
        false => 1,
        true if words[1].text == "run" && has_scripts(program) && is_part(2) => 3,
        true => 2,
    };
    &words[..length]
}

/// Whether a word is in a list of words separated by blanks.
pub(super) fn is_listed(list: &str, word: &str) -> bool {
    list.split(' ').any(|listed| listed == word)
}
