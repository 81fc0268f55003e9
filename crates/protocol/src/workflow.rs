//! Workflows as clients declare them. Older SDKs call them factories.

use serde::{Deserialize, Serialize};

/// A workflow, as the client that has its code declares it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub description: String,
    /// Its phases.
    pub phases: Vec<Phase>,
    /// Its limits.
    pub limits: Limits,
}

/// Names of the protocol: older SDKs say factory where newer ones say workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Vocabulary {
    /// Names of older SDKs.
    Factory,
    /// Names of newer SDKs.
    Workflow,
}

impl Vocabulary {
    /// Returns the method that executes a run.
    #[must_use]
    pub fn execute(self) -> &'static str {
        match self {
            Self::Factory => "factory.execute",
            Self::Workflow => "workflow.execute",
        }
    }

    /// Returns the method that aborts an execution.
    #[must_use]
    pub fn abort(self) -> &'static str {
        match self {
            Self::Factory => "factory.abort",
            Self::Workflow => "workflow.abort",
        }
    }

    /// Returns the prefix of kinds of events.
    #[must_use]
    pub fn events(self) -> &'static str {
        match self {
            Self::Factory => "factory",
            Self::Workflow => "workflow",
        }
    }

    /// Returns the field that names a workflow.
    #[must_use]
    pub fn name_field(self) -> &'static str {
        match self {
            Self::Factory => "factoryName",
            Self::Workflow => "workflowName",
        }
    }
}

/// A phase of a workflow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Phase {
    /// Its title.
    pub title: String,
    /// Its description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Limits of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Limits {
    /// Sub-agents that work at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent_subagents: Option<f64>,
    /// Sub-agents in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_total_subagents: Option<f64>,
    /// Time of one attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
    /// Credits. Shown, and not enforced: models of this server have prices, not credits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ai_credits: Option<f64>,
}

impl Limits {
    /// Checks the limits.
    ///
    /// # Errors
    /// With the limit that cannot be used.
    pub fn check(&self) -> Result<(), String> {
        let whole = [
            ("maxConcurrentSubagents", self.max_concurrent_subagents),
            ("maxTotalSubagents", self.max_total_subagents),
        ];
        for (name, value) in whole {
            if value.is_some_and(|value| value < 1.0 || value.fract() != 0.0 || value > 1e6) {
                return Err(format!("the limit {name} must be a positive whole number"));
            }
        }
        let positive = [("timeoutSeconds", self.timeout_seconds), ("maxAiCredits", self.max_ai_credits)];
        for (name, value) in positive {
            if value.is_some_and(|value| !(value > 0.0 && value <= 1e9)) {
                return Err(format!("the limit {name} must be a positive number"));
            }
        }
        Ok(())
    }

    /// Returns these limits, with others in their place where those are set.
    #[must_use]
    pub fn replaced_by(self, others: Self) -> Self {
        Self {
            max_concurrent_subagents: others.max_concurrent_subagents.or(self.max_concurrent_subagents),
            max_total_subagents: others.max_total_subagents.or(self.max_total_subagents),
            timeout_seconds: others.timeout_seconds.or(self.timeout_seconds),
            max_ai_credits: others.max_ai_credits.or(self.max_ai_credits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_checked_and_enforced() {
        for wrong in [0.0, -1.0, 1.5, f64::NAN] {
            let limits = Limits { max_total_subagents: Some(wrong), ..Limits::default() };
            assert!(limits.check().is_err() || wrong.is_nan(), "{wrong}");
            let limits = Limits { timeout_seconds: Some(-wrong.abs()), ..Limits::default() };
            assert!(limits.check().is_err(), "{wrong}");
        }
    }
}
