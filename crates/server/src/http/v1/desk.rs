//! What waits for an answer in a workspace, one at a time: the client's terminal has room for one question.

use std::collections::VecDeque;

use super::fold::Pending;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    waiting: VecDeque<Pending>,
}

impl Desk {
    /// Puts something on the desk. Returns whether it is the one to be shown now.
    pub(crate) fn put(&mut self, pending: Pending) -> bool {
        if self.find(pending.id()).is_some() {
            return false;
        }
        self.waiting.push_back(pending);
        self.waiting.len() == 1
    }

    /// Takes something off the desk. Returns what is to be shown next, if that is another one now.
    pub(crate) fn remove(&mut self, id: &str) -> Option<&Pending> {
        let shown = self.shown().is_some_and(|pending| pending.id() == id);
        self.waiting.retain(|pending| pending.id() != id);
        self.shown().filter(|_| shown)
    }

    /// What is shown now.
    pub(crate) fn shown(&self) -> Option<&Pending> {
        self.waiting.front()
    }

    /// What waits under this name.
    pub(crate) fn find(&self, id: &str) -> Option<&Pending> {
        self.waiting.iter().find(|pending| pending.id() == id)
    }

    /// The oldest question to the user.
    pub(crate) fn question(&self) -> Option<&Pending> {
        self.waiting.iter().find(|pending| matches!(pending, Pending::Question(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::v1::wire::QuestionBatch;

    fn pending(id: &str) -> Pending {
        let batch = QuestionBatch {
            id: id.into(),
            session_id: "s".parse().unwrap(),
            tool_call_id: String::new(),
            questions: Vec::new(),
        };
        Pending::Question(batch)
    }

    #[test]
    fn one_is_shown_and_the_next_follows() {
        let mut desk = Desk::default();
        assert!(desk.put(pending("a")));
        assert!(!desk.put(pending("b")) && !desk.put(pending("c")) && !desk.put(pending("a")));
        assert!(desk.remove("b").is_none(), "what is shown stays");
        assert_eq!(desk.remove("a").map(Pending::id), Some("c"));
        assert!(desk.remove("c").is_none() && desk.shown().is_none());
    }
}
