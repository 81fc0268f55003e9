//! Output of pi in both modes: messages as they grow, tool calls, and the end of the agent's work.

use std::collections::HashSet;
use std::time::Duration;

use baton_protocol::event::AssistantUsage;
use serde_json::Value;

use super::no_answer;
use crate::Report;
use crate::adapter::{OUTPUT_LIMIT, RunEnding, Steps, result_type, tool_result};
use crate::fragments::{CallOutputs, Thoughts};
use crate::json::{block_text, list, number, text};
use crate::retry::Retry;

#[derive(Debug, Default)]
pub(super) struct Events {
    /// Calls that were denied.
    pub(super) denied: HashSet<String>,
    /// Whether the model has answered. Pi saves a conversation only then.
    pub(super) has_answer: bool,
    outputs: CallOutputs,
    /// How the agent's last message ended.
    last: Option<RunEnding>,
}

impl Events {
    /// Handles a line. Returns how the agent's work ended, if the line is `agent_end`; pi may retry after that.
    pub(super) fn receive(&mut self, line: &Value, steps: &mut Steps) -> Option<RunEnding> {
        match text(line, "/type")? {
            "message_update" => report_delta(&line["assistantMessageEvent"], steps),
            "message_end" if line["message"]["role"] == "assistant" => self.message(&line["message"], steps),
            "tool_execution_start" => {
                let (id, name) = (text(line, "/toolCallId")?, text(line, "/toolName")?);
                steps.call_started(id, tool(name), line["args"].clone());
            }
            "tool_execution_update" => {
                let output = block_text(&line["partialResult"]["content"]);
                self.outputs.update(text(line, "/toolCallId")?, output, steps);
            }
            "tool_execution_end" => self.result(text(line, "/toolCallId")?, line, steps),
            "auto_retry_start" => steps.report(retry(line)),
            "compaction_end" => report_compaction(line, steps),
            "extension_error" => {
                let reason = text(line, "/error").unwrap_or("no reason given");
                steps.warn(format!("An extension of pi failed: {reason}"));
            }
            "agent_end" => {
                return Some(self.last.take().unwrap_or_else(no_answer));
            }
            _ => {}
        }
        None
    }

    fn message(&mut self, message: &Value, steps: &mut Steps) {
        report_usage(message, steps);
        let answer = block_text(&message["content"]);
        if !answer.is_empty() {
            let mut thoughts = Thoughts::default();
            thoughts.extend(list(message, "/content").filter_map(|block| text(block, "/thinking")));
            thoughts.message(answer, steps);
        }
        self.last = Some(match text(message, "/stopReason") {
            Some("error") => {
                let reason = text(message, "/errorMessage").unwrap_or("pi gave no reason.");
                RunEnding::Failed(reason.to_owned())
            }
            Some("aborted") => RunEnding::Interrupted,
            reason => {
                if reason == Some("length") {
                    steps.warn(OUTPUT_LIMIT);
                }
                self.has_answer = true;
                RunEnding::Completed
            }
        });
    }

    fn result(&mut self, id: &str, line: &Value, steps: &mut Steps) {
        self.outputs.remove(id);
        let result_type = result_type(self.denied.remove(id), line["isError"] == true);
        steps.call_finished(id, tool_result(block_text(&line["result"]["content"]), result_type));
    }
}

fn report_delta(event: &Value, steps: &mut Steps) {
    let delta = || text(event, "/delta").unwrap_or_default().to_owned();
    match text(event, "/type") {
        Some("text_delta") => steps.report(Report::TextDelta(delta())),
        Some("thinking_delta") => steps.report(Report::ReasoningDelta(delta())),
        _ => {}
    }
}

fn report_usage(message: &Value, steps: &mut Steps) {
    let usage = &message["usage"];
    let count = |name: &str| number(usage, name).unwrap_or(0);
    let (read, written) = (count("/cacheRead"), count("/cacheWrite"));
    let input = count("/input") + read + written;
    if input + count("/output") == 0 {
        return;
    }
    steps.report(Report::Usage(Box::new(AssistantUsage {
        model: text(message, "/model").unwrap_or("pi").to_owned(),
        input_tokens: Some(input),
        output_tokens: Some(count("/output")),
        cache_read_tokens: Some(read),
        cache_write_tokens: Some(written),
        cost: usage["cost"]["total"].as_f64(),
        ..AssistantUsage::default()
    })));
}

fn report_compaction(line: &Value, steps: &mut Steps) {
    match text(line, "/errorMessage") {
        Some(reason) => steps.warn(format!("The conversation could not be summarised: {reason}")),
        None if line["aborted"] == true => {}
        None => steps.note("The conversation was summarised to make room."),
    }
}

/// Reports a retry.
fn retry(line: &Value) -> Report {
    let retry = Retry {
        program: "pi",
        reason: text(line, "/errorMessage").unwrap_or("no reason given"),
        status: None,
        attempt: number(line, "/attempt").zip(number(line, "/maxAttempts")),
        pause: Duration::from_millis(number(line, "/delayMs").unwrap_or_default()),
    };
    retry.report()
}

/// Returns the name of the built-in tool that does the same, if there is one.
pub(super) fn tool(name: &str) -> &str {
    match name {
        "read" => "view",
        "write" => "create",
        "find" => "glob",
        other => other,
    }
}
