//! Reports of an engine program, turned into events of its session.

use baton_core::{EngineReport, WorkId};
use baton_engines::Report;
use baton_handle::ReportQueue;
use baton_protocol::ToolCallId;
use baton_protocol::event::{
    AssistantUsage, MessageDelta, MessageStart, ReasoningDelta, TokenCounts, ToolPartialResult,
};

use super::WorkScope;

/// Forwards the reports of one turn: deltas are shown as they arrive, everything else goes to the core.
pub(super) struct ReportSink<'a> {
    pub(super) scope: &'a WorkScope,
    queue: ReportQueue,
    /// Name of the engine.
    engine: &'static str,
    /// Id of the message that is being streamed.
    message_id: String,
    reasoning_id: String,
    started: bool,
    model: Option<String>,
}

impl<'a> ReportSink<'a> {
    pub(super) fn new(scope: &'a WorkScope, work: WorkId, engine: &'static str) -> Self {
        let queue = ReportQueue::new(work, scope.mailbox.clone(), scope.cancel.clone());
        Self {
            scope,
            queue,
            engine,
            message_id: new_id(),
            reasoning_id: new_id(),
            started: false,
            model: None,
        }
    }

    /// Sends a report to the core.
    pub(super) async fn send(&self, report: EngineReport) {
        self.queue.send(report).await;
    }

    /// Forwards a report.
    pub(super) async fn forward(&mut self, report: Report) {
        let report = match report {
            Report::TextDelta(delta_content) => return self.show_text(delta_content),
            Report::ReasoningDelta(delta_content) => return self.show_reasoning(delta_content),
            Report::CallOutput { id, output } => {
                let partial = ToolPartialResult { tool_call_id: ToolCallId(id), partial_output: output };
                return self.scope.show(partial);
            }
            Report::Retries(failure) => return self.scope.show(*failure),
            Report::Started { token, model } => {
                self.model = model;
                EngineReport::Thread(token.0)
            }
            Report::Message { text, reasoning } => self.message(text, reasoning),
            Report::Usage(usage) => self.usage(*usage),
            Report::CallStarted { id, tool, arguments } => {
                EngineReport::CallStarted { call: ToolCallId(id), tool, arguments }
            }
            Report::CallFinished { id, result } => {
                EngineReport::CallFinished { call: ToolCallId(id), result }
            }
            Report::Wants { reference, call, wants } => {
                EngineReport::Wants { reference, call: call.map(ToolCallId), wants, cwd: None }
            }
            Report::Asks { reference, question } => EngineReport::Asks { reference, question },
            Report::Withdrawn { reference } => EngineReport::Withdrawn { reference },
            Report::Note { warning, text } => EngineReport::Note { warning, text },
            Report::StandingWarning(text) => {
                let warnings = &self.scope.runtime.engine_warnings;
                if !warnings.is_new(self.engine, &text).await {
                    return;
                }
                EngineReport::Note { warning: true, text }
            }
        };
        self.send(report).await;
    }

    fn show_text(&mut self, delta_content: String) {
        if !self.scope.settings.streaming {
            return;
        }
        if !std::mem::replace(&mut self.started, true) {
            self.scope.show(MessageStart { message_id: self.message_id.clone() });
        }
        self.scope.show(MessageDelta { message_id: self.message_id.clone(), delta_content });
    }

    fn show_reasoning(&self, delta_content: String) {
        if self.scope.settings.streaming {
            self.scope.show(ReasoningDelta { reasoning_id: self.reasoning_id.clone(), delta_content });
        }
    }

    /// Ends the streamed message.
    fn message(&mut self, text: String, reasoning: Option<String>) -> EngineReport {
        self.started = false;
        self.reasoning_id = new_id();
        let message_id = std::mem::replace(&mut self.message_id, new_id());
        EngineReport::Message { message_id, text, reasoning, model: self.model.clone() }
    }

    /// Shows the usage of a model call, and reports its tokens.
    fn usage(&self, usage: AssistantUsage) -> EngineReport {
        let model = Some(usage.model.clone()).filter(|model| !model.is_empty()).or(self.model.clone());
        let tokens = TokenCounts {
            input: usage.input_tokens.unwrap_or_default(),
            output: usage.output_tokens.unwrap_or_default(),
            cache_read: usage.cache_read_tokens.unwrap_or_default(),
            cache_write: usage.cache_write_tokens.unwrap_or_default(),
            reasoning: usage.reasoning_tokens.unwrap_or_default(),
            duration_ms: usage.duration.unwrap_or_default(),
        };
        self.scope.show(AssistantUsage { model: model.clone().unwrap_or_default(), ..usage });
        EngineReport::Used { model, tokens }
    }
}

fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}
