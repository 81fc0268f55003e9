//! Reports changes of watched sessions to the workspace's streams.

use std::sync::Arc;

use baton_core::ask::AnswerRequest;
use baton_core::{AnswerOutcome, RequestAnswer};
use baton_protocol::{Author, RequestId, SessionId};

use super::fold::{Change, PendingRequest};
use super::wire::{ChangeKind, Session as Row, encode};
use super::workspace::Workspace;
use super::{events, lock};

impl Workspace {
    /// Shows a request to the clients, or approves it if the workspace skips permissions.
    pub(super) fn open_request(self: &Arc<Self>, session: &SessionId, pending: PendingRequest, is_run: bool) {
        let is_unattended = self.skips_permissions() || (self.settings.approve_runs && is_run);
        if let PendingRequest::Permission(request) = &pending
            && is_unattended
            && self.has_prompted(session)
        {
            let request = RequestId(request.id.clone());
            return self.approve(session, request, pending);
        }
        self.show(pending);
    }

    fn show(&self, pending: PendingRequest) {
        let mut dialogs = lock(&self.dialogs);
        let (opened, waiting) = (events::request_opened(&pending), events::permission_pending(&pending));
        if dialogs.find(pending.id()).is_none() {
            waiting.iter().for_each(|event| self.feed.publish(event));
        }
        if dialogs.push(pending) {
            self.feed.publish(&opened);
        }
    }

    /// Approves a request without the user. Shows it if the policy refuses that: allow-all mode would not allow it either.
    fn approve(self: &Arc<Self>, session: &SessionId, request: RequestId, pending: PendingRequest) {
        let live = self.service.open_existing(&self.caller, session);
        let workspace = Arc::clone(self);
        let person = self.prompting_person(session);
        let by = person.map_or_else(Author::unattended, |person| person.approving_everything());
        let answer = Box::new(RequestAnswer::ApproveUnattended(by.clone()));
        let ask = AnswerRequest { request, answer, by: Some(by) };
        let show_if_refused = move |outcome| {
            if matches!(outcome, Ok(AnswerOutcome::Refused(_))) {
                workspace.show(pending);
            }
        };
        drop(live.ask_then(ask, show_if_refused));
    }

    /// Publishes a change of a session.
    pub(super) fn report(self: &Arc<Self>, session: &SessionId, row: &Row, is_run: bool, change: Change) {
        match change {
            Change::RequestOpened(pending) => self.open_request(session, pending, is_run),
            Change::RequestClosed(closed) => {
                let mut dialogs = lock(&self.dialogs);
                self.feed.publish(&events::request_closed(&closed));
                if let Some(next) = dialogs.remove(&closed.id) {
                    self.feed.publish(&events::request_opened(next));
                }
            }
            _ if !self.feed.has_readers() => {}
            Change::Message(kind, message) => self.feed.publish(&encode("message", kind, &message)),
            Change::Session(kind) => self.feed.publish(&encode("session", kind, row)),
            Change::Run(run) => self.feed.publish(&encode("run_complete", ChangeKind::Updated, &run)),
            Change::TurnCompleted => self.feed.publish(&events::agent_finished(row)),
            Change::Error(error) => self.feed.publish(&events::agent_error(session, &error)),
        }
    }
}
