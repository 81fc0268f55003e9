//! What the demo model says.

use super::wish::Wish;
use crate::failure::tidy;

/// How much of a tool's result is repeated.
const LONGEST_REPORT: usize = 2000;

/// Who it is, what it heard, and what to try.
pub(super) fn introduction(prompt: &str, remembered: usize) -> String {
    let heard = match prompt {
        "" => "I received no text.".to_owned(),
        prompt => format!("You said: “{}”.", tidy(prompt, 80)),
    };
    let messages = if remembered == 1 { "1 message".to_owned() } else { format!("{remembered} messages") };
    format!(
        "I am Baton's built-in demo model: no AI, just a few rules, here to show that the server works \
         without any key or network. {heard} Our conversation has {messages} so far, and survives a restart \
         of the server.\n\n\
         I can use real tools when you ask in plain words. Try:\n\
         - run `echo hello`\n\
         - create file hello.txt with content Hello, Baton\n\
         - show file hello.txt\n\
         - list files\n\
         - ask me what to do next\n\n\
         To talk to a real model, start Baton with OPENAI_API_KEY set (OPENAI_BASE_URL and OPENAI_MODEL \
         choose another provider or model), or give the session a provider of its own."
    )
}

/// What it is about to do.
pub(super) fn announcement(wish: &Wish) -> String {
    match wish {
        Wish::Run { command } => format!("I run the command `{}`.", tidy(command, 80)),
        Wish::Create { path, .. } => format!("I create the file `{path}`."),
        Wish::View { path } => format!("I read the file `{path}`."),
        Wish::List => "I list the files here.".to_owned(),
        Wish::Ask { .. } => "I have a question for you.".to_owned(),
    }
}

/// Why it cannot.
pub(super) fn no_tool(wish: &Wish, tools: &[&str]) -> String {
    format!(
        "I understood what you want, but this session offers me no tool for it. I would have needed one \
         named {}. (I am Baton's built-in demo model. What I wanted to say was: “{}”)",
        tools.join(" or "),
        announcement(wish)
    )
}

/// What the tools returned, word for word.
pub(super) fn report(results: &[(String, &str)]) -> String {
    let reports: Vec<String> = results.iter().map(|(tool, content)| report_one(tool, content)).collect();
    reports.join("\n\n")
}

fn report_one(tool: &str, content: &str) -> String {
    if content.trim().is_empty() {
        return format!("The tool `{tool}` returned nothing.");
    }
    // Long enough not to be closed by what is inside.
    let fence = if content.contains("```") { "~~~~" } else { "```" };
    match content.char_indices().nth(LONGEST_REPORT) {
        Some((end, _)) => format!(
            "The tool `{tool}` returned the following, of which I repeat the first {LONGEST_REPORT} \
             characters:\n\n{fence}\n{}\n{fence}",
            &content[..end]
        ),
        None => format!("The tool `{tool}` returned:\n\n{fence}\n{}\n{fence}", content.trim_end()),
    }
}
