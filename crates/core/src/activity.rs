//! Activity of a session: whether it is busy, and which asks it refuses while it is.

use crate::ask::Refusal;
use crate::output::Work;
use crate::state::{CallStage, Durable, Session};

/// Why a busy session refuses an ask.
pub(crate) const BUSY: &str = "the session is busy; cancel its work first";

/// Why a session cannot be rewound at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewindObstacle {
    /// The session is busy. A turn whose start is gone could not end (P5), and may still change files.
    Busy,
    /// Files cannot be restored, because the session takes no snapshots of them.
    FilesNotTracked,
}

impl Durable {
    /// Whether a turn runs or the queue holds an item, as far as the history tells.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.turn.is_some() || !self.inbox.is_empty()
    }

    /// Whether requests are pending that belong to no turn: logins at MCP servers, and those of programs in the sandbox.
    #[must_use]
    pub fn has_requests_beside_turns(&self) -> bool {
        !self.logins.is_empty() || !self.walls.is_empty()
    }

    /// Whether the turn waits for a person: to approve a call or a plan, to answer a question, or to choose a fallback model.
    /// Client tools do not count: they wait for a program.
    #[must_use]
    pub fn awaits_person(&self) -> bool {
        let awaits = |stage: &CallStage| match stage {
            CallStage::AwaitingPermission { .. } | CallStage::AwaitingAnswer { .. } => true,
            CallStage::AwaitingClient { .. } | CallStage::Started | CallStage::Done { .. } => false,
        };
        self.turn.as_ref().is_some_and(|turn| {
            turn.fallback_request.is_some() || turn.calls.iter().any(|call| awaits(&call.stage))
        })
    }
}

impl Session {
    /// Whether a turn runs or the queue holds an item. While this is so, [`Abort`](crate::ask::Abort) has something to
    /// cancel.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.durable.is_busy()
    }

    /// Whether the session has to stay open: a client is attached, the session is busy, or an answer is being processed.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        !self.live.clients.is_empty() || self.is_busy() || !self.live.claimed.is_empty()
    }

    /// Whether a slash command is being run.
    #[must_use]
    pub fn is_running_command(&self) -> bool {
        let mut work = self.live.work.values();
        self.live.client_command.is_some() || work.any(|work| matches!(work, Work::RunCommand { .. }))
    }

    /// Checks whether a client can start a compaction: not in the middle of a turn. A slash command does not count as
    /// busy here, because it may be the one that compacts.
    ///
    /// # Errors
    /// If the session is busy.
    pub fn check_compaction(&self) -> Result<(), Refusal> {
        match self.is_busy() && !self.is_running_command() {
            true => Err(BUSY.into()),
            false => Ok(()),
        }
    }

    /// Returns what prevents a rewind of the conversation, or with `with_files` also of the files.
    #[must_use]
    pub fn rewind_obstacle(&self, with_files: bool) -> Option<RewindObstacle> {
        match (self.is_busy(), self.durable.facts.tracks_files) {
            (true, _) => Some(RewindObstacle::Busy),
            (false, false) if with_files => Some(RewindObstacle::FilesNotTracked),
            (false, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_protocol::PromptId;
    use baton_protocol::event::Prompt;

    use super::*;
    use crate::state::Accepted;

    fn session() -> Session {
        Session::new(baton_protocol::SessionId::random())
    }

    fn busy() -> Session {
        let mut session = session();
        let id = PromptId(uuid::Uuid::from_u128(1));
        session.durable.inbox.enqueue_mut(Accepted { id, prompt: Prompt::default().into(), held: false });
        session
    }

    #[test]
    fn busy_session_is_in_use_and_refuses_compaction_and_rewind() {
        assert!(!session().is_in_use() && session().check_compaction().is_ok());
        assert!(busy().is_in_use());
        assert_eq!(busy().check_compaction(), Err(BUSY.into()));
        assert_eq!(busy().rewind_obstacle(false), Some(RewindObstacle::Busy));
    }

    #[test]
    fn turn_waits_for_a_person_until_the_request_is_answered() {
        let mut session = busy();
        assert!(!session.durable.awaits_person());
        for (kind, data, waits) in [
            ("baton.turn_opened", r#"{"interactionId":"i"}"#, false),
            (
                "baton.switch_offered",
                r#"{"requestId":"r","model":"m","error":{"errorType":"e","message":"m"}}"#,
                true,
            ),
            ("baton.request_closed", r#"{"requestId":"r"}"#, false),
        ] {
            let event = format!(
                r#"{{"type":"{kind}","data":{data},"id":"0190c2f0-0000-7000-8000-000000000001","timestamp":"2026-11-15T20:30:54.223Z","parentId":null}}"#
            );
            session.durable.apply(&baton_protocol::Event::parse(&event).unwrap());
            assert_eq!(session.durable.awaits_person(), waits, "after {kind}");
        }
    }

    #[test]
    fn running_command_may_compact() {
        let mut session = busy();
        session.live.client_command = session.durable.inbox.peek().map(|item| item.id);
        assert_eq!(session.check_compaction(), Ok(()));
    }

    #[test]
    fn files_are_rewound_only_where_they_are_tracked() {
        let mut session = session();
        assert_eq!(session.rewind_obstacle(false), None);
        assert_eq!(session.rewind_obstacle(true), Some(RewindObstacle::FilesNotTracked));
        session.durable.facts.tracks_files = true;
        assert_eq!(session.rewind_obstacle(true), None);
    }
}
