//! Cancel, and the end of a session's life in this server.

use baton_protocol::event::{
    Abort, AbortReason, CodeChanges, Outcome, PendingMessagesModified, SessionShutdown, ShutdownType,
    SwitchAnswer, TurnEnd,
};
use baton_protocol::tool::ToolResult;
use baton_protocol::{Json, PromptId};
use serde_json::json;

use super::Step;
use crate::input::Withdrawn;
use crate::output::{INTERRUPTED, Reply, ReplyTo};
use crate::state::{Stage, Totals};

impl Step<'_> {
    /// Cancels the running turn and every prompt accepted before this moment. An idle session is left alone: nothing
    /// is recorded that the next prompt could stumble over.
    pub(super) fn abort(&mut self, reply: ReplyTo, reason: AbortReason) {
        if !self.session.is_busy() {
            return self.reply(reply, Reply::Aborted { had_work: false });
        }
        self.record(Abort { reason });
        self.end_all_work(Outcome::Cancelled, "cancelled by a client");
        self.show(PendingMessagesModified {});
        self.reply(reply, Reply::Aborted { had_work: true });
        self.show_idle(true);
    }

    /// Stops all work, as a cancel does, and says nothing about a cancel: nobody changed their mind, they only leave.
    pub(super) fn suspend(&mut self, reply: ReplyTo) {
        let busy = self.session.is_busy();
        self.end_all_work(Outcome::Cancelled, "suspended by a client");
        self.reply(reply, Reply::Done(None));
        if busy {
            self.show_idle(true);
        }
    }

    /// Takes back prompts that wait. One that is being prepared has been begun with, and is not taken back but cancelled.
    pub(super) fn withdraw(&mut self, reply: ReplyTo, which: Withdrawn) {
        if matches!(which, Withdrawn::One(id) if self.session.is_abandoned(id)) {
            return self.withdraw_abandoned(reply);
        }
        let waiting = self.session.durable.inbox.iter().map(|p| p.id);
        let mut waiting = waiting.filter(|id| !self.session.has_begun(*id));
        let taken: Vec<PromptId> = match which {
            Withdrawn::Newest => waiting.last().into_iter().collect(),
            Withdrawn::One(id) => waiting.find(|waiting| *waiting == id).into_iter().collect(),
            Withdrawn::All => waiting.collect(),
        };
        for prompt in &taken {
            self.settle(vec![*prompt], Outcome::Cancelled, "taken back before its turn");
        }
        if !taken.is_empty() {
            self.show(PendingMessagesModified {});
        }
        self.reply(reply, Reply::Withdrew(taken.len()));
    }

    /// Ends the turn and all waiting prompts with one and the same outcome. Everything that was started is stopped.
    pub(super) fn end_all_work(&mut self, outcome: Outcome, reason: &str) {
        self.stop_where(|_| true);
        self.session.live.is_recovered = false;
        self.forget_engine();
        self.end_turn(outcome, reason);
        self.dismiss_command();
        let waiting: Vec<PromptId> = self.session.durable.inbox.iter().map(|p| p.id).collect();
        for prompt in waiting {
            self.enter_history(prompt);
            self.settle(vec![prompt], outcome, reason);
        }
    }

    /// Ends the running turn, closing its calls and their requests.
    fn end_turn(&mut self, outcome: Outcome, reason: &str) {
        let Some(turn) = self.turn().cloned() else { return };
        self.dismiss_agents(outcome, reason);
        self.interrupt_calls(|_| true, reason);
        self.close_offer(SwitchAnswer::No);
        if turn.stage != Stage::Ready {
            self.record(TurnEnd { turn_id: turn.round_name(None), model: None });
        }
        self.settle(turn.prompts, outcome, reason);
    }

    /// Closes the open calls that `which` selects as interrupted (P4).
    pub(super) fn interrupt_calls(&mut self, which: impl Fn(&crate::Call) -> bool, reason: &str) {
        let Some(turn) = self.turn().cloned() else { return };
        for call in turn.open_calls().filter(|call| which(call)) {
            self.close_request(call, reason);
            self.complete_call(&call.key(), ToolResult::failure(INTERRUPTED));
        }
    }

    /// Closes the session: whatever runs is ended, and the history says so.
    pub(super) fn close(&mut self, reason: &str, shutdown_type: ShutdownType) {
        self.end_all_work(Outcome::Cancelled, reason);
        self.drop_asks(|_| true);
        let durable = &self.session.durable;
        let (api_time, metrics) = metrics(&durable.totals);
        self.record(SessionShutdown {
            shutdown_type,
            error_reason: (shutdown_type == ShutdownType::Error).then(|| reason.to_owned()),
            total_premium_requests: 0.0,
            total_api_duration_ms: api_time,
            session_start_time: durable.started.as_millis(),
            code_changes: CodeChanges::default(),
            model_metrics: metrics,
            current_model: durable.facts.model.clone(),
        });
        self.session.live.clients.clear();
    }
}

/// What was used, as clients are told: milliseconds in model calls, and counts by model.
fn metrics(totals: &Totals) -> (u64, Json) {
    let time = totals.model_time_ms();
    let models: serde_json::Map<String, serde_json::Value> = totals
        .models
        .iter()
        .map(|(model, (calls, tokens))| {
            let usage = json!({
                "inputTokens": tokens.input,
                "outputTokens": tokens.output,
                "cacheReadTokens": tokens.cache_read,
                "cacheWriteTokens": tokens.cache_write,
                "reasoningTokens": tokens.reasoning,
            });
            (model.clone(), json!({ "requests": { "count": calls, "cost": 0 }, "usage": usage }))
        })
        .collect();
    (time, Json::from(serde_json::Value::Object(models)))
}
