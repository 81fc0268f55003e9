//! Code shared by the commands that use a server: [`http`] is its API, [`locate`] finds it, [`reconnect`] finds it again,
//! [`requests`] are its questions to the user, [`answers`] what the user types, [`screen`] shows events, in the words of
//! [`watch`](crate::watch).

mod answers;
mod http;
mod locate;
mod reconnect;
mod requests;
mod screen;
mod server_requests;

use std::path::PathBuf;

use serde::Deserialize;

use crate::terminal;

pub(crate) use crate::watch::Activity;

pub(crate) use self::answers::Reply;
pub(crate) use self::http::{Address, Client, EventStream, RequestFailure, StreamedEvent, user_of_terminal};
pub(crate) use self::locate::ServerLocator;
pub(crate) use self::reconnect::Attempts;
pub(crate) use self::requests::{PendingList, PendingRequest, TRUST_TOOL, is_about_requests};
pub(crate) use self::screen::{Detail, Screen};

/// A session in a server's list.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionView {
    pub(crate) id: String,
    pub(crate) title: Option<String>,
    pub(crate) cwd: Option<String>,
    pub(crate) head: u64,
    pub(crate) busy: bool,
    /// The process that holds the session, if it is another one than the server.
    pub(crate) held_by: Option<Holder>,
    /// Model or engine of the session, if it has chosen one.
    #[serde(default)]
    pub(crate) model: Option<String>,
}

/// A process that holds a session.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Holder {
    pub(crate) pid: u32,
}

#[derive(Deserialize)]
struct SessionList {
    sessions: Vec<SessionView>,
}

/// A prompt that was accepted.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AcceptedPrompt {
    pub(crate) prompt_id: String,
}

impl Client {
    /// Lists all sessions, last changed first.
    pub(crate) async fn sessions(&self) -> Result<Vec<SessionView>, RequestFailure> {
        Ok(self.get::<SessionList>("/api/sessions?limit=10000").await?.sessions)
    }

    /// Finds a session by its id or a unique prefix of it.
    pub(crate) async fn find(&self, wanted: &str) -> anyhow::Result<SessionView> {
        let mut all = self.sessions().await?;
        if let Some(exact) = all.iter().position(|session| session.id == *wanted) {
            return Ok(all.swap_remove(exact));
        }
        all.retain(|session| session.id.starts_with(wanted));
        match all.len() {
            0 => Err(NotFound::Session(wanted.to_owned()).into()),
            1 => Ok(all.swap_remove(0)),
            _ => anyhow::bail!("{wanted:?} matches several sessions; give more of the id"),
        }
    }
}

/// Error for a server or session that does not exist.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotFound {
    #[error("no running server for {}; start one with `baton serve`, or set --url or --socket", .home.display())]
    Server { home: PathBuf },
    #[error("no session {0:?} on the server; `baton sessions list` shows all")]
    Session(String),
    #[error("no sessions yet; create one with `baton attach --new`")]
    AnySession,
}

/// Returns a session's id for a note to people: on a terminal, the beginning of a generated id, with which all commands find
/// the session, so that the note fits on a line.
pub(crate) fn id_for_people(id: &str) -> &str {
    shortened_id(id, terminal::errors_are_on_a_terminal())
}

fn shortened_id(id: &str, is_on_terminal: bool) -> &str {
    const GENERATED: usize = 36;
    match id.split_once('-') {
        Some((first, _)) if is_on_terminal && id.len() == GENERATED && first.len() == 8 => first,
        _ => id,
    }
}

/// The exit code of a prompt with this outcome.
pub(crate) fn exit_code(outcome: baton_protocol::event::Outcome) -> u8 {
    use baton_protocol::event::Outcome;
    match outcome {
        Outcome::Completed => 0,
        Outcome::Failed => 1,
        Outcome::Cancelled | Outcome::Interrupted => 130,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_ids_are_short_on_a_terminal() {
        let generated = "69a4ea27-b95e-4776-afdb-9a8f4528ded1";
        assert_eq!(shortened_id(generated, true), "69a4ea27");
        assert_eq!(shortened_id(generated, false), generated, "scripts get the whole id");
        assert_eq!(shortened_id("my-long-name", true), "my-long-name");
    }
}
