//! The texts of the demo model.

use super::intent::Intent;
use crate::failure::tidy;

/// Maximum number of characters to quote from a tool's result.
const LONGEST_REPORT: usize = 2000;

/// Introduces the model, quotes the prompt and suggests what to try.
pub(super) fn introduction(prompt: &str, message_count: usize) -> String {
    let quoted = match prompt {
        "" => "I received no text.".to_owned(),
        prompt => format!("You said: “{}”.", tidy(prompt, 80)),
    };
    let messages =
        if message_count == 1 { "1 message".to_owned() } else { format!("{message_count} messages") };
    format!(
        "I am Baton's built-in demo model: no AI, just a few rules, here to show that the server works \
         without any key or network. {quoted} Our conversation has {messages} so far, and survives a restart \
         of the server.\n\n\
         I can use real tools when you ask in plain words. Try:\n\
         - run `echo hello`\n\
         - create file hello.txt with content Hello, Baton\n\
         - show file hello.txt\n\
         - list files\n\n\
         To talk to a real model, start Baton with OPENAI_API_KEY or ANTHROPIC_API_KEY set (OPENAI_BASE_URL and \
         OPENAI_MODEL choose another provider or model), or give the session a provider of its own."
    )
}

/// Announces the call of a tool that the user named.
pub(super) fn call(tool: &str) -> String {
    format!("I call the tool `{tool}`.")
}

/// Announces a tool call.
pub(super) fn announcement(intent: &Intent) -> String {
    match intent {
        Intent::Run { command } => format!("I run the command `{}`.", tidy(command, 80)),
        Intent::Create { path, .. } => format!("I create the file `{path}`."),
        Intent::View { path } => format!("I read the file `{path}`."),
        Intent::List => "I list the files here.".to_owned(),
        Intent::Ask { .. } => "I have a question for you.".to_owned(),
    }
}

/// Explains that no tool is available.
pub(super) fn no_tool(intent: &Intent, tools: &[&str]) -> String {
    format!(
        "I understood what you want, but this session offers me no tool for it. I would have needed one \
         named {}. (I am Baton's built-in demo model. What I wanted to say was: “{}”)",
        tools.join(" or "),
        announcement(intent)
    )
}

/// Quotes the results of tools.
pub(super) fn report(results: &[(String, &str)]) -> String {
    let reports: Vec<String> = results.iter().map(|(tool, content)| report_one(tool, content)).collect();
    reports.join("\n\n")
}

fn report_one(tool: &str, content: &str) -> String {
    if content.trim().is_empty() {
        return format!("The tool `{tool}` returned nothing.");
    }
    // A fence that the content does not close.
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
