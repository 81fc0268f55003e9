//! The output of tool calls, as lines for the terminal: the first lines while a tool runs, then what is left of it.

use std::collections::{BTreeMap, BTreeSet};

use baton_protocol::event::{Body, ToolComplete, ToolCompleteResult, ToolStart};
use baton_protocol::permission::PermissionOutcome;
use baton_protocol::{RequestId, ToolCallId};
use serde_json::Value;

/// Limit of lines for the output of a running tool, and for a result that was not streamed.
const OUTPUT_LINES: usize = 10;
const RESULT_LINES: usize = 4;

/// Name of the tool that runs commands.
const SHELL_TOOL: &str = "bash";
/// Begins the last line of its result.
const EXIT_CODE: &str = "<exited with exit code ";

/// Begins a diff.
const DIFF: &str = "diff --git ";

/// A line to print.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OutputLine {
    /// A line of the output.
    Output(String),
    /// What became of the call.
    Note(String),
}

/// Output of the calls that are not finished.
#[derive(Debug, Default)]
pub(crate) struct ToolOutputs {
    outputs: BTreeMap<ToolCallId, Output>,
    /// Calls that run a command.
    commands: BTreeSet<ToolCallId>,
    /// Calls that wait for an answer.
    waiting: BTreeMap<RequestId, ToolCallId>,
    /// Calls whose request was withdrawn: they did not run.
    withdrawn: BTreeSet<ToolCallId>,
}

#[derive(Debug, Default)]
struct Output {
    /// The line that has not ended.
    line: String,
    /// Number of lines so far.
    lines: usize,
}

impl ToolOutputs {
    /// A call has begun, or waits for approval.
    pub(crate) fn start(&mut self, start: &ToolStart) {
        if start.tool_name == SHELL_TOOL {
            self.commands.insert(start.tool_call_id.clone());
        }
    }

    /// Keeps track of requests: a call whose request was withdrawn has not run.
    pub(crate) fn track(&mut self, body: &Body) {
        match body {
            Body::RequestOpened(opened) => {
                if let Some(call) = &opened.tool_call_id {
                    self.waiting.insert(opened.request_id.clone(), call.clone());
                }
            }
            Body::RequestClosed(closed) => {
                let call = self.waiting.remove(&closed.request_id);
                self.withdrawn.extend(call.filter(|_| closed.answer.is_none()));
            }
            Body::PermissionCompleted(completed) => {
                if matches!(completed.result, PermissionOutcome::Cancelled { .. }) {
                    self.withdrawn.extend(completed.tool_call_id.clone());
                }
            }
            _ => {}
        }
    }

    /// Adds output of a running tool. Returns the lines to print.
    pub(crate) fn push(&mut self, call: &ToolCallId, text: &str) -> Vec<OutputLine> {
        let output = self.outputs.entry(call.clone()).or_default();
        output.line.push_str(text);
        let mut complete = Vec::new();
        while let Some(end) = output.line.find('\n') {
            let line: String = output.line.drain(..=end).collect();
            output.lines += 1;
            if output.lines <= OUTPUT_LINES {
                complete.push(OutputLine::Output(line));
            }
        }
        complete
    }

    /// Returns the rest of a tool's output, or its result if it had none; of a call of a sub-agent, only why it failed.
    pub(crate) fn finish(&mut self, complete: &ToolComplete, of_agent: bool) -> Vec<OutputLine> {
        let call = &complete.tool_call_id;
        let (output, is_command) = (self.outputs.remove(call), self.commands.remove(call));
        if self.withdrawn.remove(call) {
            return vec![OutputLine::Note("✗ cancelled; it did not run".to_owned())];
        }
        if !complete.success {
            let why = complete.error.as_ref().map(|error| error.message.as_str()).unwrap_or_default();
            return vec![OutputLine::Note(format!("✗ {}", why.lines().next().unwrap_or_default()))];
        }
        if of_agent {
            return Vec::new();
        }
        let result = complete.result.as_ref();
        let failed = result.filter(|_| is_command).and_then(exit_code).filter(|code| *code != 0);
        let (rest, shown, total) = match (&output, result) {
            (Some(output), _) => {
                let is_open = !output.line.is_empty();
                let rest: Vec<&str> =
                    output.line.lines().take(usize::from(output.lines < OUTPUT_LINES)).collect();
                (rest, OUTPUT_LINES, output.lines + usize::from(is_open))
            }
            (None, Some(result)) => {
                let (text, is_diff) = match result.detailed_content.as_deref() {
                    Some(detail) => (without_header(detail), detail.starts_with(DIFF)),
                    None => (result.content.as_str(), false),
                };
                // The exit code is shown on a line of its own, and a missing line break is not shown.
                let is_shown = |line: &&str| {
                    !(failed.is_some() && line.starts_with(EXIT_CODE) || is_diff && line.starts_with('\\'))
                };
                let lines = text.trim_end().lines().filter(is_shown);
                (lines.clone().take(RESULT_LINES).collect(), RESULT_LINES, lines.count())
            }
            (None, None) => return Vec::new(),
        };
        let mut lines: Vec<OutputLine> =
            rest.into_iter().map(|line| OutputLine::Output(line.to_owned())).collect();
        match total.saturating_sub(shown) {
            0 => {}
            1 => lines.push(OutputLine::Output("… (1 more line)".to_owned())),
            more => lines.push(OutputLine::Output(format!("… ({more} more lines)"))),
        }
        // Where it ran is said when it failed: a wall may be why.
        let place =
            result.and_then(sandbox).map(|level| format!(", in the sandbox ({level})")).unwrap_or_default();
        lines.extend(failed.map(|code| OutputLine::Note(format!("✗ exit code {code}{place}"))));
        lines
    }
}

/// Returns the exit code of a command.
fn exit_code(result: &ToolCompleteResult) -> Option<i64> {
    let contents: Value = result.contents.as_ref()?.parse().ok()?;
    contents.as_array()?.iter().find_map(|content| content["exitCode"].as_i64())
}

/// Returns the level of the sandbox that a command ran in.
fn sandbox(result: &ToolCompleteResult) -> Option<String> {
    let contents: Value = result.contents.as_ref()?.parse().ok()?;
    contents.as_array()?.iter().find_map(|content| content["sandbox"].as_str().map(str::to_owned))
}

/// Returns a diff without the lines before its first change: the call has named the file.
fn without_header(text: &str) -> &str {
    let is_diff = text.starts_with(DIFF);
    let hunk = text.find("\n@@ ").filter(|_| is_diff).and_then(|at| text.get(at + 1..));
    hunk.and_then(|hunk| hunk.split_once('\n')).map_or(text, |(_, changes)| changes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn started(outputs: &mut ToolOutputs, tool: &str) {
        let start = json!({ "toolCallId": "c", "toolName": tool });
        outputs.start(&baton_json::from_value(&start).unwrap());
    }

    fn finished(outputs: &mut ToolOutputs, fields: &Value) -> Vec<String> {
        let mut complete = json!({ "toolCallId": "c", "success": true });
        complete.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let lines = outputs.finish(&baton_json::from_value(&complete).unwrap(), false).into_iter();
        let text = |line| match line {
            OutputLine::Output(text) => format!("│ {text}"),
            OutputLine::Note(text) => text,
        };
        lines.map(text).collect()
    }

    #[test]
    fn created_file_is_shown_without_the_header_of_its_diff() {
        let diff = "diff --git a/a b/a\nnew file mode 100644\n--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+hello\n\\ No newline at end of file\n";
        let result = json!({ "result": { "content": "Created", "detailedContent": diff } });
        assert_eq!(finished(&mut ToolOutputs::default(), &result), ["│ +hello"]);
        let other = json!({ "result": { "content": "", "detailedContent": "a\n@@ b\nc" } });
        assert_eq!(finished(&mut ToolOutputs::default(), &other), ["│ a", "│ @@ b", "│ c"]);
    }

    #[test]
    fn lines_that_are_left_out_are_counted() {
        let lines = |count: usize| json!({ "result": { "content": vec!["x"; count].join("\n") } });
        let last = |count: usize| finished(&mut ToolOutputs::default(), &lines(count)).pop().unwrap();
        assert_eq!(
            (last(4), last(5), last(6)),
            ("│ x".into(), "│ … (1 more line)".into(), "│ … (2 more lines)".into())
        );
    }

    #[test]
    fn exit_code_of_a_failed_command_is_shown() {
        let result = |code: u8| {
            let content = format!("out\n<exited with exit code {code}>");
            let contents = json!([{ "type": "terminal", "text": "out", "exitCode": code }]);
            json!({ "result": { "content": content, "contents": contents } })
        };
        let run = |tool: &str, code: u8| {
            let mut outputs = ToolOutputs::default();
            started(&mut outputs, tool);
            finished(&mut outputs, &result(code))
        };
        assert_eq!(run("bash", 3), ["│ out", "✗ exit code 3"]);
        assert_eq!(run("bash", 0).last().unwrap(), "│ <exited with exit code 0>");
        assert_eq!(run("view", 3).last().unwrap(), "│ <exited with exit code 3>", "other tools have none");
        let mut streamed = ToolOutputs::default();
        started(&mut streamed, "bash");
        let shown = streamed.push(&ToolCallId("c".into()), "out\n");
        assert_eq!(shown, [OutputLine::Output("out\n".into())]);
        assert_eq!(finished(&mut streamed, &result(1)), ["✗ exit code 1"]);
    }

    #[test]
    fn call_whose_request_is_withdrawn_did_not_run() {
        let event = |kind: &str, data: Value| {
            let (id, time) = ("01a1eb9f-13d3-7660-b785-e025f4803d4d", "2026-11-17T22:35:17.123Z");
            let event = json!({ "type": kind, "data": data, "id": id, "timestamp": time, "parentId": null });
            baton_protocol::Event::parse(&event.to_string()).unwrap().body
        };
        let interrupted =
            json!({ "success": false, "error": { "message": "The execution was interrupted." } });
        let completed = |result: &str| {
            let mut outputs = ToolOutputs::default();
            let data = json!({ "requestId": "r", "toolCallId": "c", "result": { "kind": result } });
            outputs.track(&event("permission.completed", data));
            finished(&mut outputs, &interrupted)
        };
        assert_eq!(completed("cancelled"), ["✗ cancelled; it did not run"]);
        assert_eq!(completed("approved"), ["✗ The execution was interrupted."]);
        let mut asked = ToolOutputs::default();
        let question = json!({ "kind": "user_input", "question": "which?" });
        let opened = json!({ "requestId": "r", "toolCallId": "c", "question": question });
        asked.track(&event("baton.request_opened", opened));
        asked.track(&event("baton.request_closed", json!({ "requestId": "r" })));
        assert_eq!(finished(&mut asked, &interrupted), ["✗ cancelled; it did not run"]);
    }
}
