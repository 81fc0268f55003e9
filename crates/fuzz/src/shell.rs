//! Shell lines: what a grant covers, and what deny rules name.

use baton_core::policy::Match;
use baton_core::policy::shell::{Commands, Line, LineOffer, Piece};

/// Parses a shell line. A line that is not understood is covered by nothing; a grant for a line covers what the user was
/// shown; deny rules name each program.
pub fn shell(data: &[u8]) {
    let text = &*String::from_utf8_lossy(data);
    let line = Line::parse(text);
    assert_eq!(line, Line::parse(text), "parsing is deterministic");
    assert!(!line.is_covered_by(&[]), "no grant covers nothing");
    assert_eq!(line.is_grantable(), !line.offers().is_empty());
    match &line {
        Line::Opaque(_) => opaque(text, &line),
        Line::Commands(commands) => understood(text, &line, commands),
    }
}

fn opaque(text: &str, line: &Line<'_>) {
    assert!(!line.is_covered_by(&[text, text.trim(), "echo", "*", ":*"]), "grants cover no opaque line");
    assert!(line.offers().is_empty() && !line.is_read_only() && !line.reads_repository());
    assert_ne!(line.is_named_by("rm"), Match::No, "any rule may name it");
}

fn understood(text: &str, line: &Line<'_>, commands: &Commands<'_>) {
    assert!(commands.programs().next().is_some());
    for program in commands.programs() {
        // A rule cannot tell a program whose name ends so from all forms of another.
        let expected = if program.ends_with(":*") { Match::Unknown } else { Match::Yes };
        assert!([Match::Yes, expected].contains(&line.is_named_by(program)), "a rule names {program:?}");
    }
    words_and_pieces_agree(commands);
    for offer in line.offers() {
        let identifiers: Vec<&str> = offer.identifiers.iter().map(String::as_str).collect();
        assert!(line.is_covered_by(&identifiers), "{offer:?} covers its own line");
        if offer.meaning == "exactly this line" {
            exact_grant(text, commands, &offer);
        }
    }
}

/// What an exact grant stores is the line that the user was shown: it runs the same commands, and it is not the beginning of a
/// longer one.
fn exact_grant(text: &str, commands: &Commands<'_>, offer: &LineOffer) {
    let [granted] = &*offer.identifiers else { panic!("one line: {offer:?}") };
    let Line::Commands(again) = Line::parse(granted) else { panic!("{granted:?} is granted and opaque") };
    assert!(commands.in_pieces().eq(again.in_pieces()), "{granted:?} runs what {text:?} runs");
    let longer = format!("{text} x");
    assert!(!Line::parse(&longer).is_covered_by(&[granted]), "{granted:?} covers {longer:?}");
}

/// The grammar and the code that takes its words apart have read the same arguments.
fn words_and_pieces_agree(commands: &Commands<'_>) {
    let mut words = commands.words();
    for command in commands.in_pieces() {
        assert_eq!(words.next(), Some(command.program));
        for pieces in command.arguments {
            let word = words.next().expect("a word for each argument");
            let is_variable =
                |piece: &Piece<'_>| matches!(piece, Piece::BareVariable(_) | Piece::QuotedVariable(_));
            // Variables are in the word as they are written, with braces or without.
            if !pieces.iter().any(is_variable) {
                assert_eq!(pieces.iter().map(literal).collect::<String>(), word);
            }
        }
    }
    assert_eq!(words.next(), None);
}

fn literal<'a>(piece: &Piece<'a>) -> &'a str {
    match piece {
        Piece::Quoted(text) | Piece::Bare(text) | Piece::QuotedVariable(text) | Piece::BareVariable(text) => {
            text
        }
    }
}
