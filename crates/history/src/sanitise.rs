//! Removal of authority from an imported history: its grants, its permission mode, its agent mode, and its pending work.
//!
//! A grant records what a user was shown and approved; in a file, it is only what the file says. The same holds for a
//! pending request: the file decides what it shows and what it runs, and the two may differ. The history itself stays as
//! it is, as a record of what was granted then; events appended to it revoke everything.

use baton_core::ask::{Amend, CloseLogin, HoldQueue, Suspend, Withdraw};
use baton_core::{Admission, Ask, Change, Durable, LogLevel, Session, Withdrawn};
use baton_protocol::event::{AgentMode, PermissionMode};
use baton_protocol::rules::RulesEdit;
use baton_protocol::{Author, SessionId};
use baton_store::NewRecord;

use crate::{deny, step_all};

/// Result of [`sanitise`].
#[derive(Default)]
pub(crate) struct Sanitised {
    /// Events that revoke, to be appended to the history.
    pub(crate) records: Vec<NewRecord>,
    /// Descriptions of what was revoked, for users.
    pub(crate) notices: Vec<String>,
}

/// Revokes the authority in an imported history, and folds the revoking events into `durable`. There are no events if there
/// is nothing to revoke.
pub(crate) fn sanitise(session: &SessionId, durable: &mut Durable) -> Sanitised {
    let notices = notices(durable);
    if notices.is_empty() {
        return Sanitised::default();
    }
    let mut asks: Vec<Ask> = Vec::new();
    if durable.is_busy() {
        asks.push(Withdraw { which: Withdrawn::All }.into());
        asks.push(Suspend {}.into());
        asks.push(HoldQueue { hold: false }.into());
    }
    // The file says which address a login is for.
    asks.extend(
        durable.logins.iter().map(|login| {
            CloseLogin { server: login.server_name.clone(), outcome: "cancelled".into() }.into()
        }),
    );
    // The file says which file is moved where. What was held is not here.
    asks.extend(durable.walls.iter().map(|wall| deny(&wall.request, Author::import())));
    let warning = Change::Log {
        level: LogLevel::Warning,
        message: format!("Imported from a file: {}.", notices.join("; ")),
        url: None,
        ephemeral: false,
    };
    let changes = [
        (!durable.grants.is_empty() || admits_hosts(durable))
            .then(|| Change::Revoke { grant: None, by: Author::import() }),
        // Deny rules stay: they give no authority.
        durable
            .rules
            .allow_something()
            .then(|| Change::Rules { edit: Box::new(RulesEdit::disarming()), by: Author::import() }),
        Some(Change::Sandbox(None)),
        Some(Change::Permissions(PermissionMode::default())),
        Some(Change::Mode(AgentMode::default())),
        Some(warning),
    ];
    asks.extend(changes.into_iter().flatten().map(|change| Amend::by(Author::import(), change).into()));
    let mut folded = Session::recovered(session.clone(), std::mem::take(durable));
    let records = step_all(&mut folded, asks);
    *durable = folded.durable;
    Sanitised { records, notices }
}

fn admits_hosts(durable: &Durable) -> bool {
    durable.origins.values().any(|answer| *answer == Admission::Admitted)
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
    if durable.facts.sandbox.is_some() {
        notices.push("its sandbox does not count here: the one of this server does".to_owned());
    }
    if !durable.walls.is_empty() || admits_hosts(durable) {
        notices.push("what programs in its sandbox asked for is denied".to_owned());
    }
    if !durable.logins.is_empty() {
        notices.push("its requests for logins at MCP servers are cancelled".to_owned());
    }
    if durable.is_busy() {
        notices.push("the history ends in the middle of a turn; what was under way is cancelled".to_owned());
    }
    notices
}
