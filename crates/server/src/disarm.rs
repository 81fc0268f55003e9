//! What a history of somebody else's making must not bring along: grants, a permission mode, a mode in which the agent acts
//! alone, and work that waits to go on.
//!
//! A grant is what a person was shown and agreed to. In a file, it is what the file says. The same holds for a request
//! that waits: the file decides what it shows and what it runs, and the two may differ. So the history stays as it is,
//! for whoever wants to know what was granted then, and events at its end take everything back.

use baton_core::{Arrangement, Change, Durable, Input, LogLevel, Output, ReplyTo, Session, Stamp, Withdrawn};
use baton_protocol::event::{AgentMode, PermissionMode};
use baton_protocol::rules::RulesEdit;
use baton_protocol::{Author, SessionId, Timestamp};
use baton_store::NewRecord;
use uuid::Uuid;

use crate::session::actor::record_of;

/// What was taken back.
#[derive(Default)]
pub(crate) struct Disarmed {
    /// The events that do it.
    pub(crate) records: Vec<NewRecord>,
    /// The same in words, for people.
    pub(crate) notices: Vec<String>,
}

/// Takes back what a history must not bring. Folds the events that do it into `durable`; there are none where the history
/// brings nothing.
pub(crate) fn disarm(session: &SessionId, durable: &mut Durable) -> Disarmed {
    let notices = notices(durable);
    if notices.is_empty() {
        return Disarmed::default();
    }
    let mut inputs = Vec::new();
    let reply = ReplyTo(0);
    if is_under_way(durable) {
        inputs.push(Input::Withdraw { reply, which: Withdrawn::All });
        inputs.push(Input::Suspend { reply });
        inputs.push(Input::Arrange { reply, how: Box::new(Arrangement::Hold(false)) });
    }
    let warning = Change::Log {
        level: LogLevel::Warning,
        message: format!("Imported from a file: {}.", notices.join("; ")),
        url: None,
        ephemeral: false,
    };
    let changes = [
        (!durable.grants.is_empty()).then(|| Change::Revoke { grant: None, by: Author::import() }),
        // Deny rules stay: they allow nothing.
        durable
            .rules
            .allow_something()
            .then(|| Change::Rules { edit: Box::new(RulesEdit::disarming()), by: Author::import() }),
        Some(Change::Permissions(PermissionMode::default())),
        Some(Change::Mode(AgentMode::default())),
        Some(warning),
    ];
    inputs.extend(changes.into_iter().flatten().map(|change| Input::Change { reply, change }));
    let mut folded = Session::recovered(session.clone(), std::mem::take(durable));
    let stamp = || Stamp::new(Timestamp::now(), Uuid::new_v4().as_u128());
    let outputs: Vec<Output> = inputs.into_iter().flat_map(|input| folded.step(input, stamp())).collect();
    *durable = folded.durable;
    Disarmed { records: outputs.iter().filter_map(record_of).collect(), notices }
}

fn is_under_way(durable: &Durable) -> bool {
    durable.turn.is_some() || !durable.inbox.is_empty()
}

fn notices(durable: &Durable) -> Vec<String> {
    let mut notices = Vec::new();
    match durable.grants.len() {
        0 => {}
        1 => notices.push("its grant does not count here".to_owned()),
        count => notices.push(format!("its {count} grants do not count here")),
    }
    if durable.rules.allow_something() {
        notices.push("its allow rules do not count here".to_owned());
    }
    if durable.facts.permissions != PermissionMode::default() {
        notices.push("its permission mode does not count here: tools ask first".to_owned());
    }
    if durable.mode() != AgentMode::default() || durable.facts.mode != AgentMode::default() {
        notices.push("its mode does not count here: the session is interactive".to_owned());
    }
    if is_under_way(durable) {
        notices.push("the history ends in the middle of a turn; what was under way is cancelled".to_owned());
    }
    notices
}
