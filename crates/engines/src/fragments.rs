//! Assembles what programs print in fragments: thoughts before a message, and the growing output of a call.

use std::collections::HashMap;

use crate::Report;
use crate::adapter::Steps;

/// Thoughts beyond this many bytes are left out: a model may think without end.
const MOST_THOUGHTS: usize = 4 * 1024 * 1024;

/// Thoughts of the model since its last message.
#[derive(Debug, Default)]
pub(crate) struct Thoughts {
    texts: Vec<String>,
    bytes: usize,
}

impl Thoughts {
    pub(crate) fn extend<T: Into<String>>(&mut self, thoughts: impl IntoIterator<Item = T>) {
        for thought in thoughts.into_iter().map(Into::into) {
            if self.bytes < MOST_THOUGHTS {
                // Joined with the next one by two bytes.
                self.bytes += thought.len() + 2;
                self.texts.push(thought);
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Reports a message with the thoughts that preceded it.
    pub(crate) fn message(&mut self, text: impl Into<String>, steps: &mut Steps) {
        let thoughts = std::mem::take(self).texts;
        let reasoning = (!thoughts.is_empty()).then(|| thoughts.join("\n\n"));
        steps.report(Report::Message { text: text.into(), reasoning });
    }
}

/// The output of running calls, for programs that repeat all of it with every update.
#[derive(Debug, Default)]
pub(crate) struct CallOutputs(HashMap<String, String>);

impl CallOutputs {
    /// Reports the part of `output` that is new. Nothing is reported when `output` does not continue what was reported
    /// before: some programs repeat only the end of long output. The result of the call contains all of it.
    pub(crate) fn update(&mut self, id: &str, output: String, steps: &mut Steps) {
        let reported = self.0.entry(id.to_owned()).or_default();
        if let Some(new) = output.strip_prefix(reported.as_str()) {
            steps.report(Report::CallOutput { id: id.to_owned(), output: new.to_owned() });
            *reported = output;
        }
    }

    /// Forgets a call that has finished.
    pub(crate) fn remove(&mut self, id: &str) {
        self.0.remove(id);
    }
}
