//! Examples of lines: opaque, covered, named by rules, offered.

use super::*;

/// Grants of most tests.
const GRANTS: [&str; 8] = ["echo", "ls", "cat", "git status", "printf", "test", "[", "cd"];

fn covered(line: &str, identifiers: &[&str]) -> bool {
    Line::parse(line).is_covered_by(identifiers)
}

fn default_offer(line: &str) -> Vec<String> {
    Line::parse(line).offers().into_iter().next().map(|offer| offer.identifiers).unwrap_or_default()
}

/// Every hole that was found so far, and similar lines.
#[test]
#[rustfmt::skip]
fn lines_with_more_than_plain_commands_are_opaque() {
    for line in [
        // Expansions that evaluate.
        "echo ${_@P}", "echo ${x@P}", "echo ${x[_]}", "echo ${x[$(id)]}", "echo $[1+1]", "echo \"$[1]\"",
        "echo $((1))", "echo $(id)", "echo \"$(id)\"", "echo `id`", "echo \"`id`\"",
        "echo \"`echo \\\"$(id)\\\"`\"", "echo ${!x}", "echo ${x:-y}", "echo ${#x}", "echo ${x", "echo $",
        "echo $'a'", "echo $\"a\"", "echo $_", "echo \"${_}\"", "echo $1", "echo $@", "echo \"$*\"",
        "echo $?", "echo \"$x[1]\"", "echo \"${x}[1]\"", "echo $x\\\n[1]",
        // Joined lines.
        "echo $\\\n(id)", "echo \"$\\\n(id)\"", "ec\\\nho", "echo \"a\\\nb\"", "echo a\\\nb",
        "echo a &\\\n& id",
        // Operators.
        "echo a & id", "echo a &", "id |& cat", "case a in a) id;; esac", "echo a ;; id", "echo a ;& id",
        ";", "; echo", "echo && && id", "echo &&", "echo |", "| echo", "(id)", "{ id; }", "{ id;}",
        "f() { id; }", "echo )",
        // Keywords.
        "if true; then id; fi", "for i in 1; do id; done", "while id; do id; done", "until id; do :; done",
        "! id", "time id", "coproc id", "select x in a; do id; done", "[[ -v a ]]", "function f { id; }",
        "'if' x", "do id", "echo a; done",
        // Redirections.
        "echo a > b", "echo a >> b", "echo a >| b", "cat < b", "cat <<EOF\nx\nEOF", "cat <<< x",
        "cat <(id)", "tee >(id)", "echo a &> b", "echo a &>/dev/null touch b", "echo a >& b", "echo a >&b", "echo a 2> b", "echo a <> b",
        "echo a >&-", "echo 3>/dev/null", "echo 12>/dev/null", "echo >/dev/null/../x", "echo >/dev/nullx",
        "echo >\"/dev/null\"x", "echo >/dev/tcp/a/1", "echo a >&12", "echo a >&1x", "echo {x}>/dev/null",
        "echo a >/dev/null\\\nx", "> /dev/null", "echo a &>>b",
        // Braces, comments, patterns and variables as programs.
        "{id,x}", "echo {a,b}", "echo a # b", "echo a#b", "# echo", "/bin/i?", "i*", "$CMD x", "\"$CMD\" x",
        "${CMD}",
        // Assignments that matter to others, or are evaluated.
        "PATH=/evil; ls", "x=1", "a[x]=1", "a[$(id)]=1 ls", "RANDOM='a[$(id)]' ls", "x=$y ls", "x=* ls",
        "x+=a; ls",
        // Words that do not name programs.
        "", " ", "\n", "\"\" x", "'' x", "-c id", "+x", "--version", "=id x", "%1", "^a^b", "'a b' c",
        "']' x",
        // Deceptive characters.
        "echo a\0b", "echo a\rb", "echo a\u{a0}b", "echo a\u{200b}b", "echo \u{202e}a", "echo 'a\u{1b}b'",
        "echo\u{2003}a", "echo \"ä\\\"\"", "echo \\ä", "echo a\u{7}",
        // Unclosed.
        "echo 'a", "echo \"a", "echo a\\", "echo \"a\\",
    ] {
        let parsed = Line::parse(line);
        assert!(parsed.why_opaque().is_some(), "{line:?}: {parsed:?}");
        assert!(!parsed.is_covered_by(&[line, "echo", "id", "ls", "cat"]), "{line:?}");
        assert!(parsed.offers().is_empty() && !parsed.is_read_only(), "{line:?}");
    }
    assert!(Line::parse(&format!("echo {}", "a".repeat(20_000))).why_opaque().is_some());
}

#[test]
#[rustfmt::skip]
fn plain_lines_are_covered_by_identifiers() {
    for line in [
        "echo hello && echo world", "echo 'a; b' \"c && d\" e\\ f", "ls -la /tmp | cat", "echo a; echo b;",
        "echo a\necho b\n", "cat x 2>/dev/null || echo none", "ls >/dev/null 2>&1",
        "echo err >&2", "cat </dev/null", ">/dev/null ls", "echo \"$HOME\" \"${HOME}/x\"",
        "echo a=b HEAD~1 HEAD^ ~/x ~", "echo \"a$\" \"b $ c\"", "git status --short -b | cat",
        "[ -f x ] && echo yes", "test a = b || echo no", "printf '%s: %5.2f%%\\n' a 1", "echo \"ä ö\" 'ü'",
        "  echo  a  &&\n  echo b", "echo a \\\n  b", "cd x && ls", "echo \"a\\\"b\\$c\"", "echo hi!",
        "echo $HOME/x | cat", "ls *.rs",
    ] {
        let open = line.contains("$HOME/x |") || line.contains("*.rs");
        assert_eq!(covered(line, &GRANTS), !open, "{line:?}: {:?}", Line::parse(line));
        assert!(covered(line, &[line]), "{line:?}");
        assert!(Line::parse(line).is_read_only(), "{line:?}");
    }
}

#[test]
#[rustfmt::skip]
fn arguments_that_write_or_run_need_the_exact_line() {
    let grants = [
        "sort", "uniq", "diff", "tree", "file", "rg", "date", "find", "sed", "git status", "git", "git log",
        "git grep", "printf", "test", "[", "cd", "exit", "read", "unset", "let", "mapfile", "stdbuf",
        "make", "tar", "env", "xargs", "awk", "ssh", "docker", "docker run", "./ls", "echo", "ls",
        "python3", "sudo", "command", "builtin", "exec", "eval", "rm", "tee", "hostname", "git diff",
        "/bin/ls", "arch",
    ];
    for line in [
        "sort -o x y", "sort -nro x", "sort --output=x", "sort --outp x", "sort --compress-program=id",
        "sort -T /x a", "sort \"$X\"", "uniq a b", "uniq -- a b", "uniq -- -c -d", "uniq - b",
        "uniq -c a b", "diff -l a b", "diff --paginate a b", "diff --pag a b", "tree -o x", "tree -R",
        "arch -arm64 id",
        "file -C -m x", "file -z x", "rg --pre id x", "rg --pre=id x", "rg -z x", "rg --hostname-bin id",
        "date -s 1", "date 01010000", "date --set=1", "find . -delete", "find . -exec id \\;",
        "find . -execdir id \\;", "find . -ok id \\;", "find . -fprint x", "find . -fls x", "find \"$X\"",
        "sed -i s/a/b/ x", "sed 1e", "sed -n '1w x' y", "sed -n 1p -i x", "sed -ni 1p x",
        "git status --output=x", "git -c a=b status", "git -C x status", "git log --output=x",
        "git grep -Oid x", "git log", "git diff", "cd x && git status", "git \"status\"", "git",
        "printf -v 'a[$(id)]' x", "printf -v x y", "printf %n x", "printf '%5n' 'a[$(id)]'",
        "printf \"$X\"", "printf %d 'a[$(id)]'", "test -v 'a[$(id)]'", "[ -v 'a[$(id)]' ]", "[ -R x ]",
        "[ a", "test \"$X\" a", "cd 'a[$(id)]'", "cd \"$X\"", "exit 'a[$(id)]'", "read 'a[$(id)]'",
        "unset 'a[$(id)]'", "let 'a[$(id)]=1'", "mapfile -C id -c 1 x", "stdbuf -oL id", "make",
        "tar --checkpoint-action=exec=id", "env id", "xargs id", "awk 'BEGIN{system(\"id\")}'", "ssh x id",
        "docker run x", "./ls x", "/bin/ls x", "'ls' x", "l\\s x", "\"echo\" a", "command ls",
        "builtin echo", "exec ls", "eval id", "FOO=1 ls", "sudo ls", "python3 -c x", "rm x", "tee x",
        "hostname x", "ls; rm x", "ls | tee x", "echo $X", "ls *", "ls ?", "ls [a]", "ls ~root", "ls ~+",
        "echo ä",
    ] {
        let parsed = Line::parse(line);
        assert!(parsed.why_opaque().is_none(), "{line:?}: {parsed:?}");
        let others: Vec<&str> = grants.iter().copied().filter(|grant| *grant != line).collect();
        assert!(!parsed.is_covered_by(&others), "{line:?}");
        assert_eq!(parsed.offers()[0].identifiers, [line], "{line:?}");
        assert!(parsed.is_covered_by(&[line]), "{line:?}");
    }
}

#[test]
fn escaped_blank_at_the_end_is_in_the_grant() {
    let (blank, joined) = ("rm \\ ", "rm \\\n");
    assert_eq!(default_offer(blank), [blank]);
    assert!(covered(blank, &[blank]) && covered(joined, &[joined]));
    assert!(!covered(joined, &[blank]) && !covered(blank, &[joined]), "one names a file");
    assert!(covered("  rm \\  \n", &[blank]), "blanks behind it are none of the line");
}

#[test]
fn offers_have_meanings() {
    let offers = |line: &str| {
        let all = Line::parse(line).offers().into_iter();
        all.map(|offer| (offer.identifiers.join(" + "), offer.meaning)).collect::<Vec<_>>()
    };
    let own = |identifiers: &str, meaning: &str| (identifiers.to_owned(), meaning.to_owned());
    assert_eq!(
        offers("echo a && ls | cat; echo"),
        [own("echo + ls + cat", "`echo`, `ls`, `cat` with any plain arguments")]
    );
    assert_eq!(
        offers("make all"),
        [
            own("make all", "exactly this line"),
            own("make:*", "any `make` command; make can run other programs")
        ]
    );
    assert_eq!(
        offers("cargo test -p x 2>&1 | tail"),
        [
            own("cargo test -p x 2>&1 | tail", "exactly this line"),
            own(
                "cargo test:* + tail",
                "any `cargo test` command; cargo test can run other programs; and `tail` with any plain arguments"
            ),
        ]
    );
    assert_eq!(
        offers("frobnicate x")[1],
        own(
            "frobnicate:*",
            "any `frobnicate` command; frobnicate is not known to Baton and may run other programs and change any file"
        )
    );
    assert_eq!(offers("rm x")[1].1, "any `rm` command; rm can change or delete any file");
    assert_eq!(offers("xargs rm")[1].1, "any `xargs` command; xargs runs whatever program it is given");
    assert_eq!(
        offers("sort -o x")[1].1,
        "any `sort` command; its options can write files or run other programs"
    );
    assert_eq!(offers("npm run build")[1].0, "npm run build:*");
    for line in ["ls *", "echo $X", "FOO=1 make", "export X=1; ls", "command ls", "'make' x", "eval x"] {
        assert_eq!(offers(line), [own(line, "exactly this line")], "{line}");
    }
    assert_eq!(offers("make x:*"), [], "the text would be read as a wide grant");
    assert_eq!(offers("for i in 1; do ls; done"), []);
}

#[test]
#[rustfmt::skip]
fn wide_grants_cover_commands_that_begin_with_their_words() {
    assert!(covered("make all -j 4", &["make:*"]));
    assert!(covered("cargo test -p x | tail", &["cargo test:*", "tail"]));
    for line in [
        "cargo testx", "cargo 'test'", "cargo -q test", "cargo", "./cargo test", "cargo test $X",
        "cargo test *", "FOO=1 cargo test", "cargo test; rm x", "command cargo test",
    ] {
        assert!(!covered(line, &["cargo test:*"]), "{line}");
    }
    for (line, grant) in
        [("eval id", "eval:*"), ("set -k", "set:*"), ("git push", "git"), ("git push", ":*"), ("x", " :*")]
    {
        assert!(!covered(line, &[grant]), "{line} by {grant}");
    }
    assert!(covered("git push", &["git:*"]) && covered(" git push\n", &["git push"]));
    assert!(!covered("git push -f", &["git push"]), "not the same line");
}

#[test]
#[rustfmt::skip]
fn deny_rules_ignore_quotes_paths_and_wrappers() {
    for line in [
        "rm x", "ls && rm x", "/bin/rm x", "./rm", "\"rm\" x", "r\\m x", "RM x", "command rm x",
        "builtin rm", "exec rm x", "command -p rm x", "sudo -u a rm x", "env A=1 rm x", "A=1 rm x",
        "xargs -n 1 rm", "nice -n 5 /bin/rm", "(rm x)", "{ rm x; }", "for f in a; do rm $f; done",
        "if true; then rm x; fi", "echo $(rm x)", "echo `rm x`", "rm x > y", "x=$(y) rm z", "! rm x",
        "time rm x", "while rm x; do :; done", "true & rm x", "f() { rm x; }", "\\rm x > y",
    ] {
        for argument in ["rm", "rm:*", "/usr/bin/rm", " rm "] {
            assert_eq!(Line::parse(line).is_named_by(argument), Match::Yes, "{line} by {argument:?}");
        }
    }
    for line in [
        "make", "bash -c 'rm x'", "sh x", "eval x", "./run", "frobnicate", "find . -exec r m \\;", "awk x",
        "git commit", "echo ${x@P}", "$X y", "A=1 ls", "for f in a; do $f; done", "cd x && git status",
        "sort -o x", "echo a > b", "git status", "cp /bin/rm /usr/local/bin/ls", "ln -s /bin/rm x", "tee x",
    ] {
        assert_eq!(Line::parse(line).is_named_by("rm"), Match::Unknown, "{line}");
    }
    let mentions = Line::parse("git commit -m 'a; rm b' -m \"c | rm d\" > x");
    assert_eq!(mentions.is_named_by("rm"), Match::Unknown, "a mention is asked about, not denied");
    assert_eq!(Line::parse("echo \"a $(rm b)\"").is_named_by("rm"), Match::Yes);
    for line in [
        "ls", "echo rm", "cat rm | grep rm", "touch rm", "echo $X", "ls *",
        "echo 'rm x'",
    ] {
        assert_eq!(Line::parse(line).is_named_by("rm"), Match::No, "{line}");
        assert_eq!(Line::parse(line).is_named_by(""), Match::Unknown, "{line}");
    }
}

#[test]
fn deny_rules_with_several_words_name_subcommands() {
    let named = |line: &str, argument: &str| Line::parse(line).is_named_by(argument);
    assert_eq!(named("git push -f", "git push"), Match::Yes);
    assert_eq!(named("/usr/bin/git 'push' x", "git push:*"), Match::Yes);
    assert_eq!(named("command git push", "git push"), Match::Yes);
    assert_eq!(named("git status", "git:*"), Match::Yes);
    assert_eq!(named("git status", "git"), Match::Yes);
    assert_eq!(named("git status", "git push"), Match::Unknown, "an alias or a hook can push");
    assert_eq!(named("chmod 777 x", "chmod *"), Match::Yes);
    assert_eq!(named("rm -fr x", "rm -rf"), Match::Unknown, "options can be written in many ways");
    assert_eq!(named("git -C x push", "git push"), Match::Unknown);
    assert_eq!(named("git commit", "git push"), Match::Unknown);
    assert_eq!(named("git \"$X\"", "git push"), Match::Unknown);
    assert_eq!(named("(git push)", "git push"), Match::Yes);
    assert_eq!(named("ls | cat; pwd", "ls | cat; pwd"), Match::Yes, "the whole line");
}

#[test]
#[rustfmt::skip]
fn lines_that_write_are_not_read_only() {
    for line in [
        "touch x", "mkdir x", "rm x", "ls; rm x", "sort -o x", "make", "FOO=1 ls", "echo a > b", "sort *",
        "tee",
    ] {
        assert!(!Line::parse(line).is_read_only(), "{line}");
    }
    assert_eq!(default_offer("touch made.txt && mkdir -p a/b"), ["touch", "mkdir"]);
    assert!(Line::parse("ls * $X | sort").is_read_only());
}

#[test]
fn commands_for_clients_are_the_default_offer() {
    let shown = |line: &str| {
        let all = Line::parse(line).commands().into_iter();
        all.map(|c| format!("{}{}", c.identifier, if c.read_only { "*" } else { "" })).collect::<Vec<_>>()
    };
    assert_eq!(
        shown("git status | head -3; touch x; echo; echo"),
        ["git status*", "head*", "touch", "echo*"]
    );
    assert_eq!(shown(" make x; ls "), ["make x; ls"]);
    assert_eq!(shown("ls *"), ["ls **"], "read-only, but not by its name");
    assert_eq!(shown("echo a > b"), ["echo a > b"]);
}
