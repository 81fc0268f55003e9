//! What pi prints, in both modes: messages as they grow, calls of tools, and the end of the agent's work.

use std::collections::{HashMap, HashSet};

use baton_protocol::event::AssistantUsage;
use baton_protocol::tool::{ResultType, ToolResult};
use serde_json::Value;

use crate::Report;
use crate::dialect::{Ending, Steps};
use crate::json::{block_text, list, number, text};

#[derive(Debug, Default)]
pub(super) struct Events {
    /// Calls that somebody did not allow.
    pub(super) denied: HashSet<String>,
    /// Whether there is an answer of the model, without which pi does not keep a conversation.
    pub(super) has_answer: bool,
    /// What was told of the output of calls that run: pi repeats all of it each time.
    outputs: HashMap<String, String>,
    /// How the last message of the agent ended.
    last: Option<Ending>,
}

impl Events {
    /// Pi has said this. Returns how the agent's work went, if that is what it has said; pi may try again after that.
    pub(super) fn hear(&mut self, line: &Value, steps: &mut Steps) -> Option<Ending> {
        match text(line, "/type")? {
            "message_update" => delta(&line["assistantMessageEvent"], steps),
            "message_end" if line["message"]["role"] == "assistant" => self.message(&line["message"], steps),
            "tool_execution_start" => {
                let (id, name) = (text(line, "/toolCallId")?, text(line, "/toolName")?);
                steps.call_started(id, tool(name), line["args"].clone());
            }
            "tool_execution_update" => self.output(text(line, "/toolCallId")?, &line["partialResult"], steps),
            "tool_execution_end" => self.result(text(line, "/toolCallId")?, line, steps),
            "auto_retry_start" => steps.note(retry(line)),
            "compaction_end" => compacted(line, steps),
            "extension_error" => {
                let why = text(line, "/error").unwrap_or("no reason given");
                steps.warn(format!("An extension of pi failed: {why}"));
            }
            "agent_end" => {
                let nothing = || Ending::Failed("pi ended without an answer.".to_owned());
                return Some(self.last.take().unwrap_or_else(nothing));
            }
            _ => {}
        }
        None
    }

    fn message(&mut self, message: &Value, steps: &mut Steps) {
        count(message, steps);
        let said = block_text(&message["content"]);
        let thoughts: Vec<&str> =
            list(message, "/content").filter_map(|block| text(block, "/thinking")).collect();
        if !said.is_empty() {
            let reasoning = (!thoughts.is_empty()).then(|| thoughts.join("\n\n"));
            steps.report(Report::Message { text: said, reasoning });
        }
        self.last = Some(match text(message, "/stopReason") {
            Some("error") => {
                let why = text(message, "/errorMessage").unwrap_or("pi gave no reason.");
                Ending::Failed(why.to_owned())
            }
            Some("aborted") => Ending::Interrupted,
            reason => {
                if reason == Some("length") {
                    steps.warn("The model stopped because it may not say more at once.");
                }
                self.has_answer = true;
                Ending::Completed
            }
        });
    }

    fn output(&mut self, id: &str, result: &Value, steps: &mut Steps) {
        let all = block_text(&result["content"]);
        let told = self.outputs.entry(id.to_owned()).or_default();
        // Of long output only the end is repeated. The result will have it.
        if let Some(new) = all.strip_prefix(told.as_str()) {
            steps.report(Report::CallOutput { id: id.to_owned(), output: new.to_owned() });
            *told = all;
        }
    }

    fn result(&mut self, id: &str, line: &Value, steps: &mut Steps) {
        self.outputs.remove(id);
        let result_type = match (self.denied.remove(id), &line["isError"]) {
            (true, _) => ResultType::Denied,
            (_, Value::Bool(true)) => ResultType::Failure,
            _ => ResultType::Success,
        };
        let said = block_text(&line["result"]["content"]);
        steps.call_finished(
            id,
            ToolResult { text_result_for_llm: said, result_type, ..ToolResult::default() },
        );
    }
}

fn delta(event: &Value, steps: &mut Steps) {
    let said = || text(event, "/delta").unwrap_or_default().to_owned();
    match text(event, "/type") {
        Some("text_delta") => steps.report(Report::TextDelta(said())),
        Some("thinking_delta") => steps.report(Report::ReasoningDelta(said())),
        _ => {}
    }
}

fn count(message: &Value, steps: &mut Steps) {
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

fn compacted(line: &Value, steps: &mut Steps) {
    match text(line, "/errorMessage") {
        Some(why) => steps.warn(format!("The conversation could not be summarised: {why}")),
        None if line["aborted"] == true => {}
        None => steps.note("The conversation was summarised to make room."),
    }
}

fn retry(line: &Value) -> String {
    let count = |name: &str| number(line, name).unwrap_or(0);
    format!(
        "pi tries again in {} s, {} of {}: {}",
        count("/delayMs") / 1000,
        count("/attempt"),
        count("/maxAttempts"),
        text(line, "/errorMessage").unwrap_or("no reason given")
    )
}

/// The name of a tool as our own tools are called.
pub(super) fn tool(name: &str) -> &str {
    match name {
        "read" => "view",
        "write" => "create",
        "find" => "glob",
        other => other,
    }
}
