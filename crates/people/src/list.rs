//! The list of people: finds the identity of a caller in it, watches it for open streams, and changes it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_protocol::Timestamp;
use baton_store::{Store, StoreError};
use tokio::sync::watch;

use crate::{CredentialRef, Digest, Identity, NewSecret, PeopleDirectory, PersonName, Role};

/// Name of the document.
const DOCUMENT: &str = "people";
/// How often the list is read for open streams: other processes change it, too.
const INTERVAL: Duration = Duration::from_millis(300);
/// Shortest wait for the end of an identity.
const MIN_WAIT: Duration = Duration::from_millis(10);
/// How long a login lasts.
pub const LOGIN_TIME: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long a one-time link can be used.
pub const LINK_TIME: Duration = Duration::from_secs(15 * 60);

/// Failure to change the list.
#[derive(Debug, thiserror::Error)]
pub enum PeopleError {
    /// The name is taken.
    #[error(
        "{0} exists already; remove that person first, or make a new token with `baton people token {0}`"
    )]
    Exists(PersonName),
    /// There is no such person.
    #[error("no such person: {0}; `baton people list` lists all")]
    Unknown(PersonName),
    /// No secure random numbers.
    #[error("the system has no random numbers")]
    NoRandom,
    /// The stored list cannot be read.
    #[error("the list of people cannot be read: {0}")]
    Damaged(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The people of a store.
pub struct People {
    store: Arc<dyn Store>,
    copy: Mutex<Option<Copy>>,
    changed: watch::Sender<u64>,
    /// Held by the one of all open streams that reads the list for the others.
    reader: tokio::sync::Mutex<()>,
    #[cfg(test)]
    reads: std::sync::atomic::AtomicUsize,
}

impl std::fmt::Debug for People {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("People")
    }
}

struct Copy {
    directory: Arc<PeopleDirectory>,
    version: u64,
}

impl People {
    /// Creates an accessor. Reads nothing yet.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Arc<Self> {
        let (copy, changed) = (Mutex::default(), watch::Sender::new(0));
        Arc::new(Self {
            store,
            copy,
            changed,
            reader: tokio::sync::Mutex::default(),
            #[cfg(test)]
            reads: std::sync::atomic::AtomicUsize::default(),
        })
    }

    /// Returns the list as it is now, so that a revocation by another process takes effect at once.
    ///
    /// # Errors
    /// When the list cannot be read. Callers must refuse access then.
    pub async fn directory(&self) -> Result<Arc<PeopleDirectory>, PeopleError> {
        Ok(self.read().await?.0)
    }

    async fn read(&self) -> Result<(Arc<PeopleDirectory>, u64), PeopleError> {
        #[cfg(test)]
        self.reads.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let document = self.store.document(DOCUMENT).await?;
        let version = document.as_ref().map_or(0, |document| document.version);
        if let Some(copy) = &*self.lock()
            && copy.version == version
        {
            return Ok((copy.directory.clone(), version));
        }
        let directory = match &document {
            Some(document) => serde_json::from_slice(&document.body)
                .map_err(|error| PeopleError::Damaged(error.to_string()))?,
            None => PeopleDirectory::default(),
        };
        Ok((self.keep(directory, version), version))
    }

    fn keep(&self, directory: PeopleDirectory, version: u64) -> Arc<PeopleDirectory> {
        let directory = Arc::new(directory);
        let mut copy = self.lock();
        if copy.as_ref().is_none_or(|copy| copy.version <= version) {
            *copy = Some(Copy { directory: directory.clone(), version });
        }
        drop(copy);
        self.changed.send_if_modified(|seen| version > std::mem::replace(seen, version.max(*seen)));
        directory
    }

    /// Changes the list, again if another process was faster.
    async fn edit<T>(
        &self,
        edit: impl Fn(&mut PeopleDirectory) -> Result<T, PeopleError>,
    ) -> Result<T, PeopleError> {
        loop {
            let (current, version) = self.read().await?;
            let mut directory = (*current).clone();
            directory.forget_expired(Timestamp::now());
            let result = edit(&mut directory)?;
            let body =
                serde_json::to_vec(&directory).map_err(|error| PeopleError::Damaged(error.to_string()))?;
            if self.store.write_document(DOCUMENT, version, body.into()).await? {
                self.keep(directory, version + 1);
                return Ok(result);
            }
        }
    }

    /// Adds a person. Returns the token, which is stored nowhere.
    ///
    /// # Errors
    /// When the name is taken, or the list cannot be written.
    pub async fn add(
        &self,
        name: &PersonName,
        role: Role,
        lasts: Option<Duration>,
    ) -> Result<NewSecret, PeopleError> {
        let token = NewSecret::random("bp_").ok_or(PeopleError::NoRandom)?;
        let now = Timestamp::now();
        self.edit(|directory| directory.add(name, role, token.digest(), now, lasts)).await?;
        Ok(token)
    }

    /// Replaces a person's token; logins with the old one end.
    ///
    /// # Errors
    /// When there is no such person, or the list cannot be written.
    pub async fn renew_token(
        &self,
        name: &PersonName,
        lasts: Option<Duration>,
    ) -> Result<NewSecret, PeopleError> {
        let token = NewSecret::random("bp_").ok_or(PeopleError::NoRandom)?;
        let now = Timestamp::now();
        self.edit(|directory| directory.renew(name, token.digest(), now, lasts)).await?;
        Ok(token)
    }

    /// Changes what a person may do. Tokens and logins stay; open connections end, because they had the earlier role.
    ///
    /// # Errors
    /// When there is no such person, or the list cannot be written.
    pub async fn change_role(&self, name: &PersonName, role: Role) -> Result<(), PeopleError> {
        self.edit(|directory| directory.change_role(name, role)).await
    }

    /// Removes a person, with all logins and links.
    ///
    /// # Errors
    /// When there is no such person, or the list cannot be written.
    pub async fn remove(&self, name: &PersonName) -> Result<(), PeopleError> {
        self.edit(|directory| directory.remove(name)).await
    }

    /// Makes a one-time link for a person; without a name, for the owner. Returns its code.
    ///
    /// # Errors
    /// When there is no such person, or the list cannot be written.
    pub async fn link(&self, name: Option<&PersonName>) -> Result<NewSecret, PeopleError> {
        let code = NewSecret::random("").ok_or(PeopleError::NoRandom)?;
        let until = later(Timestamp::now(), LINK_TIME);
        self.edit(|directory| directory.add_link(name, code.digest(), until)).await?;
        Ok(code)
    }

    /// Exchanges the code of a link for a login, once. Returns the login's secret, or none if the code is wrong, expired or
    /// used. `owner` is the digest of the server's token: an owner's login ends when the token changes.
    ///
    /// # Errors
    /// When the list cannot be written.
    pub async fn redeem(&self, code: &str, owner: Digest) -> Result<Option<NewSecret>, PeopleError> {
        let given = Digest::of(code);
        // Most wrong codes cost no write.
        if !self.read().await?.0.has_link(given, Timestamp::now()) {
            return Ok(None);
        }
        let login = NewSecret::random("").ok_or(PeopleError::NoRandom)?;
        let now = Timestamp::now();
        let used = self.edit(|directory| Ok(directory.redeem(given, login.digest(), owner, now))).await?;
        Ok(used.then_some(login))
    }

    /// Logs in a person with a token; none if the token is no person's.
    ///
    /// # Errors
    /// When the list cannot be written.
    pub async fn log_in(&self, token: &str) -> Result<Option<NewSecret>, PeopleError> {
        let Some(person) = self.of_token(token).await? else { return Ok(None) };
        let Identity::Person { name, .. } = person else { return Ok(None) };
        let login = NewSecret::random("").ok_or(PeopleError::NoRandom)?;
        let until = later(Timestamp::now(), LOGIN_TIME);
        self.edit(|directory| directory.add_login(Some(&name), login.digest(), None, until)).await?;
        Ok(Some(login))
    }

    /// Logs in the owner, who has shown the server's token.
    ///
    /// # Errors
    /// When the list cannot be written.
    pub async fn log_in_owner(&self, owner: Digest) -> Result<NewSecret, PeopleError> {
        let login = NewSecret::random("").ok_or(PeopleError::NoRandom)?;
        let until = later(Timestamp::now(), LOGIN_TIME);
        self.edit(|directory| directory.add_login(None, login.digest(), Some(owner), until)).await?;
        Ok(login)
    }

    /// Ends a login.
    ///
    /// # Errors
    /// When the list cannot be written.
    pub async fn log_out(&self, login: &str) -> Result<(), PeopleError> {
        self.log_out_all([login]).await
    }

    /// Ends logins, with one write for all of them and none for those that do not exist.
    ///
    /// # Errors
    /// When the list cannot be written.
    pub async fn log_out_all<'a>(
        &self,
        logins: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), PeopleError> {
        let logins: Vec<Digest> = logins.into_iter().map(Digest::of).collect();
        if !self.directory().await?.has_login(&logins) {
            return Ok(());
        }
        self.edit(|directory| {
            directory.end_logins(&logins);
            Ok(())
        })
        .await
    }

    /// Returns the person whose token this is.
    ///
    /// # Errors
    /// When the list cannot be read.
    pub async fn of_token(&self, token: &str) -> Result<Option<Identity>, PeopleError> {
        let directory = self.directory().await?;
        Ok(directory.of_token(Digest::of(token), Timestamp::now()))
    }

    /// Returns who has logged in with this secret. `owner` is the digest of the server's token.
    ///
    /// # Errors
    /// When the list cannot be read.
    pub async fn of_login(&self, login: &str, owner: Digest) -> Result<Option<Identity>, PeopleError> {
        self.of_logins([login], owner).await
    }

    /// Whether a standing still holds. `owner` is the digest of the server's token.
    ///
    /// # Errors
    /// When the list cannot be read. Callers must assume that it does not hold.
    pub async fn holds(&self, standing: &CredentialRef, owner: Digest) -> Result<bool, PeopleError> {
        let directory = self.directory().await?;
        let now = Timestamp::now();
        Ok(match *standing {
            CredentialRef::Owner(token) => token == owner,
            CredentialRef::Token(token) => directory.of_token(token, now).is_some(),
            CredentialRef::Login(login) => directory.of_login(login, owner, now).is_some(),
        })
    }

    /// Returns who has logged in with the first of these secrets that is a login's, with one read for all of them.
    ///
    /// # Errors
    /// When the list cannot be read.
    pub async fn of_logins<'a>(
        &self,
        logins: impl IntoIterator<Item = &'a str>,
        owner: Digest,
    ) -> Result<Option<Identity>, PeopleError> {
        let mut logins = logins.into_iter().map(Digest::of).peekable();
        if logins.peek().is_none() {
            return Ok(None);
        }
        let (directory, now) = (self.directory().await?, Timestamp::now());
        Ok(logins.find_map(|login| directory.of_login(login, owner, now)))
    }

    /// Waits until an identity ends: its proof was revoked or has expired, or its role has changed. Never returns for a holder
    /// of the owner's token.
    ///
    /// However many wait, one of them reads the list: other processes change it, too.
    pub async fn revoked(&self, identity: &Identity) {
        if *identity == Identity::Owner {
            return std::future::pending().await;
        }
        let mut changed = self.changed.subscribe();
        // A list that cannot be read proves nothing; the stream goes on until it can.
        drop(self.read().await);
        loop {
            changed.mark_unchanged();
            let directory = self.lock().as_ref().map(|copy| copy.directory.clone());
            let now = Timestamp::now();
            if directory.as_ref().is_some_and(|directory| !directory.knows(identity, now)) {
                return;
            }
            let ends = directory.and_then(|directory| directory.end_of(identity));
            tokio::select! {
                _ = changed.changed() => {}
                () = until(ends, now) => {}
                () = self.read_until_changed() => {}
            }
        }
    }

    /// Reads the list again and again until it has changed, if no other stream does that.
    async fn read_until_changed(&self) {
        let seen = self.changed.subscribe();
        let _reader = self.reader.lock().await;
        while !seen.has_changed().unwrap_or(true) {
            tokio::time::sleep(INTERVAL).await;
            drop(self.read().await);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Copy>> {
        self.copy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until a time; forever without one.
async fn until(time: Option<Timestamp>, now: Timestamp) {
    let Some(time) = time else { return std::future::pending().await };
    let left = u64::try_from(time.0.saturating_sub(now.0)).unwrap_or(0);
    // A timer has a range; whoever wakes up early waits again.
    tokio::time::sleep(Duration::from_millis(left).clamp(MIN_WAIT, LOGIN_TIME)).await;
}

/// Returns the time after a duration.
pub(crate) fn later(now: Timestamp, by: Duration) -> Timestamp {
    Timestamp(now.0.saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests;
