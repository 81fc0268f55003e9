//! `opencode run --format json`: one process for a prompt.
//!
//! It says nothing before its model has answered, and nothing at all while it tries again after an error of the
//! provider. It tells of messages and calls when they are complete, and stops without an answer after a call that was not
//! allowed.

use baton_protocol::event::AssistantUsage;
use baton_protocol::tool::{ResultType, ToolResult};
use serde_json::Value;

use super::ASKING;
use crate::Report;
use crate::dialect::{Dialect, Ending, Launch, Opening, Step, Steps};
use crate::json::{number, text};

#[derive(Debug, Default)]
pub(crate) struct OpencodeExec {
    model: String,
    /// What was thought since the last message.
    thoughts: Vec<String>,
    /// How it went so far.
    ending: Option<Ending>,
}

impl Dialect for OpencodeExec {
    fn name(&self) -> &'static str {
        "opencode run"
    }

    fn starts_silently(&self) -> bool {
        true
    }

    fn launch(&mut self, opening: &Opening<'_>) -> Launch {
        let spec = opening.spec;
        *self =
            Self { model: spec.model.clone().unwrap_or_else(|| "opencode".to_owned()), ..Self::default() };
        let mut args: Vec<String> = ["run", "--format", "json", "--thinking"].map(str::to_owned).into();
        if spec.allow_all {
            args.push("--auto".to_owned());
        }
        let named = [
            ("--session", opening.token.map(|token| &token.0)),
            ("--model", spec.model.as_ref()),
            ("--variant", spec.reasoning_effort.as_ref()),
        ];
        let named = named.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?.clone()]));
        args.extend(named.flatten().chain(opening.settings.extra_args.iter().cloned()));
        let environment = if spec.allow_all { Vec::new() } else { ASKING.to_vec() };
        Launch { args, environment, ..Launch::default() }
    }

    fn prompt(&mut self, prompt: &str, steps: &mut Steps) {
        // A prompt among the arguments would reach the model in quotes.
        steps.push(Step::SayAll(prompt.to_owned()));
    }

    fn hear(&mut self, line: &Value, steps: &mut Steps) {
        if let Some(session) = text(line, "/sessionID") {
            steps.named(session, None);
        }
        let part = &line["part"];
        let said = || text(part, "/text").unwrap_or_default().to_owned();
        match text(line, "/type").unwrap_or_default() {
            "text" => {
                let reasoning = (!self.thoughts.is_empty()).then(|| self.thoughts.join("\n\n"));
                self.thoughts.clear();
                steps.report(Report::Message { text: said(), reasoning });
            }
            "reasoning" => self.thoughts.push(said()),
            "tool_use" => call(part, steps),
            "step_finish" => self.step_finished(part, steps),
            "error" => {
                let error = &line["error"];
                let why = text(error, "/data/message").or(text(error, "/name")).unwrap_or("no reason given");
                let status = number(error, "/data/statusCode").map(|status| format!(" (HTTP {status})"));
                steps.fail(format!("{why}{}", status.unwrap_or_default()));
            }
            _ => {}
        }
    }

    fn at_exit(&self) -> Ending {
        let nothing = "opencode stopped without an answer, as it does after a tool that it may not use. Allow it in \
                       opencode's permissions, or use the interactive mode, in which somebody can be asked.";
        self.ending.clone().unwrap_or_else(|| Ending::Failed(nothing.to_owned()))
    }
}

impl OpencodeExec {
    fn step_finished(&mut self, part: &Value, steps: &mut Steps) {
        self.count(part, steps);
        let reason = text(part, "/reason");
        if reason == Some("length") {
            steps.warn("The model stopped because it may not say more at once.");
        }
        self.ending = reason.filter(|reason| *reason != "tool-calls").map(|_| Ending::Completed);
    }

    fn count(&self, part: &Value, steps: &mut Steps) {
        let count = |path: &str| number(&part["tokens"], path).unwrap_or(0);
        let (read, written) = (count("/cache/read"), count("/cache/write"));
        steps.report(Report::Usage(Box::new(AssistantUsage {
            model: self.model.clone(),
            input_tokens: Some(count("/input") + read + written),
            output_tokens: Some(count("/output")),
            cache_read_tokens: Some(read),
            cache_write_tokens: Some(written),
            reasoning_tokens: Some(count("/reasoning")),
            cost: part["cost"].as_f64(),
            ..AssistantUsage::default()
        })));
    }
}

/// A call, which is told of when it is done.
fn call(part: &Value, steps: &mut Steps) {
    let id = text(part, "/callID").or(text(part, "/id")).unwrap_or_default();
    let state = &part["state"];
    let name = match text(part, "/tool").unwrap_or("tool") {
        "read" => "view",
        "write" => "create",
        "webfetch" => "web_fetch",
        other => other,
    };
    steps.call_started(id, name, state["input"].clone());
    let error = text(state, "/error");
    let result_type = match error {
        Some(error) if error.contains("rejected permission") => ResultType::Denied,
        Some(_) => ResultType::Failure,
        None if state["metadata"]["exit"].as_i64().unwrap_or(0) != 0 => ResultType::Failure,
        None => ResultType::Success,
    };
    let said = error.or(text(state, "/output")).unwrap_or_default().to_owned();
    steps.call_finished(id, ToolResult { text_result_for_llm: said, result_type, ..ToolResult::default() });
}
