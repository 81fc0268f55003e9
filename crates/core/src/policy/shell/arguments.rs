//! Lists the arguments with which the read-only programs of the catalogue stay harmless.
//!
//! Programs that can neither write nor run anything accept any arguments. The others accept the options that are listed
//! here, in full: neither abbreviations such as `--outp`, nor options that a new version adds. An argument that is known
//! only at run time could be any option, so these programs accept none.

use super::catalogue::is_listed;
use super::word::{Expansion, Word};

/// Whether a program is harmless with these arguments; none if it is not a reader.
pub(super) fn of_reader(program: &str, words: &[Word<'_>]) -> Option<bool> {
    let literal = words.iter().all(Word::is_literal);
    Some(match program {
        "echo" | "true" | "false" | ":" | "pwd" | "ls" | "cat" | "head" | "tail" | "wc" | "basename"
        | "dirname" | "realpath" | "readlink" | "whoami" | "id" | "groups" | "uname" | "nproc" | "tty"
        | "logname" | "printenv" | "stat" | "du" | "df" | "cut" | "tr" | "nl" | "seq" | "sleep" | "cmp"
        | "comm" | "join" | "paste" | "fold" | "fmt" | "expand" | "unexpand" | "rev" | "tac" | "od"
        | "expr" | "cksum" | "md5sum" | "sha1sum" | "sha224sum" | "sha256sum" | "sha384sum" | "sha512sum"
        | "b2sum" | "grep" | "jq" | "which" | "type" | "uptime" => true,
        // On macOS it runs the program that its arguments name.
        "arch" => words.is_empty(),
        "cd" => literal && words.iter().all(is_inert),
        "exit" => words.len() <= 1 && words.iter().all(is_number),
        "test" => literal && tests_harmlessly(words),
        "[" => literal && tests_harmlessly(words) && words.last().is_none_or(|word| word.text == "]"),
        "printf" => literal && prints_harmlessly(words),
        "sort" => literal && SORT.accept(words),
        "uniq" => literal && UNIQ.accept(words) && has_one_operand(words),
        "diff" => literal && DIFF.accept(words),
        "tree" => literal && TREE.accept(words),
        "file" => literal && FILE.accept(words),
        "rg" => literal && RG.accept(words),
        "date" => literal && words.iter().all(|word| shows_date(&word.text)),
        "find" => literal && words.iter().all(|word| finds_harmlessly(&word.text)),
        "sed" => literal && prints_lines(words),
        "git" => literal && git(words),
        _ => return None,
    })
}

/// Harmless options of a program.
struct Options {
    /// Letters, alone or combined: `-nr`. Other characters are values.
    short: &'static str,
    long: &'static str,
}

impl Options {
    fn accept(&self, words: &[Word<'_>]) -> bool {
        words.iter().all(|word| self.accepts(&word.text))
    }

    fn accepts(&self, text: &str) -> bool {
        if text == "--" {
            return true;
        }
        if text.starts_with("--") {
            return is_listed(self.long, text.split('=').next().unwrap_or(text));
        }
        match text.strip_prefix('-') {
            Some(letters) => letters.chars().all(|c| !c.is_alphabetic() || self.short.contains(c)),
            None => true,
        }
    }
}

/// Without `-o`, `--output`, `-T` and `--compress-program`.
const SORT: Options = Options {
    short: "bdfghikMnrRsuVzctmC",
    long: "--reverse --unique --numeric-sort --general-numeric-sort --human-numeric-sort --version-sort \
        --month-sort --random-sort --ignore-case --dictionary-order --stable --key --field-separator \
        --check --zero-terminated --ignore-leading-blanks --debug --help --version",
};

const UNIQ: Options = Options {
    short: "cdDiuzfsw",
    long: "--count --repeated --all-repeated --unique --ignore-case --help --version",
};

/// Without `-l` and `--paginate`, which run `pr`.
const DIFF: Options = Options {
    short: "uUcCqrNwbBiasytTEdeZ",
    long: "--unified --context --brief --recursive --new-file --ignore-all-space --ignore-space-change \
        --ignore-blank-lines --ignore-case --text --side-by-side --color --width --exclude \
        --strip-trailing-cr --suppress-common-lines --minimal --label --help --version",
};

/// Without `-o`, and `-R`, which writes a file into every directory.
const TREE: Options = Options {
    short: "adfiLIPhpsugDFCnAJlx",
    long: "--dirsfirst --noreport --gitignore --filelimit --prune --charset --help --version",
};

/// Without `-C`, which compiles, and `-z`, which runs programs such as `gzip`.
const FILE: Options =
    Options { short: "biLh", long: "--brief --mime --mime-type --mime-encoding --help --version" };

/// Without `--pre`, `--hostname-bin`, `-z` and `--search-zip`, which run programs.
const RG: Options = Options {
    short: "nilvwcesFgtTABCHhLoqruSUxmPNIap",
    long: "--files --type --type-not --type-list --glob --iglob --hidden --no-ignore --ignore-case \
        --smart-case --case-sensitive --line-number --no-line-number --count --count-matches \
        --files-with-matches --files-without-match --context --after-context --before-context \
        --max-count --max-depth --max-columns --multiline --no-heading --heading --color --colors \
        --word-regexp --line-regexp --fixed-strings --pcre2 --json --sort --sortr --stats --follow \
        --replace --only-matching --no-messages --vimgrep --column --no-filename --with-filename \
        --invert-match --regexp --quiet --null --trim --text --help --version",
};

/// Whether there is at most one file: `uniq` writes to the second. After `--` every word is a file.
fn has_one_operand(words: &[Word<'_>]) -> bool {
    let is_option = |text: &str| text.starts_with('-') && text != "-";
    words.iter().all(|word| word.text != "--")
        && words.iter().filter(|word| !is_option(&word.text)).count() <= 1
}

/// Whether no builtin of any shell evaluates the word.
fn is_inert(word: &Word<'_>) -> bool {
    word.expansion == Expansion::None && !word.text.contains(['[', '$', '`', '('])
}

fn is_number(word: &Word<'_>) -> bool {
    word.is_literal() && !word.text.is_empty() && word.text.bytes().all(|b| b.is_ascii_digit())
}

/// Whether `test` has neither `-v` nor `-R`, which evaluate the subscript of a name.
fn tests_harmlessly(words: &[Word<'_>]) -> bool {
    words.iter().all(|word| is_inert(word) && word.text != "-v" && word.text != "-R")
}

/// Whether `printf` has no `-v`, and no conversion such as `%n`, which assigns.
fn prints_harmlessly(words: &[Word<'_>]) -> bool {
    let Some((format, values)) = words.split_first() else { return true };
    !format.text.starts_with('-') && is_printing(&format.text) && values.iter().all(is_inert)
}

fn is_printing(format: &str) -> bool {
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            continue;
        }
        let conversion = rest.by_ref().find(|c| !matches!(c, '-' | '+' | ' ' | '#' | '.' | '0'..='9'));
        if !matches!(
            conversion,
            Some('%' | 's' | 'b' | 'q' | 'c' | 'd' | 'i' | 'u' | 'o' | 'x' | 'X' | 'e' | 'f' | 'g')
        ) {
            return false;
        }
    }
    true
}

/// Whether a word is a format, or an option that changes how `date` shows the time. A bare time sets the clock.
fn shows_date(text: &str) -> bool {
    const SHOWS: &str = "-u -R -I -Iseconds -Iminutes -Ihours -Idate --utc --rfc-email --iso-8601";
    let with_value = ["+", "--iso-8601=", "--rfc-3339=", "--date=", "--reference="];
    is_listed(SHOWS, text) || with_value.iter().any(|option| text.starts_with(option))
}

/// Whether a word of `find` is a test, or an action that prints to standard output.
fn finds_harmlessly(text: &str) -> bool {
    const KNOWN: &str = "\
        -L -H -P -name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype \
        -size -empty -mtime -mmin -atime -amin -ctime -cmin -newer -anewer -cnewer -newermt -maxdepth \
        -mindepth -depth -prune -print -print0 -printf -ls -not -and -or -a -o -user -group -uid -gid \
        -nouser -nogroup -perm -links -inum -samefile -follow -xdev -mount -readable -writable -executable \
        -true -false -quit -daystart -lname -ilname";
    let is_value =
        text.strip_prefix('-').is_some_and(|value| value.starts_with(|c: char| c.is_ascii_digit()));
    !text.starts_with('-') || is_value || is_listed(KNOWN, text)
}

/// Whether `sed` only prints lines: `sed -n 5p FILE`, `sed -n 1,20p FILE`. Other scripts can write files and run commands.
fn prints_lines(words: &[Word<'_>]) -> bool {
    match words {
        [] => true,
        [quiet, script, files @ ..] => {
            let lines = script.text.strip_suffix('p').unwrap_or("x");
            quiet.text == "-n"
                && lines.split(',').count() <= 2
                && lines
                    .split(',')
                    .all(|line| line == "$" || (!line.is_empty() && line.bytes().all(|b| b.is_ascii_digit())))
                && files.iter().all(|file| !file.text.starts_with('-'))
        }
        [_] => false,
    }
}

/// Whether git changes nothing and runs nothing. `log`, `diff`, `show`, `grep` and `blame` are excluded: their options
/// write files and run programs, and so does the configuration of a repository (`diff.external`, `textconv`,
/// `gpg.program`).
fn git(words: &[Word<'_>]) -> bool {
    let Some((subcommand, rest)) = words.split_first() else { return false };
    let options = match &*subcommand.text {
        "status" => Options {
            short: "sbuzalmnor",
            long: "--short --branch --porcelain --long --untracked-files --ignored --show-stash",
        },
        "rev-parse" => Options {
            short: "q",
            long: "--verify --quiet --short --abbrev-ref --symbolic-full-name --show-toplevel --git-dir \
                --show-prefix --show-cdup --is-inside-work-tree --is-bare-repository --absolute-git-dir \
                --git-common-dir",
        },
        "ls-files" => Options {
            short: "cdmostuz",
            long: "--cached --deleted --modified --others --stage --exclude-standard --full-name \
                --error-unmatch --directory",
        },
        "ls-tree" => Options {
            short: "rtdlz",
            long: "--name-only --name-status --full-name --full-tree --long --abbrev",
        },
        _ => return false,
    };
    subcommand.bare && options.accept(rest)
}
