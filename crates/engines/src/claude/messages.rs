//! What claude prints, in both modes: a line for each block of each message, and one for the result of a run.

use std::collections::HashSet;

use baton_protocol::event::AssistantUsage;
use baton_protocol::tool::{ResultType, ToolResult};
use serde_json::Value;

use crate::dialect::{Ending, Steps};
use crate::json::{block_text, list, number, text};
use crate::{Report, ThreadSpec};

#[derive(Debug, Default)]
pub(super) struct Messages {
    model: String,
    /// What was thought since the last message.
    thoughts: Vec<String>,
    /// Calls that somebody did not allow.
    pub(super) denied: HashSet<String>,
    has_message: bool,
    /// What this process has cost so far: it only tells the sum.
    spent: f64,
}

impl Messages {
    /// For a new process.
    pub(super) fn new(spec: &ThreadSpec) -> Self {
        Self { model: spec.model.clone().unwrap_or_else(|| "claude".to_owned()), ..Self::default() }
    }

    /// The program has said this. Returns how the run went, if that is what it has said.
    pub(super) fn hear(&mut self, line: &Value, steps: &mut Steps) -> Option<Ending> {
        // What its own agents say reaches us as the result of the call that started them.
        let of_agent = line["parent_tool_use_id"].is_string();
        match text(line, "/type")? {
            "system" => self.system(line, steps),
            "assistant" => self.assistant(&line["message"], of_agent, steps),
            "user" => self.results(&line["message"]["content"], steps),
            "stream_event" if !of_agent => self.delta(&line["event"], steps),
            "result" => return Some(self.result(line, steps)),
            _ => {}
        }
        None
    }

    fn system(&mut self, line: &Value, steps: &mut Steps) {
        match text(line, "/subtype").unwrap_or_default() {
            "init" => {
                if let Some(model) = text(line, "/model") {
                    model.clone_into(&mut self.model);
                }
                if let Some(session) = text(line, "/session_id") {
                    steps.named(session, text(line, "/model"));
                }
            }
            "api_retry" => steps.note(retry(line)),
            "compact_boundary" => steps.note("The conversation was summarised to make room."),
            _ => {}
        }
    }

    fn assistant(&mut self, message: &Value, of_agent: bool, steps: &mut Steps) {
        for block in list(message, "/content") {
            match text(block, "/type").unwrap_or_default() {
                // Errors that claude writes as messages of the model are in the result, too.
                "text" if of_agent || message["model"] == "<synthetic>" => {}
                "text" => self.message(text(block, "/text").unwrap_or_default(), steps),
                "thinking" if !of_agent => {
                    self.thoughts.extend(text(block, "/thinking").map(str::to_owned));
                }
                "tool_use" | "server_tool_use" | "mcp_tool_use" => {
                    let id = text(block, "/id").unwrap_or_default();
                    steps.call_started(
                        id,
                        tool(text(block, "/name").unwrap_or("tool")),
                        block["input"].clone(),
                    );
                }
                kind if kind.ends_with("_tool_result") => {
                    self.results(&Value::from(vec![block.clone()]), steps);
                }
                _ => {}
            }
        }
    }

    fn message(&mut self, said: &str, steps: &mut Steps) {
        let reasoning = (!self.thoughts.is_empty()).then(|| self.thoughts.join("\n\n"));
        self.thoughts.clear();
        self.has_message = true;
        steps.report(Report::Message { text: said.to_owned(), reasoning });
    }

    fn results(&mut self, content: &Value, steps: &mut Steps) {
        for block in list(content, "") {
            let Some(id) = text(block, "/tool_use_id") else { continue };
            let result_type = match (self.denied.remove(id), &block["is_error"]) {
                (true, _) => ResultType::Denied,
                (_, Value::Bool(true)) => ResultType::Failure,
                _ => ResultType::Success,
            };
            let said = block_text(&block["content"]);
            let result = ToolResult { text_result_for_llm: said, result_type, ..ToolResult::default() };
            steps.call_finished(id, result);
        }
    }

    fn delta(&self, event: &Value, steps: &mut Steps) {
        if let Some(more) = text(event, "/delta/text") {
            steps.report(Report::TextDelta(more.to_owned()));
        }
        if let Some(more) = text(event, "/delta/thinking") {
            steps.report(Report::ReasoningDelta(more.to_owned()));
        }
    }

    fn result(&mut self, line: &Value, steps: &mut Steps) -> Ending {
        self.count(line, steps);
        let had_message = std::mem::take(&mut self.has_message);
        self.thoughts.clear();
        if text(line, "/terminal_reason").is_some_and(|reason| reason.starts_with("aborted")) {
            return Ending::Interrupted;
        }
        let said = text(line, "/result");
        // An error of the API is called a success with an error.
        if line["is_error"] == true {
            let errors = list(line, "/errors").filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
            let subtype = text(line, "/subtype").unwrap_or("no reason given");
            let why = said.map_or(errors, str::to_owned);
            let why = if why.is_empty() { format!("claude failed ({subtype}).") } else { why };
            return Ending::Failed(why);
        }
        if let (false, Some(said)) = (had_message, said) {
            self.message(said, steps);
            self.has_message = false;
        }
        Ending::Completed
    }

    fn count(&mut self, line: &Value, steps: &mut Steps) {
        let count = |name: &str| number(&line["usage"], name).unwrap_or(0);
        let (read, written) = (count("/cache_read_input_tokens"), count("/cache_creation_input_tokens"));
        let total = line["total_cost_usd"].as_f64();
        let cost = total.map(|total| (total - self.spent).max(0.0));
        self.spent = total.unwrap_or(self.spent);
        let usage = AssistantUsage {
            model: self.model.clone(),
            input_tokens: Some(count("/input_tokens") + read + written),
            output_tokens: Some(count("/output_tokens")),
            cache_read_tokens: Some(read),
            cache_write_tokens: Some(written),
            cost,
            duration: number(line, "/duration_api_ms"),
            ..AssistantUsage::default()
        };
        if usage.input_tokens != Some(0) || usage.output_tokens != Some(0) {
            steps.report(Report::Usage(Box::new(usage)));
        }
    }
}

/// `duration_api_ms` and costs are sums over the process; only costs are worth a difference.
fn retry(line: &Value) -> String {
    let count = |name: &str| number(line, name).unwrap_or(0);
    let seconds = line["retry_delay_ms"].as_f64().unwrap_or(0.0) / 1000.0;
    let status = number(line, "/error_status").map(|status| format!(" (HTTP {status})")).unwrap_or_default();
    format!(
        "claude tries again in {seconds:.0} s, {} of {}: {}{status}",
        count("/attempt"),
        count("/max_retries"),
        text(line, "/error").unwrap_or("no reason given")
    )
}

/// The name of a tool as our own tools are called.
pub(super) fn tool(name: &str) -> &str {
    match name {
        "Bash" => "bash",
        "Edit" | "MultiEdit" | "NotebookEdit" => "edit",
        "Write" => "create",
        "Read" => "view",
        "Glob" => "glob",
        "Grep" => "grep",
        "WebFetch" | "web_fetch" => "web_fetch",
        "WebSearch" | "web_search" => "web_search",
        "Task" | "Agent" => "task",
        other => other,
    }
}
