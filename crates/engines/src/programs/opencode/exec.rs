//! `opencode run --format json`: one process for each prompt.
//!
//! It prints nothing before its model has answered, and logs errors of the provider after which it retries. It prints messages and calls when they are complete, and stops without an answer after a call that was denied.

use baton_protocol::event::AssistantUsage;
use baton_protocol::tool::ResultType;
use serde_json::Value;

use super::{FAILURE_LOG, PERMISSIONS, failed_call};
use crate::Report;
use crate::adapter::{Adapter, Launch, LaunchContext, OUTPUT_LIMIT, RunEnding, Step, Steps, tool_result};
use crate::fragments::Thoughts;
use crate::json::{number, text};
use crate::retry::Failures;

#[derive(Debug, Default)]
pub(crate) struct OpencodeExec {
    model: String,
    thoughts: Thoughts,
    failures: Failures,
    /// How the run ended, unless more steps follow.
    ending: Option<RunEnding>,
}

impl Adapter for OpencodeExec {
    fn name(&self) -> &'static str {
        "opencode run"
    }

    fn starts_silently(&self) -> bool {
        true
    }

    fn launch(&mut self, context: &LaunchContext<'_>) -> Launch {
        let spec = context.spec;
        *self =
            Self { model: spec.model.clone().unwrap_or_else(|| "opencode".to_owned()), ..Self::default() };
        let mut args: Vec<String> = ["run", "--format", "json", "--thinking"].map(str::to_owned).into();
        if spec.allow_all {
            args.push("--auto".to_owned());
        }
        args.extend(context.args("--session", "--model", "--variant"));
        let mut environment = if spec.allow_all { Vec::new() } else { PERMISSIONS.to_vec() };
        environment.extend(FAILURE_LOG.environment);
        Launch { args, environment, ..Launch::default() }
    }

    fn prompt(&mut self, prompt: &str, steps: &mut Steps) {
        // A prompt among the arguments would reach the model in quotes.
        steps.push(Step::SendAndClose(prompt.to_owned()));
    }

    fn receive_diagnostic(&mut self, line: &str, steps: &mut Steps) {
        // The conversation has no id before the model answers, so those of sub-agents are shown as well.
        if let Some(failed) = failed_call(line) {
            self.failures.add(FAILURE_LOG.program, failed.reason, steps);
        }
    }

    fn receive(&mut self, line: &Value, steps: &mut Steps) {
        self.failures = Failures::default();
        if let Some(session) = text(line, "/sessionID") {
            steps.identified(session, None);
        }
        let part = &line["part"];
        let content = || text(part, "/text").unwrap_or_default().to_owned();
        match text(line, "/type").unwrap_or_default() {
            "text" => {
                self.thoughts.message(content(), steps);
            }
            "reasoning" => self.thoughts.extend([content()]),
            "tool_use" => report_call(part, steps),
            "step_finish" => self.on_step_finished(part, steps),
            "error" => {
                let error = &line["error"];
                let reason =
                    text(error, "/data/message").or(text(error, "/name")).unwrap_or("no reason given");
                let status = number(error, "/data/statusCode").map(|status| format!(" (HTTP {status})"));
                steps.fail(format!("{reason}{}", status.unwrap_or_default()));
            }
            _ => {}
        }
    }

    fn ending_at_exit(&self) -> RunEnding {
        let no_answer = "opencode stopped without an answer, as it does after a tool that it may not use. Allow the \
                       tool in opencode's permissions, or use interactive mode, in which opencode can ask.";
        self.ending.clone().unwrap_or_else(|| RunEnding::Failed(no_answer.to_owned()))
    }
}

impl OpencodeExec {
    fn on_step_finished(&mut self, part: &Value, steps: &mut Steps) {
        self.report_usage(part, steps);
        let reason = text(part, "/reason");
        if reason == Some("length") {
            steps.warn(OUTPUT_LIMIT);
        }
        self.ending = reason.filter(|reason| *reason != "tool-calls").map(|_| RunEnding::Completed);
    }

    fn report_usage(&self, part: &Value, steps: &mut Steps) {
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

/// Reports a call. Opencode prints it when it is complete.
fn report_call(part: &Value, steps: &mut Steps) {
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
    let output = error.or(text(state, "/output")).unwrap_or_default().to_owned();
    steps.call_finished(id, tool_result(output, result_type));
}
