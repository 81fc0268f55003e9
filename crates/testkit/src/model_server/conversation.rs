//! Parses the conversation in a request of any API.

use serde_json::{Value, json};

/// The conversation so far.
pub(super) struct Conversation {
    pub(super) user_messages: usize,
    /// The last user message.
    pub(super) prompt: String,
    /// Tool results since then.
    pub(super) results: Vec<String>,
    shell: Option<Shell>,
    /// Names of all tools.
    tools: Vec<String>,
}

/// A tool that runs commands, and the form of its arguments.
struct Shell {
    name: String,
    argument: &'static str,
    wants_list: bool,
}

impl Conversation {
    pub(super) fn read(body: &Value) -> Self {
        let mut conversation = Self {
            user_messages: 0,
            prompt: String::new(),
            results: Vec::new(),
            shell: Shell::find(body),
            tools: names(body),
        };
        let messages = body["messages"].as_array().or_else(|| body["input"].as_array());
        messages.into_iter().flatten().for_each(|message| conversation.add(message));
        if let Some(prompt) = body["input"].as_str() {
            conversation.add_prompt(prompt.to_owned());
        }
        conversation
    }

    fn add(&mut self, message: &Value) {
        match (message["role"].as_str(), message["type"].as_str()) {
            (Some("user"), _) => {
                for part in parts(&message["content"]).filter(|part| part["type"] == "tool_result") {
                    self.results.push(text(&part["content"]));
                }
                let text = user_text(&message["content"]);
                if !text.is_empty() {
                    self.add_prompt(text);
                }
            }
            (Some("tool"), _) => self.results.push(text(&message["content"])),
            (_, Some("function_call_output" | "custom_tool_call_output")) => {
                self.results.push(text(&message["output"]));
            }
            _ => {}
        }
    }

    fn add_prompt(&mut self, text: String) {
        self.user_messages += 1;
        self.prompt = text;
        self.results.clear();
    }

    /// Returns the name of the tool that ends with a suffix, or the suffix.
    pub(super) fn tool_ending(&self, suffix: &str) -> String {
        self.tools.iter().find(|name| name.ends_with(suffix)).map_or_else(|| suffix.to_owned(), Clone::clone)
    }

    /// Returns the name and arguments of a call to the client's shell tool.
    pub(super) fn shell(&self, command: &str) -> (String, String) {
        let Some(shell) = &self.shell else {
            return ("bash".to_owned(), json!({"command": command}).to_string());
        };
        let value = if shell.wants_list { json!(["bash", "-lc", command]) } else { json!(command) };
        (shell.name.clone(), json!({shell.argument: value}).to_string())
    }
}

impl Shell {
    fn find(body: &Value) -> Option<Self> {
        let known = ["exec_command", "shell_command", "shell", "bash", "Bash", "run_shell_command"];
        let tools = body["tools"].as_array().into_iter().flatten();
        // Some APIs wrap the description of a tool once more.
        let mut tools = tools.map(|tool| if tool["function"].is_object() { &tool["function"] } else { tool });
        let tool = tools.find(|tool| tool["name"].as_str().is_some_and(|name| known.contains(&name)))?;
        let schema =
            [&tool["parameters"], &tool["input_schema"]].into_iter().find(|schema| schema.is_object())?;
        let argument = if schema["properties"]["cmd"].is_object() { "cmd" } else { "command" };
        let wants_list = schema["properties"][argument]["type"] == "array";
        Some(Self { name: tool["name"].as_str()?.to_owned(), argument, wants_list })
    }
}

/// Returns the names of the tools in a request.
fn names(body: &Value) -> Vec<String> {
    let tools = body["tools"].as_array().into_iter().flatten();
    let tools = tools.map(|tool| if tool["function"].is_object() { &tool["function"] } else { tool });
    tools.filter_map(|tool| tool["name"].as_str()).map(str::to_owned).collect()
}

fn parts(content: &Value) -> impl Iterator<Item = &Value> {
    content.as_array().into_iter().flatten()
}

/// Returns the text of a message without the tagged blocks that programs add. APIs with alternating roles
/// join several unanswered prompts in one message; then the script of the last one counts.
fn user_text(content: &Value) -> String {
    let texts = match content {
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        other => Vec::from_iter(other.as_str()),
    };
    let is_prompt = |text: &&str| !text.trim_start().starts_with('<') || text.contains("[[");
    let texts: Vec<&str> = texts.into_iter().filter(is_prompt).collect();
    let last_script = texts.iter().rposition(|text| text.contains("[[")).unwrap_or(0);
    texts[last_script..].join("\n")
}

fn text(content: &Value) -> String {
    match content {
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        other => other.as_str().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversation_is_the_same_in_all_apis() {
        let chat = json!({"messages": [
            {"role": "system", "content": "s"}, {"role": "user", "content": "one"},
            {"role": "assistant", "content": "a"}, {"role": "user", "content": "two"},
            {"role": "tool", "tool_call_id": "x", "content": "r"},
        ]});
        let messages = json!({"messages": [
            {"role": "user", "content": [{"type": "text", "text": "<reminder/>"}, {"type": "text", "text": "one"}]},
            {"role": "assistant", "content": "a"}, {"role": "user", "content": "two"},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "x", "content": [{"type": "text", "text": "r"}]},
                {"type": "text", "text": "<reminder/>"},
            ]},
        ]});
        let responses = json!({"input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment/>"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "one"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "two"}]},
            {"type": "function_call", "name": "f", "call_id": "x", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "x", "output": "r"},
        ]});
        for body in [chat, messages, responses] {
            let Conversation { user_messages, prompt, results, .. } = Conversation::read(&body);
            assert_eq!((user_messages, prompt.as_str(), results), (2, "two", vec!["r".to_owned()]), "{body}");
        }
    }

    #[test]
    fn last_script_of_a_message_counts() {
        let prompt = |texts: &[&str]| {
            let content: Vec<_> = texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
            Conversation::read(&json!({"messages": [{"role": "user", "content": content}]})).prompt
        };
        assert_eq!(prompt(&["[[hang]]", "[[text:x]]", "a.png"]), "[[text:x]]\na.png");
        assert_eq!(prompt(&["one", "two"]), "one\ntwo");
        assert_eq!(prompt(&[]), "");
    }

    #[test]
    fn shell_tool_of_each_client_is_found() {
        let call = |tools: Value| Conversation::read(&json!({"tools": tools})).shell("ls");
        let string = json!({"type": "string"});
        let chat = json!([{"type": "function", "function": {"name": "bash", "parameters": {"properties": {"command": string}}}}]);
        assert_eq!(call(chat), ("bash".into(), r#"{"command":"ls"}"#.into()));
        let codex = json!([{"type": "function", "name": "exec_command", "parameters": {"properties": {"cmd": string}}}]);
        assert_eq!(call(codex), ("exec_command".into(), r#"{"cmd":"ls"}"#.into()));
        let list = json!({"type": "array"});
        let old =
            json!([{"type": "function", "name": "shell", "parameters": {"properties": {"command": list}}}]);
        assert_eq!(call(old), ("shell".into(), r#"{"command":["bash","-lc","ls"]}"#.into()));
        let claude = json!([{"name": "Read", "input_schema": {}}, {"name": "Bash", "input_schema": {"properties": {"command": string}}}]);
        assert_eq!(call(claude), ("Bash".into(), r#"{"command":"ls"}"#.into()));
        assert_eq!(call(json!([])), ("bash".into(), r#"{"command":"ls"}"#.into()));
    }
}
