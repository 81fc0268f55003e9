//! Links for logins that were given out and have not been used. A link works once, for a limited time, and ends with the
//! process: it holds a secret.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use baton_mcp::Protected;
use baton_mcp::oauth::{Login, Returned};
use baton_protocol::SessionId;

use super::logins::LoggedIn;

/// How long a link can be used.
const LIFETIME: Duration = Duration::from_secs(15 * 60);
/// Maximum number of links.
const MAX_LINKS: usize = 256;
/// Maximum number of links for one server of one session. The oldest ones are replaced.
const MAX_OF_SERVER: usize = 4;

/// A link that waits for its browser.
pub(super) struct OpenLink {
    /// The session that asked; none for a command of the user.
    pub(super) session: Option<SessionId>,
    pub(super) server: Protected,
    pub(super) login: Login,
    pub(super) was_registered: bool,
    pub(super) begun: Instant,
}

impl OpenLink {
    fn is_expired(&self) -> bool {
        self.begun.elapsed() >= LIFETIME
    }

    fn is_for(&self, session: Option<&SessionId>, server: &str) -> bool {
        self.session.as_ref() == session && self.server.name == server
    }
}

/// All links that wait for their browsers, by the states in them.
#[derive(Default)]
pub(super) struct OpenLinks(Mutex<HashMap<String, OpenLink>>);

impl OpenLinks {
    /// Adds a link.
    ///
    /// # Errors
    /// With a message for people, when there are too many.
    pub(super) fn add(&self, link: OpenLink) -> Result<(), String> {
        let mut all = self.lock();
        all.retain(|_, known| !known.is_expired());
        let is_same = |known: &OpenLink| known.is_for(link.session.as_ref(), &link.server.name);
        while all.values().filter(|known| is_same(known)).count() >= MAX_OF_SERVER {
            let oldest = all.iter().filter(|(_, known)| is_same(known)).min_by_key(|(_, known)| known.begun);
            let Some(oldest) = oldest.map(|(state, _)| state.clone()) else { break };
            all.remove(&oldest);
        }
        if all.len() >= MAX_LINKS {
            return Err("too many logins are pending; finish or cancel one first".into());
        }
        all.insert(link.login.state.clone(), link);
        Ok(())
    }

    /// Takes the link that was used: the one of the state, or the newest one of a server if a person pasted only a code.
    /// None if there is no such link, or it has expired.
    pub(super) fn take(&self, returned: &Returned, only: Option<&LoggedIn>) -> Option<OpenLink> {
        let mut all = self.lock();
        let fits =
            |known: &OpenLink| only.is_none_or(|only| known.is_for(only.session.as_ref(), &only.server));
        let state = match (&returned.state, only) {
            (Some(state), _) => all.get(state).filter(|known| fits(known)).map(|_| state.clone()),
            (None, None) => None,
            (None, Some(_)) => {
                let own = all.iter().filter(|(_, known)| fits(known));
                own.max_by_key(|(_, known)| known.begun).map(|(state, _)| state.clone())
            }
        };
        all.remove(&state?).filter(|link| !link.is_expired())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, OpenLink>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use baton_mcp::oauth::{ClientIdentity, LoginTarget, parse_returned};

    use super::*;

    fn found() -> LoginTarget {
        LoginTarget {
            resource: "https://mcp.example".into(),
            issuer: "https://login.example".into(),
            authorization_endpoint: "https://login.example/authorize".parse().unwrap(),
            token_endpoint: "https://login.example/token".parse().unwrap(),
            registration_endpoint: None,
            names_issuer: false,
            authentication: Vec::new(),
            scopes: Vec::new(),
        }
    }

    /// Adds a link of a session for the server `docs`, and returns its state.
    fn add(links: &OpenLinks, session: &str, begun: Instant) -> String {
        let identity = ClientIdentity::configured("client".into(), None, &found());
        let login = Login::new(found(), identity, "http://127.0.0.1/oauth/callback", &[]).unwrap();
        let state = login.state.clone();
        let server = Protected {
            name: "docs".into(),
            url: "https://mcp.example".parse().unwrap(),
            oauth: Default::default(),
            is_foreign: false,
        };
        let session = Some(session.parse().unwrap());
        links.add(OpenLink { session, server, login, was_registered: false, begun }).unwrap();
        state
    }

    fn only(session: &str) -> LoggedIn {
        LoggedIn { session: Some(session.parse().unwrap()), server: "docs".into() }
    }

    fn returned(state: &str) -> Returned {
        Returned::parse(&format!("code=c&state={state}")).unwrap()
    }

    #[test]
    fn link_is_used_once_and_for_its_own_session() {
        let links = OpenLinks::default();
        let state = add(&links, "a", Instant::now());
        assert!(links.take(&returned(&state), Some(&only("b"))).is_none(), "the link of another session");
        assert!(links.take(&returned(&state), Some(&only("a"))).is_some());
        assert!(links.take(&returned(&state), None).is_none(), "it was used");
    }

    #[test]
    fn pasted_code_belongs_to_the_newest_link_of_its_server() {
        let links = OpenLinks::default();
        let now = Instant::now();
        add(&links, "a", now);
        let newest = add(&links, "a", now + Duration::from_millis(1));
        add(&links, "b", now + Duration::from_millis(2));
        let code = parse_returned("c").unwrap();
        assert!(links.take(&code, None).is_none(), "a code alone names no login");
        assert_eq!(links.take(&code, Some(&only("a"))).unwrap().login.state, newest);
    }

    #[test]
    fn old_and_surplus_links_do_not_work() {
        let links = OpenLinks::default();
        let now = Instant::now();
        let states: Vec<String> =
            (0..=MAX_OF_SERVER as u64).map(|n| add(&links, "a", now + Duration::from_millis(n))).collect();
        assert!(links.take(&returned(&states[0]), None).is_none(), "the oldest one was replaced");
        assert!(links.take(&returned(&states[1]), None).is_some());
        if let Some(long_ago) = now.checked_sub(LIFETIME) {
            let expired = add(&links, "b", long_ago);
            assert!(links.take(&returned(&expired), None).is_none());
        }
    }
}
