//! Laws of the policy for shell lines, for lines of every kind.

use baton_core::policy::Match;
use baton_core::policy::shell::Line;
use proptest::collection::vec;
use proptest::prelude::*;

/// Identifiers of all three forms.
const IDENTIFIERS: [&str; 14] = [
    "echo",
    "ls",
    "cat",
    "git status",
    "sort",
    "touch",
    "make:*",
    "git:*",
    "cargo test:*",
    "rm x",
    "git push",
    "sort -o x",
    ":*",
    "",
];

fn piece() -> impl Strategy<Value = String> {
    let pieces = [
        "echo",
        "ls",
        "cat",
        "git status",
        "git push",
        "make",
        "cargo test",
        "rm x",
        "sort",
        "sort -o x",
        "touch",
        "cd",
        "a",
        "-o",
        "'b c'",
        "\"$x\"",
        "$x",
        "*",
        "x=1 ",
        " ",
        " ",
        " ",
        ";",
        "&&",
        "||",
        "|",
        "\n",
        "\\\n",
        "2>&1",
        ">/dev/null",
        ">x",
        "&",
        "'",
        "\"",
        "\\",
        "$",
        "$(",
        "`",
        "(",
        ")",
        "{",
        "#",
        "~",
        "=",
        "[",
        "]",
        "eval",
        "command",
        "./",
        "/bin/",
        ":*",
        "ä",
        "\u{202e}",
    ];
    prop_oneof![
        9 => proptest::sample::select(pieces.to_vec()).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ]
}

fn line() -> impl Strategy<Value = String> {
    vec(piece(), 0..14).prop_map(|pieces| pieces.concat())
}

/// A line without the blanks around it. A blank behind a backslash is not one of them.
fn trimmed(line: &str) -> String {
    let is_blank = |c: char| matches!(c, ' ' | '\t' | '\n');
    let escaped = line.replace("\\ ", "\\s").replace("\\\t", "\\t").replace("\\\n", "\\n");
    escaped.trim_matches(is_blank).to_owned()
}

fn identifiers() -> impl Strategy<Value = Vec<&'static str>> {
    proptest::sample::subsequence(IDENTIFIERS.to_vec(), 0..IDENTIFIERS.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn opaque_lines_are_never_covered_and_may_match_any_rule(line in line(), grants in identifiers()) {
        let parsed = Line::parse(&line);
        if parsed.why_opaque().is_some() {
            let with_itself: Vec<&str> = grants.iter().copied().chain([line.as_str(), line.trim()]).collect();
            prop_assert!(!parsed.is_covered_by(&with_itself));
            prop_assert!(parsed.offers().is_empty() && !parsed.is_read_only());
            prop_assert_eq!(parsed.commands().len(), 1);
            for argument in grants {
                prop_assert_ne!(parsed.is_named_by(argument), Match::No);
            }
        }
    }

    #[test]
    fn adding_grants_covers_no_less(line in line(), some in identifiers(), more in identifiers()) {
        let parsed = Line::parse(&line);
        let both: Vec<&str> = some.iter().chain(&more).copied().collect();
        prop_assert!(!parsed.is_covered_by(&some) || parsed.is_covered_by(&both));
        prop_assert!(!parsed.is_covered_by(&[]));
    }

    #[test]
    fn offers_cover_their_own_line(line in line()) {
        let parsed = Line::parse(&line);
        for offer in parsed.offers() {
            let identifiers: Vec<&str> = offer.identifiers.iter().map(String::as_str).collect();
            prop_assert!(parsed.is_covered_by(&identifiers), "{:?}", offer);
            prop_assert!(!offer.meaning.is_empty());
        }
    }

    /// A user who is shown one line, and allows it, allows that line only.
    #[test]
    fn exact_grants_cover_one_line(shown in line(), other in line()) {
        let offers = Line::parse(&shown).offers();
        if let Some(offer) = offers.first().filter(|offer| offer.meaning == "exactly this line") {
            let identifiers: Vec<&str> = offer.identifiers.iter().map(String::as_str).collect();
            prop_assert_eq!(Line::parse(&other).is_covered_by(&identifiers), trimmed(&shown) == trimmed(&other));
        }
    }

    /// Grants name every program that a covered line runs. A deny rule names a program wherever it is in the line.
    #[test]
    fn covered_commands_are_named_by_their_grants(line in line(), grants in identifiers()) {
        let parsed = Line::parse(&line);
        let Line::Commands(commands) = &parsed else { return Ok(()) };
        let exact = grants.contains(&line.trim_matches([' ', '\t', '\n']));
        for program in commands.programs() {
            // A rule cannot tell a program whose name ends so from all forms of another: that needs approval.
            if program.ends_with(":*") {
                prop_assert_ne!(parsed.is_named_by(program), Match::No);
                continue;
            }
            prop_assert_eq!(parsed.is_named_by(program), Match::Yes);
            prop_assert_eq!(parsed.is_named_by(&format!("{program}:*")), Match::Yes);
            if parsed.is_covered_by(&grants) && !exact {
                let begins = |grant: &&str| grant.split([' ', ':']).next() == Some(program);
                prop_assert!(grants.iter().any(begins), "{program} by {grants:?}");
            }
        }
    }

    /// Grants cover a joined line only if they cover both parts.
    #[test]
    fn joined_line_is_covered_only_if_both_parts_are(first in line(), second in line(), grants in identifiers()) {
        let covered = |text: &str| Line::parse(text).is_covered_by(&grants);
        let joined = format!("{first};{second}");
        let whole = [first.as_str(), second.as_str()].iter().all(|part| Line::parse(part).why_opaque().is_none());
        if whole && covered(&joined) && !grants.contains(&joined.trim()) {
            prop_assert!(covered(&first) && covered(&second));
        }
    }

    #[test]
    fn any_text_can_be_parsed(line in any::<String>()) {
        let parsed = Line::parse(&line);
        let _ = (parsed.commands(), parsed.offers(), parsed.is_named_by(&line), parsed.is_covered_by(&[&line]));
    }
}

#[test]
fn long_lines_are_opaque() {
    for text in ["'", "\"", "$(", "`", "a;", "\\\n", " ", "a|", "[", "~", "\u{10ffff}"] {
        assert!(Line::parse(&text.repeat(1 << 20)).why_opaque().is_some());
        let _ = Line::parse(&text.repeat((16 << 10) / text.len()));
    }
}
