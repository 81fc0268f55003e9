//! Reasoning settings for models of this API, and the limit on the answer that they require.
//!
//! Models from Claude 4.6 on decide how long to think and take an effort. Older ones take a token budget,
//! which models from 4.7 on refuse. The model's name decides.

use serde::Serialize;

use crate::{Message, Request, opaque};

/// A limit that every model from Claude 4 on accepts, and that no answer of an agent reaches.
const DEFAULT_LIMIT: u64 = 32_000;

/// The `thinking` field of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum Thinking {
    /// As long as the model decides.
    Adaptive,
    /// Up to this many tokens.
    Enabled { budget_tokens: u64 },
}

/// The fields of a request that concern reasoning.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Settings<'a> {
    pub(super) thinking: Option<Thinking>,
    pub(super) effort: Option<&'a str>,
    pub(super) max_tokens: u64,
}

/// Determines the settings of a request.
pub(super) fn settings(request: &Request) -> Settings<'_> {
    let version = version(&request.model);
    let limit = request.max_output_tokens.unwrap_or_else(|| default_limit(version));
    let without_reasoning = Settings { thinking: None, effort: None, max_tokens: limit };
    let Some(effort) = request.reasoning_effort.as_deref().filter(|effort| *effort != "none") else {
        return without_reasoning;
    };
    if version.is_some_and(|version| version >= (4, 6)) {
        return Settings { thinking: Some(Thinking::Adaptive), effort: Some(effort), max_tokens: limit };
    }
    if !has_required_reasoning(request) {
        return without_reasoning;
    }
    let budget_tokens = match effort {
        "minimal" | "low" => 2_048,
        "medium" => 8_192,
        _ => 16_384,
    };
    // The budget is part of the limit, and must be smaller.
    let max_tokens = if request.max_output_tokens.is_some() { limit } else { limit.max(budget_tokens * 2) };
    let budget_tokens = budget_tokens.min(max_tokens / 2);
    // The API refuses a smaller budget.
    if budget_tokens < 1_024 {
        return without_reasoning;
    }
    Settings { thinking: Some(Thinking::Enabled { budget_tokens }), effort: None, max_tokens }
}

/// Whether the reasoning that led to the current tool calls is present. The provider requires it, and it is
/// missing if another model made the calls, or this one without reasoning.
fn has_required_reasoning(request: &Request) -> bool {
    let since_user_message = request.messages.iter().rev().take_while(|m| !matches!(&***m, Message::User(_)));
    since_user_message.into_iter().all(|message| match &**message {
        Message::Assistant { reasoning_opaque, .. } => {
            !opaque::untag::<serde::de::IgnoredAny>(reasoning_opaque.as_deref(), super::WIRE, &request.model)
                .is_empty()
        }
        _ => true,
    })
}

/// Before Claude 4, limits were lower, and the API refused a higher one.
fn default_limit(version: Option<(u32, u32)>) -> u64 {
    match version {
        Some((3, 0)) => 4_096,
        Some((3, 5)) => 8_192,
        _ => DEFAULT_LIMIT,
    }
}

/// Parses the version in a name such as `claude-sonnet-4-5-20250929`, `claude-opus-4.6` or
/// `claude-3-haiku-20240307`.
fn version(model: &str) -> Option<(u32, u32)> {
    let (_, name) = model.split_once("claude")?;
    // Longer numbers are dates.
    let mut numbers = name.split(['-', '.', '@', '_', ':']).skip_while(|part| !is_small_number(part));
    let major = numbers.next()?.parse().ok()?;
    let minor = numbers.next().filter(|part| is_small_number(part)).and_then(|part| part.parse().ok());
    Some((major, minor.unwrap_or(0)))
}

fn is_small_number(text: &str) -> bool {
    matches!(text.len(), 1 | 2) && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Part, ToolCall};

    #[test]
    fn version_is_parsed_from_the_name() {
        for (name, expected) in [
            ("claude-sonnet-4-5-20250929", Some((4, 5))),
            ("claude-opus-4.6", Some((4, 6))),
            ("claude-opus-4-20250514", Some((4, 0))),
            ("claude-3-haiku-20240307", Some((3, 0))),
            ("anthropic/claude-3.5-sonnet", Some((3, 5))),
            ("claude-sonnet-5", Some((5, 0))),
            ("claude-3-5-sonnet@20240620", Some((3, 5))),
            ("claude-instant", None),
            ("gpt-5.2", None),
        ] {
            assert_eq!(version(name), expected, "{name}");
        }
    }

    fn request(model: &str, effort: &str) -> Request {
        Request { model: model.into(), reasoning_effort: Some(effort.into()), ..Request::default() }
    }

    #[test]
    fn old_models_get_a_budget_and_new_ones_an_effort() {
        let new = Settings { thinking: Some(Thinking::Adaptive), effort: Some("high"), max_tokens: 32_000 };
        assert_eq!(settings(&request("claude-opus-4-8", "high")), new);
        let budget = |budget_tokens, max_tokens| Settings {
            thinking: Some(Thinking::Enabled { budget_tokens }),
            effort: None,
            max_tokens,
        };
        assert_eq!(settings(&request("claude-sonnet-4-5", "high")), budget(16_384, 32_768));
        assert_eq!(settings(&request("claude-sonnet-4-5", "low")), budget(2_048, 32_000));
        let short = Request { max_output_tokens: Some(4_000), ..request("claude-sonnet-4-5", "high") };
        assert_eq!(settings(&short), budget(2_000, 4_000));
        let without_reasoning = |max_tokens| Settings { thinking: None, effort: None, max_tokens };
        let shorter = Request { max_output_tokens: Some(1_000), ..request("claude-sonnet-4-5", "high") };
        assert_eq!(settings(&shorter), without_reasoning(1_000));
        let unasked = Request { reasoning_effort: None, ..request("claude-3-haiku-20240307", "") };
        assert_eq!(settings(&unasked), without_reasoning(4_096));
    }

    #[test]
    fn reasoning_is_disabled_if_earlier_reasoning_is_missing() {
        let answered = |opaque: Option<String>| Message::Assistant {
            text: String::new(),
            tool_calls: vec![ToolCall { id: "1".into(), name: "f".into(), arguments: "{}".into() }],
            reasoning_opaque: opaque,
        };
        let check = |opaque: Option<String>, thinks: bool| {
            let user = Message::User(vec![Part::Text("hi".into())]);
            let result = Message::Tool { call_id: "1".into(), content: "r".into(), failed: false };
            let messages = [user, answered(opaque), result].map(Arc::new).to_vec();
            let request = Request { messages, ..request("claude-sonnet-4-5", "high") };
            assert_eq!(settings(&request).thinking.is_some(), thinks);
        };
        check(opaque::tag(super::super::WIRE, "claude-sonnet-4-5", &["thought"]), true);
        check(opaque::tag(super::super::WIRE, "claude-sonnet-4", &["thought"]), false);
        check(None, false);
    }
}
