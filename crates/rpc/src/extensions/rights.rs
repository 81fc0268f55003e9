//! Lists the methods that an extension may call: those that read its own session, work in it, or answer calls to the
//! extension. Methods that answer for a user, change rules, or reach other sessions or the server are not among them.

use baton_protocol::Json;
use baton_protocol::params::OnlySession;
use baton_protocol::rpc::RpcError;

use super::Membership;

/// Methods that name no session.
const SERVER: &[&str] = &["connect", "ping", "status.get"];

/// Methods of a session. A `.` at the end matches all methods below it.
const SESSION: &[&str] = &[
    "session.resume",
    "session.destroy",
    "session.detach",
    "session.send",
    "session.sendAndWait",
    "session.abort",
    "session.log",
    "session.getMessages",
    "session.eventLog.",
    "session.metadata.snapshot",
    "session.metadata.isProcessing",
    "session.metadata.activity",
    "session.usage.getMetrics",
    "session.model.getCurrent",
    "session.mode.get",
    "session.name.get",
    "session.plan.read",
    "session.workspaces.getWorkspace",
    "session.workspaces.listFiles",
    "session.workspaces.readFile",
    "session.workspaces.createFile",
    "session.tools.handlePendingToolCall",
    "session.tools.getCurrentMetadata",
    "session.commands.handlePendingCommand",
    "session.commands.list",
    "session.ui.elicitation",
    "session.extensions.list",
    "session.extensions.sendAttachmentsToMessage",
    "session.factory.",
    "session.workflow.",
];

/// Whether an extension may call a method, for its own session.
pub(crate) fn may_call(method: &str) -> bool {
    SERVER.contains(&method) || SESSION.iter().any(|listed| covers(listed, method))
}

/// Whether an entry of [`SESSION`] covers a method.
fn covers(listed: &str, method: &str) -> bool {
    match listed.strip_suffix('.') {
        Some(prefix) => method.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.')),
        None => method == listed,
    }
}

/// Checks a call of an extension.
///
/// # Errors
/// When it is not allowed.
pub(crate) fn check_call(member: &Membership, method: &str, params: &Json) -> Result<(), RpcError> {
    if !may_call(method) {
        return Err(RpcError::failed(format!("an extension may not call {method}")));
    }
    if SERVER.contains(&method) {
        return Ok(());
    }
    match params.parse::<OnlySession>() {
        Ok(named) if named.session_id == *member.session() => Ok(()),
        _ => {
            Err(RpcError::failed(format!("an extension may use its own session only, {}", member.session())))
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_people::Role;

    use super::*;
    use crate::operations;

    #[test]
    fn listed_methods_exist() {
        for listed in SERVER.iter().chain(SESSION) {
            assert!(operations().any(|(method, _)| covers(listed, method)), "{listed}");
        }
    }

    #[test]
    fn extensions_perform_no_operation_of_admins() {
        for (method, operation) in operations().filter(|(method, _)| may_call(method)) {
            assert!(operation.role() < Role::Admin, "{method}");
        }
    }
}
