//! The list of people, as data: people, logins and links, with digests of their secrets. No I/O and no clock.

use std::time::Duration;

use baton_protocol::Timestamp;
use serde::{Deserialize, Serialize};

use crate::list::later;
use crate::{Digest, Identity, LOGIN_TIME, PeopleError, PersonName, Proof, Role};

/// Maximum number of logins of one person, and of the owner; the oldest end first. They do not end those of others.
pub(crate) const MAX_LOGINS: usize = 32;

/// All people, logins and links.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PeopleDirectory {
    people: Vec<Person>,
    logins: Vec<Login>,
    links: Vec<Link>,
}

/// A person.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Person {
    /// Name.
    pub name: PersonName,
    /// Role.
    pub role: Role,
    /// When the person was added.
    pub added: Timestamp,
    /// When the token expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    token: Digest,
}

/// A browser that is logged in. Without a person it is the owner's, as long as the server has that token.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Login {
    secret: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    person: Option<PersonName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<Digest>,
    until: Timestamp,
}

/// A link that was not used yet. Without a person it is the owner's.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Link {
    code: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    person: Option<PersonName>,
    until: Timestamp,
}

impl PeopleDirectory {
    /// Returns all people, in the order in which they were added.
    #[must_use]
    pub fn people(&self) -> &[Person] {
        &self.people
    }

    pub(crate) fn forget_expired(&mut self, now: Timestamp) {
        self.logins.retain(|login| login.until > now);
        self.links.retain(|link| link.until > now);
    }

    fn find(&self, name: &PersonName) -> Option<&Person> {
        self.people.iter().find(|person| person.name == *name)
    }

    pub(crate) fn add(
        &mut self,
        name: &PersonName,
        role: Role,
        token: Digest,
        now: Timestamp,
        lasts: Option<Duration>,
    ) -> Result<(), PeopleError> {
        if self.find(name).is_some() {
            return Err(PeopleError::Exists(name.clone()));
        }
        let expires = lasts.map(|lasts| later(now, lasts));
        self.people.push(Person { name: name.clone(), role, added: now, expires, token });
        Ok(())
    }

    pub(crate) fn renew(
        &mut self,
        name: &PersonName,
        token: Digest,
        now: Timestamp,
        lasts: Option<Duration>,
    ) -> Result<(), PeopleError> {
        let found = self.people.iter_mut().find(|person| person.name == *name);
        let person = found.ok_or_else(|| PeopleError::Unknown(name.clone()))?;
        person.token = token;
        person.expires = lasts.map(|lasts| later(now, lasts));
        self.end_all(name);
        Ok(())
    }

    pub(crate) fn change_role(&mut self, name: &PersonName, role: Role) -> Result<(), PeopleError> {
        let found = self.people.iter_mut().find(|person| person.name == *name);
        found.ok_or_else(|| PeopleError::Unknown(name.clone()))?.role = role;
        Ok(())
    }

    pub(crate) fn remove(&mut self, name: &PersonName) -> Result<(), PeopleError> {
        self.find(name).ok_or_else(|| PeopleError::Unknown(name.clone()))?;
        self.people.retain(|person| person.name != *name);
        self.end_all(name);
        Ok(())
    }

    /// Ends the logins and links of a person.
    fn end_all(&mut self, name: &PersonName) {
        self.logins.retain(|login| login.person.as_ref() != Some(name));
        self.links.retain(|link| link.person.as_ref() != Some(name));
    }

    pub(crate) fn add_link(
        &mut self,
        name: Option<&PersonName>,
        code: Digest,
        until: Timestamp,
    ) -> Result<(), PeopleError> {
        if let Some(name) = name {
            self.find(name).ok_or_else(|| PeopleError::Unknown(name.clone()))?;
        }
        self.links.push(Link { code, person: name.cloned(), until });
        Ok(())
    }

    pub(crate) fn has_link(&self, code: Digest, now: Timestamp) -> bool {
        self.links.iter().any(|link| link.code == code && link.until > now)
    }

    /// Replaces a link by a login. Returns whether there was such a link.
    pub(crate) fn redeem(&mut self, code: Digest, secret: Digest, owner: Digest, now: Timestamp) -> bool {
        let Some(at) = self.links.iter().position(|link| link.code == code && link.until > now) else {
            return false;
        };
        let link = self.links.remove(at);
        let of_owner = link.person.is_none().then_some(owner);
        self.push_login(Login {
            secret,
            person: link.person,
            owner: of_owner,
            until: later(now, LOGIN_TIME),
        });
        true
    }

    pub(crate) fn add_login(
        &mut self,
        name: Option<&PersonName>,
        secret: Digest,
        owner: Option<Digest>,
        until: Timestamp,
    ) -> Result<(), PeopleError> {
        if let Some(name) = name {
            self.find(name).ok_or_else(|| PeopleError::Unknown(name.clone()))?;
        }
        self.push_login(Login { secret, person: name.cloned(), owner, until });
        Ok(())
    }

    fn push_login(&mut self, login: Login) {
        let person = login.person.clone();
        self.logins.push(login);
        let of_person = self.logins.iter().filter(|login| login.person == person).count();
        let mut surplus = of_person.saturating_sub(MAX_LOGINS);
        self.logins.retain(|login| {
            let ends = surplus > 0 && login.person == person;
            surplus -= usize::from(ends);
            !ends
        });
    }

    pub(crate) fn has_login(&self, secrets: &[Digest]) -> bool {
        self.logins.iter().any(|login| secrets.contains(&login.secret))
    }

    pub(crate) fn end_logins(&mut self, secrets: &[Digest]) {
        self.logins.retain(|login| !secrets.contains(&login.secret));
    }

    pub(crate) fn of_token(&self, token: Digest, now: Timestamp) -> Option<Identity> {
        let person = self.people.iter().find(|person| person.token == token)?;
        let is_valid = person.expires.is_none_or(|expires| expires > now);
        is_valid.then(|| person.identity(Proof::Token(token)))
    }

    pub(crate) fn of_login(&self, secret: Digest, owner: Digest, now: Timestamp) -> Option<Identity> {
        let login = self.logins.iter().find(|login| login.secret == secret && login.until > now)?;
        match &login.person {
            Some(name) => {
                let person = self.find(name)?;
                let is_valid = person.expires.is_none_or(|expires| expires > now);
                is_valid.then(|| person.identity(Proof::Login(secret)))
            }
            None => (login.owner == Some(owner)).then_some(Identity::OwnerBrowser { login: secret, owner }),
        }
    }

    /// Whether an identity has not ended: its proof is valid, and its role the same.
    pub(crate) fn knows(&self, identity: &Identity, now: Timestamp) -> bool {
        let found = match identity {
            Identity::Owner => return true,
            Identity::OwnerBrowser { login, owner } => self.of_login(*login, *owner, now),
            Identity::Person { proof: Proof::Token(token), .. } => self.of_token(*token, now),
            // The owner's digest does not matter for the login of a person.
            Identity::Person { proof: Proof::Login(login), .. } => self.of_login(*login, Digest::of(""), now),
        };
        found.as_ref() == Some(identity)
    }

    /// Returns when an identity expires.
    pub(crate) fn end_of(&self, identity: &Identity) -> Option<Timestamp> {
        let of_login = |secret: &Digest| {
            self.logins.iter().find(|login| login.secret == *secret).map(|login| login.until)
        };
        match identity {
            Identity::Owner => None,
            Identity::OwnerBrowser { login, .. } => of_login(login),
            Identity::Person { name, proof, .. } => {
                let of_token = self.find(name).and_then(|person| person.expires);
                let of_login = match proof {
                    Proof::Token(_) => None,
                    Proof::Login(login) => of_login(login),
                };
                [of_token, of_login].into_iter().flatten().min()
            }
        }
    }
}

impl Person {
    fn identity(&self, proof: Proof) -> Identity {
        Identity::Person { name: self.name.clone(), role: self.role, proof }
    }
}
