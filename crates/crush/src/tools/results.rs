//! Results of tool calls, with the metadata that the terminal's renderers read.

use baton_protocol::Timestamp;
use baton_protocol::event::ToolComplete;
use serde_json::{Value, json};

use super::Call;
use crate::wire::ToolResult;

/// Converts a result to the terminal's form.
pub(crate) fn result(
    call: Option<&Call>,
    complete: &ToolComplete,
    ended: Timestamp,
    cwd: &str,
) -> ToolResult {
    let output =
        complete.result.as_ref().map(|result| result.content.as_str()).filter(|text| !text.is_empty());
    let failure = complete.error.as_ref().map(|error| error.message.as_str());
    let content = output.or(failure).unwrap_or_default();
    let detail =
        complete.result.as_ref().and_then(|result| result.detailed_content.as_deref()).unwrap_or_default();
    let image = complete.result.iter().flat_map(|result| &result.binary_results_for_llm).next();
    let metadata = call.map(|call| metadata(call, content, detail, ended, cwd)).filter(|_| complete.success);
    ToolResult {
        tool_call_id: complete.tool_call_id.to_string(),
        name: call.map(|call| call.name().to_owned()).unwrap_or_default(),
        content: content.to_owned(),
        data: image.map(|image| image.data.clone()).unwrap_or_default(),
        mime_type: image.map(|image| image.mime_type.clone()).unwrap_or_default(),
        metadata: metadata.filter(|metadata| !metadata.is_null()).map(|m| m.to_string()).unwrap_or_default(),
        is_error: !complete.success,
    }
}

fn metadata(call: &Call, content: &str, detail: &str, ended: Timestamp, cwd: &str) -> Value {
    match call.name() {
        "bash" => json!({
            "start_time": call.started, "end_time": ended.as_millis(),
            "output": printed(content), "working_directory": cwd,
        }),
        "edit" => {
            let DiffSides { old, new, additions, removals } = DiffSides::of(detail);
            json!({ "additions": additions, "removals": removals, "old_content": old, "new_content": new })
        }
        "write" => {
            let DiffSides { additions, removals, .. } = DiffSides::of(detail);
            json!({ "diff": detail, "additions": additions, "removals": removals })
        }
        "view" => json!({ "file_path": call.file(), "content": without_numbers(content) }),
        _ => Value::Null,
    }
}

/// Returns the output of a command, without the note on its exit code that is for the model; unless it failed.
fn printed(content: &str) -> &str {
    content.strip_suffix("<exited with exit code 0>").map_or(content, |output| output.trim_end_matches('\n'))
}

/// Removes the line numbers that `view` adds: the terminal adds its own.
fn without_numbers(content: &str) -> String {
    let bare = |line: &str| match line.split_once(". ") {
        Some((number, text)) if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) => {
            text.to_owned()
        }
        _ => line.to_owned(),
    };
    content.split('\n').map(bare).collect::<Vec<_>>().join("\n")
}

/// The two sides of a diff, as far as the diff contains them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DiffSides {
    pub(crate) old: String,
    pub(crate) new: String,
    pub(crate) additions: usize,
    pub(crate) removals: usize,
}

impl DiffSides {
    pub(crate) fn of(diff: &str) -> Self {
        let mut sides = Self::default();
        let hunks = diff.lines().skip_while(|line| !line.starts_with("@@"));
        for line in hunks {
            let Some(kind) = line.chars().next() else { continue };
            let text = line.get(1..).unwrap_or_default();
            if matches!(kind, ' ' | '-') {
                sides.old.push_str(text);
                sides.old.push('\n');
            }
            if matches!(kind, ' ' | '+') {
                sides.new.push_str(text);
                sides.new.push('\n');
            }
            sides.additions += usize::from(kind == '+');
            sides.removals += usize::from(kind == '-');
        }
        sides
    }
}

#[cfg(test)]
mod tests {
    use baton_protocol::Json;
    use baton_protocol::event::{ToolCompleteError, ToolCompleteResult};

    use super::*;

    fn call(tool: &str, arguments: &str) -> Call {
        Call { tool: tool.into(), arguments: Json::from_text(arguments).ok(), started: 1000 }
    }

    fn complete(content: &str, detail: Option<&str>, success: bool) -> ToolComplete {
        ToolComplete {
            tool_call_id: "c".into(),
            success,
            model: None,
            interaction_id: None,
            turn_id: None,
            result: Some(ToolCompleteResult {
                content: content.into(),
                detailed_content: detail.map(str::to_owned),
                ..ToolCompleteResult::default()
            }),
            error: (!success).then(|| ToolCompleteError { message: "why".into(), code: None }),
            tool_telemetry: None,
            parent_tool_call_id: None,
        }
    }

    fn meta(tool: &str, arguments: &str, content: &str, detail: Option<&str>) -> Value {
        let result =
            result(Some(&call(tool, arguments)), &complete(content, detail, true), Timestamp(2000), "/w");
        baton_json::from_str(&result.metadata).unwrap_or_default()
    }

    #[test]
    fn results_have_the_metadata_of_the_renderers() {
        assert_eq!(
            meta("bash", r#"{"command":"ls"}"#, "a\nb\n<exited with exit code 0>", None),
            json!({"start_time": 1000, "end_time": 2000, "output": "a\nb", "working_directory": "/w"})
        );
        assert_eq!(
            meta("bash", "{}", "x\n<exited with exit code 2>", None)["output"],
            "x\n<exited with exit code 2>"
        );
        assert_eq!(
            meta("view", r#"{"path":"/f"}"#, "1. one\n12. two. three\nplain", None),
            json!({"file_path": "/f", "content": "one\ntwo. three\nplain"})
        );
        let diff =
            "--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n same\n-old\n+new\n+more\n\\ No newline at end of file\n";
        assert_eq!(
            meta("edit", r#"{"path":"/f"}"#, "done", Some(diff)),
            json!({"additions": 2, "removals": 1, "old_content": "same\nold\n", "new_content": "same\nnew\nmore\n"})
        );
        assert_eq!(meta("create", r#"{"path":"/f"}"#, "done", Some(diff))["additions"], 2);
        assert_eq!(meta("sql", "{}", "rows", None), Value::Null);
    }

    #[test]
    fn failure_has_its_message_and_no_metadata() {
        let failed = result(Some(&call("bash", "{}")), &complete("", None, false), Timestamp(1), "/w");
        assert_eq!((failed.content.as_str(), failed.is_error, failed.metadata.as_str()), ("why", true, ""));
        let stray = result(None, &complete("x", None, true), Timestamp(1), "/w");
        assert_eq!((stray.name.as_str(), stray.content.as_str()), ("", "x"));
    }
}
