//! Tokens of MCP servers: `mcp-tokens` in the home, apart from sessions, for its owner only, and encrypted.
//!
//! The key is in a file beside it (`mcp-tokens.key`), which protects tokens in a copy of the one file, and not from a
//! reader of the whole home; or it is in the user's keyring ([`token_key`](crate::token_key)). `docs/security.md` says so.
//!
//! A token belongs to an address of a server, an authorization server and a client. A server whose configuration names
//! another address or client never gets it.
#![allow(clippy::disallowed_methods, reason = "runs on a blocking thread")]

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use baton_disk::private;
use baton_mcp::oauth::{ClientIdentity, LoginTarget, OAuthConfig, TokenOrigin, Tokens};
use baton_protocol::Timestamp;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};

use crate::json_file::on_file;
use crate::token_key::{KeyPlace, TokenKey, random};

/// Seconds before its end that a token counts as expired.
const MARGIN: u64 = 30;
const FILE: &str = "mcp-tokens";
/// Binds the ciphertext to its purpose.
const PURPOSE: &[u8] = b"baton mcp-tokens 1";
/// Registrations that are kept.
const MOST_REGISTRATIONS: usize = 200;

/// Tokens of one server, as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredTokens {
    /// Address of the MCP server, as its configuration names it.
    pub server: String,
    /// Where the tokens came from.
    pub source: TokenOrigin,
    /// The client that they were issued to.
    pub identity: ClientIdentity,
    /// Whether the client was registered, rather than configured.
    pub was_registered: bool,
    /// The tokens.
    pub tokens: Tokens,
    /// When they were issued, in milliseconds since 1970.
    pub issued: i64,
}

impl StoredTokens {
    /// Whether the access token has expired, or is about to.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        let age = now.as_millis().saturating_sub(self.issued) / 1000;
        let age = u64::try_from(age).unwrap_or_default();
        self.tokens.expires_in.is_some_and(|seconds| age + MARGIN >= seconds)
    }
}

/// A client that was registered for us.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Registration {
    issuer: String,
    /// Where its secret is sent. Registrations of earlier versions have none, and are not used.
    #[serde(default)]
    token_endpoint: String,
    redirect: String,
    identity: ClientIdentity,
}

impl Registration {
    fn is_of(&self, found: &LoginTarget, redirect: &str) -> bool {
        self.issuer == found.issuer
            && self.token_endpoint == found.token_endpoint.as_str()
            && self.redirect == redirect
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Content {
    tokens: Vec<StoredTokens>,
    registrations: Vec<Registration>,
}

/// The tokens of a home.
#[derive(Debug, Clone)]
pub struct TokenVault {
    path: PathBuf,
    key: KeyPlace,
}

/// The reason why the file cannot be read.
enum Unreadable {
    /// Its tokens are lost: a new login is needed.
    Lost(&'static str),
    /// Something failed that may work later.
    Failed(io::Error),
}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Unreadable> for io::Error {
    fn from(why: Unreadable) -> Self {
        match why {
            Unreadable::Lost(why) => Self::other(why),
            Unreadable::Failed(error) => error,
        }
    }
}

/// Keeps other servers on the home from refreshing tokens, until it is dropped.
#[derive(Debug)]
pub struct RefreshLock(#[allow(dead_code, reason = "dropping it releases the lock")] File);

impl TokenVault {
    /// Names the file in a home, whose key is in a file or in the user's keyring. Nothing is read yet.
    #[must_use]
    pub fn new(home: &Path, keyring: bool) -> Self {
        Self { path: home.join(FILE), key: KeyPlace::new(keyring) }
    }

    /// Returns the tokens of a server, for the client of its configuration.
    pub async fn find(&self, server: &str, config: &OAuthConfig) -> Option<StoredTokens> {
        let (server, config) = (server.to_owned(), config.clone());
        let found = self.read(move |content| {
            let mut all = content.tokens.into_iter().rev();
            all.find(|stored| {
                stored.server == server && config.is_of(&stored.identity.id, stored.was_registered)
            })
        });
        found.await.unwrap_or_else(|error| {
            tracing::warn!(%error, "stored tokens of MCP servers cannot be read");
            None
        })
    }

    /// Stores tokens, in place of earlier ones for the same server.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub async fn put(&self, stored: StoredTokens) -> Result<(), String> {
        self.edit(move |content| {
            content.tokens.retain(|known| known.server != stored.server);
            content.tokens.push(stored);
        })
        .await
    }

    /// Removes all tokens of a server. Returns whether there were any.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub async fn remove(&self, server: &str) -> Result<bool, String> {
        let server = server.to_owned();
        self.edit(move |content| {
            let before = content.tokens.len();
            content.tokens.retain(|known| known.server != server);
            content.tokens.len() != before
        })
        .await
    }

    /// Returns the client that was registered for logins that return to `redirect`. It belongs to the token endpoint too:
    /// its secret is for no other address, even if another server claims to be the issuer.
    pub async fn registration(&self, found: &LoginTarget, redirect: &str) -> Option<ClientIdentity> {
        let (found, redirect) = (found.clone(), redirect.to_owned());
        let found = self.read(move |content| {
            let mut all = content.registrations.into_iter();
            all.find(|known| known.is_of(&found, &redirect))
        });
        found.await.ok().flatten().map(|known| known.identity)
    }

    /// Stores a client that was registered; without one, forgets it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub async fn put_registration(
        &self,
        found: &LoginTarget,
        redirect: &str,
        identity: Option<ClientIdentity>,
    ) -> Result<(), String> {
        let (found, redirect) = (found.clone(), redirect.to_owned());
        self.edit(move |content| {
            let all = &mut content.registrations;
            all.retain(|known| !known.is_of(&found, &redirect));
            let token_endpoint = found.token_endpoint.to_string();
            let known = |identity| Registration { issuer: found.issuer, token_endpoint, redirect, identity };
            all.extend(identity.map(known));
            let too_many = all.len().saturating_sub(MOST_REGISTRATIONS);
            all.drain(..too_many);
        })
        .await
    }

    /// Waits until no other server on the home refreshes tokens: a refresh token is used once.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub async fn lock_refresh(&self) -> Result<RefreshLock, String> {
        let path = self.path.with_extension("refresh");
        on_file(&self.path, move |_| {
            let file = private::create(path)?;
            file.lock()?;
            Ok(RefreshLock(file))
        })
        .await
    }

    async fn read<R: Send + 'static>(
        &self,
        look: impl FnOnce(Content) -> R + Send + 'static,
    ) -> Result<R, String> {
        let key = self.key.clone();
        on_file(&self.path, move |path| Ok(look(open(path, &key)?))).await
    }

    async fn edit<R: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Content) -> R + Send + 'static,
    ) -> Result<R, String> {
        let key = self.key.clone();
        on_file(&self.path, move |path| {
            if let Some(parent) = path.parent() {
                private::create_dir_all(parent)?;
            }
            let lock = private::create(path.with_extension("lock"))?;
            lock.lock()?;
            let mut content = match open(path, &key) {
                Ok(content) => content,
                Err(Unreadable::Lost(why)) => {
                    tracing::warn!(why, "the stored logins at MCP servers are lost; log in again");
                    Content::default()
                }
                Err(Unreadable::Failed(error)) => return Err(error),
            };
            let result = change(&mut content);
            private::replace_synced(path, seal(&key.obtain(path)?, &content)?)?;
            key.forget_file(path)?;
            Ok(result)
        })
        .await
    }
}

fn open(path: &Path, place: &KeyPlace) -> Result<Content, Unreadable> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Content::default()),
        Err(error) => return Err(error.into()),
    };
    let keys = place.candidates(path)?;
    if keys.is_empty() {
        return Err(Unreadable::Lost(
            "their key is missing, or in the keyring while keyring = false in [mcp]",
        ));
    }
    let opened = keys.iter().find_map(|key| unseal(key, bytes.clone()));
    opened.ok_or(Unreadable::Lost("the file or its key is damaged"))
}

fn unseal(key: &TokenKey, mut bytes: Vec<u8>) -> Option<Content> {
    let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let plain = cipher(key).ok()?.open_in_place(nonce, Aad::from(PURPOSE), sealed).ok()?;
    serde_json::from_slice(plain).ok()
}

fn seal(key: &TokenKey, content: &Content) -> io::Result<Vec<u8>> {
    let nonce = random::<NONCE_LEN>()?;
    let mut sealed = serde_json::to_vec(content)?;
    cipher(key)?
        .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(PURPOSE), &mut sealed)
        .map_err(|_| io::Error::other("cannot encrypt"))?;
    Ok([&nonce[..], &sealed].concat())
}

fn cipher(key: &TokenKey) -> io::Result<LessSafeKey> {
    let key = UnboundKey::new(&AES_256_GCM, key).map_err(|_| io::Error::other("the key is damaged"))?;
    Ok(LessSafeKey::new(key))
}

#[cfg(test)]
mod tests;
