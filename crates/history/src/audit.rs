//! Audit: who prompted, approved, denied, cancelled and changed what, in all stored sessions.
//!
//! The entries are read from the histories, so those of deleted sessions are gone. Only events of people's decisions are
//! parsed; what models and tools did is in the histories themselves.

use std::collections::HashMap;

use baton_protocol::event::{ApprovalsChanged, Body, Question, ShellStarted};
use baton_protocol::permission::{PermissionOutcome, PermissionRequest};
use baton_protocol::{Author, Event, EventId, RequestId, SessionId, Timestamp};
use baton_store::{Seq, Span, Store, StoreError};
use serde::Serialize;

use crate::repairs::parse;

const PAGE: usize = 512;

/// Maximum number of characters of a detail.
const DETAIL: usize = 300;

/// Types of the events that become entries, and of those that describe them.
const KINDS: [&str; 17] = [
    "session.start",
    "session.mode_changed",
    "session.permissions_changed",
    "session.model_change",
    "permission.requested",
    "permission.completed",
    "abort",
    "baton.request_opened",
    "baton.request_closed",
    "baton.prompt_accepted",
    "baton.approvals_changed",
    "baton.rules_changed",
    "baton.sandbox_changed",
    "baton.shell_run",
    "baton.shell_started",
    "baton.renamed",
    "baton.history_truncated",
];

/// One action of a person or client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// Time of the action.
    pub at: Timestamp,
    /// The session.
    pub session: SessionId,
    /// Sequence number of the event in the session's history.
    pub seq: u64,
    /// The event.
    pub event: EventId,
    /// What was done.
    pub action: AuditAction,
    /// By whom, as far as the history tells.
    pub by: Option<Author>,
    /// To what, cut to a readable length.
    pub detail: String,
}

/// Kind of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum AuditAction {
    SessionCreated,
    Prompted,
    Approved,
    Denied,
    Answered,
    Cancelled,
    GrantGiven,
    GrantRevoked,
    RulesChanged,
    SandboxChanged,
    ModeChanged,
    PermissionModeChanged,
    ModelChanged,
    CommandRun,
    Renamed,
    Rewound,
}

impl AuditAction {
    /// Returns the action as text.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SessionCreated => "created",
            Self::Prompted => "prompted",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Answered => "answered",
            Self::Cancelled => "cancelled",
            Self::GrantGiven => "granted",
            Self::GrantRevoked => "revoked",
            Self::RulesChanged => "rules",
            Self::SandboxChanged => "sandbox",
            Self::ModeChanged => "mode",
            Self::PermissionModeChanged => "permissions",
            Self::ModelChanged => "model",
            Self::CommandRun => "command",
            Self::Renamed => "renamed",
            Self::Rewound => "rewound",
        }
    }
}

/// Lists all actions since a time, oldest first; all if none is given.
///
/// # Errors
/// When the store cannot be read.
pub async fn audit(store: &dyn Store, since: Option<Timestamp>) -> Result<Vec<AuditEntry>, StoreError> {
    let since = since.unwrap_or(Timestamp(i64::MIN));
    let mut entries = Vec::new();
    for summary in store.list().await?.into_iter().filter(|summary| summary.modified >= since) {
        let mut reading = Reading { session: summary.session, requests: HashMap::new() };
        let mut after = Seq::ZERO;
        loop {
            let span = Span::After { after, limit: PAGE };
            let page = match store.read(&reading.session, span).await {
                // Deleted meanwhile.
                Err(StoreError::NotFound(_)) => break,
                page => page?,
            };
            let Some(last) = page.last() else { break };
            after = last.seq;
            for record in page.iter().filter(|record| KINDS.contains(&record.kind.as_str())) {
                let entry = parse(record).and_then(|event| reading.entry(record.seq, event));
                entries.extend(entry.filter(|entry| entry.at >= since));
            }
        }
    }
    entries.sort_by(|one, other| (one.at, &one.session, one.seq).cmp(&(other.at, &other.session, other.seq)));
    Ok(entries)
}

/// A history that is being read.
struct Reading {
    session: SessionId,
    /// Subjects of permission requests that have no answer yet.
    requests: HashMap<RequestId, String>,
}

impl Reading {
    fn entry(&mut self, seq: Seq, event: Event) -> Option<AuditEntry> {
        let (action, by, detail) = self.action(event.body)?;
        let detail = detail.chars().take(DETAIL).collect();
        Some(AuditEntry {
            at: event.timestamp,
            session: self.session.clone(),
            seq: seq.0,
            event: event.id,
            action,
            by,
            detail,
        })
    }

    fn action(&mut self, body: Body) -> Option<(AuditAction, Option<Author>, String)> {
        Some(match body {
            Body::SessionStart(start) => (
                AuditAction::SessionCreated,
                start.by,
                start.context.map(|context| context.cwd).unwrap_or_default(),
            ),
            Body::PromptAccepted(accepted) => {
                (AuditAction::Prompted, accepted.prompt.by, accepted.prompt.text)
            }
            Body::PermissionRequested(requested) => {
                self.requests.insert(requested.request_id, subject(&requested.permission_request));
                return None;
            }
            Body::PermissionCompleted(completed) => {
                let subject = self.requests.remove(&completed.request_id).unwrap_or_default();
                (decision(&completed.result)?, completed.by, subject)
            }
            Body::RequestOpened(opened) => {
                let subject = match opened.question {
                    Question::UserInput(asked) => asked.question,
                    Question::Plan(plan) => format!("plan: {}", plan.summary),
                };
                self.requests.insert(opened.request_id, subject);
                return None;
            }
            Body::RequestClosed(closed) => {
                let subject = self.requests.remove(&closed.request_id).unwrap_or_default();
                // A request that nobody answered was withdrawn.
                (AuditAction::Answered, Some(closed.by?), subject)
            }
            Body::Abort(abort) => (AuditAction::Cancelled, abort.by, "the running turn and the queue".into()),
            Body::ApprovalsChanged(change) => grant_change(change),
            Body::RulesChanged(change) => (AuditAction::RulesChanged, change.by, json(&*change.rules)),
            Body::SandboxChanged(change) => (AuditAction::SandboxChanged, change.by, json(&change.choice)),
            Body::ModeChanged(change) => (AuditAction::ModeChanged, change.by, json(&change.new_mode)),
            Body::PermissionsChanged(change) => {
                (AuditAction::PermissionModeChanged, change.by, json(&change.mode))
            }
            Body::ModelChange(change) => (AuditAction::ModelChanged, change.by, change.new_model),
            Body::ShellRun(run) => (AuditAction::CommandRun, run.by, run.command),
            Body::ShellStarted(ShellStarted { command, cwd, by }) => {
                let elsewhere = cwd.map(|cwd| format!(" (in {cwd})")).unwrap_or_default();
                (AuditAction::CommandRun, by, format!("{command}{elsewhere}"))
            }
            Body::Renamed(renamed) if renamed.by_user => (AuditAction::Renamed, renamed.by, renamed.name),
            Body::HistoryTruncated(cut) => {
                (AuditAction::Rewound, cut.by, format!("to event {}", cut.from_seq))
            }
            _ => return None,
        })
    }
}

fn grant_change(change: ApprovalsChanged) -> (AuditAction, Option<Author>, String) {
    match (change.approval, change.revoked) {
        (Some(approval), _) => (AuditAction::GrantGiven, change.by, json(&approval)),
        (None, Some(grant)) => (AuditAction::GrantRevoked, change.by, grant.to_string()),
        (None, None) => (AuditAction::GrantRevoked, change.by, "all".into()),
    }
}

/// Returns the decision of an outcome; none for a request that was withdrawn.
fn decision(outcome: &PermissionOutcome) -> Option<AuditAction> {
    match outcome {
        PermissionOutcome::Approved {}
        | PermissionOutcome::ApprovedForSession { .. }
        | PermissionOutcome::ApprovedForLocation { .. } => Some(AuditAction::Approved),
        PermissionOutcome::Cancelled { .. } => None,
        PermissionOutcome::DeniedByRules { .. }
        | PermissionOutcome::DeniedNoApprovalRuleAndCouldNotRequestFromUser {}
        | PermissionOutcome::DeniedInteractivelyByUser { .. }
        | PermissionOutcome::DeniedByPermissionRequestHook { .. } => Some(AuditAction::Denied),
    }
}

/// Describes what permission was asked for.
fn subject(request: &PermissionRequest) -> String {
    match request {
        PermissionRequest::Shell { full_command_text, .. } => full_command_text.clone(),
        PermissionRequest::Write { file_name, .. } => format!("write {file_name}"),
        PermissionRequest::Read { path, .. } => format!("read {path}"),
        PermissionRequest::Url { url, .. } => format!("fetch {url}"),
        PermissionRequest::CustomTool { tool_name, .. } | PermissionRequest::Hook { tool_name, .. } => {
            format!("tool {tool_name}")
        }
        PermissionRequest::Mcp { server_name, tool_name, .. } => format!("tool {tool_name} of {server_name}"),
        PermissionRequest::Memory { .. } => "store a memory".into(),
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use baton_store::memory::MemoryStore;
    use baton_store::{NewRecord, NewSession};
    use bytes::Bytes;

    use super::*;
    use crate::owner;

    const PROMPTED: &str = r#"{"promptId":"0190c2f0-0000-7000-8000-00000000000a","prompt":{"text":"hello","by":"SDK client 1"}}"#;
    const REQUESTED: &str =
        r#"{"requestId":"r","permissionRequest":{"kind":"read","path":"/etc/hosts","intention":""}}"#;
    const APPROVED: &str = r#"{"requestId":"r","result":{"kind":"approved"},"batonBy":"HTTP API"}"#;
    const ASKED: &str = r#"{"requestId":"q","question":{"kind":"user_input","question":"Which colour?"}}"#;
    const ABORTED: &str = r#"{"reason":"user_initiated","batonBy":"terminal (ada)"}"#;

    const MODE: &str = r#"{"previousMode":"interactive","newMode":"plan""#;
    const PERMISSIONS: &str = r#"{"previousMode":"manual","mode":"allow-all""#;
    const CUT: &str = r#"{"fromEventId":"0190c2f0-0000-7000-8000-00000000000b","fromSeq":5,"eventsRemoved":1,"hasPrompts":true"#;

    fn started(more: &str) -> String {
        format!(
            r#"{{"sessionId":"c","version":1,"producer":"baton","copilotVersion":"1","startTime":"2026-11-15T20:30:00.000Z","context":{{"cwd":"/w"}}{more}}}"#
        )
    }

    fn event(second: u32, kind: &str, data: &str) -> NewRecord {
        let body = format!(
            r#"{{"type":"{kind}","data":{data},"id":"0190c2f0-0000-7000-8000-{second:012}","timestamp":"2026-11-15T20:30:{second:02}.000Z","parentId":null}}"#
        );
        NewRecord { kind: kind.into(), body: body.into() }
    }

    #[tokio::test]
    async fn decisions_are_listed_in_order_with_their_authors() {
        let store = MemoryStore::default();
        let histories = [
            ("b", vec![event(3, "baton.prompt_accepted", PROMPTED), event(9, "abort", ABORTED)]),
            (
                "a",
                vec![
                    event(4, "permission.requested", REQUESTED),
                    event(5, "assistant.message", r#"{"messageId":"m","content":"said"}"#),
                    event(6, "permission.completed", APPROVED),
                    event(7, "baton.approvals_changed", r#"{"by":"HTTP API"}"#),
                    event(10, "baton.request_opened", ASKED),
                    event(11, "baton.request_closed", r#"{"requestId":"q","answer":{},"by":"ada"}"#),
                    event(12, "baton.request_closed", r#"{"requestId":"withdrawn"}"#),
                ],
            ),
            (
                "c",
                vec![
                    event(20, "session.start", &started(r#","batonBy":"ada""#)),
                    event(21, "session.model_change", r#"{"newModel":"m","batonBy":"bob"}"#),
                    event(22, "session.mode_changed", &format!(r#"{MODE},"batonBy":"bob"}}"#)),
                    event(23, "session.permissions_changed", &format!(r#"{PERMISSIONS},"batonBy":"bob"}}"#)),
                    event(24, "baton.sandbox_changed", r#"{"choice":null,"by":"bob"}"#),
                    event(24, "baton.renamed", r#"{"name":"n","byUser":true,"by":"bob"}"#),
                    event(25, "baton.shell_run", r#"{"command":"ls","output":"","exitCode":0,"by":"bob"}"#),
                    event(26, "baton.shell_started", r#"{"command":"top","by":"bob"}"#),
                    event(27, "baton.shell_started", r#"{"command":"rm -r .","cwd":"/etc","by":"bob"}"#),
                    event(28, "baton.history_truncated", &format!(r#"{CUT},"by":"bob"}}"#)),
                ],
            ),
            // Of an older version.
            (
                "d",
                vec![
                    event(30, "session.start", &started("")),
                    event(31, "session.permissions_changed", &format!("{PERMISSIONS}}}")),
                    event(32, "baton.history_truncated", &format!("{CUT}}}")),
                ],
            ),
        ];
        for (name, records) in histories {
            let new = NewSession {
                session: name.parse().unwrap(),
                owner: owner::this_process(),
                created: Timestamp::now(),
                records,
                meta: Bytes::new(),
                busy: false,
            };
            store.create(new).await.unwrap();
        }
        let all = audit(&store, None).await.unwrap();
        let shown: Vec<String> = all
            .iter()
            .map(|entry| {
                let by = entry.by.as_ref().map_or("?", |by| by.0.as_str());
                format!("{} {} {by}: {}", entry.session, entry.action.name(), entry.detail)
            })
            .collect();
        assert_eq!(
            shown,
            [
                "b prompted SDK client 1: hello",
                "a approved HTTP API: read /etc/hosts",
                "a revoked HTTP API: all",
                "b cancelled terminal (ada): the running turn and the queue",
                "a answered ada: Which colour?",
                "c created ada: /w",
                "c model bob: m",
                "c mode bob: \"plan\"",
                "c permissions bob: \"allow-all\"",
                "c sandbox bob: null",
                "c renamed bob: n",
                "c command bob: ls",
                "c command bob: top",
                "c command bob: rm -r . (in /etc)",
                "c rewound bob: to event 5",
                "d created ?: /w",
                "d permissions ?: \"allow-all\"",
                "d rewound ?: to event 5",
            ]
        );
        let since = "2026-11-15T20:30:07Z".parse().unwrap();
        assert_eq!(audit(&store, Some(since)).await.unwrap().len(), 16);
    }
}
