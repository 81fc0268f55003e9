//! Prices of models, as configured: what a number of tokens costs.

use std::collections::BTreeMap;

use baton_protocol::event::TokenCounts;
use serde::Deserialize;

/// Prices of one model, in US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Tokens of prompts.
    pub input: f64,
    /// Tokens of answers, reasoning included.
    pub output: f64,
    /// Tokens of prompts that came from the provider's cache; default: the price of other input.
    pub cache_read: Option<f64>,
    /// Tokens of prompts that were written to the provider's cache; default: the price of other input.
    pub cache_write: Option<f64>,
}

impl Price {
    /// Whether all prices are numbers that a price can be.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let all = [Some(self.input), Some(self.output), self.cache_read, self.cache_write];
        all.into_iter().flatten().all(|price| price.is_finite() && price >= 0.0)
    }

    /// Returns the cost in US dollars. The counts of a cache are part of the input.
    #[expect(clippy::cast_precision_loss, reason = "no session has 2^52 tokens")]
    fn cost(&self, tokens: &TokenCounts) -> f64 {
        let plain = tokens.input.saturating_sub(tokens.cache_read).saturating_sub(tokens.cache_write);
        let parts = [
            (plain, self.input),
            (tokens.cache_read, self.cache_read.unwrap_or(self.input)),
            (tokens.cache_write, self.cache_write.unwrap_or(self.input)),
            (tokens.output, self.output),
        ];
        parts.into_iter().map(|(count, price)| count as f64 * price / 1e6).sum()
    }
}

/// Prices by name of the model. A name that ends in `*` covers all models that begin so; the longest one counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Prices(pub BTreeMap<String, Price>);

impl Prices {
    fn of(&self, model: &str) -> Option<&Price> {
        let covers = |name: &str| name.strip_suffix('*').is_some_and(|start| model.starts_with(start));
        let covering = || self.0.iter().filter(|(name, _)| covers(name)).max_by_key(|(name, _)| name.len());
        self.0.get(model).or_else(|| covering().map(|(_, price)| price))
    }

    /// Returns the cost of tokens in US dollars; none if a model's price is not known, or nothing was used.
    pub fn cost<'a>(&self, usage: impl IntoIterator<Item = (&'a String, &'a TokenCounts)>) -> Option<f64> {
        usage.into_iter().try_fold(None, |sum: Option<f64>, (model, tokens)| {
            let cost = self.of(model)?.cost(tokens);
            Some(Some(sum.unwrap_or(0.0) + cost))
        })?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(input: f64, output: f64) -> Price {
        Price { input, output, cache_read: Some(0.1), cache_write: None }
    }

    #[test]
    fn cost_follows_from_the_tokens_of_all_models() {
        let prices =
            Prices([("big".to_owned(), price(3.0, 15.0)), ("small*".to_owned(), price(1.0, 2.0))].into());
        let tokens = TokenCounts {
            input: 2_000_000,
            cache_read: 1_000_000,
            output: 100_000,
            ..TokenCounts::default()
        };
        let cost = |models: &[&str]| {
            let usage: Vec<(String, TokenCounts)> =
                models.iter().map(|name| ((*name).to_owned(), tokens)).collect();
            prices.cost(usage.iter().map(|(name, tokens)| (name, tokens)))
        };
        let is = |found: Option<f64>, wanted: f64| found.is_some_and(|found| (found - wanted).abs() < 1e-9);
        assert!(is(cost(&["big"]), 4.6), "{:?}", cost(&["big"]));
        assert!(is(cost(&["big", "small-2"]), 5.9), "{:?}", cost(&["big", "small-2"]));
        assert_eq!(cost(&["big", "unknown"]), None, "a part would be taken for the whole");
        assert_eq!(cost(&[]), None);
    }
}
