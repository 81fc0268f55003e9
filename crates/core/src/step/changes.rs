//! Changes of settings, and notes.

use std::sync::Arc;

use baton_protocol::Author;
use baton_protocol::event::{
    AgentMode, ApprovalsChanged, Body, ContextChanged, ModeChanged, ModelChange, PermissionsChanged, Renamed,
    RulesChanged, SandboxChanged, SessionError, SessionInfo, SessionWarning, TitleChanged,
};

use super::Step;
use crate::ask::{Amend, Change, LogLevel, ReplyTo, Serve};
use crate::state::Admission;

/// Type of messages that clients log.
const NOTIFICATION: &str = "notification";

impl Serve<Amend> for Step<'_> {
    fn handle(&mut self, to: ReplyTo<Amend>, ask: Amend) {
        let (facts, by) = (&self.session.durable.facts, ask.by);
        let body: Body = match *ask.change {
            Change::Model { model, reasoning_effort } => ModelChange {
                previous_model: facts.model.clone(),
                new_model: model,
                previous_reasoning_effort: facts.reasoning_effort.clone(),
                reasoning_effort,
                reasoning_summary: None,
                source: None,
                cause: None,
                by,
            }
            .into(),
            Change::Mode(mode) => match self.mode_change(mode, by) {
                Some(change) => change.into(),
                None => return self.reply(to, None),
            },
            Change::Permissions(mode) if facts.permissions == mode => {
                return self.reply(to, None);
            }
            Change::Permissions(mode) => {
                PermissionsChanged { previous_mode: facts.permissions, mode, by }.into()
            }
            Change::Sandbox(choice) if facts.sandbox.as_ref() == choice.as_deref() => {
                return self.reply(to, None);
            }
            Change::Sandbox(choice) => SandboxChanged { choice: choice.map(|choice| *choice), by }.into(),
            Change::Rules { edit, by } => {
                let rules = edit.applied_to(&self.session.durable.rules);
                if rules == *self.session.durable.rules {
                    return self.reply(to, None);
                }
                let forbids_first = self.session.durable.rules.denied.is_empty() && !rules.denied.is_empty();
                let id = self.record(RulesChanged { rules: Arc::new(rules), by: Some(by) });
                self.reply(to, Some(id));
                if forbids_first {
                    self.end_unsupervised_engine();
                }
                return;
            }
            Change::Revoke { grant, by } => {
                let held = &self.session.durable.grants;
                // An answer about a host holds for a while, as a grant does.
                let admits =
                    self.session.durable.origins.values().any(|answer| *answer == Admission::Admitted);
                if !admits && held.iter().all(|known| grant.is_some() && known.id != grant) {
                    return self.reply(to, None);
                }
                ApprovalsChanged { revoked: grant, by: Some(by), ..ApprovalsChanged::default() }.into()
            }
            Change::Name { by_user: false, .. } if facts.named_by_user => {
                return self.reply(to, None);
            }
            Change::Name { name, by_user } => {
                let id = self.record(Renamed { name: name.clone(), by_user, by });
                self.show(TitleChanged { title: name });
                return self.reply(to, Some(id));
            }
            Change::Context(context) => ContextChanged(context).into(),
            Change::Log { level, message, url, ephemeral } => {
                return self.log(to, level, message, url, ephemeral);
            }
            Change::Noted(body) => *body,
            Change::Shown(body) => {
                let id = self.show(*body);
                return self.reply(to, Some(id));
            }
        };
        let id = self.record(body);
        self.reply(to, Some(id));
    }
}

impl Step<'_> {
    /// Returns the event for a change of the agent mode; none if the session and its running turn are in that mode.
    pub(super) fn mode_change(&self, new_mode: AgentMode, by: Option<Author>) -> Option<ModeChanged> {
        let durable = &self.session.durable;
        let mut current = [durable.mode(), durable.facts.mode].into_iter();
        let previous_mode = current.find(|mode| *mode != new_mode)?;
        Some(ModeChanged { previous_mode, new_mode, by })
    }

    fn log(
        &mut self,
        to: ReplyTo<Amend>,
        level: LogLevel,
        message: String,
        url: Option<String>,
        ephemeral: bool,
    ) {
        let kind = NOTIFICATION.to_owned();
        let body: Body = match level {
            LogLevel::Info => SessionInfo { info_type: kind, message, url, tip: None }.into(),
            LogLevel::Warning => SessionWarning { warning_type: kind, message, url }.into(),
            LogLevel::Error => {
                SessionError { error_type: kind, message, url, ..SessionError::default() }.into()
            }
        };
        let id = if ephemeral { self.show(body) } else { self.record(body) };
        self.reply(to, Some(id));
    }
}
