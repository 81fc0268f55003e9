//! Code as data: pieces of text with what they are.
//!
//! The grammars are those of Sublime Text, matched by Oniguruma: the engine in pure Rust took four to ten times the time and the
//! memory. A line cannot be interrupted while it is matched, so long lines stay plain, and callers run [`code`] on a thread
//! that they can abandon.

use std::str::FromStr;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

/// Longest text that is highlighted, in bytes and in lines.
const MAX_TEXT: usize = 512 * 1024;
const MAX_LINES: usize = 10_000;
/// Longest line that is highlighted, in bytes.
const MAX_LINE: usize = 4096;
/// Time for one text. The lines after it are plain.
const LIMIT: Duration = Duration::from_secs(1);

/// What a piece of code is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Class {
    /// Nothing that is listed here.
    #[default]
    Plain,
    /// A comment.
    Comment,
    /// A string.
    Text,
    /// A number or another constant.
    Constant,
    /// A keyword.
    Keyword,
    /// The name of a function.
    Function,
    /// The name of a type, or of a tag.
    Type,
}

/// The pieces of a line, without its line break.
pub type Pieces = Vec<(Class, String)>;

struct Grammars {
    set: SyntaxSet,
    classes: Vec<(Scope, Class)>,
}

/// The beginnings of scopes, the more specific ones first.
const CLASSES: [(&str, Class); 17] = [
    ("comment", Class::Comment),
    ("string", Class::Text),
    ("constant.character.escape", Class::Constant),
    ("constant", Class::Constant),
    ("keyword.operator", Class::Plain),
    ("keyword", Class::Keyword),
    ("storage.type.function", Class::Keyword),
    ("storage", Class::Keyword),
    ("variable.language", Class::Keyword),
    ("entity.name.function", Class::Function),
    ("support.function", Class::Function),
    ("variable.function", Class::Function),
    ("entity.name.tag", Class::Type),
    ("entity.name", Class::Type),
    ("support.type", Class::Type),
    ("support.class", Class::Type),
    ("entity.other.inherited-class", Class::Type),
];

static GRAMMARS: LazyLock<Grammars> = LazyLock::new(|| {
    let scope = |(name, class): &(&str, Class)| Some((Scope::from_str(name).ok()?, *class));
    Grammars { set: SyntaxSet::load_defaults_newlines(), classes: CLASSES.iter().filter_map(scope).collect() }
});

/// Highlights a text in the language of a name such as `rust`, or of a file such as `src/main.rs`. Returns none if the language
/// is not known or the text is too large. Takes at most about a second, unless a grammar hangs in a line.
#[must_use]
pub fn code(language: &str, text: &str) -> Option<Vec<Pieces>> {
    let fits = text.len() <= MAX_TEXT && text.lines().nth(MAX_LINES).is_none();
    let syntax = syntax(language).filter(|_| fits)?;
    let until = Instant::now() + LIMIT;
    let mut state = ParseState::new(syntax);
    let mut stack = ScopeStack::new();
    let lines = text.lines().map(|line| {
        if line.len() > MAX_LINE || Instant::now() > until {
            return vec![(Class::Plain, line.to_owned())];
        }
        pieces(line, &mut state, &mut stack)
    });
    Some(lines.collect())
}

fn syntax(language: &str) -> Option<&'static SyntaxReference> {
    let set = &GRAMMARS.set;
    let name = language.rsplit(['/', '.']).next().unwrap_or(language).to_lowercase();
    // Grammars that are close enough to those that are missing.
    let name = match name.as_str() {
        "" => return None,
        "ts" | "tsx" | "typescript" | "jsx" | "mjs" | "cjs" => "js",
        "shell" | "console" | "zsh" => "sh",
        "jsonc" | "json5" => "json",
        "c++" | "hpp" => "cpp",
        "golang" => "go",
        "yml" => "yaml",
        "py3" | "python3" => "py",
        name => name,
    };
    let found = set.find_syntax_by_token(name)?;
    (found.name != "Plain Text").then_some(found)
}

fn pieces(line: &str, state: &mut ParseState, stack: &mut ScopeStack) -> Pieces {
    let with_break = format!("{line}\n");
    let Ok(changes) = state.parse_line(&with_break, &GRAMMARS.set) else {
        return vec![(Class::Plain, line.to_owned())];
    };
    let (mut pieces, mut from) = (Pieces::new(), 0);
    for (at, change) in changes {
        push(&mut pieces, class(stack), line.get(from..at.min(line.len())).unwrap_or_default());
        from = at;
        if stack.apply(&change).is_err() {
            *stack = ScopeStack::new();
        }
    }
    push(&mut pieces, class(stack), line.get(from..).unwrap_or_default());
    pieces
}

fn push(pieces: &mut Pieces, class: Class, text: &str) {
    match pieces.last_mut() {
        _ if text.is_empty() => {}
        Some((last, before)) if *last == class => before.push_str(text),
        _ => pieces.push((class, text.to_owned())),
    }
}

/// Returns the class of the innermost scope that has one.
fn class(stack: &ScopeStack) -> Class {
    let of_scope = |scope: &Scope| {
        let known = GRAMMARS.classes.iter().find(|(prefix, _)| prefix.is_prefix_of(*scope));
        known.map(|(_, class)| *class)
    };
    stack.scopes.iter().rev().find_map(of_scope).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(lines: &[Pieces], class: Class, text: &str) -> bool {
        lines.iter().flatten().any(|(of, piece)| *of == class && piece.contains(text))
    }

    #[test]
    fn code_is_classified_and_complete() {
        let text = "// why\nfn main() {\n    let x = \"s\" + 12;\n}\n";
        let lines = code("rust", text).unwrap();
        let joined: Vec<String> =
            lines.iter().map(|line| line.iter().map(|(_, text)| text.as_str()).collect()).collect();
        assert_eq!(joined, text.lines().collect::<Vec<_>>());
        for (class, text) in [
            (Class::Comment, "why"),
            (Class::Keyword, "fn"),
            (Class::Function, "main"),
            (Class::Text, "s"),
            (Class::Constant, "12"),
        ] {
            assert!(has(&lines, class, text), "{class:?} {text}: {lines:?}");
        }
    }

    #[test]
    fn language_is_named_or_told_by_the_file() {
        for name in ["rust", "src/main.rs", "ts", "TypeScript", "py", "a/b.yaml", "Makefile", "sh", "json"] {
            assert!(code(name, "x = 1").is_some(), "{name}");
        }
        for name in ["", "txt", "no-such-language"] {
            assert!(code(name, "x = 1").is_none(), "{name}");
        }
    }

    #[test]
    fn long_lines_and_texts_stay_plain() {
        let long = format!("let a;\n{}\nlet b;", "x".repeat(1 << 20));
        assert!(code("rust", &long).is_none());
        let line = format!("let a;\n{}\nlet b;", "let ".repeat(2000));
        let lines = code("rust", &line).unwrap();
        assert_eq!(lines[1].len(), 1);
        assert!(has(&lines[2..], Class::Keyword, "let"));
    }
}
