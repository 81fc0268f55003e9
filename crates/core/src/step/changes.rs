//! Changes of a session's settings.

use std::sync::Arc;

use baton_protocol::event::{
    AgentMode, ApprovalsChanged, Body, ContextChanged, ModeChanged, ModelChange, PermissionsChanged, Renamed,
    RulesChanged, SessionError, SessionInfo, SessionWarning, TitleChanged,
};

use super::Step;
use crate::input::{Change, LogLevel};
use crate::output::{Reply, ReplyTo};

/// What messages logged by clients are filed under.
const NOTIFICATION: &str = "notification";

impl Step<'_> {
    pub(super) fn change(&mut self, reply: ReplyTo, change: Change) {
        let facts = &self.session.durable.facts;
        let body: Body = match change {
            Change::Model { model, reasoning_effort } => ModelChange {
                previous_model: facts.model.clone(),
                new_model: model,
                previous_reasoning_effort: facts.reasoning_effort.clone(),
                reasoning_effort,
                reasoning_summary: None,
                source: None,
                cause: None,
            }
            .into(),
            Change::Mode(mode) => match self.mode_change(mode) {
                Some(change) => change.into(),
                None => return self.reply(reply, Reply::Done(None)),
            },
            Change::Permissions(mode) if facts.permissions == mode => {
                return self.reply(reply, Reply::Done(None));
            }
            Change::Permissions(mode) => PermissionsChanged { previous_mode: facts.permissions, mode }.into(),
            Change::Rules { edit, by } => {
                let rules = edit.applied_to(&self.session.durable.rules);
                if rules == *self.session.durable.rules {
                    return self.reply(reply, Reply::Done(None));
                }
                RulesChanged { rules: Arc::new(rules), by: Some(by) }.into()
            }
            Change::Revoke { grant, by } => {
                let held = &self.session.durable.grants;
                if held.iter().all(|known| grant.is_some() && known.id != grant) {
                    return self.reply(reply, Reply::Done(None));
                }
                ApprovalsChanged { revoked: grant, by: Some(by), ..ApprovalsChanged::default() }.into()
            }
            Change::Name { by_user: false, .. } if facts.named_by_user => {
                return self.reply(reply, Reply::Done(None));
            }
            Change::Name { name, by_user } => {
                let id = self.record(Renamed { name: name.clone(), by_user });
                self.show(TitleChanged { title: name });
                return self.reply(reply, Reply::Done(Some(id)));
            }
            Change::Context(context) => ContextChanged(context).into(),
            Change::Log { level, message, url, ephemeral } => {
                return self.log(reply, level, message, url, ephemeral);
            }
            Change::Noted(body) => *body,
        };
        let id = self.record(body);
        self.reply(reply, Reply::Done(Some(id)));
    }

    /// What is recorded when the mode is to be another one, in general or for the turn that runs; none if it is that.
    pub(super) fn mode_change(&self, new_mode: AgentMode) -> Option<ModeChanged> {
        let durable = &self.session.durable;
        let mut current = [durable.mode(), durable.facts.mode].into_iter();
        let previous_mode = current.find(|mode| *mode != new_mode)?;
        Some(ModeChanged { previous_mode, new_mode })
    }

    fn log(
        &mut self,
        reply: ReplyTo,
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
        self.reply(reply, Reply::Done(Some(id)));
    }
}
