//! What goes on in a session, in words for a terminal.

use baton_protocol::Json;
use baton_protocol::event::ToolStart;
use baton_protocol::permission::PermissionRequest;

use crate::terminal::Question;

/// How much of a call is shown in its line.
const LONGEST: usize = 100;

/// A tool call, in a line. What does not fit is counted.
pub(crate) fn call(start: &ToolStart) -> String {
    let arguments = start.arguments.as_ref().map(|json| json.as_str()).unwrap_or_default();
    let value: serde_json::Value = serde_json::from_str(arguments).unwrap_or_default();
    let telling = ["command", "path", "pattern", "url", "query", "question"];
    let detail = telling.iter().find_map(|key| value.get(key)?.as_str()).unwrap_or(arguments);
    format!("{} {}", start.tool_name, shortened(detail, LONGEST))
}

/// The beginning of a text, and how many characters follow.
pub(crate) fn shortened(text: &str, longest: usize) -> String {
    let rest = text.chars().count().saturating_sub(longest);
    let begin: String = text.chars().take(longest).collect();
    if rest == 0 { begin } else { format!("{begin}… ({rest} more characters)") }
}

/// What somebody wants to be allowed, in full: a person approves what is shown, and nothing else.
pub(crate) fn wish(wants: &PermissionRequest) -> Question {
    match wants {
        PermissionRequest::Shell { full_command_text, intention, warning, .. } => {
            Question::allow("running", "command", full_command_text)
                .prose("the model says", stated(intention))
                .prose("warning", warning.as_deref().unwrap_or_default())
        }
        PermissionRequest::Write { file_name, diff, new_file_contents, .. } => {
            let question = Question::allow("changing", "file", file_name);
            match new_file_contents {
                _ if !is_cut(diff) => question.diff("change", diff),
                Some(contents) => {
                    question.diff("beginning of the change", diff).diff("the whole new file", contents)
                }
                None => question.diff("beginning of the change; it is too long to be shown as a whole", diff),
            }
        }
        PermissionRequest::Read { path, .. } => Question::allow("reading", "path", path),
        PermissionRequest::Url { url, .. } => Question::allow("fetching", "address", url),
        PermissionRequest::CustomTool { tool_name, tool_description, args, .. } => {
            Question::allow("calling", "tool", tool_name)
                .prose("it is described as", tool_description)
                .exact("arguments", &arguments(args.as_ref()))
        }
        PermissionRequest::Mcp { server_name, tool_name, tool_title, args, .. } => {
            Question::allow("calling", "tool", tool_name)
                .exact("of the MCP server", server_name)
                .prose("it calls itself", tool_title)
                .exact("arguments", &arguments(args.as_ref()))
        }
        PermissionRequest::Memory { fact, .. } => {
            Question::plain("allow remembering something?").prose("fact", fact.as_deref().unwrap_or_default())
        }
        PermissionRequest::Hook { tool_name, tool_args, hook_message, .. } => {
            Question::allow("calling", "tool", tool_name)
                .prose("a hook wants you to decide", hook_message.as_deref().unwrap_or_default())
                .exact("arguments", &arguments(tool_args.as_ref()))
        }
    }
}

/// The same, with what each grant would mean that can be given with the answer.
pub(crate) fn with_offers<'a>(question: Question, meanings: impl Iterator<Item = &'a str>) -> Question {
    let names = ["always means", "wider means"];
    names.into_iter().zip(meanings).fold(question, |question, (name, meaning)| question.prose(name, meaning))
}

/// How a permission request can be answered that offers so many grants.
pub(crate) fn permission_hint(offers: usize) -> &'static str {
    match offers {
        0 => "[y]es once, [n]o (and why):",
        1 => "[y]es, [n]o (and why), [a]lways in this session:",
        _ => "[y]es, [n]o (and why), [a]lways in this session, [w]ider:",
    }
}

/// Whether the server has cut a diff, as its last line says then.
fn is_cut(diff: &str) -> bool {
    diff.trim_end().lines().next_back().is_some_and(|last| last.starts_with("[The diff goes on for "))
}

/// What the model says that a command is for; the tool's own words for a command without a description say nothing.
fn stated(intention: &str) -> &str {
    if intention == "Run a command" { "" } else { intention }
}

fn arguments(json: Option<&Json>) -> String {
    json.map(|json| json.as_str().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortened_text_says_what_is_missing() {
        assert_eq!(shortened("short", 5), "short");
        assert_eq!(shortened("longer", 4), "long… (2 more characters)");
    }

    #[test]
    fn a_change_that_was_cut_says_so_or_is_shown_as_a_whole() {
        let write = |diff: &str, contents: Option<&str>| {
            let wants = serde_json::json!({
                "kind": "write", "fileName": "/w/a", "diff": diff, "intention": "", "newFileContents": contents,
            });
            wish(&serde_json::from_value(wants).unwrap()).lines(None).join("\n")
        };
        let cut = "+a\n[The diff goes on for 5 more bytes.]\n";
        assert!(write(cut, Some("a\nend")).ends_with("the whole new file (2 lines):\n  │ a\n  │ end"));
        assert!(write(cut, None).contains("too long to be shown as a whole"));
        assert_eq!(
            write("+a \n", Some("a ")),
            "allow changing `/w/a`?\n  change (1 line, 1 character shown as an escape):\n  │ +a\\x20"
        );
    }

    #[test]
    fn arguments_and_descriptions_of_tools_are_part_of_the_question() {
        let wants: PermissionRequest = serde_json::from_value(serde_json::json!({
            "kind": "custom-tool", "toolName": "pay\u{1b}[2K", "toolDescription": "pays\nmoney",
            "args": {"amount": 100, "to": "x\u{202e}"},
        }))
        .unwrap();
        let shown = wish(&wants).lines(None);
        assert_eq!(
            shown,
            [
                "allow calling this tool? (1 line, 1 character shown as an escape)",
                "  │ pay\\x1b[2K",
                "  it is described as (2 lines):",
                "  │ pays",
                "  │ money",
                "  arguments (1 line, 1 character shown as an escape):",
                r#"  │ {"amount":100,"to":"x\u{202e}"}"#,
            ]
        );
    }
}
