//! Tool calls and permission requests as text for a terminal.

use baton_protocol::Json;
use baton_protocol::event::ToolStart;
use baton_protocol::permission::PermissionRequest;
use serde_json::Value;

use crate::client::TRUST_TOOL;
use crate::terminal::Question;

/// Limit of characters for the arguments of a tool call.
const CALL_LIMIT: usize = 100;

/// Beginning of the intention of a request to type into a running command, before the command.
const TYPING: &str = "Type into the running command: ";

/// Describes a tool call in one line.
pub(crate) fn call(start: &ToolStart) -> String {
    let arguments = start.arguments.as_ref().map(|json| json.as_str()).unwrap_or_default();
    let value: serde_json::Value = baton_json::from_str(arguments).unwrap_or_default();
    if matches!(&*start.tool_name, "trust" | TRUST_TOOL)
        && let Some(question) = trust_question(&value)
    {
        return question;
    }
    let main_keys = ["command", "path", "pattern", "url", "query", "question"];
    let detail = main_keys.iter().find_map(|key| value.get(key)?.as_str()).unwrap_or(arguments);
    format!("{} {}", start.tool_name, shortened(detail, CALL_LIMIT))
}

/// Describes the question whether to trust a directory.
fn trust_question(arguments: &Value) -> Option<String> {
    let directory = arguments["directory"].as_str()?;
    let files = arguments["files"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let files = files.collect::<Vec<_>>().join(", ");
    let files = if files.is_empty() { files } else { format!(" ({files})") };
    Some(shortened(&format!("trust {directory}{files}"), CALL_LIMIT))
}

/// Cuts a text, and says how many characters are left out.
pub(crate) fn shortened(text: &str, limit: usize) -> String {
    let rest = text.chars().count().saturating_sub(limit);
    let begin: String = text.chars().take(limit).collect();
    if rest == 0 { begin } else { format!("{begin}… ({rest} more characters)") }
}

/// Returns the question for a permission request, in full: the user approves what is shown, and nothing else.
pub(crate) fn permission(wants: &PermissionRequest) -> Question {
    match wants {
        // Not a command of this machine: what it does depends on the program that reads it.
        PermissionRequest::Shell { full_command_text, intention, warning, input_to: Some(shell), .. } => {
            Question::plain("allow typing into a running command?")
                .exact("running command", intention.strip_prefix(TYPING).unwrap_or(shell))
                .exact("text", full_command_text)
                .prose("warning", warning.as_deref().unwrap_or_default())
                .prose("sandbox", &wants.sandbox_note().unwrap_or_default())
        }
        PermissionRequest::Shell { full_command_text, intention, warning, .. } => {
            Question::allow("running", "command", full_command_text)
                .prose("the model says", stated(intention))
                .prose("warning", warning.as_deref().unwrap_or_default())
                .prose("sandbox", &wants.sandbox_note().unwrap_or_default())
        }
        PermissionRequest::Write { file_name, diff, new_file_contents, intention, .. } => {
            let question = Question::allow("changing", "file", file_name).prose("note", remark(intention));
            match new_file_contents {
                _ if !is_cut(diff) => question.diff("change", diff),
                Some(contents) => {
                    question.diff("beginning of the change", diff).diff("the whole new file", contents)
                }
                None => question.diff("beginning of the change (too long to show in full)", diff),
            }
        }
        PermissionRequest::Read { path, .. } => Question::allow("reading", "path", path),
        PermissionRequest::Url { url, .. } => Question::allow("fetching", "address", url),
        PermissionRequest::CustomTool { tool_name, tool_description, args, .. } => {
            Question::allow("calling", "tool", tool_name)
                .prose("description", tool_description)
                .exact("arguments", &arguments(args.as_ref()))
        }
        PermissionRequest::Mcp { server_name, tool_name, tool_title, args, read_only, .. } => {
            let question = Question::allow("calling", "tool", tool_name)
                .exact("MCP server", server_name)
                .prose("title", tool_title)
                .exact("arguments", &arguments(args.as_ref()));
            if *read_only { question.prose("the server says", "it changes nothing") } else { question }
        }
        PermissionRequest::Memory { fact, .. } => {
            Question::plain("allow storing a memory?").prose("fact", fact.as_deref().unwrap_or_default())
        }
        PermissionRequest::Hook { tool_name, hook_message: Some(message), .. } if tool_name == "trust" => {
            Question::plain("trust the files of this workspace?").exact("question", message)
        }
        PermissionRequest::Hook { tool_name, tool_args, hook_message, .. } => {
            Question::allow("calling", "tool", tool_name)
                .prose("message of the hook", hook_message.as_deref().unwrap_or_default())
                .exact("arguments", &arguments(tool_args.as_ref()))
        }
    }
}

/// Adds what the offered grants mean.
pub(crate) fn with_offers<'a>(question: Question, meanings: impl Iterator<Item = &'a str>) -> Question {
    let names = ["always means", "wider means"];
    names.into_iter().zip(meanings).fold(question, |question, (name, meaning)| question.prose(name, meaning))
}

/// Returns the possible answers to a permission request with this many offered grants.
pub(crate) fn permission_hint(offers: usize) -> &'static str {
    match offers {
        0 => "[y]es once, [n]o (and why):",
        1 => "[y]es, [n]o (and why), [a]lways in this session:",
        _ => "[y]es, [n]o (and why), [a]lways in this session, [w]ider:",
    }
}

/// Whether the server has cut a diff; its last line says so.
fn is_cut(diff: &str) -> bool {
    diff.trim_end().lines().next_back().is_some_and(|last| last.starts_with("[The diff goes on for "))
}

/// Returns what a request to change a file says besides its diff. The tools' default texts carry no information.
fn remark(intention: &str) -> &str {
    if matches!(intention, "Create file" | "Edit file") { "" } else { intention }
}

/// Returns the purpose that the model states for a command. The tool's default text carries no information and is left
/// out.
fn stated(intention: &str) -> &str {
    if intention == "Run a command" { "" } else { intention }
}

fn arguments(json: Option<&Json>) -> String {
    json.map(|json| json.as_str().to_owned()).unwrap_or_default()
}

/// Describes the MCP servers that a turn has to do without.
pub(crate) fn unavailable_servers(loaded: &Json) -> Vec<String> {
    let loaded: Value = loaded.parse().unwrap_or_default();
    let text = |server: &Value, name: &str| server[name].as_str().unwrap_or_default().to_owned();
    let line = |server: &Value| match server["status"].as_str() {
        Some("failed") => Some(format!("! MCP server {}: {}", text(server, "name"), text(server, "error"))),
        Some("needs-auth") => Some(format!("! MCP server {}: it requires a login", text(server, "name"))),
        _ => None,
    };
    loaded["servers"].as_array().into_iter().flatten().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_are_missing_are_described() {
        let loaded = Json::from(serde_json::json!({ "servers": [
            { "name": "a", "status": "connected" },
            { "name": "b", "status": "failed", "error": "no such program" },
            { "name": "c", "status": "needs-auth" },
            { "name": "d", "status": "disabled" },
        ]}));
        let expected = ["! MCP server b: no such program", "! MCP server c: it requires a login"];
        assert_eq!(unavailable_servers(&loaded), expected);
    }

    #[test]
    fn question_of_trust_is_told_in_words() {
        let call_of = |arguments: serde_json::Value| {
            let start = serde_json::json!({ "toolCallId": "c", "toolName": "trust", "arguments": arguments });
            call(&baton_json::from_value(&start).unwrap())
        };
        let shown = call_of(serde_json::json!({ "directory": "/w", "files": [".codex", ".env"] }));
        assert_eq!(shown, "trust /w (.codex, .env)");
        assert_eq!(call_of(serde_json::json!({ "path": "/w" })), "trust /w", "a tool of that name");
    }

    #[test]
    fn shortened_text_counts_what_is_left_out() {
        assert_eq!(shortened("short", 5), "short");
        assert_eq!(shortened("longer", 4), "long… (2 more characters)");
    }

    #[test]
    fn cut_diff_is_marked_or_replaced_by_the_whole_file() {
        let write = |diff: &str, contents: Option<&str>| {
            let wants = serde_json::json!({
                "kind": "write", "fileName": "/w/a", "diff": diff, "intention": "", "newFileContents": contents,
            });
            permission(&baton_json::from_value(&wants).unwrap()).lines(None).join("\n")
        };
        let exists = serde_json::json!({
            "kind": "write", "fileName": "/w/a", "diff": "+a", "intention": "Create file: one exists",
        });
        let shown = permission(&baton_json::from_value(&exists).unwrap()).lines(None).join("\n");
        assert!(shown.contains("  │ Create file: one exists"), "{shown}");
        let cut = "+a\n[The diff goes on for 5 more bytes.]\n";
        assert!(write(cut, Some("a\nend")).ends_with("the whole new file (2 lines):\n  │ a\n  │ end"));
        assert!(write(cut, None).contains("too long to show in full"));
        assert_eq!(
            write("+a \n", Some("a ")),
            "allow changing `/w/a`?\n  change (1 line, 1 character shown as an escape):\n  │ +a\\x20"
        );
    }

    #[test]
    fn typing_into_a_running_command_is_not_asked_as_running_one() {
        let ask = |intention: &str| {
            let wants = serde_json::json!({
                "kind": "shell", "fullCommandText": "make clean{enter}", "intention": intention, "inputTo": "0",
            });
            permission(&baton_json::from_value(&wants).unwrap()).lines(None).join("\n")
        };
        let headline = "allow typing into a running command?\n  running command:\n  │ ";
        let text = "\n  text:\n  │ make clean{enter}";
        assert_eq!(ask(&format!("{TYPING}ssh prod")), format!("{headline}ssh prod{text}"));
        assert_eq!(ask(""), format!("{headline}0{text}"));
    }

    #[test]
    fn question_includes_arguments_and_description_of_a_tool() {
        let wants: PermissionRequest = baton_json::from_value(&serde_json::json!({
            "kind": "custom-tool", "toolName": "pay\u{1b}[2K", "toolDescription": "pays\nmoney",
            "args": {"amount": 100, "to": "x\u{202e}"},
        }))
        .unwrap();
        let shown = permission(&wants).lines(None);
        assert_eq!(
            shown,
            [
                "allow calling this tool? (1 line, 1 character shown as an escape)",
                "  │ pay\\x1b[2K",
                "  description (2 lines):",
                "  │ pays",
                "  │ money",
                "  arguments (1 line, 1 character shown as an escape):",
                r#"  │ {"amount":100,"to":"x\u{202e}"}"#,
            ]
        );
    }
}
