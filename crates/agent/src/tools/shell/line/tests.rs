//! Lines that are understood, and lines that are not guessed at.

use proptest::prelude::*;

use super::*;

/// The commands of a line, words separated by `|`; a word that expands is marked with `~`.
fn show(line: &str) -> Option<Vec<String>> {
    let word = |word: &Word| format!("{}{}", if word.expands { "~" } else { "" }, word.text);
    Some(parse(line)?.iter().map(|c| c.words.iter().map(word).collect::<Vec<_>>().join("|")).collect())
}

#[test]
fn lines_are_taken_apart() {
    for (line, commands) in [
        ("echo hello && echo world", vec!["echo|hello", "echo|world"]),
        ("a; b | c || d & e\nf |& g", vec!["a", "b", "c", "d", "e", "f", "g"]),
        (r#"git commit -m "a; b && 'c'" # not; this"#, vec!["git|commit|-m|a; b && 'c'"]),
        (r"echo a\ b 'c $(rm x)' \;", vec!["echo|a b|c $(rm x)|;"]),
        ("echo $(rm -rf /tmp/x; ls) done", vec!["rm|-rf|/tmp/x", "ls", "echo|~$(...)|done"]),
        ("echo \"now: `date`\"", vec!["date", "echo|~now: `...`"]),
        ("echo $HOME ${x:-y} *.rs {a,b}", vec!["echo|~$HOME|~${x:-y}|~*.rs|~{a,b}"]),
        ("A=1 B=$(x) cmd y=2", vec!["x", "cmd|y=2"]),
        ("cat < in > out 2>&1", vec!["cat"]),
        ("cat <<< word; ls 2>/dev/null", vec!["cat", "ls"]),
        ("", vec![]),
    ] {
        assert_eq!(
            show(line).as_deref(),
            Some(commands.iter().map(ToString::to_string).collect::<Vec<_>>()).as_deref(),
            "{line}"
        );
    }
}

#[test]
fn what_is_not_understood_is_not_guessed() {
    for line in [
        "for f in *; do rm $f; done",
        "if true; then x; fi",
        "f() { rm x; }",
        "(cd x; rm y)",
        "{ rm x; }",
        "cat <<EOF\nx\nEOF",
        "echo 'open",
        "echo \"open",
        "echo $(open",
        "echo `open",
        "echo $((1+1))",
        "diff <(a) >(b)",
        "echo $'a\\nb'",
        "echo ${x:-$(rm y)}",
        "[[ -f x ]] && y",
        "! x",
        "x ) y",
        "case a in b) c;; esac",
        "time x",
    ] {
        assert_eq!(parse(line), None, "{line}");
    }
    assert_eq!(parse(&"$(".repeat(50_000)), None);
    assert_eq!(parse(&("echo ".to_owned() + &"$(".repeat(200) + &")".repeat(200))), None);
}

#[test]
fn redirections_that_write_are_seen() {
    let writes = |line: &str| parse(line).unwrap().iter().flat_map(|c| &c.redirections).any(|r| r.writes);
    for line in [
        "echo x > y",
        "echo x>>y",
        "x &> y",
        "x >| y",
        "x 2>err",
        "x >&file",
        "x <> y",
        "echo $(x > y)",
        "x > $T",
    ] {
        assert!(writes(line), "{line}");
    }
    for line in ["x 2>&1", "x >/dev/null 2>&1", "x < y", "echo '>' y", "x >&2", "x 2>&-"] {
        assert!(!writes(line), "{line}");
    }
}

proptest! {
    #[test]
    fn no_line_is_too_strange(line in "[a-z $(){}'\"`|&;<>#=\\\\\n*\\[0-9-]{0,60}") {
        let _ = parse(&line);
    }
}
