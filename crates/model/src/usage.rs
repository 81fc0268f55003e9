//! Token usage as reported by providers: Anthropic's format, and OpenAI's with its two sets of field names.

use serde::Deserialize;
use serde_with::apply;

use crate::Usage;
use crate::lenient::lenient;

/// Usage in the formats of OpenAI's chat completions and Responses, which differ in the names of the fields.
#[apply(_ => #[serde(deserialize_with = "lenient")])]
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct OpenAiUsage {
    prompt_tokens: u64,
    input_tokens: u64,
    completion_tokens: u64,
    output_tokens: u64,
    /// Sent by some providers instead of the details.
    prompt_cache_hit_tokens: u64,
    prompt_tokens_details: Details,
    input_tokens_details: Details,
    completion_tokens_details: Details,
    output_tokens_details: Details,
}

#[apply(_ => #[serde(deserialize_with = "lenient")])]
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    cached_tokens: u64,
    cache_write_tokens: u64,
    reasoning_tokens: u64,
}

impl OpenAiUsage {
    /// Converts to our format. Some providers send the fields under both names.
    pub(crate) fn counted(&self) -> Option<Usage> {
        let input = self.prompt_tokens.max(self.input_tokens);
        let output = self.completion_tokens.max(self.output_tokens);
        let read = [&self.prompt_tokens_details, &self.input_tokens_details];
        let written = [&self.completion_tokens_details, &self.output_tokens_details];
        let cached = read.map(|details| details.cached_tokens).into_iter().max().unwrap_or(0);
        Usage {
            input,
            output,
            cache_read: cached.max(self.prompt_cache_hit_tokens),
            cache_write: read.map(|details| details.cache_write_tokens).into_iter().max().unwrap_or(0),
            reasoning: written.map(|details| details.reasoning_tokens).into_iter().max().unwrap_or(0),
        }
        .if_reported()
    }
}

/// Usage in Anthropic's format, in which the cached input is counted separately.
#[apply(_ => #[serde(deserialize_with = "lenient")])]
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AnthropicUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

impl AnthropicUsage {
    /// Updates the fields that are present: the end of a stream may repeat those of its start, or omit them.
    pub(crate) fn update(&mut self, newer: &Self) {
        self.input_tokens = newer.input_tokens.or(self.input_tokens);
        self.output_tokens = newer.output_tokens.or(self.output_tokens);
        self.cache_read_input_tokens = newer.cache_read_input_tokens.or(self.cache_read_input_tokens);
        self.cache_creation_input_tokens =
            newer.cache_creation_input_tokens.or(self.cache_creation_input_tokens);
    }

    /// Converts to our format.
    pub(crate) fn counted(&self) -> Option<Usage> {
        let cache_read = self.cache_read_input_tokens.unwrap_or(0);
        let cache_write = self.cache_creation_input_tokens.unwrap_or(0);
        Usage {
            input: self.input_tokens.unwrap_or(0).saturating_add(cache_read).saturating_add(cache_write),
            output: self.output_tokens.unwrap_or(0),
            cache_read,
            cache_write,
            reasoning: 0,
        }
        .if_reported()
    }
}

impl Usage {
    /// Returns the usage unless input and output are both zero: no answer is free, so the provider does not count.
    fn if_reported(self) -> Option<Self> {
        (self.input > 0 || self.output > 0).then_some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sets_of_names_are_equivalent() {
        let counted = |json: &str| baton_json::from_str::<OpenAiUsage>(json).unwrap().counted();
        let expected = Usage { input: 9, output: 3, cache_read: 4, cache_write: 0, reasoning: 2 };
        let chat = r#"{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4},
                       "completion_tokens_details":{"reasoning_tokens":2}}"#;
        let responses = r#"{"input_tokens":9,"output_tokens":3,"input_tokens_details":{"cached_tokens":4},
                            "output_tokens_details":{"reasoning_tokens":2}}"#;
        assert_eq!((counted(chat), counted(responses)), (Some(expected), Some(expected)));
        assert_eq!(
            counted(r#"{"prompt_tokens":0,"completion_tokens":null,"prompt_tokens_details":7}"#),
            None
        );
    }
}
