//! The error of a request body that arrives too slowly. Each HTTP API reports it in its own format.

use std::error::Error;
use std::time::Duration;

/// The body of a request did not arrive in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the body of the request did not arrive within {0:?}")]
pub struct SlowBody(pub Duration);

impl SlowBody {
    /// Finds this error among the causes of `error`.
    #[must_use]
    pub fn among_causes_of(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(slow) = error.downcast_ref() {
                return Some(*slow);
            }
            cause = error.source();
        }
        None
    }
}
