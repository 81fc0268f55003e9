//! Channels: how a notification reaches a receiver.

pub(crate) mod push;
pub(crate) mod telegram;
pub(crate) mod webhook;

use baton_model::http::TransportError;

use crate::exchange::Response;
use crate::outbox::Settlement;

/// Result of an attempt, with the reason of a failure for the log and for `baton notify test`.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) settlement: Settlement,
    pub(crate) problem: Option<String>,
    /// Whether the receiver does not exist any more.
    pub(crate) is_gone: bool,
}

impl Attempt {
    pub(crate) fn delivered(receipt: Option<String>) -> Self {
        Self { settlement: Settlement::Delivered { receipt }, problem: None, is_gone: false }
    }

    pub(crate) fn refused(problem: impl Into<String>) -> Self {
        Self { settlement: Settlement::Refused, problem: Some(problem.into()), is_gone: false }
    }

    pub(crate) fn gone(problem: impl Into<String>) -> Self {
        Self { is_gone: true, ..Self::refused(problem) }
    }

    pub(crate) fn failed(problem: impl Into<String>, pause: Option<std::time::Duration>) -> Self {
        Self { settlement: Settlement::Failed { pause }, problem: Some(problem.into()), is_gone: false }
    }

    /// Reads the result from a response: success, refusal, or a failure that may pass.
    pub(crate) fn of(response: Result<Response, TransportError>) -> Self {
        match response {
            Ok(response) => Self::of_status(&response),
            Err(error @ (TransportError::Closed(_) | TransportError::Invalid(_))) => {
                Self::refused(error.to_string())
            }
            Err(error) => Self::failed(error.to_string(), None),
        }
    }

    fn of_status(response: &Response) -> Self {
        let problem = || format!("the receiver answered with status {}", response.status);
        match response.status {
            200..=299 => Self::delivered(None),
            408 | 425 | 429 | 500..=599 => Self::failed(problem(), response.pause),
            _ => Self::refused(problem()),
        }
    }
}
