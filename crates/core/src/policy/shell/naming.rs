//! Decides whether the argument of a deny rule names a command of a shell line.
//!
//! Deny rules compare base names, without regard to case, quotes, paths and wrappers. If a command could run the named
//! program without showing it, the match is [`Match::Unknown`], and a user is asked.

use super::catalogue::{Kind, is_listed};
use super::word::Command;
use super::{Match, WIDE, trim};

pub(super) fn of_commands(text: &str, commands: &[Command<'_>], argument: &str) -> Match {
    let Some(name) = Name::of(argument) else { return Match::Unknown };
    if trim(argument) == text || commands.iter().any(|command| name.is_of(command)) {
        Match::Yes
    } else if commands.iter().any(|command| may_hide(command) || name.is_program_of(command)) {
        Match::Unknown
    } else {
        Match::No
    }
}

/// Whether a command may run a program that its words do not show, or help to run one. The configuration of a repository
/// names programs for git, and a program that is copied or linked has another name afterwards.
fn may_hide(command: &Command<'_>) -> bool {
    command.kind.can_run_others() || command.kind == Kind::Changer || base(command.program()) == "git"
}

/// Matches the words in command position, after operators, brackets and keywords.
pub(super) fn of_opaque(text: &str, argument: &str) -> Match {
    let Some(name) = Name::of(argument) else { return Match::Unknown };
    let visible = parts(text).iter().any(|part| {
        let words = part.split_whitespace().map(|word| word.trim_matches(['"', '\'', '\\']));
        name.begins(words.skip_while(|word| leads(word)))
    });
    if visible || trim(argument) == text { Match::Yes } else { Match::Unknown }
}

/// Splits a line at operators, brackets and newlines. Within quotes only substitutions start commands: a message that
/// mentions `; rm` does not run it: it needs approval, and is not denied.
fn parts(text: &str) -> Vec<String> {
    let (mut parts, mut quote, mut before) = (vec![String::new()], None, ' ');
    for c in text.chars() {
        let separates = match quote {
            None => ";|&(){}`\n!".contains(c),
            Some('"') => c == '`' || (c == '(' && before == '$') || c == ')',
            Some(_) => false,
        };
        match (quote, c) {
            (None, '\'' | '"') if before != '\\' => quote = Some(c),
            (Some(open), c) if c == open && before != '\\' => quote = None,
            _ => {}
        }
        match parts.last_mut() {
            Some(part) if !separates => part.push(c),
            _ => parts.push(String::new()),
        }
        before = c;
    }
    parts
}

/// Whether a word can precede the name of a command.
fn leads(word: &str) -> bool {
    const LEADERS: &str = "if then else elif do while until time command builtin exec coproc";
    is_listed(LEADERS, word) || word.is_empty() || (word.contains('=') && !word.starts_with('-'))
}

/// The words of a rule's argument.
struct Name<'a>(Vec<&'a str>);

impl<'a> Name<'a> {
    /// None for an argument without words.
    fn of(argument: &'a str) -> Option<Self> {
        let argument = trim(argument);
        let argument = argument.strip_suffix(WIDE).or(argument.strip_suffix(" *")).unwrap_or(argument);
        let words: Vec<&str> = argument.split_whitespace().collect();
        (!words.is_empty()).then_some(Self(words))
    }

    /// Whether it names a command.
    fn is_of(&self, command: &Command<'_>) -> bool {
        let wraps = command.kind == Kind::Wrapper || command.kind == Kind::ShellState || command.assigns();
        // The program that a wrapper runs follows its options, whose values look like programs.
        let starts = if wraps { command.words.len() } else { 1 };
        (0..starts).any(|start| self.begins(command.words[start..].iter().map(|word| &*word.text)))
    }

    /// Whether it is the same program with other arguments. Options can be written in many ways.
    fn is_program_of(&self, command: &Command<'_>) -> bool {
        let program =
            self.0.first().is_some_and(|program| base(command.program()).eq_ignore_ascii_case(base(program)));
        program && self.0.len() > 1
    }

    /// Whether words begin with it.
    fn begins<'w>(&self, mut words: impl Iterator<Item = &'w str>) -> bool {
        let Some((program, rest)) = self.0.split_first() else { return false };
        words.next().is_some_and(|word| base(word).eq_ignore_ascii_case(base(program)))
            && rest.iter().all(|wanted| words.next().is_some_and(|word| word.eq_ignore_ascii_case(wanted)))
    }
}

/// Returns the base name of a program.
fn base(program: &str) -> &str {
    program.rsplit('/').find(|part| !part.is_empty()).unwrap_or(program)
}
