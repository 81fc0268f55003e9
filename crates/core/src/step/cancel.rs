//! Cancel of everything or of one turn, suspend, withdraw and close.

use baton_protocol::PromptId;
use baton_protocol::event::{
    Abort, CodeChanges, Outcome, PendingMessagesModified, Prompt, PromptAmended, PromptMoved, PromptsHeld,
    SendMode, SessionShutdown, ShutdownType, SwitchAnswer, TurnEnd,
};
use baton_protocol::tool::ToolResult;

use super::Step;
use super::walls::is_beside_turns;
use crate::ask::{self, CancelTurn, ReplyTo, Serve, Suspend, Withdraw, Withdrawn};
use crate::output::INTERRUPTED;
use crate::state::{Accepted, Stage};

/// Reason in the outcome of cancelled prompts.
const CANCELLED: &str = "cancelled by a client";

impl Serve<ask::Abort> for Step<'_> {
    /// Cancels the running turn and every prompt accepted before this moment. In an idle session nothing is recorded, so
    /// that a late cancel cannot affect the next prompt.
    fn handle(&mut self, to: ReplyTo<ask::Abort>, ask: ask::Abort) {
        if !self.session.is_busy() {
            return self.reply(to, false);
        }
        self.record(Abort { reason: ask.reason, by: ask.by });
        self.end_all_work(Outcome::Cancelled, CANCELLED);
        self.show(PendingMessagesModified {});
        self.reply(to, true);
        self.show_idle(true);
    }
}

impl Serve<CancelTurn> for Step<'_> {
    fn handle(&mut self, to: ReplyTo<CancelTurn>, ask: CancelTurn) {
        let begun = self.begun();
        if !self.runs(ask.turn.as_deref(), &begun) {
            return self.reply(to, None);
        }
        self.record(Abort { reason: ask.reason, by: ask.by });
        let held = self.hold_all_except(&begun);
        self.end_running_work(Outcome::Cancelled, CANCELLED);
        for prompt in begun {
            self.enter_history(prompt);
            self.settle(vec![prompt], Outcome::Cancelled, CANCELLED);
        }
        self.show(PendingMessagesModified {});
        self.reply(to, Some(held));
        self.show_idle(true);
    }
}

impl Serve<Suspend> for Step<'_> {
    /// Stops all work as a cancel does, but records no abort: the user did not change their mind, the client only leaves.
    fn handle(&mut self, to: ReplyTo<Suspend>, _: Suspend) {
        let busy = self.session.is_busy();
        self.end_all_work(Outcome::Cancelled, "suspended by a client");
        self.reply(to, ());
        if busy {
            self.show_idle(true);
        }
    }
}

impl Serve<Withdraw> for Step<'_> {
    /// Withdraws items that have not been started. A prompt that is being prepared has been, and can only be cancelled.
    fn handle(&mut self, to: ReplyTo<Withdraw>, ask: Withdraw) {
        if matches!(ask.which, Withdrawn::One(id) if self.session.is_abandoned(id)) {
            return self.withdraw_abandoned(to);
        }
        let inbox = self.session.durable.inbox.iter().map(|item| item.id);
        let mut queued = inbox.filter(|id| !self.session.has_begun(*id));
        let withdrawn: Vec<PromptId> = match ask.which {
            Withdrawn::Newest => queued.last().into_iter().collect(),
            Withdrawn::One(id) => queued.find(|queued| *queued == id).into_iter().collect(),
            Withdrawn::All => queued.collect(),
        };
        for prompt in &withdrawn {
            self.settle(vec![*prompt], Outcome::Cancelled, "withdrawn by a client");
        }
        if !withdrawn.is_empty() {
            self.show(PendingMessagesModified {});
        }
        self.reply(to, withdrawn.len());
    }
}

impl Step<'_> {
    /// Returns the items of the inbox that have been started: a command, or a prompt that is being prepared.
    fn begun(&self) -> Vec<PromptId> {
        let inbox = self.session.durable.inbox.iter().map(|item| item.id);
        inbox.filter(|id| self.session.has_begun(*id)).collect()
    }

    /// Whether the turn or item of this name runs; without a name, whether any does.
    fn runs(&self, name: Option<&str>, begun: &[PromptId]) -> bool {
        let turn = self.turn();
        let Some(name) = name else { return turn.is_some() || !begun.is_empty() };
        let prompts = turn.into_iter().flat_map(|turn| &turn.prompts).chain(begun);
        turn.is_some_and(|turn| turn.interaction == name)
            || prompts.map(ToString::to_string).any(|id| id == name)
    }

    /// Holds all items of the inbox except those that have been started. Prompts that were to join the turn become the first
    /// of the queue. Returns how many are held.
    fn hold_all_except(&mut self, begun: &[PromptId]) -> usize {
        let inbox = self.session.durable.inbox.clone();
        let waiting: Vec<Accepted> = inbox.iter().filter(|item| !begun.contains(&item.id)).cloned().collect();
        let before = waiting.iter().find(|item| item.prompt.mode != SendMode::Immediate).map(|item| item.id);
        for steering in waiting.iter().filter(|item| item.prompt.mode == SendMode::Immediate) {
            let (prompt_id, mode) = (steering.id, SendMode::Enqueue);
            self.record(PromptAmended { prompt_id, prompt: Prompt { mode, ..(*steering.prompt).clone() } });
            if before.is_some() {
                self.record(PromptMoved { prompt_id, before });
            }
        }
        let prompt_ids: Vec<PromptId> = waiting.iter().map(|item| item.id).collect();
        let held = prompt_ids.len();
        if held > 0 {
            self.record(PromptsHeld { prompt_ids });
        }
        held
    }

    /// Stops all work, and gives the turn and all prompts of the inbox the same outcome.
    pub(super) fn end_all_work(&mut self, outcome: Outcome, reason: &str) {
        self.end_running_work(outcome, reason);
        let inbox: Vec<PromptId> = self.session.durable.inbox.iter().map(|item| item.id).collect();
        for prompt in inbox {
            self.enter_history(prompt);
            self.settle(vec![prompt], outcome, reason);
        }
    }

    /// Stops all work, and ends the turn. Prompts of the inbox stay.
    fn end_running_work(&mut self, outcome: Outcome, reason: &str) {
        let walls = self.session.durable.walls.clone();
        self.stop_where(|work| !is_beside_turns(work, &walls));
        self.session.live.is_recovered = false;
        self.forget_engine();
        self.end_turn(outcome, reason);
        self.close_command_request();
    }

    /// Ends the running turn, with its calls and their requests.
    fn end_turn(&mut self, outcome: Outcome, reason: &str) {
        let Some(turn) = self.turn().cloned() else { return };
        self.end_all_agents(outcome, reason);
        self.interrupt_calls(|_| true, reason);
        self.close_fallback_request(SwitchAnswer::No, None);
        if turn.stage != Stage::Ready {
            self.record(TurnEnd { turn_id: turn.round_name(None), model: None });
        }
        self.settle(turn.prompts, outcome, reason);
    }

    /// Ends the open calls that `which` selects as interrupted (P4).
    pub(super) fn interrupt_calls(&mut self, which: impl Fn(&crate::Call) -> bool, reason: &str) {
        let Some(turn) = self.turn().cloned() else { return };
        for call in turn.open_calls().filter(|call| which(call)) {
            self.close_request(call, reason);
            self.complete_call(&call.key(), ToolResult::failure(INTERRUPTED));
        }
    }

    /// Closes the session: stops all work and records the shutdown.
    pub(super) fn close(&mut self, reason: &str, shutdown_type: ShutdownType) {
        self.end_all_work(Outcome::Cancelled, reason);
        self.drop_asks(|_, _| true);
        self.leave_walls();
        let durable = &self.session.durable;
        self.record(SessionShutdown {
            shutdown_type,
            error_reason: (shutdown_type == ShutdownType::Error).then(|| reason.to_owned()),
            total_premium_requests: 0.0,
            total_api_duration_ms: durable.totals.model_time_ms(),
            session_start_time: durable.started.as_millis(),
            code_changes: CodeChanges::default(),
            model_metrics: durable.totals.model_metrics(),
            current_model: durable.facts.model.clone(),
        });
        self.session.live.clients.clear();
    }
}
