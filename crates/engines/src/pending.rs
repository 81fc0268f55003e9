//! Requests of a program that wait for a client: permission requests, and questions to the user.
//!
//! An adapter registers a request together with the data that it needs to answer the program (`P` for a permission, `Q`
//! for questions), and gets that data back with the decision or the last answer. A program may ask several questions at
//! once and expects one response to all of them; clients answer them one by one.

use std::collections::{BTreeMap, HashMap};

use baton_protocol::event::UserQuestion;
use baton_protocol::permission::PermissionRequest;
use serde_json::Value;

use crate::Report;
use crate::adapter::Steps;
use crate::json::{list, text};

/// The open requests of one prompt.
#[derive(Debug)]
pub(crate) struct OpenRequests<P, Q = ()> {
    permissions: HashMap<String, P>,
    /// By the program's id of the request that contains the questions.
    questions: HashMap<String, QuestionSet<Q>>,
}

/// The questions of one request.
#[derive(Debug)]
struct QuestionSet<Q> {
    data: Q,
    /// The keys of unanswered questions, by reference.
    open: BTreeMap<String, String>,
    answers: Answers,
}

/// Answers with the keys of their questions.
pub(crate) type Answers = Vec<(String, String)>;

impl<P, Q> Default for OpenRequests<P, Q> {
    fn default() -> Self {
        Self { permissions: HashMap::new(), questions: HashMap::new() }
    }
}

impl<P, Q> OpenRequests<P, Q> {
    /// Forgets all requests, without answering them.
    pub(crate) fn clear(&mut self) {
        self.permissions.clear();
        self.questions.clear();
    }

    /// Reports a permission request about `call`, which is empty if the program names none.
    pub(crate) fn request_permission(
        &mut self,
        reference: &str,
        call: &str,
        request: PermissionRequest,
        data: P,
        steps: &mut Steps,
    ) {
        self.permissions.insert(reference.to_owned(), data);
        let call = Some(call.to_owned()).filter(|call| !call.is_empty());
        steps.report(Report::Wants { reference: reference.to_owned(), call, wants: Box::new(request) });
    }

    /// Removes a permission request that was decided. None if it is not pending.
    pub(crate) fn decided(&mut self, reference: &str) -> Option<P> {
        self.permissions.remove(reference)
    }

    /// Removes all permission requests.
    pub(crate) fn take_permissions(&mut self) -> impl Iterator<Item = P> + use<P, Q> {
        std::mem::take(&mut self.permissions).into_values()
    }

    /// Reports the questions of a request. Each has a key that identifies its answer. Returns `data` if there are none.
    pub(crate) fn ask(
        &mut self,
        request: &str,
        questions: impl IntoIterator<Item = (String, UserQuestion)>,
        data: Q,
        steps: &mut Steps,
    ) -> Option<Q> {
        let mut open = BTreeMap::new();
        for (number, (key, question)) in questions.into_iter().enumerate() {
            let reference = format!("{request}/{number}");
            open.insert(reference.clone(), key);
            steps.report(Report::Asks { reference, question });
        }
        if open.is_empty() {
            return Some(data);
        }
        self.questions.insert(request.to_owned(), QuestionSet { data, open, answers: Vec::new() });
        None
    }

    /// Stores an answer. Returns the id of the request, its data and all answers, once every question has one.
    pub(crate) fn answered(&mut self, reference: &str, answer: &str) -> Option<(String, Q, Answers)> {
        let (request, _) = reference.rsplit_once('/')?;
        let set = self.questions.get_mut(request)?;
        if let Some(key) = set.open.remove(reference) {
            set.answers.push((key, answer.to_owned()));
        }
        if !set.open.is_empty() {
            return None;
        }
        let (request, set) = self.questions.remove_entry(request)?;
        Some((request, set.data, set.answers))
    }

    /// Withdraws a request that the program no longer waits for.
    pub(crate) fn withdraw(&mut self, request: &str, steps: &mut Steps) {
        let questions = self.questions.remove(request).map(|set| set.open).unwrap_or_default();
        let permission = self.permissions.remove(request).map(|_| request.to_owned());
        for reference in questions.into_keys().chain(permission) {
            steps.report(Report::Withdrawn { reference });
        }
    }
}

/// Returns a question whose options are objects with a `label`. Without options, the user may type anything.
pub(crate) fn labelled_question(question: &Value, allow_freeform: bool) -> UserQuestion {
    let labels = list(question, "/options").filter_map(|option| text(option, "/label"));
    let choices = labels.map(str::to_owned).collect();
    user_question(text(question, "/question").unwrap_or_default(), choices, allow_freeform)
}

/// Returns a question with these choices. Without choices, the user may type anything.
pub(crate) fn user_question(question: &str, choices: Vec<String>, allow_freeform: bool) -> UserQuestion {
    UserQuestion {
        question: question.to_owned(),
        allow_freeform: Some(choices.is_empty() || allow_freeform),
        choices: Some(choices).filter(|choices| !choices.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::Step;

    fn two_questions() -> Vec<(String, UserQuestion)> {
        ["colour", "size"].map(|key| (key.to_owned(), user_question(key, Vec::new(), true))).into()
    }

    fn references(steps: &mut Steps) -> Vec<String> {
        let reports = std::iter::from_fn(|| steps.pop());
        reports
            .map(|step| match step {
                Step::Report(Report::Asks { reference, .. } | Report::Withdrawn { reference }) => reference,
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn answers_are_returned_once_all_questions_have_one() {
        let (mut pending, mut steps) = (OpenRequests::<(), u8>::default(), Steps::default());
        assert_eq!(pending.ask("r", two_questions(), 7, &mut steps), None);
        let references = references(&mut steps);
        assert_eq!(pending.answered(&references[1], "small"), None);
        assert_eq!(pending.answered(&references[1], "again"), None);
        assert_eq!(pending.answered("r/9", "unknown"), None);
        let answers = vec![("size".to_owned(), "small".to_owned()), ("colour".to_owned(), "red".to_owned())];
        assert_eq!(pending.answered(&references[0], "red"), Some(("r".to_owned(), 7, answers)));
        assert_eq!(pending.answered(&references[0], "late"), None);
    }

    #[test]
    fn only_unanswered_questions_are_withdrawn() {
        let (mut pending, mut steps) = (OpenRequests::<(), ()>::default(), Steps::default());
        pending.ask("r", two_questions(), (), &mut steps);
        let asked = references(&mut steps);
        pending.answered(&asked[0], "red");
        pending.withdraw("r", &mut steps);
        pending.withdraw("r", &mut steps);
        assert_eq!(references(&mut steps), asked[1..]);
    }

    #[test]
    fn request_without_questions_is_not_pending() {
        let (mut pending, mut steps) = (OpenRequests::<(), u8>::default(), Steps::default());
        assert_eq!(pending.ask("r", [], 7, &mut steps), Some(7));
        assert_eq!(pending.answered("r/0", "x"), None);
    }
}
