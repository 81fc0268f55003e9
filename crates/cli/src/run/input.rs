//! The prompt: arguments and piped input.

use crate::args::RunArgs;

use crate::terminal;

/// The prompt of the user.
pub(super) enum GivenPrompt {
    /// This prompt.
    Text(String),
    /// Nothing: a session is continued as it is.
    Absent,
    /// Not a prompt. The user was told why.
    Invalid,
}

/// Joins the arguments and piped standard input to a prompt. `-` says where the input goes; without it, the input follows the
/// arguments.
pub(super) fn prompt(args: &RunArgs) -> anyhow::Result<GivenPrompt> {
    let is_placed = args.prompt.iter().any(|word| word == "-");
    let mut input = terminal::piped_input()?;
    if is_placed && input.is_none() {
        terminal::error("`-` stands for piped input, but standard input is a terminal");
        return Ok(GivenPrompt::Invalid);
    }
    let prompt = joined(&args.prompt, input.take().unwrap_or_default(), is_placed);
    let continues = args.continue_last || args.session.is_some();
    match prompt.trim().is_empty() {
        false => Ok(GivenPrompt::Text(prompt)),
        true if continues && args.prompt.is_empty() => Ok(GivenPrompt::Absent),
        true => {
            terminal::error("the prompt is empty; write it as an argument, or pipe it in");
            Ok(GivenPrompt::Invalid)
        }
    }
}

fn joined(words: &[String], input: String, is_placed: bool) -> String {
    let words = words.iter().map(|word| if word == "-" { input.as_str() } else { word.as_str() });
    let words = words.collect::<Vec<_>>().join(" ");
    match is_placed || input.trim().is_empty() {
        true => words,
        false if words.trim().is_empty() => input,
        false => format!("{words}\n\n{input}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn piped_input_follows_the_words_or_takes_its_place() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let input = || "diff\n".to_owned();
        assert_eq!(joined(&words("review this"), input(), false), "review this\n\ndiff\n");
        assert_eq!(joined(&words("review - briefly"), input(), true), "review diff\n briefly");
        assert_eq!(joined(&[], input(), false), "diff\n");
        assert_eq!(joined(&words("hello"), String::new(), false), "hello");
    }
}
