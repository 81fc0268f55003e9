//! Logins at MCP servers: requests of the session, beside its turns. A turn does not wait for a login: it continues without
//! the server, which a later turn can use.

use baton_protocol::event::{LoginRequested, RequestClosed};
use baton_protocol::{Author, Json, RequestId};

use super::Step;
use crate::ask::{AnswerOutcome, AnswerRequest, CloseLogin, ReplyTo, RequestAnswer, RequestLogin, Serve};

/// Logins that may be pending at the same time.
const MOST_LOGINS: usize = 64;

impl Serve<RequestLogin> for Step<'_> {
    fn handle(&mut self, to: ReplyTo<RequestLogin>, ask: RequestLogin) {
        let RequestLogin { server, url, reason } = ask;
        let logins = &self.session.durable.logins;
        let known = logins.iter().find(|login| login.server_name == server).cloned();
        let request_id = match known {
            Some(known) if known.server_url == url && known.reason == reason => {
                return self.reply(to, known.request_id.clone());
            }
            Some(known) if known.server_url == url => known.request_id.clone(),
            None if logins.len() >= MOST_LOGINS => {
                return self.refuse(to, "too many logins are pending; finish or cancel one first");
            }
            other => {
                // An address that changed is another server: who opens the old request would log in there.
                if let Some(known) = other {
                    self.close_login(&known.request_id, "cancelled", None);
                }
                RequestId(self.stamp.text_id())
            }
        };
        self.record(LoginRequested {
            request_id: request_id.clone(),
            server_name: server,
            server_url: url,
            reason,
        });
        self.reply(to, request_id);
    }
}

impl Serve<CloseLogin> for Step<'_> {
    fn handle(&mut self, to: ReplyTo<CloseLogin>, CloseLogin { server, outcome }: CloseLogin) {
        let mut logins = self.session.durable.logins.iter();
        let pending = logins.find(|login| login.server_name == server).cloned();
        if let Some(login) = &pending {
            self.close_login(&login.request_id, &outcome, None);
        }
        self.reply(to, pending.is_some());
    }
}

impl Step<'_> {
    /// Handles an answer to the request for a login. Only a refusal is an answer: a login ends in a browser.
    pub(super) fn answer_login(
        &mut self,
        to: ReplyTo<AnswerRequest>,
        request: &RequestId,
        answer: &RequestAnswer,
        by: Option<Author>,
    ) {
        match answer {
            RequestAnswer::NoLogin => {
                self.close_login(request, "cancelled", by);
                self.reply(to, AnswerOutcome::Counted);
            }
            _ => self.reply(to, AnswerOutcome::Mismatch),
        }
    }

    fn close_login(&mut self, request: &RequestId, outcome: &str, by: Option<Author>) {
        let answer = Some(Json::from(serde_json::json!({ "outcome": outcome })));
        self.record(RequestClosed { request_id: request.clone(), answer, by });
        self.remember_closed(request);
    }
}
