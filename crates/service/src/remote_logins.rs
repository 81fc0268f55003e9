//! Logins at MCP servers for sessions that another server holds.
//!
//! A browser returns to the server that made its link, and only the server that holds the session can finish the login. So
//! the address that the browser returned to is sent on, as if a person had pasted it.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use baton_protocol::SessionId;

/// Number of links that are remembered.
const MOST: usize = 256;

/// Links that this server has made for sessions of others. The oldest are forgotten.
#[derive(Default)]
pub(crate) struct RemoteLogins {
    links: Mutex<VecDeque<RemoteLogin>>,
}

/// A link for a login.
pub(crate) struct RemoteLogin {
    /// The state in its address: 256 random bits.
    state: String,
    /// The session that wants it.
    pub(crate) session: SessionId,
    /// Name of the MCP server.
    pub(crate) server: String,
}

impl RemoteLogins {
    /// Remembers a link.
    pub(crate) fn remember(&self, address: &str, session: &SessionId, server: &str) {
        let Some(state) = address.split_once('?').and_then(|(_, query)| state_of(query)) else { return };
        let mut links = self.lock();
        links.truncate(MOST - 1);
        links.push_front(RemoteLogin { state, session: session.clone(), server: server.to_owned() });
    }

    /// Takes the link that a browser returned from, by the query of its address.
    pub(crate) fn take(&self, query: &str) -> Option<RemoteLogin> {
        let state = state_of(query)?;
        let mut links = self.lock();
        let found = links.iter().position(|link| link.state == state)?;
        links.remove(found)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<RemoteLogin>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the state in a query, as it is written.
fn state_of(query: &str) -> Option<String> {
    let query = query.split('#').next()?;
    let state = query.split('&').find_map(|part| part.strip_prefix("state="))?;
    (!state.is_empty()).then(|| state.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_is_found_by_its_state_once() {
        let logins = RemoteLogins::default();
        let session: SessionId = "s".parse().unwrap();
        logins.remember("https://auth.example/authorize?client_id=c&state=abc", &session, "tools");
        logins.remember("https://auth.example/authorize?client_id=c", &session, "without a state");
        assert!(logins.take("code=1").is_none() && logins.take("code=1&state=").is_none());
        assert!(logins.take("code=1&state=other").is_none());
        let found = logins.take("code=1&state=abc").unwrap();
        assert_eq!((found.session, &*found.server), (session, "tools"));
        assert!(logins.take("code=1&state=abc").is_none(), "a link is used once");
    }

    #[test]
    fn oldest_links_are_forgotten() {
        let logins = RemoteLogins::default();
        let session: SessionId = "s".parse().unwrap();
        for number in 0..=MOST {
            logins.remember(&format!("https://a/?state={number}"), &session, "tools");
        }
        assert_eq!(logins.lock().len(), MOST);
        assert!(logins.take("state=0").is_none() && logins.take("state=1").is_some());
    }
}
