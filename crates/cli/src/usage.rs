//! Help, the version, and errors in the flags.

use std::io::Read;
use std::process::ExitCode;

use baton_markup::visible::Untrusted;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue};

use crate::args::Cli;

/// Prints help, the version, or an error in the flags, and returns the exit code.
pub(crate) fn print_usage(mut error: clap::Error) -> ExitCode {
    suggest(&mut error);
    escape(&mut error);
    let _ = error.print();
    if error.exit_code() != 0 && std::env::args_os().any(|arg| arg == "--stdio") {
        wait_for_caller();
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Suggests a command that has the letters of the unknown word in another order: `run` for `rnu`.
fn suggest(error: &mut clap::Error) {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return };
    let letters = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    let (command, wanted) = (Cli::command(), letters(word));
    let same = command.get_subcommands().map(clap::Command::get_name).find(|name| letters(name) == wanted);
    if let Some(name) = same {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![name.to_owned()]));
    }
}

/// Escapes the words that an error quotes. A pattern of the shell can make the name of any file a word.
fn escape(error: &mut clap::Error) {
    let quoted = [
        ContextKind::InvalidArg,
        ContextKind::InvalidValue,
        ContextKind::InvalidSubcommand,
        ContextKind::TrailingArg,
    ];
    for kind in quoted {
        let Some(ContextValue::String(word)) = error.get(kind) else { continue };
        let escaped = Untrusted(word).to_string();
        if escaped != *word {
            error.insert(kind, ContextValue::String(escaped));
            // Repeats the word.
            error.insert(ContextKind::Suggested, ContextValue::None);
        }
    }
}

/// Waits until the SDK has written, for at most a second. An SDK writes to the program before it checks whether it still
/// runs; if the program were gone by then, the SDK would report a broken pipe instead of the message.
fn wait_for_caller() {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send(std::io::stdin().read(&mut [0]));
    });
    let _ = receiver.recv_timeout(std::time::Duration::from_secs(1));
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn errors_quote_words_without_control_characters() {
        let lines: [&[&str]; 5] = [
            &["\x1b[2J"],
            &["run", "--x\x1b[2J"],
            &["link", "--person", "\x1b[2J"],
            &["man", "a", "\x1b[2J"],
            &["completions", "\u{202e}"],
        ];
        for words in lines {
            let mut error = Cli::try_parse_from([&["baton"], words].concat()).unwrap_err();
            escape(&mut error);
            let shown = error.render().to_string();
            assert!(!shown.contains(['\x1b', '\u{202e}']), "{shown:?}");
            assert!(shown.contains("\\x1b") || shown.contains("\\u{202e}"), "{shown:?}");
        }
    }

    #[test]
    fn help_of_run_names_every_engine() {
        let help = Cli::command().find_subcommand_mut("run").unwrap().render_help().to_string();
        let options = baton_runtime::Options::new("1", "/nonexistent", "/");
        for name in baton_runtime::engine_names(&options) {
            assert!(help.contains(name), "{name} is not in {help}");
        }
    }

    #[test]
    fn command_with_swapped_letters_is_suggested() {
        for (wrong, right) in [("rnu", "'run'"), ("srve", "'serve'"), ("sotp", "'stop'")] {
            let mut error = Cli::try_parse_from(["baton", wrong]).unwrap_err();
            suggest(&mut error);
            assert!(error.to_string().contains(right), "{error}");
        }
    }
}
