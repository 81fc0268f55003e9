//! A builder of session histories, and short forms of the resulting messages.

use baton_protocol::event::{
    AssistantMessage, MessageDelta, Outcome, Prompt, PromptAccepted, TokenCounts, ToolComplete,
    ToolCompleteResult, ToolRequest, TurnEnd, TurnSettled, TurnStart,
};
use baton_protocol::{EventId, Json};
use serde_json::Value;
use uuid::Uuid;

use super::super::*;

/// Events of a session, one per second.
#[derive(Default)]
pub(super) struct History(pub(super) Vec<Event>);

impl History {
    pub(super) fn then(mut self, body: impl Into<Body>) -> Self {
        let n = self.0.len() as u128 + 1;
        let body = body.into();
        self.0.push(Event {
            id: EventId(Uuid::from_u128(n)),
            timestamp: Timestamp(n as i64 * 1000),
            parent_id: None,
            agent_id: None,
            ephemeral: body.is_ephemeral(),
            body,
        });
        self
    }

    pub(super) fn accepted(self, n: u128, run: Option<&str>) -> Self {
        let key = run.map(|run| format!("{RUN_KEY_PREFIX}{run}"));
        self.then(PromptAccepted { prompt_id: prompt(n), prompt: Prompt { key, ..Prompt::default() } })
    }

    pub(super) fn user(self, n: u128, text: &str) -> Self {
        self.then(user_message(n, text))
    }

    pub(super) fn round_starts(self) -> Self {
        self.then(TurnStart { turn_id: "0".into(), interaction_id: None, model: None })
    }

    pub(super) fn delta(self, stream: &str, text: &str) -> Self {
        self.then(MessageDelta { message_id: stream.into(), delta_content: text.into() })
    }

    pub(super) fn responds(self, text: &str, calls: &[(&str, &str, &str)]) -> Self {
        let tool_requests = calls.iter().map(|(id, name, arguments)| ToolRequest {
            tool_call_id: (*id).into(),
            name: (*name).into(),
            arguments: Json::from_text(arguments).ok(),
            kind: None,
            mcp_server_name: None,
            mcp_tool_name: None,
            tool_title: None,
        });
        self.then(AssistantMessage {
            message_id: "m".into(),
            model: Some("gpt".into()),
            content: text.into(),
            tool_requests: tool_requests.collect(),
            interaction_id: None,
            turn_id: None,
            reasoning_text: None,
            reasoning_opaque: None,
            citations: None,
            output_tokens: None,
            api_call_id: None,
            request_id: None,
            tokens: Some(TokenCounts { input: 10, cache_read: 5, output: 3, ..TokenCounts::default() }),
            parent_tool_call_id: None,
        })
    }

    pub(super) fn result(self, call: &str, text: &str) -> Self {
        self.then(ToolComplete {
            tool_call_id: call.into(),
            success: true,
            model: None,
            interaction_id: None,
            turn_id: None,
            result: Some(ToolCompleteResult { content: text.into(), ..ToolCompleteResult::default() }),
            error: None,
            tool_telemetry: None,
            parent_tool_call_id: None,
        })
    }

    pub(super) fn round_ends(self) -> Self {
        self.then(TurnEnd { turn_id: "0".into(), model: None })
    }

    pub(super) fn settles(self, prompts: &[u128], outcome: Outcome) -> Self {
        let prompt_ids = prompts.iter().map(|n| prompt(*n)).collect();
        self.then(TurnSettled { prompt_ids, outcome, reason: "because".into() })
    }

    /// Returns all changes, except those of the list entry.
    pub(super) fn changes(&self) -> Vec<Change> {
        let mut fold = fold();
        let changes = self.0.iter().flat_map(|event| {
            let mut changes = fold.apply(event);
            changes.extend(fold.flush());
            changes
        });
        changes.filter(|change| !matches!(change, Change::Session(_))).collect()
    }

    pub(super) fn messages(&self) -> Vec<Value> {
        let mut fold = fold();
        self.0.iter().for_each(|event| drop(fold.apply(event)));
        fold.messages().iter().map(|message| serde_json::to_value(message).unwrap()).collect()
    }
}

pub(super) fn fold() -> Fold {
    Fold::new("s".parse().unwrap())
}

pub(super) fn prompt(n: u128) -> PromptId {
    PromptId(Uuid::from_u128(1000 + n))
}

pub(super) fn user_message(n: u128, text: &str) -> UserMessage {
    UserMessage {
        content: text.into(),
        transformed_content: None,
        attachments: Vec::new(),
        agent_mode: None,
        delivery: None,
        interaction_id: None,
        turn_id: None,
        source: None,
        message_id: Some(prompt(n)),
    }
}

pub(super) fn history() -> History {
    History::default()
}

/// Summarises role and parts of a message: `assistant text=hi finish=end_turn`.
pub(super) fn summary(message: &Value) -> String {
    let part = |part: &Value| {
        let data = &part["data"];
        let text = match part["type"].as_str().unwrap() {
            "text" => &data["text"],
            "reasoning" => &data["thinking"],
            "tool_call" => &data["name"],
            "tool_result" => &data["content"],
            "shell_command" => &data["command"],
            "finish" => &data["reason"],
            _ => &Value::Null,
        };
        format!(" {}={}", part["type"].as_str().unwrap(), text.as_str().unwrap_or_default())
    };
    let parts: String = message["parts"].as_array().unwrap().iter().map(part).collect();
    format!("{}{parts}", message["role"].as_str().unwrap())
}

pub(super) fn summaries(history: &History) -> Vec<String> {
    history.messages().iter().map(summary).collect()
}

pub(super) fn runs(history: &History) -> Vec<Value> {
    let changes = history.changes().into_iter();
    changes
        .filter_map(|change| match change {
            Change::Run(run) => serde_json::to_value(run).ok(),
            _ => None,
        })
        .collect()
}
