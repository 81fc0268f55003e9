//! Output of claude in both modes: a line for each block of a message, and one for the result of a run.

use std::collections::HashSet;
use std::time::Duration;

use baton_protocol::event::AssistantUsage;
use serde_json::Value;

use crate::adapter::{RunEnding, Steps, result_type, tool_result};
use crate::fragments::Thoughts;
use crate::json::{block_text, list, number, text};
use crate::retry::Retry;
use crate::{Report, ThreadSpec};

#[derive(Debug, Default)]
pub(super) struct Messages {
    model: String,
    thoughts: Thoughts,
    /// Calls that were denied.
    pub(super) denied: HashSet<String>,
    has_message: bool,
    /// The cost of this process so far: claude reports only the sum.
    reported_cost: f64,
}

impl Messages {
    /// Starts with the output of a new process.
    pub(super) fn new(spec: &ThreadSpec) -> Self {
        Self { model: spec.model.clone().unwrap_or_else(|| "claude".to_owned()), ..Self::default() }
    }

    /// Handles a line. Returns how the run ended, if the line is a result.
    pub(super) fn receive(&mut self, line: &Value, steps: &mut Steps) -> Option<RunEnding> {
        // Messages of sub-agents are part of the result of the call that started them.
        let of_subagent = line["parent_tool_use_id"].is_string();
        match text(line, "/type")? {
            "system" => self.system(line, steps),
            "assistant" => self.assistant(&line["message"], of_subagent, steps),
            "user" => self.results(&line["message"]["content"], steps),
            "stream_event" if !of_subagent => self.delta(&line["event"], steps),
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
                    steps.identified(session, text(line, "/model"));
                }
            }
            "api_retry" => steps.report(retry(line)),
            "compact_boundary" => steps.note("The conversation was summarised to make room."),
            _ => {}
        }
    }

    fn assistant(&mut self, message: &Value, of_subagent: bool, steps: &mut Steps) {
        for block in list(message, "/content") {
            match text(block, "/type").unwrap_or_default() {
                // Claude writes errors as messages of the model; the result contains them as well.
                "text" if of_subagent || message["model"] == "<synthetic>" => {}
                "text" => self.message(text(block, "/text").unwrap_or_default(), steps),
                "thinking" if !of_subagent => {
                    self.thoughts.extend(text(block, "/thinking"));
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

    fn message(&mut self, message: &str, steps: &mut Steps) {
        self.has_message = true;
        self.thoughts.message(message, steps);
    }

    fn results(&mut self, content: &Value, steps: &mut Steps) {
        for block in list(content, "") {
            let Some(id) = text(block, "/tool_use_id") else { continue };
            let result_type = result_type(self.denied.remove(id), block["is_error"] == true);
            steps.call_finished(id, tool_result(block_text(&block["content"]), result_type));
        }
    }

    fn delta(&self, event: &Value, steps: &mut Steps) {
        if let Some(delta) = text(event, "/delta/text") {
            steps.report(Report::TextDelta(delta.to_owned()));
        }
        if let Some(delta) = text(event, "/delta/thinking") {
            steps.report(Report::ReasoningDelta(delta.to_owned()));
        }
    }

    fn result(&mut self, line: &Value, steps: &mut Steps) -> RunEnding {
        self.report_usage(line, steps);
        let had_message = std::mem::take(&mut self.has_message);
        self.thoughts.clear();
        if text(line, "/terminal_reason").is_some_and(|reason| reason.starts_with("aborted")) {
            return RunEnding::Interrupted;
        }
        let answer = text(line, "/result");
        // Claude reports an error of the API as a success with this flag.
        if line["is_error"] == true {
            let errors = list(line, "/errors").filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
            let subtype = text(line, "/subtype").unwrap_or("no reason given");
            let reason = answer.map_or(errors, str::to_owned);
            let reason = if reason.is_empty() { format!("claude failed ({subtype}).") } else { reason };
            return RunEnding::Failed(reason);
        }
        if let (false, Some(answer)) = (had_message, answer) {
            self.message(answer, steps);
            self.has_message = false;
        }
        RunEnding::Completed
    }

    fn report_usage(&mut self, line: &Value, steps: &mut Steps) {
        let count = |name: &str| number(&line["usage"], name).unwrap_or(0);
        let (read, written) = (count("/cache_read_input_tokens"), count("/cache_creation_input_tokens"));
        // Cost and duration are sums over the process. A difference is computed only for the cost.
        let total = line["total_cost_usd"].as_f64();
        let cost = total.map(|total| (total - self.reported_cost).max(0.0));
        self.reported_cost = total.unwrap_or(self.reported_cost);
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

/// Reports a retry.
fn retry(line: &Value) -> Report {
    let retry = Retry {
        program: "claude",
        // Without a connection, the reason is just that.
        reason: text(line, "/error").filter(|error| *error != "unknown").unwrap_or("the model call failed"),
        status: number(line, "/error_status"),
        attempt: number(line, "/attempt").zip(number(line, "/max_retries")),
        pause: Duration::from_millis(line["retry_delay_ms"].as_f64().unwrap_or_default() as u64),
    };
    retry.report()
}

/// Returns the name of the built-in tool that does the same, if there is one.
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
