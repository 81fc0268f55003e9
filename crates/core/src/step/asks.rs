//! Requests of one client or MCP server to the others: forms to fill in, slash commands to run, models to ask. The asker
//! waits, so a request ends with the connection of its client or the call of its server. These requests belong to no turn
//! and are not recorded.

use std::sync::Arc;

use baton_protocol::event::{
    CommandCompleted, CommandExecute, ElicitationCompleted, ElicitationRequested, SamplingCompleted,
    SamplingRequested,
};
use baton_protocol::{Json, RequestId};

use super::commands::{is_from_unasked_client, owners};
use super::{Step, form};
use crate::ask::{
    AnswerOutcome, AnswerRequest, Elicit, Elicited, InvokeCommand, Refusal, ReplyTo, RequestAnswer, Sample,
    Serve, WithdrawAsk,
};
use crate::state::{ClientRequest, Live};

impl Serve<Elicit> for Step<'_> {
    fn handle(&mut self, to: ReplyTo<Elicit>, ask: Elicit) {
        let pending = ClientRequest::Elicit(to, Arc::new(ask.clone()));
        if let Some(why) = unanswerable(&self.session.live, &pending) {
            return self.refuse(to, why);
        }
        let request_id = RequestId(self.stamp.text_id());
        self.show(ElicitationRequested {
            request_id: request_id.clone(),
            message: ask.message,
            mode: Some(if ask.url.is_some() { "url" } else { "form" }.into()),
            requested_schema: ask.schema,
            elicitation_source: ask.source,
            tool_call_id: None,
            url: ask.url,
        });
        self.session.live.asks.insert(request_id, pending);
    }
}

impl Serve<Sample> for Step<'_> {
    fn handle(&mut self, to: ReplyTo<Sample>, ask: Sample) {
        let request_id = RequestId(self.stamp.text_id());
        self.show(SamplingRequested {
            request_id: request_id.clone(),
            server_name: ask.server.clone(),
            mcp_request_id: ask.id.clone(),
            request: ask.request.clone(),
        });
        self.session.live.asks.insert(request_id, ClientRequest::Sample(to, Arc::new(ask)));
    }
}

impl Serve<WithdrawAsk> for Step<'_> {
    fn handle(&mut self, to: ReplyTo<WithdrawAsk>, WithdrawAsk { key }: WithdrawAsk) {
        let is_named = |pending: &ClientRequest| pending.key() == Some(&key);
        let was_pending = self.session.live.asks.values().any(is_named) || self.stop_awaited_agent(&key);
        self.drop_asks(|_, pending| is_named(pending));
        self.reply(to, was_pending);
    }
}

impl Serve<InvokeCommand> for Step<'_> {
    fn handle(&mut self, to: ReplyTo<InvokeCommand>, InvokeCommand { name, args }: InvokeCommand) {
        let pending = ClientRequest::InvokeCommand(to, name.clone());
        if let Some(why) = unanswerable(&self.session.live, &pending) {
            return self.refuse(to, why);
        }
        let request_id = RequestId(self.stamp.text_id());
        self.show(CommandExecute {
            request_id: request_id.clone(),
            command: format!("/{name} {args}").trim_end().to_owned(),
            command_name: name,
            args,
        });
        self.session.live.asks.insert(request_id, pending);
    }
}

impl Step<'_> {
    /// Handles an answer to a pending ask.
    pub(super) fn answer_ask(
        &mut self,
        to: ReplyTo<AnswerRequest>,
        request: &RequestId,
        pending: ClientRequest,
        answer: RequestAnswer,
    ) {
        match (pending, answer) {
            (ClientRequest::InvokeCommand(_, name), answer)
                if is_from_unasked_client(&owners(&self.session.live, &name), &answer) =>
            {
                return self.reply(to, AnswerOutcome::TooLate);
            }
            (ClientRequest::Elicit(asker, form), RequestAnswer::Elicitation(elicited)) => {
                if let Err(why) = form::check(&form, &elicited) {
                    return self.reply(to, AnswerOutcome::Refused(why));
                }
                self.close_form(request, asker, elicited);
            }
            (ClientRequest::Sample(asker, _), RequestAnswer::Sampling(answer)) => {
                self.close_sampling(request, asker, answer);
            }
            (ClientRequest::Consent(asker, consent, shown), answer) => match self.consents(&consent, &answer)
            {
                Some((allowed, by)) => self.close_consent(request, asker, shown, allowed, by),
                None => return self.reply(to, AnswerOutcome::Mismatch),
            },
            (ClientRequest::InvokeCommand(asker, _), RequestAnswer::Command { error, .. }) => {
                self.close_invocation(request, asker, error);
            }
            _ => return self.reply(to, AnswerOutcome::Mismatch),
        }
        self.reply(to, AnswerOutcome::Counted);
    }

    fn close_form(&mut self, request: &RequestId, to: ReplyTo<Elicit>, elicited: Elicited) {
        self.session.live.asks.remove(request);
        self.show(ElicitationCompleted {
            request_id: request.clone(),
            action: Some(elicited.action.clone()),
            content: elicited.content.clone(),
        });
        self.reply(to, elicited);
        self.remember_closed(request);
    }

    fn close_sampling(&mut self, request: &RequestId, to: ReplyTo<Sample>, answer: Option<Json>) {
        self.session.live.asks.remove(request);
        self.show(SamplingCompleted { request_id: request.clone() });
        self.reply(to, answer);
        self.remember_closed(request);
    }

    fn close_invocation(&mut self, request: &RequestId, to: ReplyTo<InvokeCommand>, error: Option<String>) {
        self.session.live.asks.remove(request);
        self.show(CommandCompleted { request_id: request.clone() });
        self.reply(to, error);
        self.remember_closed(request);
    }

    /// Closes pending asks that no attached client can answer any more.
    pub(super) fn drop_unanswerable_asks(&mut self) {
        self.drop_asks(|live, pending| unanswerable(live, pending).is_some());
    }

    /// Closes the pending asks that `which` selects, and replies to them.
    pub(super) fn drop_asks(&mut self, which: impl Fn(&Live, &ClientRequest) -> bool) {
        let live = &self.session.live;
        let dropped: Vec<(RequestId, ClientRequest)> = live
            .asks
            .iter()
            .filter(|(_, pending)| which(live, pending))
            .map(|(request, pending)| (request.clone(), pending.clone()))
            .collect();
        for (request, pending) in dropped {
            match pending {
                ClientRequest::Elicit(to, _) => self.close_form(&request, to, Elicited::cancelled()),
                ClientRequest::Sample(to, _) => self.close_sampling(&request, to, None),
                ClientRequest::Consent(to, _, shown) => self.close_consent(&request, to, shown, false, None),
                ClientRequest::InvokeCommand(to, name) => {
                    let why = format!("the client that runs /{name} disconnected");
                    self.close_invocation(&request, to, Some(why));
                }
            }
        }
    }
}

/// Returns why no attached client can answer an ask; none if one can.
fn unanswerable(live: &Live, pending: &ClientRequest) -> Option<Refusal> {
    match pending {
        // Requests of servers wait for any client of any door; their calls bound how long.
        ClientRequest::Elicit(_, ask) if ask.key.is_some() => None,
        ClientRequest::Sample(..) | ClientRequest::Consent(..) => None,
        ClientRequest::Elicit(..) => {
            let unsupported = !live.clients.values().any(|client| client.elicitation);
            unsupported.then(|| "elicitation is not supported: no attached client can show a form".into())
        }
        ClientRequest::InvokeCommand(_, name) => {
            let unknown = owners(live, name).is_empty();
            unknown.then(|| format!("no attached client has a command named {name:?}").into())
        }
    }
}
