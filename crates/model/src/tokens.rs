//! What an answer cost, as both of OpenAI's APIs say it, in two sets of words.

use serde::Deserialize;
use serde_with::apply;

use crate::Usage;
use crate::lenient::lenient;

/// The count of an answer.
#[apply(_ => #[serde(deserialize_with = "lenient")])]
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WireUsage {
    prompt_tokens: u64,
    input_tokens: u64,
    completion_tokens: u64,
    output_tokens: u64,
    /// What some say instead of the details.
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

impl WireUsage {
    /// In whichever words it is said; some say it in both. `None` when all is zero: no answer costs nothing, so that is a
    /// provider which does not count.
    pub(crate) fn counted(&self) -> Option<Usage> {
        let input = self.prompt_tokens.max(self.input_tokens);
        let output = self.completion_tokens.max(self.output_tokens);
        let read = [&self.prompt_tokens_details, &self.input_tokens_details];
        let written = [&self.completion_tokens_details, &self.output_tokens_details];
        let cached = read.map(|details| details.cached_tokens).into_iter().max().unwrap_or(0);
        (input.saturating_add(output) > 0).then_some(Usage {
            input,
            output,
            cache_read: cached.max(self.prompt_cache_hit_tokens),
            cache_write: read.map(|details| details.cache_write_tokens).into_iter().max().unwrap_or(0),
            reasoning: written.map(|details| details.reasoning_tokens).into_iter().max().unwrap_or(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sets_of_words_mean_the_same() {
        let counted = |json: &str| serde_json::from_str::<WireUsage>(json).unwrap().counted();
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
