//! Clients of a server on this machine or another one: [`http`] is the API, [`discovery`] lists the servers of a home,
//! [`locate`] finds the one of a session, [`start`] starts one if there is none, [`reconnect`] counts attempts.
//!
//! `baton run`, `baton attach` and the terminal interface use it. It knows nothing of what they show.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

pub mod discovery;
mod http;
mod locate;
mod reconnect;
pub mod start;

use std::path::PathBuf;

use serde::Deserialize;

pub use self::http::{Address, Client, EventStream, RequestFailure, StreamedEvent, user_of_terminal};
pub use self::locate::ServerLocator;
pub use self::reconnect::Attempts;

/// A session in a server's list.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionView {
    /// Id.
    pub id: String,
    /// Name that a client set, or the beginning of the first prompt.
    pub title: Option<String>,
    /// Working directory.
    pub cwd: Option<String>,
    /// Sequence number of the last event.
    pub head: u64,
    /// Whether a turn runs or a prompt is queued.
    pub busy: bool,
    /// The process that holds the session, if it is another one than the server.
    pub held_by: Option<Holder>,
    /// Model or engine of the session, if it has chosen one.
    #[serde(default)]
    pub model: Option<String>,
}

/// A process that holds a session.
#[derive(Debug, Clone, Deserialize)]
pub struct Holder {
    /// Process id.
    pub pid: u32,
}

#[derive(Deserialize)]
struct SessionList {
    sessions: Vec<SessionView>,
}

/// A prompt that was accepted.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AcceptedPrompt {
    /// Its id.
    pub prompt_id: String,
}

impl Client {
    /// Lists all sessions, last changed first.
    ///
    /// # Errors
    /// When the server cannot be asked.
    pub async fn sessions(&self) -> Result<Vec<SessionView>, RequestFailure> {
        Ok(self.get::<SessionList>("/api/sessions?limit=10000").await?.sessions)
    }

    /// Finds a session by its id or a unique prefix of it.
    ///
    /// # Errors
    /// When the server cannot be asked, or no session or several match.
    pub async fn find(&self, wanted: &str) -> anyhow::Result<SessionView> {
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
pub enum NotFound {
    /// No server of a home runs.
    #[error("no running server for {}; start one with `baton serve`, or set --url or --socket", .home.display())]
    Server {
        /// The home.
        home: PathBuf,
    },
    /// There is no such session.
    #[error("no session {0:?} on the server; `baton sessions list` shows all")]
    Session(String),
    /// There is no session at all.
    #[error("no sessions yet; create one with `baton attach --new`")]
    AnySession,
}
