//! Pending requests: opened and closed by events.

use baton_protocol::event::{Body, Question as ProtocolQuestion, RequestOpened, UserQuestion};

use super::{Change, Fold};
use crate::tools;
use crate::wire::{Choice, PermissionRequest, Question, QuestionBatch};

/// A pending request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PendingRequest {
    Permission(PermissionRequest),
    Question(QuestionBatch),
}

impl PendingRequest {
    pub(crate) fn id(&self) -> &str {
        match self {
            Self::Permission(request) => &request.id,
            Self::Question(batch) => &batch.id,
        }
    }
}

/// A request that is no longer pending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClosedRequest {
    pub(crate) id: String,
    pub(crate) tool_call_id: String,
    /// Whether a permission was granted; none for a question.
    pub(crate) granted: Option<bool>,
}

impl Fold {
    pub(super) fn request_event(&mut self, body: &Body) -> Vec<Change> {
        let opened = match body {
            Body::PermissionRequested(requested) => {
                let (id, request) = (&requested.request_id, &requested.permission_request);
                let call = request.tool_call_id().and_then(|id| self.call(id));
                PendingRequest::Permission(tools::permission(id, &self.session, request, call, self.cwd()))
            }
            // Crush's client cannot show a plan; clients of other doors can.
            Body::RequestOpened(RequestOpened { question: ProtocolQuestion::Plan(_), .. }) => {
                return Vec::new();
            }
            Body::RequestOpened(RequestOpened {
                request_id,
                tool_call_id,
                question: ProtocolQuestion::UserInput(asked),
            }) => {
                let call = tool_call_id.as_ref().map(ToString::to_string).unwrap_or_default();
                PendingRequest::Question(self.batch(request_id.to_string(), call, asked))
            }
            Body::PermissionCompleted(completed) => {
                let granted = crate::requests::is_granted(&completed.result);
                return self.close(completed.request_id.as_str(), Some(granted));
            }
            Body::RequestClosed(closed) => return self.close(closed.request_id.as_str(), None),
            _ => return Vec::new(),
        };
        self.pending.push(opened.clone());
        vec![Change::RequestOpened(opened)]
    }

    fn batch(&self, id: String, tool_call_id: String, asked: &UserQuestion) -> QuestionBatch {
        let choices = asked.choices.iter().flatten().enumerate();
        let choices: Vec<Choice> =
            choices.map(|(n, label)| Choice { id: format!("choice-{n}"), label: label.clone() }).collect();
        let kind = if choices.is_empty() { "free_text" } else { "single_choice" };
        let question = Question { id: "question".into(), kind, question: asked.question.clone(), choices };
        QuestionBatch { id, session_id: self.session.clone(), tool_call_id, questions: vec![question] }
    }

    fn close(&mut self, id: &str, granted: Option<bool>) -> Vec<Change> {
        let Some(at) = self.pending.iter().position(|pending| pending.id() == id) else { return Vec::new() };
        let tool_call_id = match self.pending.remove(at) {
            PendingRequest::Permission(request) => request.tool_call_id,
            PendingRequest::Question(batch) => batch.tool_call_id,
        };
        vec![Change::RequestClosed(ClosedRequest { id: id.to_owned(), tool_call_id, granted })]
    }
}
