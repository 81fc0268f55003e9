//! Items of codex: messages, thoughts, commands, file changes. `exec` and `app-server` have the same items in different
//! spellings (`command_execution` and `commandExecution`), and new versions add kinds.

use baton_protocol::tool::{ResultType, ToolResult};
use serde_json::{Value, json};

use crate::adapter::{Steps, tool_result};
use crate::fragments::Thoughts;
use crate::json::{block_text, list, text};

/// Translates the items of one turn into reports.
#[derive(Debug, Default)]
pub(super) struct Items {
    thoughts: Thoughts,
    /// Whether a message was marked as the final answer.
    has_final_answer: bool,
    /// Whether there was a message.
    pub(super) has_message: bool,
}

/// An item in either spelling.
struct Item<'a>(&'a Value);

impl<'a> Item<'a> {
    /// Returns a field by its name in snake case.
    fn field(&self, name: &str) -> &'a Value {
        let camel = || {
            let mut upper = false;
            let camel = name.chars().filter_map(|c| {
                let this = if upper { c.to_ascii_uppercase() } else { c };
                upper = c == '_';
                (c != '_').then_some(this)
            });
            self.0.get(camel.collect::<String>())
        };
        self.0.get(name).or_else(camel).unwrap_or(&Value::Null)
    }

    fn text(&self, name: &str) -> &'a str {
        self.field(name).as_str().unwrap_or_default()
    }

    fn kind(&self) -> String {
        let mut snake = String::new();
        for c in self.text("type").chars() {
            if c.is_ascii_uppercase() {
                snake.push('_');
            }
            snake.push(c.to_ascii_lowercase());
        }
        snake
    }

    /// Returns the tool and the arguments, if the item is a call.
    fn call(&self) -> Option<(String, Value)> {
        let named = |name: &str, arguments: Value| Some((name.to_owned(), arguments));
        match self.kind().as_str() {
            "command_execution" => named("bash", json!({"command": script(self.text("command"))})),
            "file_change" => named("edit", json!({"changes": self.field("changes")})),
            "mcp_tool_call" => Some((
                format!("{}.{}", self.text("server"), self.text("tool")),
                self.field("arguments").clone(),
            )),
            "dynamic_tool_call" => named(self.text("tool"), self.field("arguments").clone()),
            "collab_tool_call" | "collab_agent_tool_call" => {
                named(self.text("tool"), json!({"prompt": self.field("prompt")}))
            }
            "web_search" => named("web_search", json!({"query": self.field("query")})),
            "image_view" => named("view", json!({"path": self.field("path")})),
            _ => None,
        }
    }

    fn result(&self) -> ToolResult {
        let (output, is_ok) = match self.kind().as_str() {
            "command_execution" => {
                let exit = self.field("exit_code").as_i64();
                (self.text("aggregated_output").to_owned(), exit.is_none_or(|code| code == 0))
            }
            "file_change" => {
                let changed = list(self.field("changes"), "").filter_map(|change| text(change, "/path"));
                (changed.collect::<Vec<_>>().join("\n"), true)
            }
            "mcp_tool_call" => match text(self.field("error"), "/message") {
                Some(error) => (error.to_owned(), false),
                None => (block_text(&self.field("result")["content"]), true),
            },
            "dynamic_tool_call" => {
                let output = block_text(self.field("content_items"));
                (output, self.field("success").as_bool() != Some(false))
            }
            "collab_tool_call" | "collab_agent_tool_call" => (agents(self.field("agents_states")), true),
            _ => (String::new(), true),
        };
        let result_type = match self.text("status") {
            // Codex says nothing else about it.
            "declined" if output.is_empty() => return tool_result("rejected".to_owned(), ResultType::Denied),
            "declined" => ResultType::Denied,
            "failed" | "interrupted" => ResultType::Failure,
            _ if is_ok => ResultType::Success,
            _ => ResultType::Failure,
        };
        tool_result(output, result_type)
    }
}

impl Items {
    /// Handles the start of an item. `id` is unique within the conversation.
    pub(super) fn started(&self, id: &str, item: &Value, steps: &mut Steps) {
        if let Some((tool, arguments)) = Item(item).call() {
            steps.call_started(id, &tool, arguments);
        }
    }

    /// Handles the end of an item.
    pub(super) fn completed(&mut self, id: &str, item: &Value, steps: &mut Steps) {
        let item = Item(item);
        if let Some((tool, arguments)) = item.call() {
            // Some items are announced only at their end.
            steps.call_started(id, &tool, arguments);
            return steps.call_finished(id, item.result());
        }
        match item.kind().as_str() {
            "agent_message" => self.message(item.text("text"), item.text("phase"), steps),
            "reasoning" => self.thought(&item),
            "error" => steps.warn(item.text("message")),
            "todo_list" => steps.note(todo(item.field("items"))),
            "plan" => steps.note(item.text("text")),
            "context_compaction" => steps.note("The conversation was summarised to make room."),
            // Unknown kinds are skipped.
            _ => {}
        }
    }

    fn message(&mut self, text: &str, phase: &str, steps: &mut Steps) {
        // The last message of a run is its answer, so a message after the final answer becomes a note.
        if self.has_final_answer && phase != "final_answer" {
            return steps.note(text);
        }
        self.has_final_answer |= phase == "final_answer";
        self.has_message = true;
        self.thoughts.message(text, steps);
    }

    fn thought(&mut self, item: &Item<'_>) {
        let summary = list(item.field("summary"), "").chain(list(item.field("content"), ""));
        let texts = summary.filter_map(|part| part.as_str().or_else(|| text(part, "/text")));
        self.thoughts.extend(texts.chain(Some(item.text("text"))).filter(|text| !text.is_empty()));
    }
}

/// Returns the script of `/bin/bash -lc 'SCRIPT'`, which is how codex runs commands.
pub(super) fn script(command: &str) -> String {
    let shell = ["/bin/bash -lc ", "bash -lc ", "/usr/bin/bash -lc "];
    let quoted = shell.iter().find_map(|shell| command.strip_prefix(shell));
    quoted.and_then(unquoted).unwrap_or_else(|| command.to_owned())
}

/// Removes the quotes of a shell word. Returns none if there is more than one word.
fn unquoted(word: &str) -> Option<String> {
    let mut plain = String::new();
    let mut characters = word.chars();
    let mut quote = None;
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('\''), c) => plain.push(c),
            (None, '\'' | '"') => quote = Some(c),
            (None, '\\') => plain.push(characters.next()?),
            (Some(_), '\\') => match characters.next()? {
                escaped @ ('"' | '\\' | '$' | '`') => plain.push(escaped),
                other => plain.extend(['\\', other]),
            },
            (None, c) if c.is_whitespace() => return None,
            (_, c) => plain.push(c),
        }
    }
    quote.is_none().then_some(plain)
}

/// Renders a list of things to do.
pub(super) fn todo(items: &Value) -> String {
    let line = |item: &Value| {
        let done = item["completed"] == true || item["status"] == "completed";
        let what = text(item, "/text").or_else(|| text(item, "/step")).unwrap_or_default();
        format!("[{}] {what}", if done { 'x' } else { ' ' })
    };
    let lines: Vec<String> = list(items, "").map(line).collect();
    format!("Plan:\n{}", lines.join("\n"))
}

/// Renders the states of sub-agents.
fn agents(states: &Value) -> String {
    let line = |(agent, state): (&String, &Value)| {
        let status = text(state, "/status").unwrap_or("unknown");
        format!("{agent}: {status} {}", text(state, "/message").unwrap_or_default()).trim_end().to_owned()
    };
    states.as_object().into_iter().flatten().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_is_extracted_from_the_shell_command() {
        for (command, shown) in [
            ("/bin/bash -lc ls", "ls"),
            ("/bin/bash -lc 'touch a && echo ok'", "touch a && echo ok"),
            (r#"/bin/bash -lc "echo 'hi' \"you\" \$HOME""#, r#"echo 'hi' "you" $HOME"#),
            (r"/bin/bash -lc 'it'\''s'", "it's"),
            ("/bin/bash -lc 'a' 'b'", "/bin/bash -lc 'a' 'b'"),
            ("/bin/bash -lc 'open", "/bin/bash -lc 'open"),
            ("git status", "git status"),
            ("", ""),
        ] {
            assert_eq!(script(command), shown);
        }
    }

    #[test]
    fn both_spellings_are_read_alike() {
        let snake =
            json!({"type": "command_execution", "command": "x", "aggregated_output": "o", "exit_code": 3});
        let camel =
            json!({"type": "commandExecution", "command": "x", "aggregatedOutput": "o", "exitCode": 3});
        for item in [&snake, &camel] {
            assert_eq!(Item(item).call(), Some(("bash".into(), json!({"command": "x"}))));
            assert_eq!(Item(item).result(), ToolResult::failure("o"));
        }
    }

    #[test]
    fn declined_command_says_so() {
        let declined = json!({"type": "commandExecution", "command": "x", "status": "declined"});
        let expected = tool_result("rejected".to_owned(), ResultType::Denied);
        assert_eq!(Item(&declined).result(), expected);
    }
}
