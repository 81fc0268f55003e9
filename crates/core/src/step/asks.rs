//! What clients ask each other: forms to fill in, slash commands to run. The asker waits on its own connection, so these
//! live and die with it; they are no part of a turn, and nothing of them is recorded.

use baton_protocol::RequestId;
use baton_protocol::event::{CommandCompleted, CommandExecute, ElicitationCompleted, ElicitationRequested};

use super::Step;
use super::commands::{is_beside_the_point, owners};
use crate::input::{Answer, Ask, Elicited};
use crate::output::{Reply, ReplyTo};
use crate::state::Live;

impl Step<'_> {
    /// Puts a question to everybody; the first answer goes to the asker.
    pub(super) fn ask_clients(&mut self, reply: ReplyTo, ask: Ask) {
        if let Some(why) = unanswerable(&self.session.live, &ask) {
            return self.reply(reply, Reply::Refused(why));
        }
        let request_id = RequestId(self.stamp.text_id());
        match ask.clone() {
            Ask::Elicitation { message, schema, source } => self.show(ElicitationRequested {
                request_id: request_id.clone(),
                message,
                mode: Some("form".into()),
                requested_schema: schema,
                elicitation_source: source,
                tool_call_id: None,
                url: None,
            }),
            Ask::Command { name, args } => self.show(CommandExecute {
                request_id: request_id.clone(),
                command: format!("/{name} {args}").trim_end().to_owned(),
                command_name: name,
                args,
            }),
        };
        self.session.live.asks.insert(request_id, (reply, ask));
    }

    pub(super) fn answer_ask(&mut self, reply: ReplyTo, request: &RequestId, answer: Answer) {
        let live = &mut self.session.live;
        if let Some((_, Ask::Command { name, .. })) = live.asks.get(request)
            && is_beside_the_point(&owners(live, name), &answer)
        {
            return self.reply(reply, Reply::TooLate);
        }
        let Some((asker, ask)) = live.asks.remove(request) else { return };
        match (&ask, answer) {
            (Ask::Elicitation { .. }, Answer::Elicitation(elicited)) => {
                self.elicited(request, asker, elicited);
            }
            (Ask::Command { .. }, Answer::Command { error, .. }) => {
                self.show(CommandCompleted { request_id: request.clone() });
                self.reply(asker, Reply::CommandDone(error));
            }
            _ => {
                self.session.live.asks.insert(request.clone(), (asker, ask));
                return self.reply(reply, Reply::Mismatch);
            }
        }
        self.settled(request);
        self.reply(reply, Reply::Counted);
    }

    fn elicited(&mut self, request: &RequestId, asker: ReplyTo, elicited: Elicited) {
        self.show(ElicitationCompleted {
            request_id: request.clone(),
            action: Some(elicited.action.clone()),
            content: elicited.content.clone(),
        });
        self.reply(asker, Reply::Elicited(elicited));
    }

    /// Lets go of questions that nobody who is left can answer.
    pub(super) fn drop_unanswerable_asks(&mut self) {
        let live = &self.session.live;
        let lost: Vec<RequestId> = live
            .asks
            .iter()
            .filter(|(_, (_, ask))| unanswerable(live, ask).is_some())
            .map(|(id, _)| id.clone())
            .collect();
        self.drop_asks(|request| lost.contains(request));
    }

    /// Lets go of the questions that `which` selects; their askers are told.
    pub(super) fn drop_asks(&mut self, which: impl Fn(&RequestId) -> bool) {
        let dropped: Vec<RequestId> = self.session.live.asks.keys().filter(|id| which(id)).cloned().collect();
        for request in dropped {
            let Some((asker, ask)) = self.session.live.asks.remove(&request) else { continue };
            match ask {
                Ask::Elicitation { .. } => {
                    self.elicited(&request, asker, Elicited { action: "cancel".into(), content: None });
                }
                Ask::Command { name, .. } => {
                    self.show(CommandCompleted { request_id: request.clone() });
                    let why = format!("the client that runs /{name} has left");
                    self.reply(asker, Reply::CommandDone(Some(why)));
                }
            }
            self.settled(&request);
        }
    }
}

/// Why nobody can answer this, if that is so.
fn unanswerable(live: &Live, ask: &Ask) -> Option<String> {
    match ask {
        Ask::Elicitation { .. } if live.clients.values().any(|client| client.elicitation) => None,
        Ask::Elicitation { .. } => {
            Some("elicitation is not supported: no attached client can show a form".into())
        }
        Ask::Command { name, .. } => {
            let unknown = owners(live, name).is_empty();
            unknown.then(|| format!("no attached client has a command named {name:?}"))
        }
    }
}
