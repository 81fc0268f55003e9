//! Queue of the pending requests of a workspace. The client's terminal shows one dialog at a time.

use std::collections::VecDeque;

use super::fold::PendingRequest;

/// Pending requests in the order of their dialogs. The first one is shown.
#[derive(Debug, Default)]
pub(crate) struct DialogQueue {
    pending: VecDeque<PendingRequest>,
}

impl DialogQueue {
    /// Adds a request, unless it is queued already. Returns whether it is to be shown now.
    pub(crate) fn push(&mut self, pending: PendingRequest) -> bool {
        if self.find(pending.id()).is_some() {
            return false;
        }
        self.pending.push_back(pending);
        self.pending.len() == 1
    }

    /// Removes a request. Returns the one to show next, if the removed one was shown.
    pub(crate) fn remove(&mut self, id: &str) -> Option<&PendingRequest> {
        let shown = self.shown().is_some_and(|pending| pending.id() == id);
        self.pending.retain(|pending| pending.id() != id);
        self.shown().filter(|_| shown)
    }

    /// Returns the request that is shown.
    pub(crate) fn shown(&self) -> Option<&PendingRequest> {
        self.pending.front()
    }

    /// Returns the pending request with this id.
    pub(crate) fn find(&self, id: &str) -> Option<&PendingRequest> {
        self.pending.iter().find(|pending| pending.id() == id)
    }

    /// Returns the oldest question to the user.
    pub(crate) fn question(&self) -> Option<&PendingRequest> {
        self.pending.iter().find(|pending| matches!(pending, PendingRequest::Question(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::QuestionBatch;

    fn pending(id: &str) -> PendingRequest {
        let batch = QuestionBatch {
            id: id.into(),
            session_id: "s".parse().unwrap(),
            tool_call_id: String::new(),
            questions: Vec::new(),
        };
        PendingRequest::Question(batch)
    }

    #[test]
    fn one_request_is_shown_at_a_time() {
        let mut dialogs = DialogQueue::default();
        assert!(dialogs.push(pending("a")));
        assert!(!dialogs.push(pending("b")) && !dialogs.push(pending("c")) && !dialogs.push(pending("a")));
        assert!(dialogs.remove("b").is_none(), "a is still shown");
        assert_eq!(dialogs.remove("a").map(PendingRequest::id), Some("c"));
        assert!(dialogs.remove("c").is_none() && dialogs.shown().is_none());
    }
}
